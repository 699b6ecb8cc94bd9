"""Honest clocks: how programs of one batch are run and timed."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import mmap
import os
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm

from lib.collect.tvm.agreement import fingerprint

VISITS = 10  # of each program, seconds apart
READING_SECONDS = 4e-4  # of runs in one reading, at least one run
LIMITS = ((1e-3, 10), (4e-3, 8), (2e-2, 5), (np.inf, 3))  # seconds a run below which: visits
SHORT = 4e-3  # seconds a run: programs that take less are run once beforehand, for the caches
HUGE_PAGE = 1 << 21
ALIGNMENT = 64  # of tensors, as TVM's own


def visits_of(seconds: float) -> int:
    """Return the number of readings, after its first run, of a program of that duration."""
    return next(count for limit, count in LIMITS if seconds < limit)


def tensors_of(
    task: str, kinds: Sequence[dict[str, Any]], numbers: Sequence[np.ndarray] = ()
) -> list[tvm.runtime.Tensor]:
    """Return the tensors that a task is run on: the same, at the same offsets, in every process.

    They have the ``numbers``; else fractions between .1 and 1, of which roots and logarithms are
    numbers as well, and integers are zeros. The address of a tensor changes a program's time by up
    to tens of percent: stores and loads whose addresses differ by multiples of 4096 wait for one
    another, and small pages fall on any part of a cache. So tensors are packed one after the other,
    as a memory planner would, from the start of huge pages.
    """
    shapes = [(tuple(a["shape"]), np.dtype(a["dtype"])) for a in kinds]
    sizes = [int(np.prod(shape)) * dtype.itemsize for shape, dtype in shapes]
    ends = np.cumsum([-(-size // ALIGNMENT) * ALIGNMENT for size in sizes]).tolist()
    memory = mmap.mmap(-1, (ends[-1] // HUGE_PAGE + 2) * HUGE_PAGE)
    with contextlib.suppress(OSError):
        memory.madvise(mmap.MADV_HUGEPAGE)
    place = np.frombuffer(memory, np.uint8)
    place = place[-place.ctypes.data % HUGE_PAGE :]
    generator = np.random.default_rng(int(task, 16))
    values = []
    for k, ((shape, dtype), size, start) in enumerate(
        zip(shapes, sizes, [0, *ends[:-1]], strict=True)
    ):
        value = place[start : start + size].view(dtype).reshape(shape)
        value[...] = numbers[k] if k < len(numbers) else 0
        if dtype.kind == "f" and k >= len(numbers):
            value[...] = generator.uniform(0.1, 1, shape)
        values.append(tvm.runtime.from_dlpack(value))
    return values


M_MMAP_THRESHOLD = -3  # of mallopt


Run = tuple[tvm.runtime.Module, Sequence[Sequence[Any]]]  # f0 of a library, and sets of arguments


class Readings:
    """Times and outputs of ``count`` functions, in memory shared with forked processes.

    Attributes:
        current: (1,) the number of the function whose turn it is.
        seconds: (count, 1 + VISITS) float64, NaN where there is no reading; the first run is in
            column 0, and worth something for long runs alone.
        checks: (count, 2) float64, see :func:`lib.collect.tvm.agreement.fingerprint`.
    """

    def __init__(self, count: int):
        sizes = np.array([1, 2 * count, (1 + VISITS) * count])
        numbers = np.frombuffer(mmap.mmap(-1, 8 * int(sizes.sum())), np.float64)
        numbers[:] = np.nan
        self.current, checks, seconds = np.split(numbers, np.cumsum(sizes)[:-1])
        self.checks, self.seconds = checks.reshape(count, 2), seconds.reshape(count, 1 + VISITS)


class Stopwatch:
    """Functions that compute the same, and their readings.

    Args:
        runs: the functions, and what they are called with.
        outputs: the tensors that they write.
        begin: is called with the number of the function to run next.
        readings: where it notes what it reads.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        outputs: Sequence[Any],
        begin: Callable[[int], None],
        readings: Readings,
    ):
        self.runs, self.begin = runs, begin
        self.outputs = [np.from_dlpack(output) for output in outputs]
        self.turns = [itertools.cycle(copies) for _, copies in runs]
        self.seconds, self.checks = readings.seconds, readings.checks
        self.visits, self.order = 0, random.Random(os.getpid())

    @property
    def done(self) -> bool:
        """Return whether every function has all its readings."""
        return self.visits >= max(map(visits_of, self.seconds[:, 0]), default=VISITS)

    def first(self) -> None:
        """Run each function once; what is wrong with a program shows here."""
        for k in range(len(self.runs)):
            self.begin(k)
            for output in self.outputs:
                output[...] = np.array(-7).astype(output.dtype)
            self.seconds[k, 0] = self._taken(k, 1)
            self.checks[k] = fingerprint(*self.outputs)

    def read(self) -> None:
        """Read each function once, in random order; new functions are run for the first time."""
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 4096)  # so temporaries begin a page always
        if not self.visits:
            self.first()
        self.visits += 1
        todo = [k for k, t in enumerate(self.seconds[:, 0]) if self.visits <= visits_of(t)]
        self.order.shuffle(todo)
        for k in todo:
            self.begin(k)
            self.seconds[k, self.visits] = self._reading(k)

    def _reading(self, k: int) -> float:
        """Return the mean seconds of a run."""
        if (first := self.seconds[k, 0]) >= SHORT:
            return self._taken(k, 1)
        number = max(1, int(np.ceil(READING_SECONDS / first)))
        library, copies = self.runs[k]
        if len(copies) > 1:
            return self._taken(k, number)
        return library.time_evaluator("f0", tvm.cpu(0), number, 1)(*copies[0]).results[0]

    def _taken(self, k: int, number: int) -> float:
        """Return the mean seconds of some runs, each with the next copy of its arguments."""
        copies = list(itertools.islice(self.turns[k], number))
        return mean_seconds(self.runs[k][0]["f0"], copies)


def mean_seconds(function: Callable[..., Any], copies: Sequence[Sequence[Any]]) -> float:
    """Return the mean seconds of some runs, each with its own arguments.

    On a core that others use as well, one thread is timed by the time that it had the core; the
    clock of a process with several threads is ahead of the wall's.
    """
    wall, processor = time.perf_counter(), time.process_time()
    for arguments in copies:
        function(*arguments)
    taken = time.process_time() - processor, time.perf_counter() - wall
    return min(taken) / len(copies)
