"""The historical table: what was written is read, and a killed run finds what was saved."""

from __future__ import annotations

import json
import resource

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.experiments import embeddings
from lib.experiments.embeddings import EmbeddingTable
from lib.files.errors import UserError

SIZES = {"a": (5, 3), "b": (4, 1)}
WIDTH = 2


def table(limit: int = 1 << 20) -> EmbeddingTable:
    return EmbeddingTable(SIZES, WIDTH, limit)


def write(made: EmbeddingTable, name: str, places: list[int], segment: int, value: float) -> None:
    made.next_step()
    rows = np.array(places)
    made.write(name, rows, segment, np.full((len(rows), WIDTH), value, np.float32))


def content(made: EmbeddingTable) -> dict[str, list]:
    rows = {name: np.arange(size[0]) for name, size in SIZES.items()}
    return {name: [x.tolist() for x in made.read(name, rows[name])] for name in SIZES}


def test_what_was_written_is_read(tmp_path):
    made = table()
    assert made.begin(tmp_path / "state", "x", 0)
    write(made, "a", [0, 4], 2, 1.5)
    write(made, "b", [3], 0, 7.0)
    steps, embeddings = made.read("a", np.array([4, 1]))
    assert steps.tolist() == [[0, 0, 1], [0, 0, 0]]
    assert embeddings[0].tolist() == [[0, 0], [0, 0], [1.5, 1.5]]
    assert made.read("b", np.array([3]))[1].tolist() == [[[7.0, 7.0]]]
    made.end()
    assert not list(tmp_path.iterdir())


def test_its_size_is_what_it_says(tmp_path):
    made = table()
    made.begin(tmp_path / "state", "x", 0)
    assert (tmp_path / "history.bin").stat().st_size == made.bytes == 19 * (8 + 4 * WIDTH)


@pytest.mark.parametrize("name", ["history.bin", "history.log"])
def test_a_folder_in_its_place_is_told_before_anything_changes(tmp_path, name):
    (tmp_path / name).mkdir()
    other = tmp_path / ({"history.bin", "history.log"} - {name}).pop()
    other.write_bytes(b"kept")
    for epochs in (0, 3):
        with pytest.raises(IsADirectoryError, match=name):
            table().begin(tmp_path / "state", "x", epochs)
    assert other.read_bytes() == b"kept"


def test_its_room_on_the_disk_is_taken_at_once(tmp_path):
    """A write to mapped memory that finds no room ends the process with a bus error."""
    made = EmbeddingTable({"a": (1 << 16, 4)}, WIDTH, 1 << 30)
    made.begin(tmp_path / "state", "x", 0)
    assert (tmp_path / "history.bin").stat().st_blocks * 512 >= made.bytes


def test_a_disk_that_fills_up_meanwhile_is_told_with_the_file(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    made = table()
    made.begin(tmp_path / "state", "x", 0)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError) as raised:
            table().begin(tmp_path / "another" / "state", "x", 0)
        assert raised.value.filename == str(tmp_path / "another" / "history.bin")
        with pytest.raises(OSError) as raised:
            for place in range(5):
                write(made, "a", [place], 0, 1.0)
        assert raised.value.filename == str(tmp_path / "history.log")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("line", ["[]", "3", "[" * 50_000, '{"identity": "x"}', "place"])
def test_a_damaged_journal_is_not_resumed(tmp_path, line):
    made = table()
    made.begin(tmp_path / "state", "x", 0)
    made.saved(1)
    write(made, "a", [1], 0, 1.0)
    path = tmp_path / "history.log"
    first, rest = path.read_bytes().split(b"\n", 1)
    assert rest
    content = first + b"\n" + b"\x7f" * len(rest) if line == "place" else line.encode() + b"\n"
    path.write_bytes(content)
    assert not table().begin(tmp_path / "state", "x", 1)
    path.write_bytes(first + b"\n" + rest)
    assert table().begin(tmp_path / "state", "x", 1)


def test_it_is_bounded_before_it_is_made(tmp_path):
    with pytest.raises(UserError, match=r"19 segments take 0.0 MB, more than .*--no-history"):
        table(limit=100)
    assert not list(tmp_path.iterdir())


def free_disk(monkeypatch, size: int) -> None:
    usage = type("Usage", (), {"free": size})
    monkeypatch.setattr(embeddings.shutil, "disk_usage", lambda path: usage)


def test_a_full_disk_is_told_before(tmp_path, monkeypatch):
    free_disk(monkeypatch, 10)
    with pytest.raises(UserError, match=r"the disk has 0\.0 MB left"):
        table().begin(tmp_path / "state", "x", 0)


