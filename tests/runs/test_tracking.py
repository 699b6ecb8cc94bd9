"""Tracking is an extra: off, broken or offline, the stage goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types

import pytest

from lib.runs import tracking
from lib.runs.tracking import Tracker, epoch_point
from tests.stages import environment, ran


def tracker(folder, **options) -> Tracker:
    identity = "layout-xla-default-train-0-0123456789ab"
    names = {"job_type": "train", "group": "layout-xla-default-e1", "name": "fold 0"}
    config = {"epochs": 3}
    given = {"id": identity, "config": config, "dir": str(folder), "tags": ["data-012345"]}
    return Tracker(**names, **given, **options)


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
    fake.teardown = lambda: None
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.setattr(tracking, "mode_of_runs", lambda: (os.environ["WANDB_MODE"], "a reason"))
    for name in ("DATA", "CACHE"):
        monkeypatch.setenv(f"WANDB_{name}_DIR", "elsewhere")
    monkeypatch.setenv("WANDB_MODE", "offline")
    return fake


def use(folder, **options) -> None:
    track = tracker(folder, **options).start()
    track.log({"epoch": 1, "loss": 0.5})
    track.summarize({"best_tau": 0.1})
    track.finish(failed=True)


def test_a_run(wandb, tmp_path):
    use(tmp_path, bests={"validation/tau": "max"})
    (given,) = wandb.given
    wanted = {"mode": "offline", "group": "layout-xla-default-e1", "name": "fold 0"}
    wanted |= {"id": "layout-xla-default-train-0-0123456789ab", "resume": "allow"}
    wanted |= {"config": {"epochs": 3}, "tags": ["data-012345"], "dir": str(tmp_path)}
    assert given.items() >= wanted.items()
    axes = {args[0]: known for name, args, known in wandb.run.calls if name == "define_metric"}
    assert axes["train/*"] == {"step_metric": "epoch", "hidden": False}
    assert axes["time/*"]["hidden"] and axes["validation/tau"]["summary"] == "max"
    calls = [call for call in wandb.run.calls if call[0] != "define_metric"]
    assert calls == [
        ("log", ({"epoch": 1, "loss": 0.5},), {"step": 1}),
        ("update", ({"best_tau": 0.1},), {}),
        ("finish", (), {"exit_code": 1}),
    ]


@pytest.mark.parametrize("broken", ["", "init", "define_metric", "log", "update", "finish"])
def test_a_broken_wandb_is_one_warning(wandb, tmp_path, capsys, broken):
    wandb.run = OSError("no space left\nmore") if broken == "init" else FakeRun(broken)
    use(tmp_path)
    line = "warning: W&B is off for the rest of this stage: no space left\n"
    assert capsys.readouterr().err == (line if broken else "")
    if broken != "init":
        assert wandb.run.calls[-1][0] == broken or wandb.run.calls[-1][2] == {"exit_code": 1}


def test_offline_runs_are_announced_by_who_announces(wandb, tmp_path, capsys):
    use(tmp_path, announces=True)
    line = f"W&B: offline, a reason; `make wandb-sync` uploads the runs in {tmp_path}/wandb\n"
    assert capsys.readouterr().out == line


def test_a_mode_that_there_is_not_is_one_warning(wandb, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WANDB_MODE", "onlin")
    use(tmp_path)
    assert not wandb.given
    line = "warning: WANDB_MODE=onlin: must be online, offline or disabled; W&B is off\n"
    assert capsys.readouterr().err == line


@pytest.mark.parametrize(
    ("says", "what"),
    [("no route\nmore", "does not answer"), ("HTTP 401: no", "does not accept the key")],
)
def test_a_run_that_is_refused_is_kept_and_one_warning(
    wandb, tmp_path, monkeypatch, capsys, says, what
):
    wandb.refusals = [says]
    monkeypatch.setenv("WANDB_MODE", "online")
    use(tmp_path)
    assert [given["mode"] for given in wandb.given] == ["online", "offline"]
    assert wandb.run.calls[-1][0] == "finish"
    kept = f"the run is kept in {tmp_path}/wandb for `make wandb-sync`: {says.splitlines()[0]}"
    assert capsys.readouterr().err == f"warning: W&B {what}, {kept}\n"


def test_a_run_that_was_deleted_begins_under_another_id(wandb, tmp_path, monkeypatch, capsys):
    wandb.refusals = ["run x was previously created and deleted; try a new run name"]
    monkeypatch.setenv("WANDB_MODE", "online")
    use(tmp_path)
    first, second = wandb.given
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


def run_program(folder, program: str, *words: str, **variables: str) -> subprocess.CompletedProcess:
    """Run Python in ``folder`` with ``track``, a tracker in outputs/ below it, and ``Path``."""
    head = (
        "import sys\nfrom pathlib import Path\n"
        "from lib.runs.tracking import Tracker\n"
        f"folder = Path({str(folder)!r})\n"
        "given = {'job_type': 'train', 'group': 'c-e1', 'name': 'fold 0', 'id': 'c-train-0-abc'}\n"
        "given |= {'config': {'epochs': 3}, 'dir': str(folder / 'outputs')}\n"
    )
    own = environment() | {"HOME": str(folder)} | variables
    return ran([sys.executable, "-c", head + program, *words], cwd=folder, env=own)


def test_disabled_imports_no_wandb(tmp_path):
    program = (
        "t = Tracker(**given).start()\n"
        "t.log({'epoch': 1}); t.summarize({'a': 1})\n"
        "t.page('r', folder); t.artifact('a', 'b', folder); t.finish()\n"
        "sys.exit('wandb' in sys.modules)\n"
    )
    done = run_program(tmp_path, program)
    assert (done.returncode, done.stderr) == (0, "")
    assert not list(tmp_path.iterdir())


MODES = """
import json, os
import wandb
for variables in json.loads(sys.argv[1]):
    if not os.fork():
        from lib.runs.tracking import mode_of_runs
        os.environ.update(variables)
        print(*mode_of_runs(), flush=True)
        os._exit(0)
    os.wait()
