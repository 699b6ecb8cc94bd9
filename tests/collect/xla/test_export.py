"""The export, on synthetic raw files."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lib.collect.xla.export import export, raw_files
from lib.files.errors import DataError, UserError
from lib.files.parquet import write_parquet
from lib.tpugraphs.npz import read_layout
from tests.collect.xla.builders import POSITIONS, collection, write_raw

ROOT = Path(__file__).parents[3]


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


def test_the_graphs_are_official_and_padded_with_minus_one(exported):
    graph = read_layout(graphs(exported[1], "train")[0])
    assert graph.node_config_ids.tolist() == sorted(POSITIONS)
    assert graph.node_opcode[POSITIONS[0]] == 34  # dot
    assert (graph.node_feat[:, 134:] == -1).any()
    assert graph.node_splits[-1] == len(graph.node_opcode) == 8
    codes = graph.node_config_feat.reshape(-1, 3, 3, 6)
    rank_of_output = (codes[:, :, 0] >= 0).sum(2)
    assert set(rank_of_output[:, 0]) == {0, 2}  # site 2, the first node
    assert set(rank_of_output[:, 2]) == {0, 3}  # site 1, the last one


def test_only_test_runtimes_are_hidden_and_the_truth_lies_in_the_table(exported):
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
        "spread ceiling rejected measured_at processor jax xla_flags round_seconds quiet_lock "
        "timed_by program operations"
    )
    assert programs.height == 60
    random = programs.filter(pl.col("collection").str.ends_with("random"))
    assert random["base_ms"].null_count() == 0
    assert random["base_ms"].is_between(1, 2).all()
    assert (programs["spread"] > 1).all()
    assert programs["ceiling"].is_between(0.5, 1).all()
    assert set(programs["nodes"]) == {8}
    assert set(programs["configurations"]) == {48, 32}
    trained = set(programs.filter(pl.col("split") == "train").select("collection", "family").rows())
    for row in programs.iter_rows(named=True):
        assert row["family_in_training"] == ((row["collection"], row["family"]) in trained)
    assert not programs["family_in_training"].all()


def test_the_readme_names_every_program_and_the_conditions(exported):
    text = (exported[1] / "README.md").read_text()
    assert all(text.count(f"| {p.stem} |") >= 2 for p in graphs(exported[1]))
    assert text.count("**mean**") == 4
    assert "Test 9000" in text and "2026-01-02" in text and "make collect" in text
    assert "unseen family" in text
    assert "{" not in text and "None" not in text and "nan" not in text


def test_same_files_same_bytes_and_stale_programs_vanish(exported, tmp_path):
    raw, data = exported
    write_raw(tmp_path / "raw" / "xla" / "old.program.npz")
    export(tmp_path / "raw", tmp_path / "data")
    (tmp_path / "data" / "notes.txt").write_text("mine")
    (tmp_path / "data" / "npz" / "tile").mkdir()
    (tmp_path / "data" / "npz" / "tile" / "other.npz").write_bytes(b"mine")
    (tmp_path / "data" / ".partial-0123456789ab-README.md").write_text("of a killed run")
    export(raw, tmp_path / "data")
    found = files(tmp_path / "data")
    assert found.pop("notes.txt") == b"mine"
    assert found.pop("npz/tile/other.npz") == b"mine"
    assert found == files(data)


def test_programs_are_added_to_those_whose_raw_files_are_gone(exported, tmp_path):
    raw, data = exported
    for part in (0, 1):
        own = tmp_path / f"raw{part}"
        for path in raw_files(raw)[part::2]:
            place = own / path.parent.name / path.name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)
    shutil.copytree(data, tmp_path / "all")  # so that splits are settled
    export(tmp_path / "raw0", tmp_path / "all")
    assert len(graphs(tmp_path / "all")) == 30
    export(tmp_path / "raw1", tmp_path / "all", add=True)
    assert len(graphs(tmp_path / "all")) == 60
    before = files(tmp_path / "all")
    export(tmp_path / "none", tmp_path / "all", add=True)
    assert files(tmp_path / "all") == before  # what was read back is what was written
    export(tmp_path / "raw1", tmp_path / "all", add=True)
    assert files(tmp_path / "all") == before


def test_a_dataset_can_stand_for_raw_files(exported, tmp_path):
    export(exported[1], tmp_path / "again")
    assert files(tmp_path / "again") == files(exported[1])


def test_programs_that_the_clock_cannot_tell_are_left_out(exported, tmp_path):
    raw, _ = exported
    _, programs = export(raw, tmp_path / "data")
    means = programs.group_by("graph").agg(pl.col("ceiling").mean())
    least = means["ceiling"].median()
    _, kept = export(raw, tmp_path / "data", least_ceiling=least)
    assert set(kept["graph"]) == set(means.filter(pl.col("ceiling") >= least)["graph"])
    assert 0 < len(set(kept["graph"])) < len(means)


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("programs", pl.col("processor").cast(pl.Binary), "processor"),
        ("measurements", pl.lit(3).alias("rounds"), "rounds: found Int32, expected lists of"),
        ("measurements", pl.lit("x").alias("graph"), "graph: found no rows, expected those of"),
    ],
)
def test_a_dataset_that_cannot_be_added_to_is_told(exported, tmp_path, name, change, said):
    raw, data = exported
    shutil.copytree(data, tmp_path / "data")
    path = tmp_path / "data" / f"{name}.parquet"
    write_parquet(pl.read_parquet(path).with_columns(change), path)
    before = files(tmp_path / "data")
    with pytest.raises(DataError, match=said):
        export(raw, tmp_path / "data", add=True)
    assert files(tmp_path / "data") == before


def test_an_error_leaves_the_old_dataset_alone(tmp_path, monkeypatch):
    write_raw(tmp_path / "raw" / "xla" / "a.program.npz")
    export(tmp_path / "raw", tmp_path / "data")
    before = files(tmp_path / "data")
    write_raw(tmp_path / "raw" / "xla" / "b.program.npz", site_opcode=np.array(["dot"] * 3))
    with pytest.raises(DataError, match=r"b\.program"):
        export(tmp_path / "raw", tmp_path / "data")
    (tmp_path / "raw" / "xla" / "b.program.npz").unlink()
    monkeypatch.setattr("lib.collect.xla.export.readme", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export(tmp_path / "raw", tmp_path / "data")
    assert files(tmp_path / "data") == before


def test_more_programs_change_no_split(tmp_path):
    raw = tmp_path / "raw"
    made = collection(raw)
    for source, name in made[::3]:
        (raw / source / f"{name}.npz").rename(tmp_path / f"{source}.{name}.npz")
    _, programs = export(raw, tmp_path / "data")
    before = {row[:2]: row[2] for row in programs.select("collection", "graph", "split").rows()}
    for source, name in made[::3]:
        (tmp_path / f"{source}.{name}.npz").rename(raw / source / f"{name}.npz")
    _, programs = export(raw, tmp_path / "data")
    after = {row[:2]: row[2] for row in programs.select("collection", "graph", "split").rows()}
    assert len(after) > len(before)
    assert {name: after[name] for name in before} == before


def test_programs_of_few_rounds_are_left_out(tmp_path):
    write_raw(tmp_path / "raw" / "xla" / "a.program.npz")
    write_raw(tmp_path / "raw" / "xla" / "b.program.npz", rounds=np.full((80, 8), 9))
    _, programs = export(tmp_path / "raw", tmp_path / "data", fewest_rounds=8)
    assert programs["graph"].unique().to_list() == ["b.program"]
    with pytest.raises(UserError, match="enough rounds"):
        export(tmp_path / "raw", tmp_path / "data", fewest_rounds=9)


def test_unfinished_raw_files_do_not_count(tmp_path):
    write_raw(tmp_path / "xla" / "a.program.npz")
    (tmp_path / "xla" / ".partial-0123456789ab-b.program.npz").write_bytes(b"PK")
    assert [p.name for p in raw_files(tmp_path)] == ["a.program.npz"]


def test_it_refuses_to_replace_what_it_did_not_make(tmp_path):
    write_raw(tmp_path / "raw" / "xla" / "a.program.npz")
    (tmp_path / "data" / "npz" / "layout").mkdir(parents=True)
    with pytest.raises(UserError, match="not of this command's making"):
        export(tmp_path / "raw", tmp_path / "data")


def test_command_line(tmp_path):
    def run(*arguments):
        command = [sys.executable, "-m", "lib.collect.xla.export", *map(str, arguments)]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    empty = run(tmp_path / "raw", tmp_path / "data")
    assert (empty.returncode, len(empty.stderr.splitlines())) == (2, 1)
    assert not (tmp_path / "data").exists()
    write_raw(tmp_path / "raw" / "xla" / "short.one.npz", random=47, genetic=32)
    write_raw(tmp_path / "raw" / "nlp" / "long.one.npz")
    done = run(tmp_path / "raw", tmp_path / "data")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "warning: few configurations: short.one (47 random)\n"
    (line,) = done.stdout.splitlines()
    assert line.startswith("export: 4 graphs of 2 programs, 159 configurations in ")
    assert line.endswith(" MB")
