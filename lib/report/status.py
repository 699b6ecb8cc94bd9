"""``make status``: what of a collection is built, what is stale and why, scores so far.

Make knows the dependencies, so make is asked: ``make -n --trace`` says what it would make again
and because of which files, and this module says it for people.
"""

from __future__ import annotations

import re
import shlex
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lib.files.command_line import Parser
from lib.files.errors import DataError, one_line_errors
from lib.files.schema import expect
from lib.files.terminal import duration, paint, table
from lib.report.experiment import SECTIONS, STAGES, Experiment, read_experiment
from lib.report.statistics import mean
from lib.report.words import with_error

UPDATE = re.compile(r"^\S*:\d+: update target '(?P<target>.+)' due to: (?P<due>.*)$")
MISSING = re.compile(r"^\S*:\d+: target '(?P<target>.+)' does not exist$")
# What lib/runs/make.sh calls flags and raw files that have changed, and the stamp of the latter.
VARIABLES, RAW_FILES, RAW_STAMP = "variables-of-", "raw-files", ".raw"
SHOWN = 4  # files of a reason, before it is "and n more"


@dataclass
class Part:
    """One thing that a stage makes.

    Attributes:
        stage: which.
        fold: of it, ``None`` if there is one for all.
        path: its file, which make goes by.
        due: what make would make it again for; empty if it is up to date.
    """

    stage: str
    fold: int | None
    path: Path
    due: list[str] = field(default_factory=list)

    @property
    def built(self) -> bool:
        """Whether it is there, stale or not."""
        return self.path.exists()


def main() -> None:
    """Read make's trace from standard input and print the state of a collection."""
    parser = Parser(prog="python -m lib.report.status", description=__doc__)
    parser.add_argument("folder", type=Path, help="the collection's outputs")
    parser.add_argument("--folds", type=int, required=True)
    parser.add_argument("--cache", type=Path, required=True, help="the folder of the cache")
    parser.add_argument("--stamps", type=Path, required=True, help="where make keeps its flags")
    for stage in STAGES:
        parser.add_argument(f"--{stage}", default="", help="flags that make would give the stage")
    args = parser.parse_args()
    trace = "" if sys.stdin.isatty() else sys.stdin.buffer.read().decode(errors="replace")
    parts = expected_parts(args.folder, args.cache, args.folds)
    read_trace(parts, trace.splitlines())
    flags = {stage: getattr(args, stage) for stage in STAGES}
    print(status(args.folder, args.cache, parts, flags, args.stamps))


def expected_parts(folder: Path, cache: Path, folds: int) -> list[Part]:
    """What `make all` makes, in the order of the stages."""
    parts = [Part("preprocess", None, cache / "manifest.json")]
    parts += [Part("train", k, folder / f"fold_{k}" / "metrics.json") for k in range(folds)]
    parts += [Part("infer", k, folder / "scores" / f"fold_{k}.parquet") for k in range(folds)]
    names = ("submission.csv", "metrics.json", "report.html")
    return parts + [Part("ensemble", None, folder / name) for name in names]


def read_trace(parts: Sequence[Part], lines: Iterable[str]) -> None:
    """Note in each part what make would make it again for."""
    known = {str(part.path): part for part in parts}
    for line in lines:
        if found := UPDATE.match(line):
            due = [str(Path(name)) for name in found["due"].split()]
        elif found := MISSING.match(line):
            due = [str(Path(found["target"]))]
        else:
            continue
        if part := known.get(str(Path(found["target"]))):  # without the slashes that say nothing
            together = [part] if part.stage != "ensemble" else _of(parts, "ensemble")
            for one in together:  # stage 4 makes its files at once
                one.due += due


def status(
    folder: Path, cache: Path, parts: Sequence[Part], flags: Mapping[str, str], stamps: Path
) -> str:
    """The state of a collection as text for a terminal.

    Args:
        folder: its outputs.
        cache: the folder of its cache, which other models may share.
        parts: with their reasons noted.
        flags: what make would give each stage now.
        stamps: folder of the flags that it gave last.
    """
    if not folder.is_dir():
        collection, _, model = folder.name.partition("@")
        named = f"COLLECTION={collection}" + (f" MODEL={model}" if model else "")
        return f"{folder}: nothing is built yet; make all {named} builds it"
    experiment = read_experiment(folder)
    title = paint(folder.name, "bold") + f"   {folder}/"
    if experiment.name():
        title += f"   experiment {experiment.name()}"
    blocks = [title, _stages(folder, cache, parts, flags, stamps)]
    blocks += [block for block in (_under_way(parts), _scores(experiment)) if block]
    return "\n\n".join(blocks)


def _stages(
    folder: Path, cache: Path, parts: Sequence[Part], flags: Mapping[str, str], stamps: Path
) -> str:
    shared = f"{cache.parent.name}.{cache.name.replace('cache', STAGES[0])}"
    lines = [paint(f"{'stage':<12}{'folds':>7}{'made':>18}   state", "bold")]
    paths = {str(part.path): part for part in parts}
    for stage in STAGES:
        own = _of(parts, stage)
        built = [part for part in own if part.built]
        stale = [part for part in built if part.due]
        state, colour = _state(len(own), len(built), len(stale))
        when = max((part.path.stat().st_mtime for part in built), default=0)
        made = f"{duration(max(0.0, time.time() - when))} ago" if built else "-"
        count = f"{len(built)} of {len(own)}" if own[0].fold is not None else ""
        lines.append(f"{stage:<12}{count:>7}{made:>18}   {paint(state, colour)}")
        stamp = stamps / (shared if stage == STAGES[0] else f"{folder.name}.{stage}")
        lines += [f"{'':<12}{line}" for line in _reasons(stale, paths, stamp, flags[stage])]
    return "\n".join(lines)