"""


def test_online_only_with_a_key_and_as_the_settings_of_wandb_say(tmp_path):
    netrc = tmp_path / ".netrc"
    netrc.write_text(f"machine api.wandb.ai login user password {'x' * 40}\n")
    netrc.chmod(0o600)
    key, cases = {"WANDB_API_KEY": "x" * 40}, {}
    for mode in ("offline", "disabled"):
        (tmp_path / mode).mkdir()
        (tmp_path / mode / "settings").write_text(f"[default]\nmode = {mode}\n")
        cases[f"{mode} as W&B's settings say"] = {**key, "WANDB_CONFIG_DIR": str(tmp_path / mode)}
    none = "offline no key for https://api.wandb.ai (`wandb login` saves one)"
    given = [{}, key, {"NETRC": str(netrc)}, {**key, "WANDB_MODE": "offline"}, *cases.values()]
    wanted = [none, *["online W&B has a key"] * 2, "offline as W&B's settings say", *cases]
    usual = {"WANDB_MODE": "", "NETRC": "none", "WANDB_BASE_URL": "https://api.wandb.ai"}
    done = run_program(tmp_path, MODES, json.dumps(given), **usual)
    assert done.stdout.splitlines() == wanted, done.stderr


WHOLE_RUN = (
    "page = folder / 'page.html'; page.write_text('<p>hi</p>')\n"
    "t = Tracker(**given).start()\n"
    "for epoch in (1, 2, 3):\n"
    "    t.log({'epoch': epoch, 'train/loss': 1 / epoch, 'validation/tau': 0.1 * epoch})\n"
    "t.summarize({'best_tau': 0.3})\n"
    "t.page('report', page)\n"
    "t.artifact('submission-c', 'submission', page)\n"
    "t.artifact('weights-c@gst <svg>', 'model', page)\n"
    "t.finish()\n"
)


def test_a_server_that_does_not_answer_is_one_warning(tmp_path):
    """A key, but nobody at the address: the stage goes on within the time that is given."""
    program = "import lib.runs.tracking\nlib.runs.tracking.INIT_SECONDS = 1\n" + WHOLE_RUN
    variables = {"WANDB_API_KEY": "x" * 40, "WANDB_BASE_URL": "http://127.0.0.1:9"}
    done = run_program(tmp_path, program, WANDB_MODE="online", **variables)
    assert done.returncode == 0
    assert done.stderr.count("warning: W&B does not answer, the run is kept in ") == 1
    assert "Traceback" not in done.stderr
    (path,) = (tmp_path / "outputs" / "wandb").glob("offline-run-*/run-c-train-0-abc.wandb")
    assert list(path.parent.glob("files/media/html/report_*.html"))
    assert not (tmp_path / ".local").exists(), "artifacts wait in the outputs, not in the home"
