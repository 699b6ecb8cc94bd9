"""``python -m tests.attack --count 10000 --seed 1``: hostile files and flags, by hand.

Each case copies a small tree of data and outputs, damages a file of it or a command line, runs one
of the commands that read it, and judges how that ended. Prints a line for each case that ended
worse than with one line, and a table at the end. Exit code 1 if there was one. ``--case N`` runs
one case again. Networks want ``--tvm .venv-collect-programs/bin/python``.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random
from threading import Timer

import numpy as np
import polars as pl

from lib.tpugraphs.npz import write_layout
from tests import kernels, synthetic
from tests.attack.mutations import TEXTS, mutate
from tests.interpreter import python
from tests.stages import REPOSITORY, environment
from tests.tpugraphs.builders import chain, layout_run, tuning

SUCCESS, ONE_LINE, WORSE = OUTCOMES = ("success", "one line", "worse")
SECONDS = 120  # that a command may take
LAYOUT = "layout-xla-default"
TINY = "--model tgraph --folds-total 2 --epochs 2 --channels 16 --blocks 1 --configurations 4"
TILES = "--model tile --folds-total 2 --epochs 2 --channels 16 --blocks 1"
RAW = "data/npz/layout/xla/default"
OWN = "outputs/layout-xla-default@tgraph"
REMARKS = ("warning:", "skipped:")  # lines on standard error that are no error


@dataclass(frozen=True)
class Command:
    """A command line, patterns of the files that it reads, and of those that it may write."""

    words: str
    reads: tuple[str, ...]
    writes: tuple[str, ...] = ()
    tvm: bool = False  # whether it wants TVM's environment


_LAYOUTS = f"--collection {LAYOUT} {TINY} --data data --outputs outputs"
COMMANDS = {
    "preprocess": Command(
        f"01_preprocess.py {_LAYOUTS} --jobs 1",
        (f"{RAW}/*", "data/dataset.json", f"outputs/{LAYOUT}/stages/*"),
        (f"outputs/{LAYOUT}/*", "outputs/.make/*"),
    ),
    "preprocess tiles": Command(
        f"01_preprocess.py --collection tile-xla {TILES} --data data --outputs outputs --jobs 1",
        ("data/npz/tile/*",),
        ("outputs/tile-xla/*", "outputs/.make/*"),
    ),
    "ensemble": Command(
        f"04_ensemble.py {_LAYOUTS}",
        (f"{OWN}/scores/*", f"{OWN}/fold_?/metrics.json", "data/*.parquet"),
        (f"{OWN}/*", "outputs/.make/*"),
    ),
    "rank": Command(
        f"-m lib.scoring.rank --collection {LAYOUT} --model tgraph --outputs outputs "
        "--candidates programs/candidates.npz programs/program.npz",
        ("programs/*.npz",),
    ),
    "rank lines": Command(
        f"-m lib.scoring.rank --collection {LAYOUT} --model tgraph --outputs outputs "
        "--candidates programs/candidates.jsonl programs/tuning.pb",
        ("programs/*.jsonl", "programs/*.pb"),
    ),
    **{
        f"network{end}": Command(
            f"-m lib.collect.tvm.whole networks/net{end} network.npz --schedules 1",
            (f"networks/net{end}",),
            ("network.npz",),
            tvm=True,
        )
        for end in (".onnx", ".pt2")
    },
}


def main() -> int:
    """Run cases; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="cases to run (default: 300)")
    parser.add_argument("--seed", type=int, default=0, help="other seeds, other cases (default: 0)")
    parser.add_argument("--case", type=int, help="run this one, and show all that it says")
    parser.add_argument("--tvm", type=Path, help="Python that has TVM; without, nothing of it runs")
    args = parser.parse_args()
    kinds = [kind for kind, command in COMMANDS.items() if args.tvm or not command.tvm]
    numbers = range(args.count) if args.case is None else [args.case]
    counts: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory(prefix="attack-") as name:
        world, tree = Path(name, "world"), Path(name, "tree")
        build(world, args.tvm)
        for number in numbers:
            shutil.copytree(world, tree, symlinks=True)
            kind, damage, done, why = attack(tree, Random(f"{args.seed} {number}"), kinds, args.tvm)
            outcome = WORSE if why else ONE_LINE if done.returncode else SUCCESS
            counts[kind, outcome] += 1
            if why or args.case is not None:
                again = f"python -m tests.attack --seed {args.seed} --case {number}"
                print(f"[{kind}] {damage}: {why or outcome}; {again}", flush=True)
            if args.case is not None:
                print(done.stdout, done.stderr)
            shutil.rmtree(tree)
    for kind in (*COMMANDS, "all"):
        some = COMMANDS if kind == "all" else [kind]
        found = [f"{sum(counts[one, how] for one in some):>8,} {how}" for how in OUTCOMES]
        skipped = "" if kind in (*kinds, "all") else "  skipped: needs --tvm"
        print(f"{kind:<18}{skipped or ''.join(found)}")
    return int(any(outcome == WORSE for _, outcome in counts))


