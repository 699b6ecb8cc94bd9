"""What a command line means is found out once a run."""

from __future__ import annotations

import subprocess

import pytest

from lib.files.errors import UserError
from lib.runs.make import all_flags, run_of
from tests.interpreter import python
from tests.stages import LONGEST, REPOSITORY, SCRIPTS, TINY_FLAGS, command, environment
from tests.synthetic import write_collection


def test_a_stage_reads_its_settings_and_what_the_data_say_once(tmp_path):
    write_collection(tmp_path, "layout-xla-default", train=3, valid=1, test=1)
    settings = tmp_path / "mine.toml"
    settings.write_text("epochs = 1\n")
    line = ("--data", tmp_path, "--outputs", tmp_path / "outputs", "--settings", settings)
    for script, own in zip(
        SCRIPTS, ([], ["--fold", 0], ["--fold", 0], ["--folds", 1]), strict=True
    ):
        stage = command(script, *line, *TINY_FLAGS, *own)[1:]
        done = subprocess.run(
            [python(), "-m", "tests.reads", "dataset.json,mine.toml", *stage],
            cwd=REPOSITORY,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=LONGEST,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == "opened: dataset.json=1 mine.toml=1", script


def test_more_folds_than_there_are_are_refused_before_anything_starts():
    line = ["--collection", "layout-xla-default", "--folds", "99"]
    with pytest.raises(UserError, match=r"^--folds 99 \(FOLDS of make\): must be from 1 to"):
        run_of(all_flags("x").parse_args(line))
