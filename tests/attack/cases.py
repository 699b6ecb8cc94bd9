"""A case: from a seed and a number to damage, the commands that read it, and a verdict."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.attack import mutations, runner, world
from tests.attack.commands import TARGETS, Command, all_commands, matches
from tests.attack.judging import GONE, SUCCESS, WORSE, Result, Verdict, judge
from tests.attack.mutations import flags
from tests.attack.snapshot import FOLDER, Snapshot, restore, snapshot

ONCE_MORE = 0.1  # how often something else is damaged as well
APART = (".parquet", ".safetensors")  # polars and torch would start threads
LEAST_ROOM, MOST_ROOM = 1 << 12, 1 << 20  # bytes; what a command says has room
FOLLOWED = 0.5  # how often the stages after one that succeeded are run


@dataclass(frozen=True)
class Attacked:
    """What all cases share: an undamaged tree, and what is known of it.

    Attributes:
        folder: the tree.
        whole: what is in it.
        files: its files, by relative names.
        commands: by name.
        results: what each command makes of the undamaged tree.
    """

    folder: Path
    whole: Snapshot
    files: list[str]
    commands: dict[str, Command]
    results: dict[str, Result]


@dataclass(frozen=True)
class Report:
    """What came of a case.

    Attributes:
        number: of the case.
        kind: of what was damaged first.
        command: that ended as ``verdict`` says, or the last one.
        damage: in words.
        verdict: of the first command that ended worse, or else of the first of all.
        outcome: of ``command``.
    """

    number: int
    kind: str
    command: str
    damage: str
    verdict: Verdict
    outcome: runner.Outcome


def build(folder: Path) -> Attacked:
    """Make the undamaged tree in a folder, and note what its commands make of it.

    What is there already is used.

    Raises:
        RuntimeError: if a command does not succeed on undamaged files.
    """
    tree, noted = folder / "undamaged", folder / "noted.json"
    if not noted.exists():
        tree.mkdir(parents=True)
        made = world.build(tree)
        noted.write_text(json.dumps(_note(tree, made, folder / "try")))
    results = json.loads(noted.read_text())
    whole = snapshot(tree)
    files = sorted(name for name, what in whole.items() if what != FOLDER)
    made = {name: Result(*parts) for name, parts in results.items()}
    return Attacked(tree, whole, files, all_commands(), made)


def _note(tree: Path, made: set[str], copy: Path) -> dict[str, list]:
    """What each command makes of the tree, and says.

    What some commands have ``made`` lies in the tree; the others run on a copy of it.
    """
    results, whole = {}, snapshot(tree)
    for name, command in all_commands().items():
        said, after = None, whole
        if name not in made:
            restore(copy, tree, whole)
            said, after = world.succeed(command, copy).stdout, snapshot(copy)
        files = {n: w for n, w in after.items() if matches(n, command.products)}
        results[name] = [files, said if command.says else None]
    shutil.rmtree(copy)
    return results


def attack(attacked: Attacked, seed: int, number: int, only: Sequence[str], tree: Path) -> Report:
    """Run a case.

    Args:
        attacked: what it damages a copy of.
        seed, number: which case.
        only: kinds of targets to choose from; all if empty.
        tree: where the copy is put, in a folder that is not there or that an earlier case left.
    """
    rng = Random(f"{seed} {number}")
    kind = rng.choice(only or TARGETS)
    fitting = [one for one in attacked.commands.values() if _targets(one, kind)]
    command = rng.choice(fitting)
    restore(tree, attacked.folder, attacked.whole)
    words, kinds, damage, room = command.words, {kind}, [], runner.LARGEST_FILE
    if kind == "disk":
        room = int(LEAST_ROOM * (MOST_ROOM / LEAST_ROOM) ** rng.random())
        damage.append(f"room for {room} bytes")
    elif kind == "flags":
        told = runner.run((*words, "--help"), tree).stdout
        words, what = flags.mutate(words, sorted(set(re.findall(r"--[a-z][a-z-]+", told))), rng)
        damage.append(what)
    elif kind == "make":
        words, what = flags.in_make(tree, rng)
        damage.append(what)
    else:
        damage.append(_damage(attacked, tree, command, kind, kinds, rng))
    if command.reads and rng.random() < ONCE_MORE:
        more = rng.choice(sorted(command.reads))
        damage.append(_damage(attacked, tree, command, more, kinds, rng))
    followed = rng.random() < FOLLOWED
    verdict, outcome = _run(attacked, command, words, kinds, tree, room)
    follow = command.then if followed and kind == "raw" and verdict.outcome == SUCCESS else ()
    for name in follow:
        after, said = _run(attacked, attacked.commands[name], (), {"raw"}, tree)
        if after.outcome == WORSE:
            return Report(number, kind, name, "; ".join(damage), after, said)
        if after.outcome != SUCCESS:
            break
    return Report(number, kind, command.name, "; ".join(damage), verdict, outcome)


def _targets(command: Command, kind: str) -> tuple[str, ...]:
    """Patterns of a command's files of a kind; something for flags, which all but make have."""
    if kind == ("flags" if command.reads else "make") or (kind == "disk" and command.writes):
        return command.words
    return command.writes if kind == "outputs" else command.reads.get(kind, ())


def _damage(
    attacked: Attacked, tree: Path, command: Command, kind: str, kinds: set[str], rng: Random
) -> str:
    """Damage one of a command's files of a kind; returns what was done, in words.

    To ``kinds`` are added the file's, and ``GONE`` if the file is not there any more.
    """
    patterns = _targets(command, kind)
    files = [name for name in attacked.files if matches(name, patterns)]
    if kind == "outputs":  # what is not there yet can have something else in its place
        files += [one for one in patterns if "*" not in one and one not in files]
    name = rng.choice(files)
    others = [tree / one for one in attacked.files if Path(one).suffix == Path(name).suffix]
    others = rng.choice((others, [tree / one for one in attacked.files if ".html" not in one]))
    change = mutations.misplace if kind == "outputs" else mutations.mutate
    drawn = Random(rng.random())
    apart = runner.call if Path(name).suffix in APART else _here
    what = apart(lambda: change(tree / name, drawn, others))
    kinds |= {kind, *([GONE] * (not _there(tree / name)))}
    return f"{name}: {what}"


def _here(function: Callable[[], str]) -> str:
    return function()


def _there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a link to itself
        return True


def _run(
    attacked: Attacked,
    command: Command,
    words: Sequence[str],
    kinds: set[str],
    tree: Path,
    room: int = runner.LARGEST_FILE,
) -> tuple[Verdict, runner.Outcome]:
    before: Snapshot = snapshot(tree)
    outcome = runner.run(words or command.words, tree, room)
    given = attacked.results[command.name]
    return judge(command, outcome, kinds, before, snapshot(tree), given), outcome
