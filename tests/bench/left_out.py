"""How well latencies are predicted on a processor that nothing was learned from.

    .venv/bin/python -m tests.bench.left_out [--data ROOT] [--folds 1] [--print]

Each processor of the dataset is left out in turn: `cdmpp-plus` learns from what the others have
measured, with the tasks of the test and of a fold held out, and predicts the test networks on the
one that was left out: for sets of instructions, and *as deployed*, which are other programs, where
it has measured them. What a network knows of the processor are the sizes of its caches and how fast
its fastest programs are, of all that it measured. *Tuned* is as `make calibrate` does it: on each
of its devices, by programs of large tasks of other networks.

*Networks* are the networks of the test: what the fastest programs of their tasks are predicted to
take, in all their calls, over what the fastest took; the mean size of the error. *Best of 8* is the
fastest of the eight that are predicted to be fastest, of each search task's schedules, over the
fastest of all; the geometric mean. What was measured is kept in ``left_out.json`` beside this
file; what is there is not run again. A fold of a processor takes minutes.
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
from lib.programs.calibrate.__main__ import PROGRAMS, TASKS
from lib.programs.calibrate.sampling import fastest_of_tasks, tasks_to_measure
from lib.programs.calibrate.tuning import nearly_fastest, tuned
from lib.programs.folds import all_pairs, held_out_by
from lib.programs.inputs import (
    Programs,
    device_features,
    devices_of,
    load_programs,
    predict,
)
from lib.programs.latency.error import calls_of
from lib.programs.metrics import LEAST_PROGRAMS, mape, median_error
from lib.programs.preprocess import metadata_of, tasks_of
from lib.programs.settings import ProgramPlusSettings
from lib.programs.task import networks_of
from lib.programs.tensorir.records import SPLITS, is_general
from lib.programs.train import ProgramsFold
from lib.ranking.metrics import kendall_tau
from lib.settings.resolved import BUNDLED_PROGRAMS
from tests.training_loop import Training

PICKED = 8
KINDS = {"": True, ", as deployed": False}  # whether programs are compiled for a set alone
FEWEST_SCHEDULES = 128  # of a task that is searched


class LeftOut:
    """One processor, and what there is to learn from and to predict without it."""

    def __init__(self, cache: Cache, root: Path, processor: str):
        self.cache, self.devices = cache, devices_of(cache)
        tests = read_json(root / "dataset.json")["test_networks"]
        self.calls = {name: row for name, row in calls_of(root).items() if name in tests}
        self.out = [k for k, one in enumerate(self.devices) if one["processor"] == processor]
        single = [k for k in self.out if self.devices[k]["threads"] == 1]
        parts = {
            kind: [k for k in single if is_general(self.devices[k]) == general]
            for kind, general in KINDS.items()
        }
        self.kinds = {
            kind: places
            for kind, places in parts.items()
            if places and len(self._measured("test", places))
        }
        self.features = device_features(self.devices)

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
        learned = [name for name in called if name not in held] + cache.names("search")
        sides = learned, sorted(held)
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
        logs = self.predicted(networks, test, places)
        large = np.isin(pool.tasks, tasks_to_measure(pool, TASKS))
        after = self.tuned(networks, pool.some(large[pool.task]), test, places)
        found = {"before": scored(logs, test), "tuned": scored(after, test)}
        found["networks"] = [self.networks(one, test) for one in (logs, after)]
        if np.any(np.diff(search.first) >= FEWEST_SCHEDULES):
            found["picked"] = [best_of(self.predicted(networks, search, places), search)]
        return found

    def tuned(
        self, networks: list[nn.Module], known: Programs, test: Programs, places: list[int]
    ) -> np.ndarray:
        """(n, devices) logarithms of a test, by networks that are tuned on a few programs of each
        task."""
        few = known.first_of_tasks(PROGRAMS)
        columns = []
        for column, place in enumerate(places):
            one = nearly_fastest(replace(few, seconds=few.seconds[:, [column]]))
            made = [tuned(network, one, self.devices[place]) for network in networks]
            columns.append(self.predicted(made, test, [place]))
        return np.concatenate(columns, axis=1)

    def networks(self, logs: np.ndarray, test: Programs) -> float:
        """The mean size of the error of networks, of whose tasks what was measured counts."""
        errors = []
        for said, took in zip(np.exp(logs).T, test.seconds.T, strict=True):
            fastest = [fastest_of_tasks(test, seconds) for seconds in (said, took)]
            for calls in self.calls.values():
                counts = np.array([calls.get(name, 0) for name in test.tasks])
                errors += [fastest[0] @ counts / (fastest[1] @ counts) - 1] * bool(counts.any())
        return float(np.abs(errors).mean())


def scored(logs: np.ndarray, test: Programs) -> list[float | None]:
    """MAPE, median error, and tau within tasks of enough programs, of a test's predictions."""
    said, taus = np.exp(logs), []
    for device in range(logs.shape[1]):
        for start, stop in pairwise(test.first):
            if stop - start >= LEAST_PROGRAMS:
                one = said[start:stop, device], test.seconds[start:stop, device]
                taus.append(kendall_tau(*one))
    tau = float(np.mean(taus)) if taus else None
    return [mape(said, test.seconds), median_error(said, test.seconds), tau]


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
    """A row a processor: MAPE, median and tau before and after, networks, the best of eight."""
    rows = []
    for name, numbers in found.items():
        parts = [numbers[key] for key in ("before", "tuned")]
        cells = [
            f"{100 * mape:.1f} / {100 * middle:.1f} %, " + (f"{tau:.3f}" if tau else "-")
            for mape, middle, tau in parts
        ]
        both = [f"{100 * error:.1f} %" for error in numbers["networks"]]
        picked = f"{numbers['picked'][0]:.3f}" if "picked" in numbers else "-"
        rows.append([name, *cells, *both, picked])
    heads = ["MAPE / median, tau", "before", "tuned", "networks", "tuned", "best of 8"]
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
                    one = LeftOut(cache, args.data, processor)
                    networks = [one.trained(k, settings) for k in range(args.folds)]
                    for kind, places in one.kinds.items():
                        found[processor + kind] = one.results(networks, places)
                        print(f"{processor}{kind}: {found[processor + kind]}", flush=True)
                    write_json(args.results, found)
    print(text(found))


if __name__ == "__main__":
    main()
