"""Test systems of the kinds that records of the world are: what is seen, and what is not."""
