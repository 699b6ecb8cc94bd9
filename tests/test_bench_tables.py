"""Tables and figures of the bench of ranking, from results that are made up."""

from __future__ import annotations

from itertools import product

import polars as pl
import pytest

from lib.settings import LAYOUT_COLLECTIONS
from tests.bench.quality import SCHEMA
from tests.bench.quality_tables import draw_curve

WHOLE, HALF = "additive, all four", "additive, all four, 50.0% of the programs"


def results(variants, collections=LAYOUT_COLLECTIONS) -> pl.DataFrame:
    lines = [
        (variant, collection, seed, f"{graph} of {collection}", 0.5 + 0.1 * seed, None)
        for variant, collection, seed, graph in product(variants, collections, range(2), range(5))
    ]
    return pl.DataFrame(lines, SCHEMA, orient="row")


def test_a_panel_for_each_variant_that_has_a_curve(tmp_path):
    known = LAYOUT_COLLECTIONS[:3]
    draw_curve(results([WHOLE, HALF, "context", "moved bytes, no learning"], known), tmp_path / "a")
    drawn = (tmp_path / "a").read_text()
    titles = [f"<!-- {name} -->" in drawn for name in (WHOLE, "context", *LAYOUT_COLLECTIONS)]
    assert titles == [True, False, True, True, True, False]
    draw_curve(results([HALF, WHOLE], known), tmp_path / "b")
    assert (tmp_path / "b").read_text().count("training programs") == 1


def test_no_curve_without_two_shares(tmp_path):
    with pytest.raises(ValueError, match="two shares"):
        draw_curve(results([WHOLE, "context"]), tmp_path / "curve.svg")
    assert not list(tmp_path.iterdir())
