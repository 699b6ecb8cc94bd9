"""What is done to a file: to any file, and to what is in one of a known format.

A mutation is called as ``mutate(path, rng, others)``: it changes the file at ``path`` (or what lies
there and beside it), draws all that is random from ``rng``, may take bytes from ``others``, and
returns what it did in a few words. One that does not suit the file raises :class:`Unsuitable`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import polars as pl

from tests.attack.mutations import anyfile, arrays, messages, records, rows, tables, tensors
from tests.attack.mutations.values import Mutation, Unsuitable

BY_SUFFIX: dict[str, Sequence[Mutation]] = {
    ".npz": arrays.IN_ARCHIVES,
    ".bin": arrays.IN_FLAT_FILES,
    ".pb": messages.MUTATIONS,
    ".json": records.MUTATIONS,
    ".jsonl": records.IN_LINES,
    ".log": records.IN_LINES,
    ".parquet": tables.MUTATIONS,
    ".safetensors": tensors.MUTATIONS,
    ".csv": rows.MUTATIONS,
}
# What mutations raise that cannot be done to a file, their libraries included.
UNSUITABLE = (Unsuitable, ValueError, TypeError, OverflowError, OSError, pl.exceptions.PolarsError)
INSIDE = 0.65  # how often what is in a file is changed, where its format is known
ATTEMPTS = 20


def mutate(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """Damage a file in a way that suits it; returns what was done."""
    inside = BY_SUFFIX.get(path.suffix, ())

    def suitable() -> Sequence[Mutation]:
        known = inside and path.is_file() and rng.random() < INSIDE
        return inside if known else anyfile.CONTENTS + anyfile.PLACES

    return _one_of(suitable, path, rng, others)


def misplace(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """Put something else in a file's place; returns what was done."""
    return _one_of(lambda: anyfile.PLACES, path, rng, others)


def _one_of(
    choices: Callable[[], Sequence[Mutation]], path: Path, rng: Random, others: Sequence[Path]
) -> str:
    """Do one that suits the file."""
    for _ in range(ATTEMPTS):
        chosen = rng.choice(choices())
        try:
            return f"{chosen.__name__}: {chosen(path, rng, others)}"
        except UNSUITABLE:
            continue
    return "nothing"
