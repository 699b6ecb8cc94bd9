"""What all tests share.

A thread a process, as folds have it, for they run side by side. And the same examples in every run
of a property: what a run says is about the change and not about luck. Others are tried with
``--hypothesis-profile=others``.
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported; threads wait by spinning

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from xdist.scheduler import LoadScopeScheduling

settings.register_profile("same", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("others", deadline=None)
settings.load_profile("same")
# Nor are examples made of the numbers and texts in modules that other tests happen to have loaded,
# which takes seconds as well.
providers._get_local_constants = lambda: providers._local_constants

HERE = Path(__file__).parent
os.environ["PIP_CONSTRAINT"] = str(HERE / "constraints.txt")  # of all that tests start
TOGETHER = "report"  # tests of a folder that share what takes longest


def pytest_configure(config):
    """All processes of a run share one Python that starts at once; it imports while they do."""
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        from tests.interpreter import STARTED, start

        os.environ[STARTED] = str(start())


def pytest_collection_modifyitems(items):
    """What runs whole stages comes first: it takes longest, and no core is to wait for it."""
    items.sort(key=lambda item: item.path.parent not in (HERE, HERE / TOGETHER))


@pytest.fixture(scope="session", autouse=True)
def no_test_sets_up_the_environment():
    """It takes minutes, and whoever runs the tests has done it: a test has make without it."""
    before = set(Path(sys.prefix).glob(".ready*"))
    yield
    added = set(Path(sys.prefix).glob(".ready*")) - before
    for stamp in added:
        stamp.unlink()
    assert not added, "a test let make set up a part of the environment (make_without_setup)"


class ByFile(LoadScopeScheduling):
    """A file's tests share what they set up, so that one process runs them all."""

    def _split_scope(self, nodeid: str) -> str:
        path = Path(nodeid.partition("::")[0])
        return str(path.parent if path.parent.name == TOGETHER else path)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return ByFile(config, log)
