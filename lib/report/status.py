"""``make status``: all experiments below a folder of outputs, best first, and what is stale.

A result is stale if the command that made it would make another one now: other settings, data or
code. Of the experiment that the command line names, its other flags count, too.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lib import settings
from lib.files.artifacts import fingerprint_value
from lib.files.errors import UserError, in_one_line, one_line_errors
from lib.files.terminal import paint, printable, table
from lib.report.experiment import Experiment, read_experiment
from lib.report.statistics import with_error
from lib.runs.identity import Run
from lib.runs.make import all_flags, run_of

SHOWN = 3  # files or settings that are named, before it is "and n more"
NO_DIFFERENCE = ("collection", "model", "experiment", "threads", "device")


@dataclass(frozen=True)
class Row:
    """One experiment.

    Attributes:
        experiment: what its folder has.
        model: its name.
        given: settings that its command gave.
        state: what is stale, and why; empty if nothing is.
    """

    experiment: Experiment
    model: str
    given: str
    state: str

    def mean(self, section: str) -> float | None:
        """Return the number that counts of a section, if there is one."""
        average = self.experiment.mean(section, self.experiment.kind.main.key)
        return average.value if average.count else None

    def order(self) -> tuple[bool, float, str]:
        """Return what puts better experiments first, and those without a number last."""
        test = self.mean("test")
        score = self.mean("validation") if test is None else test
        sign = -1 if self.experiment.kind.main.higher_is_better else 1
        return score is None, sign * (score or 0.0), self.experiment.folder.name


def main() -> None:
    """Print the table."""
    args = all_flags(__doc__).parse_args()
    print(status(args, sys.argv[1:]))


def status(args: argparse.Namespace, command: Sequence[str]) -> str:
    """Return the table of all experiments as text for a terminal.

    Args:
        args: of a command line with :func:`lib.runs.make.all_flags`.
        command: the same, not parsed.
    """
    wanted = settings.resolve(args).settings
    named = args.outputs / wanted.results
    blocks: dict[str, list[Row]] = {}
    for folder in sorted(path for path in args.outputs.glob("*") if is_experiment(path)):
        try:
            row = row_of(folder, args.outputs, command if folder == named else [])
        except UserError as error:
            print(f"warning: left out: {in_one_line(error)}", file=sys.stderr)
            continue
        blocks.setdefault(row.experiment.collection, []).append(row)
    text = [_block(collection, sorted(rows, key=Row.order)) for collection, rows in blocks.items()]
    if not is_experiment(named):
        values = {name: getattr(wanted, name) for name in ("collection", "model", "experiment")}
        typed = " ".join(f"{name.upper()}={value}" for name, value in values.items() if value)
        text.append(f"{named}: nothing is built yet; make all {typed} builds it")
    return "\n\n".join(text)


def is_experiment(folder: Path) -> bool:
    """Return whether a folder has results of a collection, be it one fold."""
    name = re.split("[@+]", folder.name)[0]
    return name in settings.COLLECTIONS and any(folder.glob("fold_*"))


def row_of(folder: Path, outputs: Path, also: Sequence[str]) -> Row:
    """Return the row of an experiment.

    Args:
        folder: of its results.
        outputs: all of them.
        also: flags, in addition to those of the command that made it.
    """
    experiment = read_experiment(folder, every=True)
    records = [r for name, r in sorted(experiment.stages.items()) if name != "preprocess"]
    recorded = next((r["command"] for r in records if "command" in r), [])
    collection, _, rest = folder.name.partition("@" if "@" in folder.name else "+")
    model, _, name = rest.partition("+") if "@" in folder.name else ("", "", rest)
    words = ["--collection", collection, *(["--model", model] if model else [])]
    words += [*(["--experiment", name] if name else []), *recorded, *also]
    args, _ = all_flags("").parse_known_args([*words, "--outputs", str(outputs)])  # not --fold
    run = run_of(args)
    if args.folds is None and experiment.blended:
        run = replace(run, folds=len(experiment.measured))
    values = settings.resolve(args).given.items()
    given = [f"{key} {value}" for key, value in values if key not in NO_DIFFERENCE]
    return Row(experiment, run.settings.model, listed(given), state_of(run))


def state_of(run: Run) -> str:
    """Return what of an experiment is not there or stale, and why; empty if nothing is."""
    for stage, fold in run.parts():
        of_fold = "" if fold is None else f" of fold {fold}"
        missing = [path for path in run.files(stage, fold) if not path.exists()]
        if missing and stage == "train":
            return f"fold {fold} is not trained"
        if missing:
            return f"{stage}{of_fold}: {listed([path.name for path in missing])} is missing"
        if not run.up_to_date(stage, fold):
            return f"{stage}: {reason(run, stage, fold)}"
    return ""


def reason(run: Run, stage: str, fold: int | None) -> str:
    """Return why a stage would make again what is there, in a few words."""
    now, before = run.made_from(stage, fold), run.record(stage, fold).get("made_from")
    stated = run.stated(stage, fold)
    if stated == fingerprint_value(now):
        return f"raw files changed: {listed(run.other_raw_files())}"
    if not isinstance(before, dict) or fingerprint_value(before) != stated:
        return "its files were edited, or no record says what it was made from"
    return "; ".join(differences(before, now)) or "after a stage that is another one now"


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield what differs between two accounts of what results are made from, in words."""
    for name in sorted(before.keys() | now.keys()):
        old, new = before.get(name), now.get(name)
        if old == new or name in ("trained", "scores"):  # the stage before is another one
            continue
        if name in ("settings", "code"):
            keys = sorted(key for key in old | new if old.get(key) != new.get(key))
            changes = [f"{k} {_value(old.get(k))} → {_value(new.get(k))}" for k in keys]
            yield listed(changes) if name == "settings" else f"code: {listed(keys)}"
        else:
            yield f"other {name.replace('_', ' ')}"


def listed(names: Sequence[str]) -> str:
    """Return a few names, and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _block(collection: str, rows: Sequence[Row]) -> str:
    main = rows[0].experiment.kind.main
    cells = []
    for row in rows:
        averages = (row.experiment.mean(s, main.key) for s in ("validation", "test"))
        scores = [with_error(main, average) if average.count else "–" for average in averages]
        cells.append(
            [row.experiment.folder.name, row.model, str(len(row.experiment.folds)), *scores]
        )
    head = [f"{collection}: {main.name}", "model", "folds", "validation", "test"]
    titles, *lines = table(cells, head).splitlines()
    width = max(map(len, lines))
    for place, row in enumerate(rows):
        state = printable(row.state or "up to date")
        state = paint(state, "yellow" if row.state else "green")
        given = printable(f"{row.given}; " if row.given else "")
        lines[place] = f"{lines[place]:<{width}}   {given}{state}"
    return "\n".join([titles, *lines])


def _value(value: Any) -> str:
    """Return a setting's value; of folds, how many there are."""
    return str(len(value) if isinstance(value, list) else value)


if __name__ == "__main__":
    with one_line_errors():
        main()
