"""The kernels that XLA compiles for a CPU, and how long each of them runs.

A kernel is an instruction of the optimized program: a fusion, mostly, which is one loop, or a call
of a library. XLA's own profiler times each by its name.
"""

from __future__ import annotations

import re
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

RUNS, KERNELS = "runs", "kernels"  # what a round is timed by: the whole program, or its kernels
METADATA = re.compile(r", metadata=\{[^}]*\}")
NAME = re.compile(r"%[\w.-]+")
HEAD = re.compile(r"^(?:ENTRY )?%?([\w.-]+) \(.*\{$")
INSTRUCTION = re.compile(r"^(?:ROOT )?%?([\w.-]+) = (.*)$")
CALLED = re.compile(r"(?:calls|to_apply)=%?([\w.-]+)")
TYPICAL = 30  # percentile
MOVING = ("copy", "transpose", "bitcast", "reshape")


@dataclass(frozen=True)
class Kernel:
    """One instruction of the optimized program.

    Attributes:
        text: of the instruction, without names.
        body: of what it calls, likewise, a line an instruction.
    """

    text: str
    body: tuple[str, ...]

    @property
    def kind(self) -> str:
        """Return the kind of a kernel: copy, loop, library call, or its opcode."""
        opcode = re.match(r"(?:\(.*?\)|\S+) ([\w-]+)\(", self.text)
        if opcode is None or opcode[1] != "fusion":
            return "other" if opcode is None else opcode[1]
        if "kind=kCustom" in self.text:
            return "library call"
        done = {match[1] for line in self.body if (match := re.search(r" ([a-z][\w-]*)\(", line))}
        return "copy" if done <= {"parameter", "constant", *MOVING} else "loop"


def kernels_of(text: str) -> dict[str, Kernel]:
    """Return the instructions of an optimized HLO module, by name."""
    computations: dict[str, list[str]] = {}
    for line in text.splitlines():
        if (head := HEAD.match(line)) is not None:
            computations[head[1]] = current = []
        elif line.startswith("  ") and computations:
            current.append(METADATA.sub("", line.strip()))
    kernels = {}
    for lines in computations.values():
        for line in lines:
            if (named := INSTRUCTION.match(line)) is None:
                continue
            called = CALLED.search(named[2])
            body = _unnamed(computations.get(called[1], [])) if called else ()
            kernels[named[1]] = Kernel(NAME.sub("%", CALLED.sub("", named[2])), body)
    return kernels


def _unnamed(lines: Sequence[str]) -> tuple[str, ...]:
    """Return lines whose names are numbers, in the order in which they are met."""
    numbers: dict[str, str] = {}

    def number(name: re.Match[str]) -> str:
        return numbers.setdefault(name[0], f"%{len(numbers)}")

    return tuple(NAME.sub(number, line) for line in lines)


Times = dict[str, list[float]]  # by the kernel's name, microseconds


def profiled(executable, arguments: Sequence, kernels: dict[str, Kernel], runs: int) -> Times:
    """Return microseconds of each kernel, of every run but the first, which warms up."""
    import jax  # late: JAX reads the environment
    from jax.profiler import ProfileData, ProfileOptions

    times: Times = defaultdict(list)
    options = ProfileOptions()
    options.enable_hlo_proto = False  # else it writes down all programs that the process holds
    jax.block_until_ready(executable(*arguments))
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, profiler_options=options):
            for _ in range(runs):
                jax.block_until_ready(executable(*arguments))
        (path,) = Path(folder).rglob("*.xplane.pb")
        for plane in ProfileData.from_file(str(path)).planes:
            for line in plane.lines:
                for event in line.events:
                    if event.name in kernels:
                        times[event.name].append(event.duration_ns / 1e3)
    return times


def typical(times: Sequence[float]) -> float:
    """Return one time for several of a kernel: a busy neighbour only makes runs slower."""
    return float(np.percentile(times, TYPICAL))
