"""What is no good on make's command line is one line that says what would be."""

from __future__ import annotations

import os

import pytest

from lib.runs.variables import check, cores, every, help
from lib.settings import resolved
from tests.stages import variables_of_make
from tests.synthetic import write_collection

PATHS = ("OUTPUTS", "VENV", "DATA", "SETTINGS")
NUMBERS = ("FOLDS", "JOBS", "ROUNDS", "TRIALS", "BATCH", "TOP", "MEASURE")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        *((name, ("a b", "a\tb", "a'b", 'a"b', "a`b`", "a:b", "a;b", "a#b")) for name in PATHS),
        *((name, ("a%b", "a*b", "a=b", "~/a", "-a", "@a", "[a]", "a\\b", "a|b")) for name in PATHS),
        *((name, ("0", "-1", "1.5", "two", "1 2", "99999", "1)) ; ls")) for name in NUMBERS),
        *((name, ("",)) for name in ("COLLECTION", "OUTPUTS", "VENV", "JOBS")),
        ("OUTPUTS", ("/", ".", "../..", "//")),
        ("COLLECTION", ("a b", "../..", "layout-xla-*", "/")),
        ("EXPERIMENT", ("a/b", "a+b", "a b", "..@")),
        ("CORES", (",", "0,", "0,,1", "0 1", "-1", "x")),
        *((name, ("no", "0")) for name in ("KEEP_GOING", "PARTIAL", "CONFIRM")),
        ("KIND", ("x",)),
        ("SHAPE", ("n", "n=0", "n=x", "n=1,", "a b=1", "n=1;m=2", "=1")),
        ("ON", ("srun; a", "srun 'x", "srun | a", "srun (a)", "a > b", "srun \\a")),
        ("ARGS", ("--a 'b", '"', "--a; touch a", "`touch a`", "--a #", "--a \\", "> a")),
        ("SUBMISSION", ("it's.csv", "a.csv; touch a")),
    ],
)
def test_values_that_cannot_be(name, values):
    for value in values:
        said = check("all", name, f"{name}={value}")
        assert said.startswith((f"{name}={value}: ", f"{name}=: ")), said
        assert "\n" not in said


@pytest.mark.parametrize(
    "given",
    [
        "OUTPUTS=../結果/ä,b+c@d_e-f.g",
        "FOLDS=",
        "FOLDS=9999",
        "CORES=0,1",
        "ON=ray job submit --x='{\"a\": 1}' --",
        "ARGS=--models-x 2 '--x=--model' -model",
        "KEEP_GOING=1",
        "SEED=-1",
        "MODEL=tgraph-plus",
        "EXPERIMENT=short.1",
        "SHAPE=sequence_length=128,past+1=129",
    ],
)
def test_values_that_can(given):
    assert check("all", given.partition("=")[0], given).startswith("cores=")


@pytest.mark.parametrize("name", variables_of_make("PLAIN"))
def test_no_variable_that_stands_bare_in_a_command_can_end_it(name):
    assert check("all", name, f"{name}=x; touch y").startswith(f"{name}=x; touch y: ")


@pytest.mark.parametrize(
    ("flag", "variable"),
    [
        *(("--model", "MODEL"), ("--hops", "HOPS"), ("--outputs", "OUTPUTS"), ("--data", "DATA")),
        *(("--settings", "SETTINGS"), ("--also", "ALSO"), ("--experiment", "EXPERIMENT")),
        *(("--collection", "COLLECTION"), ("--folds", "FOLDS"), ("--fold", "FOLDS")),
        ("--keep-going", "KEEP_GOING"),
    ],
)
def test_a_flag_that_decides_a_path_has_its_variable(flag, variable):
    quoted = f"--d 'a b' \"{flag}=2\""
    for args in (f"{flag} 2", f"{flag}=2", f"'{flag}' 2", quoted, f"{flag[:4]}''{flag[4:]}"):
        said = check("all", "ARGS", f"ARGS={args}")
        assert said.startswith(f"{variable}: say ") and f"{flag} in ARGS" in said


@pytest.mark.parametrize(
    ("goals", "given", "line"),
    [
        ("al", "", "al: make has no such target; is all meant?"),
        ("all trian", "", "trian: make has no such target; is train meant?"),
        ("all", "COLECTION", "COLECTION: make has no such variable; is COLLECTION meant?"),
        ("all", "jobs", "jobs: make has no such variable; is JOBS meant?"),
        ("all", "XYZZY", "XYZZY: make has no such variable (What"),
        ("all out/x/report.html .venv/.ready", "WANDB_MODE NO_COLOR", "cores="),
    ],
)
def test_a_name_that_make_does_not_know(goals, given, line):
    known = ("COLLECTION=tile-xla", "JOBS=1", "A", "WANDB_%", "NO_COLOR")
    assert check(goals, given, *known).startswith(line)


def test_programs_are_measured_on_one_core():
    assert "measured on one core" in check("collect", "", "CORES=0,1", "KIND=programs")


def test_cores_are_those_that_may_be_used(tmp_path):
    """Fewer if a control group has a quota, of either version, or one around it."""
    own = len(os.sched_getaffinity(0))
    inner, none = tmp_path / "a" / "b", tmp_path / "none"
    inner.mkdir(parents=True)
    assert cores(none, none) == own
    for quotas, count in ((("max", "150000"), 2), (("max", "50000"), 1), (("1000", "max"), 1)):
        for folder, quota in zip((inner, tmp_path), quotas, strict=True):
            (folder / "cpu.max").write_text(f"{quota} 100000\n")
        assert cores(inner, none) == min(own, count)
    (inner / "cpu.cfs_quota_us").write_text("-1\n")
    (tmp_path / "cpu.cfs_quota_us").write_text("40000\n")
    for folder in (inner, tmp_path):
        (folder / "cpu.cfs_period_us").write_text("100000\n")
    assert cores(none, inner) == 1


def test_collections_that_have_data(tmp_path):
    for name in ("layout-nlp-default", "tile-xla"):
        write_collection(tmp_path, name, train=1, valid=0, test=0)
    tiles = "tile-xla:TTA=,HOPS=,ALSO="
    assert every(str(tmp_path), "") == f"layout-nlp-default:TTA= {tiles}"
    assert every(str(tmp_path), "tgraph") == f"layout-nlp-default: {tiles},MODEL="
    assert every(str(tmp_path), "prices").startswith("layout-nlp-default:EPOCHS=,TTA= ")


def test_beside_downloaded_collections_bundled_ones_do_not_count(tmp_path, monkeypatch):
    write_collection(tmp_path, "tile-xla", train=1, valid=0, test=0)
    monkeypatch.setattr(resolved, "DOWNLOADED", tmp_path)
    monkeypatch.setattr(resolved, "ROOTS", (tmp_path, *resolved.ROOTS[1:]))
    assert every("", "") == "tile-xla:TTA=,HOPS=,ALSO="
    assert "layout-xla-default:" in every(str(resolved.BUNDLED), "")


def test_help_has_every_target_below_its_heading():
    said = help("out/x")
    assert "open out/x/report.html" in said and "\x1b[" not in said
    lines = said.splitlines()
    for target in ("all", "train", "download", "tune", "status", "collect", "setup", "clean"):
        assert any(line.startswith(f"  {target} ") for line in lines), target
    for heading, target in (("look and compare", "status"), ("latencies of networks", "latency")):
        assert lines[lines.index(heading) + 1].split()[0] == target
