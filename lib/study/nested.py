"""Networks that have not seen some graphs: a cross-validation within the training graphs.

Which way of blending is best must be told by graphs that *several* networks have not seen, and of
a collection's own networks each training graph has only one. So the training graphs are dealt to
parts; each part in turn plays the test split, and the real stages train the folds on the graphs
that remain, and score the part, below the study and apart from the collection's own results. The
collection's test split is in none of the caches that this works on.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl

from lib.cache.format import TABLE
from lib.cache.manifest import write_manifest
from lib.cache.reader import Cache
from lib.files.artifacts import atomic_folder, fingerprint_value
from lib.files.checksum import checksum_of
from lib.files.errors import UserError
from lib.files.parquet import write_parquet
from lib.files.progress import Lines
from lib.ranking.folds import assign_folds
from lib.runs.identity import Making
from lib.runs.sources import ROOT
from lib.scoring.folds import Folds, read_folds
from lib.settings import Settings


def nested_folds(
    making: Making, cache: Cache, data: Path, folds: int, parts: int, jobs: int
) -> list[Folds]:
    """What the folds of each part leave, their scores of the part being those of ``test``.

    Args:
        making: what stages would make the collection's results from.
        cache, data: of the collection; ``data`` is the root.
        folds: how many of the K folds to train, as stage 2 does.
        parts: how many parts the training graphs are dealt to.
        jobs: networks that are trained at a time.

    Raises:
        UserError: of the first that failed, when those that had begun have ended.
    """
    settings = making.settings
    views = [making.folder / "study" / f"part_{n}_of_{parts}" for n in range(parts)]
    for view, splits in zip(views, splits_of_parts(cache, settings, parts), strict=True):
        cache_view(cache, view / settings.cache, splits)
        link_others(settings, making.outputs, view)
    networks = [
        (stage_flags(settings, data, view), fold) for view in views for fold in range(folds)
    ]
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(train_and_score, *network) for network in networks]
        try:
            for future in Lines("study", len(futures), "network").over(futures):
                future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [
        read_folds(view / settings.results, Cache(view / settings.cache), settings, folds)
        for view in views
    ]


def splits_of_parts(cache: Cache, settings: Settings, parts: int) -> list[dict[str, str]]:
    """The split of each training graph while each part plays the test."""
    names = cache.learning
    # other parts than the folds themselves
    part_of = assign_folds(names, parts, settings.seed + 1, settings.keep_together)
    return [
        {name: "test" if part_of[name] == part else cache.rows[name]["split"] for name in names}
        for part in range(parts)
    ]


def train_and_score(flags: Sequence[str], fold: int) -> None:
    """Run stages 2 and 3, which have nothing to do if their results are there, without W&B."""
    for script in ("02_train.py", "03_infer.py"):
        line = [sys.executable, str(ROOT / script), *flags, f"--fold={fold}"]
        environment = {**os.environ, "WANDB_MODE": "disabled"}
        done = subprocess.run(line, capture_output=True, text=True, env=environment)
        if done.returncode:
            message = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise UserError(f"study: {script} failed: {message.removeprefix('error: ')}")


def cache_view(cache: Cache, folder: Path, splits: Mapping[str, str]) -> None:
    """Make a cache of some of another's graphs, in these splits; no array is copied."""
    manifest = copy.deepcopy(cache.manifest)
    manifest["fingerprint"] = fingerprint_value([cache.fingerprint, splits])
    table = cache.table.filter(pl.col("graph").is_in(list(splits)))
    split = pl.col("graph").replace_strict(splits, return_dtype=pl.String)
    with atomic_folder(folder) as temporary:
        for path in cache.folder.glob("*.bin"):
            (temporary / path.name).symlink_to(path.resolve())
        write_parquet(table.with_columns(split=split), temporary / TABLE)
        manifest["checksums"] |= {TABLE: checksum_of(temporary / TABLE)}
        write_manifest(temporary, manifest)


def link_others(settings: Settings, outputs: Path, view: Path) -> None:
    """Put links to the caches in ``outputs`` of other collections that are learned from beside a
    view, where stages look for them."""
    for path in settings.others.values():
        link = view / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to((outputs / path).resolve())


def stage_flags(settings: Settings, data: Path, outputs: Path) -> list[str]:
    """The flags that give a stage exactly these settings; it scores no training graphs."""
    flags = ["--collection", settings.collection, "--data", str(data), "--outputs", str(outputs)]
    for field in dataclasses.fields(settings):
        if "help" in field.metadata and field.name != "score_training":
            value, flag = getattr(settings, field.name), field.name.replace("_", "-")
            switch = isinstance(value, bool)
            flags += [f"--{flag}" if value else f"--no-{flag}"] if switch else [f"--{flag}={value}"]
    return [*flags, "--no-score-training"]
