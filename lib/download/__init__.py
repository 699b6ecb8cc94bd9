"""Fetching the official archives: transfer, unpacking."""
