"""Predict how long a whole network takes on a device, from what its programs are predicted to take.

Reads   <outputs>/<collection>[@<model>]/fold_<k>/ and predictions.csv, and the collection's data
Writes  <outputs>/<collection>[@<model>]/latency/<network>[.b<batch>].<device>.npz, its programs,
        and <network>[.b<batch>].<device>.json, what --json prints

    python -m lib.programs.latency torchvision:resnet18 1 native
    python -m lib.programs.latency mine.py:network 1 native

A network is torchvision:NAME, or transformers:NAME, or a function of a file of your own that
returns a torch.nn.Module and a tuple of example inputs, or an ONNX file, or what torch.export.save
writes; the batch is 0 for what a file says by itself, or 1. TVM makes programs of it, in an
environment of its own; nothing is run. Of each task it is the program that a search predicts to be
fastest, so that what is predicted is the network as it is deployed.
"""

from __future__ import annotations

import argparse
import json
import math

import torch

from lib.files.artifacts import write_json
from lib.files.command_line import Parser, check_least
from lib.files.errors import UserError, one_line_errors
from lib.programs.devices import tell
from lib.programs.latency.estimate import as_json, as_text
from lib.programs.latency.predictor import (
    BUDGET,
    GAP,
    Predictor,
    predictor_flags,
)
from lib.programs.messages import file_name

PASSED = ("batch", "shape", "budget", "seed")  # flags for the half that has TVM


def main(arguments: list[str] | None = None) -> None:
    """Print the latency of a network on a device."""
    args = parser().parse_args(arguments)
    check_least(args, batch=0, budget=1, seed=0)
    if not (math.isfinite(args.gap) and args.gap >= 0):
        raise UserError(f"--gap {args.gap}: must be at least 0")
    torch.set_num_threads(1)
    which = args.data, args.model, args.experiment
    predictor = Predictor.load(args.outputs, args.collection, args.tvm, *which)
    device = predictor.device(args.device)
    name = file_name(args.network) + f".b{args.batch}" * bool(args.batch)
    name += f".{file_name(args.shape)}" * bool(args.shape)
    path = predictor.folder / "latency" / f"{name}.{args.device}.npz"
    flags = {flag: getattr(args, flag) or None for flag in PASSED}
    network = predictor.programs(args.network, path, device, **flags)
    tell(predictor.known[device])
    estimate = predictor.estimate(network, device, args.budget, args.gap)
    content = as_json(estimate)
    file = path.with_name(f"{name}.{args.device}.json")
    write_json(file, content)
    print(json.dumps(content, indent=2) if args.json else f"{as_text(estimate)}; wrote {file}")


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = Parser(prog="python -m lib.programs.latency", description=__doc__.splitlines()[0])
    line.add_argument("network", help="a name, file.py:function, file.onnx or file.pt2")
    line.add_argument("batch", type=int, help="examples at a time, or 0")
    line.add_argument("device", help="native, an instruction set or a device's whole name")
    line.add_argument("--shape", default="", help="free dimensions of an ONNX file: name=128,...")
    predictor_flags(line)
    budget = "of a search: the fastest of so many of its programs runs, as predicted"
    line.add_argument("--budget", type=int, default=BUDGET, help=budget)
    line.add_argument("--seed", type=int, default=0, help="of the schedules")
    line.add_argument("--gap", type=float, default=GAP, help="microseconds between two calls")
    line.add_argument("--json", action="store_true", help="print all, for machines")
    return line


if __name__ == "__main__":
    with one_line_errors():
        main()
