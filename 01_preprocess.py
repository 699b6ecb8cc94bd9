"""Stage 1: raw graphs to a pruned, de-duplicated, compressed cache.

Reads   <data root>/npz/<collection, a folder a word>/{train,valid,test}/*.npz (or *.pb)
Writes  <outputs>/<collection>/cache/ (or cache-<hops>/, if graphs are pruned otherwise)
"""

from __future__ import annotations

from lib.runs.begin import one_line_errors

# isort: split
from lib.runs.asked import parse_or_end

if __name__ == "__main__":  # before all other imports, which take seconds
    asked = parse_or_end("preprocess", __doc__)

# isort: split
import argparse
import sys

import polars as pl

from lib import settings
from lib.cache.manifest import read_manifest
from lib.preprocess.collection import raw_files, write_cache
from lib.preprocess.summary import log_sizes, summary_table
from lib.runs.asked import making_of, tell_as_it_was
from lib.runs.identity import Making
from lib.runs.ingredients import record_path
from lib.runs.stage import Stage


def main(stage: Stage, args: argparse.Namespace, resolved: settings.Resolved) -> None:
    """Prune, de-duplicate, compress and pad every graph of one collection."""
    chosen, root = resolved.settings, resolved.root()
    files = raw_files(root, chosen.folder)
    making = making_of(args, chosen)
    cache, record = making.cache, record_path(args.outputs, "preprocess", chosen)
    if stage.alone(args.outputs, cache, record) and making.as_it_was("preprocess"):
        tell_as_it_was(making, "preprocess")
        return
    about = {name: getattr(chosen, name) for name in chosen.cache_depends_on}
    table, skipped = write_cache(cache, files, about, args.jobs, args.keep_going, chosen.kind)
    note_run(stage, making, table)
    stage.note(**resolved.record())

    for graph in skipped:
        print(f"skipped: {graph}", file=sys.stderr)
    left_out = f", {len(skipped)} bad files skipped" if skipped else ""
    print(summary_table(table, cache))
    print(
        f"preprocess: {chosen.collection} from {root.path}: "
        f"{len(table)} {chosen.graphs} in {cache}/{left_out}"
    )


def note_run(stage: Stage, making: Making, table: pl.DataFrame) -> None:
    """Say what was made, and of which raw files."""
    tracker = stage.begin("preprocess", making, read_manifest(making.cache)["fingerprint"])
    log_sizes(tracker, table)
    rows = table.select("split", "source", "fingerprint").iter_rows()
    known = {f"{split}/{source}": fingerprint for split, source, fingerprint in rows}
    stage.note(raw=making.raw_files, contents=making.contents(known))


if __name__ == "__main__":
    with one_line_errors(), Stage() as stage:
        main(stage, *asked)
