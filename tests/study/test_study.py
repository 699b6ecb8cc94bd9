"""What a study computes from scores; tests/test_pipeline.py runs a real one."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lib.cache.reader import Cache
from lib.cache.writer import CacheWriter
from lib.files.artifacts import write_json
from lib.files.errors import UserError
from lib.files.parquet import write_parquet
from lib.ranking.metrics import kendall_tau, tile_score
from lib.ranking.truth import CachedLabels, Truth
from lib.runs.identity import Making
from lib.settings import LayoutSettings, PlusSettings
from lib.study.protocol import (
    ALL,
    BATCHES,
    PERMUTATIONS,
    inference_runs,
    nested_runs,
    networks_at_hand,
)
from lib.study.results import (
    GRAPHS_SCHEMA,
    blending_rows,
    default_choices,
    inference_rows,
    study_text,
    summarize,
)
from lib.study.runs import Run, cache_view, execute_all, link_others, stage_flags
from tests.builders import cached_graph, tiny_settings
from tests.kernels import cached_kernel
from tests.stages import REPOSITORY

STUDIED = {"inference_configurations": 128, "permutations": 10}


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Cache:
    folder = tmp_path_factory.mktemp("study") / "cache"
    folder.mkdir()
    writer = CacheWriter(folder)
    for index in range(8):
        split = ("train", "valid", "test")[index % 3]
        writer.add(cached_graph(index, name=f"g{index}", split=split, configurations=40), {})
    writer.finish({"fingerprint": "0", "settings": {}})
    return Cache(folder)


def write_scores(run: Run, split: str, scores: dict[str, np.ndarray]) -> None:
    """A stage 3 parquet: (permutations, c) scores of each graph."""
    frames = []
    for graph, table in scores.items():
        rounds, count = table.shape
        columns = {
            "split": [split] * table.size,
            "graph": [graph] * table.size,
            "config": np.tile(np.arange(count), rounds),
            "permutation": np.repeat(np.arange(rounds), count),
            "score": table.reshape(-1),
        }
        frames.append(pl.DataFrame(columns))
    run.scores.parent.mkdir(parents=True, exist_ok=True)
    write_parquet(pl.concat(frames), run.scores)


@dataclass(frozen=True)
class Known:
    """Labels of graphs that are nowhere but here."""

    labels: dict[str, np.ndarray]

    def runtimes(self, graph: str) -> np.ndarray | None:
        return self.labels.get(graph)

    def count(self, graph: str) -> int | None:
        return None

    def alike(self, graph: str) -> bool:
        return graph == "alike"


def truth(**labels: np.ndarray) -> Truth:
    return Truth(Known(labels))


def run_in(folder: Path, fold: int) -> Run:
    return Run(f"fold {fold}", folder, fold, "key", ())


def test_a_view_shows_some_graphs_in_other_splits(cache, tmp_path):
    splits = {"g0": "test", "g1": "train"}
    fingerprint = cache_view(cache, tmp_path / "a", splits, "part 0")
    view = Cache(tmp_path / "a")
    assert (view.names("test"), view.names("train")) == (["g0"], ["g1"])
    assert view.fingerprint == fingerprint != cache.fingerprint
    for name in splits:
        assert np.array_equal(view.graph(name).cells, cache.graph(name).cells)
        assert np.array_equal(view.graph(name).runtime, cache.graph(name).runtime)
    assert cache_view(cache, tmp_path / "b", splits, None) == cache.fingerprint


def test_no_study_ever_sees_the_test_split(cache, tmp_path):
    settings = tiny_settings(**STUDIED)
    networks = {fold: tmp_path / f"fold_{fold}" for fold in (0, 1)}
    for fold, folder in networks.items():
        folder.mkdir()
        (folder / "last.safetensors").write_bytes(b"%d" % fold)
    at_hand = inference_runs(tmp_path, cache, settings, tmp_path, networks)
    nested = nested_runs(tmp_path, cache, settings, tmp_path, 2, 3)
    views = {run.folder for runs in (*at_hand.values(), *nested) for run in runs}
    shown = [set(Cache(folder.parent / settings.cache).table["graph"]) for folder in views]
    assert all(names == set(cache.names("train", "valid")) for names in shown)
    parts = [Cache(runs[0].folder.parent / settings.cache) for runs in nested]
    held = [name for part in parts for name in part.names("test")]
    assert sorted(held) == cache.names("train", "valid")  # each graph in one part
    # Batches that hold all 40 configurations share their runs.
    assert at_hand[None] == at_hand[64] == at_hand[256] != at_hand[32]
    flags = at_hand[None][0].commands[0]
    assert f"--inference-configurations={ALL}" in flags
    assert "--no-score-training" in flags


def test_what_a_run_depends_on(cache, tmp_path):
    def keys(**overrides):
        made = nested_runs(tmp_path, cache, tiny_settings(**overrides), tmp_path, 2, 2)
        return [run.key for runs in made for run in runs]

    base = keys()
    assert len(set(base)) == 4
    assert keys() == base
    assert keys(best_folds=2, blending="rank") == base  # stage 4's own
    assert not set(keys(epochs=5)) & set(base)
    assert not set(keys(seed=1)) & set(base)


def test_networks_of_other_settings_are_trained_below_the_study(cache, tmp_path, monkeypatch):
    """It goes over no fold that is there."""
    making = Making(tmp_path, tiny_settings())
    for fold in (0, 1):
        (making.folder / f"fold_{fold}").mkdir(parents=True)
    monkeypatch.setattr(Making, "as_it_was", lambda _, stage, fold: (stage, fold) == ("train", 0))
    own, other = networks_at_hand(making, cache, tmp_path / "data", [0, 1]).values()
    assert own == making.folder / "fold_0"
    below = making.folder / "study" / "networks"
    assert isinstance(other, Run) and other.folder == below / making.settings.results
    ((script, *flags),) = other.commands
    assert (script, flags[flags.index("--outputs") + 1]) == ("02_train.py", str(below))


def test_a_run_is_executed_once(tmp_path):
    (tmp_path / "scores").mkdir()
    run = Run("x", tmp_path, 0, "key", (("-c", "pass"),))
    failing = Run("y", tmp_path, 1, "key", (("nonsense.py", "--fold=1"),))
    assert not run.done
    write_json(tmp_path / "fold_0.key.json", "key")
    assert not run.done  # no scores
    run.scores.touch()
    assert run.done
    assert not Run("x", tmp_path, 0, "another", ()).done
    execute_all([run], 1)
    with pytest.raises(UserError, match=r"y: nonsense\.py failed: "):
        execute_all([run, failing], 2)


def test_stages_run_through_another_command(tmp_path):
    """As on a cluster: it is told what is made, and by which command."""
    run = Run("x", tmp_path, 0, "key", (("nonsense.py", "--fold=0"),))
    through = ["sh", "-c", 'echo "$@" >"$(dirname "$0")/told"; touch "$0"']
    run.scores.parent.mkdir()
    execute_all([run], 1, through)
    assert run.done
    script = str(REPOSITORY / "nonsense.py")
    assert (run.scores.parent / "told").read_text().split() == [sys.executable, script, "--fold=0"]


def test_stage_flags_say_every_setting(tmp_path):
    settings = tiny_settings()
    flags = stage_flags(settings, tmp_path, tmp_path, permutations=3, score_training=True)
    assert "--channels=16" in flags
    assert "--permutations=3" in flags
    assert "--score-training" in flags


def test_permutations_are_averaged_in_disjoint_groups(tmp_path):
    rng, runtime = np.random.default_rng(0), np.arange(1, 7)
    table = rng.normal(size=(20, 6))
    run = run_in(tmp_path, 0)
    write_scores(run, "valid", {"g": table, "unknown": table, "alike": table})
    known = truth(g=runtime, alike=runtime)
    rows = list(inference_rows({32: [run], None: [run]}, known, kendall_tau))
    assert {row[5] for row in rows} == {"g"}
    assert {row[1] for row in rows} == {32, 0}
    found = {row[2]: row[-1] for row in rows if row[1] == 32}
    assert set(found) == set(PERMUTATIONS)
    assert found[20] == pytest.approx(kendall_tau(table.mean(axis=0), runtime))
    assert found[1] == pytest.approx(np.mean([kendall_tau(row, runtime) for row in table]))
    groups = table.reshape(4, 5, 6).mean(axis=1)
    assert found[5] == pytest.approx(np.mean([kendall_tau(row, runtime) for row in groups]))


def test_kernels_are_judged_as_stage_4_judges_them(tmp_path):
    """By runtimes over normalizers, which may have another order than the runtimes alone."""
    kernel = cached_kernel("k", 0)
    normalizer = kernel.normalizer.copy()
    normalizer[np.argsort(kernel.runtime)[:6]] = 1  # those runs came from a faster machine
    kernel = replace(kernel, normalizer=normalizer)
    (tmp_path / "cache").mkdir()
    with CacheWriter(tmp_path / "cache", "tile") as writer:
        writer.add(kernel, {})
        writer.finish({"fingerprint": "0", "settings": {}})
    known = Truth(CachedLabels(Cache(tmp_path / "cache")))
    run = run_in(tmp_path, 0)
    write_scores(run, "valid", {"k": kernel.target[None]})
    assert {row[-1] for row in inference_rows({None: [run]}, known, tile_score)} == {1.0}
    assert tile_score(kernel.target, kernel.runtime) < 1


def test_one_batch_makes_permutations_equal(tmp_path):
    run = run_in(tmp_path, 0)
    write_scores(run, "valid", {"g": np.array([[1.0, 3, 2]])})
    known = truth(g=np.array([1, 2, 3]))
    rows = list(inference_rows({None: [run]}, known, kendall_tau))
    assert [row[2] for row in rows] == list(PERMUTATIONS)
    assert len({row[-1] for row in rows}) == 1


def test_folds_are_chosen_by_their_own_validation(tmp_path):
    runtime = np.array([1, 2, 3, 4])
    scores = {0: [1.0, 2, 3, 4], 1: [4.0, 3, 2, 1], 2: [1.0, 2, 4, 3]}
    settings = tiny_settings()
    cache, own = tmp_path / settings.cache, tmp_path / settings.results
    cache.mkdir(parents=True)
    CacheWriter(cache).finish({"fingerprint": "f", "settings": {}})
    runs = [run_in(own, fold) for fold in scores]
    for run, tau in zip(runs, (0.1, 0.9, 0.5), strict=True):
        write_scores(run, "test", {"g": np.array([scores[run.fold]])})
        metrics = {"data": "f", "validation": {"tau": tau}}
        write_json(own / f"fold_{run.fold}" / "metrics.json", metrics)
    rows = list(blending_rows([runs], settings, truth(g=runtime), kendall_tau))
    found = {(row[3], row[4]): row[-1] for row in rows}
    assert len(found) == len(rows) == 4 * 3
    assert found["mean", 1] == -1  # fold 1, the best in validation, is the worst here
    for count, folds in ((2, (1, 2)), (3, (1, 2, 0))):
        mean = np.mean([scores[fold] for fold in folds], axis=0)
        assert found["mean", count] == pytest.approx(kendall_tau(mean, runtime))


def test_defaults_must_be_among_the_choices():
    at_hand = dict.fromkeys(BATCHES)
    found = default_choices(tiny_settings(**STUDIED, best_folds=4), at_hand, 3)
    assert found["inference"] == {"batch": 128, "permutations": 10}
    assert found["blending"] == {"method": "mean", "folds": 3}
    with pytest.raises(UserError, match="--inference-configurations 100"):
        default_choices(tiny_settings(inference_configurations=100), at_hand, 3)
    assert default_choices(tiny_settings(), {}, 5).keys() == {"blending"}
    paper = LayoutSettings("layout-xla-default")
    assert default_choices(paper, at_hand, 5)["blending"]["folds"] == 4


def test_differences_are_paired_by_graph(tmp_path):
    rows = [
        ("blending", None, None, method, folds, graph, base + gain)
        for graph, base in (("a", 0.1), ("b", 0.5), ("c", 0.9))
        for method, folds, gain in (
            ("mean", 4, 0),
            ("mean", 5, 0.02),
            ("rank", 4, base / 10),
            ("rank", 5, 0),
        )
    ]
    rows += [
        ("inference", b, p, None, None, g, 0.5) for b in (32, 0) for p in (1, 10) for g in "ab"
    ]
    graphs = pl.DataFrame(rows, schema=GRAPHS_SCHEMA, orient="row")
    defaults = {
        "inference": {"batch": 0, "permutations": 10},
        "blending": {"method": "mean", "folds": 4},
    }
    table = summarize(graphs, defaults).with_columns(collection=pl.lit("c"))
    assert table["default"].sum() == 2
    better = table.filter((pl.col("method") == "mean") & (pl.col("folds") == 5)).row(0, named=True)
    assert better["graphs"] == 3
    assert better["score"] == pytest.approx(0.52)
    assert better["difference"] == pytest.approx(0.02)
    assert better["difference_standard_error"] == pytest.approx(0, abs=1e-12)
    assert better["standard_error"] == pytest.approx(0.4 / 3**0.5)
    text = study_text(table)
    assert "0.5000*" in text
    assert "blending: best method rank, folds 4: 0.5500, +0.0500 +- 0.0231" in text


def test_other_collections_are_seen_from_a_view(tmp_path):
    chosen = PlusSettings("layout-xla-default", also="layout-xla-random,layout-nlp-default")
    for path in chosen.others.values():
        (tmp_path / "outputs" / path).mkdir(parents=True)
    own = tmp_path / "study" / "part_0_of_2"
    for _ in range(2):  # a study is gone on with
        link_others(chosen, tmp_path / "outputs", own)
    assert len(chosen.others) == 2
    for path in chosen.others.values():
        assert (own / path).resolve() == tmp_path / "outputs" / path
    link_others(PlusSettings("layout-xla-default"), tmp_path / "outputs", tmp_path / "none")
    assert not (tmp_path / "none").exists()
