"""Tracking is an extra: off, broken or offline, the stage goes on."""

from __future__ import annotations

import subprocess
import sys
import types

import pytest

from lib.tracking import Tracker

from .stages import REPOSITORY, environment


def tracker(folder, identity="0123456789abcdef") -> Tracker:
    return Tracker("train", "layout-xla-default", "fold0", identity, {"epochs": 3}, folder)


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
    fake.run, fake.given = FakeRun(), []

    def init(**keywords):
        fake.given.append(keywords)
        if isinstance(fake.run, Exception):
            raise fake.run
        return fake.run

    fake.init, fake.Settings = init, lambda **keywords: keywords
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    return fake


def use(folder) -> None:
    with tracker(folder) as track:
        track.log({"epoch": 1, "loss": 0.5})
        track.log({"epoch": 2, "loss": 0.25})
        track.summarize({"best_tau": 0.1})


def test_a_run(wandb, tmp_path, capsys):
    use(tmp_path / "outputs")
    (given,) = wandb.given
    assert given["mode"] == "offline"
    assert given["group"] == "layout-xla-default"
    assert given["id"] == "layout-xla-default-fold0-0123456789ab"
    assert given["config"] == {"epochs": 3}
    assert given["dir"] == str(tmp_path / "outputs")
    calls = [(name, args) for name, args, _ in wandb.run.calls if name != "define_metric"]
    assert calls == [
        ("log", ({"epoch": 1, "loss": 0.5},)),
        ("log", ({"epoch": 2, "loss": 0.25},)),
        ("update", ({"best_tau": 0.1},)),
        ("finish", ()),
    ]
    assert wandb.run.calls[-1][2] == {"exit_code": 0}
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


def test_a_missing_wandb_is_one_warning(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setitem(sys.modules, "wandb", None)
    use(tmp_path)
    error = capsys.readouterr().err
    assert error.startswith("warning: W&B is off")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("variables", "mode"),
    [
        ({}, "offline"),
        ({"WANDB_API_KEY": "x" * 40}, "online"),
        ({"WANDB_API_KEY": "x" * 40, "WANDB_MODE": "offline"}, "offline"),
    ],
)
def test_online_only_with_a_key(wandb, tmp_path, monkeypatch, variables, mode):
    monkeypatch.delenv("WANDB_MODE")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    use(tmp_path)
    assert wandb.given[0]["mode"] == mode


def test_a_key_in_netrc(wandb, tmp_path, monkeypatch):
    monkeypatch.delenv("WANDB_MODE")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".netrc").write_text(f"machine api.wandb.ai login user password {'x' * 40}\n")
    (tmp_path / ".netrc").chmod(0o600)
    use(tmp_path)
    assert wandb.given[0]["mode"] == "online"


def test_disabled_imports_no_wandb(tmp_path):
    program = (
        "import sys, pathlib\n"
        "from lib.tracking import Tracker\n"
        f"with Tracker('train', 'c', 'n', 'i', {{}}, pathlib.Path({str(tmp_path)!r})) as t:\n"
        "    t.log({'epoch': 1}); t.summarize({'a': 1})\n"
        "sys.exit('wandb' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, env=environment())
    assert done.returncode == 0
    assert not list(tmp_path.iterdir())


def test_a_real_offline_run_is_written(tmp_path):
    program = (
        "import pathlib\n"
        "from lib.tracking import Tracker\n"
        f"folder = pathlib.Path({str(tmp_path)!r}) / 'outputs'\n"
        "with Tracker('train', 'c', 'n', 'i', {'epochs': 3}, folder) as t:\n"
        "    t.log({'epoch': 1, 'loss': 0.5}); t.summarize({'best_tau': 0.1})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment() | {"WANDB_MODE": "offline"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    (written,) = (tmp_path / "outputs" / "wandb").glob("offline-run-*/run-c-n-i.wandb")
    assert written.stat().st_size > 100
    assert b"best_tau" in written.read_bytes()
