"""The submission of all collections: what is checked before a byte is written."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.cache.format import TABLE
from lib.cache.manifest import write_manifest
from lib.files.artifacts import write_json
from lib.files.errors import DataError, UserError
from lib.files.parquet import write_parquet
from lib.ranking.metrics import kendall_tau, tile_score
from lib.scoring.expected import OFFICIAL_TEST, OFFICIAL_TOTAL, Collection, find_collection
from lib.scoring.merge import main as merge_main
from lib.scoring.merge import merge
from lib.scoring.submission import check_entry, entry_score, read_entries
from lib.settings import settings_class
from lib.tpugraphs.dataset import TPUGRAPHS, Dataset
from lib.tpugraphs.roots import DataRoot
from tests.builders import CPU_LAYOUTS
from tests.commands import Said, call
from tests.synthetic import write_collection

LAYOUT, TILE = "layout-xla-default", "tile-xla"


def write_outputs(
    outputs: Path, name: str, counts: dict[str, int], rng=None, model: str | None = None
) -> None:
    """A collection's cache table and a submission that fits it, in a random order."""
    rng = rng or np.random.default_rng(0)
    chosen = settings_class(name, model)(collection=name)
    identifier, folder, cache = chosen.identifier, outputs / chosen.results, outputs / chosen.cache
    cache.mkdir(parents=True)
    folder.mkdir(exist_ok=True)
    sizes = list(counts.values())
    table = {"graph": list(counts), "original_configurations": sizes, "configurations": sizes}
    frame = pl.DataFrame(table).with_columns(split=pl.lit("test"), nodes=pl.lit(1))
    write_parquet(frame, cache / TABLE)
    about = {"fingerprint": "f"}
    write_manifest(cache, {**about, "entries": {}, "settings": {}})
    lines = ["ID,TopConfigs"]
    for graph, count in counts.items():
        order = rng.permutation(count)[: 5 if name == TILE else None]
        lines.append(f"{identifier}:{graph}," + ";".join(map(str, order)))
    (folder / "submission.csv").write_text("\n".join(lines) + "\n")


def submission_of(outputs: Path, name: str, model: str | None = None) -> Path:
    """Where stage 4 writes the submission of a collection of official data."""
    chosen = settings_class(name, model)(collection=name)
    return outputs / chosen.results / "submission.csv"


def run_merge(outputs: Path, *flags: object, data: Path | None = None) -> Said:
    """``python -m lib.scoring.merge``, in this process."""
    line = ["--outputs", outputs, "--data", data or outputs / "no-data", *flags]
    return call(merge_main, *line)


@pytest.fixture
def outputs(tmp_path) -> Path:
    counts = {"layout": {"a.v1": 4, "b": 7}, "tile": {"k1": 9, "k2": 3}}
    for name in OFFICIAL_TEST:
        write_outputs(tmp_path, name, counts[name.split("-")[0]])
    return tmp_path


def test_another_models_submission(outputs):
    """Of a cache of its own; tiles share theirs."""
    for name in OFFICIAL_TEST:
        if name != TILE:
            write_outputs(outputs, name, {"c": 5}, model="gst")
    shutil.copytree(outputs / TILE, outputs / f"{TILE}@gst")
    done = run_merge(outputs, "--model", "gst")
    assert done.returncode == 0, done.stderr
    assert "6 rows, 5 of 5 collections" in done.stdout


def test_all_five_collections_become_one_file(outputs):
    done = run_merge(outputs)
    assert done.returncode == 0, done.stderr
    assert "10 rows, 5 of 5 collections" in done.stdout
    rows = read_entries(outputs / "submission.csv")
    assert len(rows) == 10
    for name in OFFICIAL_TEST:
        own = read_entries(submission_of(outputs, name))
        assert all(np.array_equal(rows[key], order) for key, order in own.items())


