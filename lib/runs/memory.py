"""The memory that there is, and the one line that is reported if it is not enough."""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from lib.files.errors import UserError

OVERHEAD = 1 << 28  # of the process besides tensors, which may be allocated on top of the limit
CACHED = re.compile(r"^inactive_file (\d+)$", re.MULTILINE)
REFUSALS = ("can't allocate memory", "not enough memory", "std::bad_alloc", "out of memory")


@dataclass(frozen=True)
class Estimate:
    """The memory that a step is expected to take.

    Attributes:
        bytes: of activations, with those that gradients need; 0 if nobody knows.
        what: the step, in words.
        advice: what takes less.
        limit: bytes that it may take; 0 for all that is free.
    """

    bytes: int
    what: str
    advice: str
    limit: int = 0

    def __str__(self) -> str:
        """One line."""
        return self.what + (f" takes about {gigabytes(self.bytes)}" if self.bytes else "")


@contextmanager
def memory_errors(
    estimate: Estimate | None, device: torch.device, announced_by: str = ""
) -> Iterator[None]:
    """Turn a want of memory within the block into an error of one line.

    Linux promises memory that it does not have and then kills who uses it. So the process may
    only take what is free now (or the estimate's limit), and is refused more.

    Args:
        estimate: of what the block takes; ``None`` limits nothing.
        device: that it is taken on.
        announced_by: the stage that prints the estimate beforehand; none prints nothing.

    Raises:
        UserError: naming the estimate.
    """
    if estimate is None:
        yield
        return
    allowed = estimate.limit or free_memory()
    if announced_by and estimate.bytes:
        print(f"{announced_by}: {estimate}, {gigabytes(allowed)} allowed", flush=True)
    try:
        with _limited(allowed if device.type == "cpu" else 0):
            yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not any(r in str(error) for r in REFUSALS):
            raise
        had = f"{gigabytes(allowed)} were free"
        if estimate.limit:
            had = f"--memory-gigabytes allows {gigabytes(allowed)}"
        raise UserError(f"out of memory: {estimate}, {had}; {estimate.advice}") from None


def gigabytes(count: float) -> str:
    """Return bytes in GB, or in MB if there are few."""
    return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"


@contextmanager
def _limited(allowed: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    if allowed and (held := _private()):
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
    """Yield what the control groups of this process leave free."""
    groups = dict(line.split(":", 2)[1:] for line in _read(root / "proc/self/cgroup").splitlines())
    top = root / "sys/fs/cgroup"
    group = top / groups.get("", "/").strip("/")
    for folder in {top, group, *(one for one in group.parents if one.is_relative_to(top))}:
        limit, used = (_read(folder / f"memory.{name}").strip() for name in ("max", "current"))
        cached = CACHED.search(_read(folder / "memory.stat"))
        if limit.isdecimal() and used.isdecimal():
            yield max(1, int(limit) - int(used) + (int(cached[1]) if cached else 0))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _private() -> int:
    """Bytes of this process that RLIMIT_DATA counts."""
    return _kilobytes(Path("/proc/self/status"), "VmData:")


def _kilobytes(path: Path, name: str) -> int:
    lines = (line.split() for line in _read(path).splitlines())
    return next((int(line[1]) * 1024 for line in lines if line[0] == name), 0)
