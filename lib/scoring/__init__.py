"""The wing of stages 3 and 4: scores, the blend of folds, submission, how good it is; ranking."""
