"""What the way of blending and the number of folds buy, on graphs that no network has learned from.

``<outputs>/<collection>/study/study.parquet`` has a row a choice:

=============================  =================================================================
column                         meaning
=============================  =================================================================
``method``                     key of :data:`lib.ranking.blending.METHODS`
``folds``                      best ones by validation, that are blended
``graphs``                     number of graphs scored
``score``                      mean over graphs of Kendall's tau (layout) or M_tile (tile)
``standard_error``             of ``score``: standard deviation over graphs / sqrt(graphs)
``difference``                 mean over graphs of the score minus that of the default choice
``difference_standard_error``  of ``difference``, paired by graph
``default``                    whether this choice is the collection's setting
=============================  =================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import polars as pl

from lib.ranking.blending import METHODS, choose_folds
from lib.ranking.kinds import kind_of
from lib.ranking.truth import Truth, column_by_graph
from lib.scoring.folds import Folds
from lib.settings import Settings

CHOICE = {"method": pl.String, "folds": pl.Int64}
GRAPHS_SCHEMA = {**CHOICE, "graph": pl.String, "score": pl.Float64}


def blending_rows(
    parts: Sequence[Folds], settings: Settings, truth: Truth
) -> Iterable[tuple[str, int, str, float]]:
    """A row a method, number of folds and graph of any part, of those that have a known order.

    Args:
        parts: the folds of each, see :func:`lib.study.nested.nested_folds`.
        settings: of the collection.
        truth: of the graphs.
    """
    score = kind_of(settings.collection).main.compute
    for folds in parts:
        known = {graph: truth.runtimes(graph) for graph in folds.blended("test")["graph"].unique()}
        ranked = {g: r for g, r in known.items() if r is not None and truth.can_be_ranked(g, r)}
        for count in range(1, len(folds.validation) + 1):
            best = choose_folds(folds.validation, count, settings.higher_is_better)
            for method in METHODS:
                blended = replace(folds, best=best, method=method).blended("test")
                for graph, scores in column_by_graph(blended, "score").items():
                    if graph in ranked:
                        yield method, count, graph, score(scores.to_numpy(), ranked[graph])


def summarize(rows: Iterable[tuple], method: str, folds: int) -> pl.DataFrame:
    """Means, paired differences from the default choice, and their standard errors.

    Args:
        rows: of :func:`blending_rows`.
        method, folds: the default choice.
    """
    graphs = pl.DataFrame(list(rows), schema=GRAPHS_SCHEMA, orient="row")
    is_default = (pl.col("method") == method) & (pl.col("folds") == folds)
    base = graphs.filter(is_default).select("graph", base="score")
    paired = graphs.join(base, on="graph").with_columns(change=pl.col("score") - pl.col("base"))
    root = pl.len().sqrt()
    means = paired.group_by(*CHOICE, maintain_order=True).agg(
        graphs=pl.len(),
        score=pl.col("score").mean(),
        standard_error=pl.col("score").std() / root,
        difference=pl.col("change").mean(),
        difference_standard_error=pl.col("change").std() / root,
    )
    return means.with_columns(default=is_default)


def study_text(table: pl.DataFrame) -> str:
    """The table as a grid of mean scores, the default marked with a star, and the best choice, the
    first of equal ones, beside the default."""
    columns = table["folds"].unique().sort().to_list()
    lines = [f"{'method / folds':<24}" + "".join(f"{value:>9}" for value in columns)]
    for method in table["method"].unique(maintain_order=True):
        row = {r["folds"]: r for r in table.filter(method=method).iter_rows(named=True)}
        cells = [f"{row[c]['score']:.4f}" + ("*" if row[c]["default"] else " ") for c in columns]
        lines.append(f"{method:<24}" + "".join(f"{cell:>9}" for cell in cells))
    best = table.sort("score", descending=True, maintain_order=True).row(0, named=True)
    used = table.filter("default").row(0, named=True)
    lines.append(
        f"best: method {best['method']}, folds {best['folds']}: {best['score']:.4f}, "
        f"{best['difference']:+.4f} +- {best['difference_standard_error']:.4f} against the "
        f"default's {used['score']:.4f} (*)"
    )
    return "\n".join(lines)
