"""How well latencies are predicted on a processor that nothing was learned from.

    .venv/bin/python -m tests.bench.left_out [--data ROOT] [--folds 1] [--print]

Each processor of the dataset is left out in turn: `cdmpp-plus` learns from what the others have
measured, with the tasks of the test and of a fold held out, and predicts the test networks on the
one that was left out: for sets of instructions, and *as deployed*, which are other programs, where
it has measured such. Of a processor on which only search tasks were measured, half of those are the
test, and the others do not learn from any; for another they are learned from where others measured
them. As `make calibrate` does it, predictions are then multiplied by what fits a number of programs
of other tasks, drawn at random, on each of its devices, means over draws; or the networks are tuned
on the last number of them, one draw. What a network knows of the processor are the sizes of its
caches and how fast its fastest programs are, of all that it measured.

*Best of 8* is the fastest of the eight that are predicted to be fastest, of each search task's
schedules, over the fastest of all; the geometric mean. What was measured is kept in
``left_out.json`` beside this file; what is there is not run again. A fold of a processor takes
minutes.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import nn

from lib.cache.reader import Cache
from lib.cache.writer import CacheWriter
from lib.files.artifacts import read_json, write_json
from lib.files.terminal import table
from lib.programs.calibrate.tuning import best_factor, tuned
from lib.programs.folds import all_pairs, held_out_by
from lib.programs.inputs import (
    Programs,
    device_features,
    devices_of,
    load_programs,
    predict,
)
from lib.programs.losses import STEEPEST
from lib.programs.metrics import LEAST_PROGRAMS, mape, median_error
from lib.programs.preprocess import metadata_of, tasks_of
from lib.programs.settings import ProgramPlusSettings
from lib.programs.task import networks_of
from lib.programs.tensorir.records import SPLITS, is_general
from lib.programs.train import ProgramsFold
from lib.ranking.metrics import kendall_tau
from lib.settings.resolved import BUNDLED_PROGRAMS
from tests.training_loop import Training

COUNTS, DRAWS, PICKED = (100, 300, 1000), 3, 8
KINDS = {"": True, ", as deployed": False}  # whether programs are compiled for a set alone
FEWEST_SCHEDULES = 128  # of a task that is searched


class LeftOut:
    """One processor, and what there is to learn from and to predict without it."""

    def __init__(self, cache: Cache, processor: str):
        self.cache, self.devices = cache, devices_of(cache)
        self.out = [k for k, one in enumerate(self.devices) if one["processor"] == processor]
        single = [k for k in self.out if self.devices[k]["threads"] == 1]
        parts = {
            kind: [k for k in single if is_general(self.devices[k]) == general]
            for kind, general in KINDS.items()
        }
        self.kinds = {kind: places for kind, places in parts.items() if places}
        self.features = device_features(self.devices)
        tests = [len(self._measured("test", places)) for places in self.kinds.values()]
        self.searched_only = not any(tests)

    def _measured(self, split: str, places: list[int]) -> Programs:
        """The programs of a split that were measured there, on all of some devices."""
        programs = load_programs(self.cache, all_pairs(self.cache, self.cache.names(split)))
        seconds = programs.seconds[:, places]
        return replace(programs, seconds=seconds).some(np.isfinite(seconds).all(1))

    def trained(self, fold: int, settings: ProgramPlusSettings) -> nn.Module:
        """A network that has learned from the other processors."""
        cache = self.cache
        called = {name: networks_of(cache.rows[name]) for name in cache.names("train")}
        held = held_out_by(called, fold, settings)
        more = [] if self.searched_only else cache.names("search")
        sides = ([name for name in called if name not in held] + more, sorted(held))
        known = [k for k in range(len(self.devices)) if k not in self.out]
        parts = []
        for names in sides:
            programs = load_programs(cache, all_pairs(cache, names))
            seconds = programs.seconds[:, known]
            parts.append(replace(programs, seconds=seconds).some(np.isfinite(seconds).any(1)))
        data = ProgramsFold(settings, *parts, self.features[known])
        with tempfile.TemporaryDirectory() as folder:
            training = Training(data, fold, Path(folder) / "state", "left out")
            list(training.run())
        return training.network.eval()

    def predicted(
        self, networks: list[nn.Module], programs: Programs, places: list[int]
    ) -> np.ndarray:
        """(n, devices) logarithms, blended."""
        where = self.features[places]
        return np.mean([predict(one, programs, where, 1024) for one in networks], axis=0)

    def results(self, networks: list[nn.Module], places: list[int]) -> dict[str, list[float]]:
        """Numbers on some of its devices, before and after, and the best of eight."""
        search = self._measured("search", places)
        test, pool = (self._measured(split, places) for split in ("test", "train"))
        if self.searched_only:
            half = search.task % 2 == 0
            test, pool = search.some(half), search.some(~half)
        logs, own = (self.predicted(networks, part, places) for part in (test, pool))
        found = {"before": scored(logs, test)}
        for count in COUNTS:
            runs = []
            for draw in range(DRAWS):
                some = np.random.default_rng(draw).permutation(len(pool))[:count]
                gaps = own[some] - np.log(pool.seconds[some])
                runs.append(scored(logs + [best_factor(gap, STEEPEST) for gap in gaps.T], test))
            found[str(count)] = np.mean(runs, axis=0).tolist()
        chosen = np.zeros(len(pool), bool)
        chosen[np.random.default_rng(0).permutation(len(pool))[:count]] = True
        found["tuned"] = scored(self.tuned(networks, pool.some(chosen), test, places), test)
        if np.any(np.diff(search.first) >= FEWEST_SCHEDULES):
            found["picked"] = [best_of(self.predicted(networks, search, places), search)]
        return found

    def tuned(
        self, networks: list[nn.Module], known: Programs, test: Programs, places: list[int]
    ) -> np.ndarray:
        """(n, devices) logarithms of a test, by networks that are tuned on some programs."""
        columns = []
        for column, place in enumerate(places):
            one = replace(known, seconds=known.seconds[:, [column]])
            made = [tuned(network, one, self.devices[place]) for network in networks]
            columns.append(self.predicted(made, test, [place]))
        return np.concatenate(columns, axis=1)


def scored(logs: np.ndarray, test: Programs) -> list[float]:
    """MAPE, median error, and tau within tasks, of a test's predictions."""
    said, taus = np.exp(logs), []
    for device in range(logs.shape[1]):
        for start, stop in pairwise(test.first):
            if stop - start >= LEAST_PROGRAMS:
                one = said[start:stop, device], test.seconds[start:stop, device]
                taus.append(kendall_tau(*one))
    return [mape(said, test.seconds), median_error(said, test.seconds), float(np.mean(taus))]


