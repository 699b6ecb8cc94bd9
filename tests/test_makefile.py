"""What make starts when something changes, and which stages work; Python is a stand-in for them."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.builders import COLLECTION
from tests.pretended import STAND_IN
from tests.stages import SCRIPTS, make, run_make, script
from tests.stages import stages_in as started
from tests.synthetic import write_collection


def worked(said: str) -> list[str]:
    """The stages that did more than look."""
    return [script for script in SCRIPTS if f"worked: {script}" in said]


def make_in(folder, *arguments: str, **variables: object) -> str:
    given = {"OUTPUTS": folder / "out", "DATA": folder / "data", "FOLDS": 2, **variables}
    return make(*(arguments or ("all",)), venv=folder / "venv", **given)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder where everything is made."""
    folder = tmp_path_factory.mktemp("made")
    script(folder / "venv" / "bin" / "python", STAND_IN)
    (folder / "venv" / ".ready").touch()  # for makes that make starts
    write_collection(folder / "data", COLLECTION, train=2, valid=1, test=0)
    assert worked(make_in(folder)) == list(SCRIPTS)
    return folder


@pytest.fixture
def run(made, tmp_path):
    """A function that makes in a copy of it, of the same raw files unless there are others."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("data"))

    def run(*arguments: str, **variables: object) -> str:
        own = tmp_path / "data"
        given = {"DATA": own if own.exists() else made / "data", **variables}
        return make_in(tmp_path, *arguments, **given)

    return run


@pytest.fixture
def data(run, made, tmp_path):
    """Raw files to change, which stage 1 has looked at."""
    shutil.copytree(made / "data", tmp_path / "data")
    assert worked(run()) == []
    return tmp_path / "data"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"EPOCHS": 3, "JOBS": 1}, SCRIPTS[1:]),
        ({"MODEL": "tgraph-plus", "SEED": 0, "JOBS": 1}, ()),  # as they are by default
        ({"ARGS": "--inference-configurations 64"}, SCRIPTS[2:]),
        ({"FOLDS": 1}, SCRIPTS[3:]),
    ],
)
def test_a_changed_variable_reruns_the_stages_that_read_it(run, variables, expected):
    assert worked(run(**variables)) == list(expected)


def test_a_typo_costs_nothing(run, tmp_path):
    before = sorted((p, p.stat().st_mtime_ns) for p in (tmp_path / "out").rglob("*"))
    with pytest.raises(AssertionError, match=r"\*\*\* error: argument --epochs: invalid .* '2x'"):
        run(EPOCHS="2x")
    assert sorted((p, p.stat().st_mtime_ns) for p in (tmp_path / "out").rglob("*")) == before
    assert "Nothing to be done" in run()


def test_results_of_other_times_are_looked_at_once(run, tmp_path):
    """As after a copy, or a cache that was made again to the same bytes."""
    manifest = next((tmp_path / "out" / COLLECTION).glob("cache*/manifest.json"))
    manifest.touch()
    said = run()
    assert (started(said), worked(said)) == (list(SCRIPTS[1:]), [])
    assert "Nothing to be done" in run()


def test_other_values_in_the_settings_file_rerun_the_stages_and_other_comments_do_not(
    run, tmp_path
):
    path = tmp_path / "settings.toml"
    path.write_text("learning_rate = 0.1\n")
    said = run(SETTINGS=path)
    assert worked(said) == list(SCRIPTS[1:]) and f" --settings {path} " in said
    path.write_text("# the same\nlearning-rate = 0.1\n")
    assert started(run("-n", "all", SETTINGS=path)) == []
    path.write_text("learning_rate = 0.2\n")
    assert started(run("-n", "all", SETTINGS=path)) == list(SCRIPTS[1:])


def test_other_collections_that_are_learned_from_are_made_first(run, data, tmp_path):
    other = "layout-nlp-random"
    write_collection(data, other, train=2, valid=1, test=0)
    assert started(run("-n", "all")) == []  # a model learns from its own collection alone
    said = run("-n", "all", ALSO="all")
    assert started(said) == list(SCRIPTS)
    assert f"01_preprocess.py --outputs {tmp_path / 'out'} --collection {other} " in said
    assert not (tmp_path / "out" / other).exists()
    assert worked(run(ALSO="all")) == list(SCRIPTS)
    assert (tmp_path / "out" / other / "cache" / "manifest.json").exists()
    write_collection(data, other, train=3, valid=1, test=0)
    fewer = {"ALSO": "all", "ARGS": "--folds-total 2"}  # than make has by default
    assert worked(run(**fewer)) == list(SCRIPTS), "it has another graph"


def test_flags_reach_the_stages(run):
    given = {"MODEL": "tgraph", "EPOCHS": 7, "TTA": 8, "HOPS": 2, "SEED": 9}
    given["ARGS"] = "--channels 32"
    lines = run("-n", "all", **given).splitlines()
    found = {name: [line for line in lines if f" {name} " in line] for name in SCRIPTS}
    assert [len(found[name]) for name in SCRIPTS] == [1, 2, 2, 1]
    for line in (line for name in SCRIPTS for line in found[name]):
        assert f"--collection {COLLECTION} " in line
        assert "--seed 9" in line
        assert "--channels 32" in line
        assert "--hops 2" in line
        assert "--epochs 7" in line and "--permutations 8" in line  # also stage 1, for its group
        assert ("--folds 2" in line) == ("02_" in line or "04_" in line)


def test_a_raw_file_changed_in_place_reruns_everything(run, data):
    """Its folder's time stays as it was; its own may be older than all that was made from it."""
    path = data / "npz" / "layout" / "xla" / "default" / "valid" / "valid_0.v1.0.npz"
    content, old = path.read_bytes(), path.stat().st_mtime_ns - 10**12
    path.write_bytes(b"x" * len(content))
    os.utime(path, ns=(old, old))
    assert worked(run()) == list(SCRIPTS)
    path.rename(path.with_name("renamed.npz"))
    assert started(run("-n", "all")) == list(SCRIPTS)


