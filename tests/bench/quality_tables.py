"""What :mod:`tests.bench.quality` measured, as tables."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from lib.tpugraphs.dataset import LAYOUT_COLLECTIONS
from tests.bench.variants import VARIANTS


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
