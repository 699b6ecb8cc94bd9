"""Small layout graphs with a known rule behind their runtimes, for end-to-end tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lib.tpugraphs.dataset import FILE, Dataset, dataset_text
from lib.tpugraphs.encoding import FEATURE_NAMES
from lib.tpugraphs.npz import LayoutGraph, write_layout

ADD, CONVOLUTION, DOT, PARAMETER, RESHAPE = 2, 26, 34, 63, 75  # opcodes
OWN = Dataset(
    name="synthetic",
    size="small",
    hardware="cpu",
    processor="none",
    compiler="none",
    labels="bytes that moved, and noise",
    source="tests/synthetic.py",
    licence="Apache-2.0",
)
COLUMN = {name: index for index, name in enumerate(FEATURE_NAMES)}
LAYOUTS = np.array([[-1, -1], [1, 0], [0, 1]])  # not constrained, as the program stands, moved
MOVED = 2  # row of LAYOUTS
BASE_RUNTIME, NOISE, REPEATED = 1e5, 0.01, 0.25


def layout_graph(
    name: str, seed: int, nodes: int = 30, configurable: int = 6, configurations: int = 20
) -> LayoutGraph:
    """A random program of matrices, whose runtime is the bytes that its configuration moves.

    A configuration gives each configurable node one of ``LAYOUTS``. Its runtime is a constant
    plus the bytes of the nodes whose minor-most dimension moved, which is what the baseline
    counts, times a noise of 1 %. About one configuration in four repeats the first one, with
    another runtime.

    Args:
        name: the graph's name.
        seed: the same arguments give the same graph.
        nodes: number of nodes, at least ``configurable`` + 2.
        configurable: number of configurable nodes.
        configurations: number of configurations, repeated ones included.
    """
    rng = np.random.default_rng(seed)
    opcode = rng.choice([ADD, PARAMETER], nodes).astype(np.uint8)
    ids = np.sort(rng.choice(np.arange(2, nodes), configurable, replace=False))
    opcode[ids] = rng.choice([CONVOLUTION, DOT, RESHAPE], configurable)
    shapes = rng.integers(8, 256, (nodes, 2))

    choice = rng.integers(0, len(LAYOUTS), (configurations, configurable))
    repeated = rng.random(configurations) < REPEATED
    choice[repeated] = choice[0]
    config = np.full((configurations, configurable, 18), -1, np.int8)
    config[..., :2] = LAYOUTS[choice]
    moved = (choice == MOVED) @ (4 * shapes.prod(axis=1))[ids]
    runtime = (BASE_RUNTIME + moved) * rng.normal(1, NOISE, configurations)
    return LayoutGraph(
        name=name,
        node_feat=matrix_features(shapes),
        node_opcode=opcode,
        edge_index=operands(rng, nodes),
        node_config_ids=ids,
        node_splits=np.array([0, nodes]),
        node_config_feat=config,
        config_runtime=runtime.astype(np.int64),
    )


def write_collection(
    root: Path, collection: str, train: int, valid: int, test: int, nodes: int = 30
) -> None:
    """A data root of one's own with one layout collection; test runtimes are zero.

    Without its ``dataset.json`` it is in the official form, and counts as official data.

    Args:
        root: the folder to put ``npz/layout/...`` in.
        collection: such as ``layout-xla-default``.
        train, valid, test: how many graphs each split has; names contain dots, as real ones do.
        nodes: of each graph.
    """
    folder = root / "npz" / Path(*collection.split("-"))
    seed = 0
    for split, count in (("train", train), ("valid", valid), ("test", test)):
        for index in range(count):
            seed += 1
            graph = layout_graph(f"{split}_{index}.v1.0", seed, nodes)
            if split == "test":
                graph.config_runtime[:] = 0
            write_layout(folder / split / f"{graph.name}.npz", graph)
    write_dataset(root, OWN)


def write_dataset(root: Path, dataset: Dataset) -> None:
    """Write ``dataset.json`` into a root."""
    root.mkdir(parents=True, exist_ok=True)
    (root / FILE).write_text(dataset_text(dataset))


def matrix_features(shapes: np.ndarray) -> np.ndarray:
    """(n, 140) features of float32 matrices of the given (n, 2) shapes, row-major, -1 padded."""
    features = np.zeros((len(shapes), len(FEATURE_NAMES)), np.float32)
    features[:, COLUMN["shape_element_type_is_f32"]] = 1
    features[:, COLUMN["shape_dimensions_0"]] = shapes[:, 0]
    features[:, COLUMN["shape_dimensions_1"]] = shapes[:, 1]
    features[:, COLUMN["shape_dimensions_sum"]] = shapes.sum(axis=1)
    features[:, COLUMN["shape_dimensions_product"]] = shapes.prod(axis=1)
    features[:, 31:37], features[:, 95:99], features[:, 101:105] = -1, -1, -1
    layout = COLUMN["layout_minor_to_major_0"]
    features[:, layout:] = -1
    features[:, layout], features[:, layout + 1] = 1, 0
    return features


def operands(rng: np.random.Generator, nodes: int) -> np.ndarray:
    """(m, 2) edges [user, operand]: every node but the first uses one or two earlier ones."""
    users = np.repeat(np.arange(1, nodes), 2)
    return np.unique(np.stack([users, rng.integers(0, users)], 1), axis=0)
