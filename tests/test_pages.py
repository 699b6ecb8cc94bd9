"""What pages tell to write and to type is written and typed, in a copy of the tree.

Other than on the pages are the data, a few small synthetic graphs in place of the bundled ones,
the environment, which is the tests', and settings of networks that train in a second. Of README's
commands `make test` is not run in itself, and those in its table are planned by `make -n` alone.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from lib.runs.variables import check
from lib.settings import settings_for
from lib.tpugraphs.dataset import read_dataset
from tests.interpreter import quick
from tests.stages import REPOSITORY, environment, make_command, ran
from tests.synthetic import write_collection

RANKING, BUNDLED_WEIGHTS = "docs/tutorials/first-ranking.md", "data/weights/layout-xla-default"
MODEL, COLLECTION = "docs/how-to/add-a-model.md", "docs/how-to/add-a-collection.md"
PYTHON, LOSS = "docs/reference/python.md", "docs/tutorials/edit-the-loss.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"`(lib/[\w/]+\.py)`")
BUNDLED_LAYOUTS = REPOSITORY / "data" / "xla-cpu"
BUNDLED = ("layout-xla-default", "layout-xla-random", "layout-nlp-random")
# What takes minutes on the pages takes seconds here.
SMALL = {"FOLDS": 1, "EPOCHS": 1, "JOBS": 1, "ALSO": "none"}
TINY = {"": "--channels 8 --pretraining 20", "tgraph": "--channels 32", "linear": ""}


def blocks(page: str) -> list[tuple[str, str, str]]:
    """A page's blocks: the file that the text before each names, if any, its language, and it."""
    found, text = [], (REPOSITORY / page).read_text()
    for match in BLOCK.finditer(text):
        named = FILE.search(text[: match.start()].rstrip().rpartition("\n\n")[2])
        found.append((named[1] if named else "", match[1], match[2]))
    return found


def apply(diff: str, path: Path) -> None:
    """Put a diff's new lines where it shows them: after the lines before them, in this order."""
    lines, at = path.read_text().splitlines(), 0
    for line in diff.splitlines():
        if line[0] == "+":
            lines.insert(at, line[1:])
        else:
            assert line[1:] in lines[at:], f"{path}: {line[1:]!r} is not there"
            at = lines.index(line[1:], at)
        at += 1
    path.write_text("\n".join(lines) + "\n")


def write(page: str, tree: Path) -> None:
    """Do what a page says to files of the code."""
    for file, language, text in blocks(page):
        path = tree / file
        if language == "diff":
            apply(text, path)
        elif language == "python":
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"{path.read_text()}\n\n{text}" if path.exists() else text)


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    """A copy of the tree with what both pages have one write, and small data."""
    tree = tmp_path_factory.mktemp("pages") / "tree"
    for name in ("lib", "docs"):
        shutil.copytree(REPOSITORY / name, tree / name)
    for path in (
        "Makefile",
        "requirements.txt",
        "tests/requirements.txt",
    ):
        (tree / path).parent.mkdir(exist_ok=True)
        shutil.copy(REPOSITORY / path, tree / path)
    for path in REPOSITORY.glob("0*.py"):
        shutil.copy(path, tree)
    for name in BUNDLED:
        write_collection(tree / "data" / "xla-cpu", name, train=4, valid=2, test=2, nodes=20)
    (tree / "data" / "copies-cpu").symlink_to(REPOSITORY / "data" / "copies-cpu")
    for page in (MODEL, COLLECTION):
        write(page, tree)
    return tree


def typed(line: str, tree: Path, *more: str) -> str:
    """What a line of a page says when it is typed in the tree."""
    words = shlex.split(line, comments=True)
    if words[0] == "make":
        given = dict(word.split("=", 1) for word in words[2:])
        trains = words[1] in ("all", "weights")
        nowhere = "DATA" in given and not (tree / given["DATA"]).exists()  # as official data
        model = given.get("MODEL", "tgraph" if nowhere else "")
        tiny = {"ARGS": TINY[model], **SMALL} if trains else {}
        if "MODEL" in given:
            tiny.pop("ALSO", None)  # these learn from one collection
        words = make_command(*more, words[1], venv=quick(), **{**tiny, **given})
    done = ran(words, cwd=tree, env=environment() | {"PYTHONPATH": str(tree)})
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout


def python_of(page: str) -> list[str]:
    """The programs of a page."""
    return [text for _, language, text in blocks(page) if language == "python"]


def lines_of(page: str) -> list[str]:
    """The command lines of a page."""
    shell = (text for _, language, text in blocks(page) if language == "sh")
    return [line for text in shell for line in text.replace("\\\n", " ").splitlines()]


def test_a_loss_is_edited_and_compared(tree):
    first, *others = lines_of(LOSS)
    typed(first, tree)
    before = (tree / "lib/training/loss.py").read_text()
    write(LOSS, tree)
    said, compared = [typed(line, tree) for line in others]
    assert "01_preprocess.py" not in said and "replaces" not in said
    assert "layout-xla-random@tgraph+pairs/" in said and "B − A" in compared
    (tree / "lib/training/loss.py").write_text(before)


