"""Speed of training and simulating, as ratios against peers measured in the same run."""
