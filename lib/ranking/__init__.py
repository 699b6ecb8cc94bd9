"""What judges a ranking: metrics, kinds of collections, true runtimes, blending, folds."""
