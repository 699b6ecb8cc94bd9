"""Tracking is an extra: off, broken or offline, the stage goes on."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import types

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.runs import tracking
from lib.runs.tracking import Tracker, epoch_point, wandb_table
from tests.stages import LONGEST, environment


def tracker(folder, **options) -> Tracker:
    identity = "layout-xla-default-train-0-0123456789ab"
    values = ("train", "layout-xla-default-e1", "fold 0", identity, {"epochs": 3}, folder)
    return Tracker(*values, tags=["data-012345"], **options)


class FakeRun:
    """What wandb.init gives, remembering calls; fails in the method named ``broken``."""

    def __init__(self, broken=None):
        self.broken, self.calls, self.summary = broken, [], self

    def __getattr__(self, name):
        def call(*args, **keywords):
            self.calls.append((name, args, keywords))
            if name == self.broken:
                raise OSError("no space left\nTraceback of wandb")

        return call


@pytest.fixture
def wandb(monkeypatch):
    """A stand-in for wandb; set ``fake.run`` to what init gives, or to an exception."""
    fake = types.ModuleType("wandb")
    fake.run, fake.given, fake.refusals = FakeRun(), [], []

    def init(**keywords):
        fake.given.append(keywords)
        if isinstance(fake.run, Exception):
            raise fake.run
        if keywords["mode"] == "online" and fake.refusals:
            raise OSError(fake.refusals.pop())
        return fake.run

    fake.init, fake.Settings = init, lambda **keywords: keywords
    fake.teardown = lambda: fake.given.append("torn down")
    fake.Table = lambda columns, data, dtype: {"columns": columns, "data": data}
    fake.Html = lambda *values, **keywords: keywords
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.setattr(tracking, "mode_of_runs", lambda: (os.environ["WANDB_MODE"], "a reason"))
    for name in ("DATA", "CACHE"):
        monkeypatch.setenv(f"WANDB_{name}_DIR", "elsewhere")
    monkeypatch.setenv("WANDB_MODE", "offline")
    return fake


def use(folder) -> None:
    with tracker(folder) as track:
        track.log({"epoch": 1, "loss": 0.5})
        track.log({"epoch": 2, "loss": 0.25})
        track.summarize({"best_tau": 0.1})
        track.table("graphs", pl.DataFrame({"graph": ["a"], "tau": [0.1]}))


def test_a_run(wandb, tmp_path, capsys):
    use(tmp_path / "outputs")
    (given,) = wandb.given
    assert given["mode"] == "offline"
    assert given["group"] == "layout-xla-default-e1"
    assert given["id"] == "layout-xla-default-train-0-0123456789ab"
    assert (given["name"], given["job_type"], given["resume"]) == ("fold 0", "train", "allow")
    assert given["config"] == {"epochs": 3}
    assert given["tags"] == ["data-012345"]
    assert given["dir"] == str(tmp_path / "outputs")
    calls = [(name, args) for name, args, _ in wandb.run.calls if name != "define_metric"]
    assert calls == [
        ("log", ({"epoch": 1, "loss": 0.5},)),
        ("log", ({"epoch": 2, "loss": 0.25},)),
        ("update", ({"best_tau": 0.1},)),
        ("log", ({"graphs": {"columns": ["graph", "tau"], "data": [("a", 0.1)]}},)),
        ("finish", ()),
    ]
    assert wandb.run.calls[-1][2] == {"exit_code": 0}
    steps = [keywords["step"] for name, _, keywords in wandb.run.calls if "step" in keywords]
    assert steps == [1, 2]
    assert capsys.readouterr().err == ""


def test_a_failed_stage_is_a_failed_run(wandb, tmp_path):
    with pytest.raises(RuntimeError), tracker(tmp_path):
        raise RuntimeError
    assert wandb.run.calls[-1] == ("finish", (), {"exit_code": 1})


@pytest.mark.parametrize("broken", ["init", "define_metric", "log", "update", "finish"])
def test_a_broken_wandb_is_one_warning(wandb, tmp_path, capsys, broken):
    wandb.run = OSError("no space left\nmore") if broken == "init" else FakeRun(broken)
    use(tmp_path)
    error = capsys.readouterr().err
    assert error.startswith("warning: W&B is off for the rest of this stage: no space left\n")
    assert error.count("\n") == 1
    if broken != "init":
        assert wandb.run.calls[-1][0] == broken  # not called again after it


def test_a_mode_that_there_is_not_is_one_warning(wandb, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WANDB_MODE", "onlin")
    use(tmp_path)
    assert not wandb.given
    line = "warning: WANDB_MODE=onlin: must be online, offline or disabled; W&B is off\n"
    assert capsys.readouterr().err == line


def test_offline_runs_are_announced_by_who_announces(wandb, tmp_path, capsys):
    with tracker(tmp_path, announces=True):
        pass
    line = f"W&B: offline, a reason; `make wandb-sync` uploads the runs in {tmp_path}/wandb\n"
    assert capsys.readouterr().out == line


def test_a_server_that_does_not_answer_is_waited_for_once_a_make(
    wandb, tmp_path, monkeypatch, capsys
):
    """And every stage keeps its run."""
    wandb.refusals = ["no route\nmore"]
    monkeypatch.setenv("WANDB_MODE", "online")
    for make, modes in (("1", ["online", "torn down", "offline"]), ("1", ["offline"])):
        wandb.given.clear()
        monkeypatch.setenv("TGRAPH_MAKE", make)
        use(tmp_path)
        assert [one if isinstance(one, str) else one["mode"] for one in wandb.given] == modes
        assert wandb.run.calls[-1][0] == "finish"
    line = capsys.readouterr().err
    assert line.startswith("warning: W&B does not answer, runs are kept in ")
    assert line.endswith("/wandb for `make wandb-sync`: no route\n") and line.count("\n") == 1
    monkeypatch.setenv("TGRAPH_MAKE", "2")
    use(tmp_path)
    assert wandb.given[-1]["mode"] == "online"


def test_a_key_that_is_refused_is_one_warning(wandb, tmp_path, monkeypatch, capsys):
    wandb.refusals = ["HTTP 401: unauthorized"]
    monkeypatch.setenv("WANDB_MODE", "online")
    use(tmp_path)
    assert wandb.given[-1]["mode"] == "offline"
    line = capsys.readouterr().err
    assert line.startswith("warning: W&B does not accept the key, ") and line.count("\n") == 1


def test_a_run_that_was_deleted_begins_under_another_id(wandb, tmp_path, monkeypatch, capsys):
    wandb.refusals = ["run x was previously created and deleted; try a new run name"]
    monkeypatch.setenv("WANDB_MODE", "online")
    use(tmp_path)
    first, _, second = wandb.given
    assert second["mode"] == "online" and second["id"] != first["id"]
    assert second["id"].startswith(first["id"]) and capsys.readouterr().err == ""


def test_a_sweeps_agent_gives_a_tag_and_no_identity(wandb, tmp_path, monkeypatch):
    for name in tracking.OF_A_SWEEP:
        monkeypatch.setenv(name, "s1")
    use(tmp_path)
    assert wandb.given[0]["tags"] == ["data-012345", "sweep-s1"]
    assert not set(tracking.OF_A_SWEEP) & os.environ.keys()


def test_a_row_of_history_is_a_point_by_epoch():
    row = {"epoch": 3, "loss": 0.5, "validation_tau": 0.2, "validation_top_1_slowdown": 0.1}
    row |= {"seconds": 2.0, "validation_seconds": 1.0, "configurations_per_second": 9.0}
    assert epoch_point(row) == {
        "epoch": 3,
        "train/loss": 0.5,
        "validation/tau": 0.2,
        "validation/top_1_slowdown": 0.1,
        "time/seconds": 2.0,
        "time/validation_seconds": 1.0,
        "time/configurations_per_second": 9.0,
    }


CELLS = {
    pl.Float64: st.floats(),
    pl.Int64: st.integers(-(2**63), 2**63 - 1),
    pl.String: st.text(max_size=5),
    pl.Boolean: st.booleans(),
}
COLUMN = st.sampled_from(list(CELLS)).flatmap(
    lambda kind: st.lists(CELLS[kind] | st.none(), min_size=4, max_size=4).map(
        lambda values: pl.Series(values, dtype=kind)
    )
)


@settings(deadline=None, max_examples=50)
@given(st.lists(COLUMN, max_size=4), st.integers(0, 4))
def test_a_table_for_wandb_is_json_with_numbers_as_numbers(columns, count):
    rows = pl.DataFrame({f"column {place}": one for place, one in enumerate(columns)}).head(count)
    table = wandb_table(rows)
    assert table.columns == rows.columns
    told = json.loads(json.dumps(table.data, allow_nan=False))
    kept = [
        [None if isinstance(v, float) and not math.isfinite(v) else v for v in row]
        for row in rows.rows()
    ]
    assert told == kept


def read_run(path):
    from tests import wandb_reader  # late, with W&B: each process of tests imports this

    return wandb_reader.read_run(path)


def run_program(folder, program: str, **variables: str) -> subprocess.CompletedProcess:
    """Run Python in ``folder`` with ``track``, a tracker in outputs/ below it, and ``Path``."""
    head = (
        "import sys\nfrom pathlib import Path\nimport polars as pl\n"
        "from lib.runs.tracking import Tracker\n"
        f"folder = Path({str(folder)!r})\n"
        "given = ('train', 'c-e1', 'fold 0', 'c-train-0-abc', {'epochs': 3}, folder / 'outputs')\n"
    )
    return subprocess.run(
        [sys.executable, "-c", head + program],
        cwd=folder,
        env=environment() | {"HOME": str(folder)} | variables,
        capture_output=True,
        text=True,
        timeout=LONGEST,
    )


def test_disabled_imports_no_wandb(tmp_path):
    program = (
        "with Tracker(*given) as t:\n"
        "    t.log({'epoch': 1}); t.summarize({'a': 1}); t.table('t', pl.DataFrame({'a': [1]}))\n"
        "    t.page('r', folder); t.artifact('a', 'b', folder)\n"
        "sys.exit('wandb' in sys.modules)\n"
    )
    done = run_program(tmp_path, program)
    assert (done.returncode, done.stderr) == (0, "")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("variables", "netrc", "mode"),
    [
        ({}, False, "offline"),
        ({"WANDB_API_KEY": "x" * 40}, False, "online"),
        ({"WANDB_API_KEY": "x" * 40, "WANDB_MODE": "offline"}, False, "offline"),
        ({}, True, "online"),
    ],
)
def test_online_only_with_a_key(tmp_path, variables, netrc, mode):
    if netrc:
        path = tmp_path / ".netrc"
        path.write_text(f"machine api.wandb.ai login user password {'x' * 40}\n")
        path.chmod(0o600)
    program = "from lib.runs.tracking import mode_of_runs\nprint(mode_of_runs()[0])"
    given = {"WANDB_MODE": "", "NETRC": str(tmp_path / ".netrc"), **variables}
    done = run_program(tmp_path, program, **given)
    assert (done.stdout, done.returncode) == (f"{mode}\n", 0), done.stderr


WHOLE_RUN = (
    "page = folder / 'page.html'; page.write_text('<p>hi</p>')\n"
    "with Tracker(*given) as t:\n"
    "    for epoch in (1, 2, 3):\n"
    "        t.log({'epoch': epoch, 'train/loss': 1 / epoch, 'validation/tau': 0.1 * epoch})\n"
    "    t.summarize({'best_tau': 0.3})\n"
    "    t.table('graphs', pl.DataFrame({'graph': ['a', 'b'], 'tau': [0.1, None], 'n': [1, 2]}))\n"
    "    t.page('report', page)\n"
    "    t.artifact('submission-c', 'submission', page)\n"
    "    t.artifact('weights-c@gst <svg>', 'model', page)\n"
)


def test_a_real_offline_run_reads_back(tmp_path):
    done = run_program(tmp_path, WHOLE_RUN, WANDB_MODE="offline")
    assert (done.returncode, done.stderr) == (0, "")
    folder = tmp_path / "outputs" / "wandb"
    (path,) = folder.glob("offline-run-*/run-c-train-0-abc.wandb")
    run = read_run(path)
    assert (run.about.run_id, run.about.run_group) == ("c-train-0-abc", "c-e1")
    assert (run.about.job_type, run.about.display_name) == ("train", "fold 0")
    assert run.about.project == "tgraph"
    assert run.config["epochs"] == 3
    assert run.axes == dict.fromkeys(("train/*", "validation/*", "time/*"), "epoch")
    assert run.column("train/loss") == [1, 0.5, pytest.approx(1 / 3)]
    assert run.column("epoch") == [1, 2, 3]
    points = [row for row in run.history if "train/loss" in row]
    assert [row["_step"] for row in points] == [1, 2, 3]
    assert run.summary["best_tau"] == 0.3
    assert run.column("graphs/nrows") == [2]
    assert run.column("report/_type") == ["html-file"]
    assert run.artifacts["submission-c"] == "submission"
    assert run.artifacts["weights-c-gst--svg-"] == "model"
    (table,) = folder.glob(f"offline-run-*/files/{run.column('graphs/path')[0]}")
    assert json.loads(table.read_text(), parse_constant=pytest.fail) == {
        "columns": ["graph", "tau", "n"],
        "data": [["a", 0.1, 1], ["b", None, 2]],
    }
    assert run.exit_code == 0
    assert not (tmp_path / ".local").exists(), "artifacts wait in the outputs, not in the home"


def test_a_server_that_does_not_answer_is_one_warning(tmp_path):
    """A key, but nobody at the address: the stage goes on within the time that is given."""
    program = "import lib.runs.tracking\nlib.runs.tracking.INIT_SECONDS = 1\n" + WHOLE_RUN
    variables = {"WANDB_API_KEY": "x" * 40, "WANDB_BASE_URL": "http://127.0.0.1:9"}
    done = run_program(tmp_path, program, WANDB_MODE="online", **variables)
    assert done.returncode == 0
    assert done.stderr.count("warning: W&B does not answer, runs are kept in ") == 1
    assert "Traceback" not in done.stderr
    (path,) = (tmp_path / "outputs" / "wandb").glob("offline-run-*/run-c-train-0-abc.wandb")
    assert read_run(path).column("epoch") == [1, 2, 3]
