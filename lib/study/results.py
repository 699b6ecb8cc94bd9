"""What permutations, batch, blending method and number of folds buy, on out-of-fold scores.

``python -m lib.study`` writes, under ``<outputs>/<collection>/study/``:

``study.parquet``, a row a choice, two studies of two settings each (see
:mod:`lib.study.protocol` for which networks score which graphs; none is of the test split):

=============================  =================================================================
column                         meaning
=============================  =================================================================
``collection``                 such as ``layout-xla-default``
``study``                      ``inference`` or ``blending``
``batch``                      configurations a batch; 0 for all of a graph's (``inference``)
``permutations``               averaged over (``inference``)
``method``                     key of :data:`lib.ranking.blending.METHODS` (``blending``)
``folds``                      best ones by validation, that are blended (``blending``)
``graphs``                     number of graphs scored
``score``                      mean over graphs of Kendall's tau (layout) or M_tile (tile)
``standard_error``             of ``score``: standard deviation over graphs / sqrt(graphs)
``difference``                 mean over graphs of the score minus that of the default choice
``difference_standard_error``  of ``difference``, paired by graph
``default``                    whether this choice is the collection's setting
=============================  =================================================================

The settings that a study is not about are null. ``graphs.parquet`` has the score of each graph
under each choice; the report draws it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from lib.cache.manifest import read_manifest
from lib.cache.reader import Cache
from lib.files.artifacts import atomic_file
from lib.files.errors import UserError
from lib.files.parquet import write_parquet
from lib.ranking.blending import METHODS, blend, choose_folds
from lib.ranking.folds import fold_number
from lib.ranking.kinds import kind_of
from lib.ranking.truth import CachedLabels, Truth
from lib.runs.identity import Making
from lib.scoring.folds import check_count, validation_score
from lib.settings import WEIGHTS_FILES, Settings
from lib.study.protocol import (
    PERMUTATIONS,
    folders_of,
    inference_runs,
    nested_runs,
    networks_at_hand,
)
from lib.study.runs import Run, execute_all, read_run
from lib.tpugraphs.roots import DataRoot

CHOICES = {
    "study": pl.String,
    "batch": pl.Int64,
    "permutations": pl.Int64,
    "method": pl.String,
    "folds": pl.Int64,
}
# What scores a collection's validation graphs in other batches, by model, where batches matter.
STUDIES = {"tgraph": inference_runs}
AXES = {"inference": ("batch", "permutations"), "blending": ("method", "folds")}
Score = Callable[[np.ndarray, np.ndarray], float]  # of (scores, runtimes)
GRAPHS_SCHEMA = {**CHOICES, "graph": pl.String, "score": pl.Float64}


def run_study(
    making: Making,
    cache: Cache,
    root: DataRoot,
    count: int | None,
    parts: int,
    jobs: int,
    through: Sequence[str] = (),
) -> pl.DataFrame:
    """Run both studies and write their table and plot; returns the table.

    Args:
        making: what stages would make results from.
        cache, root: of the collection.
        count: folds 0 to ``count`` - 1, ``None`` for all that were trained; as many a part.
        parts: of the nested cross-validation.
        jobs, through: see :func:`lib.study.runs.execute_all`.
    """
    folder, settings = making.folder, making.settings
    check_count(count)
    folds = trained_folds(folder, settings.weights, None) if count is None else [*range(count)]
    at_hand = {}
    if studied := STUDIES.get(settings.model):
        networks = networks_at_hand(making, cache, root.path, folds)
        execute_all([run for run in networks.values() if isinstance(run, Run)], jobs, through)
        at_hand = studied(folder, cache, settings, root.path, folders_of(networks))
    nested = nested_runs(folder, cache, settings, root.path, len(folds), parts)
    every = [run for runs in (*at_hand.values(), *nested) for run in runs]
    execute_all(list({run.scores: run for run in every}.values()), jobs, through)

    truth = Truth(CachedLabels(cache), root.measurements(settings.collection))
    score = kind_of(settings.collection).main.compute
    inference = inference_rows(at_hand, truth, score)
    choices = [*inference, *blending_rows(nested, settings, truth, score)]
    graphs = pl.DataFrame(choices, schema=GRAPHS_SCHEMA, orient="row")
    table = summarize(graphs, default_choices(settings, at_hand, len(folds)))
    table = table.select(pl.lit(settings.collection).alias("collection"), pl.all())
    write_study(folder / "study", graphs, table)
    return table


def write_study(folder: Path, graphs: pl.DataFrame, table: pl.DataFrame) -> None:
    """Write ``graphs.parquet`` and ``study.parquet``."""
    for name, frame in (("graphs", graphs), ("study", table)):
        with atomic_file(folder / f"{name}.parquet") as temporary:
            write_parquet(frame, temporary)


def trained_folds(folder: Path, weights: str, count: int | None) -> list[int]:
    """The folds that have a network, 0 to ``count`` - 1 if it is given.

    Raises:
        UserError: if there is none, or one of ``count`` folds has none.
    """
    check_count(count)
    name = WEIGHTS_FILES[weights]
    trained = {fold_number(path.parent.name) for path in folder.glob(f"fold_*/{name}")} - {None}
    if count is None and not trained:
        raise UserError(f"{folder}: no trained fold there; run 02_train.py first")
    for fold in range(count or 0):
        if fold not in trained:
            path = folder / f"fold_{fold}" / name
            raise UserError(f"{path}: no such file; run 02_train.py --fold {fold} first")
    return sorted(fold for fold in trained if count is None or fold < count)


def inference_rows(
    at_hand: Mapping[int | None, Sequence[Run]], truth: Truth, score: Score
) -> Iterable[tuple]:
    """A row a batch, number of permutations and graph.

    The mean over p permutations is scored for every disjoint group of p among those there are,
    and the scores are averaged, so that few permutations are not judged by one draw.
    """
    rows_of: dict[Path, list[tuple[int, str, float]]] = {}
    for batch, runs in at_hand.items():
        for run in runs:
            if run.scores not in rows_of:
                rows_of[run.scores] = list(_by_permutations(run, truth, score))
            for permutations, graph, value in rows_of[run.scores]:
                yield ("inference", batch or 0, permutations, None, None, graph, value)


def _by_permutations(run: Run, truth: Truth, score: Score) -> Iterable[tuple[int, str, float]]:
    for graph, (table, runtimes) in score_tables(read_run(run.scores, "valid"), truth).items():
        for count in PERMUTATIONS:
            size = min(count, len(table))  # one, where a batch holds all configurations
            groups = range(0, len(table) - size + 1, size)
            values = [score(table[start : start + size].mean(axis=0), runtimes) for start in groups]
            yield count, graph, float(np.mean(values))


def blending_rows(
    nested: Sequence[Sequence[Run]], settings: Settings, truth: Truth, score: Score
) -> Iterable[tuple]:
    """A row a method, number of folds and graph of any part.

    Args:
        nested: the runs of each part.
        settings: whose metric of validation chooses the folds.
        truth: of the graphs; those that it knows nothing of are left out.
        score: of (scores, runtimes).
    """
    for runs in nested:
        validation = {run.fold: _validation(run, settings) for run in runs}
        tables = {run.fold: score_tables(read_run(run.scores, "test"), truth) for run in runs}
        for count in range(1, len(runs) + 1):
            best = choose_folds(validation, count, settings.higher_is_better)
            for graph, (_, runtimes) in tables[best[0]].items():
                scores = [tables[fold][graph][0].mean(axis=0) for fold in best]
                for method in METHODS:
                    value = score(blend(scores, method), runtimes)
                    yield ("blending", None, None, method, count, graph, value)


def score_tables(scores: pl.DataFrame, truth: Truth) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Scores (permutations, c) and runtimes (c,) of each graph that is known to have an order."""
    tables = {}
    parts = scores.sort("graph", "permutation", "config").partition_by("graph", as_dict=True)
    for (graph,), frame in parts.items():
        runtimes = truth.runtimes(graph)
        if runtimes is not None and truth.can_be_ranked(graph, runtimes):
            tables[graph] = (frame["score"].to_numpy().reshape(-1, len(runtimes)), runtimes)
    return tables


