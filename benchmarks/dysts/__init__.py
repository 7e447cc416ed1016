"""Benchmark on systems of the dysts collection: does the learned system have the true attractor?"""
