"""What all tests share.

A thread a process, as folds have it, for they run side by side. And the same examples in every run
of a property: what a run says is about the change and not about luck. Others are tried with
``--hypothesis-profile=others``.
"""

import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported; threads wait by spinning

import pytest
from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("others", deadline=None)
settings.load_profile("same")

HERE = Path(__file__).parent
TOGETHER = HERE / "report"  # tests of a folder that share what takes longest


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items):
    """What runs whole stages comes first: it takes longest, and no core is to wait for it.

    A file's tests share what they set up, so that one process runs them all.
    """
    items.sort(key=lambda item: item.path.parent not in (HERE, TOGETHER))
    for item in items:
        path = item.path.parent if item.path.parent == TOGETHER else item.path
        item.add_marker(pytest.mark.xdist_group(str(path.relative_to(HERE))))
