"""Correct a predictor for the processor that this is, by programs that are measured on it.

Reads   <outputs>/<collection>[@<model>]/fold_<k>/, else data/weights/<collection>/; and the
        collection's cache
Writes  <outputs>/<collection>[@<model>]/calibration/<processor>/
            calibration.json    what `make latency` and `make search` use from then on
            measured/, data/, cache/    what it was made from

    python -m lib.programs.calibrate --collection programs-cpu --networks 12

Of the tasks of networks that tell most, some schedules are compiled for this processor and timed,
as `make collect KIND=programs` does it. What the predictor knows of the processor are then its
caches and how fast those programs are, and its predictions are multiplied by what makes the
relative error of those least; or its networks are tuned, if that does better on tasks that they
were not tuned on. Kill it at any time: the same command goes on.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lib.cache.reader import Cache
from lib.files import tensor_file
from lib.files.artifacts import fingerprint_value, write_json
from lib.files.children import end_with_parent
from lib.files.command_line import Parser
from lib.files.errors import UserError, one_line_errors
from lib.files.locks import only_writer
from lib.files.processor import processor
from lib.files.terminal import table
from lib.preprocess.collection import RawFile, write_cache
from lib.programs.adapt.machine import machine
from lib.programs.adapt.transfer import best_factor, error_of, parts_of
from lib.programs.calibrate.networks import telling
from lib.programs.calibrate.tuning import tuned
from lib.programs.devices import calibration_of, tuned_weights, weights_of
from lib.programs.folds import all_pairs
from lib.programs.inputs import Programs, device_named, devices_of, load_programs
from lib.programs.latency.predict import predicted_seconds, predictor_in, predictor_settings
from lib.programs.latency.predictor import check_flags, predictor_flags
from lib.programs.losses import STEEPEST
from lib.programs.messages import NATIVE, last_words
from lib.runs.code import ROOT
from lib.scoring.trained import Ensemble

PROGRAMS = 4  # of each task


def main(arguments: list[str] | None = None) -> None:
    """Measure what is missing, fit, and write the calibration."""
    args = parser().parse_args(arguments)
    check_flags(args, "calibrate", networks=1)
    torch.set_num_threads(1)
    _, chosen = predictor_settings(args.collection, args.data, args.model, args.experiment)
    ensemble, known, folder = predictor_in(args.outputs, chosen)
    cache, weights = Cache(args.outputs / chosen.cache), weights_of(folder)
    results = args.outputs / chosen.results
    path = calibration_of(results, processor())
    with only_writer(args.outputs, path.parent):
        measured = measure(args, cache, path.parent)
        record = {"weights": weights, "measured": measured.fingerprint}
        record["devices"] = calibrated(ensemble, known, measured, results, weights)
        write_json(path, record)
    print(as_text(record["devices"]))
    print(f"calibrate: make latency and make search use this for {processor()}; wrote {path}")


def measure(args: argparse.Namespace, cache: Cache, folder: Path) -> Cache:
    """A cache of the programs that tell most, measured here; what is there is not timed again.

    Raises:
        UserError: with what the collector says, if it fails.
    """
    networks = telling(cache, args.networks)
    count = f"{PROGRAMS} programs of each task of {len(networks)} networks"
    print(f"calibrate: measuring {count} on core {args.core}", flush=True)
    work, data = folder / "measured", folder / "data"
    flags = {"output": work, "networks": ",".join(networks), "programs": PROGRAMS}
    flags |= {"rounds": 1, "phases": "main", "core": args.core}
    words = [str(word) for name, value in flags.items() for word in (f"--{name}", value)]
    run([str(args.tvm), "-m", "lib.collect.tvm", *words])
    if data.exists():  # of other networks, perhaps; it is made of what was measured
        shutil.rmtree(data)
    run([sys.executable, "-m", "lib.collect.tvm.export", str(work), str(data)])
    files = [RawFile(data / "dataset.json", "train")]
    write_cache(folder / "cache", files, {"calibration": True}, kind="programs")
    return Cache(folder / "cache")


def run(command: list[str]) -> None:
    """Run a part of the collector; raises a :class:`UserError` with its last words if it fails."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    how = {"text": True, "env": environment, "preexec_fn": end_with_parent}
    done = subprocess.run(command, stderr=subprocess.PIPE, **how)
    if done.returncode:
        raise UserError(last_words(done.returncode, done.stderr))


