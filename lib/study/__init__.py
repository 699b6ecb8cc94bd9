"""What folds and blending buy; and what the stages will take."""
