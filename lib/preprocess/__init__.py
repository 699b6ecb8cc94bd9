"""Stage 1's wing: prune, de-duplicate, compress and pad each graph."""
