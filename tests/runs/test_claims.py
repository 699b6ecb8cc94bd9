"""Two makes in one folder of outputs: of other results, the later one is refused."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from lib.files.artifacts import read_json, write_json
from lib.files.errors import UserError
from lib.runs.claims import claim
from lib.runs.identity import Making
from lib.settings import settings_for
from lib.tpugraphs.dataset import TPUGRAPHS


def making(outputs: Path, folds: int = 2, **given: object) -> Making:
    return Making(outputs, settings_for("tile-xla", TPUGRAPHS, given), folds=folds)


@pytest.fixture
def other():
    """A process that lives."""
    process = subprocess.Popen(["sleep", "1000"])
    yield process
    process.kill()
    process.wait()


def test_the_later_of_two_that_make_other_results_is_refused(tmp_path, other):
    own, theirs = sorted([os.getpid(), other.pid], key=lambda pid: pid == other.pid)
    claim(making(tmp_path, epochs=5.0), own)  # which began first
    told = f"tile-xla: another make (process {own}, since "
    with pytest.raises(UserError, match=re.escape(told)) as refused:
        claim(making(tmp_path, epochs=3.0), theirs)
    assert "makes it with --epochs 5.0, and not 3.0; wait for it, or name" in str(refused.value)
    with pytest.raises(UserError, match="makes it with --folds 2, and not 3"):
        claim(making(tmp_path, folds=3, epochs=5.0), theirs)
    claim(making(tmp_path, epochs=5.0), theirs)  # the same: they wait for one another
    claim(making(tmp_path, epochs=3.0, experiment="a"), theirs)


def test_names_that_begin_alike_are_others(tmp_path, other):
    own, theirs = sorted([os.getpid(), other.pid], key=lambda pid: pid == other.pid)
    claim(making(tmp_path, epochs=5.0, experiment="a.1"), own)
    claim(making(tmp_path, epochs=3.0, experiment="a"), theirs)


def test_one_cache_is_of_one_data_root(tmp_path, other):
    own, theirs = sorted([os.getpid(), other.pid], key=lambda pid: pid == other.pid)
    first, second = (
        replace(making(tmp_path, experiment=name), data=tmp_path / name) for name in "ab"
    )
    claim(first, own)
    with pytest.raises(UserError, match=r"cache: another make .* with --data .*a, and not .*b;"):
        claim(second, theirs)
    claim(replace(second, data=first.data), theirs)


def test_the_note_of_another_machine_stays(tmp_path):
    claim(making(tmp_path), os.getpid())
    (path,) = (tmp_path / ".make").glob("*.make")
    note = read_json(path) | {"machine": "another", "process": 1}
    write_json(tmp_path / ".make" / "tile-xla.1.make", note)
    claim(making(tmp_path, epochs=3.0), os.getpid())
    assert len(list((tmp_path / ".make").glob("*.make"))) == 2


def test_one_that_has_ended_is_nobodys(tmp_path, other):
    claim(making(tmp_path, epochs=5.0), other.pid)
    other.kill()
    other.wait()
    claim(making(tmp_path, epochs=3.0), os.getpid())
    names = [path.name for path in (tmp_path / ".make").glob("*.make")]
    assert names == [f"tile-xla.{os.getpid()}.make"], "its note is cleared away"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"began": 1}', '{"began": "x", "settings": 1}'])
def test_what_is_no_note_is_cleared_away(tmp_path, text):
    (tmp_path / ".make").mkdir()
    (tmp_path / ".make" / "tile-xla.1.make").write_text(text)
    claim(making(tmp_path), os.getpid())
    assert len(list((tmp_path / ".make").glob("*.make"))) == 1
