"""`make adapt` end to end on generated programs, and that it looks at no label it does not have."""

from __future__ import annotations

import json
import runpy
import shutil
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lib.cache.reader import Cache
from lib.files.parquet import write_parquet
from lib.preprocess.collection import RawFile, write_cache
from lib.programs.adapt import device as device_module
from lib.programs.adapt import source as source_module
from lib.programs.adapt import tuning as tuning_module
from lib.programs.adapt.__main__ import main
from lib.programs.adapt.case import Case, alike, load_case
from lib.programs.adapt.device import CORRECTED, MODEL, OTHERS, PREDICTORS, SCALED, TEST
from lib.programs.adapt.network import load_network_case
from lib.programs.settings import ProgramPlusSettings
from lib.scoring.trained import load_networks
from tests import killing
from tests.commands import call
from tests.programs.builders import COLLECTION, device, write_root
from tests.stages import REPOSITORY

TINY = ("--folds-total", 2, "--channels", 16, "--epochs", 2, "--batch", 64)
CHOSEN = 4


def write_case(root: Path) -> Path:
    """A dataset with a third device, whose latencies are those of the first one halved."""
    write_root(root, tasks=15, programs=10)
    path = root / "latencies.parquet"
    rows = pl.read_parquet(path)
    third = rows.filter(device=0).with_columns(
        device=pl.lit(2, pl.Int8), seconds=pl.col("seconds") / 2
    )
    write_parquet(pl.concat([rows, third]).sort("program", "device"), path)
    about = json.loads((root / "dataset.json").read_text())
    about["devices"].append(device("avx2"))
    (root / "dataset.json").write_text(json.dumps(about))
    return root


