"""Rank the configurations of one program, or of a file's kernels, with all trained folds.

Reads   a program or kernels, and <outputs>/<collection>[@<model>]/fold_<k>/{last,model}.safetensors
        or, where nothing is trained, bundled ones (lib/scoring/weights.py)
Prints  its best configurations, fastest first, for people or as JSON

    python -m lib.scoring.rank --collection layout-xla-random program.npz
    python -m lib.scoring.rank --collection layout-xla-default --candidates search:2000 x.hlo.pb
"""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from google.protobuf.unknown_fields import UnknownFieldSet

from lib import settings
from lib.files.command_line import check_least
from lib.files.errors import DataError, UserError, in_one_line, one_line_errors
from lib.files.terminal import printable
from lib.ranking.blending import places_of
from lib.scoring.candidates import Request, candidates_in, with_drawn
from lib.scoring.possible import check_layouts
from lib.scoring.timing import Timings, check_timeable, time_best
from lib.scoring.trained import Ensemble, load_ensemble, score_program
from lib.scoring.weights import BUNDLED, weights_in
from lib.settings.tables import check_collection
from lib.tpugraphs.npz import TileKernel
from lib.tpugraphs.opcodes import opcode_name
from lib.tpugraphs.program import (
    TENSORS,
    Program,
    layouts,
    read_program,
    with_candidates,
    written,
)
from lib.tpugraphs.tiles import bounds_of, read_kernels

