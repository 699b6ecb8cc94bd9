"""Tables align, durations read well, colour stays on terminals that want it."""

from __future__ import annotations

import io

import pytest

from lib.files.terminal import duration, paint, printable, readable, table


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_names_do_not_act_on_a_terminal():
    hostile = "a\x1b[31m\r\n\u202eb \x9b2J"
    assert printable(hostile) == "a\\x1b[31m\\r\\n\\u202eb \\x9b2J"
    assert printable("über 0.1\xa0% τ − ±") == "über 0.1\xa0% τ − ±"
    assert table([[hostile, "1"]], ["name", "n"]).splitlines()[1].startswith(r"a\x1b[31m\r\n")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (59.6, "1 min 00 s"),
        (3599.6, "1 h 00 min"),
    ],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_colour_only_on_a_terminal_that_wants_it(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert paint("x", "red") == "x"
    monkeypatch.setattr("sys.stdout", Terminal())
    assert paint("x", "bold", "red") == "\x1b[1;31mx\x1b[0m"
    assert paint("[red]x", "bold") == "\x1b[1m[red]x\x1b[0m"  # no markup
    assert paint("x") == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert paint("x", "red") == "x"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert paint("x", "red") == "x"


def test_a_table_is_never_broken_or_cut():
    row = ["long" * 100, "[b]"]
    assert table([row]) == "   ".join(row)


def test_bytes_have_three_digits_and_a_unit():
    counts = (0, 12, 999.4e3, 999.7e6, 13.44e6)
    assert [*map(readable, counts)] == ["0 B", "12 B", "999 kB", "1 GB", "13.4 MB"]