def _validation(run: Run, settings: Settings) -> float:
    """The validation score that stage 4 would choose the fold by."""
    fingerprint = read_manifest(run.folder.parent / settings.cache)["fingerprint"]
    return validation_score(run.folder / f"fold_{run.fold}", fingerprint, settings.metric)


def default_choices(
    settings: Settings, at_hand: Mapping[int | None, object], folds: int
) -> dict[str, dict[str, Any]]:
    """The choice that each study compares with: the collection's settings.

    Raises:
        UserError: if a setting is not among those that are studied.
    """
    blending = {"method": settings.blending, "folds": min(settings.best_folds, folds)}
    if not at_hand:
        return {"blending": blending}
    batch, permutations = settings.inference_configurations, settings.permutations
    if batch not in at_hand or permutations not in PERMUTATIONS:
        raise UserError(
            f"--inference-configurations {batch} --permutations {permutations}: the study compares "
            f"with one of {[b for b in at_hand if b]} and one of {list(PERMUTATIONS)}"
        )
    return {"inference": {"batch": batch, "permutations": permutations}, "blending": blending}


def summarize(graphs: pl.DataFrame, defaults: Mapping[str, Mapping[str, Any]]) -> pl.DataFrame:
    """Means, paired differences from the default choice, and their standard errors.

    Args:
        graphs: of ``GRAPHS_SCHEMA``.
        defaults: by study, the values of its two settings.
    """
    parts = []
    for study, default in defaults.items():
        rows = graphs.filter(pl.col("study") == study)
        is_default = pl.all_horizontal(pl.col(key) == value for key, value in default.items())
        base = rows.filter(is_default).select("graph", base="score")
        paired = rows.join(base, on="graph").with_columns(change=pl.col("score") - pl.col("base"))
        root = pl.len().sqrt()
        means = paired.group_by(*CHOICES, maintain_order=True).agg(
            graphs=pl.len(),
            score=pl.col("score").mean(),
            standard_error=pl.col("score").std() / root,
            difference=pl.col("change").mean(),
            difference_standard_error=pl.col("change").std() / root,
        )
        parts.append(means.with_columns(default=is_default))
    return pl.concat(parts)


