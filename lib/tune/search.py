"""The search: which values are tried, which trials are pruned, and what is known in the end."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from optuna.samplers import TPESampler
from optuna.study import Study
from optuna.trial import Trial, TrialState

from lib.files.errors import UserError, in_one_line
from lib.preprocess.workers import uninterrupted_children
from lib.settings import Settings
from lib.settings.search import Search
from lib.tune.space import distributions, with_values
from lib.tune.storage import WHY, completed, failures, finished
from lib.tune.trial import train

TIMES, MOST_TIMES = "times", 3  # how often a trial was begun, and may be where each time is killed


@dataclass
class Tuning:
    """A search of one model's settings, which worker processes get a copy of.

    Args:
        study: what is known, in its database.
        settings: as they are without a search.
        space: what is searched.
        folds: how many each trial trains.
        cache: the collection's, a folder.
        states: a folder for training states of trials that are under way.
    """

    study: Study
    settings: Settings
    space: Mapping[str, Search]
    folds: int
    cache: Path
    states: Path

    def run(self, jobs: int, count: int, ended: Callable[[Study], None]) -> None:
        """Run trials until so many have ended, those of earlier runs among them.

        The first trial has the settings as they are. With one job, which values are tried depends
        on the seed and on earlier trials alone, so that a search that is killed and resumed tries
        what it would have tried.

        Args:
            jobs: how many run side by side.
            count: how many there are to be.
            ended: is called when a trial has ended.

        Raises:
            UserError: a worker was killed, or no trial came to a value.
        """
        if not self.study.get_trials(deepcopy=False):
            self.study.enqueue_trial({name: getattr(self.settings, name) for name in self.space})
        self._take_up()
        # Two processes could take the same one that waits: SQLite lets both.
        numbers = range(len(finished(self.study)), count)
        waiting = self.study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
        known = distributions(self.settings, self.space)
        taken = [self.study.ask(known) for _ in zip(waiting, numbers, strict=False)]
        for _ in side_by_side(self.run_trial, zip_longest(numbers, taken), jobs):
            ended(self.study)
        if not completed(self.study):
            why = next(reversed(failures(self.study).values()), "all were pruned")
            raise UserError(f"{len(finished(self.study))} trials, and none has a value: {why}")

    def _take_up(self) -> None:
        """Have what a killed run had begun be begun anew, with the same values."""
        for trial in self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            times = trial.user_attrs.get(TIMES, 1)
            again = trial.params.keys() == self.space.keys() and times < MOST_TIMES
            given_up = TrialState.FAIL if times < MOST_TIMES else TrialState.PRUNED
            self.study.tell(trial.number, state=given_up)
            if again:
                self.study.enqueue_trial(trial.params, {TIMES: times + 1})

    def run_trial(self, number: int, trial: Trial | None) -> None:
        """Ask for values, if they are not known, train, and tell what came of it.

        Trials that come to nothing count as pruned: as bad as any, to what is tried next.
        """
        if trial is None:
            source = np.random.SeedSequence([self.settings.seed, number])
            self.study.sampler = TPESampler(seed=int(source.generate_state(1)[0]))
            trial = self.study.ask(distributions(self.settings, self.space))
        value: float | None = None
        try:
            chosen = with_values(self.settings, trial.params)
            value = train(chosen, self.cache, self.folds, self.states, _reporting_to(trial))
        except (UserError, MemoryError) as error:
            trial.set_user_attr(WHY, in_one_line(error))
        self.study.tell(trial, value, None if value is not None else TrialState.PRUNED)

    @property
    def best(self) -> Settings:
        """The settings of the trial with the best value."""
        return with_values(self.settings, self.study.best_trial.params)

    @property
    def values(self) -> dict[str, Any]:
        """What the best trial had of what is searched, in the order of the fields."""
        params = self.study.best_trial.params
        return {name: params[name] for name in self.space}

    def check(self, jobs: int, seeds: int) -> list[tuple[int, float, float]]:
        """How the best settings do on other seeds, which deal other folds and draw other weights.

        The best of many trials is the best on one seed, partly by luck.

        Returns:
            Of each seed: its number, and the values of the settings as they were and of the best.
        """
        if self.best == self.settings:
            return []
        numbers = [self.settings.seed + 1 + index for index in range(seeds)]
        sides = {"default": self.settings, f"trial {self.study.best_trial.number}": self.best}
        waiting = [
            (f"seed {seed}, {name}", with_values(settings, {"seed": seed}))
            for seed in numbers
            for name, settings in sides.items()
            if f"seed {seed}, {name}" not in self.study.user_attrs
        ]
        for key, value in side_by_side(self.run_seed, waiting, jobs):
            self.study.set_user_attr(key, value)
        values = self.study.user_attrs
        return [(seed, *(values[f"seed {seed}, {name}"] for name in sides)) for seed in numbers]

    def run_seed(self, key: str, settings: Settings) -> tuple[str, float | None]:
        """The value of settings, beside what they are called."""
        try:
            return key, train(settings, self.cache, self.folds, self.states, lambda *_: True)
        except UserError as error:
            raise UserError(f"{key}: {in_one_line(error)}") from None


def _reporting_to(trial: Trial) -> Callable[[int, float | None], bool]:
    """What tells a trial each pass, and whether it goes on; who has lost its parent does not."""
    parent = os.getppid()

    def report(step: int, value: float | None) -> bool:
        if os.getppid() != parent:
            os._exit(1)
        if value is not None:
            trial.report(value, step)
        return value is None or not trial.should_prune()

    return report


def side_by_side(work: Callable[..., Any], calls: Iterable[tuple], jobs: int) -> Iterator[Any]:
    """What calls return, as they end; :class:`UserError` if a process is killed."""
    # What joblib says when an error leaves tasks that nobody waits for any more.
    warnings.filterwarnings("ignore", r"\d+ tasks (which were still|have been succ)", UserWarning)
    parallel = Parallel(jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="n_jobs")
    try:
        with uninterrupted_children():
            results = parallel(delayed(work)(*call) for call in calls)
        yield from results
    except BrokenProcessPool:
        raise UserError(
            "a trial was killed, most likely for want of memory; the same command goes on, and "
            f"leaves out what is killed {MOST_TIMES} times"
        ) from None
