"""Whole networks as `make search` leaves them, beside what users run today, on one core.

    .venv-collect-programs/bin/python -m pip install -r tests/bench/deployed.txt
    .venv-collect-programs/bin/python -m tests.bench.deployed --core 1 [--networks NAME ...]
    .venv-collect-programs/bin/python -m tests.bench.deployed --print

The rivals: PyTorch as it is, ``torch.compile`` with its weights frozen, ONNX Runtime, OpenVINO in
float32. Each network is searched with every budget, by the predictor of ``outputs/programs-cpu``;
then all libraries and rivals run in one process, in turns, on the same inputs, one thread each.
What was measured is kept in ``deployed.json`` beside this file, a row a network and device, and is
not measured again; move it away when the search has changed. ``--print``
runs nothing, and needs no TVM.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from lib.files.artifacts import write_json
from lib.files.terminal import table

MEASURED = Path(__file__).with_suffix(".json")
MINE = "tests/bench/deployed_mine.py:network"  # from the root, where this is run
NETWORKS = (
    *("resnet18.w64_s112.b1", "resnet50.w32_s64.b1", "mobilenet_v2.w32_s112.b1"),
    *("convnext.w24_s64.b1", "bert.w256_t128.b1", "decode.w256_t128.b1", "vit.w128_s96.b1"),
    MINE,
)
BUDGETS = (16, 64)


def as_table(rows: list[dict[str, Any]]) -> str:
    """Least milliseconds of each network by each way, and geometric means of ratios."""
    names = sorted(rows[0]["least"], key=lambda name: (not name.startswith("search"), name))
    times = np.array([[row["least"][name] for name in names] for row in rows])
    texts = [
        [row["network"], *(f"{ms:.2f}" for ms in mine), f"{sum(row['searching'].values()):.0f}"]
        for row, mine in zip(rows, times, strict=True)
    ]
    for rival in ("ONNX Runtime", "OpenVINO"):
        ratios = np.exp(np.log(times / times[:, [names.index(rival)]]).mean(0))
        texts.append([f"over {rival}", *(f"{ratio:.2f}" for ratio in ratios), ""])
    return table(texts, ["least ms", *names, "s to search"])


def main() -> None:
    """Measure what is missing, and print all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--core", type=int, default=1)
    parser.add_argument("--device", default="native")
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--budgets", nargs="+", type=int, default=BUDGETS)
    parser.add_argument("--outputs", type=Path, default=Path("outputs"), help="with a predictor")
    parser.add_argument("--work", type=Path, default=Path("outputs/deployed"))
    parser.add_argument("--print", action="store_true", dest="only_print")
    args = parser.parse_args()
    rows = json.loads(MEASURED.read_text()) if MEASURED.exists() else []
    there = {(row["network"], row["device"]) for row in rows}
    for network in () if args.only_print else args.networks:
        if (network.rpartition("/")[2], args.device) not in there:
            from tests.bench.deployed_tvm import measured

            rows.append(measured(network, args))
            write_json(MEASURED, rows)
    print(as_table(rows))


if __name__ == "__main__":
    main()
