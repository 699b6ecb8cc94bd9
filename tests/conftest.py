"""What all tests share.

A thread a process, as folds have it, for they run side by side. And the same examples in every run
of a property: what a run says is about the change and not about luck. Others are tried with
``--hypothesis-profile=others``.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported; threads wait by spinning

from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("others", deadline=None)
settings.load_profile("same")
