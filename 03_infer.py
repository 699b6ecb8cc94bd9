"""Stage 3: score every configuration with the network of one fold.

Reads   <outputs>/<collection>/cache/ and <collection>[@<model>]/fold_<k>/{last,model}.safetensors
Writes  <outputs>/<collection>[@<model>]/scores/fold_<k>.parquet
"""

from __future__ import annotations

from lib.runs.begin import one_line_errors

# isort: split
from lib.runs.asked import parse_or_end

if __name__ == "__main__":  # before all other imports, which take seconds
    asked = parse_or_end("infer", __doc__)

# isort: split
import argparse
import time
from typing import Any

import polars as pl
import torch
from torch import nn

from lib import settings
from lib.cache.reader import Cache
from lib.files import tensor_file
from lib.files.parquet import write_parquet
from lib.files.progress import Lines
from lib.files.schema import expect
from lib.inputs.chunks import device_of
from lib.inputs.input import memory_of, network_for
from lib.models.precision import resolve_device
from lib.runs.asked import making_of, tell_as_it_was
from lib.runs.descent import check_trained
from lib.runs.memory import out_of_memory_told
from lib.runs.stage import Stage
from lib.runs.turns import turn_on
from lib.scoring.scores import stand_for_themselves
from lib.scoring.scoring import log_splits, scoring_of, summary_table
from lib.settings.tables import check_trained_with


def main(stage: Stage, args: argparse.Namespace, resolved: settings.Resolved) -> None:
    """Score the fold's validation graphs and the test graphs, on a GPU when it is its turn."""
    torch.set_num_threads(resolved.settings.threads)
    with turn_on(resolve_device(resolved.settings.device), args.outputs, args.fold):
        score_fold(stage, args, resolved)


def score_fold(stage: Stage, args: argparse.Namespace, resolved: settings.Resolved) -> None:
    """Score with the network of a fold, and write its scores."""
    chosen = resolved.settings
    making = making_of(args, chosen)
    cache = Cache(making.cache)
    (path,) = making.files("infer", args.fold)
    if stage.alone(args.outputs, path, path) and making.as_it_was("infer", args.fold):
        tell_as_it_was(making, "infer", args.fold)
        return
    weights = making.folder / f"fold_{args.fold}" / settings.WEIGHTS_FILES[chosen.weights]
    tensors, about = tensor_file.load(weights)
    expect(about, {"data": str}, weights)
    check_trained(weights, about, making, args.fold)
    check_trained_with(weights, about, chosen, args.fold)
    network = network_for(chosen)
    tensor_file.load_into(network, weights, tensors)
    if chosen.permutations > 1 and stand_for_themselves(network, chosen):
        print(f"infer: permutations change nothing: scores of {chosen.model} stand for themselves")

    tracker = stage.begin("infer", making, cache.fingerprint, args.fold)
    stage.note(**resolved.record())
    scoring = scoring_of(chosen)
    to_score = scoring.to_score(cache, args.fold, chosen)
    started = time.perf_counter()
    scores = score(network, cache, to_score, chosen, args.fold)
    seconds = time.perf_counter() - started
    with stage.results(path) as (temporary,):
        write_parquet(scores, temporary, {"identity": making.identity("infer", args.fold)})
    log_splits(tracker, scores, seconds, scoring.counts)
    print(
        f"{summary_table(scores, seconds, scoring.counts)}\n"
        f"infer: {chosen.results} fold {args.fold}: {len(scores):,} scores of {len(to_score)} "
        f"{chosen.graphs}; wrote {path}"
    )


def score(
    network: nn.Module, cache: Cache, to_score: list[Any], chosen: settings.Settings, fold: int
) -> pl.DataFrame:
    """All scores; memory that is not there is told in one line."""
    scoring = scoring_of(chosen)
    frames = scoring.frames(network, cache, to_score, chosen)
    lines = Lines(f"infer: {chosen.results} fold {fold}", len(to_score), "graph")
    with out_of_memory_told(memory_of(chosen, "scoring"), device_of(network), "infer"):
        return pl.concat(lines.over(frames))


if __name__ == "__main__":
    with one_line_errors(), Stage() as stage:
        main(stage, *asked)
