"""Benchmark on systems of the dysts collection: does the learned system live on the attractor?"""
