"""The programs to measure: those of the bundled data, or HLO modules in files.

``data/xla-cpu/modules.tar.xz`` has the modules that the bundled data were measured of, as
``<source>/<name>.hlo.pb``. Which of their instructions are configurable nodes, the bundled graphs
say. Of any other module, every convolution, dot and reshape that has a choice of layouts is one.
"""

from __future__ import annotations

import glob
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePath

import numpy as np

from lib.files.errors import UserError
from lib.tpugraphs.drawing import MAX_RANK, SLOTS
from lib.tpugraphs.encoding import configurable_positions
from lib.tpugraphs.messages import detect_kind, read_module
from lib.tpugraphs.npz import read_layout
from lib.tpugraphs.schema_pb2 import HloModuleProto

BUNDLED = Path(__file__).parents[3] / "data" / "xla-cpu"
MODULES = BUNDLED / "modules.tar.xz"
ENDING = re.compile(r"(\.before_optimizations)?(\.hlo)?\.pb$")
OPTIMIZED = "after_optimizations"  # in the names of dumps that XLA cannot compile once more


@dataclass(frozen=True)
class Program:
    """A program to measure.

    Attributes:
        name: of its graph; the part before the first dot is the family.
        source: ``xla`` or ``nlp``, which collections it belongs to.
        path: of its module; ``MODULES`` of a bundled program.
    """

    name: str
    source: str
    path: Path

    def read(self) -> tuple[HloModuleProto, np.ndarray, list[tuple[int, int, int]]]:
        """Return the module, its k configurable nodes in order, and the ranks of the output, the
        input and the kernel of each, 0 where there is no layout to choose.

        Raises:
            DataError: the file has no HLO module.
        """
        if self.path != MODULES:
            module = read_module(self.path, detect_kind(self.path))
            ranks = node_ranks(module)
            nodes = configurable_positions(module)
            free = [any(ranks[node]) and max(ranks[node]) <= MAX_RANK for node in nodes]
            nodes = nodes[np.array(free, bool)]
        else:
            with tarfile.open(MODULES) as archive:
                data = archive.extractfile(f"{self.source}/{self.name}.hlo.pb").read()
            module = HloModuleProto.FromString(data)
            ranks = node_ranks(module)
            graphs = Path(BUNDLED, "npz", "layout", self.source)
            (path,) = graphs.glob(f"random/*/{glob.escape(self.name)}.npz")
            nodes = read_layout(path).node_config_ids
        return module, nodes, [ranks[node] for node in nodes]


def node_ranks(module: HloModuleProto) -> list[tuple[int, int, int]]:
    """Return the ranks of each instruction's output and first two operands, in file order; 0 of
    one that is absent or has a single layout."""
    ranks = []
    for computation in module.computations:
        shapes = {inst.id: inst.shape for inst in computation.instructions}
        for inst in computation.instructions:
            operands = [shapes[i] for i in inst.operand_ids[: SLOTS - 1] if i in shapes]
            own = [len(shape.dimensions) for shape in (inst.shape, *operands)]
            own = [rank if rank > 1 else 0 for rank in own] + [0] * (SLOTS - len(own))
            ranks.append(tuple(own))
    return ranks


def bundled_programs() -> list[Program]:
    """Return the programs of the bundled data, in an order that goes round sources and families."""
    with tarfile.open(MODULES) as archive:
        names = [PurePath(name) for name in archive.getnames()]
    return [Program(ENDING.sub("", name.name), name.parts[0], MODULES) for name in names]


def selected_programs(words: str) -> list[Program]:
    """Return the programs that comma-separated words name.

    Args:
        words: each a pattern of names of bundled programs, a file, a pattern of files, or a folder
            of files.

    Raises:
        UserError: a word names nothing, or two files have one name.
        DataError: a file has no HLO module.
    """
    selected: dict[str, Program] = {}
    for word in filter(None, words.split(",")):
        if "/" in word or word.endswith(".pb") or Path(word).exists():
            found = list(_in_files(word))
        else:
            found = [program for program in bundled_programs() if fnmatch(program.name, word)]
        if not found:
            raise UserError(
                f"--programs {word}: names no program with a layout to choose; --list names "
                "bundled ones, and a file or folder of *.hlo.pb is given by its path"
            )
        for program in found:
            if selected.setdefault(program.name, program) != program:
                other = selected[program.name].path
                raise UserError(f"{program.path}: has the name of {other}; rename one of them")
    return list(selected.values())


def _in_files(word: str) -> Iterator[Program]:
    """Yield the modules of a file, a pattern or a folder that have a layout to choose."""
    folder = Path(word).is_dir()
    place, pattern = (Path(word), "*.pb") if folder else (Path(word).parent, Path(word).name)
    for path in sorted(place.glob(pattern)):
        if folder and OPTIMIZED in path.name:
            continue
        program = Program(ENDING.sub("", path.name), "xla", path)
        if len(program.read()[1]):
            yield program
