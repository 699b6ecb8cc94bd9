"""Ctrl-C is not for worker processes."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


@contextmanager
def uninterrupted_children() -> Iterator[None]:
    """Processes that are started in the block are never interrupted, and this one after it.

    On Ctrl-C the terminal interrupts every process: each worker would print a traceback.
    """
    resource_tracker.ensure_running()  # whose start would lift the block
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