SCHEDULE = 7  # field of a module that XLA has optimized: the order of its instructions
CHOICE = "-"  # of the compiler, in the printed form
UNITS = {  # of blended scores, by the setting `blending`
    "mean": "in the networks' own unit",
    "standardized": "in standard deviations among them",
}


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
        """The first ``count`` configurations of the order that a submission has."""
        return np.argsort(places_of(self.scores, self.layouts_set))[:count].tolist()

    def shown(self, count: int, timings: Timings | None = None) -> list[int]:
        """Return the ``count`` configurations to show: those that ran by their time, and after
        them those of lowest score."""
        timed = timings.fastest if timings else []
        return [*timed, *(c for c in self.best(len(self.scores)) if c not in timed)][:count]

    @property
    def ranks(self) -> np.ndarray:
        """(c,) from 1 on; scores that are printed alike share a rank."""
        rounded = np.round(self.scores, self.ensemble.settings.score_digits)
        _, place, counts = np.unique(rounded, return_inverse=True, return_counts=True)
        return (np.cumsum(counts) - counts + 1)[place]

    @property
    def compilers_own(self) -> int | None:
        """The configuration that leaves every layout to the compiler, if there is one."""
        if isinstance(self.program.graph, TileKernel):
            return None
        (rows,) = np.nonzero(self.layouts_set == 0)
        return int(rows[0]) if len(rows) else None

    @property
    def layouts_set(self) -> np.ndarray:
        """(c,) how many layouts each configuration sets; a tile size sets none."""
        if isinstance(self.program.graph, TileKernel):
            return np.zeros(len(self.scores), np.int64)
        features = self.program.graph.node_config_feat  # (c, k, 18)
        return (features[..., :: features.shape[-1] // len(TENSORS)] >= 0).sum(axis=(1, 2))


def rank_programs(
    path: Path,
    candidates: Path | Request | None,
    folder: Path,
    collection: str,
    overrides: dict[str, Any],
) -> list[Ranking]:
    """Score every configuration of the program, or of each kernel, of a file.

    Args:
        path: of layouts an npz, a tuning protobuf, or an HLO module; of tiles an npz, or a tuning
            protobuf of any number of kernels.
        candidates: layouts to rank instead of the file's own: in a file, see
            :func:`lib.tpugraphs.program.with_candidates`; or drawn, see
            :func:`lib.scoring.candidates.with_drawn`.
        folder: the collection's outputs, with trained folds.
        collection: its name.
        overrides: settings that take precedence over those that the networks were trained with.

    Raises:
        UserError: if there is nothing to rank, or nothing to rank it with.
    """
    check_collection(collection)
    tiles = settings.COLLECTIONS[collection] == "tile"
    if tiles and candidates:
        raise UserError(f"--candidates: are layouts, and {collection} has tiles; leave it out")
    programs = kernels_in(path) if tiles else [program_in(path, candidates)]
    ensemble = load_ensemble(folder, collection, overrides)
    if isinstance(candidates, Request):
        scores = partial(score_program, ensemble)
        programs = [with_drawn(programs[0], candidates, ensemble.settings.hardware, scores)]
    if not tiles:
        file = candidates if isinstance(candidates, Path) else path
        check_layouts(file, programs[0], ensemble.settings.hardware)
    return [Ranking(program, ensemble, score_program(ensemble, program)) for program in programs]


def program_in(path: Path, candidates: Path | Request | None) -> Program:
    """Return the program of a file with its layouts; see :func:`rank_programs`."""
    program = read_program(path)
    if program.module and any(f.field_number == SCHEDULE for f in UnknownFieldSet(program.module)):
        before = re.sub(r"\w*after_optimizations", "before_optimizations", path.name)
        what = "the module before, whose layouts can be set"
        what += f": {path.with_name(before)}" if before != path.name else ""
        raise DataError(path, "module", "one that XLA has optimized", what)
    if isinstance(candidates, Path):
        program = with_candidates(program, candidates)
    if not len(program.graph.config_runtime) and not isinstance(candidates, Request):
        raise UserError(
            f"{path}: no configurations in it; name some with --candidates FILE, or have them "
            f"searched for with --candidates search:2000"
        )
    return program


def kernels_in(path: Path) -> list[Program]:
    """The kernels of a file with their tiles; see :func:`rank_programs`."""
    return [Program(path, kernel, None) for kernel in read_kernels(path)]


def sites(ranking: Ranking, config: int) -> list[dict[str, Any]]:
    """Return each site of a configuration: ``node, name, opcode, output, input, kernel``.

    A layout is a list of dimensions, minor-most first, and ``None`` for the compiler's choice;
    ``name`` is ``None`` where the file has no names.
    """
    program, graph, rows = ranking.program, ranking.program.graph, []
    for node, features in zip(graph.node_config_ids, graph.node_config_feat[config], strict=True):
        site = {"node": int(node), "name": program.names[node] if program.names else None}
        site["opcode"] = opcode_name(graph.node_opcode[node])
        rows.append(site | layouts(features))
    return rows


def as_json(ranking: Ranking, count: int, timings: Timings | None = None) -> dict[str, Any]:
    """Return the best configurations for machines, as values of JSON."""
    runtimes, ranks = ranking.program.graph.config_runtime, ranking.ranks

    def clock(config: int) -> dict[str, Any]:
        if timings is None:
            return {}
        return {"timed_ns": timings.of.get(config), "within_noise": timings.within_noise(config)}

    top = [
        {
            "rank": int(ranks[config]),
            "config": config,
            "score": float(ranking.scores[config]),
            "runtime_ns": int(runtimes[config]) or None,
            **clock(config),
            **_details(ranking, config),
        }
        for config in ranking.shown(count, timings)
    ]
    ensemble, compilers = ranking.ensemble, ranking.compilers_own
    whole = timings and {"compilers_own_timed_ns": timings.compilers_own, "noise": timings.noise}
    return {
        "program": ranking.program.graph.name,
        "collection": ensemble.settings.collection,
        "folds": list(ensemble.networks),
        "configurations": len(ranking.scores),
        "unit": UNITS[ensemble.settings.blending],
        "sites_in_loops": ranking.program.sites_in_loops,  # that count once
        "compilers_own_rank": None if compilers is None else int(ranks[compilers]),
        **(whole or {}),
        "top": top,
    }


def _details(ranking: Ranking, config: int) -> dict[str, Any]:
    if isinstance(ranking.program.graph, TileKernel):
        return bounds_of(ranking.program.graph.config_feat[config])
    return {"sites": sites(ranking, config)}


def as_text(ranking: Ranking, count: int, timings: Timings | None = None) -> str:
    """Return the best configurations for people: a line for each site that they constrain, or of
    tile bounds. Those that were timed come first, fastest first."""
    lines, ranks, compilers = [], ranking.ranks, ranking.compilers_own
    digits, shown = ranking.ensemble.settings.score_digits, ranking.shown(count, timings)
    for config in shown:
        runtime = int(ranking.program.graph.config_runtime[config])
        text = f"score {ranking.scores[config]:.{digits}f}"
        text += f", measured {runtime / 1e6:.3f} ms" if runtime else ""
        text += f", {timings.words(config)}" if timings and config in timings.of else ""
        lines.append(f"#{ranks[config]}  configuration {config}  {text}")
        jax = config == shown[0] and ranking.program.module is not None
        lines += _lines(_details(ranking, config), jax)
    folds, trained = ", ".join(map(str, ranking.ensemble.networks)), ranking.ensemble.settings
    place = "" if compilers is None else f"; the compiler's own choice is #{ranks[compilers]}"
    lines.append(
        f"rank: {printable(ranking.program.graph.name)}: {len(ranking.scores):,} configurations "
        f"scored by folds {folds} of {trained.collection}, {UNITS[trained.blending]}; a lower "
        f"score is faster{place}"
    )
    if looped := ranking.program.sites_in_loops:
        lines.append(
            f"rank: {looped} of the sites are in the body of a loop and count once, however often "
            "it runs; MEASURE=8 times the whole program"
        )
    return "\n".join([*lines, *([timings.summary(ranks)] if timings else [])])


def _lines(details: dict[str, Any], jax: bool) -> list[str]:
    """Return a line for each site that a configuration sets, or for its tile bounds; with ``jax``
    also what sets each tensor in JAX, whose layouts have the major-most dimension first."""
    if "sites" not in details:
        return ["    " + "  ".join(f"{key} {bound or CHOICE}" for key, bound in details.items())]
    every = details["sites"]
    shown = [site for site in every if any(site[t] for t in TENSORS)]
    imported = "# from jax.experimental.layout import Layout, with_layout_constraint"
    lines = [f"        {imported}"] if jax and shown else []
    for site in shown:
        name = printable(site["name"] or f"node {site['node']}")
        tensors = [f"{t} {written(site[t]) if site[t] else CHOICE:<14}" for t in TENSORS]
        lines.append(f"    {name:<24} {site['opcode']:<12} {' '.join(tensors)}".rstrip())
        for tensor in TENSORS if jax else ():
            if layout := site[tensor]:
                order = tuple(reversed(layout))
                lines.append(
                    f"        {tensor} = with_layout_constraint({tensor}, Layout({order}))"
                )
    if len(shown) < len(every):
        lines.append(f"    {len(every) - len(shown)} more sites: the compiler's choice")
    return lines


def timed(ranking: Ranking, count: int, python: Path) -> Timings | None:
    """Return times of the best ``count``, one of each rank, and of the compiler's own choice.

    A program that XLA cannot run here has none, and a warning: its ranking stands.
    """
    first: dict[int, int] = {}
    for config in ranking.best(len(ranking.scores)):
        if config != ranking.compilers_own:
            first.setdefault(int(ranking.ranks[config]), config)
    check_timeable(ranking.program, ranking.ensemble.settings.hardware, python)
    try:
        return time_best(ranking.program, [*first.values()][:count], python)
    except UserError as error:
        print(f"warning: not timed: {in_one_line(error)}", file=sys.stderr)
        return None


def main() -> None:
    """Print the ranking that the command line asks for."""
    parser = settings.parser(__doc__)
    parser.add_argument("program", type=Path, help="an npz, tuning protobuf or HLO module")
    drawn = "to rank instead of the program's own: a file, random:N, or search:N"
    parser.add_argument("--candidates", help=drawn)
    parser.add_argument("--measure", type=int, default=0, help="of the best, to time on this CPU")
    jax = "Python that has JAX, to time them"
    parser.add_argument("--jax", type=Path, default=Path(".venv-collect/bin/python"), help=jax)
    parser.add_argument("--top", type=int, default=10, help="best configurations to print")
    parser.add_argument("--json", action="store_true", help="print them for machines")
    args = parser.parse_args()
    resolved = settings.resolve(args)
    check_least(args, top=1, measure=0)
    candidates = candidates_in(args.candidates)
    torch.set_num_threads(1)  # of each fold; the folds run side by side
    overrides = {**resolved.given, "model": resolved.settings.model}
    folder = weights_in(args.outputs / resolved.settings.results, resolved.settings)
    ranked = rank_programs(args.program, candidates, folder, args.collection, overrides)
    timings = timed(ranked[0], args.measure, args.jax) if args.measure else None
    if args.json:
        rankings = [
            {"weights": os.path.relpath(folder), **as_json(ranking, args.top, timings)}
            for ranking in ranked
        ]
        print(json.dumps(rankings if rankings[1:] else rankings[0], indent=2))
    else:
        bundled = ", which are bundled; `make all` trains your own" * (folder.parent == BUNDLED)
        print(f"rank: with the weights in {printable(os.path.relpath(folder))}{bundled}")
        print("\n\n".join(as_text(ranking, args.top, timings) for ranking in ranked))


if __name__ == "__main__":
    with one_line_errors():
        main()
