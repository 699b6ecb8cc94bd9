"""What make asks before it does anything. Only the standard library is needed.

python3 -SEB -m lib.runs.variables check "GOALS" "GIVEN NAMES" NAME=VALUE ...
    ``cores=2``, how many this process may use, or a line about what is no good
python3 -SEB -m lib.runs.variables every DATA MODEL
    collections that have data; after each the variables that its model does not read, emptied
python3 -SEB -m lib.runs.variables help OUT
    targets and variables, for people
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 (what comes next could not be imported)
    version = ".".join(map(str, sys.version_info[:2]))
    print(f"PYTHON: is {version} here, and must be 3.11 or later; say PYTHON=python3.11 make ...")
    sys.exit()

# isort: split
import dataclasses
import difflib
import math
import os
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Make splits at blanks and cannot quote, and these signs mean something to it or to the shell;
# letters of any language do not.
PATH = re.compile(r"(?![-+@])[^\s\x00-\x1f!\"#$%&'()*:;<=>?\[\\\]^`{|}~]+")
NUMBER, WORD, NAME = re.compile("[1-9][0-9]{0,3}"), re.compile("[\\w.,+-]+", re.A), "[\\w.-]+"
SIZE = "[\\w.+-]+=[1-9][0-9]{0,5}"  # of a dimension
CHECKS = {
    PATH: ("OUTPUTS VENV DATA SETTINGS", "a path of letters, digits and _ . / , + - @"),
    NUMBER: ("FOLDS JOBS ROUNDS TRIALS BATCH TOP MEASURE", "a whole number from 1 to 9999"),
    re.compile("1|yes"): ("KEEP_GOING PARTIAL CONFIRM", "1; leave it out for no"),
    re.compile("layouts|programs"): ("KIND", "layouts or programs"),
    re.compile("[0-9]+(,[0-9]+)*"): ("CORES", "numbers of cores, such as 1 or 0,1"),
    re.compile(f"{SIZE}(,{SIZE})*", re.A): (
        "SHAPE",
        "names and sizes, such as sequence_length=128,n=1",
    ),
    re.compile(NAME, re.A): ("EXPERIMENT", "letters, digits and _ . -"),
}
SHELL_WORDS = ("ARGS", "ON", "SUBMISSION", "PYTHON", "SUBMAKE")  # quoted where they have blanks
NEVER_EMPTY = ("COLLECTION", "OUTPUTS", "VENV", "JOBS", "PYTHON")
INTERNAL = ("cached", "again")  # targets that make itself uses
PATH_FLAGS = (  # of ARGS, which have a variable: make and the stage must expect the same files
    *("also", "collection", "data", "experiment", "fold", "folds", "hops"),
    *("keep-going", "model", "outputs", "settings"),
)


def check(goals: str, given: str, *values: str) -> str:
    """Return ``cores=N``, or a line about the first goal, name or value that is no good.

    Args:
        goals: what make is to make.
        given: names of variables of its command line.
        values: ``NAME=VALUE`` of all variables that make knows; or ``NAME`` alone of one that is
            quoted wherever it stands, or that is for other programs.
    """
    targets = {*INTERNAL, *(name for name, _ in targets_of())}
    for goal in goals.split():
        if re.fullmatch("[a-z-]+", goal) and goal not in targets:
            return f"{goal}: make has no such target{_near(goal, targets)}"
    known = [value.partition("=")[0] for value in values]
    for name in given.split():
        if not any(re.fullmatch(one.replace("%", ".*"), name) for one in known):
            return (
                f"{name}: make has no such variable{_near(name.upper(), known)}"
                f" (What is for others: {name}=... make)"
            )
    for value in values:
        if "=" in value and (problem := problem_of(*value.split("=", 1))):
            return problem
    if "KIND=programs" in values and any(re.match("CORES=.*,", one) for one in values):
        return "CORES: programs are measured on one core"
    return f"cores={cores()}"


def problem_of(name: str, value: str) -> str:
    """Return what is wrong with a value, if anything."""
    if not value:
        return f"{name}=: must not be empty" if name in NEVER_EMPTY else ""
    if name in SHELL_WORDS:
        if re.search(r"[;&|<>()`$#\\]", value):
            return f"{name}={value}: must have none of ; & | < > ( ) ` $ # \\"
        try:
            words = shlex.split(value)
        except ValueError:
            return f"{name}={value}: a quote is not closed"
        return problem_of_flags(words) if name == "ARGS" else ""
    if name == "OUTPUTS" and not value.strip("/."):
        return f"OUTPUTS={value}: must be a folder that is for results alone"
    for pattern, (names, expected) in CHECKS.items():
        if name in names.split():
            return "" if pattern.fullmatch(value) else f"{name}={value}: must be {expected}"
    return "" if WORD.fullmatch(value) else f"{name}={value}: must be one word of _ . , + - a-z 0-9"


def problem_of_flags(words: list[str]) -> str:
    """Return a line about a flag in ARGS that decides paths: it has a variable."""
    for word in words:
        flag = word.partition("=")[0].removeprefix("--")
        if word.startswith("--") and flag in PATH_FLAGS:
            name = "FOLDS" if flag == "fold" else flag.replace("-", "_").upper()
            return f"{name}: say it by this variable, not by --{flag} in ARGS, for files go by it"
    return ""


def _near(name: str, known: list[str] | set[str]) -> str:
    near = difflib.get_close_matches(name, sorted(known), n=1)
    return f"; is {near[0]} meant?" if near else ""


def targets_of() -> Iterator[tuple[str, str]]:
    """Each target of the Makefile and the .mk files with its line; ``##@`` and a heading."""
    for path in (ROOT / "Makefile", *sorted((ROOT / "lib").rglob("*.mk"))):
        for line in path.read_text("utf-8").splitlines():
            if line.startswith("##@ "):
                yield "##@", line[4:]
            elif found := re.match("([a-z-]+):.*## (.*)", line):
                yield found[1], found[2]


