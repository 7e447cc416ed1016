"""Speed of training, as ratios against peers measured in the same run."""
