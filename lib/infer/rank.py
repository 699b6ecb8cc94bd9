"""Rank the configurations of one program with all trained folds of a collection.

Reads   a program, and <outputs>/<collection>[@<model>]/fold_<k>/{last,model}.safetensors
Prints  its best configurations, fastest first, for people or as JSON

    python -m lib.infer.rank --collection layout-xla-random program.npz
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lib import settings
from lib.files.errors import UserError, one_line_errors
from lib.infer.possible import check_layouts
from lib.infer.trained import Ensemble, load_ensemble, score_program
from lib.tpugraphs.opcodes import NAME_OF_ID
from lib.tpugraphs.program import Program, layouts, read_program, with_candidates

CHOICE = "-"  # of the compiler, in the printed form


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
    check_layouts(candidates or path, program, ensemble.settings.hardware)
    return Ranking(program, ensemble, score_program(ensemble, program))


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


def main() -> None:
    """Print the ranking that the command line asks for."""
    parser = settings.parser(__doc__)
    parser.add_argument("program", type=Path, help="an npz, tuning protobuf or HLO module")
    parser.add_argument("--candidates", type=Path, help="to rank instead of the program's own")
    parser.add_argument("--top", type=int, default=10, help="best configurations to print")
    parser.add_argument("--json", action="store_true", help="print them for machines")
    args = parser.parse_args()
    if args.show:
        settings.resolve(args)  # prints them, and ends
    if args.top < 1:
        raise UserError(f"--top {args.top}: must be at least 1")
    torch.set_num_threads(1)  # of each fold; the folds run side by side
    overrides = settings.overrides_in(args)
    dataset = settings.dataset_for(args.collection, args.data)
    chosen = settings.chosen_by(args, dataset)
    overrides["model"] = chosen.model
    folder = args.outputs / chosen.results
    ranking = rank_program(args.program, args.candidates, folder, args.collection, overrides)
    print((as_json if args.json else as_text)(ranking, args.top))


if __name__ == "__main__":
    with one_line_errors():
        main()
