"""The wing of stages 3 and 4: scores, the blend of folds, submissions and how good they are."""
