"""Layout files of any size, written without holding them, for benchmarks and tests of memory."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lib.tpugraphs.checks import NODE_FEATURES

CHUNK_CELLS = 1 << 17
OPCODES = (26, 34, 75)  # convolution, dot, reshape
ELEMENT_TYPE = slice(2, 21)  # features that tell it, one of them 1
NODE_KINDS = 8  # of configurable nodes: the ranks of a node's tensors


def layout_digits(rng: np.random.Generator, triples: int) -> np.ndarray:
    """(NODE_KINDS, triples, 18) float32: random layouts of two or three tensors, of 1 to 4 axes."""
    digits = np.full((NODE_KINDS, triples, 3, 6), -1, np.float32)
    for kind in range(NODE_KINDS):
        rank = rng.integers(1, 5)
        ranks = (rank, rng.integers(max(1, rank - 1), 5), rank if kind % 2 else 0)
        for triple in range(triples):
            for tensor, axes in enumerate(ranks):
                digits[kind, triple, tensor, :axes] = rng.permutation(axes)
    return digits.reshape(NODE_KINDS, triples, 18)


def configurations(
    rng: np.random.Generator, count: int, nodes: int, repeated: float, triples: int = 20
) -> Iterator[np.ndarray]:
    """(r, k, 18) float32 pieces of random configurations.

    Args:
        rng: where they come from.
        count: configurations in all.
        nodes: configurable nodes, each with up to ``triples`` layouts.
        repeated: share of the configurations that repeat one of the last few hundred.
        triples: layouts of a node, the first of them the most frequent.
    """
    table = layout_digits(rng, triples)
    kind = rng.integers(0, NODE_KINDS, nodes)
    rows = max(2, CHUNK_CELLS // nodes)
    for start in range(0, count, rows):
        shape = (min(rows, count - start), nodes)
        choice = (triples * rng.random(shape, np.float32) ** 2).astype(np.int8)
        copies = rng.random(shape[0]) < repeated
        copies[0] = False
        choice[copies] = choice[rng.choice(np.flatnonzero(~copies), copies.sum())]
        yield table[kind, choice]


def graph_arrays(rng: np.random.Generator, nodes: int, config_nodes: int) -> dict[str, np.ndarray]:
    """A random program: every node but the first uses two of the few nodes before it."""
    ids = np.sort(rng.choice(nodes, config_nodes, replace=False))
    opcode = rng.integers(1, 121, nodes).astype(np.uint8)
    opcode[ids] = rng.choice(OPCODES, config_nodes)
    users = np.repeat(np.arange(1, nodes), 2)
    back = np.minimum(users, 1 + rng.geometric(0.1, len(users)))
    features = rng.integers(0, 4, (nodes, NODE_FEATURES)).astype(np.float32)
    features[:, ELEMENT_TYPE] = np.eye(19, dtype=np.float32)[11]  # float32
    return {
        "node_feat": features,
        "node_opcode": opcode,
        "edge_index": np.stack([users, users - back], 1),
        "node_config_ids": ids,
        "node_splits": np.array([0, nodes]),
    }


def write_raw(
    path: Path,
    count: int,
    config_nodes: int,
    nodes: int,
    repeated: float = 0.0,
    level: int = 6,
    seed: int = 0,
    labelled: bool = True,
) -> None:
    """Write a layout file of ``count`` configurations in the official form, piece by piece.

    Without labels every runtime is zero, as in the official test split.
    """
    rng = np.random.default_rng(seed)
    arrays = graph_arrays(rng, nodes, config_nodes)
    arrays["config_runtime"] = rng.integers(10**6, 10**7, count) * labelled
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        for key, array in arrays.items():
            with archive.open(f"{key}.npy", "w") as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
        with archive.open("node_config_feat.npy", "w", force_zip64=True) as file:
            shape = (count, config_nodes, 18)
            header = {"descr": "<f4", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
            for chunk in configurations(rng, count, config_nodes, repeated):
                file.write(chunk.data)
