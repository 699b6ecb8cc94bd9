"""Answers to Make about settings: folders, folds, and wrong values."""

from __future__ import annotations

import subprocess
import sys

from tests.stages import REPOSITORY

LAYOUT = "layout-xla-default"


def answer(*words: str) -> tuple[str, str]:
    """The answer of a Python without libraries, and its error."""
    line = [sys.executable, "-SEB", "-m", "lib.runs.make", "paths", "--collection", *words]
    done = subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True)
    return done.stdout, done.stderr


def test_no_library_is_needed():
    found = dict(word.split("=") for word in answer("tile-xla")[0].split())
    assert list(found) == ["results", "cache", "folds", "table", "scatter", "others"]
    assert (found["results"], found["cache"]) == ("tile-xla", "tile-xla/cache")


def test_other_collections_are_learned_from_where_somebody_says_so():
    assert answer(LAYOUT)[0].endswith(" others=\n")
    names = ["layout-xla-random", "layout-nlp-random", "layout-nlp-default"]
    every = ":".join(f"{name}/cache" for name in names)
    assert answer(LAYOUT, "--also", "all")[0].endswith(f" others={every}\n")
    error = answer(LAYOUT, "--also", "tile-xla")[1]
    assert error.startswith("error: --also tile-xla: 'tile-xla' is none of none, all, ")
