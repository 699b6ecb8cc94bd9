"""The identity of results: what each stage's results are made from, and whether that has changed.

Make asks before it starts a stage, a stage before it works, ``make status``, and stages 3 and 4 of
the files that they read. Results are made from

* the settings that a stage reads, by value,
* data: raw files and caches, by content,
* the code that the model runs (:mod:`lib.runs.code`), and
* the results of the stage before, by their identity.

Times of files and versions of packages are no part of it. Only the standard library is needed, for
Make asks before there is an environment. docs/explanation/rerun.md explains it.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lib.files.artifacts import fingerprint_files, fingerprint_value, read_json
from lib.files.errors import DataError, UserError
from lib.files.results import read_fold_metrics
from lib.runs.code import STAGES, TRAINED_BY, code_for
from lib.settings import Settings, described
from lib.settings.resolved import ROOTS
from lib.tpugraphs.dataset import MEASUREMENTS, npz_folder, sizes_and_times

RECORDS, MANIFEST = "stages", "manifest.json"
TRAINED = ("model.safetensors", "last.safetensors", "metrics.json", "history.parquet")
# Constants of settings that change no result: words, and tables that settings take values from.
NO_VALUES = {
    *("how_to_get", "graphs", "table", "fits", "implied", "evidence"),
    *("hardware_of", "least_programs", "scatter"),
    *("cache_depends_on", "others_depend_on"),
}
TAIL = 1 << 16  # bytes at the end of a parquet, which have its metadata
HEAD = 1 << 24  # bytes at most that the metadata of tensors take, at the beginning
IDENTITY = re.compile(rb'identity(?:\x18\x40|[\\": ]+)([0-9a-f]{64})')  # in Thrift, in JSON


@dataclass(frozen=True)
class Run:
    """The inputs of a run of the stages, and the files that they write.

    Attributes:
        outputs: folder of all results.
        settings: of all stages.
        data: the data root that the user named, if any.
        folds: number of folds that stage 4 blends; ``None`` for all that are there.
        keep_going: whether stage 1 leaves bad files out.
    """

    outputs: Path
    settings: Settings
    data: Path | None = None
    folds: int | None = None
    keep_going: bool = False

    @property
    def folder(self) -> Path:
        """The folder of the results."""
        return self.outputs / self.settings.results

    @property
    def cache(self) -> Path:
        """The folder of the cache, which other models share."""
        return self.outputs / self.settings.cache

    def made_from(self, stage: str, fold: int | None = None) -> dict[str, Any]:
        """Return what a stage's results are made from."""
        settings = self.settings
        made: dict[str, Any] = {"code": code_for(stage, settings)}
        match stage:
            case "preprocess":
                names = ("kind", *settings.cache_depends_on)
                values = {name: getattr(settings, name) for name in names}
                made["settings"] = {**values, "keep_going": self.keep_going}
            case "train":
                made["settings"] = {**constants(settings), **read_by(settings, 1, 2)}
                made |= {"fold": fold, **self.data_of_training}
            case "infer":
                made["trained"] = self.identity("train", fold)
                made["settings"] = read_by(settings, 3)
            case "ensemble":
                scored = {k: self.identity("infer", k) for k in self.fold_numbers}
                made["scores"] = fingerprint_value(scored)
                made["settings"] = {**read_by(settings, 4), "folds": sorted(scored)}
                made["measurements"] = self._measurements
        return made

    def identity(self, stage: str, fold: int | None = None) -> str:
        """Return the fingerprint of :meth:`made_from`."""
        return fingerprint_value(self.made_from(stage, fold))

    @property
    def fold_numbers(self) -> list[int]:
        """The folds that stage 4 blends."""
        if self.folds is not None:
            return list(range(self.folds))
        names = (path.stem.removeprefix("fold_") for path in self.folder.glob("scores/fold_*"))
        return sorted(int(name) for name in names if name.isdecimal())

    def parts(self) -> list[tuple[str, int | None]]:
        """Return each stage's runs in order: once, or once a fold."""
        every = {stage: self.fold_numbers for stage in ("train", "infer")}
        return [(stage, fold) for stage in STAGES for fold in every.get(stage, [None])]

    @cached_property
    def data_of_training(self) -> dict[str, Any]:
        """Fingerprints of the data that a fold learns from; one that is not there is empty.

        ``data`` is the collection's cache, ``other_data`` the other caches by name, and
        ``measured`` what a new network is pretrained on.
        """
        data: dict[str, Any] = {"data": data_in(self.cache)}
        if caches := self.settings.others:
            data["other_data"] = {k: data_in(self.outputs / cache) for k, cache in caches.items()}
        if (file := self.settings.pretrained_on) is not None:
            data["measured"] = fingerprint_files([file], file.parent) if file.exists() else ""
        return data

    @cached_property
    def _measurements(self) -> str:
        """Fingerprint of runtimes in a table apart from the raw files; empty if there is none."""
        file = self.root[0] / MEASUREMENTS if self.root else None
        return fingerprint_files([file], file.parent) if file and file.exists() else ""

    @property
    def root(self) -> tuple[Path, Path] | None:
        """The data root, and the folder in it that has the raw files; ``None`` if there is none."""
        return npz_folder([self.data] if self.data else ROOTS, self.settings.folder)

    # Results that are there.

    def files(self, stage: str, fold: int | None = None) -> list[Path]:
        """Return the files that a stage writes; Make goes by the last."""
        match stage:
            case "preprocess":
                return [self.cache / MANIFEST]
            case "train":
                return [self.folder / f"fold_{fold}" / name for name in TRAINED]
            case "infer":
                return [self.folder / "scores" / f"fold_{fold}.parquet"]
        return [self.folder / name for name in (self.settings.table, "metrics.json", "report.html")]

    def up_to_date(self, stage: str, fold: int | None = None, reads: bool = True) -> bool:
        """Return whether a stage would make what is there.

        Args:
            stage, fold: which.
            reads: whether raw files whose time has changed are read; else they count as changed.
        """
        if self.stated(stage, fold) != self.identity(stage, fold):
            return False
        return stage != "preprocess" or not self.other_raw_files(reads)

    def stated(self, stage: str, fold: int | None = None) -> str:
        """Return the identity that a stage's results state; empty if they are not there, damaged,
        changed since, or of an earlier version."""
        try:
            return str(self._stated(stage, fold) or "")
        except (DataError, OSError, AttributeError):
            return ""

    def _stated(self, stage: str, fold: int | None) -> Any:
        record = self.record(stage, fold)
        if stage == "preprocess":
            return record.get("identity") if record.get("data") == data_in(self.cache) else ""
        files = self.files(stage, fold)
        if not all(file.exists() for file in files):
            return ""
        if "files" in record and record["files"] != state_of(files, stage):
            return ""
        if stage == "infer":
            return identity_in(files[0])
        if stage == "train" and len({identity_in(file) for file in files}) > 1:
            return ""
        metrics = next(file for file in files if file.name == "metrics.json")
        document = read_json(metrics)
        if stage == "ensemble":
            return document.get("settings", {}).get("identity")
        return document.get("identity")

    def record(self, stage: str, fold: int | None = None) -> dict[str, Any]:
        """Return what a stage recorded of its last run; empty if there is no such document."""
        try:
            document = read_json(record_path(self.outputs, part_of(stage, fold), self.settings))
        except DataError:
            return {}
        return document if isinstance(document, dict) else {}

    # Raw files.

    def other_raw_files(self, reads: bool = True) -> list[str]:
        """Return raw files, by split and name, that came, went or changed since stage 1 ran."""
        if self.root is None:
            return ["all"]
        before, after = self.record("preprocess"), self.raw_files
        raw, contents = before.get("raw", {}), before.get("contents", {})

        def same(name: str) -> bool:
            if after.get(name) == raw.get(name):
                return True
            if name not in after or after[name][:1] != raw.get(name, [])[:1] or not reads:
                return False
            return self._content(name) == contents.get(name)

        return sorted(name for name in {**raw, **after} if not same(name))

    @cached_property
    def raw_files(self) -> dict[str, list[int]]:
        """The state of each raw file when it was first asked for; none if there is no root."""
        return self._raw_files_now()

    def _raw_files_now(self) -> dict[str, list[int]]:
        return sizes_and_times(*self.root, self.settings.folder) if self.root else {}

    def check_raw_files(self) -> None:
        """Raise a UserError if a raw file came, went or changed since :attr:`raw_files` was read.

        Call it before and after the files are read.
        """
        before, now = self.raw_files, self._raw_files_now()
        for name in sorted({**before, **now}):
            if before.get(name) != now.get(name):
                raise UserError(f"{self.path_of(name)}: changed while stage 1 ran; run it again")

    def contents(self, earlier: Mapping[str, str]) -> dict[str, str]:
        """Return the fingerprint of each raw file; those in ``earlier`` are not read."""
        return {name: earlier.get(name) or self._content(name) for name in self.raw_files}

    def _content(self, name: str) -> str:
        """A raw file's fingerprint; empty of a pipe or a device, which stage 1 leaves out."""
        path = self.path_of(name)
        return fingerprint_files([path], path.parent) if path.is_file() else ""

    def path_of(self, name: str) -> Path:
        """Return the path of a raw file."""
        root, npz = self.root or (Path(), Path())
        path = npz / self.settings.folder / name
        return path if path.exists() else root / Path(name).name

    # Files that stages 3 and 4 read.

    def check_trained(self, path: Path, metadata: Mapping[str, Any], fold: int) -> None:
        """Raise a DataError unless a fold's weights or metrics are those that this run would train.

        Args:
            path: the file.
            metadata: what it states of itself.
            fold: whose it has to be.
        """
        if metadata.get("fold") != fold:
            raise DataError(path, "fold", metadata.get("fold"), f"{fold}; train again")
        for name, value in self.data_of_training.items():
            if metadata.get(name) != value:
                whose = "another cache's" if name == "data" else "other data's"
                raise DataError(path, name, f"{whose} fingerprint", "this one's: train again")
        for name, value in read_by(self.settings, 1, 2).items():
            if metadata.get(name) != value:
                says = f"{value} as --{name.replace('_', '-')} says, or its default"
                expected = f"{says}: give the flags that it was trained with, or train again"
                raise DataError(path, name, metadata.get(name), expected)
        if metadata.get("identity") != self.identity("train", fold):
            raise DataError(path, "identity", "that of other code", "this code's: train again")

    def check_scored(self, fold: int) -> None:
        """Raise a DataError unless a fold's metrics and scores are those that this run makes."""
        (scores,) = self.files("infer", fold)
        trained = {file.name: file for file in self.files("train", fold)}
        metrics = trained.pop("metrics.json")
        self.check_trained(metrics, read_fold_metrics(metrics), fold)
        for file in trained.values():
            if file.exists() and identity_in(file) != self.identity("train", fold):
                whose = "none, or that of another training"
                raise DataError(file, "identity", whose, f"that of fold {fold}; train again")
        identity = identity_in(scores)
        if identity != self.identity("infer", fold):
            folds = [k for k in self.fold_numbers if identity == self.identity("infer", k)]
            whose = f"that of fold {folds[0]}" if folds else "that of other weights or settings"
            advice = f"run 03_infer.py --fold {fold} again"
            expected = f"that of fold {fold} and these flags; {advice}"
            raise DataError(scores, "identity", whose, expected)


