"""Blocks that networks of several models share, and how they see a cached graph."""