def test_a_model_is_added(tree):
    said, _, compared = [typed(line, tree) for line in lines_of(MODEL)]
    assert "train: linear " in said
    assert "wrote outputs/layout-xla-random@linear/submission.csv" in said
    assert ["model", "tgraph", "linear"] in [row.split() for row in compared.splitlines()]


def test_the_models_own_values_are_used(tree):
    line = [quick() / "bin" / "python", "02_train.py", "--collection", "layout-xla-random"]
    line += ["--model", "linear", "--show"]
    shown = subprocess.run(line, cwd=tree, env=environment(), capture_output=True, text=True)
    rows = [row.split() for row in shown.stdout.splitlines()]
    assert ["score-gain", "16.0"] in rows, shown.stdout + shown.stderr


def test_a_collection_is_added(tree):
    *_, last = [typed(line, tree) for line in lines_of(COLLECTION)]
    (shown,) = [text for _, language, text in blocks(COLLECTION) if not language]
    counted = re.compile(r"folds \d, \d of|\d+ test graphs")  # the best fold comes first
    assert counted.sub("", shown.strip()) in counted.sub("", last)


def test_the_commands_that_the_readme_begins_with(tree):
    trained, tested = lines_of("README.md")
    assert "ensemble: layout-xla-default: folds " in typed(trained, tree)
    assert "-m pytest " in typed(tested, tree, "-n")
    read = python_of(PYTHON)[1]  # what has been written
    line = [quick() / "bin" / "python", "-c", read]
    done = subprocess.run(line, cwd=tree, env=environment() | {"PYTHONPATH": str(tree)})
    assert done.returncode == 0


def test_the_picture_shows_what_the_first_command_runs():
    picture = (REPOSITORY / "docs" / "flow.svg").read_text()
    shown = " ".join(re.sub(r"<style>.*</style>|<[^>]*>", " ", picture, flags=re.DOTALL).split())
    line = lines_of("README.md")[0].partition("#")[0].strip()
    name = line.partition("COLLECTION=")[2]
    chosen = settings_for(name, read_dataset(BUNDLED_LAYOUTS), {})
    assert line in shown
    assert f" {chosen.model}, " in shown
    assert f"{chosen.folds_total} folds" in shown
    assert f"best {chosen.best_folds} folds" in shown
    assert f"{chosen.cache.name}/" in shown


def test_a_program_is_ranked_from_python(monkeypatch, capsys):
    monkeypatch.chdir(REPOSITORY)
    exec(python_of(PYTHON)[0], {})
    assert capsys.readouterr().out.startswith("[(0, -1.227")


def test_make_has_every_target_and_variable_that_a_page_names():
    makefiles = [REPOSITORY / "Makefile", *(REPOSITORY / "lib").rglob("*.mk")]
    text = "\n".join(path.read_text() for path in makefiles)
    targets = set(re.findall(r"^([a-z-]+):.*## ", text, re.MULTILINE))
    pages = [str(page.relative_to(REPOSITORY)) for page in (REPOSITORY / "docs").rglob("*.md")]
    found = {line.partition("#")[0].strip() for page in pages for line in lines_of(page)}
    found = {line for line in found if line.startswith("make ") and ".venv" not in line}
    assert len(found) > 40
    given = set()
    for line in found:
        words = shlex.split(line)[1:]
        assert {word for word in words if "=" not in word} <= targets, line
        given |= {word.partition("=")[0] for word in words if "=" in word}
    kinds = dict(re.findall(r"^(PLAIN|QUOTED|HANDED_ON) := ((?:.*\\\n)*.*)", text, re.MULTILINE))
    assert given <= set(" ".join(kinds.values()).split())
    plain = set(kinds["PLAIN"].split())
    for line in found:
        values = [word for word in shlex.split(line) if word.partition("=")[0] in plain]
        assert check("", "", *values).startswith("cores="), line


def test_a_program_is_ranked_before_anything_is_trained(tree):
    """By the real weights, of the real program; by new ones, it is ranked otherwise."""
    assert f"wrote {tree / BUNDLED_WEIGHTS}/" in typed("make weights", tree)
    line, *_ = [one for one in lines_of(RANKING) if one.startswith("make rank ")]
    program = Path(line.rpartition("PROGRAM=")[2])
    (tree / program).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(REPOSITORY / program, tree / program)
    shown = next(text for _, language, text in blocks(RANKING) if text.startswith("rank: with"))
    new = typed(f"{line} OUTPUTS=none", tree)
    assert new.splitlines()[0] == shown.splitlines()[0]
    assert "folds 0 of layout-xla-default" in new
    shutil.rmtree(tree / "data" / "weights")
    shutil.copytree(REPOSITORY / "data" / "weights", tree / "data" / "weights")
    assert typed(f"{line} OUTPUTS=none", tree) == shown
    (tree / program).unlink()


TABLE = re.findall(
    r"^\|.*`(make [a-z][^`]*)`", (REPOSITORY / "README.md").read_text(), re.MULTILINE
)


@pytest.mark.parametrize("line", TABLE)
def test_what_make_would_do_for_the_commands_of_the_readmes_table(tree, line):
    settings = tree / "outputs" / "..." / "tune" / "best.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text("learning_rate = 0.1\n")
    typed(line, tree, "-n")
