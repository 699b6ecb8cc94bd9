"""What Make asks of settings and imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lib.files.errors import UserError
from lib.runs.make import settings_of
from lib.settings import COLLECTIONS, MODELS, settings_class, settings_for
from lib.settings.resolved import dataset_for
from tests.stages import REPOSITORY


def planned(*words: str) -> str:
    """What Make is told, by a Python without libraries."""
    line = [sys.executable, "-SEB", "-m", "lib.runs.make", *words]
    done = subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_no_library_is_needed():
    told = dict(word.split("=") for word in planned("tile-xla", *[""] * 6).split())
    assert list(told) == [
        "results",
        "cache",
        "folds",
        "table",
        "scatter",
        "others",
    ]
    assert (told["results"], told["cache"]) == ("tile-xla", "tile-xla/cache")


@pytest.mark.parametrize("hops", ["", "1", "2", "all"])
@pytest.mark.parametrize("collection", COLLECTIONS)
def test_folders_are_those_of_the_stages(collection, hops):
    for model in MODELS[COLLECTIONS[collection]]:
        dataset = dataset_for(collection, None)
        chosen = settings_class(collection).model
        for named in (model, *([""] if model == chosen else [])):
            given = {"model": named} if named else {}
            if hops and COLLECTIONS[collection] == "layout":
                given["hops"] = hops if hops == "all" else int(hops)
            elif hops:
                with pytest.raises(
                    UserError, match=f"HOPS={hops}: the graphs of {collection} are not"
                ):
                    settings_of(collection, named, hops)
                continue
            wanted = settings_for(collection, dataset, given)
            found = settings_of(collection, named, hops)
            assert (found.results, found.cache) == (wanted.results, wanted.cache)
            assert found.table == wanted.table


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("x", "", "", "", "", "", ""), f"COLLECTION=x: must be one of {' '.join(COLLECTIONS)}"),
        (("", "", "", "", "", "", ""), f"COLLECTION=: must be one of {' '.join(COLLECTIONS)}"),
        (
            ("layout-xla-default", "", "0", "", "", "", ""),
            "HOPS=0: must be a whole number from 1, or all",
        ),
        (
            ("layout-xla-default", "gst", "x", "", "", "", ""),
            "HOPS=x: must be a whole number from 1, or all",
        ),
        (
            ("layout-xla-default", "gst", "", "", "all", "", ""),
            "ALSO=all: gst learns from its own collection alone",
        ),
        (
            ("layout-xla-default", "", "", "", "tile-xla", "", ""),
            "ALSO=tile-xla: 'tile-xla' is none of none, all, layout-xla-random, "
            "layout-xla-default, layout-nlp-random, layout-nlp-default",
        ),
    ],
)
def test_a_value_that_is_no_good_is_one_line(words, line):
    assert planned(*words) == f"{line}\n"


def test_others_that_are_learned_from_lie_beside_it():
    told = dict(w.split("=") for w in planned("layout-xla-default", *[""] * 6).split())
    names = ["layout-xla-random", "layout-nlp-random", "layout-nlp-default"]
    assert told["others"].split(":") == [f"{name}/cache" for name in names]
    for model, hops in (("tgraph-plus", "1"), ("tgraph", "")):
        line = planned("layout-xla-default", model, hops, "", "layout-nlp-default", "", "")
        assert "\nothers=layout-nlp-default/cache\n" in line
    assert "others=\n" in planned("layout-xla-default", "", "", "", "none", "", "")
    assert "others=\n" in planned("layout-xla-default", "tgraph", "", "", "", "", "")


def test_a_model_of_another_kind_is_left_to_the_stages():
    assert settings_of("tile-xla", "gst").results == "tile-xla@gst"