def constants(settings: Settings) -> dict[str, Any]:
    """Return what a model's settings fix by their class, such as a loss that is no setting.

    Code that it names counts as code, not here.
    """
    notes = [vars(base).get("__annotations__", {}) for base in type(settings).__mro__]
    names = {name for note in notes for name, kind in note.items() if kind.startswith("ClassVar")}
    names -= {*NO_VALUES, *TRAINED_BY}
    values = {name: getattr(settings, name, None) for name in sorted(names)}
    return json.loads(json.dumps(values))  # tuples as lists, as a record has them


def read_by(settings: Settings, *stages: int) -> dict[str, Any]:
    """Return the settings that one of these stages reads, and none before them."""
    first = {f.name: f.metadata.get("first", 1) for f in dataclasses.fields(settings)}
    return {name: value for name, value in described(settings).items() if first[name] in stages}


def data_in(cache: Path) -> str:
    """Return the fingerprint that a cache states; empty if there is none."""
    try:
        manifest = read_json(cache / MANIFEST)
    except DataError:
        return ""
    return str(manifest.get("fingerprint", "")) if isinstance(manifest, dict) else ""


def state_of(files: list[Path], stage: str) -> dict[str, list[int]]:
    """Return the size of each result, by name, and of stage 4's also the time (ns).

    Stage 4's are read by people, who edit them, and made anew in seconds. The times of others do
    not count: a ``touch`` must not cost a training.
    """
    known = ("st_size", "st_mtime_ns") if stage == "ensemble" else ("st_size",)
    return {file.name: [getattr(file.stat(), name) for name in known] for file in files}


