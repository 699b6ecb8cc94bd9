"""From one raw layout file to a cached graph, and the account of what that saved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lib.cache.graph import CachedGraph
from lib.files.errors import DataError
from lib.preprocess.stage import Preprocess, source_sizes
from lib.runs.stage import stage_script
from lib.tpugraphs.messages import detect_kind
from lib.tpugraphs.npz import LayoutGraph, open_layout, stem
from lib.tpugraphs.protobuf import read_layout_pb

CELL_BYTES = 18 * 4  # float32 digits of one (configuration, node) cell in the source


def read_graphs(
    path: Path, split: str, settings: Mapping[str, Any]
) -> Iterator[tuple[CachedGraph, dict[str, int]]]:
    """Yield the graph of a raw file as 01_preprocess.py does, which stage 1 itself calls."""
    yield from stage_script("preprocess").layout_graphs(path, split, settings)


def with_effects(graph: CachedGraph, hardware: str) -> CachedGraph:
    """Return a whole graph with what its configurations make the compiler do.

    On TPUs that is looked up when it is read (:mod:`lib.models.prices.inputs`): nodes are
    independent there.
    """
    if hardware != "cpu":
        return graph
    from lib.compiler.cpu.resolved import effects_of  # what it imports takes 40 MB

    return replace(graph, **effects_of(graph))  # type: ignore[arg-type]


def layout_sizes(raw: LayoutGraph) -> dict[str, int]:
    """Return what a layout graph was before, in columns of the cache's table."""
    return source_sizes(raw, len(raw.node_config_ids) * CELL_BYTES)


@contextmanager
def open_raw(path: Path) -> Iterator[tuple[LayoutGraph, Iterable[np.ndarray]]]:
    """Open an npz or a protobuf layout file that has configurations.

    Yields:
        The graph, named after the file, and its configurations in chunks (r, k, 18).

    Raises:
        DataError: the file is damaged, or a value in it is impossible, also from the chunks.
    """
    if path.suffix == ".npz":
        with open_layout(path) as (graph, chunks):
            yield _measured(path, graph), chunks
    else:
        if detect_kind(path) == "hlo":
            actual = "an HLO module without configurations"
            raise DataError(path, "message", actual, "ModuleTuningData; make rank ranks candidates")
        graph = _measured(path, read_layout_pb(path))
        yield replace(graph, name=stem(path)), [graph.node_config_feat]


def _measured(path: Path, graph: LayoutGraph) -> LayoutGraph:
    """Return the graph itself; raises a DataError if it has no configurations."""
    if not len(graph.config_runtime):
        raise DataError(path, "node_config_feat", "no configurations", "at least one")
    return graph


PREPROCESS = Preprocess(read_graphs)
