"""How long `python -m lib.scoring.rank` takes for 1,000 configurations, start-up apart.

    .venv/bin/python -m tests.bench.rank_program [outputs/layout-xla-default[@MODEL]]

Candidates are drawn site by site from the layouts that the program's own configurations have.
Needs the trained folds of a collection (`make all`).
"""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path

import numpy as np
import torch

from lib.scoring.trained import load_ensemble, score_program
from lib.settings.resolved import BUNDLED
from lib.tpugraphs.program import read_program

CANDIDATES = 1000


def main() -> None:
    """Print seconds of the program with the most nodes, by number of permutations."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "outputs/layout-xla-default")
    collection, _, model = folder.name.partition("@")
    named = {"model": model} if model else {}
    raw = BUNDLED / "npz" / Path(*collection.split("-")) / "test"
    path = max(raw.glob("*.npz"), key=lambda file: file.stat().st_size)
    program = read_program(path)
    own = program.graph.node_config_feat
    rows = np.random.default_rng(0).integers(0, len(own), (CANDIDATES, own.shape[1]))
    drawn = own[rows, np.arange(own.shape[1])]
    graph = dataclasses.replace(
        program.graph, node_config_feat=drawn, config_runtime=np.zeros(CANDIDATES, np.int64)
    )
    torch.set_num_threads(1)
    for permutations in (1, 2, 10) if model == "tgraph" else (1,):  # others score in any company
        more = {"permutations": permutations} if model == "tgraph" else {}
        ensemble = load_ensemble(folder, collection, {**named, **more})
        started = time.perf_counter()
        score_program(ensemble, dataclasses.replace(program, graph=graph))
        seconds = time.perf_counter() - started
        print(
            f"{path.stem}: {len(graph.node_opcode)} nodes, {CANDIDATES} configurations, "
            f"{len(ensemble.networks)} folds, {permutations} permutations: {seconds:.2f} s"
        )


if __name__ == "__main__":
    main()
