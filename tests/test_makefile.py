"""What make reruns when something changes; Python is a stand-in that only creates the targets."""

from __future__ import annotations

import ast
import os
import shutil
import time
from pathlib import Path

import pytest

from tests.builders import COLLECTION
from tests.stages import REPOSITORY, SCRIPTS, make
from tests.stages import stages_in as stages
from tests.synthetic import write_collection

STAND_IN = """#!/bin/sh
script=$1; shift
while [ $# -gt 0 ]; do
  case $1 in
    --outputs) outputs=$2;; --fold) fold=$2;; --hops) hops=-$2;;
    --model) model=@$2;; --collection) collection=$2;;
  esac
  shift
done
[ "$model" = @tgraph ] || hops=${hops:--all}
case $hops in -1) hops=;; esac
case $model in @tgraph-plus) model=;; esac
cache=$outputs/$collection/cache$hops
out=$outputs/$collection$model
mkdir -p $cache $out/fold_$fold $out/scores
case $script in
  01_*) touch $cache/manifest.json;;
  02_*) touch $out/fold_$fold/metrics.json;;
  03_*) touch $out/scores/fold_$fold.parquet;;
  04_*) touch $out/submission.csv $out/metrics.json $out/report.html;;
esac
"""


@pytest.fixture
def run(tmp_path):
    """A function that makes with the stand-in; everything is made once already."""
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(STAND_IN)
    python.chmod(0o755)
    write_collection(tmp_path / "data", COLLECTION, train=2, valid=1, test=0)

    def run(*arguments: str, **variables: object) -> str:
        given = {"OUTPUTS": tmp_path / "out", "DATA": tmp_path / "data", "FOLDS": 2, **variables}
        return make(*(arguments or ("all",)), venv=tmp_path / "venv", **given)

    assert stages(run()) == list(SCRIPTS)
    return run


