"""Prices of a TPU's layouts: arithmetic, and what was measured, solved for."""
