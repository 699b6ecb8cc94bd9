"""Rivals that see no graph: features of a configuration's layouts, summed over its nodes.

For each opcode and role (output, input, kernel): the bytes of tensors whose layout is set, whose
order differs from the program's, whose fastest dimension does, and of those last ones whose fastest
dimension is short. All over the program's bytes. Both rivals learn runtimes' logarithms,
standardized within each program.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge

from lib.cache.codec import DIGITS, TENSORS, decode_layouts
from lib.cache.graph import CachedGraph
from lib.cache.reader import Cache
from lib.compiler.graph import TensorGraph
from lib.compiler.operands import constrained_tensors
from lib.compiler.orders import squeezed
from lib.ranking.metrics import kendall_tau
from lib.tpugraphs.opcodes import CONVOLUTION, DOT, RESHAPE

OPCODES = (CONVOLUTION, DOT, RESHAPE)
COUNTS, SHORT = 4, 16


def summed_features(graph: CachedGraph) -> np.ndarray:
    """(c, opcodes * roles * counts) float64."""
    tensors = TensorGraph.of(graph)
    digits = decode_layouts(graph.dictionary).reshape(-1, TENSORS, DIGITS).tolist()
    sums = np.zeros((len(graph.cells), len(OPCODES), TENSORS, COUNTS))
    for place, node in enumerate(graph.config_nodes.tolist()):
        if tensors.opcode[node] not in OPCODES:
            continue
        costs = np.zeros((len(digits), TENSORS, COUNTS))
        for role, tensor in enumerate(constrained_tensors(tensors, node).tensors):
            for entry, triple in enumerate(digits):
                costs[entry, role] = _bytes(tensors, tensor, triple[role])
        sums[:, OPCODES.index(tensors.opcode[node])] += costs[graph.cells[:, place]]
    return sums.reshape(len(sums), -1) / max(1.0, tensors.bytes.sum())


def _bytes(tensors: TensorGraph, tensor: int, digits: list[int]) -> np.ndarray:
    """Of a tensor that is set, in another order, whose fastest dimension differs, and is short."""
    order = tuple(d for d in digits if d >= 0)
    shape = tensors.shapes[tensor] if tensor >= 0 else ()
    if not order or len(order) != len(shape) or sorted(order) != list(range(len(shape))):
        return np.zeros(COUNTS)
    own, plain = squeezed(order, shape), squeezed(tensors.plain[tensor], shape)
    fastest = own[:1] != plain[:1]
    short = fastest and shape[own[0]] < SHORT
    return tensors.bytes[tensor] * np.array([1, own != plain, fastest, short], float)


def ridge(cache: Cache, folds: dict[str, int]) -> dict[str, float]:
    """Linear regression with a penalty on standardized features."""
    return _out_of_fold(cache, folds, lambda: Ridge(alpha=100.0))


def boosting(cache: Cache, folds: dict[str, int]) -> dict[str, float]:
    """Gradient boosting of regression trees."""
    values = {"max_iter": 200, "learning_rate": 0.05, "max_leaf_nodes": 15, "random_state": 0}
    return _out_of_fold(cache, folds, lambda: HistGradientBoostingRegressor(**values))


@lru_cache(maxsize=1)
def _table(cache: Cache, names: tuple[str, ...]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Features and standardized log runtimes of each graph, centred within it."""
    table = {}
    for name in names:
        graph = cache.graph(name)
        features, target = summed_features(graph), np.log(graph.runtime)
        deviation = target.std()
        if deviation > 0:
            table[name] = (features - features.mean(0), (target - target.mean()) / deviation)
    return table


def _out_of_fold(
    cache: Cache, folds: dict[str, int], make: Callable[[], Ridge | HistGradientBoostingRegressor]
) -> dict[str, float]:
    data = _table(cache, tuple(sorted(folds)))
    taus = {}
    for fold in sorted(set(folds.values())):
        training = [data[name] for name in data if folds[name] != fold]
        features = np.concatenate([one for one, _ in training])
        scale = features.std(0) + 1e-9
        model = make().fit(features / scale, np.concatenate([target for _, target in training]))
        for name in data:
            if folds[name] == fold:
                taus[name] = kendall_tau(model.predict(data[name][0] / scale), data[name][1])
    return taus
