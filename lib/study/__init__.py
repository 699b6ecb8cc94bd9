"""What permutations, batches, folds and blending buy; and what the stages will take."""