def lib_imports(path: Path, seen: set[Path]) -> set[Path]:
    """Every file of lib/ that ``path`` imports, directly or not."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in (name for name in names if name.split(".")[0] == "lib"):
            file = REPOSITORY / Path(*name.split("."))
            for found in (file.with_suffix(".py"), file / "__init__.py"):
                if found.exists() and found not in seen:
                    seen.add(found)
                    lib_imports(found, seen)
    return seen


@pytest.mark.parametrize("first", range(4))
def test_a_changed_source_reruns_the_stages_that_import_it(run, first):
    script = SCRIPTS[first]
    earlier = set().union(*(lib_imports(REPOSITORY / s, set()) for s in SCRIPTS[:first]))
    own = lib_imports(REPOSITORY / script, set()) - earlier
    own = {path for path in own if path.stat().st_size > 100}  # not packages' docstrings
    assert own
    # Some are tried; that Make is told of all, tests/runs/test_sources.py and test_plan.py say.
    for path in sorted(own | {REPOSITORY / script})[:: 1 + len(own) // 6]:
        name = str(path.relative_to(REPOSITORY))
        assert script in stages(run("-n", "-W", name, "all")), f"{script} imports {name}"


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("01_preprocess.py", SCRIPTS),
        ("lib/preprocess/graphs.py", SCRIPTS),
        ("02_train.py", SCRIPTS[1:]),
        ("lib/train/loss.py", SCRIPTS[1:]),
        ("lib/models/sage.py", SCRIPTS[1:]),
        ("03_infer.py", SCRIPTS[2:]),
        ("lib/infer/scores.py", SCRIPTS[2:]),
        ("04_ensemble.py", SCRIPTS[3:]),
        ("lib/runs/folds.py", SCRIPTS[3:]),
        ("lib/ranking/baseline.py", SCRIPTS[3:]),
        ("lib/report/words.py", SCRIPTS[3:]),
        ("lib/report/page.css", SCRIPTS[3:]),
        ("lib/report/compare.py", ()),
        ("lib/report/status.py", ()),
        ("README.md", ()),
    ],
)
def test_a_changed_source_reruns_its_stage_and_later_ones_only(run, changed, expected):
    assert stages(run("-n", "-W", changed, "all")) == list(expected)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"EPOCHS": 3}, SCRIPTS[1:]),
        ({"MODEL": "tgraph-plus"}, SCRIPTS[1:]),
        ({"MODEL": "tgraph"}, SCRIPTS),
        ({"TTA": 3}, SCRIPTS[2:]),
        ({"HOPS": 2}, SCRIPTS),
        ({"SEED": 0}, SCRIPTS[1:]),
        ({"ARGS": "--channels 32"}, SCRIPTS[1:]),
        ({"MODEL": "gst"}, SCRIPTS[1:]),
        ({"FOLDS": 3}, SCRIPTS[1:]),
        ({"FOLDS": 1}, SCRIPTS[3:]),
        ({"JOBS": 1}, ()),
    ],
)
def test_a_changed_variable_reruns_the_stages_that_read_it(run, variables, expected):
    assert stages(run()) == []
    assert stages(run(**variables)) == list(expected)
    assert stages(run(**variables)) == []


def test_other_values_in_the_settings_file_rerun_the_stages_and_other_comments_do_not(
    run, tmp_path
):
    path = tmp_path / "settings.toml"
    path.write_text("learning_rate = 0.1\n")
    assert stages(run(SETTINGS=path)) == list(SCRIPTS[1:])
    assert stages(run(SETTINGS=path)) == []
    path.write_text("# the same\nlearning-rate = 0.1\n")
    assert stages(run(SETTINGS=path)) == []
    path.write_text("learning_rate = 0.2\n")
    assert stages(run("-n", "all", SETTINGS=path)) == list(SCRIPTS[1:])
    assert f" --settings {path} " in run(SETTINGS=path)
    assert stages(run(SETTINGS=path)) == []
    assert stages(run()) == list(SCRIPTS[1:])
    assert stages(run()) == []


def test_other_collections_that_are_learned_from_are_made_first(run, tmp_path):
    other = "layout-nlp-random"
    write_collection(tmp_path / "data", other, train=2, valid=1, test=0)
    assert stages(run(ALSO="none")) == [*SCRIPTS[1:]]
    said = run("-n", "all")  # its default is all that the data root has
    assert stages(said) == list(SCRIPTS)
    assert f"01_preprocess.py --outputs {tmp_path / 'out'} --collection {other} " in said
    assert not (tmp_path / "out" / other).exists()
    assert stages(run()) == list(SCRIPTS)
    assert (tmp_path / "out" / other / "cache-all" / "manifest.json").exists()
    assert stages(run()) == [] == stages(run("-n", "all")) == stages(run("preprocess"))
    assert stages(run(COLLECTION=other)) == list(SCRIPTS[1:]), "its cache is there"
    assert stages(run()) == [] == stages(run(COLLECTION=other))
    write_collection(tmp_path / "data", other, train=3, valid=1, test=0)
    assert stages(run()) == list(SCRIPTS), "it has another graph"
    assert stages(run()) == []


def test_flags_reach_the_stages(run):
    lines = run(EPOCHS=7, TTA=8, HOPS=2, SEED=9, ARGS="--channels 32").splitlines()
    found = {script: [line for line in lines if f" {script} " in line] for script in SCRIPTS}
    assert [len(found[script]) for script in SCRIPTS] == [1, 2, 2, 1]
    for line in (line for script in SCRIPTS for line in found[script]):
        assert f"--collection {COLLECTION} " in line
        assert "--seed 9" in line
        assert "--channels 32" in line
        assert "--hops 2" in line
        assert ("--epochs 7" in line) == ("02_" in line)
        assert ("--permutations 8" in line) == ("03_" in line)
        assert ("--folds 2" in line) == ("02_" in line or "04_" in line)


def test_models_share_a_cache_and_nothing_else(run):
    for model, expected in (("gst", SCRIPTS[1:]), ("gat", SCRIPTS[1:]), ("tgraph", SCRIPTS)):
        assert stages(run(MODEL=model)) == list(expected), model
    for model in ("gst", "gat", "tgraph"):
        assert stages(run(MODEL=model)) == [], model
    assert stages(run(MODEL="gst", ARGS="--segment-nodes 8")) == list(SCRIPTS[1:])
    assert stages(run(MODEL="gat")) == []  # another's settings are no reason
    assert stages(run("-n", "-W", "01_preprocess.py", "all", MODEL="gat")) == list(SCRIPTS)


def test_a_new_raw_file_reruns_everything(run, tmp_path):
    folder = tmp_path / "data" / "npz" / "layout" / "xla" / "default" / "train"
    (folder / "train_0.v1.0.npz").rename(folder / "renamed.npz")
    assert stages(run()) == list(SCRIPTS)


def test_a_raw_file_changed_in_place_reruns_everything(run, tmp_path):
    """Its folder's time stays as it was; its own may be older than all that was made from it."""
    path = tmp_path / "data" / "npz" / "layout" / "xla" / "default" / "valid" / "valid_0.v1.0.npz"
    content, old = path.read_bytes(), path.stat().st_mtime_ns - 10**12
    for changed in (content + b"x", b"x" * len(content)):  # another size; only another time
        path.write_bytes(changed)
        os.utime(path, ns=(old, old))
        assert stages(run("-n", "all")) == list(SCRIPTS)
        assert stages(run()) == list(SCRIPTS)
        assert stages(run()) == []
        old += 1
    (tmp_path / "elsewhere.npz").write_bytes(content)
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere.npz")
    assert stages(run()) == list(SCRIPTS)
    with open(tmp_path / "elsewhere.npz", "ab") as file:
        file.write(b"x")
    assert stages(run()) == list(SCRIPTS)


