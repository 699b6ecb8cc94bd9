"""Some cases end with success or with one line."""

from __future__ import annotations

from tests.attack.__main__ import main

COUNT = 6


def test_hostile_files_and_flags_end_in_one_line_at_worst(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["tests.attack", "--count", str(COUNT)])
    code, said = main(), capsys.readouterr().out
    assert code == 0, said
    success, one_line, worse = (int(x) for x in said.splitlines()[-1].split() if x.isdecimal())
    assert (success + one_line, worse) == (COUNT, 0)
    assert min(success, one_line) > COUNT / 10
