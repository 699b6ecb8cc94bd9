"""The measurements of a real TPU that come with the repository (data/tpu-v3-sample)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from lib.settings import root_of
from lib.settings.resolved import BUNDLED_TPU
from lib.tpugraphs.npz import TileKernel, read_tile
from lib.tpugraphs.roots import SPLITS

PROGRAM = BUNDLED_TPU / "npz" / "layout" / "xla" / "default" / "train" / "main__.10904.npz"
KERNELS = sorted((BUNDLED_TPU / "npz" / "tile" / "xla").glob("*/*.npz"))


def kernels() -> list[TileKernel]:
    """All fifteen, those of the test split with their runtimes, which lie beside their files."""
    root, folder = root_of("tile-xla", BUNDLED_TPU), Path("tile", "xla")
    known = root.measurements("tile-xla")
    found = []
    for path in (path for split in SPLITS for path in root.files(folder, split)):
        kernel = read_tile(path)
        own = known.filter(known["graph"] == kernel.name)["runtime"].to_numpy()
        if len(own):
            ones = np.ones(len(own), np.int64)
            kernel = replace(kernel, config_runtime=own, config_runtime_normalizers=ones)
        found.append(kernel)
    return found
