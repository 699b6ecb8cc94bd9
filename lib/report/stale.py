"""Why `make all` would make something again: what a run recorded, beside what would be used now.

Each stage leaves a record of its run in ``stages/``: its flags and settings, the fingerprints of
its code and of the cache, and stage 1 the sizes and times of the raw files. So it can be told what
has changed, from what to what.

Make goes by times of files, of its stamps among them. These are looked at too, so that what is
called stale here is what runs again. The two differ where only one of them can know:

* A source that is newer but holds the same is named as such. Make runs the stage again for it.
* Code that is another but no newer (copied with its times) is named as well. Make does not see it.
* Where the outputs lie is no matter, here and for make.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from lib.cache.format import MANIFEST
from lib.cache.manifest import read_manifest
from lib.cache.reader import read_table
from lib.files.artifacts import fingerprint_files
from lib.files.errors import DataError, UserError
from lib.report.experiment import STAGES
from lib.runs.provenance import code_of
from lib.runs.sources import ROOT, sources_of
from lib.runs.stage import SCRIPTS, read_record, record_path
from lib.settings import BUNDLED, DOWNLOADED, Settings, described
from lib.tpugraphs.roots import MEASUREMENTS, DataRoot

SHOWN = 4  # files of a reason, before it is "and n more"
FIRST_READS = ("--data", "--keep-going")  # flags of stage 1 that are not in its cache's name
NOT_COMPARED = ("--outputs", "--fold", "--jobs")
MAKES_NAMES = {"--folds": "FOLDS"}
DEFAULT = "(default)"
NOT_BY_MAKE = "it was not made by make, which does not know its flags"


@dataclass
class Part:
    """One thing that a stage makes.

    Attributes:
        stage: which.
        fold: of it, ``None`` if there is one for all.
        path: its file, which make goes by.
        why: what it would be made again for; empty if it is up to date, or not there.
    """

    stage: str
    fold: int | None
    path: Path
    why: list[str] = field(default_factory=list)

    @property
    def built(self) -> bool:
        """Whether it is there, stale or not."""
        return self.path.exists()

    @property
    def time(self) -> int:
        """When it was made, in nanoseconds; 0 if it is not there."""
        return _time(self.path)


@dataclass(frozen=True)
class Now:
    """What `make all` would use.

    Attributes:
        outputs, stamps: where results go, and where make keeps the flags that it gave last.
        flags: what it would give each stage.
        settings: each stage's that follow from them.
        root: the data root; ``None`` if there is none any more.
        data: the folder that the user named instead of the usual ones.
    """

    outputs: Path
    stamps: Path
    flags: Mapping[str, str]
    settings: Mapping[str, Settings]
    root: DataRoot | None
    data: Path | None = None

    @property
    def chosen(self) -> Settings:
        """Settings that name the folders, which are every stage's."""
        return self.settings["ensemble"]

    @property
    def folder(self) -> Path:
        """Of the results."""
        return self.outputs / self.chosen.results

    @property
    def cache(self) -> Path:
        """Of the cache, which other models may share."""
        return self.outputs / self.chosen.cache

    @cached_property
    def fingerprint(self) -> str:
        """The cache's; empty if there is none."""
        try:
            return read_manifest(self.cache)["fingerprint"]
        except UserError:
            return ""

    def stamp(self, stage: str) -> Path:
        """Make's stamp of a stage's flags."""
        if stage == STAGES[0]:
            name = self.cache.name.replace("cache", stage)
            return self.stamps / f"{self.chosen.collection}.{name}"
        return self.stamps / f"{self.folder.name}.{stage}"


def parts_of(now: Now, folds: int) -> list[Part]:
    """What `make all` makes, in the order of the stages, each with why it would make it again."""
    parts = [Part("preprocess", None, now.cache / MANIFEST)]
    parts += [Part("train", k, now.folder / f"fold_{k}" / "metrics.json") for k in range(folds)]
    scores = now.folder / "scores"
    parts += [Part("infer", k, scores / f"fold_{k}.parquet") for k in range(folds)]
    results = (now.chosen.table, "metrics.json", "report.html")
    parts += [Part("ensemble", None, now.folder / name) for name in results]
    for part in parts:
        if part.built:
            part.why = _own_reasons(part, now) + _reasons_before(part, parts)
    last = [part for part in parts if part.stage == "ensemble"]  # it makes its files at once
    missing = [f"{part.path.name} is missing" for part in last if not part.built]
    why = list(dict.fromkeys([reason for part in last for reason in part.why] + missing))
    for part in last:
        part.why = why
    return parts


def _reasons_before(part: Part, parts: Sequence[Part]) -> list[str]:
    """What is made again, or was, of the stage before; a fold's scores are of its own network."""
    before = {"train": "preprocess", "infer": "train", "ensemble": "infer"}.get(part.stage)
    needed = [one for one in parts if one.stage == before and one.fold in (None, part.fold)]
    if part.stage == "ensemble":
        needed = [one for one in parts if one.stage == before]
    if any(one.why or not one.built or one.time > part.time for one in needed):
        return [f"after {before}, which runs again or is newer"]
    return []


