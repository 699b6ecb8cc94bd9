"""Which networks a study needs: those at hand for inference, nested ones for blending.

**Inference** (batch and permutations) is studied with the collection's own networks: each scores
the graphs of the fold that it was validated on, which it never learned from.

**Blending** (method, and how many folds) needs graphs that *several* networks have not seen, and
among the collection's own networks each training graph has only one. So the cross-validation is
nested: the training graphs are dealt to parts; each part in turn plays the test split, and the
real stages train the folds on the graphs that remain, choose among them by their own validation,
and score the part. The collection's test split is in none of the caches that this works on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lib.cache.reader import Cache
from lib.files.artifacts import fingerprint_files
from lib.ranking.folds import assign_folds
from lib.runs.identity import Making
from lib.runs.provenance import run_identity
from lib.settings import WEIGHTS_FILES, Settings, described
from lib.study.runs import Run, cache_view, link_others, stage_flags

BATCHES = (32, 64, 128, 256, None)  # None: all of a graph's configurations at once
PERMUTATIONS = (1, 2, 5, 10, 20)
STAGE_4 = ("best_folds", "blending")  # settings that choose and blend
ALL = 1 << 30  # configurations a batch: more than any graph has


def networks_at_hand(
    making: Making, cache: Cache, data: Path, folds: Sequence[int]
) -> dict[int, Path | Run]:
    """The network of each fold: its folder, or, if these settings would train another, the run
    that trains it below the study. So a study goes over no results.

    Args:
        making: what stages would make results from.
        cache, data: the collection's; ``data`` is the root.
        folds: which.
    """
    settings, outputs = making.settings, making.folder / "study" / "networks"
    networks: dict[int, Path | Run] = {
        fold: making.folder / f"fold_{fold}" for fold in folds if making.as_it_was("train", fold)
    }
    if len(networks) < len(folds):
        splits = {name: row["split"] for name, row in cache.rows.items()}
        cache_view(cache, outputs / settings.cache, splits, None)
        link_others(settings, making.outputs, outputs)
    flags = stage_flags(settings, data, outputs)
    results = outputs / settings.results
    for fold in folds:
        line = ("02_train.py", *flags, f"--fold={fold}")
        networks.setdefault(fold, Run(f"network {fold}", results, fold, "", (line,)))
    return networks


def folders_of(networks: Mapping[int, Path | Run]) -> dict[int, Path]:
    """The folder of each fold's network, once it is trained."""
    return {
        fold: network.folder / f"fold_{fold}" if isinstance(network, Run) else network
        for fold, network in networks.items()
    }


def inference_runs(
    folder: Path, cache: Cache, settings: Settings, data: Path, networks: Mapping[int, Path]
) -> dict[int | None, list[Run]]:
    """Runs that score each fold's validation graphs, by batch.

    Batches that hold every graph's configurations give the same scores and share their runs.

    Args:
        folder: the collection's.
        cache, settings, data: the collection's; ``data`` is the root.
        networks: the folder of each fold's network.
    """
    names = cache.learning
    splits = {name: cache.rows[name]["split"] for name in names}
    largest = max(cache.rows[name]["configurations"] for name in names)
    runs: dict[int | None, list[Run]] = {}
    for batch in BATCHES:
        size = ALL if batch is None or batch >= largest else batch
        outputs = folder / "study" / f"batch_{'all' if size == ALL else size}"
        results = outputs / settings.results
        cache_view(cache, outputs / settings.cache, splits, None)
        flags = stage_flags(
            settings,
            data,
            outputs,
            inference_configurations=size,
            permutations=max(PERMUTATIONS),
            score_training=False,
        )
        runs[batch] = [
            _inference_run(trained, results, fold, settings, flags)
            for fold, trained in sorted(networks.items())
        ]
    return runs


def _inference_run(
    trained: Path, results: Path, fold: int, settings: Settings, flags: list[str]
) -> Run:
    link = results / trained.name
    results.mkdir(parents=True, exist_ok=True)  # the cache lies elsewhere, if it is shared
    link.unlink(missing_ok=True)
    link.symlink_to(trained.resolve())
    weights = fingerprint_files([trained / WEIGHTS_FILES[settings.weights]], trained)
    key = run_identity(
        [_scoring(settings), results.parent.name, fold, weights], settings, "03_infer.py"
    )
    name = f"{results.parent.name} fold {fold}"
    return Run(name, results, fold, key, (("03_infer.py", *flags, f"--fold={fold}"),))


def nested_runs(
    folder: Path, cache: Cache, settings: Settings, data: Path, folds: int, parts: int
) -> list[list[Run]]:
    """Runs that train ``folds`` networks without each part's graphs and score the part, by part.

    Args:
        folder: the collection's.
        cache, settings, data: the collection's; ``data`` is the root.
        folds: how many of the K folds to train, as stage 2 does.
        parts: how many parts the training graphs are dealt to.
    """
    names = cache.learning
    # other parts than the folds themselves
    dealt = assign_folds(names, parts, settings.seed + 1, settings.keep_together)
    nested = []
    for part in range(parts):
        splits = {n: "test" if dealt[n] == part else cache.rows[n]["split"] for n in names}
        outputs = folder / "study" / f"part_{part}_of_{parts}"
        results = outputs / settings.results
        fingerprint = cache_view(cache, outputs / settings.cache, splits, splits)
        link_others(settings, folder.parent, outputs)
        flags = stage_flags(settings, data, outputs, score_training=False)
        nested.append(
            [_nested_run(results, fold, settings, fingerprint, flags) for fold in range(folds)]
        )
    return nested


def _nested_run(
    results: Path, fold: int, settings: Settings, fingerprint: str, flags: list[str]
) -> Run:
    line = (*flags, f"--fold={fold}")
    key = run_identity([_scoring(settings), fold, fingerprint], settings, "03_infer.py")
    name = f"{results.parent.name} fold {fold}"
    return Run(name, results, fold, key, (("02_train.py", *line), ("03_infer.py", *line)))


def _scoring(settings: Settings) -> dict[str, Any]:
    """The settings that a network's scores depend on: all but stage 4's."""
    return {name: value for name, value in described(settings).items() if name not in STAGE_4}
