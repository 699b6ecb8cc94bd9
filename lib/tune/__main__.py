"""Search a model's settings: those that validate best, without a look at the test split.

Reads   <outputs>/<collection>/cache/
Writes  <outputs>/<collection>[@<model>]/tune/{study.db, best.toml, report.html}

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
from tqdm import tqdm

from lib import settings
from lib.cache.reader import Cache
from lib.files.errors import UserError, one_line_errors
from lib.runs.stage import Stage
from lib.settings import Settings
from lib.train.schedule import passes_of
from lib.tune.page import write_page
from lib.tune.results import report_text, write_best
from lib.tune.search import Tuning
from lib.tune.space import name_of
from lib.tune.storage import completed, damage_told, finished, open_study
from lib.tune.workers import Workers

WARMUP = 0.25  # share of the passes before a trial is pruned
NOT_SEARCHED = ("collection", "model")


def main(stage: Stage, arguments: list[str] | None = None) -> None:
    """Search, and write what came out."""
    parser = settings.parser(__doc__)
    parser.add_argument("--folds", type=int, default=1, help="a trial trains folds 0 to this - 1")
    parser.add_argument("--trials", type=int, default=200, help="in all, with those of before")
    parser.add_argument("--seeds", type=int, default=3, help="that the best is compared on")
    parser.add_argument("--jobs", type=int, default=1, help="trials side by side")
    args = parser.parse_args(arguments)
    chosen, root = settings.resolve(args)
    for name, least in (("trials", 1), ("jobs", 1), ("seeds", 0)):
        if getattr(args, name) < least:
            raise UserError(f"--{name} {getattr(args, name)}: must be at least {least}")
    folder = args.outputs / chosen.results / "tune"
    database, best, report = (folder / name for name in ("study.db", "best.toml", "report.html"))
    stage.alone(args.outputs, folder, database, best, report)
    print(f"tune: {settings.choice_of(chosen, root, args)}", flush=True)

    cache = Cache(args.outputs / chosen.cache)
    tuning = tuning_of(args, chosen, cache.fingerprint, database)
    given = flags_of(args)
    use = f"make all COLLECTION={chosen.collection} MODEL={chosen.model} SETTINGS={best}"
    with (
        damage_told(database),
        Workers(args.jobs, cache.folder, folder / "states") as workers,
        tqdm(total=args.trials, desc="tune", unit="trial", disable=None) as bar,
    ):
        bar.update(min(len(finished(tuning.study)), args.trials))

        def told(study: Study) -> None:
            bar.update()
            if completed(study):
                bar.set_postfix(best=f"{study.best_value:.4f}")
                write_best(best, tuning, given, use)

        tuning.run(workers, args.trials, told)
        seeds = tuning.check(workers, args.seeds)
        write_best(best, tuning, given, use)
        write_page(report, tuning, seeds)
    shutil.rmtree(folder / "states", ignore_errors=True)
    print(f"{report_text(tuning, seeds)}\ntune: wrote {best} and report.html; {use}")


def tuning_of(args: argparse.Namespace, chosen: Settings, data: str, database: Path) -> Tuning:
    """The search that a command line means, with what is known of it.

    Args:
        args: parsed.
        chosen: the settings that it means.
        data: the cache's fingerprint.
        database: of the searches of this collection and model.

    Raises:
        UserError: every setting that could be searched was given.
    """
    fixed = settings.given_in(args)[settings.COMMAND_LINE]
    space = settings.space_of(chosen, fixed)
    if not space:
        raise UserError("all settings that could be searched were given: nothing is left to tune")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warmup = math.ceil(WARMUP * passes_of(chosen, 1))
    name = name_of(chosen, space, data, args.folds)
    study = open_study(database, name, chosen.higher_is_better, warmup)
    return Tuning(study, chosen, space, args.folds, database)


def flags_of(args: argparse.Namespace) -> list[str]:
    """Settings of the command line, which stay as they are, as its words."""
    fixed = settings.given_in(args)[settings.COMMAND_LINE]
    return [
        shlex.quote(f"--{name.replace('_', '-')}={value}")
        for name, value in fixed.items()
        if name not in NOT_SEARCHED
    ]


if __name__ == "__main__":
    with one_line_errors(), Stage() as stage:
        main(stage)
