"""Which programs are of a size that is worth measuring, for the two processes that know."""

SETTINGS = ("least_ms", "most_ms", "compile_seconds")  # of a run, and of a configuration
UNFIT = 3  # exit status of the process that measures a program, if it is of another size
