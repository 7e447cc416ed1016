"""Fitting of weights, on a given graph or together with gates."""
