"""``python -m tests.attack --count 10000 --seed 1``: hostile files and flags, by hand.

Prints a line for each case that ended worse than with one line, and a table at the end. Exit code
1 if there was one. ``--case N`` runs one case again and shows all of it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

from lib.files.progress import Lines
from tests.attack import runner
from tests.attack.cases import Attacked, Report, attack, build
from tests.attack.commands import TARGETS
from tests.attack.judging import OUTCOMES, WORSE
from tests.interpreter import import_all


def main() -> int:
    """Run cases; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="cases to run (default: 300)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first (default: 0)")
    parser.add_argument("--seed", type=int, default=0, help="other seeds, other cases (default: 0)")
    parser.add_argument("--case", type=int, help="run this one, and show all of it")
    parser.add_argument("--only", choices=TARGETS, nargs="+", default=(), help="what to damage")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--world", type=Path, help="make the undamaged tree there, or use it")
    parser.add_argument("--keep", type=Path, help="with --case: put the damaged tree there")
    args = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != runner.ENVIRONMENT["PYTHONHASHSEED"]:
        runner.restart_with(runner.ENVIRONMENT, "tests.attack", sys.argv[1:])

    if args.case is None or not (args.world and args.world.exists()):  # else it is one command
        import_all()
    with tempfile.TemporaryDirectory(prefix="attack-") as name:
        attacked = build(args.world or Path(name))
        if args.case is None:
            return run_all(attacked, args, Path(name))
        return show(attacked, args, Path(name))


def run_all(attacked: Attacked, args: argparse.Namespace, folder: Path) -> int:
    """Run many cases, and print what is worse and a table of all."""
    numbers = range(args.first, args.first + args.count)
    one = partial(run_one, attacked, args, folder)
    counts: Counter[tuple[str, str]] = Counter()
    lines = Lines("attack", args.count, "case")
    for kind, outcome, text in lines.over(runner.spread(one, numbers, args.jobs)):
        counts[kind, outcome] += 1
        if outcome == WORSE:
            print(text, flush=True)
    print(table(counts))
    return int(any(outcome == WORSE for _, outcome in counts))


def run_one(
    attacked: Attacked, args: argparse.Namespace, folder: Path, number: int
) -> tuple[str, str, str]:
    """A case in this process's own tree: its kind, its outcome, and it in a line."""
    tree = folder / f"case_{os.getpid()}"
    report = attack(attacked, args.seed, number, tuple(args.only), tree)
    return report.kind, report.verdict.outcome, line(report, args)


def show(attacked: Attacked, args: argparse.Namespace, folder: Path) -> int:
    """Run one case and print all of it."""
    tree = folder / "case"
    report = attack(attacked, args.seed, args.case, tuple(args.only), tree)
    print(line(report, args), *report.outcome.stdout.splitlines()[-5:], sep="\n| ")
    print(report.outcome.stderr)
    print(f"{report.outcome.seconds:.1f} s, {report.outcome.peak / 1e6:.0f} MB")
    if args.keep:
        shutil.copytree(tree, args.keep, symlinks=True)
    return int(report.verdict.outcome == WORSE)


def line(report: Report, args: argparse.Namespace) -> str:
    """A case in one line, with what runs it again."""
    only = f" --only {' '.join(args.only)}" if args.only else ""
    again = f"python -m tests.attack --seed {args.seed} --case {report.number}{only}"
    why = report.verdict.why or report.verdict.outcome
    return f"[{report.kind}] {report.command}: {report.damage}: {why}; {again}"


def table(counts: Counter[tuple[str, str]]) -> str:
    """How many cases of each kind ended how."""
    rows = [(kind, *(counts[kind, outcome] for outcome in OUTCOMES)) for kind in TARGETS]
    rows = [row for row in rows if any(row[1:])]
    rows.append(("all", *(sum(column) for column in list(zip(*rows, strict=True))[1:])))
    head = f"{'':<14}" + "".join(f"{outcome:>10}" for outcome in OUTCOMES)
    return "\n".join([head, *(f"{k:<14}" + "".join(f"{n:>10,}" for n in ns) for k, *ns in rows)])


if __name__ == "__main__":
    sys.exit(main())
