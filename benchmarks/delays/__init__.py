"""Recovering delayed drivers: which variable drives which, at which delay."""