def best_of(logs: np.ndarray, programs: Programs) -> float:
    """The fastest of the eight predicted to be fastest, over the fastest of all."""
    gaps = []
    for start, stop in pairwise(programs.first):
        if stop - start >= FEWEST_SCHEDULES:
            for said, seconds in zip(
                logs[start:stop].T, programs.seconds[start:stop].T, strict=True
            ):
                picked = np.argsort(said, kind="stable")[:PICKED]
                gaps.append(np.log(seconds[picked].min() / seconds.min()))
    return float(np.exp(np.mean(gaps)))


def cache_of(root: Path, folder: Path) -> Cache:
    """A cache that has the search tasks, too."""
    with CacheWriter(folder, "programs") as writer:
        for task, sizes in tasks_of(root / "dataset.json", SPLITS):
            writer.add(task, sizes)
        told = metadata_of(root / "dataset.json", SPLITS)
        writer.finish({**told, "fingerprint": "left out", "settings": {}})
    return Cache(folder)


def text(found: dict[str, dict[str, list[float]]]) -> str:
    """A row a processor: MAPE, median and tau before and after, and the best of eight."""
    rows = []
    for name, numbers in found.items():
        parts = [numbers[key] for key in ("before", *map(str, COUNTS), "tuned")]
        cells = [
            f"{100 * mape:.1f} / {100 * middle:.1f} %, {tau:.3f}" for mape, middle, tau in parts
        ]
        picked = f"{numbers['picked'][0]:.3f}" if "picked" in numbers else "-"
        rows.append([name, *cells, picked])
    heads = [
        "MAPE / median, tau",
        "before",
        *(f"{n} programs" for n in COUNTS),
        "tuned",
        "best of 8",
    ]
    return table(rows, heads)


def main() -> None:
    """Run what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=BUNDLED_PROGRAMS)
    parser.add_argument("--folds", type=int, default=1, help="that are blended")
    parser.add_argument("--epochs", type=int, default=ProgramPlusSettings("programs-cpu").epochs)
    parser.add_argument("--results", type=Path, default=Path(__file__).with_suffix(".json"))
    parser.add_argument("--print", action="store_true", help="print what is there, run nothing")
    args = parser.parse_args()
    torch.set_num_threads(1)
    found = read_json(args.results) if args.results.exists() else {}
    if not args.print:
        every = args.epochs  # validation says nothing here
        settings = ProgramPlusSettings("programs-cpu", epochs=args.epochs, validate_every=every)
        with tempfile.TemporaryDirectory() as name:
            cache = cache_of(args.data, Path(name))
            for processor in sorted({one["processor"] for one in devices_of(cache)}):
                if not any(name.startswith(processor) for name in found):
                    one = LeftOut(cache, processor)
                    networks = [one.trained(k, settings) for k in range(args.folds)]
                    for kind, places in one.kinds.items():
                        found[processor + kind] = one.results(networks, places)
                        print(f"{processor}{kind}: {found[processor + kind]}", flush=True)
                    write_json(args.results, found)
    print(text(found))


if __name__ == "__main__":
    main()
