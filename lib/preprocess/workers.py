"""Worker processes: how they start, and that Ctrl-C is not theirs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import resource_tracker

from joblib import Parallel, delayed

NEEDED = "lib.preprocess.collection"  # a worker's functions, and all that they import


@contextmanager
def workers_starting(jobs: int) -> Iterator[None]:
    """Have worker processes start, which takes a second, while the block does something else.

    Whatever goes wrong with it goes wrong again, and is told, when they are to work.
    """
    with ThreadPoolExecutor(1) as thread:
        if jobs > 1:
            thread.submit(_start_workers, jobs)
        yield


def _start_workers(jobs: int) -> None:
    with uninterrupted_children():
        Parallel(jobs)(delayed(_import)() for _ in range(jobs))


def _import() -> None:
    import_module(NEEDED)


@contextmanager
def uninterrupted_children() -> Iterator[None]:
    """Processes that are started in the block are never interrupted, and this one after it.

    On Ctrl-C the terminal tells every process: each worker would print a traceback.
    """
    resource_tracker.ensure_running()  # whose start would lift the block
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
