"""Measuring layouts on XLA: programs, configurations, timings."""
