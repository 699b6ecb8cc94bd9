"""What permutations, batches, folds and blending buy."""
