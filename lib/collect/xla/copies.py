"""``python -m lib.collect.xla.copies FILE.npz``: time layout copies, each by itself.

What a copy costs that brings a tensor from one layout to another depends on the processor: on its
caches, and on how a loop that reads or writes in jumps meets them. A network that has to learn it
from the runtimes of whole programs sees it through many other things; so it is shown these first
(lib/models/tgraph_plus/training.py). Shapes and layouts are drawn at random: they are of no
program.

Programs of many copies are compiled, and XLA's profiler times each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lib.collect.xla.environment import time_here
from lib.collect.xla.kernels import Kernel, kernels_of, profiled, typical
from lib.files.artifacts import atomic_file
from lib.files.command_line import Parser
from lib.files.errors import one_line_errors
from lib.files.processor import processor
from lib.files.progress import Lines

RANKS = {2: 0.25, 3: 0.3, 4: 0.3, 5: 0.1, 6: 0.05}
SIZES = (2, 3, 4, 6, 7, 8, 9, 12, 14, 16, 24, 28, 32, 48, 56, 64, 96, 128, 192, 256, 384, 512, 1024)
COMMON = (8, 16, 32, 64, 64, 128, 128, 256)  # sizes that networks have more often
ELEMENTS = 1 << 12, 3 << 19  # aimed at; half as many will do: 8 KiB to 6 MiB
UNUSED = -1  # beyond a tensor's rank
AT_ONCE, RUNS = 48, 16  # copies of a program, and how often it runs
ARRAY = r"f32\[([\d,]+)\]\{([\d,]+)\}"


class Copy(NamedTuple):
    """A tensor of float32 in one order, minor to major, that is brought into another."""

    shape: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]


def drawn(rng: np.random.Generator) -> Copy:
    """Return a copy: out of row-major order or into it, mostly."""
    low, high = ELEMENTS
    while True:
        rank = int(rng.choice(list(RANKS), p=list(RANKS.values())))
        shape = tuple(int(size) for size in rng.choice(SIZES + COMMON, rank))
        elements = low * (high / low) ** rng.random()
        first, second = (tuple(int(d) for d in rng.permutation(rank)) for _ in range(2))
        plain, side = tuple(range(rank - 1, -1, -1)), rng.random()
        before, after = (plain if side < 0.45 else first), (plain if 0.45 <= side < 0.9 else second)
        if elements / 2 < prod(shape) < min(2 * elements, high) and before != after:
            return Copy(shape, before, after)


def timed(copies: list[Copy]) -> Iterator[tuple[Copy, float]]:
    """Yield copies of one program and their microseconds; those that are no kernel are left out."""
    import jax  # late: it reads the environment
    from jax.experimental.layout import Format, Layout
    from jax.sharding import SingleDeviceSharding

    device = SingleDeviceSharding(jax.devices()[0])
    sides = [
        [Format(Layout(order[::-1]), device) for order in orders]
        for orders in zip(*[(copy.before, copy.after) for copy in copies], strict=True)
    ]
    ones = [np.ones(copy.shape, np.float32) for copy in copies]
    arrays = [jax.device_put(x, form) for x, form in zip(ones, sides[0], strict=True)]
    function = jax.jit(lambda *x: list(x), in_shardings=tuple(sides[0]), out_shardings=sides[1])
    executable = function.lower(*arrays).compile()
    kernels = kernels_of(executable.as_text())
    for name, times in profiled(executable, arrays, kernels, RUNS).items():
        if (copy := copied_by(kernels[name])) is not None:
            yield copy, typical(times)
    jax.clear_caches()


def copied_by(kernel: Kernel) -> Copy | None:
    """Return a kernel's copy, if it copies one tensor and does no more."""
    written = re.match(ARRAY, kernel.text)
    read = [match for line in kernel.body if (match := re.search(f"{ARRAY} parameter", line))]
    alone = written is not None and len(read) == 1 and written[1] == read[0][1]
    if kernel.kind != "copy" or not alone:
        return None
    shape, after, before = (
        tuple(map(int, text.split(","))) for text in (written[1], written[2], read[0][2])
    )
    return Copy(shape, before, after)


def write_copies(path: Path, copies: list[tuple[Copy, float]]) -> None:
    """Write copies and their microseconds, as lib/models/tgraph_plus/training.py reads them."""
    most = max(RANKS)
    shapes, before, after = (
        np.array([(*copy[k], *[UNUSED] * (most - len(copy[k]))) for copy, _ in copies], np.int32)
        for k in range(3)
    )
    with atomic_file(path) as temporary, open(temporary, "wb") as file:
        np.savez_compressed(
            file,
            shape=shapes,
            before=before,
            after=after,
            microseconds=np.array([time for _, time in copies], np.float32),
            processor=np.array(processor()),
        )


def main() -> None:
    """Time ``--count`` copies, and write them."""
    parser = Parser(prog="python -m lib.collect.xla.copies", description=__doc__)
    parser.add_argument("file", type=Path, help="the npz to write")
    parser.add_argument("--count", type=int, default=6000, help="of copies")
    parser.add_argument("--core", type=int, default=1, help="that they run on")
    args = parser.parse_args()
    time_here("lib.collect.xla.copies", args.core)
    copies: list[tuple[Copy, float]] = []
    rng, lines = np.random.default_rng(0), Lines("copies", args.count, "measurement")
    while len(copies) < args.count:
        lines.at(len(copies))
        copies += timed([drawn(rng) for _ in range(AT_ONCE)])
    write_copies(args.file, copies)
    print(f"copies: {len(copies)} measured in {args.file}")


if __name__ == "__main__":
    with one_line_errors():
        main()
