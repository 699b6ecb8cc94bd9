"""A trained predictor of whole networks' latencies, for the command line and for Python."""

from __future__ import annotations

import argparse
import copy
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

from lib.cache.reader import Cache
from lib.files import tensor_file
from lib.files.children import end_with_parent
from lib.files.command_line import check_least
from lib.files.errors import DataError, UserError
from lib.files.parquet import read_parquet
from lib.files.processor import cores_of, processor
from lib.files.progress import Lines
from lib.files.schema import expect
from lib.programs.devices import known_devices, on_device, predicted_seconds
from lib.programs.inputs import (
    device_named,
    devices_of,
)
from lib.programs.latency.error import Error, bundled_error, calls_of, error_of, held_out, of_blend
from lib.programs.latency.estimate import Estimate, estimate
from lib.programs.latency.network import Network, read_network
from lib.programs.messages import last_words, receive, started
from lib.programs.search.scorer import Scorer, scores
from lib.programs.settings import ProgramCollection
from lib.programs.tensorir.records import ADVICE, DEVICE, TABLES, is_general, table_path
from lib.runs.code import ROOT
from lib.scoring.trained import Ensemble, load_networks
from lib.scoring.weights import weights_in
from lib.settings import Settings, root_of, settings_for
from lib.tpugraphs.roots import DataRoot

TVM = Path(".venv-collect-programs/bin/python")
GAP = 0.4  # microseconds: of a call of TVM's virtual machine, on an EPYC of Zen 5
BUDGET = 16  # programs of each task that a search finds; the fastest as predicted runs
STEPS = {"drawn": "first sight", "searched": "search"}  # of what TVM's environment does


