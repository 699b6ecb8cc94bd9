"""What a JSON document must look like."""

from __future__ import annotations

import pytest

from lib.files.errors import DataError
from lib.files.schema import expect

WANTED = {
    "name": str,
    "count": int,
    "share": float,
    "flag?": bool,
    "each": {str: {"tau": float}},
    "folds": {int: list},
    "list": [int],
    "free?": dict,
}
GOOD = {
    "name": "a",
    "count": 3,
    "share": 1,
    "each": {"g": {"tau": 0.5, "more": None}, "": {"tau": -1}},
    "folds": {"0": [], "12": ["x"]},
    "list": [1, 2],
    "other": object,
}


def test_what_is_wanted_comes_back():
    assert expect(GOOD, WANTED, "a.json") is GOOD
    assert expect({**GOOD, "flag": False, "free": {}}, WANTED, "a.json")
    assert expect(3, int, "a.json") == 3
    assert expect([], [str], "a.json") == []
    assert expect({}, {}, "a.json") == {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": 3}, "name: found 3, expected text"),
        ({"count": True}, "count: found True, expected a whole number"),
        ({"share": "1"}, "share: found '1', expected a finite number"),
        ({"share": float("nan")}, "share: found nan, expected a finite number"),
        ({"share": 10**400}, "share: found 1000"),
        ({"flag": 1}, "flag: found 1, expected true or false"),
        ({"each": {"g": 3}}, "each.g: found 3, expected an object"),
        ({"each": {"g": {}}}, "each.g.tau: found nothing, expected it"),
        ({"each": {"\ud800": {"tau": 1}}}, "each: found the key '\\ud800', expected text"),
        ({"folds": {"²": []}}, "folds: found the key '²', expected a whole number"),
        ({"list": [1, "2"]}, "list[1]: found '2', expected a whole number"),
    ],
)
def test_what_is_not_wanted_is_named(change, message):
    with pytest.raises(DataError) as raised:
        expect({**GOOD, **change}, WANTED, "a.json", advice="make it again")
    assert str(raised.value).startswith(f"a.json: {message}")
    assert str(raised.value).endswith("; make it again")
