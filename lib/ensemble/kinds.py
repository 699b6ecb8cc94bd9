"""How stage 4 ends, by kind of collection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from lib.cache.reader import Cache
from lib.ensemble.evaluation import evaluate_all, summary_table
from lib.files.artifacts import atomic_file
from lib.programs import ensemble as programs
from lib.ranking.kinds import kind_of
from lib.runs.folds import Folds, read_folds
from lib.runs.submission import submission_lines, write_submission
from lib.settings import Settings

Blended = Mapping[str, pl.DataFrame]  # by section of metrics.json
Write = Callable[[Path], None]


@dataclass(frozen=True)
class Ending:
    """What stage 4 makes of the folds' scores.

    Attributes:
        read: (folder, cache, settings, number of folds or None) -> what the folds left.
        table: (blended scores, cache, settings) -> what writes the table of results, and what
            that table has, in words.
        evaluate: (blended scores, cache, measurements that lie apart, settings) -> sections.
        summary: (sections, collection) -> text.
    """

    read: Callable[[Path, Cache, Any, int | None], Folds]
    table: Callable[[Blended, Cache, Settings], tuple[Write, str]]
    evaluate: Callable[[Blended, Cache, pl.DataFrame | None, Settings], dict[str, dict[str, Any]]]
    summary: Callable[[dict[str, dict[str, Any]], str], str]


def _submission(blended: Blended, cache: Cache, settings: Settings) -> tuple[Write, str]:
    counts = {name: cache.counts[name] for name in cache.names("test")}
    listed = kind_of(settings.collection).listed
    lines = submission_lines(blended["test"], settings.identifier, counts, listed)
    return lambda path: write_submission(path, lines), f"{len(lines)} test graphs"


def _predictions(blended: Blended, cache: Cache, settings: Settings) -> tuple[Write, str]:
    rows = programs.prediction_table(blended, cache)

    def write(path: Path) -> None:
        with atomic_file(path) as temporary:
            rows.write_csv(temporary)

    return write, f"{len(rows):,} latencies of {rows['task'].n_unique()} tasks"


GRAPHS = Ending(
    read=read_folds,
    table=_submission,
    evaluate=lambda blended, cache, apart, settings: evaluate_all(
        blended, cache, apart, kind_of(settings.collection, getattr(settings, "hardware", "cpu"))
    ),
    summary=lambda sections, name: summary_table(sections, kind_of(name).columns),
)
PROGRAMS = Ending(
    read=programs.read_folds,
    table=_predictions,
    evaluate=lambda blended, cache, apart, settings: programs.evaluate_all(
        blended, cache, settings.collection
    ),
    summary=lambda sections, name: programs.summary_table(sections),
)
ENDINGS: dict[str, Ending] = {"layout": GRAPHS, "tile": GRAPHS, "programs": PROGRAMS}
