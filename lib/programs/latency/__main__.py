"""How long a whole network takes on a device, from what its programs are predicted to take.

Reads   <outputs>/<collection>[@<model>]/fold_<k>/ and predictions.csv, and the collection's data
Writes  <outputs>/<collection>[@<model>]/latency/<network>.b<batch>.npz, its programs, and
        <network>.b<batch>.<device>.json, what --json prints

    python -m lib.programs.latency resnet18 1 avx2

A network is one of lib/collect/tvm/networks, or a function of a file of your own that returns a
torch.nn.Module and a tuple of example inputs, or an ONNX file. TVM makes programs of it, in an
environment of its own, and runs it once to see that it computes the same; nothing is timed.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
from pathlib import Path

import torch

from lib.cache.reader import Cache
from lib.files.artifacts import write_json
from lib.files.command_line import Parser
from lib.files.errors import UserError, one_line_errors
from lib.files.processor import processor
from lib.programs.inputs import device_named, devices_of
from lib.programs.latency.error import calls_of, error_of, held_out
from lib.programs.latency.estimate import as_json, as_text, estimate
from lib.programs.latency.network import read_network
from lib.programs.latency.predict import load_predictor, predicted_seconds, predictor_settings
from lib.programs.messages import last_words
from lib.runs.sources import ROOT

TVM = Path(".venv-collect-programs/bin/python")
GAP = 0.4  # microseconds: of a call of TVM's virtual machine, by tests/bench/chains_tvm.py


def main(arguments: list[str] | None = None) -> None:
    """Print what the command line asks for."""
    args = parser().parse_args(arguments)
    check(args)
    root, chosen = predictor_settings(args.collection, args.data, args.model, args.experiment)
    torch.set_num_threads(1)
    ensemble, cache = load_predictor(args.outputs, chosen)
    device = device_named(args.device, devices_of(cache), processor())
    folder = args.outputs / chosen.results
    path = folder / "latency" / f"{file_name(args.network)}.b{args.batch}.npz"
    write_programs(args, path)
    network = read_network(path)
    predicted = predicted_seconds(ensemble, network.programs, cache, device)
    name = cache.manifest["devices"][device]["name"]
    error = error_of(
        held_out(folder / "predictions.csv", name), calls_of(root.path), args.schedules
    )
    learned = learned_tasks(cache)
    estimated = estimate(network, name, predicted, error, learned, args.gap * 1e-6)
    content = as_json(estimated)
    file = path.with_suffix(f".{args.device}.json")
    write_json(file, content)
    print(json.dumps(content, indent=2) if args.json else f"{as_text(estimated)}; wrote {file}")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    line = Parser(prog="python -m lib.programs.latency", description=__doc__.splitlines()[0])
    line.add_argument("network", help="a name, file.py:function, or file.onnx")
    line.add_argument("batch", type=int, help="examples at a time")
    line.add_argument("device", help="an instruction set, or a device's whole name")
    line.add_argument("--collection", default="programs-cpu", help="whose predictor")
    line.add_argument("--model", help="which predictor, if not the collection's own")
    line.add_argument("--experiment", default="", help="of which experiment, if it has a name")
    line.add_argument("--data", type=Path, help="data root that it learned from")
    line.add_argument("--outputs", type=Path, default=Path("outputs"), help="where it lies")
    schedules = "of each task, of which the one runs that is predicted to be fastest"
    line.add_argument("--schedules", type=int, default=8, help=schedules)
    line.add_argument("--seed", type=int, default=0, help="of the schedules")
    line.add_argument("--gap", type=float, default=GAP, help="microseconds between two calls")
    line.add_argument("--tvm", type=Path, default=ROOT / TVM, help="Python that has TVM")
    line.add_argument("--json", action="store_true", help="print all, for machines")
    return line


def check(args: argparse.Namespace) -> None:
    """Raise a :class:`UserError` for a value out of range."""
    for name, least in (("batch", 1), ("schedules", 1), ("seed", 0)):
        if getattr(args, name) < least:
            raise UserError(f"--{name} {getattr(args, name)}: must be at least {least}")
    if not (math.isfinite(args.gap) and args.gap >= 0):
        raise UserError(f"--gap {args.gap}: must be at least 0")
    if not args.tvm.exists():
        raise UserError(f"--tvm {args.tvm}: no such file; make latency installs TVM")


def write_programs(args: argparse.Namespace, path: Path) -> None:
    """Have TVM write the network's graph and programs, in its own environment.

    Raises:
        UserError: with what it says, if it cannot.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [str(args.tvm), "-m", "lib.collect.tvm.whole", args.network, str(path.resolve())]
    for name in ("batch", "schedules", "seed"):
        command += [f"--{name}", str(getattr(args, name))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise UserError(last_words(done.returncode, done.stderr))


def learned_tasks(cache: Cache) -> set[str]:
    """Hashes of the tasks that some fold has learned from: the last part of a task's name."""
    return {name.rpartition(".")[2] for name in cache.names("train", "valid")}


def file_name(network: str) -> str:
    """A network's name as a file's."""
    return re.sub(r"[^\w.-]", "_", network).lstrip(".") or "network"


if __name__ == "__main__":
    with one_line_errors():
        main()
