"""A seeded fuzzer: hostile files and flags against the real stages of every kind of input.

``python -m tests.attack --count 10000 --seed 1`` runs by hand what ``test_attack.py`` runs a few
hundred of. Each case takes a tree of data and outputs that the stages made (``world.py``), damages
a file of it, the command line or a variable of make (``mutations/``), runs the commands that read
it in processes with bounded time and memory (``runner.py``), and judges how they ended
(``judging.py``): success, or one line on standard error with exit code 2, with nothing changed that
the command may not write.
"""
