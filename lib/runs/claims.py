"""Who is making what: two makes that would make other results in one folder are not let.

Stages lock what they write, one run at a time. Between two of them another make could train a fold
over the one that was just trained, or write a cache that this one's folds read. So each make leaves
a note while it lives, of what it makes its results from, and one that finds an earlier note of
other settings, or of other data for the same cache, ends before it has done anything.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from lib.files.artifacts import read_json, write_json
from lib.files.errors import DataError, UserError
from lib.files.locks import FOLDER
from lib.runs.identity import Making
from lib.settings import described


def claim(making: Making, process: int) -> None:
    """Leave a note of a make that begins.

    Args:
        making: what it makes its results from.
        process: the make's, on this machine. Its note counts as long as it lives.

    Raises:
        UserError: if another make was there before, which makes other results in the same folder;
            it says whose they are, and what differs.
    """
    notes = making.outputs / FOLDER
    places = {"results": making.settings.results, "cache": str(making.settings.cache)}
    note = {
        "settings": _wanted(making),
        "since": time.strftime("%F %T"),
        **_life(process),
        **places,
    }
    path = notes / f"{places['results']}.{process}.make"
    with suppress(OSError):  # a disk that is full or read-only ends the first stage
        write_json(path, note)
    for other_path in notes.glob("*.make"):
        other_note = _note(other_path)
        if other_note is None:
            with suppress(OSError):
                other_path.unlink()
        elif (names := _differences(other_note, note)) and _age(other_note) < _age(note):
            path.unlink(missing_ok=True)
            raise UserError(_conflict(making, other_note, note, names[0]))


def _differences(other: dict[str, Any], note: dict[str, Any]) -> list[str]:
    """What two makes that write the same files would make them from that is not the same."""
    if other["machine"] != note["machine"]:
        return []
    theirs, ours = other["settings"], note["settings"]
    names = sorted(key for key in theirs | ours if theirs.get(key) != ours.get(key))
    if other["results"] == note["results"]:
        return names
    return [key for key in names if key == "data" and other["cache"] == note["cache"]]


def _wanted(making: Making) -> dict[str, Any]:
    data = str(making.data.resolve()) if making.data else ""
    return {**described(making.settings), "data": data, "folds": making.folds}


def _life(process: int) -> dict[str, Any]:
    """What tells a process from another one of its number: the machine, and when it began."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        began = int(fields[19])
    except (OSError, IndexError, ValueError):
        began = -1
    return {"process": process, "machine": os.uname().nodename, "began": began}


def _note(path: Path) -> dict[str, Any] | None:
    """The note of a make that lives, or is of another machine, of which nobody can tell; ``None``
    of all else."""
    try:
        note = read_json(path)
        life = {key: note[key] for key in ("process", "machine", "began")}
        elsewhere = note["machine"] != os.uname().nodename
        alive = elsewhere or (note["began"] >= 0 and _life(note["process"]) == life)
        whole = isinstance(note["settings"], dict) and {"results", "cache"} <= note.keys()
        return note if alive and whole else None
    except (DataError, KeyError, TypeError):
        return None


def _age(note: dict[str, Any]) -> tuple[int, int]:
    return note["began"], note["process"]


def _conflict(making: Making, other: dict[str, Any], note: dict[str, Any], name: str) -> str:
    theirs, ours = other["settings"].get(name), note["settings"].get(name)
    alike = other["results"] == note["results"]
    what, another = (making.folder, "EXPERIMENT") if alike else (making.cache, "OUTPUTS")
    return (
        f"{what}: another make (process {other['process']}, since {other['since']}) makes "
        f"it with --{name.replace('_', '-')} {theirs}, and not {ours}; wait for it, or name "
        f"another folder by {another}=name"
    )
