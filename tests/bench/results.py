"""The README's results, from the metrics that `make all` left in outputs/.

.venv/bin/python -m tests.bench.results [outputs]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from lib.files.artifacts import read_json
from lib.ranking.folds import family
from lib.ranking.metrics import BEST_SPEEDUP, SPEEDUP
from lib.tpugraphs.dataset import LAYOUT_COLLECTIONS

# Of folders of results: what their names end with.
NETWORKS = {"tgraph": "@tgraph", "tgraph-plus": "", "tgraph-plus, `ALSO=all`": "+all"}
COLUMNS = ("baseline", *NETWORKS, "ceiling")


def rows(outputs: Path) -> list[list[str]]:
    """Return a row for each collection that has metrics.

    First tau of the baseline, of the networks and the ceiling, of validation and of test graphs;
    then how much faster than the compiler's own choice the pick of ``tgraph-plus`` is on test
    graphs, and how much is possible. What is not there is left out.
    """
    found = []
    for collection in LAYOUT_COLLECTIONS:
        metrics = {n: _metrics(outputs / f"{collection}{end}") for n, end in NETWORKS.items()}
        if not any(metrics.values()):
            continue
        cells = [f"`{collection}`"]
        for section in ("validation", "test"):
            means = {n: one.get(section, {}).get("mean", {}) for n, one in metrics.items()}
            any_of = {key: value for mean in means.values() for key, value in mean.items()}
            taus = any_of.get("baseline_tau"), *(mean.get("tau") for mean in means.values())
            every = *taus, any_of.get("ceiling")
            cells += ["" if tau is None else f"{tau:.3f}" for tau in every]
        mean = metrics["tgraph-plus"].get("test", {}).get("mean", {})
        found.append(cells + [one.plain(mean.get(one.key)) for one in (SPEEDUP, BEST_SPEEDUP)])
    return found


def test_by_family(outputs: Path) -> str:
    """Return a sentence: test tau of ``tgraph-plus``, of graphs whose family is among those that
    were learned from, and of the others."""
    parts = []
    for collection in LAYOUT_COLLECTIONS:
        metrics = _metrics(outputs / collection)
        known = {family(name) for name in metrics.get("validation", {}).get("graphs", {})}
        taus: dict[bool, list[float]] = {True: [], False: []}
        for name, row in metrics.get("test", {}).get("graphs", {}).items():
            taus[family(name) in known].append(row["tau"])
        if all(taus.values()):
            seen, new = (f"{np.mean(own):.3f} of {len(own)}" for own in taus.values())
            parts.append(f"{seen} and {new} (`{collection}`)")
    return f"Test tau of families that were learned from, and of others: {', '.join(parts)}."


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
    print(f"\n{test_by_family(outputs)}")


if __name__ == "__main__":
    main()