def test_a_raw_file_of_another_time_alone_is_looked_at_once(run, data, tmp_path):
    """So is a copy of all of them, as of a data root that was fetched anew."""
    root = data / "npz"
    root.rename(tmp_path / "before")
    shutil.copytree(tmp_path / "before", root, copy_function=shutil.copyfile)
    said = run()
    assert (started(said), worked(said)) == ([SCRIPTS[0]], [])
    assert "Nothing to be done" in run()


def test_a_dry_run_keeps_nothing(run, tmp_path):
    before = sorted((p, p.stat().st_mtime_ns) for p in tmp_path.rglob("*"))
    run("-n", "all", EPOCHS=3)
    assert sorted((p, p.stat().st_mtime_ns) for p in tmp_path.rglob("*")) == before


def test_a_failed_stage_leaves_no_target(run, tmp_path):
    scores = tmp_path / "out" / COLLECTION / "scores"
    shutil.rmtree(scores)
    python = tmp_path / "venv" / "bin" / "python"
    python.write_text(STAND_IN.replace("exec", "case $1 in 03_*) exit 1;; esac\nexec"))
    with pytest.raises(AssertionError, match="Error 1"):
        run(JOBS=1)
    assert not (scores / "fold_0.parquet").exists()
    python.write_text(STAND_IN)
    assert started(run()) == list(SCRIPTS[2:])


# Stands for Slurm's: notes what it was given and where it was called, then runs the command.
SRUN = """#!/bin/sh
printf '<%s>' "$@" >>"$0.calls"
echo " turns:$TGRAPH_GPU_TURNS" >>"$0.calls"
case "$*" in *"${FAILING:-none}"*) exit 7;; *"${LEAVING:-none}"*) exit 0;; esac
shift 2
exec "$@"
"""


@pytest.fixture
def srun(made, tmp_path):
    """A folder where nothing is made yet, with a function that makes on a cluster there."""
    for name in ("venv", "data"):
        shutil.copytree(made / name, tmp_path / name)
    path = script(tmp_path / "bin" / "srun", SRUN)

    def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess:
        given = {"ON": "srun -c2 --comment='my run'", "FOLDS": 2, "JOBS": 1}
        given |= {"OUTPUTS": tmp_path / "out", "DATA": tmp_path / "data"}
        environ["PATH"] = f"{path.parent}:{os.environ['PATH']}"
        return run_make(*arguments, "all", venv=tmp_path / "venv", environ=environ, **given)

    return run


def test_on_stands_before_the_command_of_every_stage(srun, tmp_path):
    python = tmp_path / "venv" / "bin" / "python"
    shown = started(srun("-n").stdout.replace("srun -c2 --comment='my run' ", ""))
    assert shown == list(SCRIPTS) and not (tmp_path / "out").exists()
    done = srun()
    assert done.returncode == 0, done.stderr
    calls = (tmp_path / "bin" / "srun.calls").read_text().splitlines()
    scripts = [SCRIPTS[0], *SCRIPTS[1:3] * 2, SCRIPTS[3]]
    begin = f"<-c2><--comment=my run><{python}>"
    assert sorted(c.removeprefix(begin).split(">")[0][1:] for c in calls) == sorted(scripts)
    assert all(c.endswith(" turns:") for c in calls)  # whoever places jobs places GPUs
    assert not any("<--jobs>" in c for c in calls)  # nor are this machine's cores those of another
    assert "Nothing to be done" in srun().stdout


@pytest.mark.parametrize(
    ("environ", "line"),
    [
        ({"FAILING": "03_infer"}, "Error 7"),
        # As `ray job submit` may, when it loses sight of a job.
        ({"LEAVING": "03_infer"}, "fold_0.parquet: not there; has its job ended?"),
    ],
)
def test_a_job_that_fails_elsewhere_or_is_left_ends_make(srun, environ, line):
    done = srun(**environ)
    assert done.returncode == 2 and line in done.stderr
    assert "04_ensemble.py" not in done.stdout
    assert worked(srun().stdout)[-1] == SCRIPTS[3]
