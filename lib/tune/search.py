"""The search: which values are tried, which trials are pruned, and what is known in the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from optuna.samplers import TPESampler
from optuna.study import Study
from optuna.trial import Trial, TrialState

from lib.files.errors import UserError
from lib.settings import Settings
from lib.settings.search import Search
from lib.tune.space import distributions, with_values
from lib.tune.storage import WHY, begun, completed, failures, finished
from lib.tune.workers import Message, Task, Workers

MOST_DEATHS = 3  # in a row, before the search ends


@dataclass
class Tuning:
    """A search of one model's settings.

    Args:
        study: what is known, in its database.
        settings: as they are without a search.
        space: what is searched.
        folds: how many each trial trains.
        database: its file, for messages.
    """

    study: Study
    settings: Settings
    space: Mapping[str, Search]
    folds: int
    database: Path

    def run(self, workers: Workers, count: int, ended: Callable[[Study], None]) -> None:
        """Run trials until so many have ended, those of earlier runs among them.

        The first trial has the settings as they are. With one job, which values are tried depends
        on the seed and on earlier trials alone, so that a search that is killed and resumed tries
        what it would have tried.

        Args:
            workers: that run them.
            count: how many there are to be.
            ended: is called when a trial has ended.

        Raises:
            UserError: several trials in a row died, or none came to a value.
        """
        if not self.study.get_trials(deepcopy=False):
            self.study.enqueue_trial({name: getattr(self.settings, name) for name in self.space})
        trials: dict[int, Trial] = {}
        deaths = 0
        while True:
            while workers.free and len(finished(self.study)) + len(trials) < count:
                self._begin(workers, trials)
            if not trials:
                break
            for message in workers.hear():
                self._heed(message, trials[message.key], workers)
                if message.what != "pass":
                    del trials[message.key]
                    deaths = deaths + 1 if message.what == "died" else 0
                    ended(self.study)
            if deaths >= MOST_DEATHS:
                raise UserError(f"{deaths} trials in a row died; the last of {message.why}")
        if not completed(self.study):
            why = next(reversed(failures(self.study).values()), "all were pruned")
            raise UserError(f"{len(finished(self.study))} trials, and none has a value: {why}")

    def _begin(self, workers: Workers, trials: dict[int, Trial]) -> None:
        """Ask for values, and give them to a worker; a trial whose values do not go is over."""
        source = np.random.SeedSequence([self.settings.seed, begun(self.study)])
        self.study.sampler = TPESampler(seed=int(source.generate_state(1)[0]))
        trial = self.study.ask(distributions(self.settings, self.space))
        trial.set_user_attr("values", len(trial.params))  # all are drawn
        try:
            chosen = with_values(self.settings, trial.params)
        except UserError as error:
            self._close(trial, why=str(error))
            return
        trials[trial.number] = trial
        workers.start(Task(trial.number, chosen, self.folds))

    def _heed(self, message: Message, trial: Trial, workers: Workers) -> None:
        if message.what == "pass":
            if message.value is not None:
                trial.report(message.value, message.step)
            workers.answer(message.key, message.value is None or not trial.should_prune())
        else:
            self._close(trial, message.value, message.why)

    def _close(self, trial: Trial, value: float | None = None, why: str = "") -> None:
        """Trials that came to nothing count as pruned: as bad as any, to what is tried next."""
        if why:
            trial.set_user_attr(WHY, why)
        if value is None:
            self.study.tell(trial, state=TrialState.PRUNED)
        else:
            self.study.tell(trial, value)

    @property
    def best(self) -> Settings:
        """The settings of the trial with the best value."""
        return with_values(self.settings, self.study.best_trial.params)

    @property
    def values(self) -> dict[str, Any]:
        """What the best trial had of what is searched, in the order of the fields."""
        params = self.study.best_trial.params
        return {name: params[name] for name in self.space}

    def check(self, workers: Workers, seeds: int) -> list[tuple[int, float, float]]:
        """How the best settings do on other seeds, which deal other folds and draw other weights.

        The best of many trials is the best on one seed, partly by luck.

        Returns:
            Of each seed: its number, and the values of the settings as they were and of the best.
        """
        numbers = [self.settings.seed + 1 + index for index in range(seeds)]
        if self.best == self.settings:
            return []
        waiting = {
            f"seed {seed}, {which}": with_values(settings, {"seed": seed})
            for seed in numbers
            for which, settings in (("default", self.settings), (self._best_name, self.best))
        }
        tasks = [key for key in waiting if key not in self.study.user_attrs]
        running = 0
        while tasks or running:
            while tasks and workers.free:
                key = tasks.pop(0)
                workers.start(Task(key, waiting[key], self.folds))
                running += 1
            for message in workers.hear():
                if message.what == "pass":
                    workers.answer(message.key, True)
                    continue
                running -= 1
                if message.value is None:
                    raise UserError(f"{message.key}: {message.why}")
                self.study.set_user_attr(message.key, message.value)
        values = self.study.user_attrs
        pairs = (
            (values[f"seed {seed}, default"], values[f"seed {seed}, {self._best_name}"])
            for seed in numbers
        )
        return [(seed, *pair) for seed, pair in zip(numbers, pairs, strict=True)]

    @property
    def _best_name(self) -> str:
        return f"trial {self.study.best_trial.number}"
