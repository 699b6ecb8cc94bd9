"""Programs and whole networks, compiled for a device and timed where this process may run."""

from __future__ import annotations

import os
import signal
import socket
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm.ir import IRModule

from lib.collect.tvm import compiler
from lib.collect.tvm.deployment import Packed, packed, weights_of
from lib.collect.tvm.timing import Readings, Stopwatch, mean_seconds, tensors_of
from lib.files.children import end_with_parent
from lib.files.errors import UserError

SMALL = 1 << 15  # bytes of weights that are in the caches whatever else a network reads
MOST_WEIGHTS = 1 << 26  # bytes of copies of a program's weights
VISITS = 10  # of a network, apart from each other; the fastest counts, as of programs
READING_SECONDS = 0.02
PAUSE_SECONDS = 0.2
PROGRAM_PAUSE_SECONDS = 0.003  # between two readings of programs that somebody waits for
SETTLING_SECONDS = 0.02  # until threads of others wait for work no more
LIMIT_SECONDS = 10.0  # to compile a program, or run it once; LLVM takes a minute for some
MORE, DONE = b"+", b"."  # what a child answers: whether there is more to read


def arguments_of(module: IRModule) -> list[dict[str, Any]]:
    """Return shapes and types of a tensor program's arguments."""
    return [
        {"shape": [int(x) for x in p.shape], "dtype": str(p.dtype)} for p in module["main"].params
    ]


class Batch:
    """Programs of one task, which a child of this process compiles and runs.

    So a program that never ends, or brings its process down, costs no other program.

    Args:
        task: its hash, which decides what the programs are run on, unless there are values.
        modules: the programs.
        device: set of instructions that the programs are compiled for.
        values: of the arguments.
        limit: seconds after which compiling a program, or a reading of it, is given up; 0 for none.
        footprint: bytes of weights that are read between two runs of a program in its network, and
            so are read here; 0 for programs that find their weights in the caches.
        once: whether a program's first run counts, and there are no readings.

    Attributes:
        running: numbers of the programs that run.
        readings: of these.
    """

    def __init__(
        self,
        task: str,
        modules: Sequence[IRModule],
        device: str,
        values: Sequence[np.ndarray] = (),
        limit: float = 0,
        footprint: int = 0,
        once: bool = False,
    ):
        self.task, self.modules, self.device = task, modules, device
        self.values, self.limit, self.footprint, self.once = values, limit, footprint, once
        self.running = list(range(len(modules)))
        self.readings = Readings(len(self.running))
        self.child, self.line = 0, None

    def visit(self) -> bool:
        """Read each program once more; whether there is nothing more to read."""
        while self.running:
            if not self.child:
                self._start()
            try:
                self.line.send(b"?")
                answer = self.line.recv(1)
            except ConnectionError:  # the child has ended
                answer = b""
            if answer == DONE:
                self._end()
            if answer:
                return answer == DONE
            turn = float(self.readings.current[0])
            self._end()
            if turn != turn:
                raise UserError(f"task {self.task}: its arguments cannot be made; is memory short?")
            del self.running[int(turn)]
        return True

    def best(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (n,) seconds of the programs, the fastest reading of each, and (n, 2) fingerprints
        of what they compute; NaN of programs that do not run."""
        rows = np.full((len(self.modules), 3), np.nan)
        if self.running:
            fastest = np.nanmin(self.readings.seconds[:, 0 if self.once else 1 :], 1)
            rows[self.running] = np.column_stack([fastest, self.readings.checks])
        return rows[:, 0], rows[:, 1:]

    def _start(self) -> None:
        """A child that makes ready what runs."""
        self.readings = Readings(len(self.running))
        self.line, other = socket.socketpair()
        self.child = os.fork()
        if self.child:
            other.close()
            return
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends the process, whatever it is doing
        end_with_parent()
        try:
            self._answer(other)
        except Exception:  # of TVM or LLVM, whatever its kind
            traceback.print_exc()
        finally:
            os._exit(1)

    def _end(self) -> None:
        """End the child."""
        self.line.close()
        os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)
        self.child = 0

    def _answer(self, line: socket.socket) -> None:
        """Compile the programs in the child, and read them once for each byte that arrives."""
        base = tensors_of(self.task, arguments_of(self.modules[0]), self.values)
        runs = []
        for k, number in enumerate(self.running):
            self._begin(k)
            parts = packed(self.modules[number])
            module = compiler.lowered([parts.program, *([parts.pack] if parts.pack else [])])
            library = compiler.machine_program(module, self.device)
            runs.append((library, self._copies(parts, library, base)))
        outputs = [base[k] for k in compiler.outputs_of(self.modules[0])]
        watch = Stopwatch(runs, outputs, self._begin, self.readings)
        turn = watch.first if self.once else watch.read
        while line.recv(1):
            turn()
            signal.setitimer(signal.ITIMER_REAL, 0)
            line.send(DONE if self.once or watch.done else MORE)

    def _begin(self, k: int) -> None:
        """Note whose turn it is, and give it its time."""
        self.readings.current[0] = k
        signal.setitimer(signal.ITIMER_REAL, self.limit)

    def _copies(
        self, parts: Packed, library: tvm.runtime.Module, base: Sequence[Any]
    ) -> list[list[Any]]:
        """Return sets of arguments, which take turns, with the weights packed."""
        weights = {k: base[k] for k in weights_of(self.modules[0])}
        if parts.pack:
            kinds = arguments_of(parts.program)
            new = {
                k: tvm.runtime.empty(tuple(kinds[k]["shape"]), kinds[k]["dtype"])
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
        return [[copy.get(k, tensor) for k, tensor in enumerate(base)] for copy in copies]


def time_programs(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """Time programs that somebody waits for, at moments that follow one another."""
    while not batch.visit():
        time.sleep(PROGRAM_PAUSE_SECONDS)
    return batch.best()


def readings(runs: Mapping[str, Callable[[], Any]], visits: int = VISITS) -> dict[str, list[float]]:
    """Return (visits,) seconds of a run of each of some networks, which take turns."""
    numbers = {}
    for name, run in runs.items():
        run()
        numbers[name] = max(1, int(READING_SECONDS / mean_seconds(run, [()])))
    found: dict[str, list[float]] = {name: [] for name in runs}
    order = [*runs]
    for _ in range(visits):
        time.sleep(PAUSE_SECONDS)
        for name in order:
            time.sleep(SETTLING_SECONDS)
            runs[name]()  # what ran before it has left its own data in the caches
            found[name].append(mean_seconds(runs[name], [()] * numbers[name]))
        order.append(order.pop(0))  # the first after a pause finds a core that has slept
    return found


def fastest(runs: Mapping[str, Callable[[], Any]]) -> tuple[dict[str, float], float]:
    """Return seconds of a run of each, the fastest reading of ten, and the share of the time for
    which other work had the core."""
    before = waiting_seconds(), time.process_time()
    taken = readings(runs)
    waited, ran = waiting_seconds() - before[0], time.process_time() - before[1]
    return {name: min(own) for name, own in taken.items()}, max(0, waited) / (waited + ran)


def waiting_seconds() -> float:
    """Return seconds for which this process's threads were ready and had no core, as Linux counts
    them; 0 where it does not."""
    nanoseconds = 0
    for path in Path("/proc/self/task").glob("*/schedstat"):
        with suppress(OSError):  # a thread that has ended since
            nanoseconds += int(path.read_text().split()[1])
    return nanoseconds / 1e9
