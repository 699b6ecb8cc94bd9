"""Search a model's settings: those that validate best, without a look at the test split.

Reads   <outputs>/<collection>/cache/
Writes  <outputs>/<collection>[@<model>]/tune/{study.db, best.toml}

    python -m lib.tune --collection layout-xla-default --trials 200 --jobs 2

A killed search goes on where it was. Settings that are given as flags stay as they are.
"""

from __future__ import annotations

import argparse
import math
import shlex
import shutil
from pathlib import Path

import optuna
from optuna.study import Study

from lib import settings
from lib.cache.manifest import read_manifest
from lib.files.command_line import check_least
from lib.files.errors import UserError, one_line_errors
from lib.files.progress import Lines
from lib.runs.identity import Run
from lib.runs.stage import Stage
from lib.settings import Resolved
from lib.settings.file import VARIABLES
from lib.settings.search import space_of
from lib.training.schedule import passes_of
from lib.tune.results import report_text, write_best
from lib.tune.search import Tuning
from lib.tune.space import name_of
from lib.tune.storage import completed, damage_refused, finished, open_study

WARMUP = 0.25  # share of the passes before a trial is pruned


def main(stage: Stage, arguments: list[str] | None = None) -> None:
    """Search, and write what came out."""
    args = _parser().parse_args(arguments)
    resolved = settings.resolve(args)
    chosen, choice = resolved.settings, resolved.choice()
    check_least(args, trials=1, jobs=1, seeds=0)
    folder = args.outputs / chosen.results / "tune"
    database, best = folder / "study.db", folder / "best.toml"
    stage.alone(args.outputs, folder, database, best)
    print(f"tune: {choice}", flush=True)

    making = Run(args.outputs, chosen, args.data)
    tuning = tuning_of(resolved, args.folds, making, folder)
    kept, flags = resolved.given(str(args.settings)), flags_of(resolved)
    use = command_with(best, args, resolved)
    lines = Lines("tune", args.trials, "trial")
    with damage_refused(database):

        def done(study: Study) -> None:
            scored = completed(study)
            lines.at(len(finished(study)), f"best {study.best_value:.4f}" if scored else "")
            if scored:
                write_best(best, tuning, kept, flags, use)

        tuning.run(args.jobs, args.trials, done)
        seeds = tuning.check(args.jobs, args.seeds)
        write_best(best, tuning, kept, flags, use)
    shutil.rmtree(tuning.states, ignore_errors=True)
    print(f"{report_text(tuning, seeds)}\ntune: wrote {best}; {use}")


def _parser() -> argparse.ArgumentParser:
    parser = settings.parser(__doc__)
    parser.add_argument("--folds", type=int, default=1, help="a trial trains folds 0 to this - 1")
    parser.add_argument("--trials", type=int, default=200, help="in all, with those of before")
    parser.add_argument("--seeds", type=int, default=3, help="that the best is compared on")
    parser.add_argument("--jobs", type=int, default=1, help="trials side by side")
    return parser


def tuning_of(resolved: Resolved, folds: int, making: Run, folder: Path) -> Tuning:
    """The search that a command line means, with what is known of it.

    Args:
        resolved: the settings that it starts from.
        folds: that a trial trains.
        making: what trials would be made from.
        folder: of the searches of this collection and model.

    Raises:
        UserError: every setting that could be searched was given.
    """
    chosen = resolved.settings
    space = space_of(chosen, resolved.given(settings.COMMAND_LINE))
    if not space:
        raise UserError("all settings that could be searched were given: nothing is left to tune")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warmup = math.ceil(WARMUP * passes_of(chosen, 1))
    read_manifest(making.cache)  # which must be there
    name = name_of(chosen, space, making.data_of_training, folds)
    study = open_study(folder / "study.db", name, chosen.higher_is_better, warmup)
    return Tuning(study, chosen, space, folds, making.cache, folder / "states")


def command_with(best: Path, args: argparse.Namespace, resolved: Resolved) -> str:
    """What to type to train with the settings that were found, and all else as it was."""
    chosen, given = resolved.settings, resolved.given(settings.COMMAND_LINE)
    named = {"COLLECTION": chosen.collection, "MODEL": chosen.model, "SETTINGS": best}
    named |= {name.upper(): given[name] for name in VARIABLES if name in given}
    named |= {"DATA": args.data} if args.data else {}
    named |= {"OUTPUTS": args.outputs} if args.outputs != Path("outputs") else {}
    rest = [flag for flag in flags_of(resolved) if flag[2:].partition("=")[0] not in VARIABLES]
    named |= {"ARGS": f'"{" ".join(rest)}"'} if rest else {}
    return f"make all {' '.join(f'{name}={value}' for name, value in named.items())}"


def flags_of(resolved: Resolved) -> list[str]:
    """Settings of the command line, which stay as they are, as its words."""
    return [
        shlex.quote(f"--{name.replace('_', '-')}={value}")
        for name, value in resolved.given(settings.COMMAND_LINE).items()
        if name != "model"
    ]


if __name__ == "__main__":
    with one_line_errors(), Stage() as stage:
        main(stage)
