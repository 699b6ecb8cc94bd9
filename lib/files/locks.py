"""The kernel's locks on what a process writes.

Two runs of one stage in one folder of outputs would clear away and write over each other's
unfinished files. The second waits until the first has ended; and what is cleared away as left over
is only what no living process writes.

The kernel drops a lock (``flock``) with the process that holds it, however that ends: a kill leaves
none behind. On a network file system the locks are as good as the server's; where there are none,
nothing waits and everything else is as it is.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

FOLDER = ".make"  # below the outputs: what make and the stages keep for themselves
CORES = Path("/sys/devices/system/cpu")  # a folder a core, the same for all users


@contextmanager
def only_writer(outputs: Path, artifact: Path) -> Iterator[bool]:
    """Let no other process write an artifact while the block runs; wait for one that does.

    Args:
        outputs: the folder of all outputs.
        artifact: what is written, a path below ``outputs``.

    Yields:
        Whether there was one to wait for. It has written the artifact, or was killed or failed.
    """
    name = ".".join(Path(artifact).relative_to(outputs).parts)
    path = Path(outputs, FOLDER, f"{name}.lock")
    descriptor, waited = None, False
    # A disk that is full or read-only ends the stage when it writes, which names the artifact.
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, waited = _locked(path, artifact)
    try:
        yield waited
    finally:
        if descriptor is not None:
            path.unlink(missing_ok=True)
            os.close(descriptor)


def _locked(path: Path, artifact: Path) -> tuple[int, bool]:
    """A descriptor of the locked file, and whether another process had it before."""
    waited = False
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            if not _try_lock(descriptor, fcntl.LOCK_EX):
                if not waited:  # say for whom, as the holder of the lock has written into its file
                    holder = os.pread(descriptor, 100, 0).decode(errors="replace")
                    process, _, since = holder.partition(" ")
                    who = f"process {process} has been writing it since {since}"
                    text = f"{artifact}: {who if since else 'it is being written'}"
                    print(f"{text}; waiting for that to end", file=sys.stderr, flush=True)
                waited = True
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_at(descriptor, path):
                with suppress(OSError):  # for messages alone
                    os.truncate(descriptor, 0)
                    os.write(descriptor, f"{os.getpid()} {time.strftime('%F %T')}".encode())
                return descriptor, waited
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its holder has removed the file, and the next one makes another


@contextmanager
def only_on(cores: Sequence[int], count: int = 1) -> Iterator[list[int]]:
    """Let no other process measure on some cores while the block runs.

    Args:
        cores: that it may take, the best first; those that another one has are left to it.
        count: of cores that it takes; it waits until so many are free.

    Yields:
        These.
    """
    waited = False
    while True:
        with ExitStack() as stack:
            free: list[int] = []
            for core in cores:
                if len(free) < count and _locks(stack, CORES / f"cpu{core}"):
                    free.append(core)
            if len(free) == count:
                yield free
                return
        if not waited:
            text = f"core {', '.join(map(str, cores))}: another search measures there"
            print(f"{text}; waiting for that to end", file=sys.stderr, flush=True)
        waited = True
        time.sleep(1)


@contextmanager
def in_use(path: Path) -> Iterator[None]:
    """Mark a file or folder that a living process writes or reads, while the block runs."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        _try_lock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def is_in_use(path: Path) -> bool:
    """Return whether a file or folder is marked by :func:`in_use`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return not _try_lock(descriptor, fcntl.LOCK_EX)
    finally:
        os.close(descriptor)


def _locks(stack: ExitStack, path: Path) -> bool:
    """Lock a file or folder until the stack ends; return whether no other process has it."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return True
    stack.callback(os.close, descriptor)
    return _try_lock(descriptor, fcntl.LOCK_EX)


def _try_lock(descriptor: int, kind: int) -> bool:
    """Return whether the lock is had; also true where the file system has none."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
