"""Answers to Make about settings: folders, folds, and wrong values."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lib.files.errors import UserError
from lib.runs.make import settings_of
from lib.settings import COLLECTIONS, MODELS, settings_class, settings_for
from lib.settings.resolved import dataset_for
from tests.stages import REPOSITORY


def answer(*words: str) -> str:
    """The answer of a Python without libraries."""
    line = [sys.executable, "-SEB", "-m", "lib.runs.make", "paths", *words]
    done = subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_no_library_is_needed():
    found = dict(word.split("=") for word in answer("tile-xla", *[""] * 6).split())
    assert list(found) == ["results", "cache", "folds", "table", "scatter", "others"]
    assert (found["results"], found["cache"]) == ("tile-xla", "tile-xla/cache")


@pytest.mark.parametrize("hops", ["", "2", "all"])
@pytest.mark.parametrize("collection", ["layout-xla-default", "tile-xla", "programs-cpu"])
def test_folders_are_those_of_the_stages(collection, hops):
    kind, dataset = COLLECTIONS[collection], dataset_for(collection, None)
    if hops and kind != "layout":
        with pytest.raises(UserError, match=f"HOPS={hops}: the graphs of {collection} are not"):
            settings_of(collection, "", hops)
        return
    values = {"hops": hops if hops == "all" else int(hops)} if hops else {}
    models = [m for m, own in MODELS[kind].items() if dataset.hardware in own.hardware_of]
    for model in ("", *models):
        wanted = settings_for(
            collection, dataset, {**values, **({"model": model} if model else {})}
        )
        found = settings_of(collection, model, hops)
        assert wanted.model == model or wanted.model == settings_class(collection).model
        assert (found.results, found.cache) == (wanted.results, wanted.cache)
        assert found.table == wanted.table


LAYOUT = "layout-xla-default"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("x", "", "", "", ""), f"COLLECTION=x: must be one of {' '.join(COLLECTIONS)}"),
        (("", "", "", "", ""), f"COLLECTION=: must be one of {' '.join(COLLECTIONS)}"),
        ((LAYOUT, "", "0", "", ""), "HOPS=0: must be a whole number from 1, or all"),
        ((LAYOUT, "gst", "x", "", ""), "HOPS=x: must be a whole number from 1, or all"),
        ((LAYOUT, "gst", "", "", "all"), "ALSO=all: gst learns from its own collection alone"),
        (
            (LAYOUT, "", "", "", "tile-xla"),
            "ALSO=tile-xla: 'tile-xla' is none of none, all, layout-xla-random, "
            "layout-xla-default, layout-nlp-random, layout-nlp-default",
        ),
    ],
)
def test_a_value_that_is_no_good_is_one_line(words, line):
    assert answer(*words, "", "") == f"{line}\n"


def test_other_collections_are_learned_from_where_somebody_says_so():
    assert answer(LAYOUT, *[""] * 6).endswith("\nothers=\n")
    for model, hops in (("tgraph-plus", "1"), ("tgraph", "")):
        line = answer(LAYOUT, model, hops, "", "layout-nlp-default", "", "")
        assert line.endswith("\nothers=layout-nlp-default/cache\n")
    names = ["layout-xla-random", "layout-nlp-random", "layout-nlp-default"]
    every = ":".join(f"{name}/cache" for name in names)
    assert answer(LAYOUT, "", "", "", "all", "", "").endswith(f"\nothers={every}\n")


def test_a_model_of_another_kind_is_left_to_the_stages():
    assert settings_of("tile-xla", "gst").results == "tile-xla@gst"
