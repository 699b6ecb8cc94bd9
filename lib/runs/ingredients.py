"""What results are made from, piece by piece: settings by value, code, data."""

from __future__ import annotations

import dataclasses
import re
from functools import cache
from pathlib import Path
from typing import Any

from lib.files.artifacts import read_json
from lib.files.errors import DataError
from lib.runs.sources import code_of
from lib.settings import Settings, described
from lib.systems import SYSTEMS

SCRIPTS = {
    **{"preprocess": "01_preprocess.py", "train": "02_train.py"},
    **{"infer": "03_infer.py", "ensemble": "04_ensemble.py"},
}
STAGES = tuple(SCRIPTS)
SETTINGS = {place for system in SYSTEMS.values() for place in system.models.values()}
# What counts by value, or names what is run.
NO_CODE = (
    *("lib/settings/", "lib/systems.py"),
    *(place.partition(":")[0].replace(".", "/") + ".py" for place in SETTINGS),
)
ASIDE = (  # no code of stages 1 to 3
    *NO_CODE,
    *("lib/__init__.py", "lib/files/", "lib/runs/", "lib/report/"),
    *("lib/ranking/metrics.py", "lib/programs/metrics.py"),
)
PLACE = re.compile(r"lib(\.\w+)+:\w+")
WORDS = {"how_to_get", "graphs", "table"}  # constants of settings that are only shown
RECORDS, MANIFEST = "stages", "manifest.json"
TAIL = 1 << 16  # bytes at the end of a parquet that its metadata are among
IDENTITY = re.compile(rb"identity\x18\x40([0-9a-f]{64})")  # as Thrift has it there


@cache
def code_for(stage: str, settings: Settings, *programs: str) -> dict[str, str]:
    """Fingerprints of the code that a stage runs for a model, by file.

    Args:
        stage, settings: which stage, and the model's settings.
        programs: that run beside it.
    """
    system = SYSTEMS[settings.kind]
    looked_up = {
        "preprocess": (system.preprocess,),
        "train": tuple(filter(PLACE.fullmatch, map(str, constants(settings).values()))),
        "infer": (system.infer, settings.input, settings.network),
        "ensemble": (system.ensemble, system.ranking, *filter(None, [system.report])),
    }[stage]
    aside = NO_CODE if stage == "ensemble" else ASIDE
    return code_of(SCRIPTS[stage], system.cache, *looked_up, *programs, aside=aside)


def constants(settings: Settings) -> dict[str, Any]:
    """What a model's settings fix by their class: numbers and words that are no setting."""
    notes = [vars(base).get("__annotations__", {}) for base in type(settings).__mro__]
    names = {name for note in notes for name, kind in note.items() if kind.startswith("ClassVar")}
    values = {name: getattr(settings, name, None) for name in sorted(names - WORDS)}
    return {name: value for name, value in values.items() if isinstance(value, str | int | float)}


def read_by(settings: Settings, *stages: int) -> dict[str, Any]:
    """The settings that one of these stages reads, and none before them."""
    first = {f.name: f.metadata.get("first", 1) for f in dataclasses.fields(settings)}
    return {name: value for name, value in described(settings).items() if first[name] in stages}


def data_in(cache: Path) -> str:
    """The fingerprint that a cache says it has; empty if there is none."""
    try:
        manifest = read_json(cache / MANIFEST)
    except DataError:
        return ""
    return str(manifest.get("fingerprint", "")) if isinstance(manifest, dict) else ""


def outputs_of(cache: Path, settings: Settings) -> Path:
    """The folder of all outputs that a cache lies in."""
    return cache.parents[len(settings.cache.parts) - 1]


def identity_in(path: Path) -> str:
    """The identity in the metadata of a parquet; empty if there is none."""
    with open(path, "rb") as file:
        file.seek(max(0, file.seek(0, 2) - TAIL))
        identities = IDENTITY.findall(file.read())
    return identities[-1].decode() if identities else ""


def part_of(stage: str, fold: int | None) -> str:
    """What a run of a stage is called: ``train_0``, ``ensemble``."""
    return stage if fold is None else f"{stage}_{fold}"


def record_path(outputs: Path, part: str, settings: Settings) -> Path:
    """Where the record of a run goes: stage 1's beside its cache, of others beside the results.

    Args:
        outputs: where results go.
        part: the stage, and its fold if it has one: ``preprocess``, ``train_0``.
        settings: the stage's.
    """
    if part == STAGES[0]:
        cache = outputs / settings.cache
        return cache.parent / RECORDS / f"{cache.name.replace('cache', part)}.json"
    return outputs / settings.results / RECORDS / f"{part}.json"
