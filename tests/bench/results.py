"""The README's table of results, from the metrics that `make all` left in outputs/.

.venv/bin/python -m tests.bench.results [outputs]
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

from lib.files.artifacts import read_json
from lib.ranking.metrics import GAINS
from lib.settings import LAYOUT_COLLECTIONS


def rows(outputs: Path) -> list[list[str]]:
    """A row a collection and model that has metrics: tau on training, validation and test graphs,
    and the baseline's tau and the ceiling on the latter two; and of test graphs the speed-up of
    the pick over the compiler's own, that of the fastest, and the share of picks over 1 % faster
    and slower."""
    found = []
    shown = {"tgraph-plus": "", "tgraph": "@tgraph"}
    for collection, model in product(LAYOUT_COLLECTIONS, shown):
        path = outputs / f"{collection}{shown[model]}" / "metrics.json"
        if not path.exists():
            continue
        metrics = read_json(path)
        cells = [f"`{collection}`", f"`{model}`"]
        for section in ("training", "validation", "test"):
            mean = metrics[section].get("mean", {})
            keys = ("tau",) if section == "training" else ("tau", "baseline_tau", "ceiling")
            cells += [f"{mean[key]:.3f}" if key in mean else "" for key in keys]
        mean = metrics["test"].get("mean", {})
        found.append(cells + [one.plain(mean.get(one.key)) for one in GAINS])
    return found


def main() -> None:
    """Print the table as Markdown."""
    outputs = Path(sys.argv[1] if len(sys.argv) > 1 else "outputs")
    head = ["collection", "model", "training", "validation", "baseline", "ceiling"]
    head += ["test", "baseline", "ceiling", *(one.heading for one in GAINS)]
    print("| " + " | ".join(head) + " |")
    print("|---" + "|---" + "|--:" * (len(head) - 2) + "|")
    for cells in rows(outputs):
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
