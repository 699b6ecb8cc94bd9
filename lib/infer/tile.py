"""Scores of a tile kernel's configurations."""

from __future__ import annotations

from typing import Any

import numpy as np

from lib.cache.kernel import CachedKernel
from lib.inputs.kernels import kernel_scores
from lib.models.tile import TileNetwork


def tile_scores(network: TileNetwork, kernel: CachedKernel, settings: Any) -> np.ndarray:
    """Scores of a kernel's configurations, (1, c).

    The network judges each configuration by itself, so that every permutation would give the
    same scores, and one is computed.
    """
    return kernel_scores(network, kernel, settings.inference_configurations)[None]
