"""Folds of graphs: a pure function of names, K and seed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from typing import Protocol

from lib.files.errors import UserError

# Parts of official names: the benchmark; size, number format, data and mode of a run; and second
# names of a network.
BENCHMARK = re.compile(r"^(?:inference_)?(?:mlperf_|tf2_|small_bert_)")
RUN = re.compile(
    r"""_(?:
        (?:\d+_)?batch(?:_size)?_\d+ | \d+_shard | \d+x\d+ | img\d+ | (?:bf|fp|f)(?:16|32)
        | train | test | eval | official | fast_epoch | natural | optimized
        | (?:tf2_)?dynamic (?:_batch_size | _sequence_length | _shape)?
        | [LHA]-\d+ | base | x?large | (?<=resnet_v\d_)\d+ | (?<=rcnn_)resnet50
        | (?<=mnasnet_)[ab]\d | (?<=efficientnet_)b\d
        | en | multi | (?:un)?cased | imagenet | pubmed | wiki_books
        | (?<=bert_)(?:pretrain | pretraining | classifier | squad)
        | -?[0-9a-f]{12,16}$
    )(?=_|$)""",
    re.VERBOSE,
)
SAME = {"resnet": "resnet50", "resnet_v1": "resnet50", "unet_3d": "unet3d", "mask_rcnn": "maskrcnn"}


class FoldSettings(Protocol):
    """The settings that folds depend on; every :class:`lib.settings.Settings` has them."""

    @property
    def folds_total(self) -> int:
        """Number of folds."""

    @property
    def seed(self) -> int:
        """Seed of the assignment."""

    @property
    def keep_together(self) -> str:
        """Unit that is never split between folds, one of ``TOGETHER``."""


def assign_folds(
    names: Iterable[str], k: int, seed: int, together: str = "graph"
) -> dict[str, int]:
    """Assign whole graphs, or whole families of them, to ``k`` folds of similar sizes.

    Folds divide the merged train and valid splits, never the configurations of one graph, whose
    runtimes are too similar (TGraph paper, section 2.4.3). Graphs are assigned in the order of a
    hash of seed and name, so neither the order of files nor a library's generator matters. Each
    goes to the fold that has fewest graphs; so do families, the largest first.

    Args:
        names: names of the graphs.
        k: number of folds.
        seed: seed of the assignment.
        together: ``graph``, or ``family``: graphs of one :func:`family` are in one fold. Variants
            of one network resemble each other so much that a fold with one of them in training
            says little about unseen networks.

    Raises:
        UserError: if there are fewer graphs, or families, than folds.
    """
    parts: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        parts.setdefault(UNIT_OF[together](name), []).append(name)
    if not 2 <= k <= len(parts):
        what = "families" if together == "family" else "graphs"
        most = f"from 2 to {len(parts)}, the number of {what} that can be ranked"
        few = f"there must be 2 {what} that can be ranked, one to train on and one to validate on"
        raise UserError(f"--folds-total {k}: {f'must be {most}' if len(parts) > 1 else few}")
    folds: dict[str, int] = {}
    sizes = [0] * k

    def order(part: str) -> tuple[int, bytes]:
        return -len(parts[part]), hashlib.sha256(f"{seed}:{part}".encode()).digest()

    for part in sorted(parts, key=order):
        fold = min(range(k), key=lambda index: (sizes[index], index))
        folds |= dict.fromkeys(parts[part], fold)
        sizes[fold] += len(parts[part])
    return folds


def folds_of(names: Iterable[str], settings: FoldSettings) -> dict[str, int]:
    """Return :func:`assign_folds` under a collection's settings."""
    return assign_folds(names, settings.folds_total, settings.seed, settings.keep_together)


def splits_of_fold(
    learning: Iterable[str], test: Iterable[str], fold: int, settings: FoldSettings
) -> dict[str, list[str]]:
    """Return the graphs that are ``valid``, ``test`` and ``train`` for one fold, each sorted.

    Args:
        learning: graphs that are assigned to folds: the source's merged train and valid splits.
        test: graphs of the source's test split.
        fold: number of the fold.
        settings: settings of the collection.
    """
    assigned = sorted(folds_of(learning, settings).items())
    return {
        "valid": [name for name, number in assigned if number == fold],
        "test": sorted(test),
        "train": [name for name, number in assigned if number != fold],
    }


def fold_number(name: str) -> int | None:
    """Return the fold that a file or folder is named after: 7 of ``fold_7``; else ``None``."""
    match = re.fullmatch(r"fold_(0|[1-9][0-9]*)", name, re.ASCII)
    return int(match[1]) if match else None


def family(name: str) -> str:
    """Return the network that a graph is a variant of: its name up to the first dot.

    Official names also lose the parts that are no architecture: ``bert`` for
    ``bert_en_cased_L-12_H-768_A-12_batch_size_16_test``.
    """
    named = name.partition(".")[0]
    bare = RUN.sub("", BENCHMARK.sub("", named))
    return SAME.get(bare, bare) or named


# Units that are never split between folds: functions from a graph's name to the unit's.
UNIT_OF: dict[str, Callable[[str], str]] = {"graph": str, "family": family}
TOGETHER = tuple(UNIT_OF)
