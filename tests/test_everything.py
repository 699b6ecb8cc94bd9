"""make everything: what ran, how well, how long; and that a failure hides nothing."""

from __future__ import annotations

import pytest

from lib.everything import main
from lib.settings import KINDS

from .commands import call
from .stages import make
from .synthetic import write_collection

# Writes a collection's metrics, or fails for one of them. Arguments: make's.
STAND_IN = """#!/bin/sh
for word in "$@"; do case $word in COLLECTION=*) c=${word#COLLECTION=};; esac; done
echo "$@" >> %(folder)s/calls
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


def test_every_collection_with_data_runs_whatever_the_others_do(tmp_path, flags):
    for name in ("layout-xla-random", "layout-nlp-default"):
        write_collection(tmp_path / "d", name, train=1, valid=0, test=0)
    said = call(main, *flags, "FOLDS=2", "ARGS=--channels 32", "COLLECTION=x")
    assert said.returncode == 1
    found = lines(said)
    assert found["layout-xla-random"][1] == "failed"
    assert found["layout-nlp-default"][1:5] == ["done", "-", "0.250", "-"]
    for name in set(KINDS) - {"layout-xla-random", "layout-nlp-default"}:
        assert found[name][1:3] == ["left", "out"]
    left_out = len(KINDS) - 2
    assert f"everything: 1 done, 1 failed, {left_out} left out, in 0:0" in said.stdout
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == [
        f"JOBS=1 FOLDS=2 ARGS=--channels 32 all COLLECTION={name}"
        for name in ("layout-xla-random", "layout-nlp-default")
    ]


def test_all_well_is_exit_code_zero(tmp_path, flags):
    write_collection(tmp_path / "d", "layout-nlp-random", train=1, valid=0, test=0)
    assert call(main, *flags).returncode == 0


def test_no_data_at_all_is_one_line(flags):
    said = call(main, *flags)
    assert said.returncode == 2
    assert len(said.stderr.splitlines()) == 1


def test_the_makefile_hands_its_variables_down():
    line = make("-n", "everything", FOLDS=2, ARGS="--channels 32").replace("\\\n", "")
    assert "-m lib.everything --make 'make JOBS=" in line
    assert "FOLDS=2" in line
    assert "ARGS=--channels\\ 32" in line
