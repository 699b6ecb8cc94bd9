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
from lib.programs.calibrate.networks import covering, telling
from lib.programs.calibrate.tuning import tuned
from lib.programs.devices import calibration_of, known_devices, tell, tuned_weights
from lib.programs.folds import all_pairs
from lib.programs.inputs import devices_of, load_programs
from lib.programs.latency.predict import (
    load_predictor,
    on_device,
    predicted_seconds,
    predictor_settings,
)
from lib.programs.latency.predictor import Predictor
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
    line = ["02_train.py", *flags(root), *TINY, "--fold", 1]
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("WANDB_MODE", "disabled")
        patched.setattr(sys, "argv", [str(one) for one in line])
        runpy.run_path(str(REPOSITORY / line[0]), run_name="__main__")
    return root


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

    monkeypatch.setattr(command, "run", run)
    return ran


def calibrate(root: Path, *more: object):
    return call(command.main, *flags(root), "--tvm", sys.executable, "--core", 0, *more)


def loaded(root: Path):
    where = predictor_settings(COLLECTION, root / "data", None)
    return *load_predictor(root / "outputs", where[1]), root / "outputs" / COLLECTION


def test_a_slower_processor_is_predicted_as_slow(trained, collected):
    said = calibrate(trained, "--networks", 2)
    assert said.returncode == 0, said.stderr
    path = calibration_of(trained / "outputs" / COLLECTION, processor())
    assert said.stdout.splitlines()[-1].endswith(f"; wrote {path}")
    assert [line[2] for line in collected] == ["lib.collect.tvm", "lib.collect.tvm.export"]
    networks = collected[0][collected[0].index("--networks") + 1].split(",")
    ensemble, cache, results = loaded(trained)
    devices = {one["name"]: one for one in known_devices(devices_of(cache), results, results)}
    assert list(devices) == ["cpu.sse2.1t", "cpu.avx512.1t", "mine.sse2.1t", "mine.avx512.1t"]
    assert networks == telling(cache, 2)
    mine = devices["mine.sse2.1t"]
    assert mine["machine"]["cores"] >= 1 and mine["like"] in ("cpu.sse2.1t", "cpu.avx512.1t")
    assert mine["after"] < mine["before"] and mine["factor"] > 1.5
    programs = load_programs(cache, all_pairs(cache, cache.names("test")))
    said = predicted_seconds(ensemble, programs, mine) / programs.seconds[:, 0]
    off = np.abs(said / SLOWER - 1)
    assert off.mean() < 0.5 < np.abs(said / SLOWER / mine["factor"] - 1).mean()
    plain = {name: value for name, value in mine.items() if name != "factor"}
    ratio = predicted_seconds(ensemble, programs, mine) / predicted_seconds(
        ensemble, programs, plain
    )
    np.testing.assert_allclose(ratio, mine["factor"], rtol=1e-6)


def test_latency_and_search_take_the_processors_own_device(trained, collected, capsys):
    calibrate(trained)
    ensemble, cache, results = loaded(trained)
    where = results, results, trained / "data", Path(sys.executable)
    predictor = Predictor(ensemble, devices_of(cache), *where, {})
    device = predictor.device("avx512")
    assert predictor.devices[device] == "mine.avx512.1t"
    tell(predictor.known[device])
    said = capsys.readouterr().err
    assert said.startswith("mine.avx512.1t: calibrated by 108 programs measured there: times ")
    assert said.count("\n") == 1
    tell(predictor.known[0])
    assert not capsys.readouterr().err


def test_networks_are_tuned_where_programs_are_of_another_kind(trained, collected, monkeypatch):
    """What makes programs slow elsewhere makes them slower there: no factor does."""

    def run(line: list[str]) -> None:
        if "lib.collect.tvm.export" in line:
            measured(*map(Path, line[-2:]), slow=2.0)

    monkeypatch.setattr(command, "run", run)
    monkeypatch.setattr(command, "tuned", tuned)
    said = calibrate(trained)
    assert said.returncode == 0, said.stderr
    ensemble, cache, results = loaded(trained)
    device = known_devices(devices_of(cache), results, results)[-1]
    assert device["tuned"] and device["factor"] == 1.0 and device["after"] < device["before"]
    path = tuned_weights(results, device)
    programs = load_programs(cache, all_pairs(cache, cache.names("test")))
    other = on_device(ensemble, device, results)
    found, plain = (predicted_seconds(one, programs, device) for one in (other, ensemble))
    assert np.log(found).std() > 1.1 * np.log(plain).std()
    with pytest.raises(DataError, match=r"tuned: found other networks"):
        on_device(ensemble, {**device, "tuned": "another"}, results)
    path.unlink()
    with pytest.raises(DataError, match="safetensors"):
        on_device(ensemble, device, results)


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
    assert known[-1]["factor"] > 1.5
    assert known_devices(devices_of(cache), own, results) == devices_of(cache)


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
    del record["devices"][0]["factor"]
    path.write_text(json.dumps(record))
    with pytest.raises(DataError, match=r"calibration\.json: devices\[0\]\.factor: "):
        known_devices(devices_of(cache), results, results)


def test_a_collector_that_fails_leaves_no_calibration(trained, tmp_path):
    path = calibration_of(trained / "outputs" / COLLECTION, processor())
    path.unlink(missing_ok=True)
    tvm = tmp_path / "python"
    tvm.write_text('#!/bin/sh\necho "error: no task has enough schedules" >&2\nexit 2\n')
    tvm.chmod(0o755)
    said = calibrate(trained, "--tvm", tvm)
    assert (said.returncode, said.stderr) == (2, "error: no task has enough schedules\n")
    assert not path.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--networks", 0), "--networks 0: must be at least 1"),
        (("--core", 9999), "--core 9999: '9999' is not a core of this machine; choose from "),
        (("--tvm", "nowhere"), "--tvm nowhere: no such file; make calibrate installs TVM"),
    ],
)
def test_what_cannot_be_done_is_one_line(trained, words, said):
    done = calibrate(trained, *words)
    assert done.returncode == 2
    assert said in done.stderr and done.stderr.count("\n") == 1


def test_networks_that_tell_most_are_none_of_the_test(trained):
    cache = Cache(trained / "outputs" / COLLECTION / "cache")
    networks = telling(cache, 2)
    assert len(set(networks)) == 2 and networks == telling(cache, 2)
    every = telling(cache, 10_000)
    assert set(networks) < set(every) == {"net1.w8.b1", "net2.w8.b1", "net3.w8.b1", "net4.w8.b1"}


def test_few_networks_cover_many_tasks():
    called = {"t1": ("a", "b"), "t2": ("b", "c"), "t3": ("d",), "t4": ("a",), "t5": ("a", "e")}
    assert covering(called, 9) == ["a", "b", "d"]
    assert covering(called, 1) == ["a"]


def test_a_part_that_fails_says_why():
    with pytest.raises(UserError, match="what is wrong"):
        command.run([sys.executable, "-c", "import sys; sys.exit('error: what is wrong')"])
