"""Training on a Ray cluster of two nodes, one of which is lost: the bytes of one machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lib.files import checkpoint
from lib.files.errors import DataError
from tests.builders import COLLECTION
from tests.killing import assert_same_training, stages
from tests.stages import REPOSITORY, make_command
from tests.stages import environment as clean
from tests.synthetic import write_collection

FOLDS, EPOCHS = 2, 40
SECONDS = 240  # that anything may take


@contextmanager
def two_nodes(environment: Path) -> Iterator[tuple[subprocess.Popen, dict[str, Any]]]:
    """The cluster's process, and what it says of itself; skips where Ray does not start."""
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


def training(outputs: Path, fold: int) -> int | None:
    """The process that trains a fold, once it has saved an epoch."""
    state = outputs / COLLECTION / f"fold_{fold}" / "state.safetensors"
    try:
        epochs = checkpoint.read_about(state)["progress"]["epochs"]
    except (DataError, OSError):
        return None
    assert epochs < EPOCHS // 2, "training was over before its node could go"
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        given = {"--outputs": str(outputs), "--fold": str(fold)}.items()
        if words[1:2] == ["02_train.py"] and given <= set(pairwise(words)):
            return int(path.parent.name)
    return None


def parent(process: int) -> int:
    """Who started a process; 1 if that one is gone."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def wait_for(condition: Callable[[], Any]) -> Any:
    """What a condition gives, as soon as that is something."""
    started = time.monotonic()
    while not (found := condition()):
        assert time.monotonic() - started < SECONDS
        time.sleep(0.02)
    return found


def lose_node(fold: int, outputs: Path, cluster: subprocess.Popen, raylets: list[int]) -> None:
    """End the node that trains a fold, in the middle, as if its machine had gone.

    The training stands still meanwhile, so that it is not over before the node is.
    """
    process = wait_for(lambda: training(outputs, fold))
    os.kill(process, signal.SIGSTOP)
    worker = parent(process)
    print(raylets.index(parent(worker)), file=cluster.stdin, flush=True)
    wait_for(lambda: parent(process) != worker)
    os.kill(process, signal.SIGCONT)
    wait_for(lambda: not Path(f"/proc/{process}").exists())


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Path:
    """What one machine makes; ``data`` beside it."""
    folder = tmp_path_factory.mktemp("alone")
    write_collection(folder / "data", COLLECTION, train=3, valid=2, test=0)
    flags = ("--data", folder / "data", "--outputs", folder / "outputs")
    with stages() as server:
        assert server.run("01_preprocess.py", *flags)
        for fold in range(FOLDS):
            assert server.run("02_train.py", *flags, "--epochs", EPOCHS, "--fold", fold)
    return folder / "outputs"


def test_a_lost_node_changes_no_byte(alone, environment, tmp_path):
    given = {"DATA": alone.parent / "data", "OUTPUTS": tmp_path, "FOLDS": FOLDS, "EPOCHS": EPOCHS}
    given |= {"EXECUTOR": "ray", "ARGS": "--save-seconds 0"}
    # All that make starts is to leave the environment alone, as make itself is.
    given["SUBMAKE"] = " ".join(make_command()[:5])
    with two_nodes(environment) as (cluster, about):
        line = make_command("train", **given, RAY_ADDRESS=about["address"])
        with subprocess.Popen(
            line, cwd=REPOSITORY, env=clean(), stdout=subprocess.PIPE, text=True
        ) as make:
            lose_node(0, tmp_path, cluster, about["raylets"])
            said, _ = make.communicate(timeout=2 * SECONDS)
    assert make.returncode == 0, said
    lines = [line.split() for line in said.splitlines() if "/fold_0/metrics.json" in line]
    assert [line[0] for line in lines] == ["running", "lost", "running", "done"], said
    assert "validation tau" in " ".join(lines[-1])
    for fold in range(FOLDS):
        own, other = (folder / COLLECTION / f"fold_{fold}" for folder in (alone, tmp_path))
        assert_same_training(own, other)
        assert (own / "metrics.json").read_bytes() == (other / "metrics.json").read_bytes()
    record = json.loads((tmp_path / COLLECTION / "stages" / "train_0.json").read_text())
    assert record["earlier_seconds"] > 0, "it was not resumed"
