"""Rivers: a flood measured at many gauges, with the network of rivers as truth."""
