"""Predicted latencies of whole networks against measured ones.

    .venv/bin/python -m tests.bench.latency --core 1                 # eight networks, two devices
    .venv/bin/python -m tests.bench.latency --networks bert,mlp --devices avx2 --core 1
    .venv/bin/python -m tests.bench.latency --bundled                # nothing is measured

Wants the predictor of `make all COLLECTION=programs-cpu`, TVM's environment (`make latency`
installs it) and a core that nothing else uses: some minutes a network and device. For each it
prints what was predicted, what the whole network took in TVM's virtual machine under the same
schedules, and what its programs took one by one, added up as the network calls them. The last one
tells how much of the error is the replayer's and how much the predictor's. With ``--bundled``,
networks that are kept for the test are added up from what the dataset has measured and what was
predicted of it, with the factor of the other networks and without.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from lib.files.terminal import table
from lib.programs.latency.error import calls_of, error_of, held_out, ratios_of
from lib.programs.latency.predictor import TVM
from lib.runs.sources import ROOT
from lib.settings.resolved import BUNDLED_PROGRAMS

NETWORKS = "bert,resnet18,mobilenet_v2,vit,mlp,lstm,unet,mixer"
DEVICES = "avx2,avx512"


def predicted(network: str, device: str, args: argparse.Namespace) -> dict[str, Any]:
    """What ``python -m lib.programs.latency --json`` says."""
    command = [sys.executable, "-m", "lib.programs.latency", network, "1", device, "--json"]
    command += ["--outputs", str(args.outputs), "--tvm", str(args.tvm)]
    command += ["--schedules", str(args.schedules)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def measured(network: str, device: str, estimate: Path, args: argparse.Namespace) -> dict[str, Any]:
    """What :mod:`tests.bench.latency_tvm` says."""
    npz = args.outputs.resolve() / args.predictor / "latency" / f"{network}.b1.npz"
    command = [str(args.tvm), "-m", "tests.bench.latency_tvm", network, "1", device, str(npz)]
    command += [str(estimate), *(["--core", str(args.core)] if args.core is not None else [])]
    environment = {**os.environ, "TVM_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, env=environment
    )
    return json.loads(done.stdout.splitlines()[-1])


def row_of(network: str, device: str, args: argparse.Namespace) -> dict[str, Any]:
    """One network on one device: seconds, and errors against the measured whole."""
    said = predicted(network, device, args)
    estimate = args.outputs / args.predictor / "latency" / f"{network}.b1.{device}.json"
    took = measured(network, device, estimate, args)
    added = sum(one["calls"] * took["programs"][one["task"]] for one in said["tasks"])
    return {
        "network": said["network"],
        "device": device,
        "predicted": said["seconds"],
        "replayed": said["replayed_seconds"],
        "low": said["low"],
        "high": said["high"],
        "measured": took["seconds"],
        "added": added,
    }


def bundled(args: argparse.Namespace) -> str:
    """A row a device: sizes of the errors of the networks of the test, added up."""
    about = json.loads((BUNDLED_PROGRAMS / "dataset.json").read_text())
    calls, rows, every = calls_of(BUNDLED_PROGRAMS), [], []
    test = {name: calls.pop(name) for name in about["test_networks"]}
    for device in (one["name"] for one in about["devices"]):
        tasks = held_out(args.outputs / args.predictor / "predictions.csv", device)
        factor = error_of(tasks, calls, args.schedules).middle
        ratios = ratios_of(tasks, test, args.schedules)
        if len(ratios) == len(test):
            over = np.array([*ratios.values()])  # measured over predicted
            every.append([np.abs(1 / over - 1).mean(), np.abs(factor / over - 1).mean()])
            rows.append([device, f"{factor:.2f}", *(f"{error:.1%}" for error in every[-1])])
    rows.append(["mean", "", *(f"{error:.1%}" for error in np.mean(every, 0))])
    head = ["networks of the test", "factor", "without factor", "with it"]
    return table(rows, head)


def report(rows: list[dict[str, Any]]) -> str:
    """A row a network and device, and the mean of the errors' sizes."""
    cells = [
        [
            one["network"],
            one["device"],
            *(f"{1e3 * one[name]:.3g}" for name in ("measured", "predicted", "replayed", "added")),
            *(f"{_error(one, name):+.1%}" for name in ("predicted", "replayed", "added")),
            "yes" if one["low"] <= one["measured"] <= one["high"] else "no",
        ]
        for one in rows
    ]
    head = ["network", "device", "measured ms", "predicted", "without factor", "programs added"]
    head += ["error", "without factor", "programs added", "within the bar"]
    means = (
        f"{name} {np.mean([abs(_error(one, name)) for one in rows]):.1%}"
        for name in ("predicted", "replayed", "added")
    )
    return f"{table(cells, head)}\nmean of the errors' sizes: {', '.join(means)}"


def _error(row: dict[str, Any], name: str) -> float:
    return row[name] / row["measured"] - 1


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--networks", default=NETWORKS, help="names, with commas between")
    parser.add_argument("--devices", default=DEVICES, help="instruction sets, likewise")
    parser.add_argument("--bundled", action="store_true", help="add up what the dataset has")
    parser.add_argument("--schedules", type=int, default=8, help="of each task")
    parser.add_argument("--core", type=int, help="a quiet core to measure on")
    parser.add_argument("--outputs", type=Path, default=Path("outputs"))
    parser.add_argument("--predictor", default="programs-cpu", help="its folder in the outputs")
    parser.add_argument("--tvm", type=Path, default=ROOT / TVM, help="Python that has TVM")
    args = parser.parse_args()
    if args.bundled:
        print(bundled(args))
        return
    rows = [
        row_of(network, device, args)
        for network in args.networks.split(",")
        for device in args.devices.split(",")
    ]
    print(report(rows))


if __name__ == "__main__":
    main()
