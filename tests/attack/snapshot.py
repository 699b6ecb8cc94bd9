"""What lies in a tree of files: enough to tell that nothing of it has changed."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from pathlib import Path

LARGEST = 1 << 26  # bytes of a file whose content is compared; of larger ones size and time are
FOLDER, LOCK = "folder", ".lock"
Snapshot = dict[str, str]


def snapshot(folder: Path) -> Snapshot:
    """What is at each path below a folder, by its relative name: kind, permissions, content."""
    found: Snapshot = {}
    waiting = [""]
    while waiting:
        inside = waiting.pop()
        with os.scandir(folder / inside) as entries:
            for entry in entries:
                name = f"{inside}/{entry.name}" if inside else entry.name
                found[name] = _what(entry)
                if found[name] == FOLDER:
                    waiting.append(name)
    return found


def differences(before: Snapshot, after: Snapshot) -> list[str]:
    """The paths that are not as they were, sorted; new folders and locks do not count."""
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    kept = (name for name in changed if not name.endswith(LOCK))
    return sorted(name for name in kept if name in before or after[name] != FOLDER)


def restore(tree: Path, original: Path, wanted: Snapshot) -> None:
    """Make a tree again what it was as a copy: of another, whose snapshot is ``wanted``."""
    tree.mkdir(exist_ok=True)
    found = snapshot(tree)
    changed = sorted(name for name in {**found, **wanted} if found.get(name) != wanted.get(name))
    for name in changed:
        path = tree / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for name in changed:  # a folder before what is in it
        if wanted.get(name) == FOLDER:
            (tree / name).mkdir()
        elif name in wanted:
            shutil.copy2(original / name, tree / name, follow_symlinks=False)


def _what(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return f"link to {Path(entry.path).readlink()}"
    if entry.is_dir():
        return FOLDER
    about = entry.stat(follow_symlinks=False)
    kind = f"{stat.S_IFMT(about.st_mode):o} {stat.S_IMODE(about.st_mode):o}"
    if not stat.S_ISREG(about.st_mode):
        return kind
    if about.st_size > LARGEST:
        return f"{kind} {about.st_size} {about.st_mtime_ns}"
    with open(entry.path, "rb") as file:
        return f"{kind} {hashlib.blake2b(file.read()).hexdigest()}"
