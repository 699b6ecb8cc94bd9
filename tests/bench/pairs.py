"""Whether what two configured layouts cost is the sum of what either costs, by measuring both.

    .venv-collect/bin/python -m tests.bench.pairs resnet_basic.w16_d2_b4_r64.forward --core 1

Wants the collector's environment (`make collect` makes it) and a core that nothing else uses; one
to three minutes a program. Layouts are drawn for one slot at a time (a tensor of a configurable
node), then pairs of those that were drawn; programs with none, one and two are timed in turns. It
prints how much of what pairs cost is the sum, and how far both halves of the rounds are apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lib.tpugraphs import drawing
from tests.bench.xla import ROUNDS, arguments, program_bench

Slot = tuple[int, int, tuple[int, ...]]  # site, tensor, minor to major


def drawn_slots(ranks: drawing.Ranks, count: int, rng: np.random.Generator) -> list[Slot]:
    """Layouts other than row-major, each of one tensor of a site."""
    every = [
        (site, k, rank) for site, own in enumerate(ranks) for k, rank in enumerate(own) if rank
    ]
    found: list[Slot] = []
    while len(found) < count:
        site, tensor, rank = every[rng.integers(len(every))]
        order = tuple(int(d) for d in rng.permutation(rank))
        if order != tuple(range(rank - 1, -1, -1)):
            found.append((site, tensor, order))
    return found


def configuration(ranks: drawing.Ranks, slots: Sequence[Slot]) -> np.ndarray:
    """With the layouts of some slots, all others left to the compiler."""
    made = drawing.unconstrained(ranks)
    for site, tensor, order in slots:
        made[site, tensor, : len(order)] = order
    return made


def main() -> None:
    """Measure and print."""
    args = arguments(__doc__, 70, "of single layouts, and of pairs")
    bench = program_bench("tests.bench.pairs", args.program, args.core)
    rng = np.random.default_rng(0)
    slots = drawn_slots(bench.ranks, args.count, rng)
    wanted = [[], *([slot] for slot in slots)]
    while len(wanted) < 1 + 2 * args.count:
        one, other = (slots[k] for k in rng.integers(0, len(slots), 2))
        if one[:2] != other[:2]:
            wanted.append([one, other])
    made = [bench.compile(configuration(bench.ranks, own), 0) for own in wanted]
    compiled = [one for one in made if one is not None]
    bench.time(compiled, ROUNDS)
    print(summary(wanted, [None if one is None else one.rounds for one in made]))


def summary(wanted: Sequence[Sequence[Slot]], rounds: Sequence[list[int] | None]) -> str:
    """What pairs cost against the sum of their parts, in microseconds."""

    def label(every: list[int] | None) -> float:
        return np.nan if every is None else float(np.percentile(every, 10)) / 1e3

    taken = {tuple(own): label(each) for own, each in zip(wanted, rounds, strict=True)}
    free = [taken[own] for own in taken if len(own) == 1]
    # Most slots cost next to nothing, and one program alone is timed with less certainty.
    base = float(np.nanmin([taken[()], np.nanpercentile(free, 25)]))
    pairs = [own for own in taken if len(own) == 2]
    both = np.array([taken[own] - base for own in pairs])
    parts = np.array([sum(taken[(one,)] - base for one in own) for own in pairs])
    known = np.isfinite(both) & np.isfinite(parts)
    rest = (both - parts)[known]
    halves = [abs(label(own[::2]) - label(own[1::2])) for own in rounds if own is not None]
    whole = both[known]
    return (
        f"{known.sum()} pairs, {base:.0f} us without layouts; pairs cost {whole.mean():.1f} us, "
        f"deviation {whole.std():.1f}; not in the sum: deviation {rest.std():.1f} us, "
        f"{rest.var() / whole.var():.0%} of the variance, largest {np.abs(rest).max():.1f} us; "
        f"halves of the rounds differ by {np.median(halves):.1f} us"
    )


if __name__ == "__main__":
    main()