def cached(root: Path, outputs: Path) -> Cache:
    """The cache of a dataset, where stage 1 puts it."""
    folder = outputs / COLLECTION / "cache"
    files = [RawFile(root / "dataset.json", "train")]
    write_cache(folder, files, {"collection": COLLECTION}, kind="programs")
    return Cache(folder)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Folder of the data, outputs, and what the command said."""
    root = tmp_path_factory.mktemp("adapt")
    cached(write_case(root / "data"), root / "outputs")
    said = call(main, *flags(root))
    assert said.returncode == 0, said.stderr
    return root, said.stdout


def flags(root: Path, *more: object, target: str = "avx2") -> list[object]:
    given = ["--collection", COLLECTION, "--data", root / "data", "--outputs", root / "outputs"]
    return [*given, "--target", target, "--tasks", CHOSEN, *TINY, *more]


def results(root: Path, name: str = "avx2") -> Path:
    return root / "outputs" / COLLECTION / "adapt" / name


def test_it_tells_every_method_on_all_tasks_but_the_chosen_ones(run):
    root, said = run
    metrics = json.loads((results(root) / "metrics.json").read_text())
    told = [(row["section"], row["method"]) for row in metrics["results"]]
    assert told[:4] == [(OTHERS, one) for one in PREDICTORS]
    assert told[4:] == [(TEST, one) for one in PREDICTORS[1:]]
    tasks = (results(root) / "tasks.txt").read_text().split()
    assert tasks == metrics["tasks"] and len(set(tasks)) == CHOSEN
    table = pl.read_csv(results(root) / "predictions.csv")
    assert set(table.filter(split="chosen")["task"]) == set(tasks)
    assert set(table["device"]) == {"cpu.avx2.1t"} and table["prediction"].is_finite().all()
    assert len(table) == table.select("task", "program").n_unique() == 150
    last = said.splitlines()[-1]
    assert last.startswith(f"adapt: cpu.avx2.1t from 2 devices and {CHOSEN} tasks: {CORRECTED}: ")
    assert last.endswith(f"wrote {results(root)}/")


def test_data_without_networks_of_the_test_are_adapted_to_as_well(tmp_path):
    path = write_case(tmp_path / "data") / "tasks.parquet"
    tasks = pl.read_parquet(path)
    write_parquet(tasks.with_columns(split=pl.lit("train")), path)
    cached(tmp_path / "data", tmp_path / "outputs")
    done = call(main, *flags(tmp_path))
    assert done.returncode == 0, done.stderr
    metrics = json.loads((results(tmp_path) / "metrics.json").read_text())
    assert [row["section"] for row in metrics["results"]] == [OTHERS] * len(PREDICTORS)


def test_a_device_that_is_another_one_but_for_a_factor_is_predicted(run):
    root, _ = run
    rows = json.loads((results(root) / "metrics.json").read_text())["results"]
    mape = {row["method"]: row["mape"] for row in rows if row["section"] == OTHERS}
    assert mape[SCALED] < 0.01
    assert mape[CORRECTED] < 0.05 < mape[MODEL]


def test_what_is_done_is_told_again_and_other_draws_choose_others(run):
    root, said = run
    before = (results(root) / "metrics.json").stat().st_mtime_ns
    again = call(main, *flags(root)).stdout
    assert said.endswith(again) and len(again.splitlines()) == 11
    assert (results(root) / "metrics.json").stat().st_mtime_ns == before


def test_labels_that_are_not_known_change_nothing(run, tmp_path):
    """Every latency on the target but those of the chosen tasks is made up anew."""
    root, _ = run
    cache = Cache(root / "outputs" / COLLECTION / "cache")
    case = load_case(cache, "avx2", None)
    chosen = np.array([1, 5, 7])
    found = predictions(case, chosen, tmp_path, cache)
    rng = np.random.default_rng(0)
    kept = np.isin(case.programs.task, chosen)
    for programs in (case.programs, case.test):
        own = ~kept if programs is case.programs else slice(None)
        programs.seconds[own, -1] = rng.lognormal(0, 5, len(programs.seconds[own]))
    poisoned = predictions(case, chosen, tmp_path, cache)
    for method, both in found.items():
        for one, other in zip(both, poisoned[method], strict=True):
            np.testing.assert_array_equal(one, other, method)
    changed = (case.programs.seconds[kept, -1] * 3).copy()
    case.programs.seconds[kept, -1] = changed
    told = predictions(case, chosen, tmp_path, cache)
    assert not np.array_equal(found[CORRECTED][0], told[CORRECTED][0])


def predictions(case: Case, chosen: np.ndarray, folder: Path, cache: Cache):
    settings = ProgramPlusSettings(COLLECTION, **tiny_values())
    visible = case.visible(chosen)
    network, identity = source_module.source_network(case, cache, settings, 0, folder / "sources")
    found = device_module.by_baselines(visible, network)
    found |= device_module.by_correction(visible, network, 0)
    tuning = device_module.FineTuning(epochs=1)
    found |= device_module.by_fine_tuning(
        visible, network, settings, tuning, 0, folder / "state", identity
    )
    return found


def tiny_values() -> dict[str, object]:
    words = [str(one) for one in TINY]
    pairs = zip(words[::2], words[1::2], strict=True)
    return {name.removeprefix("--").replace("-", "_"): int(value) for name, value in pairs}


def test_sources_are_trained_without_the_targets_latencies(run, tmp_path):
    """The network that is adapted is the same whatever the target's latencies are."""
    root, _ = run
    write_case(tmp_path / "data")
    path = tmp_path / "data" / "latencies.parquet"
    rows = pl.read_parquet(path)
    factor = pl.when(pl.col("device") == 2).then(pl.lit(50.0)).otherwise(pl.lit(1.0))
    seconds = (pl.col("seconds") * factor).cast(pl.Float32)
    write_parquet(rows.with_columns(seconds=seconds), path)
    settings, weights = ProgramPlusSettings(COLLECTION, **tiny_values()), []
    caches = (
        Cache(root / "outputs" / COLLECTION / "cache"),
        cached(tmp_path / "data", tmp_path / "outputs"),
    )
    for number, cache in enumerate(caches):
        case = load_case(cache, "avx2", None)
        network, _ = source_module.source_network(case, cache, settings, 0, tmp_path / str(number))
        weights.append(network.state_dict())
    for name, tensor in weights[0].items():
        assert tensor.equal(weights[1][name]), name


