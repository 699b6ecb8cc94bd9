"""Correct a predictor for a processor by programs that were measured on it.

Reads   <outputs>/<collection>[@<model>]/fold_<k>/, else data/weights/<collection>/; and the
        collection's cache
Writes  <outputs>/<collection>[@<model>]/calibration/<processor>/
            calibration.json    make latency and make search use it from then on
            <device>.safetensors    networks, if tuned
            measured/, data/, cache/    the programs that were measured

    python -m lib.programs.calibrate --collection programs-cpu --tasks 64
    python -m lib.programs.calibrate --collection programs-cpu --method cmd

Programs of large tasks that are unlike one another are compiled for this processor and timed, as
`make collect KIND=programs` does it. The predictor is then given the processor's caches and how
fast those programs are, and its networks are trained further, if that does better on tasks that
they were not trained on. ``--method cmd`` trains them as the paper does (CDMPP, section 5.3), and
always. Kill it at any time: the same command goes on.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lib.cache.reader import Cache
from lib.files import tensor_file
from lib.files.artifacts import fingerprint_value, write_json
from lib.files.command_line import Parser
from lib.files.errors import one_line_errors
from lib.files.locks import only_writer
from lib.files.processor import processor
from lib.files.terminal import table
from lib.preprocess.collection import RawFile, write_cache
from lib.programs.calibrate.sampling import tasks_to_measure
from lib.programs.calibrate.tuning import (
    Source,
    Tune,
    errors_of_tuning,
    nearly_fastest,
    tuned,
    tuned_by_cmd,
)
from lib.programs.devices import calibration_of, tuned_weights, weights_of
from lib.programs.folds import all_pairs, sides_of_fold
from lib.programs.inputs import (
    device_features,
    device_named,
    devices_of,
    load_programs,
)
from lib.programs.latency.predictor import (
    check_flags,
    predictor_flags,
    predictor_in,
    predictor_settings,
    run_part,
)
from lib.programs.messages import NATIVE
from lib.programs.task import networks_of
from lib.programs.tensorir.records import CACHES
from lib.scoring.trained import Ensemble

TASKS, PROGRAMS = 64, 4  # that are measured, and of each of them
CMD = "cmd"
SIZES = Path("/sys/devices/system/cpu/cpu0/cache")


def main(arguments: list[str] | None = None) -> None:
    """Measure the missing programs, fit, and write the calibration."""
    args = parser().parse_args(arguments)
    check_flags(args, "calibrate", tasks=1)
    torch.set_num_threads(1)
    _, settings = predictor_settings(args.collection, args.data, args.model, args.experiment)
    ensemble, known, folder = predictor_in(args.outputs, settings)
    cache, weights = Cache(args.outputs / settings.cache), weights_of(folder)
    results = args.outputs / settings.results
    path = calibration_of(results, processor())
    with only_writer(args.outputs, path.parent):
        measured = measure(args, cache, path.parent)
        record = {"weights": weights, "measured": measured.fingerprint}
        record["devices"] = [
            calibrated(args.method, ensemble, cache, known, measured, number, results, weights)
            for number in range(len(devices_of(measured)))
        ]
        write_json(path, record)
    print(as_text(record["devices"]))
    print(f"calibrate: make latency and make search use this for {processor()}; wrote {path}")


def measure(args: argparse.Namespace, cache: Cache, folder: Path) -> Cache:
    """Return a cache of programs measured here; those that are there are not timed again.

    Raises:
        UserError: with the message of the collector, if it fails.
    """
    names = [name for name in cache.names("train", "valid") if networks_of(cache.rows[name])]
    tasks = tasks_to_measure(load_programs(cache, all_pairs(cache, names)), args.tasks)
    count = f"{PROGRAMS} programs of each of {len(tasks)} tasks"
    print(f"calibrate: measuring {count} on core {args.core}", flush=True)
    work, data = folder / "measured", folder / "data"
    hashes = ",".join(name.rpartition(".")[2] for name in tasks)
    flags = {"output": work, "networks": hashes, "programs": PROGRAMS}
    flags |= {"rounds": 1, "core": args.core}
    words = [str(word) for name, value in flags.items() for word in (f"--{name}", value)]
    run_part([str(args.tvm), "-m", "lib.collect.tvm", "--once", *words])
    if data.exists():  # of other tasks, perhaps; it is made of the measurements
        shutil.rmtree(data)
    run_part([sys.executable, "-m", "lib.collect.tvm.export", str(work), str(data)])
    files = [RawFile(data / "dataset.json", "train")]
    write_cache(folder / "cache", files, {"calibration": True}, kind="programs")
    return Cache(folder / "cache")


def calibrated(  # longer: its arguments
    method: str,
    ensemble: Ensemble,
    cache: Cache,
    known: Sequence[dict[str, Any]],
    measured: Cache,
    number: int,
    results: Path,
    weights: str,
) -> dict[str, Any]:
    """Return one of this processor's devices: what is known of it, and the errors.

    Networks that were tuned are written to the calibration's folder.

    Args:
        method: :data:`CMD` or nothing.
        ensemble: the predictor.
        cache, known: programs and devices that it has learned from.
        measured: programs on this processor.
        number: of the device in it.
        results: where tuned networks go.
        weights: fingerprint of the predictor's.
    """
    names, device = [one["name"] for one in known], devices_of(measured)[number]
    same = device["name"] if device["name"] in names else NATIVE
    like = known[device_named(same, known, device["processor"])]
    here = {**device, "machine": cache_sizes(SIZES)}
    metadata = like if like["name"] == device["name"] else here
    every = all_pairs(measured, measured.names("train", "valid", "test"))
    programs = load_programs(measured, every)
    programs = replace(programs, seconds=programs.seconds[:, [number]])
    programs = programs.some(np.isfinite(programs.seconds[:, 0]))
    if method != CMD:
        programs = nearly_fastest(programs)
    tune = way(method, ensemble, cache, metadata)
    before, after = errors_of_tuning(ensemble, programs, metadata, tune)
    tuned_by = ""
    if method == CMD or after < before:
        tuned_by = fingerprint_value([weights, measured.fingerprint, metadata, method])
        tensors = {
            f"{fold}.{name}": tensor
            for fold, network in ensemble.networks.items()
            for name, tensor in tune(fold, network, programs).state_dict().items()
        }
        tensor_file.save(tuned_weights(results, device), tensors, {"tuned": tuned_by})
    errors = {"before": round(before, 4), "after": round(after if tuned_by else before, 4)}
    found = {"like": like["name"], "programs": len(programs), "tuned": tuned_by}
    return {**metadata, **found, **errors}


def way(method: str, ensemble: Ensemble, cache: Cache, device: Mapping[str, Any]) -> Tune:
    """Return how networks are tuned for a device; the paper's way reads their folds' programs."""
    if method != CMD:
        return lambda fold, network, programs: tuned(network, programs, device)
    settings, features = ensemble.settings, device_features(devices_of(cache))

    @lru_cache(1)
    def source(fold: int) -> Source:
        """Return the programs that a fold has learned from."""
        learned = sides_of_fold(cache, fold, settings)["train"]
        return Source(load_programs(cache, learned), features)

    return lambda fold, network, programs: tuned_by_cmd(
        network, programs, device, source(fold), settings
    )


def cache_sizes(folder: Path) -> dict[str, float]:
    """Return KiB of the caches that hold data, as Linux's ``folder`` has them."""
    sizes = dict.fromkeys(CACHES, 0.0)
    for cache in sorted(folder.glob("index*")):
        texts = {name: (cache / name).read_text().strip() for name in ("level", "type", "size")}
        amount, unit = re.fullmatch(r"(\d+)([KMG]?)", texts["size"]).groups()
        if texts["type"] != "Instruction" and (name := f"l{texts['level']}_kib") in sizes:
            sizes[name] = int(amount) * {"": 0, "K": 1, "M": 1024, "G": 1 << 20}[unit]
    return sizes


def as_text(devices: list[dict[str, Any]]) -> str:
    """Return a row a device: errors before and after, of tasks that nothing was fitted to."""
    rows = [
        [
            device["name"],
            f"{device['programs']:,}",
            *(f"{device[side]:.1%}" for side in ("before", "after")),
            "tuned" if device["tuned"] else "as they are",
        ]
        for device in devices
    ]
    return table(rows, ["device", "programs", "MAPE before", "after", "networks"])


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = Parser(prog="python -m lib.programs.calibrate", description=__doc__.splitlines()[0])
    line.add_argument("--tasks", type=int, default=TASKS, help="that are measured, at most")
    line.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="to time on")
    line.add_argument("--method", default="", choices=("", CMD), help="cmd: the paper's")
    predictor_flags(line)
    return line


if __name__ == "__main__":
    with one_line_errors():
        main()
