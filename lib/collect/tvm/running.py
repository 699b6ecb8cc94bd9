"""Programs and whole networks, compiled for a device and timed on a quiet core."""

from __future__ import annotations

import mmap
import os
import signal
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm.ir import IRModule

from lib.collect.quiet import TimingCore
from lib.collect.tvm import compiler
from lib.collect.tvm.deployment import packed, weights_of
from lib.collect.tvm.timing import (
    Anywhere,
    Arena,
    Clock,
    Run,
    Stopwatch,
    end_with_parent,
    mean_seconds,
    reference_program,
)

SMALL = 1 << 15  # bytes of weights that are in the caches whatever else a network reads
MOST_WEIGHTS = 1 << 26  # bytes of copies of a program's weights
VISITS = 10  # of a network, apart from each other; the fastest counts, as of programs
READING_SECONDS = 0.02
PAUSE_SECONDS = 0.5
PROGRAM_PAUSE_SECONDS = 0.02  # between two readings of programs that somebody waits for


def clock_on(core: int | None, realtime: bool = False) -> Clock:
    """A clock on a core; on no core in particular without one."""
    library = compiler.machine_program(compiler.lowered([reference_program()]), "avx2")
    place = Anywhere() if core is None else TimingCore(core, realtime=realtime)
    return Clock(place, library, os.getpid())


def arguments_of(module: IRModule) -> dict[str, Any]:
    """Shapes and types of a tensor program's arguments."""
    arguments = [
        {"shape": [int(x) for x in p.shape], "dtype": str(p.dtype)} for p in module["main"].params
    ]
    return {"arguments": arguments}


def time_programs(
    task: str,
    modules: Sequence[IRModule],
    device: str,
    clock: Clock,
    values: Sequence[np.ndarray] = (),
    limit: float = 0,
    footprint: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Programs of one task, one after the other, as the dataset has them.

    A child of this process compiles and runs them, so that a program that never ends or brings its
    process down, costs no other.

    Args:
        task: its hash, which decides what the programs are run on, unless there are values.
        modules: the programs.
        device: instruction set.
        clock: to time them with.
        values: of the arguments.
        limit: seconds after which compiling a program, or a reading of it, is given up; 0 for none.
        footprint: bytes of weights that are read between two runs of a program in its network, and
            so are read here; 0 for programs that find their weights in the caches.

    Returns:
        (n,) seconds, NaN of what does not compile, does not end or fails; (n, 2) fingerprints of
        what they compute.
    """
    batch = _Batch(task, modules, device, clock, values, limit, footprint)
    todo = list(range(len(modules)))
    while todo:
        batch.current[0] = todo[0]
        if _in_a_child(lambda: batch.time(todo)):
            break
        todo.remove(int(batch.current[0]))
    return batch.rows[:, 0].copy(), batch.rows[:, 1:].copy()


@dataclass
class _Batch:
    """What :func:`time_programs` shares with its children.

    Attributes:
        current: (1,) which program has its turn.
        rows: (n, 3) seconds and fingerprints, NaN until they are known.
    """

    task: str
    modules: Sequence[IRModule]
    device: str
    clock: Clock
    values: Sequence[np.ndarray]
    limit: float
    footprint: int

    def __post_init__(self) -> None:
        memory = np.frombuffer(mmap.mmap(-1, 8 * (1 + 3 * len(self.modules))), np.float64)
        self.current, self.rows = memory[:1], memory[1:].reshape(-1, 3)
        self.rows[:] = np.nan

    def begin(self, k: int) -> None:
        """Note whose turn it is, and give it its time."""
        self.current[0] = k
        signal.setitimer(signal.ITIMER_REAL, self.limit)

    def time(self, todo: Sequence[int]) -> None:
        """Fill the rows of some programs."""
        arena = Arena()
        base = arena.arguments(self.task, arguments_of(self.modules[0]), self.values)
        runs, good = [], []
        for k in todo:
            self.begin(k)
            with suppress(Exception):  # of TVM or LLVM, whatever its kind
                runs.append(self._run(self.modules[k], base))
                good.append(k)
        outputs = compiler.outputs_of(self.modules[0])
        watch = Stopwatch(runs, [base[k] for k in outputs], lambda k: self.begin(good[k]))
        while good and not watch.done:
            self.clock.visit([watch])
            time.sleep(PROGRAM_PAUSE_SECONDS)
        if good:
            self.rows[good] = np.column_stack([np.nanmin(watch.seconds[:, 1:], 1), watch.checks])

    def _run(self, module: IRModule, base: Sequence[Any]) -> Run:
        """A program compiled, and what it is called with: the arguments, its weights packed."""
        parts = packed(module)
        modules = [parts.program, *([parts.pack] if parts.pack else [])]
        library = compiler.machine_program(compiler.lowered(modules), self.device)
        weights = {k: base[k] for k in weights_of(self.modules[0])}
        if parts.pack:
            about = arguments_of(parts.program)["arguments"]
            new = {
                k: tvm.runtime.empty(tuple(about[k]["shape"]), about[k]["dtype"])
                for k in parts.writes
            }
            library["f1"](*[base[k] for k in parts.reads], *new.values())
            weights |= new
        copies = [weights]
        size = sum(np.from_dlpack(weight).nbytes for weight in weights.values())
        if size >= SMALL:
            copies += [
                {k: tvm.runtime.tensor(weight) for k, weight in weights.items()}
                for _ in range(min(self.footprint, MOST_WEIGHTS) // size)
            ]
        return Run(
            library,
            "f0",
            [[copy.get(k, tensor) for k, tensor in enumerate(base)] for copy in copies],
        )


def _in_a_child(work: Callable[[], None]) -> bool:
    """Whether a copy of this process comes to the end of some work."""
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends the process, whatever it is doing
        end_with_parent()
        code = 1
        try:
            work()
            code = 0
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def readings(
    runs: Mapping[str, Callable[[], Any]], clock: Clock, visits: int = VISITS
) -> dict[str, list[float]]:
    """(visits,) seconds of a run of each of some networks, which take turns."""
    numbers = {}
    for name, run in runs.items():
        run()
        numbers[name] = max(1, int(READING_SECONDS / mean_seconds(run, [()])))
    found: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(visits):
        time.sleep(PAUSE_SECONDS)
        with clock.core.calm():
            for name, run in runs.items():
                run()  # what ran before it has left its own data in the caches
                found[name].append(mean_seconds(run, [()] * numbers[name]))
    return found


def fastest(runs: Mapping[str, Callable[[], Any]], clock: Clock) -> dict[str, float]:
    """Seconds of a run of each; the fastest reading counts."""
    return {name: min(taken) for name, taken in readings(runs, clock).items()}
