"""make everything: what ran, how well, how long; and that a failure hides nothing."""

from __future__ import annotations

import pytest

from lib.files.artifacts import write_json
from lib.scoring.everything import main
from lib.settings import COLLECTIONS
from tests.commands import call
from tests.stages import run_make
from tests.synthetic import write_collection

# Writes a collection's metrics, or fails for one of them. Arguments: make's.
STAND_IN = """#!/bin/sh
for word in "$@"; do case $word in COLLECTION=*) c=${word#COLLECTION=};; esac; done
echo "$@ FOLDS=$FOLDS ARGS=$ARGS" >> %(folder)s/calls
[ $c = layout-xla-random ] && exit 2
mkdir -p %(folder)s/outputs/$c
echo '{"validation": {"mean": {"tau": 0.25}}, "test": {}}' > %(folder)s/outputs/$c/metrics.json
"""


@pytest.fixture
def flags(tmp_path):
    make = tmp_path / "make"
    make.write_text(STAND_IN % {"folder": tmp_path})
    make.chmod(0o755)
    return ["--make", f"{make} JOBS=1", "--outputs", tmp_path / "outputs", "--data", tmp_path / "d"]


def lines(said) -> dict[str, list[str]]:
    return {line.split()[0]: line.split() for line in said.stdout.splitlines() if line.strip()}


def test_every_collection_with_data_runs_whatever_the_others_do(tmp_path, flags, monkeypatch):
    for name, value in (("FOLDS", "2"), ("ARGS", "--channels '32'"), ("COLLECTION", "x")):
        monkeypatch.setenv(name, value)
    for name in ("layout-xla-random", "layout-nlp-default"):
        write_collection(tmp_path / "d", name, train=1, valid=0, test=0)
    said = call(main, *flags)
    assert said.returncode == 1
    found = lines(said)
    assert found["layout-xla-random"][1] == "failed"
    assert found["layout-nlp-default"][1:5] == ["done", "-", "0.250", "-"]
    for name in set(COLLECTIONS) - {"layout-xla-random", "layout-nlp-default"}:
        assert found[name][1:3] == ["left", "out"]
    left_out = len(COLLECTIONS) - 2
    assert f"everything: 1 done, 1 failed, {left_out} left out, in 0:0" in said.stdout
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == [
        f"JOBS=1 all COLLECTION={name} FOLDS=2 ARGS=--channels '32'"
        for name in ("layout-xla-random", "layout-nlp-default")
    ]


def test_a_model_is_that_of_the_collections_that_have_it(tmp_path, flags):
    for name in ("layout-nlp-default", "tile-xla"):
        write_collection(tmp_path / "d", name, train=1, valid=0, test=0)
    write_json(tmp_path / "outputs" / "layout-nlp-default@tgraph" / "metrics.json", {"test": {}})
    assert call(main, *flags, "--model", "tgraph").returncode == 0
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [words.removesuffix(" FOLDS= ARGS=") for words in calls] == [
        "JOBS=1 all COLLECTION=layout-nlp-default",
        "JOBS=1 all COLLECTION=tile-xla MODEL=",
    ]
    assert call(main, *flags, "--model", "tgraf").returncode == 2


def test_all_well_is_exit_code_zero(tmp_path, flags):
    write_collection(tmp_path / "d", "layout-nlp-random", train=1, valid=0, test=0)
    assert call(main, *flags).returncode == 0


def test_no_data_at_all_is_one_line(flags):
    said = call(main, *flags)
    assert said.returncode == 2
    assert len(said.stderr.splitlines()) == 1


def test_the_makefile_hands_its_variables_down(tmp_path):
    """Through the environment, so that no quote is in the way."""
    stand_in = tmp_path / "make"
    stand_in.write_text('#!/bin/sh\necho "$* FOLDS=$FOLDS ARGS=$ARGS" >> "$0.calls"\nexit 1\n')
    stand_in.chmod(0o755)
    args = """--a 'b c' --d "it's" """
    done = run_make("everything", SUBMAKE=stand_in, JOBS=3, FOLDS=2, ARGS=args)
    assert done.returncode == 2, done.stderr
    calls = (tmp_path / "make.calls").read_text().splitlines()
    assert calls == [f"JOBS=3 all COLLECTION={name} FOLDS=2 ARGS={args}" for name in COLLECTIONS]
