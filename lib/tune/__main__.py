"""Search a model's settings: those that validate best, without a look at the test split.

Reads   <outputs>/<collection>/cache/
Writes  <outputs>/<collection>[@<model>]/tune/{study.db, best.toml}

    python -m lib.tune --collection layout-xla-default --trials 200 --jobs 2

Each trial is stage 2 with other settings, in an experiment of its own that goes when it has ended.
A killed search goes on where it was. Settings that are given as flags stay as they are.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.exceptions import StorageInternalError
from optuna.samplers import TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from lib import INTERRUPTED_CODE, settings
from lib.cache.manifest import read_manifest
from lib.files.artifacts import check_place, fingerprint_value, read_json
from lib.files.command_line import check_least
from lib.files.errors import DataError, UserError, in_one_line, one_line_errors
from lib.files.locks import only_writer
from lib.files.terminal import table
from lib.settings import Resolved, Settings, described
from lib.settings.file import write_settings
from lib.settings.search import Search, space_of

SCRIPT = Path(__file__).resolve().parents[2] / "02_train.py"
DIGITS = 4
INTERRUPTED = (INTERRUPTED_CODE, -signal.SIGINT, -signal.SIGTERM)


def main(arguments: list[str] | None = None) -> None:
    """Search, and write the best settings."""
    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser = settings.parser(__doc__)
    for one in (own, parser):  # what only one of them knows is for stage 2
        one.add_argument("--folds", type=int, default=1, help="a trial trains folds 0 to this - 1")
        one.add_argument("--trials", type=int, default=200, help="in all, with those of before")
        one.add_argument("--jobs", type=int, default=1, help="trials side by side")
        one.add_argument("--on", default="", help="words before each command: 'srun -c2'")
    args = parser.parse_args(arguments)
    own.add_argument("--settings")
    _, args.words = own.parse_known_args(arguments)
    check_least(args, trials=1, jobs=1)
    resolved = settings.resolve(args)
    folder = args.outputs / resolved.settings.results / "tune"
    database = folder / "study.db"
    check_place(database)
    print(f"tune: {resolved.choice()}", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with only_writer(args.outputs, folder):
        try:
            tuning = Tuning(args, resolved, database)
            tuning.run()
            print(tuning.report())
        except (SQLAlchemyError, StorageInternalError) as error:
            found = str(getattr(error, "orig", None) or error).splitlines()[0]
            advice = "a database of Optuna's that can be written; without it a search begins anew"
            raise DataError(database, "database", found, advice) from error


class Tuning:
    """A search of one model's settings.

    Args:
        args: the command line.
        resolved: the settings that it means: those that are searched are the first trial.
        database: Optuna's.

    Raises:
        UserError: every setting that could be searched was given.
    """

    def __init__(self, args: argparse.Namespace, resolved: Resolved, database: Path):
        self.args, self.resolved, self.settings = args, resolved, resolved.settings
        self.space = space_of(self.settings, resolved.flags)
        if not self.space:
            text = "all settings that could be searched were given: nothing is left to tune"
            raise UserError(text)
        caches = [self.settings.cache, *self.settings.others.values()]
        data = [read_manifest(args.outputs / cache)["fingerprint"] for cache in caches]
        self.study = optuna.create_study(
            storage=f"sqlite:///{database}",
            study_name=name_of(self.settings, self.space, data, args.folds),
            load_if_exists=True,
            direction="maximize" if self.settings.higher_is_better else "minimize",
        )
        self.usual = {name: getattr(self.settings, name) for name in self.space}
        self.best_file = database.with_name("best.toml")
        self.lock = Lock()  # SQLite would let two threads take the same trial

    def run(self) -> None:
        """Run trials until so many have ended, those of earlier runs among them.

        The first trial has the settings as they are. With one job, which values are tried depends
        on the seed and on earlier trials alone, so that a search that is killed and resumed tries
        what it would have tried.
        """
        if not self.study.trials:
            self.study.enqueue_trial(self.usual)
        for trial in self.study.get_trials(states=(TrialState.RUNNING,)):  # of a killed run
            self.study.tell(trial.number, state=TrialState.FAIL)
            self.study.enqueue_trial(trial.params)
        left = range(len(ended(self.study)), self.args.trials)
        pool = ThreadPoolExecutor(self.args.jobs)
        try:
            for done in as_completed([pool.submit(self.run_trial, number) for number in left]):
                done.result()
        finally:
            pool.shutdown(cancel_futures=True)
        if not self.study.get_trials(states=(TrialState.COMPLETE,)):
            why = ended(self.study)[-1].user_attrs["why"]
            raise UserError(f"{len(ended(self.study))} trials, and none has a value: {why}")
        self.write_best()

    def run_trial(self, number: int) -> None:
        """Train with values that Optuna proposes; a training that fails counts as pruned."""
        source = np.random.SeedSequence([self.settings.seed, number])
        with self.lock:
            self.study.sampler = TPESampler(seed=int(source.generate_state(1)[0]))
            trial = self.study.ask(distributions(self.settings, self.space))
        try:
            value, said = self.train(trial.params), ""
        except UserError as error:
            value, said = None, in_one_line(error)
        with self.lock:
            if value is None:
                trial.set_user_attr("why", said)
                self.study.tell(trial, state=TrialState.PRUNED)
            else:
                self.study.tell(trial, value)
                self.write_best()
                best = self.study.best_trial
                said = f"{value:.{DIGITS}f}, best {best.value:.{DIGITS}f} in trial {best.number}"
            print(f"tune: trial {trial.number}: {said}", flush=True)

    def train(self, values: Mapping[str, Any]) -> float:
        """Return the mean validation metric of the folds that stage 2 trains with some values.

        Raises:
            UserError: stage 2 failed; it has its last line.
        """
        changed = dataclasses.replace(self.settings, **values)
        changed.check()
        name = f"tune-{fingerprint_value(described(changed))[:12]}"
        results = self.args.outputs / dataclasses.replace(changed, experiment=name).results
        file = self.best_file.with_name(f"{name}.toml")
        write_settings(file, self.resolved.from_file | dict(values))
        command = [*shlex.split(self.args.on), sys.executable, str(SCRIPT), *self.args.words]
        command += [f"--settings={file}", f"--experiment={name}"]
        found = []
        for fold in range(self.args.folds):
            done = subprocess.run(
                [*command, f"--fold={fold}", f"--folds={self.args.folds}"],
                env=os.environ | {"WANDB_MODE": "disabled"},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            if done.returncode in INTERRUPTED:  # as this program is: the trial will go on
                raise KeyboardInterrupt
            if done.returncode:
                last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
                shutil.rmtree(results, ignore_errors=True)
                file.unlink()
                raise UserError(last[0].removeprefix("error: "))
            metrics = read_json(results / f"fold_{fold}" / "metrics.json")
            found.append(metrics["validation"][changed.metric])
        shutil.rmtree(results)
        file.unlink()
        return statistics.fmean(found)

    def write_best(self) -> None:
        """Write the best values so far as a settings file."""
        values = {name: self.study.best_trial.params[name] for name in self.space}
        base = {"collection": self.settings.collection, "model": self.settings.model}
        write_settings(self.best_file, base | self.resolved.from_file | values, [self.verdict()])

    def verdict(self) -> str:
        """Return the number of trials and the best value, in words."""
        best, trials, settings = self.study.best_trial, ended(self.study), self.settings
        failed = sum(trial.value is None for trial in trials)
        text = f"{len(trials)} trials of {settings.model} on {settings.collection}"
        text += f", {failed} failed" if failed else ""
        value = f"{settings.metric} {best.value:.{DIGITS}f}"
        return f"{text}: validation {value} in trial {best.number}"

    def report(self) -> str:
        """Return the account for a terminal: the best settings, and the command that uses them."""
        best, own = self.study.best_trial.params, self.settings
        shown = {k: f"{v:.4g}" if isinstance(v, float) else str(v) for k, v in best.items()}
        rows = [[name, str(getattr(own, name)), shown[name]] for name in self.space]
        return (
            f"{table(rows, ['setting', 'as it is', 'best'])}\n{self.verdict()}\n"
            "The best of many is so partly by luck: train both on other seeds.\n"
            f"tune: wrote {self.best_file}; make all COLLECTION={own.collection} "
            f"MODEL={own.model} SETTINGS={self.best_file} (all trials had "
            f"{' '.join(self.args.words)})"
        )


def ended(study: Study) -> list[FrozenTrial]:
    """Return trials that came to an end, whether to a value or not."""
    return study.get_trials(states=(TrialState.COMPLETE, TrialState.PRUNED))


def distributions(settings: Settings, space: Mapping[str, Search]) -> dict[str, BaseDistribution]:
    """Return what each setting is drawn from; whole numbers where the setting is one."""
    found: dict[str, BaseDistribution] = {}
    for name, search in space.items():
        if search.values:
            found[name] = CategoricalDistribution(search.values)
        elif isinstance(getattr(settings, name), int):
            low, high = int(search.low), int(search.high)
            found[name] = IntDistribution(low, high, log=search.logarithmic)
        else:
            found[name] = FloatDistribution(search.low, search.high, log=search.logarithmic)
    return found


def name_of(settings: Settings, space: Mapping[str, Search], data: Any, folds: int) -> str:
    """Return the name of a search: values of trials compare only within one of these."""
    fixed = {name: value for name, value in described(settings).items() if name not in space}
    searched = {name: dataclasses.asdict(search) for name, search in space.items()}
    contents = {"fixed": fixed, "searched": searched, "data": data, "folds": folds}
    return f"{settings.results} {fingerprint_value(contents)[:12]}"


if __name__ == "__main__":
    with one_line_errors():
        main()