def build(world: Path, tvm: Path | None) -> None:
    """Make the undamaged tree: raw files of layouts and tiles, a program, and all results.

    Args:
        world: its folder.
        tvm: Python that writes networks, if any.

    Raises:
        RuntimeError: if a command does not succeed on undamaged files.
    """
    synthetic.write_collection(world / "data", LAYOUT, train=3, valid=1, test=2, nodes=14)
    for split, count in {"train": 3, "valid": 1, "test": 1}.items():
        folder = world / "data" / "npz" / "tile" / "xla" / split
        made = [kernels.tile_kernel(f"{split}_{k}", k, 5, 9) for k in range(count)]
        kernels.write_kernels(folder, made, labelled=split != "test")
    runs = layout_run(9, [[[0]], []], default=True), layout_run(8, [[], [[1]]])
    message = tuning(chain("tuned"), *runs, nodes=(1, 2)).SerializeToString()
    (world / RAW / "train" / "tuned.pb").write_bytes(message)
    graph = synthetic.layout_graph("program", 99, 14, 3, 9)
    programs = world / "programs"
    write_layout(programs / "program.npz", graph)
    (programs / "tuning.pb").write_bytes(message)
    np.savez(programs / "candidates.npz", node_config_feat=graph.node_config_feat)
    (programs / "candidates.jsonl").write_text('{"1": {"output": "{0}"}}\n{}\n')
    names = sorted(path.stem for path in (world / RAW / "test").glob("*.npz"))
    with np.load(world / RAW / "test" / f"{names[0]}.npz") as file:
        count = len(file["config_runtime"])
    rows = [
        {"collection": LAYOUT, "split": "test", "graph": name, "config": config}
        | {"runtime": 1000 + config, "rounds": [1000 + config, 1001 + config]}
        for name in names
        for config in range(count)
    ]
    pl.DataFrame(rows).write_parquet(world / "data" / "measurements.parquet")
    stages = [COMMANDS["preprocess"].words, COMMANDS["preprocess tiles"].words]
    for fold in range(2):
        stages += [f"{name} {_LAYOUTS} --fold {fold}" for name in ("02_train.py", "03_infer.py")]
    commands = [(words, None) for words in stages]
    commands += [(c.words, tvm if c.tvm else None) for c in COMMANDS.values() if tvm or not c.tvm]
    if tvm:
        commands.insert(0, ("-m tests.attack.networks networks", tvm))
    for words, interpreter in commands:
        done = run(words.split(), world, interpreter)
        if done.returncode or (done.stderr and not interpreter):
            raise RuntimeError(f"{words} fails on undamaged files: {done}")


def attack(
    tree: Path, rng: Random, kinds: list[str], tvm: Path | None
) -> tuple[str, str, subprocess.CompletedProcess, str]:
    """Run a case in a tree: the command, the damage, how it ended, and what is wrong with that.

    The damage may come while the command runs.
    """
    kind = rng.choice(kinds)
    command = COMMANDS[kind]
    words, allowed = command.words.split(), command.writes
    later, changes = None, ()
    if kind == "ensemble":  # or it is up to date
        (tree / OWN / "stages" / "ensemble.json").unlink()
    if rng.random() < 0.15:
        place = rng.randrange(2 if words[0] == "-m" else 1, len(words))
        words[place] = rng.choice([*(text for text in TEXTS if "\0" not in text), "--nope", "-1"])
        damage, allowed = f"word {place} is {ascii(words[place])[:40]}", ("*",)
    else:
        names = [path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file()]
        targets = command.writes if command.writes and rng.random() < 0.1 else command.reads
        name = rng.choice(sorted(one for one in names if fits(one, targets)))
        if rng.random() < 0.2:
            later, changes = Timer(2 * rng.random(), mutate, (tree / name, rng)), (name,)
            damage = f"{name}: while it runs"
        else:
            damage = f"{name}: {mutate(tree / name, rng)}"
    before = snapshot(tree)
    if later:
        later.start()
    done = run(words, tree, tvm if command.tvm else None)
    if later:
        later.join()
    after = snapshot(tree)
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    may = allowed if done.returncode == 0 or "*" in allowed else ("outputs/.make/*",)
    wrong = [name for name in sorted(changed) if not fits(name, (*may, *changes))]
    why = wrong_ending(done) or (wrong and f"changed {wrong[:4]!a}") or ""
    return kind, damage, done, str(why)


def run(
    words: list[str], folder: Path, interpreter: Path | None = None
) -> subprocess.CompletedProcess:
    """Run a command in a folder in bounded time; -9 is its code if it hangs."""
    full = [
        str(REPOSITORY / word) if word.startswith("0") and k == 0 else word
        for k, word in enumerate(words)
    ]
    try:
        return subprocess.run(
            [interpreter or python(), *full],
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="backslashreplace",
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, -9, "", f"took more than {SECONDS} s")


def wrong_ending(done: subprocess.CompletedProcess) -> str:
    """What is wrong with how a command ended and with what it said; empty if nothing is."""
    lines = [line for line in done.stderr.split("\n") if line and not line.startswith(REMARKS)]
    last = ascii(lines[-1][:300]) if lines else "nothing said"
    if done.returncode not in (0, 2) or len(lines) != bool(done.returncode):
        return f"exit code {done.returncode}, {len(lines)} lines: {last}"
    if done.returncode and not (lines[0].startswith("error: ") and lines[0].isprintable()):
        return f"no plain line: {last}"
    return ""


def snapshot(tree: Path) -> dict[str, tuple]:
    """The kind, size and time of all that is in a tree, by relative name; folders do not count."""
    found = {}
    for path in tree.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            state = path.lstat()
            name = path.relative_to(tree).as_posix()
            found[name] = state.st_mode, state.st_size, state.st_mtime_ns
    return found


def fits(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a path fits one of some patterns; ``*`` stands for slashes too."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


if __name__ == "__main__":
    sys.exit(main())
