"""Which programs are worth measuring, for the two processes that know."""

SETTINGS = ("least_ms", "most_ms", "compile_seconds", "least_spread")
UNFIT = 3  # exit status of the process that measures a program, if it is not worth measuring
