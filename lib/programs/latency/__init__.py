"""Latency of a whole network, from what its tensor programs are predicted to take."""
