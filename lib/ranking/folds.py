"""Which graph is in which fold: a pure function of names, K and seed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from typing import Protocol

from lib.files.errors import UserError

# Of an official name: whose benchmark it is; how large, in which numbers, on what data and how it
# runs; and second names of a network.
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
        """How many there are."""

    @property
    def seed(self) -> int:
        """Another seed, another deal."""

    @property
    def keep_together(self) -> str:
        """What is never split, one of ``TOGETHER``."""


def assign_folds(
    names: Iterable[str], k: int, seed: int, together: str = "graph"
) -> dict[str, int]:
    """Deal whole graphs, or whole families of them, to ``k`` folds of like sizes.

    K-fold over the merged train and valid splits, never over configurations of one graph, whose
    runtimes are too alike (TGraph paper, section 2.4.3). The order of dealing is that of a hash
    of seed and name, so it depends neither on the order of files nor on a library's generator.
    Graphs go one after the other to the fold that has fewest, and families likewise, the largest
    first.

    Args:
        names: of the graphs.
        k: number of folds.
        seed: another seed, another deal.
        together: ``graph``, or ``family``: graphs of one :func:`family` are in one fold. Variants
            of one network resemble each other so much that a fold which saw one of them says
            little about networks never seen.

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
    for part in sorted(parts, key=lambda name: (-len(parts[name]), _draw(seed, name))):
        fold = min(range(k), key=lambda index: (sizes[index], index))
        folds |= dict.fromkeys(parts[part], fold)
        sizes[fold] += len(parts[part])
    return folds


def folds_of(names: Iterable[str], settings: FoldSettings) -> dict[str, int]:
    """:func:`assign_folds` as a collection's settings say."""
    return assign_folds(names, settings.folds_total, settings.seed, settings.keep_together)


def splits_of_fold(
    learning: Iterable[str], test: Iterable[str], fold: int, settings: FoldSettings
) -> dict[str, list[str]]:
    """The graphs that are ``valid``, ``test`` and ``train`` to one fold, each sorted.

    Args:
        learning: the graphs that are dealt, of the merged train and valid splits of the source.
        test: those of its test split.
        fold: its number.
        settings: of the collection.
    """
    assigned = sorted(folds_of(learning, settings).items())
    return {
        "valid": [name for name, number in assigned if number == fold],
        "test": sorted(test),
        "train": [name for name, number in assigned if number != fold],
    }


def fold_number(name: str) -> int | None:
    """The fold that a file or folder is of: 7 of ``fold_7``; ``None`` of any other name."""
    match = re.fullmatch(r"fold_(0|[1-9][0-9]*)", name, re.ASCII)
    return int(match[1]) if match else None


def family(name: str) -> str:
    """What a graph is a variant of: its name up to the first dot, and of official names without
    what tells no architecture: ``bert`` of ``bert_en_cased_L-12_H-768_A-12_batch_size_16_test``."""
    named = name.partition(".")[0]
    bare = RUN.sub("", BENCHMARK.sub("", named))
    return SAME.get(bare, bare) or named


def _draw(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed}:{name}".encode()).digest()


# What is never split between folds: of a graph's name, what it is known by.
UNIT_OF: dict[str, Callable[[str], str]] = {"graph": str, "family": family}
TOGETHER = tuple(UNIT_OF)
