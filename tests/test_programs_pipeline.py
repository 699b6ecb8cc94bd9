"""programs-cpu through make and the real stage scripts, on generated programs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import polars as pl
import pytest

from lib.files import locks
from lib.programs.latency.__main__ import main as latency_main
from lib.programs.latency.predictor import GAP, TVM
from lib.programs.messages import OURS
from lib.programs.search.__main__ import main as search_main
from lib.settings.resolved import BUNDLED_TPU
from tests.commands import call
from tests.interpreter import python
from tests.programs.builders import COLLECTION, write_root
from tests.programs.latency.networks import write_network
from tests.stages import REPOSITORY, SCRIPTS, environment, make, script, stages_in
from tests.test_pages import PYTHON, python_of

PLUS = "--folds-total 2 --channels 16"
PAPER = f"{PLUS} --layers 1 --heads 2"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of results, which tests leave as it is, what make said, and how to make again."""
    root = tmp_path_factory.mktemp("programs")
    write_root(root / "data", tasks=15, programs=16)
    given = {"COLLECTION": COLLECTION, "DATA": root / "data", "OUTPUTS": root / "out"}
    given |= {"FOLDS": 2, "EPOCHS": 2, "JOBS": 1, "ARGS": PLUS}

    def again(**changes: object) -> str:
        return make("all", **{**given, **changes})

    return root / "out", again(), again


def test_every_stage_ran_once(run):
    _, output, again = run
    assert stages_in(output) == list(SCRIPTS)
    for line in ("preprocess: ", "train: ", "infer: ", "ensemble: "):
        assert f"\n{line}{COLLECTION}" in output
    assert "validation mape" in output and "15 tasks in " in output
    assert stages_in(again()) == []


def test_predictions_stand_beside_measured_latencies(run):
    folder, _, _ = run
    rows = pl.read_csv(folder / COLLECTION / "predictions.csv")
    metrics = json.loads((folder / COLLECTION / "metrics.json").read_text())
    error = (rows["prediction"] / rows["latency"] - 1).abs()
    own = rows["split"] == "test"
    found = metrics["test"]["groups"]["all"]["all"]["mape"]
    assert error.filter(own).mean() == pytest.approx(found, rel=1e-4)
    assert set(rows["split"]) == {"test", "valid"} and error.is_finite().all()


def test_the_report_has_errors_by_device_and_operator(run):
    folder, _, _ = run
    page = (folder / COLLECTION / "report.html").read_text()
    for word in ("Predicted against measured latency", "cpu.avx512.1t", "softmax", "noise floor"):
        assert word in page
    assert "Predicted rank" not in page and "network ranks" not in page


def test_results_can_be_looked_at(run):
    folder, _, again = run
    again(MODEL="cdmpp", ARGS=PAPER, FOLDS=1)
    given = {"COLLECTION": COLLECTION, "OUTPUTS": folder, "DATA": folder.parent / "data"}
    output = make("status", **given, FOLDS=2, EPOCHS=2, ARGS=PLUS)
    assert "MAPE" in output
    assert output.count("up to date") == 2, output
    both = {"A": folder / COLLECTION, "B": folder / f"{COLLECTION}@cdmpp"}
    assert "MAPE" in make("compare", **both)


def test_changed_measurements_are_read_again_and_split_as_is_asked_for(run, tmp_path):
    shutil.copytree(run[0], tmp_path / "out")
    folder, data, again = tmp_path / "out" / COLLECTION, tmp_path / "data", run[2]
    before = (folder / "cache" / "manifest.json").read_text()
    write_root(data, tasks=15, programs=16, seed=1)
    given = {"OUTPUTS": tmp_path / "out", "DATA": data}
    assert stages_in(again(**given, ARGS=f"{PLUS} --split random")) == list(SCRIPTS)
    assert (folder / "cache" / "manifest.json").read_text() != before
    rows = pl.read_csv(folder / "predictions.csv")
    assert (rows["split"] == "test").mean() == pytest.approx(1 / 3, abs=0.12)  # one of three tenths


@pytest.fixture
def latency(run, tmp_path):
    """A function that asks how long a network takes; in place of TVM, a file is copied."""
    folder, _, _ = run
    network = write_network(tmp_path / "network.npz")
    refusing = '[ "$3" != wrong ] || { echo "error: no such network" >&2; exit 2; }'
    tvm = script(tmp_path / "tvm", f'#!/bin/sh\n{refusing}\ncp {network} "$4"\n')

    def ask(*words: object, **changes: object):
        given = {"--outputs": folder, "--data": folder.parent / "data", "--tvm": tvm, **changes}
        flags = [word for pair in given.items() for word in pair]
        return call(latency_main, *words, *flags)

    return ask


def test_a_networks_latency_is_the_replay_of_its_programs(run, latency):
    said = latency("any", 1, "sse2", "--json")
    assert said.returncode == 0, said.stderr
    found = json.loads(said.stdout)
    assert (found["network"], found["device"]) == ("diamond.b1", "cpu.sse2.1t")
    assert found["calls"] == 4 and len(found["tasks"]) == 3
    total = sum(one["seconds"] * one["calls"] for one in found["tasks"])
    gaps = 4 * GAP * 1e-6
    assert found["replayed_seconds"] == pytest.approx(total + gaps, rel=1e-4)
    assert found["error_networks"] == 5
    assert found["low"] <= found["seconds"] <= found["high"]
    gap = json.loads(latency("any", 1, "sse2", "--json", "--gap", "1000").stdout)
    assert gap["replayed_seconds"] == pytest.approx(total + 4e-3, rel=1e-4)
    text = latency("any", 1, "avx512").stdout
    assert "latency: diamond.b1 on cpu.avx512.1t: " in text
    assert "task learned" in text


