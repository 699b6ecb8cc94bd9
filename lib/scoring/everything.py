"""Every collection that has data, and an account of them at the end.

Runs    make all COLLECTION=... for each collection; make's variables come from the environment,
        where make puts those that it was given
Exit    0 if all went well, 1 if a collection failed (the others are run all the same)

    FOLDS=2 python -m lib.scoring.everything --make 'make JOBS=2'
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from lib import settings
from lib.files.command_line import Parser, check_least
from lib.files.errors import UserError, one_line_errors
from lib.files.results import SPLIT_OF, read_metrics
from lib.runs.submake import environment_of_make
from lib.settings.tables import model_names


@dataclass(frozen=True)
class Outcome:
    """How one collection went.

    Attributes:
        collection: its name.
        status: ``done``, ``failed`` or ``left out``.
        note: why it failed or was left out, or whose data were read.
        seconds: wall time.
        scores: the mean of the collection's metric, by section of its metrics.json.
    """

    collection: str
    status: str
    note: str
    seconds: float = 0.0
    scores: dict[str, float] = field(default_factory=dict)


def run_collection(
    name: str,
    make: list[str],
    outputs: Path,
    data: Path | None,
    model: str | None = None,
    experiment: str = "",
) -> Outcome:
    """Make one collection if it has data; what it prints goes where ours does.

    ``model`` counts where the collection's kind has it. Others are made with their own, which
    :func:`lib.scoring.expected.find_collection` looks for.
    """
    has = model in settings.MODELS[settings.COLLECTIONS[name]]
    named = {"experiment": experiment, **({"model": model} if has else {})}
    words = [f"COLLECTION={name}", *(["MODEL="] if model and not has else [])]
    try:
        resolved = settings.resolve(argparse.Namespace(collection=name, data=data, **named))
        root = resolved.root()
    except UserError as error:
        return Outcome(name, "left out", str(error).partition(";")[0])
    started = time.monotonic()
    done = subprocess.run([*make, "all", *words], env=environment_of_make())
    seconds = time.monotonic() - started
    if done.returncode:
        return Outcome(name, "failed", f"make all COLLECTION={name} says why above", seconds)
    return Outcome(name, "done", str(root.path), seconds, scores_of(resolved.settings, outputs))


def scores_of(chosen: settings.Settings, outputs: Path) -> dict[str, float]:
    """A collection's mean score (its kind's metric), by section of its metrics.json."""
    metrics = read_metrics(outputs / chosen.results / "metrics.json")
    means = {name: (metrics.get(name) or {}).get("mean") or {} for name in SPLIT_OF}
    metric = chosen.metric
    return {section: mean[metric] for section, mean in means.items() if metric in mean}


def account(outcomes: list[Outcome], seconds: float) -> str:
    """A line a collection: how it went, its scores, its time; and the time of all together."""
    lines = [f"{'collection':<20}{'':<10}{''.join(f'{s:>12}' for s in SPLIT_OF)}{'time':>9}"]
    for run in outcomes:
        texts = [f"{run.scores[s]:.3f}" if s in run.scores else "-" for s in SPLIT_OF]
        numbers = "".join(f"{cell:>12}" for cell in texts)
        clock = _clock(run.seconds) if run.status != "left out" else "-"
        lines.append(f"{run.collection:<20}{run.status:<10}{numbers}{clock:>9}  {run.note}")
    count = {s: sum(o.status == s for o in outcomes) for s in ("done", "failed", "left out")}
    summary = ", ".join(f"{number} {status}" for status, number in count.items() if number)
    lines.append(f"everything: {summary}, in {_clock(seconds)}")
    return "\n".join(lines)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def main(arguments: list[str] | None = None) -> None:
    """Run them all, print the account, and exit with 1 if one failed."""
    parser = Parser(prog="python -m lib.scoring.everything", description=__doc__.partition("\n")[0])
    parser.add_argument("--make", default="make", help="the command, in shell words")
    parser.add_argument("--outputs", type=Path, default=Path("outputs"), help="where results go")
    parser.add_argument("--data", type=Path, help="data root (downloaded, else bundled)")
    parser.add_argument("--model", choices=model_names(), help="of the collections that have it")
    parser.add_argument("--experiment", default="", help="its name, if it has one")
    parser.add_argument("--jobs", type=int, default=1, help="collections at a time")
    args = parser.parse_args(arguments)
    check_least(args, jobs=1)
    make, started = shlex.split(args.make), time.monotonic()
    with ThreadPoolExecutor(args.jobs) as pool:
        rest = make, args.outputs, args.data, args.model, args.experiment
        names = settings.COLLECTIONS
        outcomes = list(pool.map(lambda name: run_collection(name, *rest), names))
    if all(outcome.status == "left out" for outcome in outcomes):
        raise UserError(f"no collection has data: {outcomes[0].note}")
    print(account(outcomes, time.monotonic() - started))
    sys.exit(any(outcome.status == "failed" for outcome in outcomes))


if __name__ == "__main__":
    with one_line_errors():
        main()
