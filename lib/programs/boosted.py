"""Training a network and decision trees on the same programs, and what blends and corrects them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from lib.files import tensor_file
from lib.files.errors import DataError
from lib.files.schema import expect
from lib.inputs.chunks import device_of
from lib.programs.inputs import Programs, batches_of, halves_of, parts_of, predict_by
from lib.programs.models.cdmpp_plus import HALVES, POOLED, TREE_FOLDS, CdmppPlus, by_parts
from lib.programs.models.correction import corrected_rows
from lib.programs.models.trees import Trees
from lib.programs.train import ProgramsFold

READ = 4096  # programs whose pooled features are computed at a time
BOOSTING: dict[str, Any] = {  # of XGBoost
    "tree_method": "hist",
    "nthread": 1,
    "max_bin": 64,
    "subsample": 0.7,
    "colsample_bytree": 0.2,
    "min_child_weight": 3,
}
# An error of a logarithm, weighted by predicted over measured seconds, is nearly a relative one.
RELATIVE = {**BOOSTING, "objective": "reg:absoluteerror", "min_child_weight": 10}
CORRECTED, MOST_WEIGHT = 0.06, 20.0  # share of what a correction's tree finds; of a weight


class BoostedFold(ProgramsFold):
    """The programs of one fold, for :class:`lib.programs.models.cdmpp_plus.CdmppPlus`."""

    saved_trees: tuple[Path, str] | None = None  # where its trees are, and what they depend on

    def keep(self, file: Path, identity: str) -> None:
        """See :meth:`Fold.keep`: the trees."""
        self.saved_trees = file, identity

    def standardize(self, network: CdmppPlus) -> None:
        """See :meth:`Fold.standardize`; the trees are fitted here as well, once and for all."""
        programs, rows = self.programs, self._rows(network, self.programs)
        network.encoder.standardize.fit(torch.from_numpy(programs.features))
        network.loops_scale.fit(torch.from_numpy(programs.loops))
        network.standardize.fit(torch.from_numpy(rows))
        relative = np.log(programs.seconds) - rows[:, -1:]  # (n, d)
        with torch.no_grad():
            network.level.fill_(float(np.nanmean(relative)))
        self.labels = torch.from_numpy(np.log(programs.seconds)).float()
        if not self._read_trees(network):
            self._fit_trees(network, rows, relative)
        self.by_trees = predict_by(network.by_trees, network, self.held, self.devices, READ)

    def _rows(self, network: CdmppPlus, programs: Programs) -> np.ndarray:
        """(n, ``POOLED``) float32: what trees read of some programs, whatever the device."""
        rows = np.empty((len(programs), POOLED), np.float32)
        for numbers in batches_of(programs.counts, READ):
            with torch.no_grad():
                batch = programs.batch(numbers, self.devices).to(device_of(network))
                rows[numbers] = network.rows(batch)[0][:: len(self.devices), :POOLED].cpu().numpy()
        return rows

    def _fit_trees(self, network: CdmppPlus, rows: np.ndarray, relative: np.ndarray) -> None:
        """Boost both stages on (n, ``POOLED``) features and (n, d) logarithms, and keep them.

        A part of the tasks after the other is predicted by trees that are fitted on the rest; the
        second stage is fitted to what those predictions get wrong.
        """
        started = time.perf_counter()
        measured = np.isfinite(relative)
        table, targets = self._table(rows, measured), relative[measured]
        part = self._parts()[np.nonzero(measured)[0]]
        trees = Trees(len(network.trees.feature) // TREE_FOLDS, network.trees.depth)
        seed, work = self.settings.seed, torch.from_numpy(table[:, POOLED - 1])
        first = torch.zeros(len(table))
        network.trees.base.zero_()
        for number in range(TREE_FOLDS):
            held = part == number
            seen = ~held if (~held).any() else held  # of a single task there is one part
            boost(trees, table[seen], targets[seen], self.settings.tree_rate, seed)
            first[held] = by_parts(trees, torch.from_numpy(table[held]))
            network.trees.take(trees, number * len(trees.feature), 1 / TREE_FOLDS)
        if len(network.correction.feature):
            self._correct(network.correction, table, first + work, work, targets - first.numpy())
        if self.saved_trees:
            file, identity = self.saved_trees
            about = {"identity": identity, "seconds": time.perf_counter() - started}
            tensor_file.save(file, _stages(network).state_dict(), about)

    def _parts(self) -> np.ndarray:
        """(n,) the part of each program: of a task all are in one, unless the split parts tasks."""
        if self.settings.split == "random":
            return np.arange(len(self.programs)) % TREE_FOLDS
        return parts_of(self.programs, TREE_FOLDS)

    def _correct(
        self,
        trees: Trees,
        table: np.ndarray,
        first: torch.Tensor,
        work: torch.Tensor,
        gap: np.ndarray,
    ) -> None:
        """Fit the second stage to (n,) logarithms that the first is off by, ``gap``."""
        weights = np.exp(-gap).clip(1 / MOST_WEIGHT, MOST_WEIGHT)
        features = corrected_rows(torch.from_numpy(table), first[:, None], work).numpy()
        boost(trees, features, gap, CORRECTED, self.settings.seed, weights, RELATIVE)

    def _read_trees(self, network: CdmppPlus) -> bool:
        """Whether there were such trees; a file that is damaged is as good as none."""
        if not self.saved_trees or not self.saved_trees[0].exists():
            return False
        file, identity = self.saved_trees
        try:
            tensors, about = tensor_file.load(file)
            expect(about, {"identity": str, "seconds": float}, file)
            if about["identity"] != identity:
                return False
            tensor_file.load_into(_stages(network), file, tensors)
        except DataError:
            return False
        self.earlier_seconds = about["seconds"]
        return True

    def _table(self, rows: np.ndarray, measured: np.ndarray) -> np.ndarray:
        """(pairs, ``POOLED`` + 8): a row for each program and device that are ``known``, (n, d)."""
        program, device = np.nonzero(measured)
        return np.concatenate([rows[program], self.devices.numpy()[device]], 1)

    def validate(self, network: CdmppPlus, whole: bool = False) -> Mapping[str, dict[str, float]]:
        """See :meth:`Fold.validate`; the blends are fitted anew to the network as it is.

        Each on half of the tasks; each half is judged by what was fitted on the other. Where a half
        has no tasks, both are fitted on all.
        """
        by_network = predict_by(network, network, self.held, self.devices, self.settings.batch)
        if not np.isfinite(by_network).all():
            return {}
        measured, halves = np.isfinite(self.held.seconds), halves_of(self.held)
        sides = [measured & (halves == number)[:, None] for number in range(HALVES)]
        predicted = np.full_like(by_network, np.nan)
        for number, blend in enumerate(network.blends):
            other = 1 - number
            fitted = sides[number] if sides[number].any() else sides[other]
            blend.calibrate(by_network[fitted], self.by_trees[fitted], self.held.seconds[fitted])
            members = (torch.from_numpy(logs[sides[other]]) for logs in (by_network, self.by_trees))
            with torch.inference_mode():
                predicted[sides[other]] = blend.cpu()(*members)
        network.blends.to(device_of(network))
        return self.errors(predicted)


def _stages(network: CdmppPlus) -> nn.ModuleDict:
    """Both stages of trees, as they are kept."""
    return nn.ModuleDict({"first": network.trees, "second": network.correction})


def boost(
    trees: Trees,
    rows: np.ndarray,
    values: np.ndarray,
    rate: float,
    seed: int,
    weights: np.ndarray | None = None,
    parameters: Mapping[str, Any] = BOOSTING,
) -> None:
    """Fit trees by gradient boosting, each tree to what the trees before it leave of the error.

    Args:
        trees: to fill.
        rows: (n, features) float32.
        values: (n,) of the rows.
        rate: share of what a tree finds that is added.
        seed: of what each tree is shown.
        weights: (n,) what each error counts; all alike without.
        parameters: of XGBoost: the squared error, or another.
    """
    import xgboost  # late: only training has it

    base = float(np.mean(values) if parameters is BOOSTING else np.median(values))
    about = {"max_depth": trees.depth, "eta": rate, "seed": seed, "base_score": base}
    bins = parameters["max_bin"]
    data = xgboost.QuantileDMatrix(rows, values, weight=weights, max_bin=bins, nthread=1)
    booster = xgboost.train({**parameters, **about}, data, len(trees.feature))
    model = json.loads(booster.save_raw("json"))
    boosted = model["learner"]["gradient_booster"]["model"]["trees"]
    trees.base.fill_(base)
    for number, tree in enumerate(boosted):
        _fill(trees, number, {name: np.array(tree[name]) for name in FIELDS})


FIELDS = ("left_children", "right_children", "split_indices", "split_conditions")


def _fill(trees: Trees, number: int, tree: Mapping[str, np.ndarray]) -> None:
    """One tree level by level; below a leaf both sides are the leaf."""
    left, right, index, condition = (tree[name] for name in FIELDS)
    node = np.zeros(1, np.int64)  # of the tree, at each place of a level
    start = 0
    for _ in range(trees.depth):
        leaf = left[node] < 0
        place = slice(start, start + len(node))
        trees.feature[number, place] = torch.from_numpy(np.where(leaf, 0, index[node])).int()
        trees.threshold[number, place] = torch.from_numpy(condition[node]).float()
        below = np.stack([np.where(leaf, node, left[node]), np.where(leaf, node, right[node])], 1)
        start, node = start + len(node), below.reshape(-1)
    trees.value[number] = torch.from_numpy(condition[node]).float()
