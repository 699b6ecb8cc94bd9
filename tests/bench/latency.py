"""Predicted latencies of whole networks against measured ones.

    .venv/bin/python -m tests.bench.latency [--outputs outputs]      # as they are deployed
    .venv/bin/python -m tests.bench.latency --bundled                # what the dataset has

Wants the predictor of `make all COLLECTION=programs-cpu`. Nothing is measured: networks took what
:mod:`tests.bench.deployed` has kept of them, after searches on this processor, and are predicted by
`make latency`, a minute each. With ``--bundled``, networks that are kept for the test are added up
from what the dataset has measured and what was predicted of it, with the factor of the other
networks and without.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from lib.files.processor import processor
from lib.files.terminal import table
from lib.programs.latency.error import calls_of, error_of, held_out, of_blend, ratios_of
from lib.runs.code import ROOT
from lib.settings.resolved import BUNDLED_PROGRAMS
from tests.bench.deployed import MEASURED, OURS, PLACE


def predicted(network: str, args: argparse.Namespace) -> dict[str, Any]:
    """What ``python -m lib.programs.latency --json`` says."""
    command = [sys.executable, "-m", "lib.programs.latency", network, "0", args.device]
    command += ["--json", "--outputs", str(args.outputs)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def deployed(args: argparse.Namespace) -> str:
    """A row a network that was searched on this processor, and the mean of the errors' sizes."""
    rows, errors = [], []
    for kept in json.loads(MEASURED.read_text()):
        if PLACE(kept) == (processor(), args.device, 1):
            said = predicted(kept["network"], args)
            took = kept["bound"][OURS] / 1e3
            low, high = said["low"], said["high"]
            errors.append([said[name] / took - 1 for name in ("seconds", "replayed_seconds")])
            times = [f"{1e3 * x:.3g}" for x in (took, said["seconds"], low, high)]
            signed = [f"{100 * error:+.1f} %" for error in errors[-1]]
            rows.append(
                [
                    Path(kept["network"]).name,
                    *times,
                    *signed,
                    "yes" if low <= took <= high else "no",
                ]
            )
    sizes = [f"{size:.1%}" for size in np.abs(errors).mean(0)]
    rows.append(["mean size", "", "", "", "", *sizes, ""])
    head = ["network", "measured ms", "predicted", "low", "high", "error", "without factor"]
    return table(rows, [*head, "within the bar"])


def bundled(args: argparse.Namespace) -> str:
    """A row a device: sizes of the errors of the networks of the test, added up."""
    about = json.loads((BUNDLED_PROGRAMS / "dataset.json").read_text())
    metrics = json.loads((args.outputs / args.predictor / "metrics.json").read_text())
    folds = len(metrics["folds"]["blended"])
    calls, rows, every = calls_of(BUNDLED_PROGRAMS), [], []
    test = {name: calls.pop(name) for name in about["test_networks"]}
    for device in (one["name"] for one in about["devices"]):
        tasks = held_out(args.outputs / args.predictor / "predictions.csv", device)
        error = error_of(tasks, calls, args.schedules)
        factor = of_blend(error, folds, args.schedules, False).middle
        ratios = ratios_of(tasks, test, args.schedules)
        if len(ratios) == len(test):
            over = np.array([*ratios.values()])  # measured over predicted
            every.append([np.abs(1 / over - 1).mean(), np.abs(factor / over - 1).mean()])
            rows.append([device, f"{factor:.2f}", *(f"{error:.1%}" for error in every[-1])])
    rows.append(["mean", "", *(f"{error:.1%}" for error in np.mean(every, 0))])
    head = ["networks of the test", "factor", "without factor", "with it"]
    return table(rows, head)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bundled", action="store_true", help="add up what the dataset has")
    parser.add_argument("--device", default="native", help="of the searches")
    parser.add_argument("--schedules", type=int, default=8, help="of each task, with --bundled")
    parser.add_argument("--outputs", type=Path, default=Path("outputs"))
    parser.add_argument("--predictor", default="programs-cpu", help="its folder in the outputs")
    args = parser.parse_args()
    print(bundled(args) if args.bundled else deployed(args))


if __name__ == "__main__":
    main()
