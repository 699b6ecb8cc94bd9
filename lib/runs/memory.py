"""The memory that there is, and the one line that is reported if it is not enough."""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from lib.files.errors import UserError
from lib.files.terminal import readable

OVERHEAD = 1 << 28  # of the process besides tensors, which may be allocated on top of the limit
CACHED = re.compile(r"^(?:total_)?inactive_file (\d+)$", re.MULTILINE)
REFUSALS = ("can't allocate memory", "not enough memory", "std::bad_alloc", "out of memory")


@contextmanager
def memory_errors(what: str, takes_less: str, device: torch.device) -> Iterator[None]:
    """Turn a want of memory within the block into an error of one line.

    Linux promises memory that it does not have and then kills who uses it. So the process may
    only take what is free now, and is refused more.

    Args:
        what: the block does, in words.
        takes_less: advice, in words; without any, nothing is limited.
        device: that memory is taken on.

    Raises:
        UserError: naming what was done.
    """
    if not takes_less:
        yield
        return
    free = free_memory()
    try:
        with _limited(free if device.type == "cpu" else 0):
            yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not any(r in str(error) for r in REFUSALS):
            raise
        raise UserError(
            f"out of memory: {what}, {readable(free)} were free; {takes_less}"
        ) from None


@contextmanager
def _limited(allowed: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    held = _kilobytes(Path("/proc/self/status"), "VmData:")  # what RLIMIT_DATA counts
    if allowed and held:
        most = held + allowed + OVERHEAD
        hard = before[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def free_memory() -> int:
    """Return the bytes that this process may take without swapping; 0 if nothing says so.

    That is the least of what the machine has, and of what its control groups (a container's) allow.
    """
    free = [_kilobytes(Path("/proc/meminfo"), "MemAvailable:"), *_free_in_groups()]
    return min([count for count in free if count], default=0)


def _free_in_groups(root: Path = Path("/")) -> Iterator[int]:
    """Yield what the control groups of this process leave free, of version 1 and of version 2."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup" / ("memory" if controllers else "")
        names = ("limit_in_bytes", "usage_in_bytes") if controllers else ("max", "current")
        group = top / path.strip("/")
        for folder in {top, group, *(one for one in group.parents if one.is_relative_to(top))}:
            limit, used = (_read(folder / f"memory.{name}").strip() for name in names)
            cached = CACHED.search(_read(folder / "memory.stat"))
            if limit.isdecimal() and used.isdecimal():
                yield max(1, int(limit) - int(used) + (int(cached[1]) if cached else 0))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _kilobytes(path: Path, name: str) -> int:
    lines = (line.split() for line in _read(path).splitlines())
    return next((int(line[1]) * 1024 for line in lines if line[0] == name), 0)
