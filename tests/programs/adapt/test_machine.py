"""What a machine is like, read from its own files."""

from __future__ import annotations

from pathlib import Path

import pytest

from lib.programs.adapt.machine import (
    FIELDS,
    bandwidth,
    cache_sizes,
    clock,
    machine,
    vector_bits,
)


def write_cache(folder: Path, number: int, **about: str) -> None:
    (folder / f"index{number}").mkdir(parents=True)
    for name, text in about.items():
        (folder / f"index{number}" / name).write_text(text + "\n")


def test_caches_that_hold_data_by_level(tmp_path):
    write_cache(tmp_path, 0, level="1", type="Data", size="32K")
    write_cache(tmp_path, 1, level="1", type="Instruction", size="64K")
    write_cache(tmp_path, 2, level="2", type="Unified", size="1M")
    write_cache(tmp_path, 3, level="3", type="Unified", size="32768K")
    assert cache_sizes(tmp_path) == {1: 32, 2: 1024, 3: 32768}
    assert cache_sizes(tmp_path / "nowhere") == {}


def test_clock_and_vectors_of_a_processor(tmp_path):
    info = tmp_path / "cpuinfo"
    info.write_text("cpu MHz\t\t: 2596.150\nflags\t\t: sse sse2 avx2\ncpu MHz\t\t: 3100.5\n")
    assert clock(info, tmp_path / "none") == pytest.approx(3.1005)
    assert vector_bits(info) == 256
    (tmp_path / "fastest").write_text("4200000\n")
    assert clock(info, tmp_path / "fastest") == pytest.approx(4.2)
    assert (clock(tmp_path / "none", tmp_path / "none"), vector_bits(tmp_path / "none")) == (0, 0)


def test_this_machine_says_something_of_every_field():
    found = machine()
    assert tuple(found) == FIELDS
    assert found["cores"] >= 1 and found["memory_gib"] > 0 and found["bandwidth_gbs"] > 0.1


def test_a_copy_is_neither_free_nor_endless():
    assert 0.1 < bandwidth() < 2000