def study_text(table: pl.DataFrame) -> str:
    """The table as two grids: mean score, the default marked with a star."""
    lines = []
    for study, (down, across) in AXES.items():
        rows = table.filter(pl.col("study") == study)
        if len(rows):
            lines += [*_grid(rows, down, across), _best(rows, study)]
    return "\n".join(lines)


def _grid(table: pl.DataFrame, down: str, across: str) -> list[str]:
    columns = table[across].unique().sort().to_list()
    lines = [f"{down + ' / ' + across:<24}" + "".join(f"{value:>9}" for value in columns)]
    for value in table[down].unique(maintain_order=True):
        row = {r[across]: r for r in table.filter(pl.col(down) == value).iter_rows(named=True)}
        cells = [f"{row[c]['score']:.4f}" + ("*" if row[c]["default"] else " ") for c in columns]
        lines.append(f"{value or 'all':<24}" + "".join(f"{cell:>9}" for cell in cells))
    return lines


def _best(rows: pl.DataFrame, study: str) -> str:
    """The best choice of a study, beside the default; the first of equal ones."""
    best = rows.sort("score", descending=True, maintain_order=True).row(0, named=True)
    used = rows.filter("default").row(0, named=True)
    choice = ", ".join(f"{key} {best[key] or 'all'}" for key in AXES[study])
    return (
        f"{study}: best {choice}: {best['score']:.4f}, {best['difference']:+.4f} +- "
        f"{best['difference_standard_error']:.4f} against the default's {used['score']:.4f} (*)"
    )
