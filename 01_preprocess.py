"""Stage 1: raw graphs to a compressed, de-duplicated, padded, pruned cache.

Reads   <data root>/npz/<collection, a folder a word>/{train,valid,test}/*.npz (or *.pb)
Writes  <outputs>/<collection>/cache/ (or cache-<hops>/, if graphs are pruned otherwise)
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))  # where PYTHONSAFEPATH has left it out

from lib.cache.compress import deduplicated, encoded, padded
from lib.cache.graph import CachedGraph
from lib.cache.manifest import read_manifest
from lib.cache.prune import pruned
from lib.preprocess.collection import raw_files, write_cache
from lib.preprocess.graphs import layout_sizes, open_raw, with_effects
from lib.preprocess.summary import summary_table
from lib.runs.stage import Stage, run
from lib.tpugraphs.npz import LayoutGraph


def main(stage: Stage) -> None:
    """Compress, de-duplicate, pad and prune every graph of one collection."""
    settings, arguments, root = stage.settings, stage.arguments, stage.resolved.root()
    stage.run.check_raw_files()  # their sizes and times, before any is read
    files = raw_files(root, settings.folder)
    metadata = {name: getattr(settings, name) for name in settings.cache_depends_on}
    table, skipped = write_cache(
        stage.run.cache,
        files,
        metadata,
        arguments.jobs,
        arguments.keep_going,
        settings.kind,
        stage.run.check_raw_files,
        WAYS.get(settings.kind),
    )
    stage.begin(read_manifest(stage.run.cache)["fingerprint"])
    rows = table.select("split", "source", "fingerprint").iter_rows()
    known = {f"{split}/{source}": fingerprint for split, source, fingerprint in rows}
    stage.note(raw=stage.run.raw_files, contents=stage.run.contents(known))

    for graph in skipped:
        print(f"skipped: {graph}", file=sys.stderr)
    left_out = f", {len(skipped)} bad files skipped" if skipped else ""
    print(summary_table(table, stage.run.cache))
    print(
        f"preprocess: {settings.collection} from {root.path}: "
        f"{len(table)} {settings.graphs} in {stage.run.cache}/{left_out}"
    )


def layout_graphs(
    path: Path, split: str, settings: Mapping[str, Any]
) -> Iterator[tuple[CachedGraph, dict[str, int]]]:
    """Yield the graph of a raw file for the cache, and its sizes before; in a worker process."""
    with open_raw(path) as (raw, chunks):  # no array is believed before it is checked
        graph = cached_graph(raw, split, chunks, path, settings)
    yield graph, layout_sizes(raw)


def cached_graph(
    raw: LayoutGraph,
    split: str,
    chunks: Iterable[np.ndarray],
    path: Path,
    settings: Mapping[str, Any],
) -> CachedGraph:
    """Return a layout graph as the cache has it; sections are those of the TGraph paper.

    ``make rank`` prepares a program by the same steps.

    Args:
        raw, path: the graph, and its file, which errors name.
        split: of the source.
        chunks: the graph's configurations, (r, k, 18) each.
        settings: ``hops`` and ``hardware``.
    """
    graph = encoded(raw, split, chunks, path)  # compressed: a layout is a code, 2.2.3
    graph = deduplicated(graph)  # equal configurations once, with the smallest runtime, 2.2.2
    graph = padded(graph)  # features of no meaning are -1, 2.2.4
    graph = with_effects(graph, settings.get("hardware", ""))  # what the compiler does
    return pruned(graph, settings["hops"])  # nodes near a configurable one, 2.2.1


WAYS = {"layout": layout_graphs}  # other kinds: lib/systems.py


if __name__ == "__main__":
    run("preprocess", main, __doc__)
