"""Stage 3: score every configuration with the network of one fold.

Reads   <outputs>/<collection>/cache/ and <collection>[@<model>]/fold_<k>/{last,model}.safetensors
Writes  <outputs>/<collection>[@<model>]/scores/fold_<k>.parquet
"""

from __future__ import annotations

import sys
import time
import zlib
from pathlib import Path

import numpy as np
import polars as pl
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))  # where PYTHONSAFEPATH has left it out

from lib.cache.graph import CachedGraph
from lib.cache.kernel import CachedKernel
from lib.cache.reader import Cache
from lib.files import tensor_file
from lib.files.parquet import write_parquet
from lib.files.progress import Lines
from lib.files.schema import expect
from lib.models.common.build import network_for
from lib.models.common.chunks import device_of
from lib.models.common.input import input_of
from lib.models.common.precision import resolve_device
from lib.models.common.settings import LayoutCollection, TileCollection
from lib.runs.memory import memory_errors
from lib.runs.stage import Stage, run
from lib.runs.turns import turn_on
from lib.scoring.infer import infer_of, summary_table
from lib.scoring.scores import is_independent
from lib.settings import WEIGHTS_FILES


def main(stage: Stage) -> None:
    """Score the fold's validation graphs and the test graphs."""
    settings, fold = stage.settings, stage.fold
    torch.set_num_threads(settings.threads)
    with turn_on(resolve_device(settings.device), stage.run.outputs, fold):
        cache, network = Cache(stage.run.cache), trained_network(stage)
        stage.begin(cache.fingerprint)
        scoring, started = infer_of(settings), time.perf_counter()
        to_score = scoring.to_score(cache, fold, settings)
        lines = Lines(f"infer: {settings.results} fold {fold}", len(to_score), "graph")
        less = input_of(settings).takes_less
        with memory_errors(f"scoring of {settings.model}", less, device_of(network)):
            frames = scoring.frames(network, cache, to_score, settings, permuted_scores)
            scores = pl.concat(lines.over(frames))
    seconds = time.perf_counter() - started
    if getattr(settings, "permutations", 1) > 1 and scores["permutation"].max() == 0:
        why = f"no graph has more configurations than a batch, {settings.inference_configurations}"
        if is_independent(network, settings):
            why = f"scores of {settings.model} are independent"
        print(f"infer: permutations change nothing: {why}")

    with stage.results() as (path,):
        write_parquet(scores, path, {"identity": stage.run.identity("infer", fold)})
    print(
        f"{summary_table(scores, seconds, scoring.counts)}\n"
        f"infer: {settings.results} fold {fold}: {len(scores):,} scores of {len(to_score)} "
        f"{settings.graphs}; wrote {stage.files[0]}"
    )


def permuted_scores(
    network: nn.Module,
    graph: CachedGraph | CachedKernel,
    settings: LayoutCollection | TileCollection,
) -> np.ndarray:
    """Return scores of a graph's distinct configurations under each permutation, (permutations, c).

    Test-time permutations are of TGraph's section 2.5.3. A permutation changes which configurations
    share a batch, and nothing else: no network sees their order. So there is one of a network whose
    scores do not depend on the batch, and where one batch has all configurations. Stage 4, and
    ``make rank``, take the mean.

    Args:
        network: in evaluation mode.
        graph: of the cache, a kernel or a graph.
        settings: ``permutations``, how many; ``inference_configurations``, the size of a batch.
    """
    seen, size = input_of(settings), settings.inference_configurations
    ready = seen.prepare(graph, settings)
    count = len(graph.runtime)
    if is_independent(network, settings):
        return seen.scores(network, ready, size, np.arange(count))[None]
    permutations = getattr(settings, "permutations", 1) if count > size else 1
    seed = [settings.seed, zlib.crc32(graph.name.encode())]
    orders = [np.random.default_rng([*seed, k]).permutation(count) for k in range(permutations)]
    return seen.groupings(network, ready, np.stack(orders), size)


def trained_network(stage: Stage) -> nn.Module:
    """Return the network of the fold, if its weights are those that stage 2 would train."""
    settings, fold = stage.settings, stage.fold
    weights = stage.run.folder / f"fold_{fold}" / WEIGHTS_FILES[settings.weights]
    tensors, metadata = tensor_file.load(weights)
    expect(metadata, {"data": str}, weights)
    stage.run.check_trained(weights, metadata, fold)
    network = network_for(settings)
    tensor_file.load_into(network, weights, tensors)
    return network


if __name__ == "__main__":
    run("infer", main, __doc__)
