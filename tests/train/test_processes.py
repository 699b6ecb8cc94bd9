"""Processes that train together: the losses of one that takes as many samples a step."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from lib.experiments.embeddings import EmbeddingTable
from lib.files import tensor_file
from lib.train.processes import Processes
from lib.train.schedule import peak_rate
from tests.interpreter import python
from tests.stages import REPOSITORY, environment
from tests.train import together
from tests.train.together import EPOCHS, cases, training

COUNT = 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """What two processes have made of every case."""
    folder = tmp_path_factory.mktemp("together")
    together.write(folder)
    torchrun = [python(), "-m", "lib.train.torchrun", str(COUNT)]
    script = ["--no-python", python(), "-m", together.__name__, folder]
    given = environment() | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*torchrun, *script], cwd=REPOSITORY, env=given, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def left(folder: Path, name: str, how: str, rank: int):
    return tensor_file.load(folder / f"{name}-{how}-{rank}.safetensors")


@pytest.mark.parametrize("name", cases())
def test_losses_of_one_process_that_takes_two_samples_a_step(folder, tmp_path, name):
    made = training(folder, name)
    rows = list(made.run(tmp_path / "state.safetensors", "a"))
    weights, about = left(folder, name, "whole", 0)
    np.testing.assert_allclose(about["losses"], [row["loss"] for row in rows], rtol=1e-4)
    assert len(about["losses"]) == EPOCHS
    for key, tensor in made.network.state_dict().items():
        assert torch.allclose(tensor.double(), weights[key].double(), rtol=1e-3, atol=1e-4), key


@pytest.mark.parametrize("name", cases())
def test_the_same_bits_in_every_process_and_when_resumed(folder, name):
    weights, about = left(folder, name, "whole", 0)
    others = [left(folder, name, how, rank) for how, rank in (("resumed", 0), ("resumed", 1))]
    others.append(left(folder, name, "whole", 1))
    assert [other["resumed_at"] for _, other in others] == [together.CUT, together.CUT, 0]
    learned = {key for key, _ in training(folder, name).network.named_parameters()}
    for other, said in others:
        assert said["losses"] == about["losses"]
        assert all(torch.equal(weights[key], other[key]) for key in learned)


@pytest.mark.parametrize(("samples", "count"), [(1, 2), (2, 2), (5, 2), (7, 3), (3, 4)])
def test_each_sample_is_one_process_s_and_all_count_alike(samples, count):
    places = [Processes(rank, count).places(samples) for rank in range(count)]
    assert sorted(p for own in places for p in own if p < samples) == list(range(samples))
    assert len({len(own) for own in places}) == 1


def test_the_learning_rate_grows_with_the_root_of_the_samples():
    assert [peak_rate(1e-3, count) for count in (1, 4)] == [1e-3, 2e-3]


def test_processes_on_several_machines_share_no_table(folder, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    made = training(folder, "gst")
    with pytest.raises(Exception, match="--no-history"):
        made.data.beside.share(Processes(0, 2))


def test_a_table_of_several_processes_goes_back_to_what_was_saved(tmp_path):
    """An entry that one has overwritten, and then the other, is what it was when that was saved."""
    tables = [EmbeddingTable({"a": (3, 1)}, 2, 0) for _ in range(COUNT)]
    for rank, table in enumerate(tables):
        table.processes = _Silent(rank, COUNT)
        assert table.begin(tmp_path / "state", "x", 0)
    rows = np.arange(3)

    def write(rank: int, value: float) -> None:
        for table in tables:
            table.next_step()
        tables[rank].write("a", rows, 0, np.full((3, 2), value, np.float32))

    write(0, 1.0)
    for table in tables:
        table.saved(1)
    write(1, 2.0)
    write(0, 3.0)
    again = [EmbeddingTable({"a": (3, 1)}, 2, 0) for _ in range(COUNT)]
    for rank, table in enumerate(again):
        table.processes = _Silent(rank, COUNT)
        assert table.begin(tmp_path / "state", "x", 1)
    for table in again:
        assert (table.read("a", rows)[1] == 1.0).all()
        assert table.step == 1


class _Silent(Processes):
    """Processes of which each is asked in turn, and that agree."""

    def broadcast(self, value: float) -> float:
        return value

    least = most = broadcast


def test_an_error_of_all_processes_is_told_once_and_others_as_well(tmp_path):
    """The others are there before one ends, for torchrun then ends them all, and says no more."""
    script = tmp_path / "stage.py"
    script.write_text(
        "import os, pathlib, sys, time\n"
        "from lib.files.errors import UserError, one_line_errors\n"
        "here, rank = pathlib.Path(__file__).parent, os.environ['RANK']\n"
        "def fail(error):\n"
        "    with one_line_errors():\n"
        "        raise error\n"
        "for error in (UserError('no such file'), UserError(f'rank {rank}')):\n"
        "    try:\n"
        "        fail(error)\n"
        "    except SystemExit:\n"
        "        pass\n"
        "(here / rank).touch()\n"
        "while len(list(here.glob('[0-2]'))) < 3:\n"
        "    time.sleep(0.01)\n"
        "sys.exit(0 if rank == '0' else 2)\n"
    )
    line = [python(), "-m", "lib.train.torchrun", "3", str(script)]
    done = subprocess.run(line, cwd=REPOSITORY, env=environment(), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    said = sorted(done.stderr.splitlines())
    assert said == ["error: no such file", *(f"error: rank {rank}" for rank in range(3))]
