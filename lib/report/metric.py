"""The numbers that a kind of collection is judged by, described: nothing here computes one."""

from __future__ import annotations

from dataclasses import dataclass

GLUE = "\N{NO-BREAK SPACE}"  # between a number and what belongs to it


@dataclass(frozen=True)
class Metric:
    """One number of a graph, and how to speak of it.

    Attributes:
        key: its name in ``metrics.json`` and, after ``validation_``, in a history.
        name: what people call it.
        higher_is_better: which way is up.
        decimals: digits after the point; of a percentage, if ``percent``.
        percent: whether it is a share, shown with a percent sign.
        least, most: the range of an axis that shows all of it; ``None`` where there is no bound.
        explained: one sentence that says what it measures.
    """

    key: str
    name: str
    higher_is_better: bool = True
    decimals: int = 3
    percent: bool = False
    least: float | None = None
    most: float | None = None
    explained: str = ""

    def text(self, value: float | None, signed: bool = False) -> str:
        """A value as people read it; a dash for none."""
        if value is None or value != value:
            return "–"
        scaled = value * 100 if self.percent else value
        sign, unit = "+" if signed else "", f"{GLUE}%" if self.percent else ""
        shown = f"{scaled:{sign}.{self.decimals}f}{unit}"
        return shown.replace("-", "−")


@dataclass(frozen=True)
class Scheme:
    """Everything that one kind's report shows.

    Attributes:
        main: the number that counts.
        baseline, ceiling: keys of the same number for the baseline, and for a perfect predictor.
        baseline_name, ceiling_name: what they are called.
        baseline_explained, ceiling_explained: a sentence each.
        others: further numbers, best shown in a table.
    """

    main: Metric
    baseline: str
    ceiling: str
    baseline_name: str
    ceiling_name: str
    baseline_explained: str
    ceiling_explained: str
    others: tuple[Metric, ...]

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """All numbers, the one that counts first."""
        return (self.main, *self.others)


def _slowdown(k: int) -> Metric:
    of = "the predicted fastest" if k == 1 else f"the best of the {k} predicted fastest"
    says = f"how much slower {of} is than the fastest of all; 0 is perfect"
    return Metric(f"top_{k}_slowdown", f"top-{k} slowdown", False, 1, True, 0.0, None, says)


LAYOUT = Scheme(
    main=Metric(
        "tau",
        "Kendall's τ",
        least=-1.0,
        most=1.0,
        explained="agreement of two orders: 1 the same, 0 chance, −1 reversed",
    ),
    baseline="baseline_tau",
    ceiling="ceiling",
    baseline_name="baseline",
    ceiling_name="ceiling",
    baseline_explained=(
        "bytes of constrained tensors whose minor-most dimension moved: arithmetic, no learning"
    ),
    ceiling_explained=(
        "agreement between two halves of the measuring rounds: how far the labels agree with "
        "themselves"
    ),
    others=(
        Metric(
            "ordered_pair_accuracy",
            "ordered pairs",
            decimals=1,
            percent=True,
            least=0.0,
            most=1.0,
            explained="share of pairs of configurations put in the right order; 50 % is chance",
        ),
        *(_slowdown(k) for k in (1, 5, 10)),
    ),
)

TILE = Scheme(
    main=Metric(
        "tile_score",
        "M_tile",
        most=1.0,
        explained="2 − (best of the five predicted fastest) / (fastest of all): 1 is perfect",
    ),
    baseline="baseline_tile_score",
    ceiling="ceiling",
    baseline_name="baseline",
    ceiling_name="ceiling",
    baseline_explained="the largest output tile first: arithmetic, no learning",
    ceiling_explained="how far the labels agree with themselves",
    others=(
        Metric(
            "random_tile_score",
            "M_tile of a random order",
            most=1.0,
            explained="what five configurations drawn at random get on average",
        ),
        *(_slowdown(k) for k in (1, 5, 10)),
        Metric("tau", "Kendall's τ", least=-1.0, most=1.0),
    ),
)

SCHEMES = {"layout": LAYOUT, "tile": TILE}


def scheme_of(collection: str) -> Scheme:
    """The numbers of a collection, by the first word of its name; layout's for an unknown one."""
    return SCHEMES.get(collection.split("-")[0], LAYOUT)
