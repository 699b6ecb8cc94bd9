"""Ranking the configurations of one program with all folds of a collection at once."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
from torch import nn

from lib import checkpoint, settings
from lib.blending import blend, choose_folds
from lib.cache.compress import compress
from lib.errors import DataError, UserError
from lib.files.schema import expect
from lib.folds import fold_number
from lib.infer.scores import SCORERS
from lib.model import build_network
from lib.tpugraphs.opcodes import NAME_OF_ID
from lib.tpugraphs.program import Program, layouts, read_program, with_candidates

CHOICE = "-"  # of the compiler, in the printed form


@dataclass(frozen=True)
class Ensemble:
    """The networks that stage 4 would blend, best validation first, by fold.

    Attributes:
        settings: those that the networks were trained with, but for what was overridden.
        networks: in evaluation mode.
    """

    settings: Any
    networks: dict[int, nn.Module]


@dataclass(frozen=True)
class Ranking:
    """A program's configurations from fastest to slowest, as predicted.

    Attributes:
        program: with its configurations.
        ensemble: whose mean score it is.
        scores: (c,) lower means faster; comparable within the program only.
    """

    program: Program
    ensemble: Ensemble
    scores: np.ndarray

    def best(self, count: int) -> list[int]:
        """The ``count`` configurations of lowest score; ties by position."""
        return np.argsort(self.scores, kind="stable")[:count].tolist()


def rank_program(
    path: Path, candidates: Path | None, folder: Path, collection: str, overrides: dict[str, Any]
) -> Ranking:
    """Score every configuration of one program.

    Args:
        path: an npz, a tuning protobuf, or an HLO module.
        candidates: configurations to rank instead of the program's own, see
            :func:`lib.tpugraphs.program.with_candidates`.
        folder: the collection's outputs, with trained folds.
        collection: its name.
        overrides: settings that take precedence over those that the networks were trained with.

    Raises:
        UserError: if there is nothing to rank, or nothing to rank it with.
    """
    program = read_program(path)
    if candidates is not None:
        program = with_candidates(program, candidates)
    if not len(program.graph.config_runtime):
        raise UserError(f"{path}: no configurations in it; name some with --candidates FILE")
    ensemble = load_ensemble(folder, collection, overrides)
    return Ranking(program, ensemble, score_program(ensemble, program))


def load_ensemble(folder: Path, collection: str, overrides: dict[str, Any]) -> Ensemble:
    """The best folds' networks, chosen as stage 4 does; no cache and no data root is needed.

    Raises:
        UserError: if there is none, or the collection's configurations are not layouts.
        DataError: if the folds were trained with other settings or data than one another.
    """
    kind = settings.settings_class(collection, overrides.get("model"))
    if kind.kind != "layout":
        raise UserError(f"--program: ranks layouts, and {collection} is of kind {kind.kind}")
    name = settings.WEIGHTS_FILES[overrides.get("weights", kind.weights)]
    numbered = {fold_number(path.parent.name): path for path in folder.glob(f"fold_*/{name}")}
    paths = {fold: path for fold, path in numbered.items() if fold is not None}
    if not paths:
        raise UserError(f"{folder}: no fold_<k>/{name} there; run 02_train.py first")
    loaded = {fold: checkpoint.load(path) for fold, path in sorted(paths.items())}
    for fold, (_, about) in loaded.items():
        expect(about, {"data": str, kind.metric: float}, paths[fold])
    first_path, (_, first) = paths[min(paths)], loaded[min(paths)]
    chosen = trained_settings(kind, first_path, first, overrides)
    for fold, (_, about) in loaded.items():
        _check_alike(paths[fold], about, chosen, first)
    validation = {fold: about[chosen.metric] for fold, (_, about) in loaded.items()}
    networks = {}
    for fold in choose_folds(validation, chosen.best_folds):
        networks[fold] = build_network(chosen).eval()
        checkpoint.load_into(networks[fold], paths[fold], loaded[fold][0])
    return Ensemble(chosen, networks)


def trained_settings(
    kind: type, path: Path, about: Mapping[str, Any], overrides: dict[str, Any]
) -> Any:
    """The settings that the weights of a file were trained with, with ``overrides``; checked."""
    types = get_type_hints(kind)
    known = {f.name: about[f.name] for f in dataclasses.fields(kind) if f.name in about}
    for name, value in known.items():
        wanted = types[name] | int if types[name] is float else types[name]
        if not isinstance(value, wanted) or (type(value) is bool and wanted is not bool):
            expected = getattr(types[name], "__name__", types[name])
            raise DataError(path, name, repr(value)[:60], f"{expected}; train again")
    chosen = kind(**{**known, **overrides})
    chosen.check()
    return chosen


def _check_alike(path: Path, about: Mapping[str, Any], chosen: Any, first: Any) -> None:
    settings.check_trained_with(path, about, chosen)
    for name in ("data", "hops"):
        if about.get(name) != first.get(name):
            raise DataError(path, name, about.get(name), "that of the other folds: train again")


def score_program(ensemble: Ensemble, program: Program) -> np.ndarray:
    """Mean over folds of each configuration's score, (c,), blended as stage 4 does.

    Folds run side by side, a core each: torch lets go of Python's lock.
    """
    chosen = ensemble.settings
    graph = compress(program.graph, "test", chosen.hops, path=program.path)
    scores_of = SCORERS[chosen.sees]

    def of_fold(network: nn.Module) -> np.ndarray:
        return scores_of(network, graph, chosen).mean(axis=0)[graph.original]

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return blend(list(pool.map(of_fold, ensemble.networks.values())), chosen.blending)


def sites(program: Program, config: int) -> list[dict[str, Any]]:
    """What a configuration sets: ``node, name, opcode, output, input, kernel`` of each site.

    A layout is a list of dimensions, minor-most first, and ``None`` for the compiler's choice;
    ``name`` is ``None`` where the file has no names.
    """
    graph = program.graph
    found = []
    for node, features in zip(graph.node_config_ids, graph.node_config_feat[config], strict=True):
        name = program.names[node] if program.names else None
        opcode = NAME_OF_ID.get(int(graph.node_opcode[node]), "unknown")
        found.append({"node": int(node), "name": name, "opcode": opcode, **layouts(features)})
    return found


def as_json(ranking: Ranking, count: int) -> str:
    """The best configurations for machines: one JSON document."""
    runtimes = ranking.program.graph.config_runtime
    top = [
        {
            "rank": rank,
            "config": config,
            "score": float(ranking.scores[config]),
            "runtime_ns": int(runtimes[config]) or None,
            "sites": sites(ranking.program, config),
        }
        for rank, config in enumerate(ranking.best(count), start=1)
    ]
    about = {
        "program": ranking.program.graph.name,
        "collection": ranking.ensemble.settings.collection,
        "folds": list(ranking.ensemble.networks),
        "configurations": len(ranking.scores),
        "top": top,
    }
    return json.dumps(about, indent=2)


def as_text(ranking: Ranking, count: int) -> str:
    """The best configurations for people: a line a site that they constrain."""
    lines = []
    for rank, config in enumerate(ranking.best(count), start=1):
        runtime = int(ranking.program.graph.config_runtime[config])
        measured = f", measured {runtime / 1e6:.3f} ms" if runtime else ""
        lines.append(
            f"#{rank}  configuration {config}  score {ranking.scores[config]:.4f}{measured}"
        )
        every = sites(ranking.program, config)
        shown = [site for site in every if any(site[t] for t in ("output", "input", "kernel"))]
        lines += [_site_line(site) for site in shown]
        if len(shown) < len(every):
            lines.append(f"    {len(every) - len(shown)} more sites: the compiler's choice")
    folds = ", ".join(map(str, ranking.ensemble.networks))
    lines.append(
        f"rank: {ranking.program.graph.name}: {len(ranking.scores):,} configurations scored by "
        f"folds {folds} of {ranking.ensemble.settings.collection}; a lower score is faster"
    )
    return "\n".join(lines)


def _site_line(site: Mapping[str, Any]) -> str:
    name = site["name"] or f"node {site['node']}"
    tensors = [f"{tensor} {_layout(site[tensor]):<14}" for tensor in ("output", "input", "kernel")]
    return f"    {name:<24} {site['opcode']:<12} {' '.join(tensors)}".rstrip()


def _layout(dimensions: list[int] | None) -> str:
    """As XLA writes a layout, minor-most dimension first."""
    return "{" + ",".join(map(str, dimensions)) + "}" if dimensions else CHOICE