def test_killed_while_it_is_fine_tuned_it_goes_on_to_the_same(run, tmp_path):
    root, _ = run
    shutil.copytree(root / "outputs", tmp_path / "outputs")
    folder = tmp_path / "outputs" / COLLECTION / "adapt" / "avx2"
    shutil.rmtree(folder)
    line = flags(root, "--save-seconds", "0", "--outputs", tmp_path / "outputs")
    assert killing.run("lib.programs.adapt", *line, step=25) is None
    assert (folder / "state.safetensors").exists() and not (folder / "metrics.json").exists()
    assert call(main, *line).returncode == 0
    assert not (folder / "state.safetensors").exists()
    for name in ("predictions.csv", "tasks.txt"):
        assert (folder / name).read_bytes() == (results(root) / name).read_bytes()
    ours, theirs = (
        json.loads((one / "metrics.json").read_text())["results"] for one in (folder, results(root))
    )
    assert ours == theirs


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--tasks", 13), "--tasks 13: must be from 1 to 12"),
        (("--tasks", 0), "--tasks 0: must be at least 1"),
        (("--sampling", "best"), "--sampling 'best': must be one of kmeans, random"),
        (("--sources", "avx2"), "needs sources, which are other devices"),
        (("--sources", "mmx"), "device 'mmx': neither an instruction set (sse2, avx512, avx2)"),
        (("--network", "a"), "--target or --network: one of them is needed, and not both"),
        (("--target", "mmx"), "device 'mmx': neither an instruction set (sse2, avx512, avx2)"),
        (("--fold", 2), "--fold 2: must be from 0 to 1"),
        (("--collection", "layout-xla-default"), "is of layout"),
    ],
)
def test_what_cannot_be_done_is_one_line(run, words, said):
    root, _ = run
    done = call(main, *flags(root, *words))
    if words[0] == "--collection":
        done = call(main, "--collection", words[1], "--target", "a")
    assert done.returncode == 2
    assert said in done.stderr and done.stderr.count("\n") == 1


def test_sources_are_those_that_have_measured_what_the_target_has():
    seconds = np.full((8, 4), np.nan)
    seconds[:4, :2] = seconds[4:, 2] = 1.0  # two devices of one processor, and another processor
    seconds[0, 3] = 1.0  # a few on two threads
    assert alike(seconds, 0) == [1]
    assert alike(seconds, 1) == [0]
    assert alike(seconds, 3) == [0, 1]
    assert alike(seconds, 2) == [0, 1, 3]  # nobody has measured the same


@pytest.fixture(scope="module")
def trained(run):
    """The same data with a fold of stage 2."""
    root, _ = run
    line = ["02_train.py", *flags(root)[:6], *TINY, "--fold", 1]
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("WANDB_MODE", "disabled")
        patched.setattr(sys, "argv", [str(one) for one in line])
        runpy.run_path(str(REPOSITORY / line[0]), run_name="__main__")
    return root


def network_flags(root: Path, pattern: str) -> list[object]:
    return [*flags(root)[:6], "--network", pattern, *TINY]


def test_networks_are_adapted_to_without_their_latencies(trained):
    said = call(main, *network_flags(trained, "net0.*"))
    assert said.returncode == 0, said.stderr
    folder = results(trained, "net0._")
    found = json.loads((folder / "metrics.json").read_text())
    assert (found["networks"], found["fold"]) == (["net0.w8.b1"], 1)
    assert len(found["results"]) == 2 and all(row["mape"] > 0 for row in found["results"])
    table = pl.read_csv(folder / "predictions.csv")
    assert table["device"].n_unique() == 3 and table["task"].n_unique() == 3
    assert said.stdout.splitlines()[-1].startswith("adapt: fold 1 towards 1 networks: MAPE ")


def test_what_a_network_is_adapted_with_has_no_latency_of_it(trained):
    cache = Cache(trained / "outputs" / COLLECTION / "cache")
    ensemble = load_networks(trained / "outputs" / COLLECTION, ProgramPlusSettings, {})
    case = load_network_case(ensemble, cache, "net0.*")
    assert np.isnan(case.target.programs.seconds).all() and np.isfinite(case.truth).any()
    assert not set(case.target.programs.tasks) & set(case.source.programs.tasks)


def test_networks_that_every_fold_has_seen_are_refused(trained):
    said = call(main, *network_flags(trained, "net*"))
    assert said.returncode == 2 and "has learned from tasks of it" in said.stderr
    said = call(main, *network_flags(trained, "gpt*"))
    assert said.returncode == 2 and "none of the data's 5 has such a name" in said.stderr


def test_steps_draw_every_program_and_count_it_alike():
    counts = np.array([1] * 7 + [2] * 30 + [3])
    found = tuning_module.drawn(counts, 10, np.random.default_rng(0))
    assert len(found) == tuning_module.EPOCH
    one_pass = found[: 1 + 3 + 1]
    assert sorted(np.concatenate([own for own, _ in one_pass]).tolist()) == list(range(38))
    for own, weight in found:
        assert len(set(counts[own].tolist())) == 1
        assert weight == pytest.approx(len(own) * 5 / 38)
