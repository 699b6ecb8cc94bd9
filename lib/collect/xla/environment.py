"""Environment variables under which XLA compiles and runs what is measured.

Variables of JAX and XLA that a user has set, such as ``JAX_ENABLE_X64``, would make other programs
of the same module, so that they are cleared, which is said.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

# The allocator keeps big temporaries instead of returning them to the system after every run,
# which otherwise makes the same program read 2.3 or 2.9 ms by the state of the process.
ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 32),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 34),
    "MALLOC_TOP_PAD_": str(1 << 28),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false --xla_backend_optimization_level=1",
    "JAX_PLATFORMS": "cpu",
    "JAX_CPU_ENABLE_ASYNC_DISPATCH": "0",  # run in the thread that times, not in a pool's
    "OMP_NUM_THREADS": "1",
}
CLEARED = ("JAX_", "XLA_", "TF_XLA_")  # how variables begin that change what XLA compiles


def measuring_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment to measure in; variables of JAX and XLA that it clears are named on
    standard error."""
    foreign = {
        name: value
        for name, value in inherited.items()
        if name.startswith(CLEARED) and ENVIRONMENT.get(name) != value
    }
    if foreign:
        shown = ", ".join(f"{name}={value!r}" for name, value in sorted(foreign.items()))
        print(f"cleared {shown}: what is measured must not depend on it", file=sys.stderr)
    kept = {name: value for name, value in inherited.items() if name not in foreign}
    return kept | ENVIRONMENT


def time_here(module: str, core: int) -> None:
    """Have this process time on one core in ``ENVIRONMENT``; starts it anew where it has another.

    Args:
        module: that runs, such as ``lib.collect.xla.copies``.
        core: that it stays on.
    """
    environment = measuring_environment(os.environ)
    if environment != dict(os.environ):
        sys.stderr.flush()
        command = [sys.executable, "-m", module, *sys.argv[1:]]
        os.execve(sys.executable, command, environment)  # JAX reads it when a process starts
    os.sched_setaffinity(0, {core})  # XLA takes a thread for each core that it sees
