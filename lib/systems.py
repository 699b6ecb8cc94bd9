"""All systems: what each stage needs of a kind of collections, named here and nowhere else.

A name is ``module:object`` and imported when it is asked for (:mod:`lib.files.named`). So nobody
pays for what another system runs, and results are made from the code of their own system alone
(:mod:`lib.runs.identity`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class System:
    """A kind of collections.

    Attributes:
        models: the settings of each model, which name its network, its input and what it trains
            on.
        cache: a :class:`lib.cache.format.Form`: how a graph lies in the cache.
        preprocess: a :class:`lib.preprocess.reading.Reading`: from raw files to the cache.
        infer: a :class:`lib.scoring.scoring.Scoring`: what a fold scores.
        ensemble: a :class:`lib.scoring.ending.Ending`: what comes of the folds' scores.
        ranking: a :class:`lib.ranking.kinds.Kind`: which numbers count.
        report: what a report has beside that: experiment -> content of the page, by name.
    """

    models: Mapping[str, str]
    cache: str
    preprocess: str
    infer: str
    ensemble: str
    ranking: str
    report: str = ""

    @property
    def plain(self) -> str:
        """The model that is taken if none is named; its results have the collection's name."""
        return next(iter(self.models))


SYSTEMS: dict[str, System] = {
    "layout": System(
        models={
            "tgraph-plus": "lib.models.tgraph_plus.settings:TGraphPlusSettings",
            "tgraph": "lib.models.tgraph.settings:TGraphSettings",
            "prices": "lib.models.prices.settings:PricesSettings",
            "gst": "lib.experiments.settings:LayoutSegments",
            "pooling": "lib.experiments.settings:LayoutPooling",
            "partitioning": "lib.experiments.settings:LayoutPartitioning",
            "gat": "lib.experiments.settings:LayoutAttention",
        },
        cache="lib.cache.format:LAYOUT",
        preprocess="lib.preprocess.graphs:READING",
        infer="lib.scoring.scores:SCORING",
        ensemble="lib.scoring.evaluation:ENDING",
        ranking="lib.ranking.kinds:LAYOUTS",
    ),
    "tile": System(
        models={"tile": "lib.models.tile.settings:TileSettings"},
        cache="lib.cache.format:TILE",
        preprocess="lib.preprocess.kernels:READING",
        infer="lib.scoring.scores:SCORING",
        ensemble="lib.scoring.evaluation:ENDING",
        ranking="lib.ranking.kinds:TILES",
    ),
    "programs": System(
        models={
            "cdmpp-plus": "lib.programs.settings:ProgramPlusSettings",
            "cdmpp": "lib.programs.settings:ProgramSettings",
        },
        cache="lib.programs.task:FORM",
        preprocess="lib.programs.preprocess:READING",
        infer="lib.programs.infer:SCORING",
        ensemble="lib.programs.ensemble:ENDING",
        ranking="lib.programs.metrics:KIND",
        report="lib.programs.report:content",
    ),
}
