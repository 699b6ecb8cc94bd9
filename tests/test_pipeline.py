"""All four stages through make, on synthetic data."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from lib.files import tensor_file
from lib.files.locks import only_writer
from lib.tpugraphs.npz import read_layout
from tests.builders import COLLECTION, TGRAPH
from tests.interpreter import quick
from tests.stages import (
    LONGEST,
    REPOSITORY,
    SCRIPTS,
    TINY_FLAGS,
    TINY_VARIABLES,
    command,
    environment,
    make,
    make_command,
    run_stage,
)
from tests.stages import stages_in as stages
from tests.synthetic import write_collection

VARIABLES = {"FOLDS": 2, "EPOCHS": 3, "TTA": 2, **TINY_VARIABLES}


@dataclass(frozen=True)
class Run:
    """A finished `make all`: its data root, the collection's folder, and what make said."""

    data: Path
    folder: Path
    output: str

    @property
    def cache(self) -> Path:
        return self.folder.parent / COLLECTION / "cache"

    def make(self, *arguments: str, **variables: object) -> str:
        given = {"DATA": self.data, "OUTPUTS": self.folder.parent, **VARIABLES, **variables}
        return make(*arguments, **given)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    root = tmp_path_factory.mktemp("pipeline")
    write_collection(root / "data", COLLECTION, train=6, valid=2, test=2)
    made = Run(root / "data", root / "outputs" / TGRAPH, "")
    return Run(made.data, made.folder, made.make("all", JOBS=2))


def test_every_stage_ran_and_said_what_it_wrote(run):
    assert stages(run.output) == list(SCRIPTS)
    for line in ("preprocess: ", "train: ", "infer: ", "ensemble: "):
        assert f"\n{line}{COLLECTION}" in run.output


@pytest.mark.parametrize("fold", [0, 1])
def test_a_folds_files(run, fold):
    folder = run.folder / f"fold_{fold}"
    assert {path.name for path in folder.iterdir()} == {
        "model.safetensors",
        "last.safetensors",
        "history.parquet",
        "metrics.json",
    }
    metrics = json.loads((folder / "metrics.json").read_text())
    history = pl.read_parquet(folder / "history.parquet")
    assert history["epoch"].to_list() == [1, 2, 3]
    assert metrics["validation"]["tau"] == history["validation_tau"][-1]
    assert metrics["best"]["tau"] == history["validation_tau"].max()
    assert metrics["channels"] == 32
    for file, validation in (("model", metrics["best"]), ("last", metrics["validation"])):
        _, about = tensor_file.load(folder / f"{file}.safetensors")
        assert (about["fold"], about["epochs"]) == (fold, 3)
        assert (about["epoch"], about["tau"]) == (validation["epoch"], validation["tau"])


def test_a_second_make_does_nothing(run):
    assert stages(run.make("all")) == []
    assert "Nothing to be done" in run.make("all")


def test_the_number_of_jobs_changes_nothing(run, tmp_path):
    other = Run(run.data, tmp_path / TGRAPH, "")
    other.make("infer", JOBS=1)
    for path in sorted(run.cache.glob("*.bin")):
        assert path.read_bytes() == (other.cache / path.name).read_bytes(), path.name
    for fold in (0, 1):
        for name in (f"fold_{fold}/model.safetensors", f"scores/fold_{fold}.parquet"):
            assert (run.folder / name).read_bytes() == (other.folder / name).read_bytes(), name


def test_two_at_once_in_one_folder_both_end_with_what_one_makes(run, tmp_path):
    """The later one waits for what the other writes. Letters of any language may be in a path."""
    outputs = tmp_path / "Ausgänge"
    given = {**VARIABLES, "DATA": run.data, "OUTPUTS": outputs, "FOLDS": 1, "JOBS": 1}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    both = [
        subprocess.Popen(
            make_command("all", venv=quick(), **given), cwd=REPOSITORY, env=environment(), **pipes
        )
        for _ in range(2)
    ]
    said = [process.communicate(timeout=LONGEST)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    for name in (f"{COLLECTION}/cache", f"{TGRAPH}/fold_0", f"{TGRAPH}/scores"):
        for path in (outputs / name).iterdir():
            if path.suffix in (".bin", ".safetensors", ".parquet") and path.stem != "history":
                one = run.folder.parent / name / path.name
                assert path.read_bytes() == one.read_bytes(), path
    assert not list(outputs.rglob(".partial-*"))
    assert not list(outputs.rglob("*.lock"))
    assert stages(make("all", **given)) == []


def test_a_fold_that_another_run_has_trained_is_not_trained_again(run, tmp_path):
    """This process is the other run: it keeps the lock until the stage has said that it waits."""
    folder = tmp_path / TGRAPH / "fold_0"
    (tmp_path / COLLECTION).mkdir()
    (tmp_path / COLLECTION / "cache").symlink_to(run.cache)
    flags = ["--data", run.data, *TINY_FLAGS, "--fold", 0, "--epochs", VARIABLES["EPOCHS"]]
    flags += ["--permutations", VARIABLES["TTA"]]
    line = command("02_train.py", *flags, "--outputs", tmp_path)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with only_writer(tmp_path, folder / "model.safetensors"):
        stage = subprocess.Popen(line, cwd=REPOSITORY, env=environment(), **pipes)
        said = stage.stderr.readline()
        shutil.copytree(run.folder / "fold_0", folder, dirs_exist_ok=True)
    out, err = stage.communicate(timeout=LONGEST)
    assert f"{folder}/model.safetensors: process {os.getpid()} has been writing it since " in said
    assert (stage.returncode, err) == (0, "")
    assert out.splitlines() == [f"train: {TGRAPH} fold 0: up to date, {folder}/"]
    assert not (tmp_path / TGRAPH / "stages").exists()


def ranked(run: Run, *flags: object) -> subprocess.CompletedProcess:
    path = run.data / "npz/layout/xla/default/test/test_0.v1.0.npz"
    given = [path, "--outputs", run.folder.parent]
    given += ["--model", "tgraph", "--permutations", 2]
    return run_stage("lib.scoring.rank", *given, *flags)


def test_one_program_is_ranked_as_in_the_submission(run):
    done = ranked(run, "--top", 20, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("}\n")
    found = json.loads(done.stdout)
    order = ";".join(str(one["config"]) for one in found["top"])
    lines = (run.folder / "submission.csv").read_text().splitlines()
    assert lines[1] == f"layout:xla:default:test_0.v1.0,{order}"
    assert sorted(found["folds"]) == [0, 1]
    raw = read_layout(run.data / "npz/layout/xla/default/test/test_0.v1.0.npz")
    best = found["top"][0]
    for site, features in zip(best["sites"], raw.node_config_feat[best["config"]], strict=True):
        assert site["output"] == ([int(d) for d in features[:2]] if features[0] >= 0 else None)
        assert site["opcode"] in ("convolution", "dot", "reshape")
