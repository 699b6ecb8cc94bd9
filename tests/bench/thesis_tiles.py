"""The column for tiles of the GST thesis' table 1, on fifteen kernels of a real TPU.

.venv/bin/python -m tests.bench.thesis_tiles [--seeds 3] [--models NAME ...]

One kernel is left out, a network is trained on the fourteen others, and ranks the tiles of the one.
Only kernels of more than five configurations are left out: of others, five choices have the best
among them. What was measured is kept in ``thesis_tiles.parquet`` beside this file, a line a model,
seed and kernel; what is there is not run again. Move it away when a model has changed. ``--print``
runs nothing. Means are over kernels; errors are standard errors over kernels of the means over
seeds and, in brackets, over seeds of the means over kernels. The second table has differences from
a model (``--against``), paired by kernel.

Of three official kernels (``../shared/tpugraphs/official``) one has tiles to rank and runtimes. It
is ranked by networks that were trained on the fifteen, and has a column of its own.
"""

from __future__ import annotations

import argparse
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

from lib.cache.kernel import CachedKernel
from lib.cache.reader import Cache
from lib.experiments.kernel_fold import KernelSegmentsFold
from lib.files.artifacts import atomic_file
from lib.models.common.build import network_for
from lib.models.common.input import input_of
from lib.models.tile.training import KernelsFold
from lib.preprocess.collection import RawFile, write_cache
from lib.ranking.baseline import output_tile
from lib.ranking.kinds import TILES
from lib.ranking.metrics import kendall_tau
from lib.settings import MODELS
from lib.tpugraphs.npz import read_tile, write_tile
from lib.training.fold import new_network
from lib.training.loop import FoldTraining
from tests.tpu import kernels

COLLECTION = "tile-xla"
OFFICIAL = Path(__file__).resolve().parents[3] / "shared/tpugraphs/official/npz/tile/xla"
NINTH = "inception_v3_batch_128_train_426e203f19335d17"
# As many steps as show that each has learned: 150 of all kernels, or 30 passes of one a step. What
# stands after a model's name is for people.
COMMON = {"channels": 64, "learning_rate": 3e-3, "validate_every": 10**6}
OWN: dict[str, dict[str, Any]] = {
    "tile": {**COMMON, "kernels": 16, "epochs": 150.0},
    "tile, a kernel a step": {**COMMON, "kernels": 1, "epochs": 30.0},
    "gst": {**COMMON, "epochs": 30.0},
    "pooling": {**COMMON, "epochs": 30.0},
    "partitioning": {**COMMON, "epochs": 30.0},
    "gat": {**COMMON, "epochs": 30.0},
}
del OWN["pooling"]["channels"]
SHOWN = {"tau": "{:.2f}", "tile_score": "{:.3f}", "top_1_slowdown": "{:.1%}"}
HEADS = {"tau": "tau", "tile_score": "M_tile (top 5)", "top_1_slowdown": "top-1 slow-down"}
REFERENCES = {"baseline": "largest tile first", "random": "a random order"}
FEW = 5
SCHEMA = {"model": pl.String, "seed": pl.Int64, "kernel": pl.String} | dict.fromkeys(
    SHOWN, pl.Float64
)


def cache_of(folder: Path) -> Cache:
    """All kernels of ``data/tpu-v3-sample``, whatever their split, and the official one."""
    files = []
    for kernel in [*kernels(), *map(read_tile, OFFICIAL.glob(f"valid/{NINTH}.npz"))]:
        files.append(RawFile(folder / f"{kernel.name}.npz", "train"))
        write_tile(files[-1].path, kernel)
    write_cache(folder / "cache", files, {"collection": COLLECTION}, kind="tile")
    return Cache(folder / "cache")


def left_out(cache: Cache) -> list[str]:
    """Kernels that are ranked."""
    names = [*kernels_of(cache), *({NINTH} & set(cache.names("train")))]
    return [name for name in names if len(cache.graph(name).runtime) > FEW]


def kernels_of(cache: Cache) -> list[str]:
    """The fifteen; in an order that does not depend on the files, for results go by it."""
    return sorted({*cache.names("train")} - {NINTH})


def measure(cache: Cache, model: str, seed: int, name: str) -> dict[str, float]:
    """Metrics of a kernel, by a network that was trained on the others."""
    kind = model.partition(",")[0]
    chosen = MODELS["tile"][kind](COLLECTION, seed=seed, **OWN[model])
    learned = [
        other
        for other in kernels_of(cache)
        if other != name and np.ptp(cache.graph(other).config_feat, axis=0).any()
    ]
    if kind == "tile":
        data = KernelsFold(learned, [name], chosen, cache)
    else:
        data = KernelSegmentsFold(learned, [name], chosen, cache)
    fold = [*kernels_of(cache), NINTH].index(name)
    network = new_network(lambda: network_for(chosen), data, seed, fold)
    training = FoldTraining(network, data, fold)
    with tempfile.TemporaryDirectory() as folder:
        list(training.run(Path(folder) / "state", "bench"))
        data.beside.end()
    kernel, seen = cache.graph(name), input_of(chosen)
    scores = seen.scores(network.eval(), seen.prepare(kernel, chosen), len(kernel.runtime))
    found = TILES.measure(scores, kernel.target, kernel)
    return {"tau": kendall_tau(scores, kernel.target), **found}


