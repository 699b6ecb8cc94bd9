"""Training on the folds of a collection: which graphs, their losses, the schedule, checkpoints."""
