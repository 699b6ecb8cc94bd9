"""Why `make all` would make something again: what it was made from, beside what would be used now.

What is stale, :mod:`lib.runs.identity` says, which make and the stages ask too. Each stage's record
has what its results were made from, so that it can be told what has changed, from what to what.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lib.files.artifacts import fingerprint_value
from lib.runs.identity import Run

SHOWN = 4  # files of a reason, before it is "and n more"
MAKES_NAMES = {"folds": "FOLDS"}
BEFORE = {"train": "preprocess", "infer": "train", "ensemble": "infer"}
MADE_BEFORE = ("trained", "scores")  # what results are made from, and the stage before makes
UNTOLD = "it is another version's, damaged, or of a run that left no record"


@dataclass
class Part:
    """One run of a stage.

    Attributes:
        stage: which.
        fold: of it, ``None`` if there is one for all.
        files: that it writes.
        why: what it would run again for; empty if its results are up to date, or not there.
    """

    stage: str
    fold: int | None
    files: list[Path]
    why: list[str] = field(default_factory=list)

    @property
    def mark(self) -> Path:
        """The file that make goes by."""
        return next((path for path in self.files if path.name == "metrics.json"), self.files[0])

    @property
    def built(self) -> bool:
        """Whether it is there, stale or not."""
        return self.mark.exists()

    @property
    def due(self) -> bool:
        """Whether it runs."""
        return bool(self.why) or not self.built

    @property
    def time(self) -> int:
        """When it was made, in nanoseconds; 0 if it is not there."""
        return self.mark.stat().st_mtime_ns if self.built else 0


def stale_parts(making: Run) -> list[Part]:
    """What `make all` makes, in the order of the stages, each with why it would make it again."""
    parts = [Part(stage, fold, making.files(stage, fold)) for stage, fold in making.parts()]
    for part in parts:
        if part.built:
            why = reasons(making, part)
            before = BEFORE.get(part.stage)
            needed = [earlier for earlier in parts if earlier.stage == before]
            of_fold = [earlier for earlier in needed if earlier.fold == part.fold] or needed
            if any(earlier.due for earlier in of_fold):
                why.append(f"after {before}, which runs again")
            part.why = list(dict.fromkeys(why))
    return parts


def reasons(making: Run, part: Part) -> list[str]:
    """Why a stage would make again what is there."""
    missing = [path.name for path in part.files if not path.exists()]
    if missing:
        return [f"{name} is missing" for name in missing]
    stated, now = making.stated(part.stage, part.fold), making.made_from(part.stage, part.fold)
    why: list[str] = []
    if stated != fingerprint_value(now):
        before = making.record(part.stage, part.fold).get("made_from")
        traced = isinstance(before, dict) and fingerprint_value(before) == stated
        why = differences(before, now) if traced else [UNTOLD]
    if part.stage == "preprocess" and (names := making.other_raw_files()):
        why.append(f"raw files were added, removed or changed: {_listed(names)}")
    return why


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What is not the same in two accounts of what results are made from, in words."""
    why = []
    for name in sorted(before.keys() | now.keys()):
        old, new = before.get(name), now.get(name)
        if old == new or name in MADE_BEFORE:
            continue
        if name == "settings":
            why.append(f"changed: {', '.join(_settings(old, new))}")
        elif name == "code":
            files = sorted(key for key in old | new if old.get(key) != new.get(key))
            why.append(f"code: {_listed(files)}")
        elif name == "data":
            why.append(f"made from other data: {old[:6]} → {new[:6]}")
        else:
            why.append(f"made with other {name.replace('_', ' ')}")
    return why


def _settings(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    names = sorted(key for key in before | now if before.get(key) != now.get(key))
    return [f"{_flag(key)} {_value(before.get(key))} → {_value(now.get(key))}" for key in names]


def _flag(name: str) -> str:
    return MAKES_NAMES.get(name, f"--{name.replace('_', '-')}")


def _value(value: Any) -> str:
    """A setting's value; of folds, how many there are."""
    return str(len(value) if isinstance(value, list) else value)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
