"""Accuracy of the simulator on problems of others: error and order of every solver."""
