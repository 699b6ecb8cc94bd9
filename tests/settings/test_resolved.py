"""What a command line means is found out once a run."""

from __future__ import annotations

import subprocess

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
