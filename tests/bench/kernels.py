"""What a configuration's runtime is made of: the kernels that XLA compiles, each timed by itself.

    .venv-collect/bin/python -m tests.bench.kernels resnet_basic.w16_d2_b4_r64.forward --core 1

Wants the collector's environment (`make collect` makes it); about a minute a program. Random
configurations are compiled; XLA's profiler tells how long each kernel of each takes. Kernels of the
same text are one kernel, and its price is its median over all configurations that it occurs in. It
prints how well the sums of prices order the configurations, which kinds of kernels the sums differ
by, and what copies cost that read in jumps, or write in jumps.
"""

from __future__ import annotations

import re
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lib.collect.xla import search
from lib.ranking.metrics import kendall_tau
from lib.ranking.rounds import ceiling, label
from tests.bench.xla import ROUNDS, arguments, program_bench

RUNS, TURNS = 12, 3  # of a configuration in one profile; profiles of each
BUSY = 2.0  # microseconds: what takes less says nothing of memory
METADATA = re.compile(r", metadata=\{[^}]*\}")
NAME = re.compile(r"%[\w.-]+")
HEAD = re.compile(r"^(?:ENTRY )?%?([\w.-]+) \(.*\{$")
INSTRUCTION = re.compile(r"^(?:ROOT )?%?([\w.-]+) = (.*)$")
CALLED = re.compile(r"(?:calls|to_apply)=%?([\w.-]+)")
SHAPE = re.compile(r"\w+\[([\d,]*)\]\{([\d,]*)\}")
COPY = re.compile(r" = \S+ (?:parameter|copy)\(")
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
        """What it does, as the table has it."""
        opcode = re.match(r"(?:\(.*?\)|\S+) ([\w-]+)\(", self.text)
        if opcode is None or opcode[1] != "fusion":
            return "other" if opcode is None else opcode[1]
        if "kind=kCustom" in self.text:
            return "library call"
        done = {found[1] for line in self.body if (found := re.search(r" ([a-z][\w-]*)\(", line))}
        return "copy" if done <= {"parameter", "constant", *MOVING} else "loop"

    @property
    def jumps(self) -> str | None:
        """Of a copy between row-major and another layout, what jumps: ``reads`` or ``writes``."""
        if len(self.body) != 2 or not all(COPY.search(line) for line in self.body):
            return None
        orders = [SHAPE.search(line) for line in self.body]
        if any(one is None or not one[2] for one in orders):
            return None
        plain = [_is_row_major(*one.groups()) for one in orders]
        return {(True, False): "writes", (False, True): "reads"}.get(tuple(plain))

    @property
    def elements(self) -> int:
        """Of its output."""
        shape = SHAPE.search(self.text)
        return int(np.prod([int(d) for d in shape[1].split(",") if d])) if shape else 0


def _is_row_major(shape: str, order: str) -> bool:
    sizes = [int(d) for d in shape.split(",")]
    kept = [d for d in map(int, order.split(",")) if sizes[d] > 1]
    return kept == sorted(kept, reverse=True)


def kernels_of(text: str) -> dict[str, Kernel]:
    """The instructions of an optimized HLO module, by name."""
    computations: dict[str, list[str]] = {}
    for line in text.splitlines():
        if (head := HEAD.match(line)) is not None:
            computations[head[1]] = current = []
        elif line.startswith("  ") and computations:
            current.append(METADATA.sub("", line.strip()))
    found = {}
    for lines in computations.values():
        for line in lines:
            if (named := INSTRUCTION.match(line)) is None:
                continue
            called = CALLED.search(named[2])
            body = _unnamed(computations.get(called[1], [])) if called else ()
            found[named[1]] = Kernel(NAME.sub("%", CALLED.sub("", named[2])), body)
    return found


def _unnamed(lines: Sequence[str]) -> tuple[str, ...]:
    """Lines whose names are numbers, in the order in which they are met."""
    numbers: dict[str, str] = {}

    def number(name: re.Match[str]) -> str:
        return numbers.setdefault(name[0], f"%{len(numbers)}")

    return tuple(NAME.sub(number, line) for line in lines)


Times = dict[str, list[float]]  # by the kernel's name, microseconds


def profiled(executable, arguments: Sequence, known: dict[str, Kernel]) -> Times:
    """Microseconds of each kernel, of every run but those that warm up."""
    import jax  # late: JAX reads the environment
    from jax.profiler import ProfileData

    times: Times = defaultdict(list)
    jax.block_until_ready(executable(*arguments))
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for _ in range(RUNS):
                jax.block_until_ready(executable(*arguments))
        (path,) = Path(folder).rglob("*.xplane.pb")
        for plane in ProfileData.from_file(str(path)).planes:
            for line in plane.lines:
                for event in line.events:
                    if event.name in known:
                        times[event.name].append(event.duration_ns / 1e3)
    return times


def main() -> None:
    """Measure and print."""
    args = arguments(__doc__, 32, "of random configurations")
    bench = program_bench("tests.bench.kernels", args.program, args.core)
    rng = np.random.default_rng(0)
    wanted = [search.random_configuration(bench.ranks, rng) for _ in range(args.count)]
    compiled = [one for each in wanted if (one := bench.compile(each, 0)) is not None]
    bench.time(compiled, ROUNDS)
    known = [kernels_of(one.executable.as_text()) for one in compiled]
    times: list[Times] = [defaultdict(list) for _ in compiled]
    for _ in range(TURNS):
        for index in rng.permutation(len(compiled)):
            one = profiled(compiled[index].executable, bench.arguments, known[index])
            for name, each in one.items():
                times[index][name] += each
    print(summary(known, times, [one.rounds for one in compiled]))


def summary(
    known: Sequence[dict[str, Kernel]], times: Sequence[Times], rounds: Sequence[Sequence[int]]
) -> str:
    """The tables; of each configuration its kernels, their times and the rounds."""
    every: dict[Kernel, list[float]] = defaultdict(list)
    for names, each in zip(known, times, strict=True):
        for name, own in each.items():
            every[names[name]].append(float(np.median(own)))
    prices = {kernel: float(np.median(own)) for kernel, own in every.items()}
    by_kind: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(len(known)))
    for index, (names, each) in enumerate(zip(known, times, strict=True)):
        for name in each:
            by_kind[names[name].kind][index] += prices[names[name]]
    total = np.sum(list(by_kind.values()), axis=0)
    timed = np.array(rounds)
    lines = [
        f"{len(known)} configurations, {len(prices)} kernels, {np.median(total):.0f} us",
        f"tau of sums of prices with runtimes {kendall_tau(total, label(timed)):.3f}, "
        f"of halves of the rounds with each other {ceiling(timed):.3f}",
        "kind                 share of time  share of variance",
    ]
    for kind, own in sorted(by_kind.items(), key=lambda item: -item[1].mean()):
        share = np.cov(own, total)[0, 1] / total.var(ddof=1)
        lines.append(f"{kind:20} {own.mean() / total.mean():13.3f}  {share:17.3f}")
    for what in ("reads", "writes"):
        own = [
            price * 1e3 / kernel.elements
            for kernel, price in prices.items()
            if kernel.jumps == what and price > BUSY
        ]
        if own:
            quarters = ", ".join(f"{q:.2f}" for q in np.percentile(own, (25, 50, 75)))
            lines.append(f"copies whose {what} jump: {quarters} ns an element ({len(own)})")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
