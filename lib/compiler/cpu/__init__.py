"""Effects of layouts in XLA for CPUs: copies, loops, library calls, and their costs."""
