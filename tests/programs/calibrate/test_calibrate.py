"""`make calibrate` on generated programs, and what `make latency` and `make search` make of it."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lib.cache.reader import Cache
from lib.files.errors import DataError, UserError
from lib.files.parquet import write_parquet
from lib.files.processor import processor
from lib.programs.calibrate import __main__ as command
from lib.programs.calibrate import tuning
from lib.programs.calibrate.sampling import tasks_to_measure
from lib.programs.calibrate.tuning import tuned
from lib.programs.devices import (
    calibration_of,
    known_devices,
    on_device,
    predicted_seconds,
    tell,
    tuned_weights,
)
from lib.programs.folds import all_pairs
from lib.programs.inputs import devices_of, load_programs
from lib.programs.latency.predictor import Predictor, predictor_in, predictor_settings, run_part
from lib.programs.tensorir.records import CACHES
from lib.scoring import weights
from tests.commands import call
from tests.programs.builders import COLLECTION, cached, write_root
from tests.stages import REPOSITORY

SLOWER = 3.0  # than what the predictor has learned from
TINY = ("--folds-total", 2, "--channels", 16, "--epochs", 12)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Data and outputs with one trained fold."""
    root = tmp_path_factory.mktemp("calibrate")
    write_root(root / "data", tasks=15, programs=20)
    cached(root / "data", root / "outputs" / COLLECTION / "cache")
    stage2(root, "--fold", 1)
    return root


def stage2(root: Path, *more: object) -> None:
    """Train a fold."""
    line = ["02_train.py", *flags(root), *TINY, *more]
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("WANDB_MODE", "disabled")
        patched.setattr(sys, "argv", [str(one) for one in line])
        runpy.run_path(str(REPOSITORY / line[0]), run_name="__main__")


def flags(root: Path) -> list[object]:
    return ["--collection", COLLECTION, "--data", root / "data", "--outputs", root / "outputs"]


def measured(work: Path, data: Path, slow: float = 1.0) -> None:
    """What the collector and the export leave: other programs on this processor, slower."""
    assert work.name == "measured"
    write_root(data, tasks=12, programs=10, seed=5, slow=slow)
    path = data / "latencies.parquet"
    write_parquet(pl.read_parquet(path).with_columns(pl.col("seconds") * SLOWER), path)
    about = json.loads((data / "dataset.json").read_text())
    for device in about["devices"]:
        device |= {"processor": processor(), "name": f"mine.{device['instructions']}.1t"}
    (data / "dataset.json").write_text(json.dumps(about))


@pytest.fixture
def collected(monkeypatch):
    """The commands that would be run, and what they leave; tuning changes nothing."""
    ran = []
    monkeypatch.setattr(command, "tuned", lambda network, programs, device: network)

    def run(line: list[str]) -> None:
        ran.append(line)
        if "lib.collect.tvm.export" in line:
            measured(*map(Path, line[-2:]))

    monkeypatch.setattr(command, "run_part", run)
    return ran


def calibrate(root: Path, *more: object):
    return call(command.main, *flags(root), "--tvm", sys.executable, "--core", 0, *more)


def loaded(root: Path):
    _, settings = predictor_settings(COLLECTION, root / "data", None)
    ensemble, _, results = predictor_in(root / "outputs", settings)
    return ensemble, Cache(results / "cache"), results


def test_a_slower_processor_is_predicted_as_slow(trained, collected, monkeypatch):
    monkeypatch.setattr(command, "tuned", tuned)
    for name, value in {"PARTS": 2, "PASSES": 3, "RATE": 5e-3}.items():
        monkeypatch.setattr(tuning, name, value)
    said = calibrate(trained, "--tasks", 3)
    assert said.returncode == 0, said.stderr
    path = calibration_of(trained / "outputs" / COLLECTION, processor())
    assert said.stdout.splitlines()[-1].endswith(f"; wrote {path}")
    assert [line[2] for line in collected] == ["lib.collect.tvm", "lib.collect.tvm.export"]
    ensemble, cache, results = loaded(trained)
    hashes = collected[0][collected[0].index("--networks") + 1].split(",")
    assert len(set(hashes)) == 3 and all(
        sum(name.endswith(f".{one}") for name in cache.names("train", "valid")) == 1
        for one in hashes
    )
    devices = {one["name"]: one for one in known_devices(devices_of(cache), results, results)}
    assert list(devices) == ["cpu.sse2.1t", "cpu.avx512.1t", "mine.sse2.1t", "mine.avx512.1t"]
    mine = devices["mine.sse2.1t"]
    assert mine["machine"].keys() == set(CACHES) and mine["like"] in (
        "cpu.sse2.1t",
        "cpu.avx512.1t",
    )
    assert mine["tuned"] and mine["after"] < mine["before"]
    programs = load_programs(cache, all_pairs(cache, cache.names("test")))
    other = on_device(ensemble, mine, results)
    said, plain = (
        np.median(predicted_seconds(one, programs, mine) / programs.seconds[:, 0])
        for one in (other, ensemble)
    )
    assert abs(np.log(said / SLOWER)) < abs(np.log(plain / SLOWER)) / 2
    with pytest.raises(DataError, match=r"tuned: found other networks"):
        on_device(ensemble, {**mine, "tuned": "another"}, results)
    tuned_weights(results, mine).unlink()
    with pytest.raises(DataError, match="safetensors"):
        on_device(ensemble, mine, results)


