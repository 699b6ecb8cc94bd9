"""Predictions for the processor that this is, corrected by programs measured on it."""
