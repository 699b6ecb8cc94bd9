"""Programs and whole networks, compiled for a device and timed on a quiet core."""

from __future__ import annotations

import mmap
import os
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import IRModule

from lib.collect.quiet import TimingCore
from lib.collect.tvm import compiler
from lib.collect.tvm.importing import arrays_of
from lib.collect.tvm.timing import (
    Anywhere,
    Arena,
    Clock,
    Stopwatch,
    end_with_parent,
    reference_program,
)

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

    Returns:
        (n,) seconds, NaN of what does not compile, does not end or fails; (n, 2) fingerprints of
        what they compute.
    """
    batch = _Batch(task, modules, device, clock, values, limit)
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
        functions, good = [], []
        for k in todo:
            self.begin(k)
            with suppress(Exception):  # of TVM or LLVM, whatever its kind
                lowered = compiler.lowered([self.modules[k]])
                functions.append((compiler.machine_program(lowered, self.device), "f0"))
                good.append(k)
        arguments = Arena().arguments(self.task, arguments_of(self.modules[0]), self.values)
        outputs = compiler.outputs_of(self.modules[0])
        watch = Stopwatch(functions, arguments, outputs, lambda k: self.begin(good[k]))
        while good and not watch.done:
            self.clock.visit([watch])
            time.sleep(PROGRAM_PAUSE_SECONDS)
        if good:
            self.rows[good] = np.column_stack([np.nanmin(watch.seconds[:, 1:], 1), watch.checks])


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


def end_to_end(
    module: IRModule, device: str, clock: Clock, values: Sequence[np.ndarray] = ()
) -> tuple[float, tuple[np.ndarray, ...]]:
    """Seconds of a run of the whole network in TVM's virtual machine, and what it computes.

    Args:
        module: the network.
        device: instruction set.
        clock: to time it with; the fastest reading counts.
        values: what its main function is called with; none for numbers drawn at random.
    """
    library = tvm.compile(module, compiler.target_of(device, cores=1))
    machine = relax.VirtualMachine(library, tvm.cpu(0))
    about = [
        {"shape": [int(x) for x in p.ty.shape], "dtype": str(p.ty.dtype)}
        for p in module["main"].params
    ]
    arena = Arena()
    inputs = arena.arguments("0", {"arguments": about}, values)
    computed = tuple(array.copy() for array in arrays_of(machine["main"](*inputs)))
    start = time.perf_counter()
    machine["main"](*inputs)
    number = max(1, int(READING_SECONDS / (time.perf_counter() - start)))
    readings = []
    for _ in range(VISITS):
        time.sleep(PAUSE_SECONDS)
        with clock.core.calm():
            readings.append(machine.time_evaluator("main", tvm.cpu(0), number)(*inputs).mean)
    return min(readings), computed
