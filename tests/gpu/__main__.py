"""Every model on a GPU against the CPU; and how fast steps are there. Five minutes at most.

    .venv/bin/python -m tests.gpu [--device cuda] [--skip-bench]

Each model is trained for two epochs on generated data, killed in the second one, resumed, scored
and blended by the real stages, in this process. A row says how far its losses are off those of the
CPU, and its scores off the CPU's by the same weights; and the memory that it took on the card. The
rows, and those of ``tests.bench.train_step``, are tables for docs/results/speed.md.

``TGRAPH_GPU_GRAPHS=1`` before it checks and measures CUDA graphs of ``tgraph`` (common/replay.py).
``--device cpu`` tries the script without a card: there, networks run without the compiled loops.

Exit code: 0, 1 if a check has failed, 3 if there is no card.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import polars as pl
import torch

from lib import native
from lib.files.artifacts import read_json
from lib.models.common import build
from lib.runs.stage import run, stage_script
from lib.settings import COLLECTIONS, MODELS
from lib.tpugraphs.dataset import TPUGRAPHS
from tests import kernels
from tests.programs import builders as programs
from tests.synthetic import write_collection, write_dataset

NO_CARD = 3
LAYOUTS, TILES, PROGRAMS = "layout-xla-default", kernels.COLLECTION, programs.COLLECTION
CASES = [
    *((collection, model, {}) for collection in (LAYOUTS, TILES, PROGRAMS)
      for model in MODELS[COLLECTIONS[collection]]),
    (LAYOUTS, "tgraph", {"precision": "bfloat16"}),
]  # fmt: skip
# Nothing random differs between devices: no dropout. Batches are smaller than graphs.
VALUES = {
    **{"folds_total": 2, "epochs": 2, "save_seconds": 0, "precision": "float32"},
    **{"dropout": 0, "context_dropout": 0, "channels": 64, "heads": 4},
    **{"configurations": 16, "inference_configurations": 8, "permutations": 3},
    **{"segment_nodes": 40, "trained_nodes": 40, "kernels": 2, "batch": 64},
}
OWN = {"prices": {"hardware": "tpu"}}
# Of losses, relative, which Adam drives apart: it takes whole steps by gradients that are nearly 0.
# Of scores by the same weights, in standard deviations of a graph's.
TOLERANCES = {"float32": (5e-3, 1e-3), "bfloat16": (5e-2, 1e-1)}


class Killed(BaseException):
    """What ends a training inside of an epoch."""


def main() -> None:
    """Check all models, then measure steps; end with an exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--skip-bench", action="store_true")
    args = parser.parse_args()
    device = torch.device(args.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print(f"tests.gpu: torch {torch.__version__} finds no GPU here; nothing was checked")
        sys.exit(NO_CARD)
    from tests.bench.train_step import processor  # takes seconds to import

    today, card = datetime.now(UTC).date(), processor(device)
    print(f"`python -m tests.gpu`, {today}, {card}, torch {torch.__version__}\n")
    print("| model | precision | losses off | scores off | peak memory, MB | seconds | |")
    print("|---|---|--:|--:|--:|--:|---|")
    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder))
        good = [check(Path(folder), device, *case) for case in CASES]
    if not args.skip_bench:
        print(flush=True)
        shapes, repeats = (("1", "2"), "5") if device.type == "cuda" else (("0",), "1")
        command = [sys.executable, "-m", "tests.bench.train_step", "--device", args.device]
        command += ["--threads", "1", "--repeats", repeats, "--shapes", *shapes]
        good.append(subprocess.run(command).returncode == 0)
    sys.exit(0 if all(good) else 1)


def write_data(folder: Path) -> None:
    """Write a data root for each collection, in a folder of its name."""
    write_collection(folder / LAYOUTS, LAYOUTS, train=8, valid=2, test=2, nodes=120)
    programs.write_root(folder / PROGRAMS, tasks=12)
    tiles = [kernels.tile_kernel(f"k{number}", number) for number in range(10)]
    raw = folder / TILES / "npz" / "tile" / "xla"
    kernels.write_kernels(raw / "train", tiles[:8])
    kernels.write_kernels(raw / "test", tiles[8:], labelled=False)
    write_dataset(folder / TILES, TPUGRAPHS)


