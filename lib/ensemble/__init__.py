"""Stage 4's wing: which folds to blend, the submission, and how good it is."""