def outputs_of(cache: Path, settings: Settings) -> Path:
    """Return the folder of all outputs that a cache is in."""
    return cache.parents[len(settings.cache.parts) - 1]


def identity_in(path: Path) -> str:
    """Return the identity that a table, tensors or a JSON document state; empty if they do not."""
    with open(path, "rb") as file:
        match path.suffix:
            case ".json":
                content = file.read()
            case ".safetensors":
                content = file.read(min(HEAD, int.from_bytes(file.read(8), "little")))
            case _:
                file.seek(max(0, file.seek(0, 2) - TAIL))
                content = file.read()
    identities = IDENTITY.findall(content)
    return identities[-1].decode() if identities else ""


def part_of(stage: str, fold: int | None) -> str:
    """Return the name of a stage's run: ``train_0``, ``ensemble``."""
    return stage if fold is None else f"{stage}_{fold}"


def record_path(outputs: Path, part: str, settings: Settings) -> Path:
    """Return the path of a run's record: stage 1's beside its cache, others' beside the results.

    Args:
        outputs: folder of all results.
        part: see :func:`part_of`.
        settings: the stage's.
    """
    if part == STAGES[0]:
        cache = outputs / settings.cache
        return cache.parent / RECORDS / f"{cache.name.replace('cache', part)}.json"
    return outputs / settings.results / RECORDS / f"{part}.json"
