"""Stage 1: raw graphs to a pruned, de-duplicated, compressed cache.

Reads   <data root>/npz/<collection, a folder a word>/{train,valid,test}/*.npz (or *.pb)
Writes  <outputs>/<collection>/cache/ (or cache-<hops>/, if graphs are pruned otherwise)

Several machines can share the work: each writes slices of the files, with --slice 0-of-8 and so on,
and one puts them together, with --slices 8. The cache has the same bytes.
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
from collections.abc import Sequence

import polars as pl
from joblib import cpu_count

from lib import settings
from lib.cache.manifest import read_manifest
from lib.files.errors import UserError
from lib.preprocess.collection import Skipped, raw_files, write_cache
from lib.preprocess.slices import MOST_SLICES, Slice, write_from_slices, write_slice
from lib.preprocess.summary import log_sizes, summary_table
from lib.preprocess.workers import workers_starting
from lib.runs.asked import making_of, tell_as_it_was
from lib.runs.identity import Making
from lib.runs.ingredients import record_path
from lib.runs.stage import Stage


def main(stage: Stage, args: argparse.Namespace, resolved: settings.Resolved) -> None:
    """Prune, de-duplicate, compress and pad every graph of one collection, or of a slice of it."""
    if args.slices is not None and not 1 <= args.slices <= MOST_SLICES:
        raise UserError(f"argument --slices: {args.slices}: must be from 1 to {MOST_SLICES}")
    chosen, root = resolved.settings, resolved.root()
    with workers_starting(min(args.jobs, cpu_count())):
        files = raw_files(root, chosen.folder)
    making = making_of(args, chosen)
    cache, raw = making.cache, making.raw_files
    about = {name: getattr(chosen, name) for name in chosen.cache_depends_on}
    how = {"jobs": args.jobs, "keep_going": args.keep_going, "kind": chosen.kind}
    sliced = {**how, "code": making.identity("preprocess")}
    if args.slice:
        one = Slice.named(args.slice)
        folder, own = one.folder(cache), one.of(files, raw)
        stage.alone(args.outputs, folder)
        count, skipped = write_slice(folder, own, raw, about, **sliced)
        print(f"preprocess: {count} {chosen.graphs} in {folder}/{_name_skipped(skipped)}")
        return

    record = record_path(args.outputs, "preprocess", chosen)
    if stage.alone(args.outputs, cache, record) and making.as_it_was("preprocess"):
        tell_as_it_was(making, "preprocess")
        return
    if args.slices:
        table, skipped, earlier = write_from_slices(cache, args.slices, files, raw, about, **sliced)
        stage.note(earlier_seconds=earlier)
    else:
        table, skipped = write_cache(cache, files, about, **how)
    note_run(stage, making, table)
    stage.note(**resolved.record())

    left_out = _name_skipped(skipped)
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


def _name_skipped(skipped: Sequence[Skipped]) -> str:
    """Name the files that were left out; how many these are, in words."""
    for one in skipped:
        print(f"skipped: {one}", file=sys.stderr)
    return f", {len(skipped)} bad files skipped" if skipped else ""


if __name__ == "__main__":
    with one_line_errors(), Stage() as stage:
        main(stage, *asked)