def check(
    folder: Path, device: torch.device, collection: str, model: str, changed: dict[str, Any]
) -> bool:
    """Print a model's row; return whether it is within the tolerances."""
    kind = MODELS[COLLECTIONS[collection]][model]
    known = {field.name for field in fields(kind) if field.init}
    values = {k: v for k, v in {**VALUES, **changed}.items() if k in known} | OWN.get(model, {})
    flags = ["--collection", collection, "--model", model, "--data", folder / collection]
    for name, value in values.items():
        flags += [f"--{name.replace('_', '-')}", value]
    precision, started = values.get("precision", "float32"), time.perf_counter()
    outputs = folder / f"{model}-{precision}"
    try:
        losses, scores, memory = differences(outputs, flags, device)
    except (Exception, SystemExit) as error:
        why = str(error).strip().splitlines() or [""]
        cells, verdict = ["", "", ""], f"FAILED: {type(error).__name__}: {why[0]}"
    else:
        cells = [f"{losses:.1e}", f"{scores:.1e}", f"{memory:,.0f}"]
        most = TOLERANCES[precision]
        verdict = "ok" if losses <= most[0] and scores <= most[1] else f"FAILED: more than {most}"
    cells = [model, precision, *cells, f"{time.perf_counter() - started:.1f}", verdict]
    print(f"| {' | '.join(cells)} |", flush=True)
    return verdict == "ok"


def differences(
    outputs: Path, flags: list[Any], device: torch.device
) -> tuple[float, float, float]:
    """Train, kill, resume, score and blend on the device.

    Returns:
        How far losses and scores are off the CPU's, and megabytes.
    """
    cpu, other, scored = (outputs / name for name in ("cpu", "other", "scored"))
    for place in (cpu, other):
        stage("preprocess", *flags, "--jobs", 1, "--outputs", place)
    steps = stage("train", *flags, "--fold", 0, "--device", "cpu", "--outputs", cpu)
    flags = [*flags, "--device", device]
    with computing_on(device):
        with contextlib.suppress(Killed):
            stage("train", *flags, "--fold", 0, "--outputs", other, kill_at=3 * steps // 4)
        for name in ("train", "infer"):
            stage(name, *flags, "--fold", 0, "--outputs", other)
        stage("ensemble", *flags, "--folds", 1, "--outputs", other)
    memory = torch.cuda.max_memory_allocated() / 1e6 if device.type == "cuda" else 0.0
    (record,) = other.glob("*/stages/train_0.json")
    if steps and not read_json(record)["earlier_seconds"] > 0:
        raise RuntimeError("it was not resumed")
    shutil.copytree(other, scored)
    shutil.rmtree(next(scored.glob("*/scores")))
    with patch.object(build, "resolve_device", lambda name: torch.device("cpu")):
        stage("infer", *flags, "--fold", 0, "--outputs", scored)
    return _off(cpu, other, "fold_0/history", "loss"), _scores_off(other, scored), memory


def computing_on(device: torch.device) -> contextlib.AbstractContextManager:
    """Count memory from here on; on the CPU, let torch alone compute."""
    if device.type == "cpu":
        return patch.object(native, "takes", lambda like: False)
    torch.cuda.reset_peak_memory_stats()
    return contextlib.nullcontext()


def stage(name: str, *flags: Any, kill_at: int = 0) -> int:
    """Run a stage in this process, without its output; return how many steps it has trained."""
    clip, steps = torch.nn.utils.clip_grad_norm_, 0

    def counted(*given: Any) -> torch.Tensor:
        nonlocal steps
        steps += 1
        if steps == kill_at:
            raise Killed
        return clip(*given)

    script, sys.argv = stage_script(name), [name, *map(str, flags)]
    errors, quiet = io.StringIO(), contextlib.redirect_stdout(io.StringIO())
    watched = patch.object(torch.nn.utils, "clip_grad_norm_", counted)
    try:
        with quiet, contextlib.redirect_stderr(errors), watched:
            run(name, script.main, script.__doc__)
    except SystemExit:
        raise RuntimeError(f"{name}: {errors.getvalue().strip()}") from None
    return steps


def _off(one: Path, other: Path, file: str, column: str) -> float:
    """Return the largest relative difference of a column; 0 if there is no such column."""
    sides = [pl.read_parquet(next(side.glob(f"*/{file}.parquet"))) for side in (one, other)]
    if column not in sides[0]:
        return 0.0
    return float((sides[0][column] / sides[1][column] - 1).abs().max())


def _scores_off(one: Path, other: Path) -> float:
    """Return the largest difference of scores, in standard deviations of a graph's."""
    sides = [pl.read_parquet(next(side.glob("*/scores/*.parquet"))) for side in (one, other)]
    score, graph = ("score", "graph") if "score" in sides[0] else ("prediction", "task")
    frame = sides[0].with_columns(off=(sides[0][score] - sides[1][score]).abs())
    return float(frame.select((pl.col("off") / pl.col(score).std().over(graph)).max()).item())


if __name__ == "__main__":
    main()
