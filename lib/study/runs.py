"""Running stages 2 and 3 for a study, apart from the collection's own networks and scores.

A study asks "what if": other graphs held out, another batch of inference. It answers with the
real stages, run as a user runs them, on a view of the cache: the same arrays, another table.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from lib.cache.format import TABLE
from lib.cache.manifest import write_manifest
from lib.cache.reader import Cache
from lib.files.artifacts import atomic_folder, fingerprint_value, read_json, write_json
from lib.files.checksum import checksum_of
from lib.files.errors import DataError, UserError
from lib.files.parquet import write_parquet
from lib.files.progress import Lines
from lib.files.scores import mean_scores, read_score_rows
from lib.runs.sources import ROOT
from lib.settings import Settings


@dataclass(frozen=True)
class Run:
    """One network's scores, and how to get them.

    Attributes:
        name: for the progress bar.
        folder: a collection's folder below the study, with ``cache`` in it.
        fold: which fold's network.
        key: what the scores depend on; scores of the same key are not made again.
        commands: the stages, as script and flags.
    """

    name: str
    folder: Path
    fold: int
    key: str
    commands: tuple[tuple[str, ...], ...]

    @property
    def scores(self) -> Path:
        """The parquet that stage 3 writes."""
        return self.folder / "scores" / f"fold_{self.fold}.parquet"

    @property
    def done(self) -> bool:
        """Whether the scores are there, and made from the same things."""
        if not (self._stamp.exists() and self.scores.exists()):
            return False
        try:
            return read_json(self._stamp) == self.key
        except DataError:  # damaged: made again
            return False

    @property
    def _stamp(self) -> Path:
        return self.folder / f"fold_{self.fold}.key.json"

    def execute(self, through: Sequence[str] = ()) -> None:
        """Run the stages, without W&B; :class:`UserError` with their last line if one fails.

        Args:
            through: words of a command that runs commands, see :mod:`lib.cluster.hand`.
        """
        handed = [*through, str(self.scores)] if through else []
        for script, *flags in self.commands:
            line = [*handed, sys.executable, str(ROOT / script), *flags]
            environment = {**os.environ, "WANDB_MODE": "disabled"}
            done = subprocess.run(line, capture_output=True, text=True, env=environment)
            if done.returncode:
                message = (done.stderr.strip().splitlines() or ["no message"])[-1]
                raise UserError(f"{self.name}: {script} failed: {message.removeprefix('error: ')}")
        write_json(self._stamp, self.key)


def execute_all(runs: Sequence[Run], jobs: int, through: Sequence[str] = ()) -> None:
    """Execute the runs that are not done yet.

    Args:
        runs: what is to be there.
        jobs: how many are executed at a time.
        through: see :meth:`Run.execute`.

    Raises:
        UserError: of the first that failed, when those that had begun have ended.
    """
    waiting = [run for run in runs if not run.done]
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(run.execute, through) for run in waiting]
        try:
            for future in Lines("study", len(futures), "network").over(futures):
                future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def cache_view(cache: Cache, folder: Path, splits: Mapping[str, str], about: Any) -> str:
    """A cache of some of another's graphs, in other splits; no array is copied.

    Args:
        cache: the other cache.
        folder: where to put the view.
        splits: the graphs to show, and the split that each is in.
        about: what tells this view from other views, part of its fingerprint; ``None`` keeps the
            fingerprint, for networks that were trained on ``cache`` itself.

    Returns:
        The view's fingerprint.
    """
    manifest = copy.deepcopy(cache.manifest)
    if about is not None:
        manifest["fingerprint"] = fingerprint_value([cache.fingerprint, about])
    table = cache.table.filter(pl.col("graph").is_in(list(splits)))
    split = pl.col("graph").replace_strict(splits, return_dtype=pl.String)
    with atomic_folder(folder) as temporary:
        for path in cache.folder.glob("*.bin"):
            (temporary / path.name).symlink_to(path.resolve())
        write_parquet(table.with_columns(split=split), temporary / TABLE)
        manifest["checksums"] |= {TABLE: checksum_of(temporary / TABLE)}
        write_manifest(temporary, manifest)
    return manifest["fingerprint"]


def link_others(settings: Settings, outputs: Path, view: Path) -> None:
    """Put links to the caches of other collections that are learned from beside a view.

    Args:
        settings: of the model.
        outputs: where those caches are.
        view: where stages look for them.
    """
    for path in settings.others.values():
        link = view / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to((outputs / path).resolve())


def stage_flags(settings: Settings, data: Path, outputs: Path, **changed: Any) -> list[str]:
    """The flags that give a stage exactly these settings, but for the ``changed`` ones."""
    flags = ["--collection", settings.collection, "--data", str(data), "--outputs", str(outputs)]
    for field in dataclasses.fields(settings):
        if "help" in field.metadata:
            value = changed.get(field.name, getattr(settings, field.name))
            flag = field.name.replace("_", "-")
            switch = isinstance(value, bool)
            flags += [f"--{flag}" if value else f"--no-{flag}"] if switch else [f"--{flag}={value}"]
    return flags


def read_run(path: Path, split: str) -> pl.DataFrame:
    """The scores of one split: ``graph, config, permutation, score``.

    Raises:
        DataError: if the file is damaged, a score is not finite, or scores are missing.
    """
    columns = ("graph", "config", "permutation", "score")
    rows = read_score_rows(path, columns, pl.col("split") == split)
    mean_scores(path, rows)  # which checks that all are there
    return rows
