"""From the cache to a network's batch, and from a network to all scores: one module an input."""
