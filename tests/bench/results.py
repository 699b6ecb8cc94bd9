"""The README's table of results, from the metrics that `make all` left in outputs/.

.venv/bin/python -m tests.bench.results [outputs]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from lib.files.artifacts import read_json
from lib.ranking.metrics import BEST_SPEEDUP, SPEEDUP
from lib.tpugraphs.dataset import LAYOUT_COLLECTIONS

PLAIN, PAPERS = "tgraph-plus", "tgraph"
COLUMNS = ("baseline", PAPERS, PLAIN, "ceiling")


def rows(outputs: Path) -> list[list[str]]:
    """A row a collection that has metrics: tau of the baseline, of both networks and the ceiling,
    of validation and of test graphs; then how much faster than the compiler's own choice the pick
    of ``tgraph-plus`` is on test graphs, and how much is possible. What is not there is left out.
    """
    found = []
    for collection in LAYOUT_COLLECTIONS:
        plain, papers = (_metrics(outputs / f"{collection}{end}") for end in ("", f"@{PAPERS}"))
        if not plain and not papers:
            continue
        cells = [f"`{collection}`"]
        for section in ("validation", "test"):
            own, other = (one.get(section, {}).get("mean", {}) for one in (plain, papers))
            both = {**other, **own}
            taus = both.get("baseline_tau"), other.get("tau"), own.get("tau"), both.get("ceiling")
            cells += ["" if tau is None else f"{tau:.3f}" for tau in taus]
        mean = plain.get("test", {}).get("mean", {})
        found.append(cells + [one.plain(mean.get(one.key)) for one in (SPEEDUP, BEST_SPEEDUP)])
    return found


def _metrics(folder: Path) -> dict[str, Any]:
    path = folder / "metrics.json"
    return read_json(path) if path.exists() else {}


def main() -> None:
    """Print the table as Markdown."""
    outputs = Path(sys.argv[1] if len(sys.argv) > 1 else "outputs")
    of_validation, of_test = ([f"{name}, {side}" for name in COLUMNS] for side in ("valid", "test"))
    head = ["collection", *of_validation, *of_test, SPEEDUP.heading, BEST_SPEEDUP.heading]
    for cells in (head, ["---", *["--:"] * (len(head) - 1)], *rows(outputs)):
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
