"""The materialized form of a collection: what stage 1 writes and the others map into memory."""
