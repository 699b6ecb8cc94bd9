"""What XLA for CPUs does with layouts: copies, loops, library calls, and what these cost."""
