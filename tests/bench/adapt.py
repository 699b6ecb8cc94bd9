"""How well latencies on a device are predicted when few of its tasks were measured.

    .venv/bin/python -m tests.bench.adapt [--data ROOT] [--draws 3] [--tasks 10 30 100]

The target is one instruction set of the bundled data, the sources are the two others. Tasks are
chosen by KMeans or at random, in several draws; whatever predicts sees the target's latencies of
those and no others, and is judged on all other tasks. Side by side:

* the two baselines: the latency on a source times a factor, and a network of the sources times one;
* the paper's method: that network (`cdmpp-plus`) fine-tuned, with the discrepancy and without;
* the default of ``make adapt``: latencies of the sources, corrected;
* the bound: the same correction from the target's latencies of half of the tasks, for the other
  half, and the other way round.

To fit into an hour of one core, programs are those of a part of the tasks (``--share``), and a
network is fine-tuned for 100 steps. Networks of the sources are trained once a set of sources, and
kept in ``--work``. What was measured is kept in ``adapt.parquet`` beside this file, a line a run;
what is there is not run again. Move it away when data or methods have changed. ``--print`` runs
nothing. Errors are standard errors over draws.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import torch
from torch import nn

from lib.cache.reader import Cache
from lib.files.artifacts import atomic_file
from lib.files.terminal import table
from lib.programs.adapt.case import Case, load_case
from lib.programs.adapt.device import (
    CORRECTED,
    MODEL,
    SCALED,
    TUNED,
    FineTuning,
    Predictions,
    by_baselines,
    by_correction,
    by_fine_tuning,
)
from lib.programs.adapt.judge import judged
from lib.programs.adapt.sampling import METHODS
from lib.programs.adapt.source import source_network
from lib.programs.adapt.tasks import choose
from lib.programs.metrics import MAPE, MEDIAN
from lib.programs.settings import ProgramPlusSettings
from lib.ranking.metrics import TAU
from lib.settings.resolved import BUNDLED_PROGRAMS
from tests.bench.programs import cache_of

CASES = (("avx512", "sse2+avx2"), ("sse2", "avx2+avx512"))
NO_CMD, BOUND = f"{TUNED}, no CMD", "bound: all labels, corrected"
ORDER = (SCALED, MODEL, NO_CMD, TUNED, CORRECTED, BOUND)
STEPS = 5  # epochs of fine-tuning, 20 steps each
SHOWN = (MAPE, MEDIAN, TAU)
SCHEMA = {
    **dict.fromkeys(("target", "sources", "sampling"), pl.String),
    **{"tasks": pl.Int64, "draw": pl.Int64, "method": pl.String},
    **dict.fromkeys((*(one.key for one in SHOWN), "seconds"), pl.Float64),
}
KEYS = ["target", "sources", "sampling", "tasks", "draw"]
Run = tuple[str, str, str, int, int]


@dataclass(frozen=True)
class Bench:
    """What runs share.

    Attributes:
        cache: of the data.
        settings: of the network.
        share: of the tasks whose programs are chosen from and judged on.
        work: folder for networks.
    """

    cache: Cache
    settings: ProgramPlusSettings
    share: float
    work: Path

    def case(self, target: str, sources: str) -> Case:
        """A target and its sources, restricted to some tasks; the same in every run."""
        case = load_case(self.cache, target, sources.split("+"))
        kept = [
            zlib.crc32(name.encode()) % 1000 < 1000 * self.share for name in case.programs.tasks
        ]
        programs = case.programs.some(np.array(kept)[case.programs.task])
        return replace(case, programs=programs)

    def network(self, case: Case) -> nn.Module:
        """Learned from the sources alone."""
        return source_network(case, self.cache, self.settings, 0, self.work)[0]


def run(bench: Bench, case: Case, network: nn.Module, one: Run) -> Iterator[dict[str, object]]:
    """A row a method, of one draw."""
    _, _, sampling, count, draw = one
    tasks = np.ones(len(case.programs.tasks), bool)
    chosen = choose(case.programs, tasks, {"method": sampling, "count": count, "seed": draw})
    visible = case.visible(chosen)

    def tuned(alpha: float) -> Predictions:
        own, tuning = copy.deepcopy(network), FineTuning(alpha, STEPS)
        with tempfile.TemporaryDirectory() as folder:
            state = Path(folder) / "state"
            return by_fine_tuning(visible, own, bench.settings, tuning, draw, state, "bench")

    parts = {
        "": lambda: by_baselines(visible, network) | by_correction(visible, network, draw),
        NO_CMD: lambda: {NO_CMD: tuned(0.0)[TUNED]},
        TUNED: lambda: tuned(FineTuning().alpha),
    }
    for make in parts.values():
        started = time.perf_counter()
        found = make()
        seconds = time.perf_counter() - started
        for method, (logs, _) in found.items():
            yield row_of(one, method, case, logs, ~np.isin(case.programs.task, chosen), seconds)


def bound(case: Case, network: nn.Module, one: Run) -> Iterator[dict[str, object]]:
    """Each half of the tasks from all labels of the other half."""
    started = time.perf_counter()
    numbers = np.random.default_rng(0).permutation(len(case.programs.tasks))
    logs = np.empty(len(case.programs))
    for half in (0, 1):
        known = numbers[half::2]
        found = by_correction(case.visible(known), network, half)[CORRECTED][0]
        others = ~np.isin(case.programs.task, known)
        logs[others] = found[others]
    every = np.ones(len(logs), bool)
    yield row_of(one, BOUND, case, logs, every, time.perf_counter() - started)


def row_of(
    one: Run, method: str, case: Case, logs: np.ndarray, among: np.ndarray, seconds: float
) -> dict[str, object]:
    """What is kept of one method in one run."""
    truth = case.programs.seconds[:, -1:]
    found = judged(logs[:, None], truth, case.programs.first, among)
    numbers = {metric.key: found.get(metric.key) for metric in SHOWN}
    return dict(zip(KEYS, one, strict=True)) | {"method": method, **numbers, "seconds": seconds}


def text(found: pl.DataFrame) -> str:
    """A table a pair of target and sources: MAPE by method, tasks and sampling."""
    parts = []
    for target, sources in CASES:
        own = found.filter(target=target, sources=sources)
        columns = sorted(set(own.filter(pl.col("tasks") > 0).select("tasks", "sampling").rows()))
        if not columns:
            continue
        rows = []
        for method in ORDER[:-1]:
            cells = [
                _cell(own.filter(method=method, tasks=tasks, sampling=sampling)["mape"])
                for tasks, sampling in columns
            ]
            rows.append([method, *cells])
        limit = own.filter(method=BOUND)["mape"]
        rows.append([BOUND, _cell(limit), *[""] * (len(columns) - 1)])
        heads = [f"{tasks} {sampling}" for tasks, sampling in columns]
        parts.append(table(rows, [f"{target} from {sources}", *heads]))
    return "\n\n".join(parts)


def _cell(values: pl.Series) -> str:
    if not len(values):
        return "-"
    if len(values) == 1:
        return MAPE.plain(values[0])
    return f"{MAPE.plain(values.mean())} ± {MAPE.plain(values.std() / len(values) ** 0.5)}"


def runs(tasks: list[int], draws: int) -> list[Run]:
    """All of them, whole draws one after the other, so that what is there is balanced."""
    bounds = [(*case, "", 0, 0) for case in CASES]
    every = product(range(draws), CASES, tasks, METHODS)
    return bounds + [(*case, how, count, draw) for draw, case, count, how in every]


def main() -> None:
    """Run what is missing, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=BUNDLED_PROGRAMS)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--tasks", type=int, nargs="+", default=[10, 30, 100])
    parser.add_argument("--share", type=float, default=0.3, help="of the tasks")
    parser.add_argument("--epochs", type=int, default=12, help="of a network of the sources")
    parser.add_argument("--work", type=Path, default=Path("outputs/bench-adapt"))
    parser.add_argument("--results", type=Path, default=Path(__file__).with_suffix(".parquet"))
    parser.add_argument("--print", action="store_true", help="print what is there, run nothing")
    args = parser.parse_args()
    torch.set_num_threads(1)
    found = pl.read_parquet(args.results) if args.results.exists() else pl.DataFrame(schema=SCHEMA)
    if not args.print:
        with tempfile.TemporaryDirectory() as folder:
            settings = ProgramPlusSettings("programs-cpu", epochs=args.epochs)
            bench = Bench(cache_of(args.data, Path(folder)), settings, args.share, args.work)
            done = set(found.select(KEYS).rows())
            cases: dict[tuple[str, str], tuple[Case, nn.Module]] = {}
            for one in [one for one in runs(args.tasks, args.draws) if one not in done]:
                if one[:2] not in cases:
                    case = bench.case(*one[:2])
                    cases[one[:2]] = case, bench.network(case)
                case, network = cases[one[:2]]
                made = run(bench, case, network, one) if one[3] else bound(case, network, one)
                rows = list(made)
                found = pl.concat([found, pl.DataFrame(rows, schema=SCHEMA)])
                with atomic_file(args.results) as temporary:
                    found.write_parquet(temporary)
                told = ", ".join(f"{row['method']} {row['mape']:.1%}" for row in rows)
                took = sum({row["seconds"] for row in rows})
                print(f"{' '.join(map(str, one))}: {told} ({took:.0f} s)", flush=True)
    print(text(found))


if __name__ == "__main__":
    main()
