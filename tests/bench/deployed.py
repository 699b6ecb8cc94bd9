"""Whole networks as `make search` leaves them, beside what users run today.

    .venv-collect-programs/bin/python -m pip install -r tests/bench/deployed.txt
    .venv-collect-programs/bin/python -m tests.bench.deployed --core 1 [--networks NAME ...]
    .venv-collect-programs/bin/python -m tests.bench.deployed --threads 1 2 --device native avx2
    .venv-collect-programs/bin/python -m tests.bench.deployed --print

The rivals: ONNX Runtime, OpenVINO and PyTorch, in float32, each called as its own documentation
shows for speed (inputs and outputs bound or shared), and with NumPy arrays in and out. A network is
searched, then all run in one process, in turns, on the same inputs, with memory in large pages.
Times are kept in ``deployed.json`` beside this file, a row a network, device, number of threads and
processor; what has a row is not measured again. ``--print`` runs nothing, and needs no TVM. With
``--device avx2`` rivals are kept to AVX2 as well, ONNX Runtime by a copy of it that is told of no
more. Networks of one's own, and those that the predictor has learned from, are printed apart.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from itertools import groupby, product
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from lib.files.artifacts import read_json, write_json
from lib.files.processor import LARGE_PAGES, processor
from lib.files.terminal import table

MEASURED = Path(__file__).with_suffix(".json")
MINE = "tests/bench/deployed_mine.py"  # from the root, where this is run
NETWORKS = (  # none learned from, none below .5 ms
    *("torchvision:resnet50", "torchvision:mobilenet_v3_large", "torchvision:convnext_tiny"),
    *("transformers:bert-base-uncased", f"{MINE}:gpt2_step", "transformers:whisper-tiny"),
    *(f"{MINE}:unet", f"{MINE}:vocoder"),
)
LIMITS = {"avx2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}}  # of rivals
OURS, RIVALS = "search", ("ONNX Runtime", "OpenVINO", "PyTorch")
PLACE = itemgetter("processor", "device", "threads")  # of a row
WAYS = ("bound", "numpy")


def as_text(rows: list[dict[str, Any]]) -> str:
    """The tables, by processor, device and threads."""
    tables = []
    for place, group in groupby(sorted(rows, key=PLACE), PLACE):
        own = sorted(group, key=lambda row: (row["network"] not in NETWORKS, row["network"]))
        title = "{}, {}, threads: {}".format(*place)
        for apart in (False, True):
            if some := [row for row in own if (row["network"] not in NETWORKS) == apart]:
                tables.append(f"{title}{', other networks' * apart}\n{as_table(some)}")
    return "\n\n".join(tables)


def as_table(rows: list[dict[str, Any]]) -> str:
    """Least milliseconds, bound and with NumPy in and out; geometric means and largest of our time
    over each rival's."""
    names = [name for name in (OURS, *RIVALS) if any(name in row["bound"] for row in rows)]
    times = np.array(
        [[[row[way].get(name, np.nan) for way in WAYS] for name in names] for row in rows]
    )
    texts = [
        [Path(row["network"]).name, *(_cell(ms, "#.3g") for ms in mine)]
        for row, mine in zip(rows, times, strict=True)
    ]
    for rival in names[1:-1]:  # PyTorch is the slowest of all
        ratios = times[:, 0] / times[:, names.index(rival)]
        mean, most = np.exp(np.nanmean(np.log(ratios), 0)), np.nanmax(ratios, 0)
        rest = [""] * (len(names) - 1)
        texts.append([f"over {rival}", _cell(mean, ".2f"), *rest])
        texts.append(["  at most", _cell(most, ".2f"), *rest])
    return table(texts, ["least ms, bound / NumPy", *names])


def _cell(both: np.ndarray, how: str) -> str:
    return "" if np.isnan(both).any() else " / ".join(f"{x:{how}}".rstrip(".") for x in both)


def main() -> None:
    """Measure what is missing, and print all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--core", type=int, default=1)
    parser.add_argument("--device", nargs="+", default=["native"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1])
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--budget", type=int, default=16)
    parser.add_argument("--outputs", type=Path, default=Path("outputs"), help="with a predictor")
    parser.add_argument("--print", action="store_true", dest="only_print")
    args = parser.parse_args()
    rows = json.loads(MEASURED.read_text()) if MEASURED.exists() else []
    there = {(*PLACE(row), row["network"]) for row in rows}
    for device, threads, network in product(args.device, args.threads, args.networks):
        if args.only_print or (processor(), device, threads, network) in there:
            continue
        command = [sys.executable, "-m", "tests.bench.deployed_tvm", network, device, str(threads)]
        command += [str(args.core), str(args.budget), str(args.outputs)]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "row.json"
            how = os.environ | LARGE_PAGES | LIMITS.get(device, {})
            subprocess.run([*command, path], env=how, check=True)
            rows.append(read_json(path))
        write_json(MEASURED, rows)
    print(as_text(rows))


if __name__ == "__main__":
    main()
