"""What is told of a graph beside it, from sums over windows: error rates of its edges, and what is
unseen, at once or drifting.
"""
