"""Stage 3: score every configuration with the network of one fold.

Reads   <outputs>/<collection>/cache/ and <collection>[@<model>]/fold_<k>/{last,model}.safetensors
Writes  <outputs>/<collection>[@<model>]/scores/fold_<k>.parquet
"""

from __future__ import annotations

from lib.runs.begin import one_line_errors  # before all others, which take seconds

# isort: split
import time
from typing import Any

import polars as pl
import torch
from torch import nn
from tqdm import tqdm

from lib import settings
from lib.cache.reader import Cache
from lib.files import checkpoint
from lib.files.errors import DataError
from lib.files.parquet import write_parquet
from lib.files.schema import expect
from lib.infer.kinds import SCORING
from lib.infer.scores import stand_for_themselves
from lib.infer.summary import log_splits, summary_table
from lib.inputs.chunks import device_of
from lib.inputs.kinds import network_for
from lib.runs.memory import out_of_memory_told
from lib.runs.stage import Stage


def main(stage: Stage) -> None:
    """Score the fold's validation graphs and the test graphs."""
    parser = settings.parser(__doc__)
    parser.add_argument("--fold", type=int, required=True, help="which fold's network to use")
    args = parser.parse_args()
    chosen, root = settings.resolve(args)
    torch.set_num_threads(chosen.threads)

    folder = args.outputs / chosen.results
    cache = Cache(args.outputs / chosen.cache)
    path = folder / "scores" / f"fold_{args.fold}.parquet"
    stage.alone(args.outputs, path, path)
    weights = folder / f"fold_{args.fold}" / settings.WEIGHTS_FILES[chosen.weights]
    tensors, about = checkpoint.load(weights)
    expect(about, {"data": str}, weights)
    if about["data"] != cache.fingerprint:
        raise DataError(weights, "data", "another cache's fingerprint", "this one's: train again")
    settings.check_trained_with(weights, about, chosen, args.fold)
    network = network_for(chosen)
    checkpoint.load_into(network, weights, tensors)
    if chosen.permutations > 1 and stand_for_themselves(network, chosen):
        print(f"infer: permutations change nothing: scores of {chosen.model} stand for themselves")

    tracker = stage.begin("infer", args.outputs, chosen, cache.fingerprint, args.fold, about)
    stage.note(**settings.changed_by(args, chosen, root.dataset))
    scoring = SCORING[chosen.kind]
    wanted = scoring.wanted(cache, args.fold, chosen)
    started = time.perf_counter()
    scores = score(network, cache, wanted, chosen, args.fold)
    seconds = time.perf_counter() - started
    with stage.results(path) as (temporary,):
        write_parquet(scores, temporary)
    log_splits(tracker, scores, seconds, scoring.counts)
    print(
        f"{summary_table(scores, seconds, scoring.counts)}\n"
        f"infer: {chosen.results} fold {args.fold}: {len(scores):,} scores of {len(wanted)} "
        f"{chosen.graphs}; wrote {path}"
    )


def score(
    network: nn.Module, cache: Cache, wanted: list[Any], chosen: settings.Settings, fold: int
) -> pl.DataFrame:
    """All scores, with a progress bar; memory that they take is told before it is taken."""
    scoring = SCORING[chosen.kind]
    estimate = scoring.memory(network, cache, wanted, chosen)
    frames = scoring.frames(network, cache, wanted, chosen)
    bar = tqdm(frames, total=len(wanted), desc=f"infer {fold}", unit="graph", disable=None)
    with out_of_memory_told(estimate, device_of(network), "infer"):
        return pl.concat(bar)


if __name__ == "__main__":
    with one_line_errors(), Stage() as stage:
        main(stage)
