"""Test systems of the kinds used in other fields, with observed and hidden variables."""
