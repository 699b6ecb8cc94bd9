"""True runtimes of the graphs of a submission, wherever they are kept."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from lib.submit.expected import raw_folder
from lib.tpugraphs.labels import count_configurations, read_runtimes
from lib.tpugraphs.npz import stem
from lib.tpugraphs.roots import SPLITS, DataRoot


@dataclass(frozen=True)
class Truth:
    """What is known about the graphs of one collection.

    Attributes:
        collection: its name.
        root: its raw data; the bundled test split's runtimes lie in their ``measurements.parquet``,
            apart from the npz files that training reads.
    """

    collection: str
    root: DataRoot

    def runtimes(self, graph: str) -> np.ndarray | None:
        """Runtimes in the order of the source file, positive; ``None`` if nobody knows them.

        Those that lie apart count only if they are of as many configurations as the file has.

        Raises:
            DataError: a raw file cannot be believed.
        """
        path, apart = self._files.get(graph), self._apart.get(graph)
        alike = apart is not None and (
            path is None or count_configurations(path)[graph] == len(apart)
        )
        if alike:
            return apart
        found = (read_runtimes(path) if path else {}).get(graph)
        return found if found is not None and len(found) and found[0] > 0 else None

    def family(self, graph: str) -> tuple[str | None, bool | None]:
        """The graph's family, and whether training has graphs of it; ``None`` if not known."""
        return self._families.get(graph, (None, None))

    @cached_property
    def _files(self) -> dict[str, Path]:
        folder = raw_folder(self.collection)
        files = [path for split in SPLITS for path in self.root.files(folder, split)]
        return {name: path for path in files for name in _names(path)}

    @cached_property
    def _apart(self) -> dict[str, np.ndarray]:
        table = self.root.measurements(self.collection)
        if table is None:
            return {}
        parts = table.sort("graph", "config").partition_by("graph", as_dict=True)
        return {key[0]: frame["runtime"].to_numpy() for key, frame in parts.items()}

    @cached_property
    def _families(self) -> dict[str, tuple[str, bool]]:
        table = self.root.programs(self.collection)
        return {} if table is None else {name: tuple(about) for name, *about in table.iter_rows()}


def _names(path: Path) -> list[str]:
    """A file's graphs: its own name, but for a protobuf, which may hold several kernels."""
    return [stem(path)] if path.suffix == ".npz" else list(read_runtimes(path))
