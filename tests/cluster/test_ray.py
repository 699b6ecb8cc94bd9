"""Training on a Ray cluster of two nodes, one of which is lost: the bytes of one machine."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import killing
from tests.builders import COLLECTION
from tests.cluster import standing
from tests.cluster.standing import SECONDS
from tests.interpreter import python
from tests.killing import assert_same_training
from tests.stages import REPOSITORY, make_command, make_without_setup
from tests.stages import environment as clean
from tests.synthetic import write_collection

EPOCHS = 4
# The environment of the stages: Python starts at once, and says who trains.
TRAINING = """#!/bin/sh
if [ "$1" = 02_train.py ]; then
    echo $$ >>{folder}/trained
    set -- -m {module} {folder}/mark "$@"
fi
exec {python} "$@"
"""


@contextmanager
def two_nodes(environment: Path) -> Iterator[tuple[subprocess.Popen, dict[str, Any]]]:
    """The cluster's process, and what it says of itself; skips where Ray does not start.

    Args:
        environment: of ``lib/cluster``.
    """
    with subprocess.Popen(
        [environment / "bin" / "python", Path(__file__).with_name("two_nodes.py")],
        env=clean() | {"RAY_USAGE_STATS_ENABLED": "0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as cluster:
        try:
            about = json.loads(cluster.stdout.readline())
            if "error" in about:
                pytest.skip(f"Ray does not start on this machine: {about['error']}")
            yield cluster, about
        finally:
            cluster.stdin.close()


def parent(process: int) -> int:
    """Who started a process; 1 if that one is gone."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def wait_for(condition: Callable[[], Any], make: subprocess.Popen | None = None) -> Any:
    """What a condition gives, as soon as that is something; make, if given, runs meanwhile."""
    started = time.monotonic()
    while not (found := condition()):
        assert make is None or make.poll() is None, make.stdout.read()
        assert time.monotonic() - started < SECONDS
        time.sleep(0.02)
    return found


def lose_node(
    folder: Path, make: subprocess.Popen, cluster: subprocess.Popen, raylets: list[int]
) -> int:
    """End the node of the training that stands still, whose process it gives."""
    wait_for((folder / "mark").exists, make)
    process = int((folder / "trained").read_text())
    print(raylets.index(parent(parent(process))), file=cluster.stdin, flush=True)
    return process


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Path:
    """What one machine makes; ``data`` beside it."""
    folder = tmp_path_factory.mktemp("alone")
    write_collection(folder / "data", COLLECTION, train=3, valid=2, test=0)
    flags = ("--data", folder / "data", "--outputs", folder / "outputs")
    assert killing.run("01_preprocess.py", *flags)
    assert killing.run("02_train.py", *flags, "--epochs", EPOCHS, "--fold", 0, "--pretraining", 0)
    return folder / "outputs"


def test_a_lost_node_changes_no_byte(alone, environment, tmp_path):
    outputs, venv = tmp_path / "outputs", tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    words = {"folder": tmp_path, "module": standing.__name__, "python": python()}
    (venv / "bin" / "python").write_text(TRAINING.format(**words))
    (venv / "bin" / "python").chmod(0o755)
    (tmp_path / "venv-cluster").symlink_to(environment)
    given = {"DATA": alone.parent / "data", "OUTPUTS": outputs, "FOLDS": 1, "EPOCHS": EPOCHS}
    given |= {"EXECUTOR": "ray", "ARGS": "--save-seconds 0 --pretraining 0"}
    # All that make starts is to leave the environment alone, as make itself is.
    given["SUBMAKE"] = " ".join(make_without_setup(venv))
    with two_nodes(environment) as (cluster, about):
        line = make_command("train", **given, venv=venv, RAY_ADDRESS=about["address"])
        with subprocess.Popen(
            line, cwd=REPOSITORY, env=clean(), stdout=subprocess.PIPE, text=True
        ) as make:
            process = lose_node(tmp_path, make, cluster, about["raylets"])
            said, _ = make.communicate(timeout=2 * SECONDS)
            # Its worker may miss the node later than make does, which does not wait for it.
            wait_for(lambda: not Path(f"/proc/{process}").exists())
    assert make.returncode == 0, said
    lines = [line.split() for line in said.splitlines() if "/fold_0/metrics.json" in line]
    assert [line[0] for line in lines] == ["running", "lost", "running", "done"], said
    assert "validation tau" in " ".join(lines[-1])
    for path in (alone / COLLECTION / "cache").iterdir():
        other = outputs / COLLECTION / "cache" / path.name
        assert path.read_bytes() == other.read_bytes(), path.name
    own, other = (folder / COLLECTION / "fold_0" for folder in (alone, outputs))
    assert_same_training(own, other)
    assert (own / "metrics.json").read_bytes() == (other / "metrics.json").read_bytes()
    record = json.loads((outputs / COLLECTION / "stages" / "train_0.json").read_text())
    assert record["earlier_seconds"] > 0, "it was not resumed"