@dataclass(frozen=True, eq=False)
class Predictor:
    """A predictor of networks' latencies on the devices that it has learned from.

    Attributes:
        ensemble: its networks.
        learned_from: the devices that they have learned from.
        weights: where they are.
        folder: of the collection's results, which are the same if they were trained here.
        data: root of the dataset.
        tvm: Python of the environment that has TVM, which makes programs of a network.
    """

    ensemble: Ensemble
    learned_from: list[dict[str, Any]]
    weights: Path
    folder: Path
    data: Path
    tvm: Path

    @classmethod
    def load(
        cls,
        outputs: Path = Path("outputs"),
        collection: str = "programs-cpu",
        tvm: Path = ROOT / TVM,
        data: Path | None = None,
        model: str | None = None,
        experiment: str = "",
    ) -> Predictor:
        """Load the result of ``make all COLLECTION=programs-cpu``, else the bundled one.

        Args:
            outputs: folder that has it.
            collection, data, model, experiment: of it; see :func:`predictor_settings`.
            tvm: see above.

        Raises:
            UserError: nothing is trained, or there is no TVM.
            DataError: the networks are of another cache.
        """
        if not tvm.exists():
            raise UserError(f"--tvm {tvm}: no such file; make latency installs TVM")
        root, settings = predictor_settings(collection, data, model, experiment)
        folder = outputs / settings.results
        ensemble, devices, weights = predictor_in(outputs, settings)
        return cls(ensemble, devices, weights, folder, root.path, tvm)

    @cached_property
    def known(self) -> list[dict[str, Any]]:
        """The devices of the data, and those that were calibrated."""
        return known_devices(self.learned_from, self.folder, self.weights)

    @property
    def devices(self) -> tuple[str, ...]:
        """Their whole names."""
        return tuple(device["name"] for device in self.known)

    @cached_property
    def learned(self) -> frozenset[str]:
        """Hashes of the tasks that some fold has learned from."""
        tasks, programs = (
            read_parquet(table_path(self.data, name), TABLES[name], ADVICE)
            for name in ("tasks", "programs")
        )
        measured = pl.Series(range(len(tasks))).is_in(programs["task"].unique().implode())
        return frozenset(tasks.filter(measured & (tasks["split"] == "train"))["task"])

    def device(self, name: str) -> int:
        """Return the number of a device, see :func:`device_named`."""
        return device_named(name, self.known, processor())

    def programs(self, network: str, path: Path, device: int, **flags: Any) -> Network:
        """Have TVM, in its own environment, write and return a network's graph and programs.

        Args:
            network: its name.
            path: what to write.
            device: number of the device, on which the programs are to be fast.
            flags: of :mod:`lib.collect.tvm.whole`; those that are ``None`` are left out.

        Raises:
            UserError: with what it says, if it cannot.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        known = self.known[device]
        command = [str(self.tvm), "-m", "lib.collect.tvm.whole", network, str(path.resolve())]
        command += ["--device", known["instructions"]]
        for name, value in flags.items():
            command += [f"--{name}", str(value)] if value is not None else []
        ensemble, lines = on_device(self.ensemble, known, self.folder), None
        scorer = Scorer(lambda programs: np.log(predicted_seconds(ensemble, programs, known)))
        with started(command) as (child, answer):
            while message := receive(child.stdout):
                metadata, kind = message[0], message[0]["kind"]
                answer({"logs": scores(scorer, message)} if kind == "predict" else {})
                if kind == "first":
                    seconds = f"{1e3 * metadata['seconds']:.3g} ms at first sight"
                    print(f"latency: {network}: {seconds}; searching", file=sys.stderr, flush=True)
                elif kind in STEPS:
                    if not lines or lines.what != f"latency: {STEPS[kind]}":
                        lines = Lines(f"latency: {STEPS[kind]}", metadata["of"], "task", sys.stderr)
                    lines.at(metadata["done"])
        return read_network(path)

    def estimate(self, network: Network, device: int, schedules: int, gap: float) -> Estimate:
        """Return the latency of a network, its bounds, and what it is made of.

        Args:
            network: its graph and programs.
            device: its number.
            schedules: how many there are of each task, at most.
            gap: microseconds between two calls.
        """
        known = self.known[device]
        name = known["name"]
        ensemble = on_device(self.ensemble, known, self.folder)
        predicted = predicted_seconds(ensemble, network.programs, known)
        error = self._error(known.get("like", name), schedules)
        warm = is_general(known)
        return estimate(network, name, predicted, error, self.learned, gap * 1e-6, warm)

    def _error(self, device: str, schedules: int) -> Error:
        """Return errors of searched networks on a device, of those held out in training."""
        if self.weights != self.folder:
            error = bundled_error(self.weights, device, schedules)
        else:
            known = held_out(self.folder / "predictions.csv", device)
            error = error_of(known, calls_of(self.data), schedules, searched=True)
        return of_blend(error, len(self.ensemble.networks), schedules, searched=True)

    def predict(self, module: torch.nn.Module, inputs: tuple, device: str) -> float:
        """Return seconds that one call of a network takes on a device.

        Args:
            module: of float32.
            inputs: an example of what it is called with, as many at a time as it will be.
            device: an instruction set, or a device's whole name.

        Raises:
            UserError: TVM cannot read the network, or there is no such device.
        """
        number = self.device(device)
        with tempfile.TemporaryDirectory() as folder:
            exported, programs = (Path(folder) / name for name in ("network.pt2", "programs.npz"))
            torch.export.save(torch.export.export(copy.deepcopy(module).eval(), inputs), exported)
            network = self.programs(str(exported), programs, number, budget=BUDGET)
        return self.estimate(network, number, BUDGET, GAP).latency[1]


def predictor_settings(
    collection: str, data: Path | None, model: str | None, experiment: str = ""
) -> tuple[DataRoot, Settings]:
    """Return the data root that a predictor learned from, and its settings.

    Args:
        collection: its name.
        data: the root, if not the collection's own.
        model: of the predictor, if not the collection's own.
        experiment: that it is of, if that has a name.
    """
    root = root_of(collection, data)
    values = {"model": model} if model else {}
    return root, settings_for(collection, root.dataset, {**values, "experiment": experiment})


def predictor_in(outputs: Path, settings: Settings) -> tuple[Ensemble, list[dict[str, Any]], Path]:
    """Return the networks of a collection of programs, one's own or the bundled ones, which need no
    cache; the devices that they have learned from, and their folder.

    Raises:
        UserError: it is no such collection, or nothing is trained.
        DataError: the networks are of another cache.
    """
    collection = settings.collection
    if not isinstance(settings, ProgramCollection):
        raise UserError(f"latency: of tensor programs, and {collection} is of kind {settings.kind}")
    results = outputs / settings.results
    folder = weights_in(results, settings)
    ensemble = load_networks(folder, type(settings), {"model": settings.model})
    if folder == results:
        cache = Cache(outputs / settings.cache)
        if ensemble.data != cache.fingerprint:
            advice = "this one's: train again"
            raise DataError(folder, "data", "another cache's fingerprint", advice)
        return ensemble, devices_of(cache), folder
    path = next(folder.glob("fold_*/*"))
    known = expect(
        tensor_file.read_metadata(path), {"devices": [DEVICE]}, path, advice="make weights"
    )
    make = f"make all COLLECTION={collection}"
    print(f"{folder}: bundled networks predict; {make} trains your own", file=sys.stderr)
    return ensemble, known["devices"], folder


def predictor_flags(line: argparse.ArgumentParser) -> None:
    """Add the flags that say which trained predictor is used, and where TVM is."""
    line.add_argument("--collection", default="programs-cpu", help="whose predictor")
    line.add_argument("--model", help="which predictor, if not the collection's own")
    line.add_argument("--experiment", default="", help="of which experiment, if it has a name")
    line.add_argument("--data", type=Path, help="data root that it learned from")
    line.add_argument("--outputs", type=Path, default=Path("outputs"), help="folder that has it")
    line.add_argument("--tvm", type=Path, default=ROOT / TVM, help="Python that has TVM")


def check_flags(args: argparse.Namespace, make: str, **least: int) -> None:
    """Check the flags of a command that measures on a core.

    Args:
        args: its command line.
        make: the target that installs TVM.
        least: what numbers must be at least, by flag; those that are ``None`` are not looked at.

    Raises:
        UserError: one is out of range, or there is no TVM.
    """
    check_least(args, **least)
    if args.core is not None:
        cores_of("--core", str(args.core))
    if not args.tvm.exists():
        raise UserError(f"--tvm {args.tvm}: no such file; make {make} installs TVM")


def run_part(command: list[str], **how: Any) -> None:
    """Run a program of this repository from any folder, which ends with this process.

    Raises:
        UserError: with its last line, if it fails.
    """
    how |= {"text": True, "preexec_fn": end_with_parent}
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, stderr=subprocess.PIPE, env=environment, **how)
    if done.returncode:
        raise UserError(last_words(done.returncode, done.stderr))
