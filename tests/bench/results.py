"""The README's table of results, from the metrics that `make all` left in outputs/.

.venv/bin/python -m tests.bench.results [outputs]
"""

from __future__ import annotations

import sys
from pathlib import Path

from lib.artifacts import read_json
from lib.settings import BUNDLED_VALUES


def rows(outputs: Path) -> list[list[str]]:
    """A row a collection that has metrics: tau on training, validation and test graphs, and the
    baseline's tau and the ceiling on the latter two."""
    found = []
    for collection in BUNDLED_VALUES:
        path = outputs / collection / "metrics.json"
        if not path.exists():
            continue
        metrics = read_json(path)
        cells = [f"`{collection}`"]
        for section in ("training", "validation", "test"):
            mean = metrics[section].get("mean", {})
            keys = ("tau",) if section == "training" else ("tau", "baseline_tau", "ceiling")
            cells += [f"{mean[key]:.3f}" if key in mean else "" for key in keys]
        found.append(cells)
    return found


def main() -> None:
    """Print the table as Markdown."""
    outputs = Path(sys.argv[1] if len(sys.argv) > 1 else "outputs")
    head = ["collection", "training", "validation", "baseline", "ceiling"]
    head += ["test", "baseline", "ceiling"]
    print("| " + " | ".join(head) + " |")
    print("|---" + "|--:" * (len(head) - 1) + "|")
    for cells in rows(outputs):
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