def test_a_raw_file_of_another_time_alone_is_no_reason(run, tmp_path):
    """Nor is a copy of all of them, as of a data root that was fetched anew."""
    root = tmp_path / "data" / "npz"
    next(root.rglob("*.npz")).touch()
    assert stages(run("-n", "all")) == []
    assert stages(run()) == []
    root.rename(tmp_path / "before")
    shutil.copytree(tmp_path / "before", root, copy_function=shutil.copyfile)
    assert stages(run()) == []
    next(root.rglob("*.npz")).unlink()
    assert stages(run()) == list(SCRIPTS)


def test_measurements_rerun_the_stage_that_reads_them(run, tmp_path):
    time.sleep(0.05)  # file systems' clocks tick in hundredths of a second
    (tmp_path / "data" / "measurements.parquet").touch()
    assert stages(run()) == list(SCRIPTS[3:])
    assert stages(run()) == []


@pytest.mark.parametrize("root", ["npz_all/npz", "npz", "."])
def test_raw_files_are_found_wherever_stage_1_finds_them(run, tmp_path, root):
    path = tmp_path / "data" / root / "layout" / "xla" / "default" / "train" / "new.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    assert stages(run()) == list(SCRIPTS)


def test_a_dry_run_changes_nothing(run, tmp_path):
    before = sorted((p, p.stat().st_mtime_ns) for p in tmp_path.rglob("*"))
    assert stages(run("-n", "all", EPOCHS=3)) == list(SCRIPTS[1:])
    assert sorted((p, p.stat().st_mtime_ns) for p in tmp_path.rglob("*")) == before


def test_a_failed_stage_leaves_no_target(run, tmp_path):
    scores = tmp_path / "out" / COLLECTION / "scores"
    python = tmp_path / "venv" / "bin" / "python"
    python.write_text(python.read_text() + "case $script in 03_*) exit 1;; esac\n")
    with pytest.raises(AssertionError, match="Error 1"):
        run(TTA=5, JOBS=1)
    assert not (scores / "fold_0.parquet").exists()
    python.write_text(STAND_IN)
    assert stages(run(TTA=5)) == list(SCRIPTS[2:])


def test_help_lists_every_target(run):
    output = run("help")
    for target in (
        *("all", "preprocess", "train", "infer", "ensemble", "setup", "test", "clean"),
        *("status", "compare", "report", "wandb-sync"),
    ):
        assert f"\n  {target} " in output
    assert "\x1b[" not in output


def test_clean_deletes_one_collections_outputs(run, tmp_path):
    (tmp_path / "out" / "layout-nlp-default").mkdir()
    run("clean")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [".make", "layout-nlp-default"]
    assert not list((tmp_path / "out" / ".make").iterdir())
