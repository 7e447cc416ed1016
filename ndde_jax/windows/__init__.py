"""Lagged windows: what a drift is fitted to."""
