"""Stage 1: raw graphs to a pruned, de-duplicated, compressed cache.

Reads   <data root>/npz/layout/<source>/<search>/{train,valid,test}/*.npz (or *.pb)
Writes  <outputs>/<collection>/cache/
"""

from __future__ import annotations

import os

from tqdm import tqdm

from lib import settings
from lib.errors import one_line_errors
from lib.preprocess import layout
from lib.preprocess.summary import summary_table


def main() -> None:
    """Prune, de-duplicate, compress and pad every graph of one collection."""
    parser = settings.parser(__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="worker processes")
    args = parser.parse_args()
    chosen, root = settings.resolve(args)

    graphs = layout.process_all(root, chosen.folder, chosen.hops, args.jobs)
    total = layout.count_files(root, chosen.folder)
    graphs = tqdm(graphs, total=total, desc="preprocess", unit="graph", disable=None)
    cache = args.outputs / chosen.collection / "cache"
    about = {
        "collection": chosen.collection,
        "hops": chosen.hops,
    }
    table = layout.write_cache(cache, graphs, about)

    print(summary_table(table, cache))
    print(f"preprocess: {chosen.collection} from {root.path}: {len(table)} graphs in {cache}/")


if __name__ == "__main__":
    with one_line_errors():
        main()