def test_networks_stay_as_they_are_where_tuning_is_no_better(trained, collected):
    said = calibrate(trained)
    assert said.returncode == 0, said.stderr
    ensemble, cache, results = loaded(trained)
    device = known_devices(devices_of(cache), results, results)[-1]
    assert not device["tuned"] and device["after"] == device["before"]
    assert on_device(ensemble, device, results) is ensemble
    assert "as they are" in said.stdout


def test_latency_and_search_take_the_processors_own_device(trained, collected, capsys):
    calibrate(trained)
    ensemble, cache, results = loaded(trained)
    where = results, results, trained / "data", Path(sys.executable)
    predictor = Predictor(ensemble, devices_of(cache), *where)
    device = predictor.device("avx512")
    assert predictor.devices[device] == "mine.avx512.1t"
    tell(predictor.known[device])
    count = predictor.known[device]["programs"]
    said = f"mine.avx512.1t: calibrated by {count} programs measured there\n"
    assert capsys.readouterr().err == said and 12 <= count < 108
    tell(predictor.known[0])
    assert not capsys.readouterr().err


def test_the_papers_way_trains_all_of_a_network(trained, collected, monkeypatch):
    monkeypatch.setattr(tuning, "PARTS", 2)
    monkeypatch.setattr(tuning, "CMD_PASSES", 1)
    said = calibrate(trained, "--method", "cmd")
    assert said.returncode == 0, said.stderr
    ensemble, cache, results = loaded(trained)
    device = known_devices(devices_of(cache), results, results)[-1]
    assert device["tuned"] and device["after"] < device["before"] and device["programs"] == 108
    (before,), (after,) = (
        one.networks.values() for one in (ensemble, on_device(ensemble, device, results))
    )
    pairs = zip(before.parameters(), after.parameters(), strict=True)
    assert not any(old.equal(new) for old, new in pairs)


def test_a_calibration_of_other_weights_is_told_and_not_used(trained, collected, capsys):
    calibrate(trained)
    _, cache, results = loaded(trained)
    path = calibration_of(results, processor())
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "weights": "others"}))
    assert known_devices(devices_of(cache), results, results) == devices_of(cache)
    assert capsys.readouterr().err == (
        f"{path}: for other weights, is not used; make calibrate once more\n"
    )
    del record["devices"][0]["like"]
    path.write_text(json.dumps(record))
    with pytest.raises(DataError, match=r"calibration\.json: devices\[0\]\.like: "):
        known_devices(devices_of(cache), results, results)


def test_tasks_that_say_most_are_of_the_slowest_and_none_of_the_test(trained):
    cache = Cache(trained / "outputs" / COLLECTION / "cache")
    names = cache.names("train", "valid")
    programs = load_programs(cache, all_pairs(cache, names))
    tasks = tasks_to_measure(programs, 3)
    assert len(set(tasks)) == 3 and tasks == tasks_to_measure(programs, 3)
    fastest = {
        name: np.nanmin(load_programs(cache, all_pairs(cache, [name])).seconds) for name in names
    }
    assert set(tasks) <= set(sorted(names, key=lambda name: -fastest[name])[:6])
    assert tasks_to_measure(programs, 10_000) == sorted(names)


def test_caches_that_hold_data_by_level(tmp_path):
    for number, (level, kind, size) in enumerate(
        (("1", "Data", "32K"), ("1", "Instruction", "64K"), ("2", "Unified", "1M"))
    ):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        for name, text in {"level": level, "type": kind, "size": size}.items():
            (folder / name).write_text(text + "\n")
    assert command.cache_sizes(tmp_path) == {"l1_kib": 32, "l2_kib": 1024, "l3_kib": 0}


def test_a_part_that_fails_says_why():
    with pytest.raises(UserError, match="what is wrong"):
        run_part([sys.executable, "-c", "import sys; sys.exit('error: what is wrong')"])


def test_bundled_networks_are_calibrated_where_nothing_is_trained(
    trained, collected, monkeypatch, tmp_path
):
    _, cache, results = loaded(trained)
    chosen = predictor_settings(COLLECTION, trained / "data", None)[1]
    weights.keep(results, chosen, tmp_path / "weights", {"devices": devices_of(cache)})
    monkeypatch.setattr(weights, "BUNDLED", tmp_path / "weights")
    own = tmp_path / "outputs" / COLLECTION
    own.mkdir(parents=True)
    (own / "cache").symlink_to(results / "cache")
    (tmp_path / "data").symlink_to(trained / "data")
    said = calibrate(tmp_path)
    assert said.returncode == 0, said.stderr
    known = known_devices(devices_of(cache), own, tmp_path / "weights" / COLLECTION)
    assert known[-1]["name"] == "mine.avx512.1t"
    assert known_devices(devices_of(cache), own, results) == devices_of(cache)