def _own_reasons(part: Part, now: Now) -> list[str]:
    name = part.stage if part.fold is None else f"{part.stage}_{part.fold}"
    try:
        record = read_record(record_path(now.outputs, name, now.chosen))
    except DataError:  # read_experiment warns of it
        record = {}
    why = [*_raw_files(part, record, now)] if part.stage == STAGES[0] else []
    why += [*_flags(part, record, now), *_code(part, record), *_measurements(part, now)]
    then = record.get("data", now.fingerprint)
    if part.stage != STAGES[0] and now.fingerprint and then != now.fingerprint:
        why.append(f"made from other data: {then[:6]} → {now.fingerprint[:6]}")
    return why


def _flags(part: Part, record: Mapping[str, Any], now: Now) -> list[str]:
    """Flags and settings that are others, or that make knows nothing of."""
    stamp, wanted = now.stamp(part.stage), now.flags[part.stage]
    try:
        stamped = stamp.read_text().rstrip("\n")
        given = record.get("command", shlex.split(stamped))
    except (OSError, ValueError):  # not there, or not what make writes
        stamped, given = None, record.get("command", shlex.split(wanted))
    changed = changes(part.stage, given, shlex.split(wanted))
    if part.stage != STAGES[0] and not changed:
        changed = _changed_settings(record.get("settings", {}), now.settings[part.stage])
    if changed:
        return [f"changed: {', '.join(changed)}"]
    if stamped is None:
        return [NOT_BY_MAKE]
    if stamped != wanted and not changes(part.stage, shlex.split(stamped), shlex.split(wanted)):
        return ["changed: order of flags"]
    if stamped != wanted or _time(stamp) > part.time:
        return ["its flags were changed since, and the run that followed did not finish"]
    if "--settings" in shlex.split(wanted) and _time(now.stamp("settings")) > part.time:
        return ["the values in its settings file were changed since"]
    return []


def changes(stage: str, before: Sequence[str], after: Sequence[str]) -> list[str]:
    """Flags of a stage that are not the same in two command lines, from what to what."""
    found = []
    old, new = (_read(stage, words) for words in (before, after))
    for name in sorted(old.keys() | new.keys()):
        values = [one.get(name, DEFAULT) or "given" for one in (old, new)]
        if values[0] != values[1]:
            found.append(f"{MAKES_NAMES.get(name, name)} {values[0]} → {values[1]}")
    return found


def _read(stage: str, words: Sequence[str]) -> dict[str, str]:
    """``--name value`` pairs that count for a stage."""
    found: dict[str, str] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name, _, value = word.partition("=")
            found[name] = value
        elif name and not found[name]:
            found[name] = word
    if stage == STAGES[0]:
        return {name: value for name, value in found.items() if name in FIRST_READS}
    dropped = (*NOT_COMPARED, *(["--folds"] if stage == "train" else []))
    return {name: value for name, value in found.items() if name not in dropped}


def _changed_settings(before: Mapping[str, Any], settings: Settings) -> list[str]:
    """Defaults that have become others, as those of another data root are."""
    after = described(settings)
    names = sorted(before.keys() & after.keys())
    return [
        f"--{name.replace('_', '-')} {before[name]} → {after[name]}"
        for name in names
        if before[name] != after[name]
    ]


def _code(part: Part, record: Mapping[str, Any]) -> list[str]:
    script = SCRIPTS[part.stage]
    newer = [name for name in sources_of(script) if _time(ROOT / name) > part.time]
    same = record.get("code") == _code_of(script)
    if newer:
        more = f" and {len(newer) - SHOWN} more" if len(newer) > SHOWN else ""
        return [f"newer{', but the same' if same else ''}: {', '.join(newer[:SHOWN])}{more}"]
    if "code" in record and not same:
        return [f"its code is another, but no newer, so that make does not see it: touch {script}"]
    return []


_code_of = cache(code_of)


def _measurements(part: Part, now: Now) -> list[str]:
    """Tables of measurements that are newer than what stage 4 made with them."""
    if part.stage != "ensemble":
        return []
    roots = [now.data] if now.data else [DOWNLOADED, BUNDLED]
    paths = [root / MEASUREMENTS for root in roots]
    return [f"newer: {path}" for path in paths if _time(path) > part.time]


def _raw_files(part: Part, record: Mapping[str, Any], now: Now) -> list[str]:
    stamp = now.stamps / f"{now.chosen.collection}.raw"
    if not stamp.exists():
        return [NOT_BY_MAKE]
    if _time(stamp) > part.time or _other_raw_files(record.get("raw"), now):
        return ["raw files were added, removed or changed"]
    return []


def _other_raw_files(before: dict[str, list[int]] | None, now: Now) -> bool:
    """Whether stage 1 would read other content; a file is read if only its time is another."""
    if before is None:  # not recorded, so that only make's stamp tells
        return False
    if now.root is None:
        return True
    after = now.root.sizes_and_times(now.chosen.folder)
    if any(after.get(name, [])[:1] != before.get(name, [])[:1] for name in after | before):
        return True
    touched = [name for name in after if after[name] != before[name]]
    if not touched:
        return False
    rows = read_table(now.cache).select("split", "source", "fingerprint").iter_rows()
    cached = {f"{split}/{source}": fingerprint for split, source, fingerprint in rows}
    paths = {name: now.root.npz / now.chosen.folder / name for name in touched}
    return any(fingerprint_files([p], p.parent) != cached.get(name) for name, p in paths.items())


def _time(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
