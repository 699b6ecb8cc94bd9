"""Rivals that see no graph: features of a configuration's layouts, summed over its nodes.

For each opcode and slot (output, input, kernel): the bytes of tensors whose layout is set, whose
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
from lib.layouts.operands import slots_of
from lib.layouts.orders import squeezed
from lib.layouts.program import Program
from lib.metrics import kendall_tau
from lib.tpugraphs.opcodes import CONVOLUTION, DOT, RESHAPE

OPCODES = (CONVOLUTION, DOT, RESHAPE)
KINDS, SHORT = 4, 16


def summed_slots(graph: CachedGraph) -> np.ndarray:
    """(c, opcodes * slots * kinds) float64."""
    program = Program.of(graph)
    digits = decode_layouts(graph.dictionary).reshape(-1, TENSORS, DIGITS).tolist()
    sums = np.zeros((len(graph.cells), len(OPCODES), TENSORS, KINDS))
    for place, node in enumerate(graph.config_nodes.tolist()):
        if program.opcode[node] not in OPCODES:
            continue
        costs = np.zeros((len(digits), TENSORS, KINDS))
        for slot, tensor in enumerate(slots_of(program, node).tensors):
            for row, triple in enumerate(digits):
                costs[row, slot] = _kinds(program, tensor, triple[slot])
        sums[:, OPCODES.index(program.opcode[node])] += costs[graph.cells[:, place]]
    return sums.reshape(len(sums), -1) / max(1.0, program.bytes.sum())


def _kinds(program: Program, tensor: int, digits: list[int]) -> np.ndarray:
    order = tuple(d for d in digits if d >= 0)
    shape = program.shapes[tensor] if tensor >= 0 else ()
    if not order or len(order) != len(shape) or sorted(order) != list(range(len(shape))):
        return np.zeros(KINDS)
    own, plain = squeezed(order, shape), squeezed(program.plain(tensor), shape)
    fastest = own[:1] != plain[:1]
    short = fastest and shape[own[0]] < SHORT
    return program.bytes[tensor] * np.array([1, own != plain, fastest, short], float)


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
    found = {}
    for name in names:
        graph = cache.graph(name)
        features, target = summed_slots(graph), np.log(graph.runtime)
        deviation = target.std()
        if deviation > 0:
            found[name] = (features - features.mean(0), (target - target.mean()) / deviation)
    return found


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
