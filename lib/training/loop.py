"""The training loop of 02_train.py, for those who train besides the stage.

A search of settings, a predictor that learns from other devices, benches: all of them train as the
stage script says, edits of it included.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

from torch import nn

from lib.runs.code import ROOT, SCRIPTS
from lib.training.checkpoint import Checkpoint
from lib.training.fold import Fold, new_network


@cache
def stage_script(stage: str) -> ModuleType:
    """Return a stage script as a module; nothing is run."""
    spec = importlib.util.spec_from_file_location(f"stage_{stage}", ROOT / SCRIPTS[stage])
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module


class Training:
    """The training of a fold's network, from new weights or from a checkpoint.

    Args:
        data: the fold's graphs, and the model's settings.
        fold: its number.
        file: of the checkpoint.
        identity: of the training, see :class:`lib.training.checkpoint.Checkpoint`.
    """

    def __init__(self, data: Fold, fold: int, file: Path, identity: str):
        self.network: nn.Module = new_network(data, data.settings.seed, fold)
        self.data, self.fold = data, fold
        self.checkpoint = Checkpoint(file, self.network, data, identity)

    def run(self) -> Iterator[dict[str, float]]:
        """Train to the end, yielding a row of numbers an epoch."""
        loop = stage_script("train").train
        yield from loop(self.network, self.data, self.fold, self.checkpoint)
