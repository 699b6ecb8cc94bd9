"""Programs and whole networks, compiled for a device and timed on a quiet core."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import IRModule

from lib.collect.quiet import TimingCore
from lib.collect.tvm import compiler
from lib.collect.tvm.timing import Anywhere, Arena, Clock, Stopwatch, reference_program

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
    task: str, modules: Sequence[IRModule], device: str, clock: Clock
) -> tuple[np.ndarray, np.ndarray]:
    """Programs of one task, one after the other, as the dataset has them.

    Args:
        task: its hash, which decides what the programs are run on.
        modules: the programs.
        device: instruction set.
        clock: to time them with.

    Returns:
        (n,) seconds, NaN of what does not compile; (n, 2) fingerprints of what they compute.
    """
    seconds, checks = np.full(len(modules), np.nan), np.full((len(modules), 2), np.nan)
    functions = _compiled(modules, device)
    good = [k for k, one in enumerate(functions) if one is not None]
    if good:
        watch = Stopwatch(
            [functions[k] for k in good], Arena().arguments(task, arguments_of(modules[0]))
        )
        while not watch.done:
            clock.visit([watch])
            time.sleep(PROGRAM_PAUSE_SECONDS)
        seconds[good], checks[good] = np.nanmin(watch.seconds[:, 1:], 1), watch.checks
    return seconds, checks


def _compiled(
    modules: Sequence[IRModule], device: str
) -> list[tuple[tvm.runtime.Module, str] | None]:
    """Each program's function; all at once, or if that fails one by one."""
    try:
        library = compiler.machine_program(compiler.lowered(modules), device)
        return [(library, f"f{k}") for k in range(len(modules))]
    except Exception:  # of TVM or LLVM, whatever its kind
        if len(modules) == 1:
            return [None]
    return [one for module in modules for one in _compiled([module], device)]


def end_to_end(module: IRModule, device: str, clock: Clock) -> float:
    """Seconds of a run of the whole network in TVM's virtual machine, the fastest reading."""
    library = tvm.compile(module, compiler.target_of(device, cores=1))
    machine = relax.VirtualMachine(library, tvm.cpu(0))
    about = [
        {"shape": [int(x) for x in p.ty.shape], "dtype": str(p.ty.dtype)}
        for p in module["main"].params
    ]
    arena = Arena()
    inputs = arena.arguments("0", {"arguments": about})
    machine["main"](*inputs)
    start = time.perf_counter()
    machine["main"](*inputs)
    number = max(1, int(READING_SECONDS / (time.perf_counter() - start)))
    readings = []
    for _ in range(VISITS):
        time.sleep(PAUSE_SECONDS)
        with clock.core.calm():
            readings.append(machine.time_evaluator("main", tvm.cpu(0), number)(*inputs).mean)
    return min(readings)