@pytest.mark.parametrize(
    ("words", "changes", "said"),
    [
        (("any", 1, "neon"), {}, "device 'neon': neither an instruction set (sse2, avx512)"),
        (("any", -1, "sse2"), {}, "--batch -1: must be at least 0"),
        (("any", 1, "sse2"), {"--gap": "nan"}, "--gap nan: must be at least 0"),
        (("any", 1, "sse2"), {"--budget": 0}, "--budget 0: must be at least 1"),
        (("any", 1, "sse2"), {"--tvm": "nowhere"}, "--tvm nowhere: no such file"),
        (("any", 1, "sse2"), {"--outputs": "x", "--model": "cdmpp"}, "@cdmpp: nothing is trained"),
        (("any", 1, "sse2"), {"--model": "gst"}, "--model 'gst': not one of cdmpp-plus, cdmpp"),
        (("any", 1, "sse2"), {"--collection": "tile-xla"}, "is of kind tile"),
        (("wrong", 1, "sse2"), {}, "error: no such network"),
    ],
)
def test_what_has_no_latency_is_one_line(latency, words, changes, said):
    if "--collection" in changes:
        changes = {**changes, "--data": BUNDLED_TPU}
    done = latency(*words, **changes)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ") and said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.fixture
def search(run, tmp_path, monkeypatch):
    """A function that searches; in place of TVM, a program makes schedules up."""
    folder, _, _ = run
    monkeypatch.setattr(locks, "CORES", tmp_path)  # other searches do not matter
    text = f'#!/bin/sh\nexec {sys.executable} -m tests.programs.search.half "$@"\n'
    tvm = script(tmp_path / "tvm", text)

    def ask(network: str, **changes: object):
        given = {"--outputs": folder, "--data": folder.parent / "data", "--tvm": tvm, **changes}
        flags = [word for pair in given.items() for word in pair]
        return call(search_main, "--network", network, "--device", "sse2", *flags)

    return ask


def found_by(run, name: str) -> dict:
    return json.loads((run[0] / COLLECTION / "search" / name / "search.json").read_text())


@pytest.mark.parametrize("model", ["predictor", "random"])
def test_a_search_ends_with_its_budget_and_says_what_it_found(run, search, model):
    said = search("net", **{"--budget": 10, "--cost-model": model})
    assert said.returncode == 0, said.stderr
    assert "the network 1 ms, off by 3e-07; PyTorch 5 ms, 5.00 times as long" in said.stdout
    assert "warning: other work had the core for 50% of the time" in said.stderr
    found = found_by(run, "net.sse2" + (".random" if model == "random" else ""))
    assert [one["operators"] for one in found["tasks"]] == ["conv2d", "matmul"]
    assert [len(one["seconds"]) for one in found["tasks"]] == [10, 10]
    assert found["whole"] == {OURS: 1e-3, "PyTorch": 5e-3}


def test_a_search_that_was_killed_goes_on(run, search):
    lines = []
    for _ in range(3):
        lines.append(search("dying", **{"--budget": 12, "--seed": 5}))
    assert [one.returncode for one in lines] == [2, 2, 0]
    assert lines[0].stderr.count("\n") == 1
    wanted = found_by(run, "dying.sse2")["tasks"]
    assert [len(one["seconds"]) for one in wanted] == [12, 12]


def test_a_search_that_cannot_begin_says_why_in_one_line(search):
    said = search("wrong")
    assert (said.returncode, said.stderr) == (2, "error: no such network\n")
    assert "--budget -1" in search("net", **{"--budget": -1}).stderr
    assert "neither an instruction set" in search("net", **{"--device": "neon"}).stderr


needs_tvm = pytest.mark.skipif(
    not (REPOSITORY / TVM).exists(), reason="needs TVM, which make latency installs"
)


@pytest.fixture
def printed(run, tmp_path):
    """What a program of the page prints, where a predictor is trained."""
    folder, _, _ = run
    (tmp_path / "outputs").symlink_to(folder)

    def ask(interpreter: str, program: str) -> str:
        (tmp_path / "program.py").write_text(program)
        given = {"cwd": tmp_path, "env": environment(), "capture_output": True, "text": True}
        done = subprocess.run([interpreter, "program.py"], check=False, **given)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return ask


@needs_tvm
def test_a_networks_latency_from_python(printed):
    assert 1e-9 < float(printed(python(), python_of(PYTHON)[2])) < 1e3


@needs_tvm
def test_a_tuner_of_ones_own_asks_the_predictor(printed):
    """Without TVM's intrinsics, which take half a minute to import; these rules use none."""
    ahead = "import lib.collect.tvm.compiler\n"
    said = printed(str(REPOSITORY / TVM), ahead + python_of(PYTHON)[3])
    scores = [float(one) for one in said.strip(" []\n").split()]
    assert len(scores) == 8 and all(0 < one <= 1 for one in scores)
