"""From a raw tile file to cached kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lib.cache.kernel import CachedKernel
from lib.preprocess.stage import Preprocess, source_sizes
from lib.tpugraphs.tiles import read_kernels

CONFIGURATION_BYTES = 24 * 4  # float32 features in the source


def read_graphs(
    path: Path, split: str, settings: Mapping[str, Any]
) -> Iterator[tuple[CachedKernel, dict[str, int]]]:
    """The kernels of a raw file; raises as :func:`lib.tpugraphs.tiles.read_kernels`."""
    for raw in read_kernels(path):
        yield CachedKernel.of(raw, split), source_sizes(raw, CONFIGURATION_BYTES)


PREPROCESS = Preprocess(read_graphs)
