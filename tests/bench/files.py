"""Stage 1 on many files by one worker and by two: 10,000 small ones, and 20 huge ones.

.venv/bin/python -m tests.bench.files [--small 10000] [--huge 20] [--workers 1 2] [--repeat 2]

Files are made first, which is not measured: kernels of about 2 kB, and graphs of 14,000 nodes with
100,000 configurations of 150 nodes, 1 GB each as arrays. A measurement is `01_preprocess.py
--jobs N` from its start to its end. The files are read once before, so that no disk is measured.
The fastest of ``--repeat`` counts. All caches of a case must have the same bytes. Memory
is the most that stage 1's own process has held. *Of arithmetic*: what as many processes of plain
arithmetic, which share nothing but the machine, get done in the time of one.

Some seven minutes on two cores that do nothing else (reckoned from 1,500 kernels and 4 graphs of
half the size), and 2 GB of disk.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.bench.rawfiles import write_raw
from tests.kernels import tile_kernel, write_kernels
from tests.stages import REPOSITORY, environment
from tests.synthetic import OWN, write_dataset

SMALL, HUGE = "tile-xla", "layout-xla-default"  # collections
SPLIT = "train"
DISTINCT = 2  # huge files
AIM = 1.7  # how many times as fast two workers are to be
LOOP = """
import time
started = time.perf_counter()
sum(k * k % 7 for k in range(10_000_000))
print(time.perf_counter() - started)
"""


@dataclass(frozen=True)
class Result:
    """Of one run: seconds, bytes of memory, and the cache's contents."""

    wall: float
    memory: int
    cache: dict[str, str]


def write_small(root: Path, count: int) -> None:
    """Kernels as npz files of about 2 kB."""
    folder = root / "npz" / "tile" / "xla" / SPLIT
    folder.mkdir(parents=True)
    for index in range(count):
        write_kernels(folder, [tile_kernel(f"k{index:05}", index, configurations=60)])


def write_huge(root: Path, count: int, configurations: int) -> None:
    """Graphs of one size; all but the first two are other names of one of these."""
    folder = root / "npz" / "layout" / "xla" / "default" / SPLIT
    for index in range(count):
        path = folder / f"g{index:02}.npz"
        if index < DISTINCT:
            write_raw(path, configurations, 150, 14_000, repeated=0.2, level=1, seed=index)
        else:
            path.hardlink_to(folder / f"g{index % DISTINCT:02}.npz")


def run(collection: str, root: Path, workers: int) -> Result:
    """Stage 1 in a folder of its own; the files are in memory."""
    for path in root.rglob("*.npz"):
        path.read_bytes()
    with tempfile.TemporaryDirectory(dir=root) as name:
        line = [sys.executable, "01_preprocess.py", "--collection", collection, "--data", root]
        line += ["--outputs", name, "--jobs", str(workers)]
        started = time.perf_counter()
        subprocess.run(line, cwd=REPOSITORY, env=environment(), stdout=sys.stderr, check=True)
        wall = time.perf_counter() - started
        (cache,) = Path(name, collection).glob("cache*")
        digests = {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in cache.iterdir()
        }
        (record,) = Path(name).rglob("preprocess*.json")
        memory = json.loads(record.read_text())["peak_memory_bytes"]
    return Result(wall, memory, digests)


def arithmetic(processes: int) -> float:
    """Seconds of one process's plain arithmetic, when so many do it at the same time."""
    line = [sys.executable, "-c", LOOP]
    started = [subprocess.Popen(line, stdout=subprocess.PIPE) for _ in range(processes)]
    return max(float(one.communicate()[0]) for one in started)


def measure(title: str, collection: str, root: Path, args: argparse.Namespace) -> None:
    """Print a line a number of workers; ends the program if two caches differ."""
    found = {workers: list[Result]() for workers in args.workers}
    loops = {workers: list[float]() for workers in args.workers}
    for _ in range(args.repeat):  # in turn, so that what slows the machine slows all
        for workers, results in found.items():
            results.append(run(collection, root, workers))
            loops[workers].append(arithmetic(workers))
    caches = [one.cache for results in found.values() for one in results]
    if any(cache != caches[0] for cache in caches):
        sys.exit(f"{title}: caches differ")
    alone, loop = min(one.wall for one in found[args.workers[0]]), min(loops[args.workers[0]])
    for workers, results in found.items():
        wall = min(one.wall for one in results)
        memory = max(one.memory for one in results) / 1e6
        most = loop / min(loops[workers]) * workers / args.workers[0]
        told = f"{wall:.1f} | {alone / wall:.2f} | {most:.2f} | {memory:.0f}"
        print(f"| {title} | {workers} | {told} |", flush=True)


def main() -> None:
    """Write files, measure, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--small", type=int, default=10_000, help="small files; 0 for none")
    parser.add_argument("--huge", type=int, default=20, help="huge files; 0 for none")
    parser.add_argument("--configurations", type=int, default=100_000, help="of a huge one")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeat", type=int, default=2)
    args = parser.parse_args()
    print(f"cores: {len(os.sched_getaffinity(0))}; two workers are to be {AIM} times as fast\n")
    print("| files | workers | wall s | speed-up | of arithmetic | memory MB |")
    print("|---|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory(prefix="tgraph-files-") as name:
        for collection, count in ((SMALL, args.small), (HUGE, args.huge)):
            if not count:
                continue
            root = Path(name, collection)
            if collection == SMALL:
                write_small(root, count)
            else:
                write_huge(root, count, args.configurations)
            write_dataset(root, OWN)
            title = f"{count:,} {'kernels' if collection == SMALL else 'graphs'}"
            measure(title, collection, root, args)
            shutil.rmtree(root)


if __name__ == "__main__":
    main()
