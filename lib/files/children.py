"""Processes that are not to outlive the one that started them."""

from __future__ import annotations

import ctypes
import signal

_libc = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1  # of prctl, which Linux has


def end_with_parent() -> None:
    """Have the system end this process when the one that made it ends.

    What is left of a killed run must neither write what another run makes anew, nor take the time
    of the core on which that measures. For ``preexec_fn`` of a subprocess, and after a fork.
    """
    if hasattr(_libc, "prctl"):
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
