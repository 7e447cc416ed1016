"""Families of drifts, and what a learned one can be asked."""
