"""Rows of a submission are read to the letter: what a lenient reader would mend is refused."""

from __future__ import annotations

import pytest

from lib.files.errors import DataError
from lib.scoring.submission import HEADER, read_entries


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ID,ID\na,0;1\n", "line 1"),
        (f"{HEADER}\na,0;1,5\nb,0;1\n", "line 2"),  # not an index column and two others
        (f"{HEADER}\na,0;1\nb,0;1,\n", "line 3"),
        (f"{HEADER}\na,0;;1\n", "line 2"),
        (f"{HEADER}\na,0;1\x00\n", "line 2"),
        (f"{HEADER}\na,0.0;1\n", "line 2"),
        (f"{HEADER}\na,0;1\n\na,1;0\n", "line 4"),  # an ID twice
    ],
)
def test_a_line_that_is_not_to_the_letter_is_named(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text, "utf-8")
    with pytest.raises(DataError, match=rf"a\.csv: {message}:"):
        read_entries(tmp_path / "a.csv")


@pytest.mark.parametrize(
    "text",
    [
        f"\ufeff{HEADER}\na,1;0\nb,0\nc,\nd\n",  # as spreadsheets of Windows write it
        '\ufeff"ID","TopConfigs"\r\n"a","1;0"\r\n"b","0"\r\n"c",""\r\n"d"\r\n',
        f' {HEADER} \n\n"a", 1;0\nb,"0"\n\nc, \nd',
    ],
)
def test_as_programs_of_tables_write_it(tmp_path, text):
    (tmp_path / "a.csv").write_bytes(text.encode())
    found = {name: order.tolist() for name, order in read_entries(tmp_path / "a.csv").items()}
    assert found == {"a": [1, 0], "b": [0], "c": [], "d": []}
