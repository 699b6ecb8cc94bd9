"""What the results of each stage are made from, and whether they would be the same again.

One answer for all who ask: Make, before it starts a stage; a stage, before it works; ``make
status``; and stages 3 and 4, of the files that they read. Times of files are no part of it. Results
are made from

* the settings that a stage reads, by value,
* data: raw files and caches by content,
* code that the chosen model runs (:mod:`lib.runs.sources`), and
* what the stage before made, by its identity, which has all that is said here of that one.

Not of the code of stages 1 to 3: rooms that read, write, check and tell, and what validation is
measured by. Versions of packages are recorded, and are no reason to make anything again. Only the
standard library is needed, for Make asks before there is an environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lib.files.artifacts import fingerprint_files, fingerprint_value, read_json
from lib.files.errors import DataError
from lib.runs.ingredients import (
    MANIFEST,
    code_for,
    constants,
    data_in,
    identity_in,
    part_of,
    read_by,
    record_path,
)
from lib.settings import Settings
from lib.settings.resolved import ROOTS
from lib.tpugraphs.dataset import MEASUREMENTS, npz_folder, sizes_and_times

TRAINED = ("model.safetensors", "last.safetensors", "metrics.json", "history.parquet")


@dataclass(frozen=True)
class Making:
    """What a run of the stages would make its results from.

    Attributes:
        outputs: where results go.
        settings: of all stages.
        data: the data root that the user named, if any.
        folds: that stage 4 blends; ``None`` for all that are there.
        keep_going: whether stage 1 leaves bad files out.
    """

    outputs: Path
    settings: Settings
    data: Path | None = None
    folds: int | None = None
    keep_going: bool = False

    @property
    def folder(self) -> Path:
        """Of the results."""
        return self.outputs / self.settings.results

    @property
    def cache(self) -> Path:
        """Of the cache, which other models share."""
        return self.outputs / self.settings.cache

    def made_from(self, stage: str, fold: int | None = None) -> dict[str, Any]:
        """What a stage's results are made from, of a fold if it runs once a fold."""
        match stage:
            case "preprocess":
                return self._preprocess()
            case "train":
                return self._train(fold)
            case "infer":
                return self._infer(fold)
        return self._ensemble()

    def identity(self, stage: str, fold: int | None = None) -> str:
        """Fingerprint of what a stage's results are made from."""
        return fingerprint_value(self.made_from(stage, fold))

    def _preprocess(self) -> dict[str, Any]:
        names = ("kind", *self.settings.cache_depends_on)
        values = {name: getattr(self.settings, name) for name in names}
        return {
            "settings": {**values, "keep_going": self.keep_going},
            "code": code_for("preprocess", self.settings),
        }

    def _train(self, fold: int | None) -> dict[str, Any]:
        return {
            "settings": {**constants(self.settings), **read_by(self.settings, 1, 2)},
            "fold": fold,
            **self.data_of_training,
            "code": code_for("train", self.settings),
        }

    def _infer(self, fold: int | None) -> dict[str, Any]:
        return {
            "trained": self.identity("train", fold),
            "settings": read_by(self.settings, 3),
            "code": code_for("infer", self.settings),
        }

    def _ensemble(self) -> dict[str, Any]:
        scored = {k: self.identity("infer", k) for k in self.fold_numbers}
        return {
            "scores": fingerprint_value(scored),
            "settings": {**read_by(self.settings, 4), "folds": sorted(scored)},
            "measurements": self._measurements,
            "code": code_for("ensemble", self.settings),
        }

    @property
    def fold_numbers(self) -> list[int]:
        """The folds that stage 4 blends."""
        if self.folds is not None:
            return list(range(self.folds))
        names = (path.stem.removeprefix("fold_") for path in self.folder.glob("scores/fold_*"))
        return sorted(int(name) for name in names if name.isdecimal())

    @cached_property
    def data_of_training(self) -> dict[str, Any]:
        """Fingerprints of the data that a fold learns from.

        ``data``, the collection's cache; ``other_data``, other caches' by name, and ``measured``,
        that of what a new network is taught, if there are any. One that is not there is empty.
        """
        data: dict[str, Any] = {"data": data_in(self.cache)}
        if caches := self.settings.others:
            data["other_data"] = {k: data_in(self.outputs / cache) for k, cache in caches.items()}
        if (file := self.settings.taught) is not None:
            data["measured"] = fingerprint_files([file], file.parent) if file.exists() else ""
        return data

    @cached_property
    def _measurements(self) -> str:
        """Fingerprint of the runtimes that lie apart from the raw files; empty if none do."""
        root = self.root
        file = root[0] / MEASUREMENTS if root else None
        return fingerprint_files([file], file.parent) if file and file.exists() else ""

    @property
    def root(self) -> tuple[Path, Path] | None:
        """The data root, and the folder in it that raw files lie below; ``None`` if none is."""
        return npz_folder([self.data] if self.data else ROOTS, self.settings.folder)

    # What is there.

    def stated(self, stage: str, fold: int | None = None) -> str:
        """The identity that a stage's results say they have; empty if they are not there, damaged,
        or of an earlier version."""
        try:
            return str(self._stated(stage, fold) or "")
        except (DataError, OSError, AttributeError):
            return ""

    def _stated(self, stage: str, fold: int | None) -> Any:
        if stage == "preprocess":
            record = self.record(stage)
            return record.get("identity") if record.get("data") == data_in(self.cache) else ""
        files = self.files(stage, fold)
        if not all(file.exists() for file in files):
            return ""
        if stage == "infer":
            return identity_in(files[0])
        metrics = next(file for file in files if file.name == "metrics.json")
        about = read_json(metrics)
        if stage == "ensemble":
            return about.get("settings", {}).get("identity")
        return about.get("identity")

    def files(self, stage: str, fold: int | None = None) -> list[Path]:
        """What a stage writes; Make goes by the last."""
        folder = self.folder
        match stage:
            case "preprocess":
                return [self.cache / MANIFEST]
            case "train":
                return [folder / f"fold_{fold}" / name for name in TRAINED]
            case "infer":
                return [folder / "scores" / f"fold_{fold}.parquet"]
        return [folder / name for name in (self.settings.table, "metrics.json", "report.html")]

    def record(self, stage: str, fold: int | None = None) -> dict[str, Any]:
        """What a stage left of its last run; empty if it is no document."""
        try:
            document = read_json(record_path(self.outputs, part_of(stage, fold), self.settings))
        except DataError:
            return {}
        return document if isinstance(document, dict) else {}

    def as_it_was(self, stage: str, fold: int | None = None, looks: bool = True) -> bool:
        """Whether a stage would make what is there.

        Args:
            stage, fold: which.
            looks: whether raw files of another time are read; else they count as others.
        """
        if self.stated(stage, fold) != self.identity(stage, fold):
            return False
        return stage != "preprocess" or not self.other_raw_files(looks)

    def other_raw_files(self, looks: bool = True) -> list[str]:
        """Raw files, by split and name, that were added, removed or changed since stage 1 ran."""
        if self.root is None:
            return ["all"]
        before, after = self.record("preprocess"), self.raw_files
        raw, contents = before.get("raw", {}), before.get("contents", {})

        def same(name: str) -> bool:
            if after.get(name) == raw.get(name):
                return True
            if name not in after or after[name][:1] != raw.get(name, [])[:1] or not looks:
                return False
            return self._content(name) == contents.get(name)

        return sorted(name for name in {**raw, **after} if not same(name))

    @cached_property
    def raw_files(self) -> dict[str, list[int]]:
        """Bytes and time of each raw file, by split and name; none if there is no root."""
        return sizes_and_times(*self.root, self.settings.folder) if self.root else {}

    def contents(self, earlier: Mapping[str, str]) -> dict[str, str]:
        """The fingerprint of each raw file, by split and name; ``earlier`` ones are not read."""
        return {name: earlier.get(name) or self._content(name) for name in self.raw_files}

    def _content(self, name: str) -> str:
        """A raw file's fingerprint; empty of a pipe or a device, which stage 1 leaves out."""
        path = self.path_of(name)
        return fingerprint_files([path], path.parent) if path.is_file() else ""

    def path_of(self, name: str) -> Path:
        """Where a raw file is."""
        root, npz = self.root or (Path(), Path())
        path = npz / self.settings.folder / name
        return path if path.exists() else root / Path(name).name
