"""Stage 1: raw graphs to a pruned, de-duplicated, compressed cache.

Reads   <data root>/npz/<collection, a folder a word>/{train,valid,test}/*.npz (or *.pb)
Writes  <outputs>/<collection>/cache/ (or cache-<hops>/, if graphs are pruned otherwise)

Several machines can share the work: each writes slices of the files, with --slice 0-of-8 and so on,
and one puts them together, with --slices 8. The cache has the same bytes.
"""

from __future__ import annotations

from lib.runs.begin import one_line_errors  # before all others, which take seconds

# isort: split
import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial

from tqdm import tqdm

from lib import settings
from lib.cache.manifest import read_manifest
from lib.preprocess.collection import Skipped, raw_files, write_cache
from lib.preprocess.slices import Slice, write_from_slices, write_slice
from lib.preprocess.summary import log_sizes, summary_table
from lib.preprocess.workers import workers_starting
from lib.runs.stage import Stage, record_path


def main(stage: Stage) -> None:
    """Prune, de-duplicate, compress and pad every graph of one collection, or of a slice of it."""
    args = _arguments()
    chosen, root = settings.resolve(args)
    with workers_starting(args.jobs):
        files, raw = raw_files(root, chosen.folder), root.sizes_and_times(chosen.folder)
    cache = args.outputs / chosen.cache
    about = {name: getattr(chosen, name) for name in chosen.cache_depends_on}
    how = {"jobs": args.jobs, "keep_going": args.keep_going, "kind": chosen.kind}

    if args.slice:
        folder, own = args.slice.folder(cache), args.slice.of(files, raw)
        stage.alone(args.outputs, folder)
        count, skipped = write_slice(folder, own, raw, about, progress=_bar(own), **how)
        print(f"preprocess: {count} {chosen.graphs} in {folder}/{_told(skipped)}")
        return

    stage.alone(args.outputs, cache, record_path(args.outputs, "preprocess", chosen))
    if args.slices:
        table, skipped, earlier = write_from_slices(cache, args.slices, files, raw, about, **how)
        stage.note(earlier_seconds=earlier)
    else:
        table, skipped = write_cache(cache, files, about, progress=_bar(files), **how)
    data = read_manifest(cache)["fingerprint"]
    log_sizes(stage.begin("preprocess", args.outputs, chosen, data), table)
    stage.note(raw=raw, **settings.changed_by(args, chosen, root.dataset))

    left_out = _told(skipped)
    print(summary_table(table, cache))
    print(
        f"preprocess: {chosen.collection} from {root.path}: "
        f"{len(table)} {chosen.graphs} in {cache}/{left_out}"
    )


def _arguments() -> argparse.Namespace:
    parser = settings.parser(__doc__)
    parser.add_argument(
        "--jobs", type=int, default=len(os.sched_getaffinity(0)), help="worker processes"
    )
    parser.add_argument("--keep-going", action="store_true", help="name bad files, skip them")
    parser.add_argument("--slice", type=Slice.named, help="of the files, such as 0-of-8")
    parser.add_argument("--slices", type=int, help="how many were written, to be put together")
    args = parser.parse_args()
    if args.slices is not None and args.slices < 1:
        parser.error(f"argument --slices: {args.slices}: at least 1")
    return args


def _bar(files: Sequence[object]) -> partial[tqdm]:
    return partial(tqdm, total=len(files), desc="preprocess", unit="graph", disable=None)


def _told(skipped: Sequence[Skipped]) -> str:
    """Name the files that were left out; how many these are, in words."""
    for one in skipped:
        print(f"skipped: {one}", file=sys.stderr)
    return f", {len(skipped)} bad files skipped" if skipped else ""


if __name__ == "__main__":
    with one_line_errors(), Stage() as stage:
        main(stage)
