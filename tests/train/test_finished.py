"""Whether another run has trained a fold: the same settings, data, code and packages."""

from __future__ import annotations

import os

import pytest

from lib.files.artifacts import write_json
from lib.train.finished import is_trained

ABOUT = {"fold": 0, "data": "d", "identity": "i", "versions": {"torch": "2"}, "sizes": (1, 2)}


@pytest.fixture
def files(tmp_path):
    """The results of a fold that was trained from ``ABOUT`` long ago."""
    files = [tmp_path / name for name in ("model.safetensors", "metrics.json")]
    files[0].touch()
    write_json(files[1], {**ABOUT, "validation": {"tau": 0.5}, "best": {}, "last": {}})
    for file in files:
        os.utime(file, (0, 0))
    return files


def test_what_has_been_trained_gets_a_new_time(files):
    assert is_trained(files, ABOUT)
    assert all(file.stat().st_mtime > 0 for file in files)


@pytest.mark.parametrize("key", ABOUT)
def test_what_was_trained_otherwise_is_trained_again(files, key):
    assert not is_trained(files, {**ABOUT, key: "another"})
    assert not is_trained(files, {**ABOUT, "new": 1})
    assert files[1].stat().st_mtime == 0


@pytest.mark.parametrize("index", [0, 1])
def test_what_is_missing_is_trained_again(files, index):
    files[index].unlink()
    assert not is_trained(files, ABOUT)


def test_what_cannot_be_read_is_trained_again(files):
    files[1].write_text("{")
    assert not is_trained(files, ABOUT)
