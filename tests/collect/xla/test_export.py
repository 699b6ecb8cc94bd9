"""The export, on synthetic raw files."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.collect.xla.export import assign_splits, export, raw_files
from lib.collect.xla.measurements import read_raw
from lib.files.errors import DataError
from lib.tpugraphs.dataset import read_dataset
from lib.tpugraphs.npz import read_layout
from tests.collect.xla.builders import NODES, collection, write_raw


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """(raw folder, dataset) of 30 programs."""
    folder = tmp_path_factory.mktemp("export")
    collection(folder / "raw")
    export(folder / "raw", folder / "data")
    return folder / "raw", folder / "data"


def files(root: Path) -> dict[str, bytes]:
    """Every file under ``root``, hidden ones too."""
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def graphs(data: Path, split: str = "*") -> list[Path]:
    return sorted((data / "npz" / "layout").glob(f"*/*/{split}/*.npz"))


def test_every_program_is_there_in_both_searches_and_in_the_same_split(exported):
    _, data = exported
    assert len(graphs(data)) == 60
    places = {(p.parts[-4], p.name, p.parts[-2]) for p in graphs(data)}
    assert len(places) == 30
    assert {split for *_, split in places} == {"train", "valid", "test"}
    assert read_dataset(data).processor == "Test 9000"


def test_the_graphs_are_official_and_padded_with_minus_one(exported):
    graph = read_layout(graphs(exported[1], "train")[0])
    assert graph.node_config_ids.tolist() == list(NODES)
    assert graph.node_opcode[NODES[1]] == 34  # dot
    assert (graph.node_feat[:, 134:] == -1).any()
    assert graph.node_splits[-1] == len(graph.node_opcode) == 7
    codes = graph.node_config_feat.reshape(-1, 3, 3, 6)
    ranks_of_outputs = (codes[:, :, 0] >= 0).sum(2)
    assert [set(ranks) for ranks in ranks_of_outputs.T] == [{0, 2}, {0, 2}, {0, 3}]


def test_only_test_runtimes_are_hidden_and_the_table_has_them_all(exported):
    raw, data = exported
    truth = pl.read_parquet(data / "measurements.parquet")
    for path in graphs(data):
        source, search, split = path.parts[-4:-1]
        rows = truth.filter(
            pl.col("collection") == f"layout-{source}-{search}",
            pl.col("graph") == path.stem,
        )
        with np.load(raw / source / path.name) as file:
            mine = file["rounds"][file["search"] == ("random", "default").index(search)]
        used = [sorted(r for r in rounds if r) for rounds in mine.tolist()]
        faster = [rounds[: max(1, len(rounds) // 2)] for rounds in used]
        expected = [sum(rounds) // len(rounds) for rounds in faster]
        assert rows["split"].unique().to_list() == [split]
        assert rows["config"].to_list() == list(range(len(expected)))
        assert rows["runtime"].to_list() == expected
        assert rows["rounds"].to_list() == [[r for r in rounds if r] for rounds in mine.tolist()]
        runtime = read_layout(path).config_runtime
        assert not runtime.any() if split == "test" else runtime.tolist() == expected


def test_the_table_of_programs(exported):
    programs = pl.read_parquet(exported[1] / "programs.parquet")
    assert " ".join(programs.columns) == (
        "collection split graph family family_in_training nodes sites configurations base_ms "
        "spread ceiling rejected measured_at processor jax xla_flags round_seconds timed_by"
    )
    assert programs.height == 60
    random = programs.filter(pl.col("collection").str.ends_with("random"))
    assert random["base_ms"].is_between(1, 2).all() and (programs["spread"] > 1).all()
    assert programs["ceiling"].is_between(0.5, 1).all()
    assert set(programs["nodes"]) == {7} and set(programs["sites"]) == {3}
    assert set(programs["configurations"]) == {48, 32}
    trained = set(programs.filter(pl.col("split") == "train").select("collection", "family").rows())
    for row in programs.iter_rows(named=True):
        assert row["family_in_training"] == ((row["collection"], row["family"]) in trained)
    assert not programs["family_in_training"].all()


def test_same_files_same_bytes_and_stale_programs_vanish(exported, tmp_path):
    raw, data = exported
    write_raw(tmp_path / "raw" / "xla" / "old.program.npz")
    export(tmp_path / "raw", tmp_path / "data")
    (tmp_path / "data" / "notes.txt").write_text("mine")
    (tmp_path / "data" / "npz" / "tile").mkdir()
    (tmp_path / "data" / "npz" / "tile" / "other.npz").write_bytes(b"mine")
    leftover = tmp_path / "data" / ".partial-0123456789ab-programs.parquet"
    leftover.write_text("of a killed run")
    export(raw, tmp_path / "data")
    found = files(tmp_path / "data")
    assert found.pop("notes.txt") == b"mine"
    assert found.pop("npz/tile/other.npz") == b"mine"
    assert found == files(data)


def test_an_error_leaves_the_old_dataset_alone(tmp_path, monkeypatch):
    write_raw(tmp_path / "raw" / "xla" / "a.program.npz")
    export(tmp_path / "raw", tmp_path / "data")
    before = files(tmp_path / "data")
    write_raw(tmp_path / "raw" / "xla" / "b.program.npz", nodes=np.array([4, 5, 99]))
    with pytest.raises(DataError, match=r"b\.program"):
        export(tmp_path / "raw", tmp_path / "data")
    (tmp_path / "raw" / "xla" / "b.program.npz").unlink()
    monkeypatch.setattr("lib.collect.xla.export.dataset_of", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export(tmp_path / "raw", tmp_path / "data")
    assert files(tmp_path / "data") == before


def test_bundled_programs_stay_in_their_split(tmp_path):
    known = "vit.w64_d2_h4_p8_b8_r64.forward"  # whose family is in test alone
    for name in (known, "vit.new", "unet.new"):
        write_raw(tmp_path / "raw" / "xla" / f"{name}.npz")
    _, programs = export(tmp_path / "raw", tmp_path / "data")
    splits = dict(programs.select("graph", "split").rows())
    assert splits == {known: "test", "vit.new": "test", "unet.new": "train"}


@st.composite
def program_sets(draw):
    """(source, program) of one or both sources; families of 1 to 6 programs."""
    programs = []
    for source in draw(st.sampled_from([("xla",), ("xla", "nlp")])):
        for family, size in enumerate(draw(st.lists(st.integers(1, 6), min_size=1, max_size=15))):
            programs += [(source, f"f{family}.v{k}.train") for k in range(size)]
    return programs


@given(program_sets(), st.data())
def test_splits_are_of_whole_families_and_never_change(programs, data):
    splits = assign_splits(programs, {})
    assert set(splits) == set(programs)
    by_family = defaultdict(set)
    for (source, program), split in splits.items():
        by_family[source, program.split(".")[0]].add(split)
    assert all(len(own) == 1 for own in by_family.values())
    for source in {source for source, _ in programs}:
        own = [split for (other, _), split in splits.items() if other == source]
        assert "train" in own
        assert own.count("test") <= 0.2 * len(own) and own.count("valid") <= 0.1 * len(own)
    known = data.draw(st.sets(st.sampled_from(programs)).map(sorted))
    settled = assign_splits(known, {})
    more = assign_splits(programs, settled)
    assert {key: more[key] for key in settled} == settled
    for source, program in more.keys() - settled.keys():
        family = program.split(".")[0]
        before = {s for (o, p), s in settled.items() if (o, p.split(".")[0]) == (source, family)}
        assert not before or more[source, program] in before, "no family comes into two splits"


def test_raw_files_are_read(tmp_path):
    arrays = write_raw(tmp_path / "xla" / "net.a.b.npz", random=6, genetic=4)
    (tmp_path / "xla" / ".partial-0123456789ab-b.program.npz").write_bytes(b"PK")
    (path,) = raw_files(tmp_path)
    random, default = read_raw(path)
    assert (random.source, random.search, random.name) == ("xla", "random", "net.a.b")
    assert (random.family, default.collection) == ("net", "layout-xla-default")
    assert np.array_equal(default.configuration, arrays["configuration"][6:].reshape(4, 3, 18))
    assert len(default.optimized_hash) == 4
    write_raw(tmp_path / "xla" / "a.npz", random=5, genetic=0)
    assert [one.search for one in read_raw(tmp_path / "xla" / "a.npz")] == ["random"]


@pytest.mark.parametrize(
    "changes",
    [
        {"module": None},
        {"nodes": np.array([4, 4, 5])},
        {"rounds": np.tile([5, 0], (80, 1))},
        {"about": np.array("{}")},
    ],
)
def test_a_broken_raw_file_is_an_error(tmp_path, changes):
    write_raw(tmp_path / "a.npz", **changes)
    with pytest.raises(DataError, match=r"a\.npz"):
        read_raw(tmp_path / "a.npz")
