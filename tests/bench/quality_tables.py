"""What :mod:`tests.bench.quality` measured, as tables and a figure."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from lib.files.artifacts import atomic_file
from lib.tpugraphs.dataset import LAYOUT_COLLECTIONS
from tests.bench.variants import SHARES, VARIANTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Point = tuple[float, float, float]  # programs learned from, tau, its standard error


def draw_curve(results: pl.DataFrame, path: Path) -> None:
    """Out-of-fold tau against the number of programs learned from: a panel a variant, a line a
    collection, of all that were measured with two shares of the programs or more.

    Raises:
        ValueError: there are none.
    """
    import matplotlib
    import matplotlib.pyplot as plt

    curves = {name: _curves(results, name) for name in VARIANTS}
    curves = {name: own for name, own in curves.items() if own}
    if not curves:
        raise ValueError("no variant was measured with two shares of the programs")
    matplotlib.rcParams["svg.hashsalt"] = "tgraph"  # the same numbers, the same bytes
    size = (2 + 3 * len(curves), 4)
    figure, panels = plt.subplots(
        1, len(curves), figsize=size, sharey=True, layout="constrained", squeeze=False
    )
    for (variant, own), axes in zip(curves.items(), panels[0], strict=True):
        _draw_panel(axes, own, results)
        axes.set(title=variant, xlabel="training programs")
    panels[0, 0].set_ylabel("out-of-fold tau (dotted: no learning)")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, loc="outside right center")
    with atomic_file(path) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None})
    plt.close(figure)


def _draw_panel(axes: Axes, curves: dict[str, list[Point]], results: pl.DataFrame) -> None:
    """A line a collection, and a dotted one at what the arithmetic reaches."""
    from matplotlib.ticker import FixedLocator, NullLocator

    for collection, points in curves.items():
        colour = f"C{LAYOUT_COLLECTIONS.index(collection)}"
        counts, taus, errors = zip(*points, strict=True)
        told = {"marker": "o", "capsize": 3, "color": colour, "label": collection}
        axes.errorbar(counts, taus, errors, **told)
        own = results.filter(collection=collection, variant="moved bytes, no learning")
        if len(own):
            axes.axhline(own["tau"].mean(), color=colour, linestyle=":", linewidth=1)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.xaxis.set_major_locator(FixedLocator(counts))
    axes.xaxis.set_minor_locator(NullLocator())


def _curves(results: pl.DataFrame, variant: str) -> dict[str, list[Point]]:
    """The curve of each collection that has two points at least."""
    found = {one: _curve(results, variant, one) for one in LAYOUT_COLLECTIONS}
    return {one: points for one, points in found.items() if len(points) > 1}


def _curve(results: pl.DataFrame, variant: str, collection: str) -> list[Point]:
    """(programs learned from, mean tau, its standard error over seeds) of one collection."""
    whole = results.filter(variant=variant)
    union = VARIANTS[variant].union(collection)
    learned = whole.filter(pl.col("collection").is_in(union))["graph"].n_unique() * 4 / 5  # folds
    points = []
    for share in (*SHARES, 1.0):
        name = variant if share == 1 else f"{variant}, {share:.1%} of the programs"
        own = results.filter(variant=name, collection=collection)
        means = own.group_by("seed").agg(pl.col("tau").mean())["tau"]
        if len(means) > 1:
            points.append((share * learned, means.mean(), means.std() / len(means) ** 0.5))
    return points


def tables(results: pl.DataFrame, data: Path) -> str:
    """The table of all programs; and one of each processor and way of timing, if there are several.

    Networks learn from all programs; those tables are of what each processor has measured so.
    """
    programs = pl.read_parquet(data / "programs.parquet").filter(pl.col("split") != "test")
    found = [table(results, programs)]
    measured = [name for name in ("processor", "timed_by") if name in programs.columns]
    own = programs.partition_by(measured, maintain_order=True, as_dict=True)
    for how, part in own.items() if len(own) > 1 else []:
        those = results.join(part, on=["collection", "graph"], how="semi")
        found.append(f"{', timed by '.join(how)}:\n\n{table(those, part)}")
    return "\n\n".join(found)


def table(results: pl.DataFrame, programs: pl.DataFrame) -> str:
    """A line a variant, a column a collection: mean and standard error over seeds.

    Args:
        results: a line a graph of a variant, collection and seed.
        programs: rows of ``programs.parquet``, whose ceilings are told.
    """
    lines = ["| out-of-fold tau | " + " | ".join(LAYOUT_COLLECTIONS) + " | seeds | CPU min |"]
    lines.append("|---" + "|--:" * (len(LAYOUT_COLLECTIONS) + 2) + "|")
    lines.append("| ceiling, from the rounds | " + " | ".join(ceilings(programs)) + " | | |")
    for variant in VARIANTS:
        own = results.filter(variant=variant).group_by("collection", "seed")
        means = own.agg(pl.col("tau").mean(), pl.col("seconds").first())
        if len(means):
            cells = [_cell(means.filter(collection=one)["tau"]) for one in LAYOUT_COLLECTIONS]
            seeds, seconds = means["seed"].n_unique(), means["seconds"].mean()
            minutes = "" if seconds is None else f"{seconds / 60:.1f}"
            lines.append(f"| {variant} | {' | '.join(cells)} | {seeds} | {minutes} |")
    return "\n".join(lines)


def differences(
    results: pl.DataFrame, other: str, variants: Iterable[str] = tuple(VARIANTS)
) -> str:
    """A line a variant: mean difference from another's tau, by collection and over all.

    Paired by graph; a graph's difference is the mean over the seeds that both variants have.
    Errors are standard errors over graphs.
    """
    keys = ["collection", "seed", "graph"]
    pairs = results.join(results.filter(variant=other), on=keys, suffix="_other")
    each = pairs.group_by("variant", "collection", "graph").agg(
        (pl.col("tau") - pl.col("tau_other")).mean().alias("difference")
    )
    lines = [f"| against {other} | " + " | ".join([*LAYOUT_COLLECTIONS, "all"]) + " |"]
    lines.append("|---" + "|--:" * (len(LAYOUT_COLLECTIONS) + 1) + "|")
    for variant in (one for one in variants if one != other and one in each["variant"]):
        own = each.filter(variant=variant)
        parts = [*(own.filter(collection=one) for one in LAYOUT_COLLECTIONS), own]
        cells = [_difference(part["difference"]) for part in parts]
        lines.append(f"| {variant} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _difference(values: pl.Series) -> str:
    if len(values) < 2:
        return ""
    return f"{values.mean():+.3f} ± {values.std() / len(values) ** 0.5:.3f}"


def _cell(taus: pl.Series) -> str:
    if not len(taus):
        return ""
    error = f" ± {taus.std() / len(taus) ** 0.5:.3f}" if len(taus) > 1 else ""
    return f"{taus.mean():.3f}{error}"


def ceilings(programs: pl.DataFrame) -> list[str]:
    """Mean ceiling of the programs of each collection; nothing where there are none."""
    means = [programs.filter(collection=one)["ceiling"].mean() for one in LAYOUT_COLLECTIONS]
    return ["" if mean is None else f"{mean:.3f}" for mean in means]
