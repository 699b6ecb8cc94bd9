"""Predicting latencies on a new device, or of new networks, from few measurements or none."""
