"""Whether a command ended as it must."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from tests.attack.commands import Command
from tests.attack.runner import Outcome
from tests.attack.snapshot import Snapshot, differences

SUCCESS, ONE_LINE, WORSE = OUTCOMES = ("success", "one line", "worse")
ERRORS = ("error: ", "Makefile:")  # how the line of a command begins, and that of make
REMARKS = ("warning:", "skipped:")  # lines on standard error that are no error
LARGEST_PEAK = 3 << 29  # bytes of memory, those of the libraries among them
SHOWN = 4  # files named
# Damage that must not change a result: what stands where a command writes.
OWN = {"outputs", "disk"}
GONE = "gone"  # a file that is not there is another question: what is made of the others says so


@dataclass(frozen=True)
class Verdict:
    """How a command ended: one of ``OUTCOMES``, and what is wrong if it is the worst."""

    outcome: str
    why: str = ""


@dataclass(frozen=True)
class Result:
    """What a command makes that is the same each time: files, and what it says if that is."""

    files: Mapping[str, str]
    said: str | None


def judge(
    command: Command,
    outcome: Outcome,
    kinds: Set[str],
    before: Snapshot,
    after: Snapshot,
    undamaged: Result,
) -> Verdict:
    """What to think of a command that ran in a damaged tree.

    Args:
        command: the command.
        outcome: how it ended.
        kinds: of files that were damaged, and more about the damage.
        before, after: the tree, damaged, before the command and after it.
        undamaged: what the command makes where nothing is damaged.
    """
    wrong = _ending(outcome)
    changed = differences(before, after)
    if not wrong and outcome.code == 0 and "flags" in kinds:
        changed = []  # other flags, other files
    if not wrong and outcome.code == 0:
        changed = [name for name in changed if not command.may_write(name)]
    if not wrong and changed:
        wrong = f"changed {_named(changed)}, " + ("and failed" if outcome.code else "not its own")
    if not wrong and outcome.code == 0 and kinds - {GONE} <= OWN:
        wrong = _silently(outcome, after, undamaged, GONE in kinds)
    if wrong:
        return Verdict(WORSE, wrong)
    return Verdict(ONE_LINE if outcome.code else SUCCESS)


def _ending(outcome: Outcome) -> str:
    """What is wrong with how a command ended and with what it said; empty if nothing is."""
    if outcome.timed_out:
        return f"did not end in {outcome.seconds:.0f} s"
    if outcome.peak > LARGEST_PEAK:
        return f"took {outcome.peak / 1e9:.1f} GB"
    lines = [one for one in outcome.stderr.split("\n") if one and not one.startswith(REMARKS)]
    last = lines[-1][:300] if lines else "nothing said"
    if outcome.code not in (0, 2):
        return f"exit code {outcome.code}: {last}"
    if len(lines) != bool(outcome.code):
        return f"exit code {outcome.code}, {len(lines)} lines: {last}"
    if outcome.code and not (lines[0].startswith(ERRORS) and lines[0].isprintable()):
        return f"no plain line: {last!a}"
    return ""


def _silently(outcome: Outcome, after: Snapshot, undamaged: Result, gone: bool) -> str:
    """Which result of damaged files is another than that of undamaged ones."""
    other = [name for name, what in undamaged.files.items() if after.get(name) != what]
    if other:
        return f"silently wrong: {_named(other)}"
    if undamaged.said is not None and not gone and outcome.stdout != undamaged.said:
        return "silently wrong: says something else"
    return ""


def _named(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(ascii(name)[1:-1] for name in names[:SHOWN]) + more
