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
        cache: a :class:`lib.cache.format.CacheFormat`: how a graph lies in the cache.
        preprocess: a :class:`lib.preprocess.stage.Preprocess`: from raw files to the cache.
        infer: a :class:`lib.scoring.infer.Infer`: what a fold scores.
        ensemble: a :class:`lib.scoring.ensemble.Ensemble`: what comes of the folds' scores.
        ranking: a :class:`lib.ranking.measures.Measures`: which numbers count.
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
            "gst": "lib.models.segments.settings:LayoutSegments",
            "pooling": "lib.models.segments.settings:LayoutPooling",
            "partitioning": "lib.models.segments.settings:LayoutPartitioning",
            "gat": "lib.models.segments.settings:LayoutAttention",
        },
        cache="lib.cache.format:LAYOUT",
        preprocess="lib.preprocess.graphs:PREPROCESS",
        infer="lib.scoring.scores:INFER",
        ensemble="lib.scoring.evaluation:ENSEMBLE",
        ranking="lib.ranking.measures:LAYOUTS",
    ),
    "tile": System(
        models={"tile": "lib.models.tile.settings:TileSettings"},
        cache="lib.cache.format:TILE",
        preprocess="lib.preprocess.kernels:PREPROCESS",
        infer="lib.scoring.scores:INFER",
        ensemble="lib.scoring.evaluation:ENSEMBLE",
        ranking="lib.ranking.measures:TILES",
    ),
    "programs": System(
        models={
            "cdmpp-plus": "lib.programs.settings:ProgramPlusSettings",
            "cdmpp": "lib.programs.settings:ProgramSettings",
        },
        cache="lib.programs.task:FORMAT",
        preprocess="lib.programs.preprocess:PREPROCESS",
        infer="lib.programs.infer:INFER",
        ensemble="lib.programs.ensemble:ENSEMBLE",
        ranking="lib.programs.metrics:MEASURES",
        report="lib.programs.report:content",
    ),
}
