"""Stage 1 against a plain implementation of the published way, its growth and its memory.

.venv/bin/python -m tests.bench.preprocess [--sizes 2000 10000 ...] [--nodes 150] [--repeat 3]

Synthetic files are written first, which is not measured. A measurement is from the npz on disk
to the finished cache, by one worker, in a process of its own; the best of ``--repeat`` counts.
Peak memory includes the interpreter and its libraries, 76 MB.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from lib.preprocess.collection import RawFile, write_cache
from lib.runs.stage import peak_memory
from tests.bench import published
from tests.bench.rawfiles import write_raw


@dataclass(frozen=True)
class Case:
    """A synthetic file: ``repeated`` is the share of configurations that repeat another."""

    name: str
    configurations: int
    config_nodes: int
    nodes: int
    repeated: float = 0.0
    level: int = 6  # of deflate; what numpy writes


LARGEST = (
    Case("100,000 x 300", 100_000, 300, 14_000, level=1),
    Case("100,000 x 300, half repeated", 100_000, 300, 14_000, 0.5, level=1),
)
COLUMNS = ("case", "way", "wall s", "CPU s", "peak MB", "disk MB", "memory MB", "bytes a cell")
Result = dict[str, float]


def run_ours(source: Path, folder: Path) -> int:
    """Stage 1; returns the bytes of the cache, which is mapped as it is."""
    write_cache(folder / "cache", [RawFile(source, "train")], {"hops": 1}, jobs=1)
    return sum(file.stat().st_size for file in (folder / "cache").iterdir())


def run_published(source: Path, folder: Path) -> int:
    """The rival; returns the bytes of the arrays that its file is loaded into."""
    return published.preprocess(source, folder / "out.npz")


WAYS = {"ours": run_ours, "published": run_published}


def measure_here(way: str, source: Path) -> Result:
    """Run one way in this process; seconds and bytes.

    A tiny file goes first, so that loading libraries at their first use is not measured.
    """
    with tempfile.TemporaryDirectory(dir=source.parent) as name:
        write_raw(Path(name) / "tiny.npz", 20, 5, 50)
        WAYS[way](Path(name) / "tiny.npz", Path(name))
    with tempfile.TemporaryDirectory(dir=source.parent) as name:
        wall, cpu = time.perf_counter(), time.process_time()
        memory = WAYS[way](source, Path(name))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        disk = sum(file.stat().st_size for file in Path(name).rglob("*") if file.is_file())
    return {"wall": wall, "CPU": cpu, "peak": peak_memory(), "disk": disk, "memory": memory}


def measure(way: str, source: Path, repeat: int) -> Result:
    """Run one way ``repeat`` times, each in a process of its own; the fastest by CPU time."""
    command = [sys.executable, "-m", "tests.bench.preprocess", "--only", way, str(source)]
    runs = [subprocess.run(command, check=True, stdout=subprocess.PIPE) for _ in range(repeat)]
    return min((json.loads(run.stdout) for run in runs), key=lambda result: result["CPU"])


def measure_case(case: Case, folder: Path, ways: tuple[str, ...], repeat: int) -> None:
    """Write a case's file, measure each way on it and print a line of the table for each."""
    source = folder / "graph.npz"
    write_raw(source, case.configurations, case.config_nodes, case.nodes, case.repeated, case.level)
    cells = case.configurations * case.config_nodes
    for way in ways:
        result = measure(way, source, repeat)
        values = [f"{result[key]:.2f}" for key in ("wall", "CPU")]
        values += [f"{result[key] / 1e6:.1f}" for key in ("peak", "disk", "memory")]
        row = (case.name, way, *values, f"{result['memory'] / cells:.2f}")
        print(f"| {' | '.join(row)} |", flush=True)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sizes = [2_000, 10_000, 20_000, 50_000, 100_000]
    parser.add_argument("--sizes", type=int, nargs="*", default=sizes, help="configurations")
    parser.add_argument("--nodes", type=int, default=150, help="configurable nodes of --sizes")
    parser.add_argument("--rival-limit", type=int, default=50_000, help="configurations it gets")
    parser.add_argument("--repeat", type=int, default=3, help="runs of a file below 30,000")
    parser.add_argument("--only", nargs=2, metavar=("WAY", "FILE"), help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Measure, and print a table."""
    args = arguments()
    if args.only:
        print(json.dumps(measure_here(args.only[0], Path(args.only[1]))))
        return
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    with tempfile.TemporaryDirectory() as name:
        for size in args.sizes:
            case = Case(f"{size:,} x {args.nodes}", size, args.nodes, 10_000)
            ways = tuple(WAYS) if size <= args.rival_limit else ("ours",)
            repeat = args.repeat if size < 30_000 else 1
            measure_case(case, Path(name), ways, repeat)
        for case in LARGEST:
            measure_case(case, Path(name), ("ours",), 1)


if __name__ == "__main__":
    main()
