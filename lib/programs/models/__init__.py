"""Networks that predict latencies of tensor programs."""
