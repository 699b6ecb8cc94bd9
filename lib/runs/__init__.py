"""A run of a stage: its command line and record, the identity of its results, its W&B run."""
