"""Messages between two processes arrive as they were sent, or not at all."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from lib.files.errors import DataError
from lib.programs.messages import last_words, receive, send

NAMES = st.text("abc", min_size=1, max_size=5)
ARRAYS = st.dictionaries(NAMES, arrays_of.arrays(np.float32, st.integers(0, 9)), max_size=3)
WORDS = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=9), max_size=3)


@given(st.lists(st.tuples(WORDS, ARRAYS), max_size=3))
def test_messages_arrive_one_after_the_other(messages):
    stream = io.BytesIO()
    for about, arrays in messages:
        send(stream, about, arrays)
    stream.seek(0)
    for about, arrays in messages:
        said, found = receive(stream)
        assert said == about and found.keys() == arrays.keys()
        for name in arrays:
            np.testing.assert_array_equal(found[name], arrays[name])
    assert receive(stream) is None


@given(st.data())
def test_one_that_is_cut_short_is_told(data):
    stream = io.BytesIO()
    send(stream, {"kind": "round"}, {"seconds": np.arange(3.0)})
    whole = stream.getvalue()
    cut = data.draw(st.integers(1, len(whole) - 1))
    with pytest.raises(DataError, match="message"):
        receive(io.BytesIO(whole[:cut]))


@pytest.mark.parametrize(
    ("code", "errors", "said"),
    [
        (2, "error: no such network\n[12:00] Warning: remaining blocks!\n", "no such network"),
        (1, "Traceback:\n  ...\nValueError: no\n", "ValueError: no"),
        (3, "", "exit code 3"),
        (-9, "[12:00] Warning: a\n", "the process that has TVM was ended by SIGKILL"),
        (-14, "", "the process that has TVM was ended by SIGALRM; it took too long"),
    ],
)
def test_why_the_half_with_tvm_ended(code, errors, said):
    assert last_words(code, errors) == said
