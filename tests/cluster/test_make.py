"""make with EXECUTOR: the same targets, made elsewhere; engines that are not there, interruptions.

Stages are stand-ins; the engine is submitit's own for one machine.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.builders import COLLECTION
from tests.pretended import STAND_IN
from tests.stages import LONGEST, REPOSITORY, make_command, make_without_setup
from tests.stages import environment as clean
from tests.synthetic import write_collection

# Before a stand-in makes its target: what the test wants of it, itself. Modules are real.
HOOK = """#!/bin/sh
[ "$1" != -m ] || exec %(python)s "$@"
[ ! -e %(folder)s/$1.sh ] || . %(folder)s/$1.sh
"""
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
TARGETS = (
    *("cache/manifest.json", "fold_0/metrics.json", "fold_1/metrics.json"),
    *("scores/fold_0.parquet", "scores/fold_1.parquet", "submission.csv"),
)


@pytest.fixture
def folder(environment, tmp_path) -> Path:
    """A folder with data, an environment of stand-ins, and the cluster's, which is real."""
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    hook = HOOK % {"folder": tmp_path, "python": sys.executable}
    python.write_text(STAND_IN.replace("#!/bin/sh\n", hook))
    python.chmod(0o755)
    (tmp_path / "venv" / ".ready").touch()  # for makes that make starts
    (tmp_path / "venv-cluster").symlink_to(environment)
    write_collection(tmp_path / "data", COLLECTION, train=2, valid=1, test=0)
    return tmp_path


def command(folder: Path, *goals: str, **variables: object) -> list[str]:
    """Make's command line; what it starts leaves the environment alone as well."""
    venv = folder / "venv"
    given = {"OUTPUTS": folder / "out", "DATA": folder / "data", "FOLDS": 2, "HOPS": 1}
    given |= {"EXECUTOR": "local", "SUBMAKE": " ".join(make_without_setup(venv)), **variables}
    return make_command(*goals, venv=venv, **given)


def run(folder: Path, *goals: str, **variables: object) -> subprocess.CompletedProcess:
    line = command(folder, *goals, **variables)
    return subprocess.run(
        line, cwd=REPOSITORY, env=clean(), capture_output=True, text=True, timeout=LONGEST
    )


def before(folder: Path, script: str, line: str) -> None:
    """Let a stand-in do something first."""
    (folder / f"{script}.sh").write_text(f"{line}\n")


def made(output: str) -> list[str]:
    return [line.split()[2].rstrip(":") for line in output.splitlines() if line[:5] == "done "]


def test_all_is_made_once_and_in_order_after_what_is_learned_from(folder):
    other = "layout-nlp-random"
    write_collection(folder / "data", other, train=2, valid=1, test=0)
    done = run(folder, "all")
    assert done.returncode == 0, done.stdout + done.stderr
    found = made(done.stdout)
    caches = [f"{one}/cache/manifest.json" for one in (other, COLLECTION)]
    assert sorted(found) == sorted([caches[0], *(f"{COLLECTION}/{one}" for one in TARGETS)])
    assert set(found[:2]) == set(caches)
    assert found[-1].endswith("submission.csv")
    assert not list((folder / "out" / ".make").glob("jobs-*")), "left over of the engine"
    assert made(run(folder, "all").stdout) == []


def test_a_worker_that_dies_is_replaced(folder):
    """The stand-in kills the one that has started it, once."""
    once = f"if mkdir {folder}/once 2>/dev/null; then kill -9 $PPID; exit 1; fi"
    before(folder, "01_preprocess.py", once)
    done = run(folder, "preprocess")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if "manifest.json" in line]
    assert [line.split()[0] for line in lines if line[:7] != "running"] == ["lost", "done"]


