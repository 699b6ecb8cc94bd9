"""The materialized form of a collection: what stage 1 writes and later stages map into memory."""
