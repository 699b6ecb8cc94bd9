"""Evaluation of rankings: metrics, kinds of collections, true runtimes, blending and folds."""
