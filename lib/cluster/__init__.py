"""Handing the stages' commands to Ray or Slurm; Make stays what knows when each may run."""