def table(found: pl.DataFrame, cache: Cache) -> str:
    """A row a model."""
    lines = ["| | " + " | ".join(HEADS.values()) + " | inception_v3: tau |"]
    lines.append("|---" + "|--:" * (len(HEADS) + 1) + "|")
    for model in OWN:
        own = found.filter(pl.col("kernel") != NINTH, model=model)
        if len(own):
            cells = [_cell(own, key, form) for key, form in SHOWN.items()]
            cells.append(_of_ninth(found, model))
            lines.append(f"| {model} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, *_references(found, cache)])


def _cell(own: pl.DataFrame, key: str, form: str) -> str:
    kernels, seeds = (
        own.group_by(by).agg(pl.col(key).mean())[key].to_numpy() for by in ("kernel", "seed")
    )
    shown = f"{form.format(kernels.mean())} ± {form.format(_error(kernels))}"
    return shown + (f" ({form.format(_error(seeds))})" if len(seeds) > 1 else "")


def _of_ninth(found: pl.DataFrame, model: str) -> str:
    """Mean tau over seeds, and the deviation of one of them."""
    taus = found.filter(kernel=NINTH, model=model)["tau"].drop_nans().to_numpy()
    spread = f" ± {np.std(taus, ddof=1):.2f}" if len(taus) > 1 else ""
    return f"{taus.mean():.2f}{spread}" if len(taus) else ""


def _error(values: np.ndarray) -> float:
    return float(np.std(values, ddof=1) / len(values) ** 0.5)


def _references(found: pl.DataFrame, cache: Cache) -> list[str]:
    """Rows of what needs no learning."""
    kernels = [cache.graph(name) for name in left_out(cache) if name != NINTH]
    lines = []
    for prefix, title in REFERENCES.items():
        cells, rows = [], [reference(kernel, prefix) for kernel in kernels]
        for key, form in SHOWN.items():
            own = np.array([row[key] for row in rows])
            known = np.isfinite(own).all()
            cells.append(f"{form.format(own.mean())} ± {form.format(_error(own))}" if known else "")
        cells.append(_of_ninth(found, prefix))
        lines.append(f"| {title}, no learning | " + " | ".join(cells) + " |")
    return lines


def reference(kernel: CachedKernel, prefix: str) -> dict[str, float]:
    """Metrics of what needs no learning, one of ``REFERENCES``; NaN for none."""
    row = TILES.references(kernel.target, kernel)
    row["baseline_tau"] = kendall_tau(output_tile(kernel), kernel.target)
    return {key: row.get(f"{prefix}_{key}", np.nan) for key in SHOWN}


def differences(found: pl.DataFrame, against: str) -> str:
    """A row a model: mean difference from another, paired by kernel, with its error."""
    lines = [f"| less {against} | " + " | ".join(HEADS.values()) + " |"]
    lines.append("|---" + "|--:" * len(HEADS) + "|")
    found = found.filter(pl.col("kernel") != NINTH)
    means = found.group_by("model", "kernel").agg(pl.col(*SHOWN).mean()).sort("kernel")
    base = means.filter(model=against)
    for model in [one for one in OWN if one != against and one in set(means["model"])]:
        own, cells = means.filter(model=model), []
        for key, form in SHOWN.items():
            gap = own[key].to_numpy() - base[key].to_numpy()
            cells.append(f"{form.format(gap.mean())} ± {form.format(_error(gap))}")
        lines.append(f"| {model} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--models", nargs="+", default=list(OWN), choices=list(OWN))
    parser.add_argument("--results", type=Path, default=Path(__file__).with_suffix(".parquet"))
    parser.add_argument("--against", default="gat", choices=list(OWN), metavar="MODEL")
    parser.add_argument("--print", action="store_true", help="print what is there, run nothing")
    args = parser.parse_args()
    torch.set_num_threads(1)
    found = pl.read_parquet(args.results) if args.results.exists() else pl.DataFrame(schema=SCHEMA)
    with tempfile.TemporaryDirectory() as folder:
        cache = cache_of(Path(folder))
        done = set(found.select("model", "seed", "kernel").iter_rows())
        names = left_out(cache)
        wanted = [(m, s, n) for s, m, n in product(range(args.seeds), args.models, names)]
        wanted += [(prefix, 0, NINTH) for prefix in REFERENCES if NINTH in names]
        for model, seed, name in [] if args.print else wanted:
            if (model, seed, name) in done:
                continue
            known = model in REFERENCES
            metrics = (
                reference(cache.graph(name), model) if known else measure(cache, model, seed, name)
            )
            row = [model, seed, name, *(metrics[key] for key in SHOWN)]
            found = pl.concat([found, pl.DataFrame([row], SCHEMA, orient="row")])
            with atomic_file(args.results) as temporary:
                found.write_parquet(temporary)
        print(table(found, cache))
    if {args.against} < set(found["model"]):
        print(differences(found, args.against))


if __name__ == "__main__":
    main()
