"""The models, a folder each: network, inputs (from the cache to a batch), training, settings."""
