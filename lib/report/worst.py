"""Why graphs are ranked badly, as far as their names, sizes and measurements tell."""

from __future__ import annotations

import re

from lib.ranking.folds import family
from lib.report.experiment import Experiment
from lib.report.figures import ranked
from lib.report.statistics import mean
from lib.report.tables import Table
from lib.report.words import with_error

WORST = 10  # graphs
NOISY = 0.6  # a ceiling below this: labels say little of which configuration is fast
PASSES = {"train": "training", "forward": "forward", "inference": "forward", "eval": "forward"}


def pass_of(name: str) -> str:
    """Whether a program trains or only goes forward, as its name says; empty if it does not."""
    return next((PASSES[word] for word in re.split(r"[._]", name) if word in PASSES), "")


def worst(experiment: Experiment) -> Table | None:
    """The worst graphs of the section that counts most, worst first, and what is known of each;
    ``None`` where configurations have no order, or nothing was scored."""
    kind, metrics = experiment.kind, experiment.metrics_of(experiment.headline)
    if not kind.ordered or not metrics:
        return None
    values = experiment.values(experiment.headline, kind.main.key)
    ceilings = experiment.values(experiment.headline, kind.ceiling.key)
    sizes, rows = _sizes(experiment), []
    for name in ranked(metrics, kind.main)[::-1][:WORST]:
        relatives = [v for n, v in values.items() if n != name and family(n) == family(name)]
        texts = [name, kind.main.text(values[name])]
        texts.append(with_error(kind.main, mean(relatives)) if relatives else "–")
        if ceilings:
            noisy = " (noisy labels)" if ceilings.get(name, 1.0) < NOISY else ""
            texts.append(kind.ceiling.text(ceilings.get(name)) + noisy)
        sized = (f"{size:,}" if size else "–" for size in sizes.get(name, (0, 0)))
        rows.append([*texts, pass_of(name) or "–", *sized])
    head = [kind.item, kind.main.name, "others of its family"]
    head += [kind.ceiling.name] if ceilings else []
    return Table([*head, "pass", "nodes", "configurations"], rows, sortable=True)


def _sizes(experiment: Experiment) -> dict[str, tuple[int, int]]:
    """Nodes and configurations of each graph, before stage 1 leaves any out."""
    columns, table = ("graph", "source_nodes", "source_configurations"), experiment.graphs
    if not set(columns) <= set(table.columns):
        return {}
    return {name: (nodes, count) for name, nodes, count in table.select(columns).iter_rows()}