def test_a_stage_that_fails_is_told_and_ends_make(folder):
    before(folder, "02_train.py", "echo 'error: diverged' >&2; exit 2")
    done = run(folder, "all", FOLDS=1)
    assert done.returncode == 2
    assert f"{COLLECTION}/fold_0/metrics.json: error: diverged (all of it: " in done.stdout
    assert not (folder / "out" / COLLECTION / "scores" / "fold_0.parquet").exists()


@pytest.mark.parametrize("by_terminal", [True, False])
def test_an_interruption_leaves_what_is_made_and_ends_the_rest(folder, by_terminal):
    before(folder, "02_train.py", f"echo $$ >{folder}/process; exec sleep infinity")
    line = command(folder, "all", FOLDS=1)
    with subprocess.Popen(
        line, cwd=REPOSITORY, env=clean(), text=True, start_new_session=True, **PIPES
    ) as make:
        while not (folder / "process").exists() or not (folder / "process").read_text():
            assert make.poll() is None
            time.sleep(0.05)
        if by_terminal:
            os.killpg(make.pid, signal.SIGINT)
        else:
            make.terminate()  # which the stage does not hear of
        try:
            said, wrong = make.communicate(timeout=LONGEST / 10)
        except subprocess.TimeoutExpired:
            os.killpg(make.pid, signal.SIGKILL)
            raise
    assert make.returncode != 0
    assert "Traceback" not in wrong
    assert (folder / "out" / COLLECTION / "cache" / "manifest.json").exists()
    process = Path("/proc", (folder / "process").read_text().strip())
    while process.exists() and "State:\tZ" not in (process / "status").read_text():
        time.sleep(0.1)
    told = [line.split()[0] for line in said.splitlines() if "fold_0" in line]
    assert told in (["running", "cancelled"], ["cancelled"])


def test_everything_runs_side_by_side(folder):
    other = "layout-nlp-default"
    write_collection(folder / "data", other, train=2, valid=1, test=0)
    results = [folder / "out" / name for name in (COLLECTION, other)]
    lines = [f"mkdir -p {one}; echo '{{}}' >{one}/metrics.json" for one in results]
    before(folder, "04_ensemble.py", "\n".join(lines))
    done = run(folder, "everything", FOLDS=1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {target.partition("/")[0] for target in made(done.stdout)} == {COLLECTION, other}
    assert "everything: 2 done, 4 left out" in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("goals", "variables", "told"),
    [
        (["all"], {"EXECUTOR": "cloud"}, "EXECUTOR=cloud: must be one of ray slurm local"),
        (["all"], {"GPUS": "many"}, "GPUS=many: must be a number such as 1 or 0.5"),
        (["all"], {"CPUS": "0"}, "CPUS=0: must be a whole number from 1 to 9999"),
        pytest.param(
            *(["all"], {"EXECUTOR": "slurm"}, "error: EXECUTOR=slurm: this machine has no sbatch"),
            marks=pytest.mark.skipif(bool(shutil.which("sbatch")), reason="it has Slurm"),
        ),
        (["all"], {"EXECUTOR": "ray", "RAY_ADDRESS": "127.0.0.1:9"}, "nobody answers: "),
        (["all"], {"EXECUTOR": "ray", "RAY_ADDRESS": "ray://a:1"}, "must be host:port"),
        (["train"], {"GPUS": "0.5"}, "GPUS=0.5: must be a whole number; only Ray shares one"),
    ],
)
def test_what_cannot_be_is_one_line(folder, goals, variables, told):
    done = run(folder, *goals, **variables)
    assert done.returncode == 2
    assert told in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_files_are_not_handed_over(folder):
    done = run(folder, str(folder / "out" / COLLECTION / "submission.csv"))
    assert done.returncode == 2
    assert "EXECUTOR=local: name what to make by a word such as train, not by a file" in done.stderr


def test_a_dry_run_shows_what_one_machine_would_run(folder):
    plain = run(folder, "-n", "all", EXECUTOR="")
    assert run(folder, "-n", "all").stdout == plain.stdout
    assert "hand" not in plain.stdout
