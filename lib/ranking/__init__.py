"""What makes a ranking: metrics, blending, the baseline, folds, the noise of labels."""
