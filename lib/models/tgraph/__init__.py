"""TGraph, as the paper has it."""
