"""What make is told is checked before it writes, deletes or runs anything."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from lib.runs.variables import cores
from tests.builders import COLLECTION
from tests.pretended import STAND_IN
from tests.programs.builders import write_root
from tests.stages import MAKEFILES, REPOSITORY, environment, run_make, script, variables_of_make
from tests.synthetic import write_collection

WORDS = '#!/bin/sh\nprintf "<%s>" "$@"\n'  # shows what a command was given


@pytest.fixture(scope="module")
def pristine(tmp_path_factory) -> Path:
    """A copy of the repository, whose path make would not take for any of its variables."""
    folder = tmp_path_factory.mktemp("make") / "Größe 100 % 'old'; \"new\""
    shutil.copytree(REPOSITORY / "lib", folder / "lib")
    for name in ("Makefile", "requirements.txt", *(p.name for p in REPOSITORY.glob("0*.py"))):
        shutil.copy(REPOSITORY / name, folder)
    write_collection(folder / "data" / "xla-cpu", COLLECTION, train=1, valid=1, test=0)
    for kept in (f"outputs/{COLLECTION}", "outputs/collect", "old outputs", COLLECTION):
        (folder / kept).mkdir(parents=True)
    for name, text in (("stand-in", STAND_IN), ("words", WORDS)):
        script(folder / name / "bin" / "python", text)
    return folder


@pytest.fixture
def repository(pristine, tmp_path) -> Path:
    """One to change."""
    return shutil.copytree(pristine, tmp_path / pristine.name)


def told(repository: Path, *arguments: str, **variables: object) -> CompletedProcess:
    given = {"venv": "stand-in", "folder": repository, "FOLDS": 1, **variables}
    return run_make(*arguments, **given)


def everything_below(folder: Path) -> list[tuple[Path, int]]:
    below = (path for path in folder.parent.rglob("*") if "__pycache__" not in path.parts)
    return sorted((path, path.lstat().st_mtime_ns) for path in below)


@pytest.mark.parametrize(
    ("name", "value"),  # tests/runs/test_variables.py has more
    [
        *(("COLLECTION", "layout-xla-defualt"), ("OUTPUTS", "/"), ("OUTPUTS", "$(shell touch a)")),
        *(("ON", "srun; touch a"), ("ARGS", "--model .."), ("HOPS", "ALL")),
        *(("VENV", "my venv"), ("PROGRAM", "a\ntouch a")),
    ],
)
def test_a_bad_value_is_one_line_and_changes_nothing(pristine, name, value):
    before = everything_below(pristine)
    given = {"venv" if name == "VENV" else name: value}
    done = told(pristine, "clean", "all", **given)
    assert done.returncode == 2, done.stdout
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert re.search(
        rf"\*\*\* (MODEL: say |{name}|error: (argument )?(--)?{name.lower()}\b)", done.stderr
    )
    assert everything_below(pristine) == before


@pytest.mark.parametrize(
    ("kind", "module", "core"),
    [("", "lib.collect.xla", "--cores 1 "), ("programs", "lib.collect.tvm", "--core 1 ")],
)
def test_what_is_measured_decides_environment_and_command(pristine, kind, module, core):
    names = {"PROGRAMS": "bert.*", "NETWORKS": "it's*"}
    done = told(pristine, "-n", "collect", **{"KIND": kind} if kind else {}, **names)
    assert done.returncode == 0, done.stderr
    place = "stand-in-collect" + "-programs" * bool(kind)
    assert f"{place}/bin/python -m {module} " in done.stdout
    assert f"-m {module}.export outputs/collect{'-programs' * bool(kind)} " in done.stdout
    assert f"{module.replace('.', '/')}/requirements.txt" in done.stdout
    assert core in done.stdout
    chosen = "--networks='it'\\''s*'" if kind else "--programs='bert.*'"
    assert chosen in done.stdout


def test_a_calibration_has_the_cache_and_its_own_flags(tmp_path):
    write_root(tmp_path / "data", tasks=3, programs=2)
    places = {"OUTPUTS": tmp_path / "out", "DATA": tmp_path / "data"}
    done = run_make("-n", "calibrate", venv="none", ARGS="--tasks 1", **places)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.index("01_preprocess.py "), done.stdout.index("lib.programs.calib")
    assert first < second and "--collection programs-cpu" in done.stdout[first:second]
    assert "--tasks 1" in done.stdout[second:] and "--tasks" not in done.stdout[:second]


def test_paths_of_any_letters_work_from_start_to_end(repository):
    outputs = "../結果/ä,b+c@d_e-f.g/"
    (repository / "stand-in").rename(repository / "Umgebung-ü")
    shutil.copytree(repository / "data" / "xla-cpu", repository / "Daten-ß")
    given = {"venv": "Umgebung-ü", "OUTPUTS": outputs, "DATA": "Daten-ß", "MODEL": "tgraph"}
    assert "04_ensemble.py" in told(repository, "all", **given).stdout
    assert "Nothing to be done" in told(repository, "all", **given).stdout
    assert (repository / outputs / f"{COLLECTION}@tgraph" / "report.html").exists()
    assert told(repository, "clean", CONFIRM=1, **given).returncode == 0
    assert [path.name for path in (repository / outputs).iterdir() if path.name[0] != "."] == [
        COLLECTION
    ]
    assert (repository / "outputs" / COLLECTION).exists()


@pytest.mark.parametrize(
    ("target", "variables", "words"),
    [
        (
            "compare",
            {"A": "it's `x`", "B": 'a;"b" #%', "ARGS": "--all"},
            ["--all", "--", "it's `x`", 'a;"b" #%'],
        ),
        ("rank", {"PROGRAM": "it's;touch y\\ `touch y`"}, ["--", "it's;touch y\\ `touch y`"]),
        (
            "rank",
            {"PROGRAM": "--x", "CANDIDATES": '-a  "b"'},
            ['--candidates=-a  "b"', "--", "--x"],
        ),
        ("score", {"SUBMISSION": "'my own.csv' other.csv"}, ["my own.csv", "other.csv"]),
    ],
)
def test_quotes_reach_a_command_as_from_a_shell(repository, target, variables, words):
    (repository / "outputs" / COLLECTION / "cache").mkdir()
    (repository / "outputs" / COLLECTION / "cache" / "manifest.json").touch()
    done = told(repository, "-o01_preprocess.py", target, venv="words", **variables)
    assert "".join(f"<{word}>" for word in words) in done.stdout, done.stdout + done.stderr
    assert "Syntax error" not in done.stderr


def test_every_variable_is_checked_or_the_makefiles_own():
    """What is neither could be set from outside, and would be run: `make rank PROGRAM='x; ls'`."""
    text = "\n".join(path.read_text() for path in MAKEFILES).replace("\\\n", " ")
    used = re.findall(r"\$[({](?:value |call (?:flag|text),)?([A-Z][A-Z_]*)", text)
    own = re.findall(r"^(?:define )?([A-Z][A-Z_]*)(?: :?= |$)", text, re.MULTILINE)
    makes = {"MAKE", "MAKEFLAGS", "MAKECMDGOALS", "MAKEFILE_LIST", "MAKE_VERSION"}
    checked = {*variables_of_make("PLAIN"), *variables_of_make("QUOTED")}
    assert set(used) - set(own) - makes <= checked
    assert checked <= {*used, "METHOD"}  # of a target that is to come
    for name in variables_of_make("QUOTED"):
        for found in re.finditer(rf"\$[({{]{name}\b", text):
            assert text[: found.start()][-5:] in ("$(if ", "$(or ", "eq (,"), f"{name}: quote it"


@pytest.mark.parametrize("name", ["PYTHON", "NEW"])
def test_no_value_is_run(pristine, name):
    """Not even by make itself, which expands what it exports to programs."""
    before = everything_below(pristine)
    done = told(pristine, "all", "rank", **{name: "$(shell touch y)x"})
    assert (done.returncode, done.stdout) == (2, "")
    assert f"*** {name}: must have no dollar sign. " in done.stderr
    exported = {"PYTHON": sys.executable, name: "$(shell touch y)"}
    done = subprocess.run(
        ["make", "help"], cwd=pristine, env=environment() | exported, capture_output=True
    )
    assert (done.returncode == 0) == (name == "NEW")  # which is none of make's
    assert everything_below(pristine) == before


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["al"], "al: make has no such target; is all meant?"),
        (["all", "EPOCH=7"], "EPOCH: make has no such variable; is EPOCHS meant?"),
        (["all", "DATA=nowhere"], "nowhere: no npz_all/npz/layout/xla/default/train/*.npz"),
        (["compare", "A=x"], "usage: make compare A=outputs/x B=outputs/y"),
        (["rank"], "usage: make rank PROGRAM=file"),
        (["all", "COLLECTION=tile-xla", "HOPS=2"], "unrecognized arguments: --hops 2"),
        (["all", "COLLECTION=tile-xl", "EPOCHS=2"], "; did you mean tile-xla?"),
        (["all", "ALSO=tile-xla"], "error: --also tile-xla: 'tile-xla' is none of none, all, "),
        (["all", "PYTHON=no-such-python"], "PYTHON=no-such-python: does not run. "),
    ],
)
def test_what_cannot_be_made_is_one_line_before_any_work(pristine, words, line):
    """Not even packages are installed."""
    before = everything_below(pristine)
    python = [] if "PYTHON" in words[-1] else [f"PYTHON={sys.executable}"]
    line_of_make = ["make", "VENV=new", *python, *words]
    done = subprocess.run(
        line_of_make, cwd=pristine, env=environment(), capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert line in done.stderr
    assert done.stderr.count("\n") == (2 if "PYTHON" in words[-1] else 1)  # sh says so, too
    assert everything_below(pristine) == before
    if "EPOCH=7" in words:
        assert told(pristine, "help", WANDB_MODE="disabled", NO_COLOR=1).returncode == 0


def test_versions_that_are_too_old_are_one_line(repository):
    done = told(repository, "help", **{".FEATURES": "second-expansion"})
    assert (done.returncode, done.stdout) == (2, "")
    assert re.search(r"\*\*\* GNU make \S+: 4.3 or later is needed. ", done.stderr)
    old = "import sys, runpy; sys.version_info = (3, 9, 18); sys.modules['tomllib'] = None; "
    old += "runpy.run_module('lib.runs.variables', run_name='__main__')"
    text = f'#!/bin/sh\nexec {sys.executable} -SEB -c "{old}"\n'
    script(repository / "python3.9", text)
    done = told(repository, "help", PYTHON="./python3.9")
    assert (done.returncode, done.stdout) == (2, "")
    line = "*** PYTHON: is 3.9 here, and must be 3.11 or later; say PYTHON=python3.11 make"
    assert line in done.stderr
    assert len(done.stderr.splitlines()) == 1
    for path in ("lib/__init__.py", "lib/runs/__init__.py", "lib/runs/variables.py"):
        ast.parse((REPOSITORY / path).read_text(), feature_version=(3, 8))


def test_what_a_settings_file_holds_cannot_pass_for_where_results_lie(repository):
    """`make clean` deletes them."""
    text = "'x results=../precious cache=.. table=x' = 3\nlearning_rate = 'results=..'"
    (repository / "a.toml").write_text(text)
    before = everything_below(repository)
    for target in ("clean", "all"):
        done = told(repository, target, SETTINGS="a.toml")
        assert (done.returncode, done.stdout) == (2, "")
        assert "*** error: a.toml: 'x results=../precious" in done.stderr
    for missing in ("no-such.toml", "lib"):
        said = told(repository, "all", SETTINGS=missing).stderr
        assert f"*** error: {missing}: " in said and "expected a TOML file" in said
    assert everything_below(repository) == before


def test_outputs_that_cannot_be_written_are_one_line(repository):
    """As on a read-only disk (which root does not meet): never `Nothing to be done`."""
    assert told(repository, "all").returncode == 0
    shutil.rmtree(repository / "outputs")
    (repository / "outputs").touch()
    before = everything_below(repository)
    done = told(repository, "all", EPOCHS=3)
    assert done.returncode == 2
    assert done.stderr.startswith("error: outputs/")
    assert len(done.stderr.strip().splitlines()) == 2  # and make's
    assert everything_below(repository) == before


def test_jobs_are_the_cores_and_gpus_have_turns_unless_a_number_is_named(repository):
    text = '#!/bin/sh\necho "turns:$TGRAPH_GPU_TURNS" "$@"\n'
    script(repository / "asks" / "bin" / "python", text)
    for given, jobs, turns in (({}, str(cores()), "1"), ({"JOBS": 7}, "7", "")):
        asked = {"venv": "asks", "environ": {"OMP_NUM_THREADS": "99"}, **given}
        said = told(repository, "preprocess", **asked).stdout
        assert f"turns:{turns} 01_preprocess.py" in said
        assert f" --jobs {jobs}\n" in said


@pytest.mark.parametrize(
    ("given", "waits"),
    [
        ({"COLLECTION": "tile-xla"}, any(Path("/dev").glob("nvidia[0-9]*"))),
        ({"MODEL": "pooling"}, False),
        ({"MODEL": "gst"}, True),
    ],
)
def test_networks_wait_for_torch_scatter_only_if_it_adds_up_for_them(
    pristine, tmp_path, given, waits
):
    for name in (COLLECTION, "tile-xla"):
        write_collection(tmp_path, name, train=2, valid=1, test=0)
    ready = [f"-ostand-in/.ready{one}" for one in ("", "-native")]
    given = {
        "VENV": "stand-in",
        "OUTPUTS": "nowhere",
        "DATA": tmp_path,
        "PYTHON": sys.executable,
    } | given
    words = ["make", "-n", *ready, *(f"{name}={value}" for name, value in given.items()), "train"]
    done = subprocess.run(words, cwd=pristine, env=environment(), capture_output=True, text=True)
    assert "02_train.py" in done.stdout
    assert ("compiling torch-scatter" in done.stdout) == waits


def test_a_torch_scatter_that_cannot_be_compiled_is_one_warning(repository):
    text = "#!/bin/sh\necho detected CUDA 12.1 >&2\nexit 1\n"
    script(repository / "failing" / "bin" / "python", text)
    (repository / "failing" / ".ready").touch()
    ready = ("-ofailing/.ready", "VENV=failing", "failing/.ready-scatter")
    done = told(repository, *ready)
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "failing/torch-scatter.log says why); torch alone adds up" in done.stderr
    assert (repository / "failing" / "torch-scatter.log").read_text() == "detected CUDA 12.1\n"
    assert "is up to date" in told(repository, *ready).stdout


def test_programs_find_the_code_whatever_pythonsafepath_says(repository):
    (repository / "words" / "bin" / "python").write_text('#!/bin/sh\necho "<$PYTHONSAFEPATH>"\n')
    assert (
        told(repository, "status", venv="words", environ={"PYTHONSAFEPATH": "1"}).stdout == "<>\n"
    )


def test_everything_is_a_make_for_each_collection_that_has_data(repository):
    """One that fails stops no other; what was given is for all."""
    root = repository / "data" / "all"
    for name in ("layout-xla-random", "tile-xla"):
        write_collection(root, name, train=2, valid=1, test=0)
    script = STAND_IN.replace("exec", "case $* in *xla-random*) exit 3;; esac\nexec")
    (repository / "stand-in" / "bin" / "python").write_text(script)
    for stamp in (".ready-torch", ".ready", ".ready-native", ".ready-bytecode"):  # for makes below
        (repository / "stand-in" / stamp).touch()
    given = {"DATA": "data/all", "MODEL": "tgraph", "EPOCHS": 3, "OUTPUTS": "new"}
    done = told(repository, "everything", **given)
    assert done.returncode == 2
    end = "everything: done: tile-xla; failed: layout-xla-random"
    assert done.stdout.splitlines()[-1] == end
    assert "02_train.py --outputs new --collection tile-xla --data data/all " in done.stdout
    assert done.stdout.count("--model tgraph ") and " --model  " not in done.stdout
    assert done.stdout.count("--epochs 3 ") == done.stdout.count(".py --outputs new ")
    assert "forced in makefile" not in done.stderr
    (repository / "none").mkdir()
    assert "done: none; failed: none" in told(repository, "everything", DATA="none").stdout


def test_clean_lists_what_goes_and_wants_a_word_for_weights(repository):
    assert told(repository, "all", OUTPUTS="out").returncode == 0
    assert told(repository, "all", OUTPUTS="out", MODEL="tgraph").returncode == 0
    folder = repository / "out" / COLLECTION
    (folder / "fold_0" / "last.safetensors").touch()
    done = told(repository, "clean", OUTPUTS="out")
    assert done.returncode == 2 and folder.exists()
    assert "has trained weights of 1 folds (" in done.stderr and "CONFIRM=1" in done.stderr
    assert re.search(rf"out/{COLLECTION}/cache: .* read by {COLLECTION}@tgraph", done.stdout)
    assert told(repository, "clean", OUTPUTS="out", CONFIRM=1).returncode == 0
    assert not folder.exists() and (repository / "out" / f"{COLLECTION}@tgraph").exists()
    assert "nothing there" in told(repository, "clean", OUTPUTS="out").stdout
