"""Damage to command lines, and to variables of make."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

from tests.attack.commands import OUTPUTS, VENV
from tests.attack.mutations.values import shown
from tests.attack.runner import REPOSITORY
from tests.stages import make_without_setup, variables_of_make

NUMBERS = ("-1", "0", "1", "2", "0.5", "-0.0", "1e-9", "1e3", "١", "²", "1_0", "0x10", " 3", "+2")
LARGE = ("1e9", "1000000", "99999999999999999999", "1e309", "1e308", "9" * 5000)
WORDS = ("", "nan", "inf", "-inf", "text", "é", "a b", "None", "True", "{1,0}", "=", "--", "-")
WORDS += ("\udcff", "\u202e", "x" * 5000, "a\nb", "<svg onload=alert(1)>", "%s", "@file", "*")
WORDS += ("; touch y", "$(touch y)", "`touch y`", "$(shell touch y)", "$HOME", "'", "\\")
NAMES = ("layout-xla-random", "tile-xla", "layout-xla-defualt", "tgraph", "gst", "gat", "pooling")
NAMES += ("partitioning", "tile", "tgraph-plus", "cpu", "cuda", "family", "best", "rank", "all")
PATHS = ("data", "outputs", "nowhere", "sample.csv", "/dev/null", "/dev/zero", "/dev/full", ".")
PATHS += (
    "data/npz",
    "outputs/layout-xla-default",
    "a b",
    "é",
    "\udcff",
    "x" * 300,
    "programs",
    "..",
)
# Of these a large number is what was asked for: work without end.
WORK = ("--epochs", "--permutations", "--layers", "--blocks", "--members", "--parts", "--threads")
ONE_JOB = ("--jobs",)  # others are processes of their own
OUTSIDE = ("--outputs",)  # nothing may be written outside of the tree
# What make or a shell would run, and targets where each variable that make quotes stands.
CODE = (
    "{}; {}",
    "{}$({})",
    "{}`{}`",
    "{}$(shell {})",
    "{}'; {}; '",
    '{}"; {}; "',
    "{}\n{}",
    "{}|{}",
)
CODE += ("{}&&{} #", "{}\\'; {}; '", "{}'\"$({})\"'", "{} & {}", "-{}'`{}`'")
TARGETS = ("help", "rank", "compare", "submission", "score", "download", "latency", "search")
TARGETS += ("collect", "status", "report", "everything", "reproduce")
NEEDED = ("PROGRAM", "A", "B", "NETWORK")  # by some of them
NEVER = ("--help", "-h")  # ends before anything is read


def mutate(words: Sequence[str], known: Sequence[str], rng: Random) -> tuple[list[str], str]:
    """Another command line, and how it differs.

    Args:
        words: the command line; its first word, or the first two of a module, stay.
        known: the flags that its help names.
        rng: what is random comes from there.
    """
    start = 2 if words[0] == "-m" else 1
    head, rest = list(words[:start]), list(words[start:])
    flags = [one for one in known if one not in NEVER]
    given = [place for place, word in enumerate(rest) if word.startswith("--")]
    what = rng.choice(
        ("value", "value", "value", "add", "add", "add", "drop", "cut", "twice", "stray")
    )
    if what in ("value", "drop", "cut") and not given:
        what = "stray"
    place = rng.choice(given) if given else 0
    flag = rest[place] if given else ""
    if what == "value" and place + 1 < len(rest):
        rest[place + 1] = value_of(flag, rng)
        return head + rest, f"{flag} {shown(rest[place + 1])}"
    if what == "drop" and flag != "--data":  # without, the bundled measurements are read
        del rest[place : place + rng.choice((1, 2))]
        return head + rest, f"no {flag}"
    if what == "cut":
        rest[place] = flag[: rng.randrange(2, len(flag) + 1)]
        return head + rest, f"{flag} as {rest[place]}"
    if what == "stray":
        word = rng.choice((*WORDS, "--no-such-flag", "--x=1", "-q", "outputs", "0"))
        rest.insert(rng.randrange(len(rest) + 1), word)
        return head + rest, f"also {shown(word)}"
    new = rng.choice(flags)
    if new == "--data":
        new = "--outputs"
    value = value_of(new, rng)
    rest += rng.choice(([new], [new, value], [f"{new}={value}"], [new, value]))
    return head + rest, f"also {shown(rest[-1])}, of {new}"


def value_of(flag: str, rng: Random) -> str:
    """A value for a flag, seldom one that suits it, never one that would work for hours."""
    if flag in ONE_JOB:
        return rng.choice(("0", "-1", "1", *WORDS))
    pools = [NUMBERS, WORDS, NAMES]
    if flag not in WORK:
        pools.append(LARGE)
    pools.append(PATHS[:-1] if flag in OUTSIDE else PATHS)
    return rng.choice(rng.choice(pools))


def in_make(tree: Path, rng: Random) -> tuple[list[str], str]:
    """A command line of make with a variable that is code, and which.

    The code leaves a file in the tree, which a target's own programs do not, for they do nothing.
    """
    name = rng.choice(variables_of_make(rng.choice(("PLAIN", "QUOTED"))))
    value = rng.choice(CODE).format(rng.choice(("", "1", "x.npz")), f"touch {tree}/ran")
    target, exported = rng.choice(TARGETS), rng.random() < 0.5
    venv = tree / VENV
    given = {"VENV": venv, "OUTPUTS": tree / OUTPUTS, "PYTHON": sys.executable}
    given |= dict.fromkeys(NEEDED, "x")
    given.pop(name, None)
    others = (f"-o{venv}-{one}/.ready" for one in ("collect", "collect-programs"))
    words = [*make_without_setup(venv), *others, "-C", str(REPOSITORY), target]
    words += [f"{one}={what}" for one, what in given.items()]
    words = ["env", f"{name}={value}", *words] if exported else ["env", *words, f"{name}={value}"]
    code = shown(value.replace(f"{tree}/", ""))
    return words, f"make {target}, {'exported' if exported else 'given'} {name}={code}"
