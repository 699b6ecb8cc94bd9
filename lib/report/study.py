"""The permutation and blending study: a figure and a table for each question it asked.

Read by its columns: ``study`` names the question, ``score`` and ``standard_error`` are means over
graphs, ``difference`` and ``difference_standard_error`` compare with the row marked ``default``,
and every other column is a choice.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from lib.ranking.metrics import Metric
from lib.report.figures import curves_with_errors
from lib.report.svg import Figure
from lib.report.tables import Table

MEASURED = ("score", "standard_error", "difference", "difference_standard_error")
ROWS = 10  # of a table: the best, and the one used
NO_CHOICE = ("collection", "study", "graphs", "default", *MEASURED)


@dataclass(frozen=True)
class Question:
    """One study.

    Attributes:
        name: such as ``inference``.
        figure: difference from the default by choice, a line for each value of the other choice.
        labels: the lines' names, in the order of their colours.
        table: the best choices, and the one used.
        graphs: how many each mean is over.
    """

    name: str
    figure: Figure
    labels: list[str]
    table: Table
    graphs: int


def questions(study: pl.DataFrame | None, metric: Metric) -> list[Question]:
    """The studies of a table, in its order; none of a table that has not the columns."""
    if study is None or study.is_empty() or not {"study", *MEASURED} <= set(study.columns):
        return []
    parts = study.partition_by("study", as_dict=True, maintain_order=True)
    found = (_question(str(name), rows, metric) for (name,), rows in parts.items())
    return [one for one in found if one is not None]


def _question(name: str, rows: pl.DataFrame, metric: Metric) -> Question | None:
    choices = [c for c in rows.columns if c not in NO_CHOICE and rows[c].null_count() < len(rows)]
    numeric = [c for c in choices if rows[c].dtype.is_numeric()]
    if not numeric:
        return None
    across = numeric[-1]
    down = [c for c in choices if c != across]
    groups: dict[str, list[tuple[float, float, float]]] = {}
    for row in rows.iter_rows(named=True):
        label = ", ".join(f"{c} {_shown(c, row[c])}" for c in down) or metric.name
        error = row["difference_standard_error"]
        error = float("nan") if error is None else error
        groups.setdefault(label, []).append((row[across], row["difference"], error))
    form = f"+.{metric.decimals + 1}f"
    figure = curves_with_errors(groups, across, f"difference in {metric.name}", form)
    graphs = int(rows["graphs"].max()) if "graphs" in rows.columns else 0
    return Question(name, figure, list(groups), _table(rows, [*down, across], metric), graphs)


def _table(rows: pl.DataFrame, choices: list[str], metric: Metric) -> Table:
    ordered = rows.sort("score", descending=metric.higher_is_better, maintain_order=True)
    lines = []
    for place, row in enumerate(ordered.iter_rows(named=True)):
        if place >= ROWS and not row.get("default"):
            continue
        mark = " (used)" if row.get("default") else ""
        texts = [_shown(c, row[c]) for c in choices]
        texts[-1] += mark
        score = _pair(row["score"], row["standard_error"], metric.decimals + 1)
        gain = _pair(row["difference"], row["difference_standard_error"], metric.decimals + 1, "+")
        lines.append([*texts, score, gain])
    return Table([*choices, metric.name, "against the one used"], lines)


def _shown(choice: str, value: object) -> str:
    return "all" if choice == "batch" and value == 0 else str(value)


def _pair(value: float, error: float | None, decimals: int, sign: str = "") -> str:
    shown = f"{value:{sign}.{decimals}f}".replace("-", "−")
    return shown if error is None or error != error else f"{shown} ± {error:.{decimals}f}"
