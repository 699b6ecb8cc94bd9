"""What all tests share.

A thread a process, as folds have it, for they run side by side. And the same examples in every run
of a property: what a run says is about the change and not about luck. Others are tried with
``--hypothesis-profile=others``.
"""

import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported; threads wait by spinning

from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("others", deadline=None)
settings.load_profile("same")

HERE = Path(__file__).parent
LONGEST = HERE / "test_quality_floor.py"


def pytest_collection_modifyitems(items):
    """Files that run whole stages come first: they take longest, and no core is to wait for one."""
    items.sort(key=lambda item: (item.path != LONGEST, item.path.parent != HERE))
