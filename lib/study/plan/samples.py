"""The graphs that are measured: of the collection itself, or of a real program.

Of the raw files some of few and of many configurable nodes are taken, and of kernels every so many.
Where there are none, a real program, or kernel, that comes with the repository stands in: several
copies of it side by side are one of more nodes. Drawn layouts of its own make more configurations,
and of a kernel drawn tiles.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lib.files.errors import UserError
from lib.settings import Settings
from lib.settings.resolved import BUNDLED_TPU
from lib.study.plan.collection import sizes_in
from lib.tpugraphs.npz import (
    LayoutGraph,
    TileKernel,
    read_layout,
    read_tile,
    write_layout,
    write_tile,
)
from lib.tpugraphs.roots import DataRoot
from lib.tpugraphs.sizes import GraphSize

PROGRAM = BUNDLED_TPU / "npz" / "layout" / "xla" / "default" / "train" / "main__.10904.npz"
KERNEL = BUNDLED_TPU / "npz" / "tile" / "xla" / "train" / "fusion.191.npz"
LARGEST_TILE = 64  # along a dimension, of those that are drawn
TILES = (*range(4), *range(8, 12))  # columns that say how large tiles are along dimensions
QUANTILES = (0.2, 0.6, 0.95)  # of the configurable nodes
MOST_KERNELS = 64
MADE = (8192, 1024, 3072)  # configurations of the programs that are put together, in turn


def sample_files(
    settings: Settings, root: DataRoot | None, graphs: Sequence[GraphSize], folder: Path
) -> list[list[Path]]:
    """Files to measure, in groups that go through the stages together.

    Args:
        settings: of the collection.
        root: its raw data, or ``None``.
        graphs: the sizes of its graphs.
        folder: where files that are made for it go.

    Raises:
        UserError: if there is nothing to learn from.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if settings.kind == "tile":
        return [_kernels(settings, root) if root else _kernels_made(folder, graphs)]
    labelled = sorted(one.configurable for one in graphs if one.split != "test")
    if not labelled:
        raise UserError(f"{settings.collection}: no graph to learn from, so nothing to measure")
    wanted = [labelled[int(q * (len(labelled) - 1))] for q in QUANTILES]
    if root is None:
        return [[_put_together(folder, *each)] for each in zip(wanted, MADE, strict=True)]
    files = [p for split in ("train", "valid") for p in root.files(settings.folder, split)]
    return [[path] for path in _nearest(files, wanted)]


def _nearest(files: Sequence[Path], wanted: Sequence[int]) -> list[Path]:
    """The file whose configurable nodes are nearest to each number; none twice."""
    npz = [path for path in files if path.suffix == ".npz"]
    sizes = {path: sizes_in(path, "train")[0].configurable for path in npz}
    found: list[Path] = []
    for number in wanted:
        left = [path for path in npz if path not in found]
        if left:
            found.append(min(left, key=lambda path: abs(sizes[path] - number)))
    return found


def _kernels(settings: Settings, root: DataRoot) -> list[Path]:
    files = root.files(settings.folder, "train")
    step = -(-len(files) // MOST_KERNELS)
    return files[::step]


def _kernels_made(folder: Path, graphs: Sequence[GraphSize]) -> list[Path]:
    """Kernels of all sizes, alike in number."""
    labelled = [one for one in graphs if one.split != "test"]
    labelled.sort(key=lambda one: one.nodes * one.configurations)
    chosen = labelled[:: -(-len(labelled) // MOST_KERNELS)]
    one, paths = read_tile(KERNEL), [folder / f"kernel_{n}.npz" for n in range(len(chosen))]
    for number, (path, size) in enumerate(zip(paths, chosen, strict=True)):
        write_tile(path, kernel_like(one, size, number))
    return paths


def kernel_like(one: TileKernel, size: GraphSize, seed: int) -> TileKernel:
    """A kernel of about so many nodes, and of so many drawn configurations and runtimes."""
    rng, count = np.random.default_rng(seed), size.configurations
    features = np.zeros((count, one.config_feat.shape[1]), np.float32)
    features[:, TILES] = rng.integers(1, LARGEST_TILE + 1, (count, len(TILES)))
    runtime = rng.integers(one.config_runtime.min(), one.config_runtime.max(), count)
    return TileKernel(
        name=f"{one.name}.{seed}",
        **_repeated(one, max(1, round(size.nodes / len(one.node_opcode)))),
        config_feat=features,
        config_runtime=runtime,
        config_runtime_normalizers=np.full(count, one.config_runtime_normalizers[0]),
    )


def _put_together(folder: Path, configurable: int, configurations: int) -> Path:
    """A program of about so many configurable nodes: copies of the real one side by side."""
    one = read_layout(PROGRAM)
    copies = max(1, round(configurable / len(one.node_config_ids)))
    path = folder / f"copies_{copies}.npz"
    if not path.exists():
        write_layout(path, side_by_side(one, copies, configurations))
    return path


def side_by_side(one: LayoutGraph, copies: int, configurations: int) -> LayoutGraph:
    """A program that is several copies of another; each node has one of its layouts, drawn anew.

    Runtimes are drawn as well.
    """
    count, rng = len(one.node_opcode), np.random.default_rng(copies)
    starts = count * np.arange(copies)
    known, configurable, _ = one.node_config_feat.shape
    rows = rng.integers(0, known, (copies, configurations, configurable))
    features = [one.node_config_feat[own, np.arange(configurable)] for own in rows]
    runtime = rng.integers(one.config_runtime.min(), one.config_runtime.max(), configurations)
    return LayoutGraph(
        name=f"{one.name}.{copies}",
        **_repeated(one, copies),
        node_config_ids=np.concatenate([one.node_config_ids + start for start in starts]),
        node_splits=np.append(0, np.cumsum(np.tile(np.diff(one.node_splits), copies))),
        node_config_feat=np.concatenate(features, axis=1),
        config_runtime=runtime,
    )


def _repeated(one: LayoutGraph | TileKernel, copies: int) -> dict[str, np.ndarray]:
    """Nodes and edges of several copies side by side."""
    starts = len(one.node_opcode) * np.arange(copies)
    return {
        "node_feat": np.tile(one.node_feat, (copies, 1)),
        "node_opcode": np.tile(one.node_opcode, copies),
        "edge_index": np.concatenate([one.edge_index + start for start in starts]),
    }


def copy_twice(files: Sequence[Path], folder: Path) -> list[Path]:
    """The files under two names each, so that one can be learned from and the other held out."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for number, path in enumerate(files):
        for side in "ab":
            made.append(folder / f"{side}{number}{path.suffix}")
            shutil.copyfile(path, made[-1])
    return made