def _state(wanted: int, built: int, stale: int) -> tuple[str, str]:
    if not built:
        return "not built", "dim"
    if stale:
        return "stale" if stale == wanted else f"stale: {stale} of {wanted}", "yellow"
    if built < wanted:
        return f"{wanted - built} of {wanted} not built", "yellow"
    return "up to date", "green"


def _reasons(
    stale: Sequence[Part], paths: Mapping[str, Part], stamp: Path, flags: str
) -> list[str]:
    """One line for each kind of reason that something would be made again."""
    due = list(dict.fromkeys(name for part in stale for name in part.due))
    upstream = list(dict.fromkeys(paths[name].stage for name in due if name in paths))
    upstream = [stage for stage in upstream if stage != (stale[0].stage if stale else "")]
    files = [n for n in due if n not in paths and not n.startswith(VARIABLES)]
    flagged = [n for n in files if Path(n) == stamp]
    raw = [n for n in files if n == RAW_FILES or n.endswith(RAW_STAMP)]
    files = [n for n in files if n not in (*flagged, *raw)]
    lines = []
    if raw:
        lines.append("raw files were added, removed or changed")
    if any(name.startswith(VARIABLES) for name in due):
        lines.append(_changed_flags(stamp, flags))
    if flagged:
        lines.append("its flags were changed since, and the run that followed did not finish")
    if files:
        more = f" and {len(files) - SHOWN} more" if len(files) > SHOWN else ""
        lines.append(f"newer: {', '.join(files[:SHOWN])}{more}")
    if upstream:
        lines.append(f"after {' and '.join(upstream)}, which runs again or is newer")
    return lines


def _changed_flags(stamp: Path, now: str) -> str:
    try:
        before = _flags(stamp.read_text())
    except OSError:
        return "it was not made by make, which does not know its flags"
    after = _flags(now)
    changed = []
    for name in sorted(set(before) | set(after)):
        old, new = (one.get(name, "(default)") for one in (before, after))
        if old != new:
            changed.append(f"{name} {old or 'given'} → {new or 'given'}")
    return "changed: " + (", ".join(changed) or "order of flags")


def _flags(text: str) -> dict[str, str]:
    """``--name value`` pairs; words that stand alone (stage 4's folds) are ``FOLDS``."""
    found: dict[str, str] = {}
    name = ""
    for word in shlex.split(text):
        if word.startswith("--"):
            name, _, value = word.partition("=")
            found[name] = value
        elif name and not found[name]:
            found[name] = word
        else:
            found["FOLDS"] = word
    return found


def _under_way(parts: Sequence[Part]) -> str:
    """Folds whose training is running or was killed: how far they are."""
    lines = []
    for part in _of(parts, "train"):
        state = part.path.parent / "state.safetensors"
        if not state.exists():
            continue
        from lib.files import checkpoint  # late: torch takes seconds

        try:
            about = checkpoint.read_about(state)
            progress = expect(about, {"progress": {"epochs": int}}, state)["progress"]
        except DataError:
            continue
        ago = duration(max(0.0, time.time() - state.stat().st_mtime))
        lines.append(
            f"fold {part.fold}: {progress['epochs']} epochs trained, saved {ago} ago; "
            f"running, or it goes on from there"
        )
    return "\n".join(lines)


def _scores(experiment: Experiment) -> str:
    main, blocks = experiment.kind.main, []
    rows = []
    for fold, one in experiment.folds.items():
        last, best = one.get("last", {}), one.get("best", {})
        mark = "blended" if fold in experiment.blended else ""
        cells = [main.text(side.get(main.key)) for side in (last, best)]
        epoch = f"{best['epoch']:g} of {one.get('epochs', 0):g}" if best else "–"
        rows.append([f"fold {fold}", *cells, epoch, mark])
    if rows:
        head = [f"validation {main.name}", "last", "best", "best epoch", ""]
        blocks.append(table(rows, head))
    rows = []
    for section in SECTIONS:
        cells = []
        for key in (main.key, experiment.kind.baseline.key, experiment.kind.ceiling.key):
            values = list(experiment.values(section, key).values())
            cells.append(with_error(main, mean(values)) if values else "–")
        if experiment.metrics_of(section):
            rows.append([section, str(len(experiment.metrics_of(section))), *cells])
    if rows:
        kind = experiment.kind
        head = [f"{main.name} by stage 4", "graphs", "network"]
        blocks.append(table(rows, [*head, kind.baseline.name, kind.ceiling.name]))
    return "\n\n".join(blocks)


def _of(parts: Sequence[Part], stage: str) -> list[Part]:
    return [part for part in parts if part.stage == stage]


if __name__ == "__main__":
    with one_line_errors():
        main()
