"""The trained folds of a collection, loaded to score programs together as stage 4 blends them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from lib.cache.kernel import CachedKernel
from lib.files import tensor_file
from lib.files.errors import DataError, UserError
from lib.files.schema import expect
from lib.models.common.build import network_for
from lib.ranking.blending import blend, choose_folds
from lib.ranking.folds import fold_number
from lib.runs.stage import stage_script
from lib.settings import WEIGHTS_FILES, Settings
from lib.settings.tables import settings_class
from lib.tpugraphs.npz import TileKernel
from lib.tpugraphs.program import Program

CHANGE_NO_WEIGHTS = {"threads", "device", "weights"}  # settings that stage 2 reads


@dataclass(frozen=True)
class Ensemble:
    """The networks that stage 4 would blend, best validation first, by fold.

    Attributes:
        settings: those that the networks were trained with, but for what was overridden.
        networks: in evaluation mode.
        data: fingerprint of the cache that they were trained on.
    """

    settings: Settings
    networks: dict[int, nn.Module]
    data: str = ""


def load_ensemble(folder: Path, collection: str, overrides: dict[str, Any]) -> Ensemble:
    """The best folds' networks of layouts or tiles; no cache and no data root is needed.

    Raises:
        UserError: if there is none, or the collection has programs, whose latencies are predicted.
        DataError: see :func:`load_networks`.
    """
    kind = settings_class(collection, overrides.get("model"))
    if kind.kind == "programs":
        raise UserError(f"rank: ranks layouts and tiles; make latency is for {collection}")
    return load_networks(folder, kind, overrides)


def load_networks(folder: Path, kind: type[Settings], overrides: dict[str, Any]) -> Ensemble:
    """The networks in a folder of results that stage 4 would blend.

    Args:
        folder: of a collection and model.
        kind: the model's settings.
        overrides: settings that take precedence over those that the networks were trained with.

    Raises:
        UserError: if there is none.
        DataError: if the folds were trained with other settings or data than one another, or
            than ``overrides`` say.
    """
    files = [path for n in WEIGHTS_FILES.values() for path in folder.glob(f"fold_*/{n}")]
    said = tensor_file.read_metadata(min(files)).get("weights") if files else None
    overrides = {"weights": said if said in WEIGHTS_FILES else kind.weights, **overrides}
    name = WEIGHTS_FILES[overrides["weights"]]
    numbered = {fold_number(path.parent.name): path for path in folder.glob(f"fold_*/{name}")}
    paths = {fold: path for fold, path in numbered.items() if fold is not None}
    if not paths:
        raise UserError(f"{folder}: no fold_<k>/{name} there; run 02_train.py first")
    loaded = {fold: tensor_file.load(path) for fold, path in sorted(paths.items())}
    for fold, (_, metadata) in loaded.items():
        expect(metadata, {"data": str, kind.metric: float}, paths[fold])
    _, first = loaded[min(paths)]
    trained = trained_settings(kind, first, overrides)
    read = [f.name for f in dataclasses.fields(kind) if f.metadata.get("first", 1) < 3]
    names = {*read} & first.keys() - CHANGE_NO_WEIGHTS
    values = {"data": first["data"]} | {name: getattr(trained, name) for name in sorted(names)}
    for fold, (_, metadata) in loaded.items():
        for name, value in {"fold": fold, **values}.items():
            if metadata.get(name) != value:
                expected = f"{value}, as of the other folds or by a flag: train again"
                raise DataError(paths[fold], name, metadata.get(name), expected)
    validation = {fold: metadata[trained.metric] for fold, (_, metadata) in loaded.items()}
    networks = {}
    for fold in choose_folds(validation, trained.best_folds, trained.higher_is_better):
        networks[fold] = network_for(trained).eval()
        tensor_file.load_into(networks[fold], paths[fold], loaded[fold][0])
    return Ensemble(trained, networks, first["data"])


def trained_settings(
    kind: type[Settings], metadata: Mapping[str, Any], overrides: dict[str, Any]
) -> Settings:
    """Return the settings that weights were trained with, with ``overrides``; checked."""
    stored = {f.name: metadata[f.name] for f in dataclasses.fields(kind) if f.name in metadata}
    trained = kind(**{**stored, **overrides})
    trained.check()
    return trained


def score_program(ensemble: Ensemble, program: Program) -> np.ndarray:
    """Mean over folds of each configuration's score, (c,), blended as stage 4 does.

    Folds run side by side, a core each: torch lets go of Python's lock.
    """
    trained = ensemble.settings
    if isinstance(program.graph, TileKernel):
        graph = CachedKernel.of(program.graph, "test")
    else:
        chunks, given = [program.graph.node_config_feat], dataclasses.asdict(trained)
        stage_1 = stage_script("preprocess")
        graph = stage_1.cached_graph(program.graph, "test", chunks, program.path, given)

    def of_fold(network: nn.Module) -> np.ndarray:
        scores = stage_script("infer").permuted_scores(network, graph, trained)
        return scores.mean(axis=0)[graph.original]

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        scores = list(pool.map(of_fold, ensemble.networks.values()))
    return blend(scores, trained.blending)
