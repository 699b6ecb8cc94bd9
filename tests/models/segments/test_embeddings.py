"""The historical table: what was written is read, its size is bounded, a checkpoint has it."""

from __future__ import annotations

import numpy as np

from lib.models.segments.embeddings import EmbeddingTable

SIZES = {"a": (5, 3), "b": (4, 1)}
WIDTH = 2


def table() -> EmbeddingTable:
    return EmbeddingTable(SIZES, WIDTH)


def write(made: EmbeddingTable, name: str, places: list[int], segment: int, value: float) -> None:
    made.step += 1
    rows = np.array(places)
    made.write(name, rows, segment, np.full((len(rows), WIDTH), value, np.float32))


def test_what_was_written_is_read():
    made = table()
    write(made, "a", [0, 4], 2, 1.5)
    write(made, "b", [3], 0, 7.0)
    steps, embeddings = made.read("a", np.array([4, 1]))
    assert steps.tolist() == [[0, 0, 1], [0, 0, 0]]
    assert embeddings[0].tolist() == [[0, 0], [0, 0], [1.5, 1.5]]
    assert made.read("b", np.array([3]))[1].tolist() == [[[7.0, 7.0]]]


def test_a_state_is_taken_back():
    made, other = table(), table()
    write(made, "a", [1], 0, 3.0)
    other.restore({name: tensor.clone() for name, tensor in made.state().items()})
    assert other.step == 1
    assert np.array_equal(other.steps, made.steps)
    assert np.array_equal(other.embeddings, made.embeddings)
