"""Who is making what: two makes that would make other results in one folder are not let.

Stages lock what they write, one run at a time. Between two of them another make could train a fold
over the one that was just trained. So each make leaves a note while it lives, of what it makes its
results from, and one that finds an earlier note of other settings ends before it has done anything.
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
    name = making.settings.results
    note = {"settings": _wanted(making), "since": time.strftime("%F %T"), **_life(process)}
    path = notes / f"{name}.{process}.make"
    with suppress(OSError):  # a disk that is full or read-only ends the first stage
        write_json(path, note)
    for other_path in notes.glob(f"{name}.*.make"):
        other_note = _note(other_path)
        if other_note is None:
            with suppress(OSError):
                other_path.unlink()
        elif other_note["settings"] != note["settings"] and _age(other_note) < _age(note):
            path.unlink(missing_ok=True)
            raise UserError(_conflict(making, other_note, note))


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
    """The note of a make that lives; ``None`` of all else. Of another machine nobody can tell."""
    try:
        note = read_json(path)
        alive = note["began"] >= 0 and _life(note["process"]) == {
            key: note[key] for key in ("process", "machine", "began")
        }
        return note if alive and isinstance(note["settings"], dict) else None
    except (DataError, KeyError, TypeError):
        return None


def _age(note: dict[str, Any]) -> tuple[int, int]:
    return note["began"], note["process"]


def _conflict(making: Making, other: dict[str, Any], note: dict[str, Any]) -> str:
    theirs, ours = other["settings"], note["settings"]
    names = sorted(key for key in theirs | ours if theirs.get(key) != ours.get(key))
    flag = f"--{names[0].replace('_', '-')}"
    return (
        f"{making.folder}: another make (process {other['process']}, since {other['since']}) makes "
        f"it with {flag} {theirs.get(names[0])}, and not {ours.get(names[0])}; wait for it, or "
        f"name another folder by EXPERIMENT=name"
    )
