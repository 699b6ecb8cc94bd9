"""A cache that is put together of slices: the bytes of one that is written at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.files.errors import DataError, UserError
from lib.files.locks import being_written
from lib.preprocess import collection
from lib.preprocess.collection import RawFile, write_cache
from lib.preprocess.slices import Slice, folder_of_slices, write_from_slices, write_slice
from lib.tpugraphs.npz import write_layout
from tests.kernels import tile_kernel, write_kernels
from tests.preprocess.test_kernels import tuning
from tests.synthetic import layout_graph

SETTINGS = {"collection": "layout-xla-default", "hops": 1}
COUNT = 3


def sizes(files: list[RawFile]) -> dict[str, list[int]]:
    """Sizes and times as a data root tells them."""
    stats = {f"{file.split}/{file.path.name}": file.path.stat() for file in files}
    return {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()}


def content(cache: Path) -> dict[str, bytes]:
    assert not folder_of_slices(cache).exists()
    return {path.name: path.read_bytes() for path in cache.iterdir()}


def write_all(cache: Path, files: list[RawFile], count: int = COUNT, **how) -> None:
    for one in (Slice(number, count) for number in range(count)):
        own, raw = one.of(files, sizes(files)), sizes(files)
        write_slice(one.folder(cache), own, raw, SETTINGS, **how)


def together(cache: Path, files: list[RawFile], count: int = COUNT, **how):
    return write_from_slices(cache, count, files, sizes(files), SETTINGS, **how)


@pytest.fixture
def layouts(tmp_path) -> list[RawFile]:
    """Seven graphs in three splits, one of them larger than all others."""
    splits = ["train"] * 4 + ["valid"] * 2 + ["test"]
    files = [RawFile(tmp_path / split / f"g{n}.npz", split) for n, split in enumerate(splits)]
    for seed, file in enumerate(files):
        graph = layout_graph(file.path.stem, seed, configurations=2_000 if seed == 2 else 20)
        write_layout(file.path, graph)
    return files


@pytest.fixture
def whole(layouts, tmp_path) -> dict[str, bytes]:
    """What is written at once."""
    write_cache(tmp_path / "whole", layouts, SETTINGS)
    return content(tmp_path / "whole")


@pytest.fixture
def unreadable(monkeypatch):
    """A function that makes reading a raw file an error."""

    def make() -> None:
        monkeypatch.setattr(collection, "_process", lambda *_: pytest.fail("a file was read"))

    return make


@given(
    data=st.lists(st.integers(0, 1 << 33), max_size=40),
    count=st.integers(1, 50),
)
def test_every_file_is_in_one_slice_and_in_order(data, count):
    files = [RawFile(Path("r/train", f"{n}.npz"), "train") for n in range(len(data))]
    raw = {f"train/{n}.npz": [size, 0] for n, size in enumerate(data)}
    slices = [Slice(number, count).of(files, raw) for number in range(count)]
    assert [file for own in slices for file in own] == files


def test_slices_of_equal_files_are_equal():
    files = [RawFile(Path("r/train", f"{n:05}.npz"), "train") for n in range(10_000)]
    raw = {f"train/{file.path.name}": [9_000, 0] for file in files}
    assert {len(Slice(number, 8).of(files, raw)) for number in range(8)} == {1_250}


@pytest.mark.parametrize("name", ["3-of-3", "-1-of-3", "a-of-b", "1-of-0", "1", "1-of-99999"])
def test_a_slice_that_is_none(name):
    with pytest.raises(UserError, match=r"must be a slice and how many there are, as in 0-of-8"):
        Slice.named(name)


@pytest.mark.parametrize("count", [1, 3, 20])
def test_the_same_bytes(layouts, whole, unreadable, tmp_path, count):
    """Also where there are more slices than files."""
    cache = tmp_path / "cache"
    write_all(cache, layouts, count)
    if count < len(layouts):
        unreadable()
    table, skipped, seconds = together(cache, layouts, count)
    assert content(cache) == whole
    assert (len(table), skipped) == (7, [])
    assert seconds > 0


def test_kernels_of_protobufs_among_others(tmp_path):
    (tmp_path / "train").mkdir()
    write_kernels(tmp_path / "train", [tile_kernel(f"k{n}", n) for n in range(3)])
    tuning(tmp_path / "train" / "a.pb", "one", "two", "three")
    files = [RawFile(path, "train") for path in sorted((tmp_path / "train").iterdir())]
    write_cache(tmp_path / "whole", files, SETTINGS, kind="tile")
    write_all(tmp_path / "cache", files, kind="tile")
    together(tmp_path / "cache", files, kind="tile")
    assert content(tmp_path / "cache") == content(tmp_path / "whole")


def test_a_graph_in_two_slices(tmp_path):
    (tmp_path / "train").mkdir()
    paths = [tuning(tmp_path / "train" / name, "fusion.1") for name in ("a.pb", "b.pb")]
    files = [RawFile(path, "train") for path in paths]
    write_all(tmp_path / "cache", files, 2, kind="tile")
    with pytest.raises(UserError, match=r"b\.pb: graph fusion\.1 is in another file too"):
        together(tmp_path / "cache", files, 2, kind="tile")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    "how", ["missing", "unfinished", "damaged", "other settings", "other files", "all gone"]
)
def test_a_slice_that_is_not_there_is_made_up_for(layouts, whole, tmp_path, how):
    """As a kill, or a change between two runs, may leave it."""
    cache = tmp_path / "cache"
    write_all(cache, layouts)
    folder = Slice(1, COUNT).folder(cache)
    if how == "missing":
        (folder / "cells.bin").unlink()
    elif how == "unfinished":
        folder.rename(folder.with_name(".partial-0123456789ab-1-of-3"))
    elif how == "damaged":
        content_before = (folder / "runtime.bin").read_bytes()
        (folder / "runtime.bin").write_bytes(content_before[:-1] + b"!")
    elif how == "other settings":
        own = Slice(1, COUNT).of(layouts, sizes(layouts))
        write_slice(folder, own, sizes(layouts), {**SETTINGS, "hops": 2})
    elif how == "other files":
        own = Slice(0, COUNT).of(layouts, sizes(layouts))
        write_slice(folder, own, sizes(layouts), SETTINGS)
    else:
        folder_of_slices(cache).rename(tmp_path / "elsewhere")
    together(cache, layouts)
    assert content(cache) == whole


def test_a_file_that_has_changed_since(layouts, tmp_path):
    cache = tmp_path / "cache"
    write_all(cache, layouts)
    write_layout(layouts[5].path, layout_graph("g5", 99))
    together(cache, layouts)
    write_cache(tmp_path / "whole", layouts, SETTINGS)
    assert content(cache) == content(tmp_path / "whole")


def test_bad_files_are_left_out_and_named(layouts, unreadable, tmp_path):
    """A whole slice of them too; and without ``keep_going`` it is an error again."""
    bad = [*Slice(2, COUNT).of(layouts, sizes(layouts)), layouts[0]]
    for file in bad:
        file.path.write_bytes(b"no graph".ljust(file.path.stat().st_size, b"!"))
    _, expected = write_cache(tmp_path / "whole", layouts, SETTINGS, keep_going=True)
    cache = tmp_path / "cache"
    write_all(cache, layouts, keep_going=True)
    with pytest.raises(DataError, match=r"g0\.npz: "):
        together(cache, layouts)
    unreadable()
    _, skipped, _ = together(cache, layouts, keep_going=True)
    assert list(map(str, skipped)) == list(map(str, expected))
    assert len(skipped) == len(bad)
    assert content(cache) == content(tmp_path / "whole")


def test_a_slice_that_is_being_written_stays(layouts, tmp_path):
    cache = tmp_path / "cache"
    write_all(cache, layouts)
    other = folder_of_slices(cache) / ".partial-0123456789ab-5-of-9"
    other.mkdir()
    with being_written(other):
        together(cache, layouts)
    assert [path.name for path in folder_of_slices(cache).iterdir()] == [other.name]
    write_all(cache, layouts)
    together(cache, layouts)
    assert not folder_of_slices(cache).exists()


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("bad", [{0}, {3, 4}, {39}])
def test_bad_ones_among_small_files_leave_nothing_behind(tmp_path, bad, jobs):
    """Small files share a task of a worker, and good ones are not told from others."""
    files = [RawFile(tmp_path / "train" / f"k{n:02}.npz", "train") for n in range(40)]
    files[0].path.parent.mkdir()
    for number, file in enumerate(files):
        write_layout(file.path, layout_graph(file.path.stem, number, 10))
    good = [file for number, file in enumerate(files) if number not in bad]
    write_cache(tmp_path / "wanted", good, SETTINGS)
    for number in bad:
        cut = files[number].path.read_bytes()
        files[number].path.write_bytes(cut[: len(cut) // 2])
    how = {"jobs": jobs, "keep_going": True}
    _, skipped = write_cache(tmp_path / "found", files, SETTINGS, **how)
    assert [one.file for one in skipped] == [files[number] for number in sorted(bad)]
    wanted, found = content(tmp_path / "wanted"), content(tmp_path / "found")
    assert {k: v for k, v in found.items() if k.endswith(("bin", "parquet"))} == {
        k: v for k, v in wanted.items() if k.endswith(("bin", "parquet"))
    }
