"""Stage 1: raw graphs to a pruned, de-duplicated, compressed cache.

Reads   <data root>/npz/<collection, a folder a word>/{train,valid,test}/*.npz (or *.pb)
Writes  <outputs>/<collection>/cache/ (or cache-<hops>/, if graphs are pruned otherwise)
"""

from __future__ import annotations

import sys

from lib.cache.manifest import read_manifest
from lib.preprocess.collection import raw_files, write_cache
from lib.preprocess.summary import log_sizes, summary_table
from lib.runs.stage import Stage, run


def main(stage: Stage) -> None:
    """Prune, de-duplicate, compress and pad every graph of one collection."""
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
    )
    tracker = stage.begin(read_manifest(stage.run.cache)["fingerprint"])
    log_sizes(tracker, table)
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


if __name__ == "__main__":
    run("preprocess", main, __doc__)
