"""Which programs are learned from, which are validated on, and which are kept for the test."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import polars as pl

from lib.files.parquet import read_parquet

TEST_SHARE, VALID_SHARE = 0.2, 0.1
SPLIT_SEED = 6  # chosen before any result was read: unseen families with no near kin in training


def assign_splits(
    programs: Iterable[tuple[str, str, str]],
    seed: int = SPLIT_SEED,
    settled: Mapping[tuple[str, str], str] | None = None,
) -> dict[tuple[str, str], str]:
    """Which split each program is in: a pure function of the arguments.

    Within each source, ``test`` gets a fifth of the programs: at most half of it, rounded up,
    is whole families, taken in the order of a hash while they fit, and the rest is variants of
    other families. ``valid`` gets a tenth, variants only. Variants are dealt in turns, one a
    family, and the last of a family stays in ``train``.

    What is settled stays as it is, so that a program whose labels were learned from never comes
    to be tested on: only programs that are new are dealt. A settled family that is all in
    ``test`` is unseen, and so are its new variants.

    Args:
        programs: (source, program, family).
        seed: another seed, another deal.
        settled: the splits of an earlier deal.

    Returns:
        (source, program) -> ``train``, ``valid`` or ``test``.
    """
    entries = set(programs)
    splits = {}
    for source in sorted({source for source, _, _ in entries}):
        families: dict[str, list[str]] = defaultdict(list)
        for _, program, family in sorted(entry for entry in entries if entry[0] == source):
            families[family].append(program)
        earlier = {p: split for (s, p), split in (settled or {}).items() if s == source}
        splits |= {(source, p): split for p, split in _deal(families, earlier, seed).items()}
    return splits


def _deal(
    families: Mapping[str, Sequence[str]], settled: Mapping[str, str], seed: int
) -> dict[str, str]:
    """The split of each of one source's programs, see :func:`assign_splits`."""

    def draw(name: str) -> bytes:
        return hashlib.sha256(f"{seed}:{name}".encode()).digest()

    total = sum(map(len, families.values()))
    tests, valids = (max(1, round(share * total)) for share in (TEST_SHARE, VALID_SHARE))
    before = defaultdict(set)  # of programs that are not here, too
    for program, split in settled.items():
        before[program.split(".")[0]].add(split)
    unseen = [p for family in families if before[family] == {"test"} for p in families[family]]
    for family in sorted(families, key=draw):
        if not before[family] and len(unseen) + len(families[family]) <= min(
            (tests + 1) // 2, total - 1
        ):
            unseen += families[family]
    splits = {p: "train" for members in families.values() for p in members}
    splits |= {p: "test" for p in unseen} | {p: s for p, s in settled.items() if p in splits}
    turns = []
    for members in families.values():
        new = sorted((p for p in members if p not in settled and p not in unseen), key=draw)
        learned = any(settled.get(p) == "train" for p in members)
        turns += [(turn, draw(p), p) for turn, p in enumerate(new if learned else new[:-1])]
    variants = [program for _, _, program in sorted(turns)]
    have = Counter(splits.values())
    cut = max(0, tests - have["test"])
    splits |= {p: "test" for p in variants[:cut]}
    splits |= {p: "valid" for p in variants[cut : cut + max(0, valids - have["valid"])]}
    return splits


def settled_splits(table: Path) -> dict[tuple[str, str], str]:
    """The splits of the dataset that a ``programs.parquet`` describes, none if it is not there."""
    if not table.exists():
        return {}
    source = pl.col("collection").str.split("-").list[1]
    needed = dict.fromkeys(("collection", "graph", "split"), "text")
    rows = read_parquet(table, needed, "a dataset that lib.collect.xla.export wrote")
    rows = rows.select(source, "graph", "split").rows()
    return {(place, graph): split for place, graph, split in rows}
