"""Accuracy of the simulator on published problems: error and order of every solver."""
