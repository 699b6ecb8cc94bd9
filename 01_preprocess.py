"""Stage 1: raw graphs to a pruned, de-duplicated, compressed cache.

Reads   <data root>/npz/<collection, a folder a word>/{train,valid,test}/*.npz (or *.pb)
Writes  <outputs>/<collection>/cache/ (or cache-<hops>/, if graphs are pruned otherwise)
"""

from __future__ import annotations

from lib.runs.begin import one_line_errors  # before all others, which take seconds

# isort: split
import os
import sys
from functools import partial

from tqdm import tqdm

from lib import settings
from lib.cache.manifest import read_manifest
from lib.preprocess.collection import raw_files, write_cache
from lib.preprocess.summary import log_sizes, summary_table
from lib.runs.stage import Stage, record_path


def main(stage: Stage) -> None:
    """Prune, de-duplicate, compress and pad every graph of one collection."""
    parser = settings.parser(__doc__)
    parser.add_argument(
        "--jobs", type=int, default=len(os.sched_getaffinity(0)), help="worker processes"
    )
    parser.add_argument("--keep-going", action="store_true", help="name bad files, skip them")
    args = parser.parse_args()
    chosen, root = settings.resolve(args)

    files, raw = raw_files(root, chosen.folder), root.sizes_and_times(chosen.folder)
    bar = partial(tqdm, total=len(files), desc="preprocess", unit="graph", disable=None)
    cache = args.outputs / chosen.cache
    about = {name: getattr(chosen, name) for name in chosen.cache_depends_on}
    stage.alone(args.outputs, cache, record_path(args.outputs, "preprocess", chosen))
    table, skipped = write_cache(cache, files, about, args.jobs, args.keep_going, bar, chosen.kind)
    data = read_manifest(cache)["fingerprint"]
    log_sizes(stage.begin("preprocess", args.outputs, chosen, data), table)
    stage.note(raw=raw, **settings.changed_by(args, chosen, root.dataset))

    for one in skipped:
        print(f"skipped: {one}", file=sys.stderr)
    print(summary_table(table, cache))
    left_out = f", {len(skipped)} bad files skipped" if skipped else ""
    print(
        f"preprocess: {chosen.collection} from {root.path}: "
        f"{len(table)} {chosen.graphs} in {cache}/{left_out}"
    )


if __name__ == "__main__":
    with one_line_errors(), Stage() as stage:
        main(stage)
