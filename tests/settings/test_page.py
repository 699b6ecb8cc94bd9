"""The page of settings is made of the code, and is today's."""

from __future__ import annotations

import dataclasses

from lib.settings import MODELS
from lib.settings.search import among, between
from tests.settings.page import PAGE, cell, label, page, rows, searched

EVERYWHERE = dict.fromkeys([("a", "x"), ("a", "y"), ("b", "x"), ("b", "y"), ("c", "z")], 0)


def test_the_page_is_todays():
    assert PAGE.read_text() == page(), "`.venv/bin/python -m tests.settings.page` writes it anew"


def test_every_setting_of_every_model_is_on_it():
    shown = {(model, row.one.name) for row in rows() for model, _ in row.values["small"]}
    declared = {
        (model, one.name)
        for models in MODELS.values()
        for model, chosen in models.items()
        for one in dataclasses.fields(chosen)
        if "help" in one.metadata
    }
    assert {one for one in declared - shown if one[1] not in ("model", "experiment")} == set()


def test_where_a_value_differs():
    assert cell(dict(EVERYWHERE)) == "0"
    assert cell({**EVERYWHERE, ("c", "z"): 1.0}) == "0; 1: `z`"
    assert cell({**EVERYWHERE, ("a", "x"): 2, ("a", "y"): 2}) == "0; 2: `a`"
    assert label([("a", "x"), ("b", "x"), ("c", "z")], EVERYWHERE) == "`x`, `z`"
    assert label([("a", "x"), ("c", "z")], EVERYWHERE) == "`z`, `a` of `x`"


def test_what_a_search_tries():
    assert searched(None) == ""
    assert searched(among("mean", "sum")) == "all"
    assert searched(among(1, 0.5)) == "1, 0.5"
    assert searched(between(1e-4, 1, logarithmic=True)) == "0.0001 to 1 (log)"