def calibrated(
    ensemble: Ensemble,
    known: Sequence[dict[str, Any]],
    measured: Cache,
    results: Path,
    weights: str,
) -> list[dict[str, Any]]:
    """This processor's devices: what is known of each, its factor, and the errors.

    Networks that were tuned are written beside the calibration.

    Args:
        ensemble: the predictor.
        known: devices that it has learned from.
        measured: programs on this processor.
        results: where tuned networks go.
        weights: fingerprint of the predictor's.
    """
    names = [device["name"] for device in known]
    programs = load_programs(
        measured, all_pairs(measured, measured.names("train", "valid", "test"))
    )
    found, here = [], machine()
    for number, device in enumerate(devices_of(measured)):
        same = device["name"] if device["name"] in names else NATIVE
        like = known[device_named(same, known, device["processor"])]
        about = like if like["name"] == device["name"] else {**device, "machine": here}
        seconds = programs.seconds[:, [number]]
        there = replace(programs, seconds=seconds).some(np.isfinite(seconds[:, 0]))
        fitted = fit(ensemble, there, about)
        tuned_by = ""
        if fitted.pop("tunes"):
            tuned_by = fingerprint_value([weights, measured.fingerprint, about])
            save_tuned(tuned_weights(results, device), ensemble, there, about, tuned_by)
        told = {"like": like["name"], "programs": len(there), "tuned": tuned_by}
        found.append({**about, **told, **fitted})
    return found


def fit(ensemble: Ensemble, programs: Programs, device: dict[str, Any]) -> dict[str, Any]:
    """The factor, errors before and after, and whether tuning does better than the factor.

    Errors after are of programs whose tasks the factor was not fitted to; of tuning, those of the
    first network alone. As in training, what is :data:`STEEPEST` too large pulls no further: else a
    few programs that are predicted far too slow would draw all others down.
    """
    truth = np.log(programs.seconds[:, 0])
    gap = np.log(predicted_seconds(ensemble, programs, device)) - truth
    first = replace(ensemble, networks=dict([*ensemble.networks.items()][:1]))
    times, tunes = gap.copy(), gap.copy()
    for held in parts_of(programs.task):
        if held.all():  # one task alone: nothing else tells of it
            continue
        times[held] += best_factor(gap[~held], STEEPEST)
        networks = {
            k: tuned(network, programs.some(~held), device) for k, network in first.networks.items()
        }
        part = predicted_seconds(replace(first, networks=networks), programs.some(held), device)
        tunes[held] = np.log(part) - truth[held]
    better = error_of(tunes, STEEPEST) < error_of(times, STEEPEST)
    return {
        "factor": 1.0 if better else float(f"{np.exp(best_factor(gap, STEEPEST)):.4g}"),
        "before": round(error_of(gap), 4),
        "after": round(error_of(tunes if better else times), 4),
        "tunes": better,
    }


def save_tuned(
    path: Path, ensemble: Ensemble, programs: Programs, device: dict[str, Any], about: str
) -> None:
    """Write all networks, tuned on all programs."""
    tensors = {
        f"{fold}.{name}": tensor
        for fold, network in ensemble.networks.items()
        for name, tensor in tuned(network, programs, device).state_dict().items()
    }
    tensor_file.save(path, tensors, {"tuned": about})


def as_text(devices: list[dict[str, Any]]) -> str:
    """A row a device: errors before and after, of tasks that the factor was not fitted to."""
    rows = [
        [
            device["name"],
            f"{device['programs']:,}",
            *(f"{device[side]:.1%}" for side in ("before", "after")),
            "tuned" if device["tuned"] else f"{device['factor']:.3f}",
        ]
        for device in devices
    ]
    return table(rows, ["device", "programs", "MAPE before", "after", "times"])


def parser() -> argparse.ArgumentParser:
    """The command line."""
    line = Parser(prog="python -m lib.programs.calibrate", description=__doc__.splitlines()[0])
    line.add_argument("--networks", type=int, default=12, help="whose tasks are measured, at most")
    line.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="to time on")
    predictor_flags(line)
    return line


if __name__ == "__main__":
    with one_line_errors():
        main()
