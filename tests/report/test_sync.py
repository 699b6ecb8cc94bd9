"""Uploading the runs that were kept: each by itself, and what is left is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lib.report import sync


@pytest.fixture
def outputs(tmp_path, monkeypatch):
    """A folder to put runs into. W&B uploads those of a hundred bytes, and ends well with all."""

    def upload(words, timeout, **options):
        (file,) = Path(words[-1]).glob("*.wandb")
        said = {"hang": "", "gone": "run x was previously created and deleted", "key": "401 no"}
        if "hang" in file.name:
            raise subprocess.TimeoutExpired(words, timeout)
        if file.stat().st_size >= 100:
            file.with_name(f"{file.name}.synced").touch()
        told = next((text for word, text in said.items() if word in file.name), "damaged \x1b[2J")
        return subprocess.CompletedProcess(words, 0, "", f"wandb: \n{told}\n")

    monkeypatch.setattr(sync.subprocess, "run", upload)
    monkeypatch.setattr(sync, "has_key", lambda: True)
    monkeypatch.setattr(sys, "argv", ["sync", str(tmp_path)])
    return tmp_path


def keep(outputs, time: int, name: str, size: int) -> Path:
    folder = outputs / "wandb" / f"offline-run-20260101_{time:06}-{name}"
    folder.mkdir(parents=True)
    (folder / f"run-{name}.wandb").write_bytes(bytes(size))
    return folder


def test_a_damaged_run_keeps_no_other_from_being_uploaded(outputs, capsys):
    damaged = keep(outputs, 1, "killed", 7)
    keep(outputs, 2, "one", 100), keep(outputs, 3, "two", 100)
    says = rf"not uploaded: {damaged}: W&B says: damaged \\x1b\[2J; delete what"
    with pytest.raises(sync.UserError, match=says):
        sync.main()
    assert capsys.readouterr().out == "wandb-sync: 2 of 3 runs uploaded\n"
    assert sync.waiting(outputs) == [damaged]


def test_of_the_pieces_of_a_run_the_one_with_all_of_it_is_uploaded(outputs, capsys):
    keep(outputs, 1, "fold", 7), keep(outputs, 2, "fold", 90)
    resumed = keep(outputs, 3, "fold", 100)
    keep(outputs, 4, "fold", 7)  # begun again, and killed at once
    assert sync.waiting(outputs) == [resumed]
    sync.main()
    assert capsys.readouterr().out == "wandb-sync: 1 of 1 runs uploaded\n"
    assert sync.waiting(outputs) == []


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("hang", "no answer within 300 s"),
        ("gone", r"its run was deleted on the server \(409\); wandb sync --id NEW"),
        ("key", r"the server refuses the key \(401\); wandb login"),
    ],
)
def test_a_run_that_is_not_uploaded_says_why_and_the_next_is(outputs, capsys, name, why):
    folder = keep(outputs, 1, name, 7)
    keep(outputs, 2, "one", 100)
    with pytest.raises(sync.UserError, match=f"not uploaded: {folder}: {why}"):
        sync.main()
    assert capsys.readouterr().out == "wandb-sync: 1 of 2 runs uploaded\n"