def test_without_a_limit_it_is_made_if_it_fits_the_disk_with_room_to_spare(tmp_path, monkeypatch):
    least = int(table(0).bytes / embeddings.FREE_SHARE)
    for free, made in ((least - 1, False), (least + 1, True)):
        free_disk(monkeypatch, free)
        found = table(limit=0)
        assert found.begin(tmp_path / "state", "x", 0)
        assert found.made is made
        assert (tmp_path / "history.bin").exists() is made


def test_a_limit_of_ones_own_is_obeyed_without_room_to_spare(tmp_path, monkeypatch):
    free_disk(monkeypatch, table().bytes)
    found = table()
    assert found.begin(tmp_path / "state", "x", 0)
    assert found.made


@pytest.mark.parametrize("first", [10, 1 << 30])
def test_a_resumed_run_decides_as_it_did(tmp_path, monkeypatch, first):
    free_disk(monkeypatch, first)
    before = table(0)
    before.begin(tmp_path / "state", "x", 0)
    before.saved(2)
    free_disk(monkeypatch, (1 << 30) + 10 - first)
    after = table(0)
    assert after.begin(tmp_path / "state", "x", 2)
    assert after.made is before.made is (first > 10)
    assert not table(0).begin(tmp_path / "state", "y", 2)  # another run's
    after.end()
    assert not list(tmp_path.iterdir())


WRITES = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.sets(st.integers(0, 3), min_size=1).map(sorted),
        st.integers(0, 2),
        st.floats(-9, 9, width=32),
    ),
    max_size=8,
)


@given(before=WRITES, after=WRITES, torn=st.integers(0, 23), again=st.booleans())
@settings(max_examples=12, deadline=None)
def test_a_killed_run_goes_back_to_what_was_saved(tmp_path_factory, before, after, torn, again):
    folder = tmp_path_factory.mktemp("killed")
    first = table()
    first.begin(folder / "state", "x", 0)
    for name, rows, segment, value in before:
        write(first, name, rows, segment * (name == "a"), value)
    first.saved(3)
    saved, step = content(first), first.step
    for name, rows, segment, value in after:
        write(first, name, rows, segment * (name == "a"), value)
    with open(folder / "history.log", "ab") as file:
        file.write(b"\1" * torn)  # a record that the kill cut short, its entry not yet written
    for _ in range(1 + again):  # killed again right after it went back
        second = table()
        assert second.begin(folder / "state", "x", 3)
        assert (content(second), second.step) == (saved, step)


def test_killed_between_saving_the_state_and_beginning_the_journal_anew(tmp_path):
    first = table()
    first.begin(tmp_path / "state", "x", 0)
    write(first, "a", [1], 1, 2.0)
    first.saved(1)
    write(first, "a", [1, 2], 1, 3.0)  # the state of epoch 2 is saved after this ...
    second = table()
    assert second.begin(tmp_path / "state", "x", 2)  # ... but the journal still says 1
    assert content(second) == content(first)
    assert second.step == first.step


def test_an_entry_whose_journal_cannot_be_written_is_not_changed(tmp_path):
    """As when the disk is full: the system takes a part of what is written, and says how much."""
    made = table()
    made.begin(tmp_path / "state", "x", 0)
    write(made, "a", [1], 1, 2.0)
    made.saved(1)
    before, own = content(made), resource.getrlimit(resource.RLIMIT_FSIZE)
    fits = (tmp_path / "history.log").stat().st_size + 10  # less than a record has
    resource.setrlimit(resource.RLIMIT_FSIZE, (fits, own[1]))
    try:
        with pytest.raises(OSError, match="large"):
            write(made, "a", [1, 2], 1, 3.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, own)
    assert content(made) == before
    again = table()
    assert again.begin(tmp_path / "state", "x", 1)
    assert content(again) == before


@pytest.mark.parametrize("broken", ["identity", "boot", "size", "log", "table", "later"])
def test_what_does_not_go_with_the_state_is_not_resumed(tmp_path, broken):
    first = table()
    first.begin(tmp_path / "state", "x", 0)
    first.saved(1)
    log = tmp_path / "history.log"
    if broken == "boot":
        log.write_text(json.dumps({**json.loads(log.read_text()), "boot": "another"}) + "\n")
    elif broken == "size":
        (tmp_path / "history.bin").write_bytes(b"short")
    elif broken == "log":
        log.write_bytes(b"\xff")
    elif broken == "table":
        (tmp_path / "history.bin").unlink()
    elif broken == "later":
        first.saved(2)
    assert not table().begin(tmp_path / "state", "y" if broken == "identity" else "x", 1)
    fresh = table()
    assert fresh.begin(tmp_path / "state", "x", 0)
    assert not any(np.any(steps) for steps, _ in content(fresh).values())
