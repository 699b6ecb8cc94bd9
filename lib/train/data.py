"""The graphs of one fold, ready to be batched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from lib.batches import GraphTensors, graph_tensors
from lib.cache.reader import Cache
from lib.errors import UserError
from lib.folds import assign_folds


@dataclass(frozen=True, eq=False)
class LabelledGraph:
    """A graph with runtimes: its tensors and (c,) int64 nanoseconds."""

    name: str
    tensors: GraphTensors
    runtime: np.ndarray


@dataclass(frozen=True)
class FoldData:
    """Training and validation graphs of one fold, each sorted by name."""

    train: list[LabelledGraph]
    valid: list[LabelledGraph]

    def numeric_features(self) -> torch.Tensor:
        """(nodes of all training graphs, 134): what the standardization is fitted on."""
        return torch.cat([graph.tensors.features for graph in self.train])


def load_fold(cache: Cache, fold: int, folds_total: int, seed: int) -> FoldData:
    """The labelled graphs of the merged train and valid splits, dealt to one fold.

    Graphs whose configurations all ran equally fast, or with a single one, have nothing to rank
    and are left out.

    Raises:
        UserError: if there is no such fold, or a side of it is empty.
    """
    if not 0 <= fold < folds_total:
        raise UserError(f"--fold {fold}: must be from 0 to {folds_total - 1}")
    assigned = assign_folds(cache.names("train", "valid"), folds_total, seed)
    sides: tuple[list[LabelledGraph], list[LabelledGraph]] = ([], [])
    for name in sorted(assigned):
        graph = cache.graph(name)
        if graph.labelled and graph.runtime.min() < graph.runtime.max():
            labelled = LabelledGraph(name, graph_tensors(graph), graph.runtime)
            sides[assigned[name] == fold].append(labelled)
    if not all(sides):
        raise UserError(f"{cache.folder}: fold {fold} has no labelled graphs to train or validate")
    return FoldData(*sides)
