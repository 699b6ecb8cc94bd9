"""Hostile files and flags: each ends in success or in one line, and changes nothing else."""
