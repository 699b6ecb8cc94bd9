"""Whole networks as `make search` leaves them, beside what users run today, on one core.

    .venv-collect-programs/bin/python -m pip install -r tests/bench/deployed.txt
    .venv-collect-programs/bin/python -m tests.bench.deployed --core 1 [--networks NAME ...]
    .venv-collect-programs/bin/python -m tests.bench.deployed --print

The rivals: PyTorch as it is, ``torch.compile`` with its weights frozen, ONNX Runtime, OpenVINO in
float32. Each network is searched as ``--searches`` says: who chooses what is measured (``search``:
the predictor of ``outputs/programs-cpu``, ``XGBoost``: TVM's own, from nothing) and how many
programs of a task; then all libraries and rivals run in one process, in turns, on the same inputs,
one thread each. Libraries are kept in ``--work``, and times in ``deployed.json`` beside this file,
a row a network, device and processor, which is measured anew if a search is asked for that it has
not; move both away when the search has changed. ``--print`` runs nothing, and needs no TVM. With
``--device avx2``, PyTorch and OpenVINO are kept to AVX2 as well; ONNX Runtime cannot be, and is
left out where there is AVX-512. ``search 8 packing`` goes without a thing that makes networks fast,
see :mod:`tests.bench.deployed_without`, and ``search 8 nothing`` without none: another table
compares these.
"""

from __future__ import annotations

import argparse
import json
import os
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from lib.files.artifacts import write_json
from lib.files.processor import processor
from lib.files.terminal import table

MEASURED = Path(__file__).with_suffix(".json")
MINE = "tests/bench/deployed_mine.py:network"  # from the root, where this is run
NETWORKS = (
    *("torchvision:resnet50", "torchvision:mobilenet_v3_large", "torchvision:convnext_tiny"),
    *("transformers:bert-base-uncased", "transformers:gpt2", "transformers:whisper-tiny"),
    MINE,
)
SEARCHES = ("search 16", "search 64", "XGBoost 16")
WITHOUT = "search 8 "  # and what it goes without, of tests.bench.deployed_without
WHOLE = f"{WITHOUT}nothing"
LIMITS = {"avx2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}}  # of rivals
RIVALS = ("PyTorch", "ONNX Runtime", "OpenVINO")
PLACE = itemgetter("processor", "device")  # of a row


def as_text(rows: list[dict[str, Any]]) -> str:
    """The tables, by processor and device."""
    rows = sorted(rows, key=PLACE)
    tables = []
    for place, group in groupby(rows, PLACE):
        own = list(group)
        parts = [", ".join(place), as_table(own)]
        if any(WHOLE in row["least"] for row in own):
            parts += ["", as_changes(own)]
        tables.append("\n".join(parts))
    return "\n\n".join(tables)


def as_table(rows: list[dict[str, Any]]) -> str:
    """Least milliseconds of each network by each way, and geometric means of ratios.

    A mean is over the networks that have been run both ways.
    """
    names = sorted(
        {name for row in rows for name in row["least"] if len(name.split()) < 3},
        key=lambda name: (not name.startswith("search"), name),
    )
    times = np.array([[row["least"].get(name, np.nan) for name in names] for row in rows])
    searches = [name for name in SEARCHES if name in names]
    texts = []
    for row, mine in zip(rows, times, strict=True):
        least = ["" if np.isnan(ms) else f"{ms:#.3g}" for ms in mine]
        took = [row["searching"].get(name) for name in searches]
        texts.append([row["network"], *least, *(f"{s:.0f}" if s else "" for s in took)])
    for rival in (name for name in RIVALS if name in names):
        ratios = np.exp(np.nanmean(np.log(times / times[:, [names.index(rival)]]), 0))
        blank = [""] * len(searches)
        texts.append([f"over {rival}", *(f"{ratio:.2f}" for ratio in ratios), *blank])
    return table(texts, ["least ms", *names, *(f"s to {name}" for name in searches)])


def as_changes(rows: list[dict[str, Any]]) -> str:
    """How many times as long networks take without what makes them fast, one at a time."""
    least = {row["network"]: row["least"] for row in rows if WHOLE in row["least"]}
    names = {name for ms in least.values() for name in ms if name.startswith(WITHOUT)} - {WHOLE}
    texts = []
    for name in sorted(names):
        times = (f"{ms[name] / ms[WHOLE]:.2f}" if name in ms else "" for ms in least.values())
        texts.append([name.removeprefix(WITHOUT), *times])
    return table(texts, ["times as long without", *least])


def changed(python: Path, change: str, folder: Path) -> Path:
    """A Python that makes a change of :mod:`tests.bench.deployed_without` first."""
    path = folder.absolute() / f"without-{change}"
    path.write_text(f'#!/bin/sh\nexec {python} -m tests.bench.deployed_without {change} "$@"\n')
    path.chmod(0o755)
    return path


def main() -> None:
    """Measure what is missing, and print all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--core", type=int, default=1)
    parser.add_argument("--device", default="native")
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--searches", nargs="+", default=SEARCHES)
    parser.add_argument("--outputs", type=Path, default=Path("outputs"), help="with a predictor")
    parser.add_argument("--work", type=Path, default=Path("outputs/deployed"))
    parser.add_argument("--print", action="store_true", dest="only_print")
    args = parser.parse_args()
    os.environ |= LIMITS.get(args.device, {})  # which the rivals read when they are imported
    rows = json.loads(MEASURED.read_text()) if MEASURED.exists() else []
    for network in () if args.only_print else args.networks:
        mine = [row for row in rows if row["network"] == network.rpartition("/")[2]]
        mine = [row for row in mine if PLACE(row) == (processor(), args.device)]
        there = [search for row in mine for search in row["searching"]]
        if new := [search for search in args.searches if search not in there]:
            from tests.bench.deployed_tvm import measured

            row = measured(network, [*there, *new], args)
            rows = [row for row in rows if row not in mine] + [row]
            write_json(MEASURED, rows)
    print(as_text(rows))


if __name__ == "__main__":
    main()