def cores(group: Path | None = None, legacy: Path | None = None) -> int:
    """Return how many cores this process may use: by affinity, and by quotas of control groups.

    Args:
        group: the innermost group of version 2 that this process is in.
        legacy: likewise of version 1.
    """
    groups = dict(line.split(":", 2)[1:] for line in _read("/proc/self/cgroup").splitlines())
    here = Path("/sys/fs/cgroup")
    group = group or here / groups.get("", "/")[1:]
    own = next((path for names, path in groups.items() if "cpu" in names.split(",")), "/")
    legacy = legacy or here / "cpu" / own[1:]
    shares = [len(os.sched_getaffinity(0))]
    for folder in (group, *group.parents):
        shares.append(_share(*_read(folder / "cpu.max").split()[:2]))
    for folder in (legacy, *legacy.parents):
        quota = (_read(folder / f"cpu.cfs_{what}_us").strip() for what in ("quota", "period"))
        shares.append(_share(*quota))
    return min(share for share in shares if share)


def _share(quota: str = "max", period: str = "") -> int:
    """Cores of a quota, rounded up; 0 if there is none."""
    return math.ceil(int(quota) / int(period)) if quota.isdigit() and period.isdigit() else 0


def _read(path: Path | str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


OF_SOME_MODELS = {"EPOCHS": "epochs", "TTA": "permutations", "HOPS": "hops", "ALSO": "also"}


def every(data: str, model: str) -> str:
    """Return the collections that have data, such as ``tile-xla:MODEL=,TTA=``: with what empties
    the variables that the collection's model does not read. Where official data were downloaded,
    bundled ones do not count: the two make no submission together."""
    # Late, for a check needs none of them.
    from lib.settings import COLLECTIONS, MODELS, resolved, settings_class
    from lib.tpugraphs.dataset import read_dataset

    found, given = [], Path(data) if data else None
    roots = {name: p[0] for name in COLLECTIONS if (p := resolved.place_of(name, given))}
    downloaded = resolved.DOWNLOADED in roots.values()
    for name, root in roots.items():
        if root == resolved.DOWNLOADED or not downloaded:
            named = model if model in MODELS[COLLECTIONS[name]] else None
            kind = settings_class(name, named, read_dataset(root))
            fields = {field.name for field in dataclasses.fields(kind)}
            unread = [v for v, field in OF_SOME_MODELS.items() if field not in fields]
            unread += ["MODEL"] if model and not named else []
            found.append(f"{name}:{','.join(f'{variable}=' for variable in unread)}")
    return " ".join(found)


def help(out: str) -> str:
    """Return the targets, and the variables of docs/reference/make.md."""
    plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR")
    bold, end = ("", "") if plain else ("\033[1m", "\033[0m")
    lines = [
        f"usage: make TARGET [VARIABLE=value ...]\nstart: make all, then open {out}/report.html"
    ]
    for name, text in targets_of():
        lines.append(f"\n{bold}{text}{end}" if name == "##@" else f"  {name:<12} {text}")
    page = _read(ROOT / "docs/reference/make.md").replace("`", "")
    page = re.sub(r" \(\[\w+\]\(.*?\)\)", "", page)  # links alone
    page = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", page)  # and words that are links
    rows = re.findall(r"^\| ([A-Z_]+=.*?) \| (.*) \|$", page, re.MULTILINE)
    shown = [f"  {name:<32} {meaning}" for name, meaning in rows]
    return "\n".join([*lines, f"\n{bold}variables{end}", *shown])


if __name__ == "__main__":
    commands: dict[str, Callable[..., str]] = {"check": check, "every": every, "help": help}
    print(f"{commands[sys.argv[1]](*sys.argv[2:])}\n", end="", flush=True)  # in one piece
