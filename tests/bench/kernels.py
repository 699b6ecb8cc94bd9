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
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from lib.collect.xla.kernels import Kernel, Times, kernels_of, profiled
from lib.ranking.metrics import kendall_tau
from lib.ranking.rounds import ceiling, label
from tests.bench.xla import compiled_at_random

ROUNDS, RUNS, TURNS = 24, 12, 3  # of a configuration; in one profile; profiles of each
SHAPE = re.compile(r"\w+\[([\d,]*)\]\{([\d,]*)\}")
COPY = re.compile(r" = \S+ (?:parameter|copy)\(")
BUSY = 2.0  # microseconds: what takes less says nothing of memory


def main() -> None:
    """Measure and print."""
    measurement = compiled_at_random("tests.bench.kernels", __doc__, 32)
    bench, compiled, rng = measurement.bench, measurement.compiled, np.random.default_rng(0)
    bench.time(compiled, ROUNDS)
    known = [kernels_of(one.executable.as_text()) for one in compiled]
    times: list[Times] = [defaultdict(list) for _ in compiled]
    for _ in range(TURNS):
        for index in rng.permutation(len(compiled)):
            one = profiled(compiled[index].executable, bench.arguments, known[index], RUNS)
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
            price * 1e3 / elements(kernel)
            for kernel, price in prices.items()
            if jumps(kernel) == what and price > BUSY
        ]
        if own:
            quarters = ", ".join(f"{q:.2f}" for q in np.percentile(own, (25, 50, 75)))
            lines.append(f"copies whose {what} jump: {quarters} ns an element ({len(own)})")
    return "\n".join(lines)


def jumps(kernel: Kernel) -> str | None:
    """Of a copy between row-major and another layout, what jumps: ``reads`` or ``writes``."""
    if len(kernel.body) != 2 or not all(COPY.search(line) for line in kernel.body):
        return None
    orders = [SHAPE.search(line) for line in kernel.body]
    if any(order is None or not order[2] for order in orders):
        return None
    plain = [_is_row_major(*order.groups()) for order in orders]
    return {(True, False): "writes", (False, True): "reads"}.get(tuple(plain))


def elements(kernel: Kernel) -> int:
    """Of its output."""
    shape = SHAPE.search(kernel.text)
    return int(np.prod([int(d) for d in shape[1].split(",") if d])) if shape else 0


def _is_row_major(shape: str, order: str) -> bool:
    sizes = [int(d) for d in shape.split(",")]
    dimensions = [d for d in map(int, order.split(",")) if sizes[d] > 1]
    return dimensions == sorted(dimensions, reverse=True)


if __name__ == "__main__":
    main()
