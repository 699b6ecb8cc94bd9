"""What all tests share: a thread a process, as folds have it, for they run side by side."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported; threads wait by spinning