def test_what_is_missing_is_named_in_one_line_and_nothing_is_written(outputs):
    submission_of(outputs, TILE).unlink()
    layout = submission_of(outputs, LAYOUT)
    lines = layout.read_text().splitlines()
    layout.write_text("\n".join(lines[:-1]) + "\n")
    done = run_merge(outputs)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "layout:xla:default:b" in done.stderr
    assert "tile-xla (2 rows; make all COLLECTION=tile-xla)" in done.stderr
    assert not (outputs / "submission.csv").exists()
    partial = run_merge(outputs, "--partial")
    assert partial.returncode == 0
    assert "missing: " in partial.stdout
    assert len(read_entries(outputs / "submission.csv")) == 7


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("layout:xla:default:b,0;1;2;3;4;5", "each of 0..6 once"),
        ("layout:xla:default:b,0;1;2;x;4;5;6", "indices joined by ;"),
        ("layout:xla:default:b,0;1;2;-3;4;5;6", "indices joined by ;"),
        ("layout:xla:default:b,", "0 indices"),
        ("layout:xla:default:a.v1,0;1;2;3", "each ID once"),
        ("layout:xla:default:c,0;1;2;3", "a graph of the test split"),
    ],
)
def test_bad_rows_are_refused_even_in_a_partial_submission(outputs, row, message, partial):
    path = submission_of(outputs, LAYOUT)
    path.write_text("\n".join([*path.read_text().splitlines()[:2], row]) + "\n")
    done = run_merge(outputs, *(["--partial"] if partial else []))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert message in done.stderr
    assert not (outputs / "submission.csv").exists()


def test_official_data_have_894_rows(tmp_path):
    """Also: quick at the official size, where a layout row may have 100,000 configurations."""
    assert OFFICIAL_TOTAL == 894
    rng = np.random.default_rng(0)
    for name, graphs in OFFICIAL_TEST.items():
        size = 100 if name == TILE else 2_000
        counts = {
            f"graph_{i}": size * (50 if i == 0 and name != TILE else 1) for i in range(graphs)
        }
        write_outputs(tmp_path, name, counts, rng)
    started = time.process_time()
    collections = [find_collection(name, tmp_path, tmp_path) for name in OFFICIAL_TEST]
    merged = merge(collections, official=True)
    assert time.process_time() - started < 10
    assert (len(merged.entries), merged.missing) == (894, [])
    done = run_merge(tmp_path, "--official")
    assert "894 rows of 894 (the official test split), 5 of 5 collections" in done.stdout


def test_counts_come_from_the_raw_test_split_without_a_cache(tmp_path):
    write_collection(tmp_path / "data", LAYOUT, train=1, valid=0, test=2)
    found = find_collection(LAYOUT, tmp_path / "outputs", tmp_path / "data")
    assert found.ids == {f"layout:xla:default:test_{i}.v1.0": 20 for i in (0, 1)}


def test_bundled_and_official_rows_do_not_mix(outputs):
    def collection(name: str, dataset: Dataset) -> Collection:
        root = DataRoot(outputs, outputs, dataset)
        return Collection(name, name.replace("-", ":"), submission_of(outputs, name), root, {})

    with pytest.raises(UserError, match="make no submission together"):
        merge([collection(LAYOUT, CPU_LAYOUTS), collection(TILE, TPUGRAPHS)])


@given(st.integers(1, 30), st.data())
def test_rows_are_checked_and_scored_by_kind(count, data):
    runtimes = np.array(data.draw(st.lists(st.integers(1, 9), min_size=count, max_size=count)))
    order = np.array(data.draw(st.permutations(range(count))))
    check_entry(Path("a"), "layout:xla:random:g", order, count)
    places = np.argsort(order)
    expected = pytest.approx(kendall_tau(places, runtimes))
    assert entry_score("layout:xla:random:g", order, runtimes) == expected
    best = order[:5]
    check_entry(Path("a"), "tile:xla:g", best, count)
    assert entry_score("tile:xla:g", best, runtimes) == tile_score(places, runtimes, 5)
    with pytest.raises(DataError):
        check_entry(Path("a"), "layout:xla:random:g", np.append(order, 0), count)
    with pytest.raises(DataError):
        check_entry(Path("a"), "tile:xla:g", best[:-1], count)


def test_data_that_are_wrong_are_no_data_that_are_absent(tmp_path):
    write_json(tmp_path / "dataset.json", {"size": "smal"})
    (tmp_path / "npz" / "tile" / "xla" / "train").mkdir(parents=True)
    (tmp_path / "npz" / "tile" / "xla" / "train" / "a.npz").touch()
    with pytest.raises(DataError, match="size: found 'smal'"):
        find_collection("tile-xla", tmp_path, tmp_path)
    assert find_collection(LAYOUT, tmp_path, tmp_path).root is None
