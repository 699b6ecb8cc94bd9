"""One program to rank: its graph, its instructions' names, and candidate configurations."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lib.files.errors import DataError
from lib.files.regular import read_regular
from lib.tpugraphs import archive, checks
from lib.tpugraphs.messages import MAX_BYTES, detect_kind, read_module
from lib.tpugraphs.npz import LayoutGraph, TileKernel, read_layout, stem
from lib.tpugraphs.protobuf import TENSOR_DIMS, read_protobuf
from lib.tpugraphs.schema_pb2 import HloModuleProto

TENSORS = ("output", "input", "kernel")  # of a site, in the order of the 18 features
FEATURES, SITES = "node_config_feat", "node_config_ids"
CANDIDATES = {key: checks.LAYOUT_SPEC[key] for key in (SITES, FEATURES)}
# As XLA writes a layout: ``{1,0}``, or ``{}`` for none. A dimension has one digit, for six are all.
LAYOUT = re.compile(r"\s*\{\s*(?:[0-9]\s*(?:,\s*[0-9]\s*)*)?\}\s*", re.ASCII)


@dataclass(frozen=True, eq=False)
class Program:
    """A program and its configurations.

    Attributes:
        path: its file.
        graph: with the configurations to rank, or a kernel; runtimes are zero where not known.
        names: of its n instructions, ``None`` if the file has none.
        module: that it was read from, ``None`` of an npz.
    """

    path: Path
    graph: LayoutGraph | TileKernel
    names: list[str] | None
    module: HloModuleProto | None = None

    @property
    def sites_in_loops(self) -> int:
        """How many sites are in the bodies of loops, or in what these call; 0 of an npz."""
        if self.module is None:
            return 0
        calls = {
            part.id: [(i.opcode, i.called_computation_ids) for i in part.instructions]
            for part in self.module.computations
        }
        inside: set[int] = set()
        waiting = [
            n for part in calls.values() for code, ids in part if code == "while" for n in ids
        ]
        while waiting:
            if (number := waiting.pop()) in calls and number not in inside:
                inside.add(number)
                waiting += [n for _, ids in calls[number] for n in ids]
        looped = [part.id in inside for part in self.module.computations for _ in part.instructions]
        return sum(looped[node] for node in self.graph.node_config_ids)

    def under(self, features: np.ndarray, **other: np.ndarray) -> Program:
        """The program under other configurations, (c, k, 18), whose runtimes nobody knows, and with
        other members of its graph."""
        other |= {"node_config_feat": features, "config_runtime": np.zeros(len(features), np.int64)}
        return replace(self, graph=replace(self.graph, **other))


def read_program(path: Path) -> Program:
    """Read an npz, a layout tuning protobuf (``ModuleTuningData``), an ``HloModuleProto`` or the
    ``HloProto`` that XLA dumps.

    An HLO module has no configurations, and its sites are its convolutions, dots and reshapes.

    Raises:
        DataError: if the file is none of these, or is damaged.
    """
    if path.suffix == ".npz":
        return Program(path, read_layout(path), None)
    kind = detect_kind(path)
    if kind == "tile":
        expected = "ModuleTuningData or HloModuleProto; COLLECTION=tile-xla ranks kernels"
        raise DataError(path, "message", "tile sizes", expected)
    module = read_module(path, kind)
    names = [inst.name for comp in module.computations for inst in comp.instructions]
    return Program(path, replace(read_protobuf(path, kind), name=stem(path)), names, module)


def with_candidates(program: Program, path: Path) -> Program:
    """The program with the configurations of a file in place of its own.

    The file is either

    * an npz with ``node_config_feat`` (c, k, 18), digits -1..5 as in the official layout files,
      and ``node_config_ids`` (k,), the sites' node positions, which may be left out if k is the
      program's own number of sites; or
    * JSON lines, a configuration each: an object from site, by instruction name or node
      position, to an object of ``output``, ``input``, ``kernel``, each a layout, minor-most
      dimension first, as a list or as XLA writes it: ``{"dot.3": {"output": "{1,0}"}}``. What is
      not named is the compiler's choice.

    Raises:
        DataError: if the file is neither, or names what the program does not have.
    """
    read = _npz_candidates if path.suffix == ".npz" else _json_candidates
    ids, features = read(path, program)
    if not len(features):
        raise DataError(path, "configurations", "none", "at least one")
    return program.under(features, node_config_ids=ids)


def _npz_candidates(path: Path, program: Program) -> tuple[np.ndarray, np.ndarray]:
    sites = program.graph.node_config_ids
    with archive.opened(path) as file:
        headers = {FEATURES: file.header(FEATURES, "configurations (c, k, 18)")}
        if SITES in file:
            headers[SITES] = file.header(SITES)
        checks.check_shapes(path, CANDIDATES, {SITES: sites, **headers})
        arrays = file.read(headers)
    ids = checks.config_ids(path, arrays.get(SITES, sites), len(program.graph.node_opcode))
    return ids, checks.layout_codes(path, arrays[FEATURES])


def _json_candidates(path: Path, program: Program) -> tuple[np.ndarray, np.ndarray]:
    ids, numbered = program.graph.node_config_ids.tolist(), json_lines(path)
    places = {str(node): place for place, node in enumerate(ids)}
    if program.names:
        places = {program.names[node]: place for place, node in enumerate(ids)} | places
    shape = len(numbered), len(ids), checks.LAYOUT_FEATURES
    features = np.full(shape, -1, np.int8)
    for row, (number, line) in zip(features, numbered, strict=True):
        done: set[int] = set()
        for site, tensors in object_in(path, number, line).items():
            where = f"line {number}, {site[:60]}"
            if site not in places:
                examples = ", ".join(list(places)[:3])
                raise DataError(path, where, "no such site", f"one such as {examples}")
            if places[site] in done:
                raise DataError(path, where, "the same site once more", "each site once")
            done.add(places[site])
            row[places[site]] = _site_features(path, where, tensors)
    return program.graph.node_config_ids, features


def json_lines(path: Path) -> list[tuple[int, str]]:
    """The lines of a file of candidates that are not blank, with their numbers; raises DataError if
    it is no text."""
    try:
        text = read_regular(path, MAX_BYTES).decode()
    except ValueError as error:
        raise DataError(path, "file", error, "JSON lines or npz") from None
    # (str.splitlines would cut strings in which a line separator of Unicode stands.)
    return [(n, line) for n, line in enumerate(text.split("\n"), start=1) if line.strip()]


def object_in(path: Path, number: int, line: str) -> dict[str, Any]:
    """The JSON object of one line of candidates; :class:`DataError` if it is none."""
    where = f"line {number}"
    try:
        sites = json.loads(line, object_pairs_hook=_distinct)
    except RecursionError:
        raise DataError(path, where, "values too deep in one another", "a JSON object") from None
    except ValueError as error:
        raise DataError(path, where, error, "a JSON object") from None
    if not isinstance(sites, dict):
        raise DataError(path, where, type(sites).__name__, "a JSON object")
    return sites


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; :class:`ValueError` if it has a key twice, of which one would be lost."""
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise ValueError(f"{key[:60]} twice")
        members[key] = value
    return members


def _site_features(path: Path, where: str, tensors: Any) -> list[int]:
    if not isinstance(tensors, Mapping) or set(tensors) - set(TENSORS):
        raise DataError(path, where, repr(tensors)[:60], f"an object of {', '.join(TENSORS)}")
    row = []
    for tensor in TENSORS:
        layout = parse_layout(tensors.get(tensor))
        if layout is None:
            expected = "a layout such as {1,0} of at most six dimensions, or null"
            raise DataError(path, f"{where}, {tensor}", repr(tensors[tensor])[:60], expected)
        row += [*layout, *[-1] * (TENSOR_DIMS - len(layout))]
    return row


def parse_layout(value: Any) -> list[int] | None:
    """A layout's dimensions from a list, ``"{1,0}"``, or null for the compiler's choice, ``[]``.

    Returns ``None`` for anything else. Convolutions may name their minor-most dimensions only,
    as the official files do, so that a layout need not name all of 0..r-1.
    """
    if value is None:
        return []
    if isinstance(value, str):
        if not LAYOUT.fullmatch(value):
            return None
        value = [int(digit) for digit in re.findall("[0-9]", value)]
    good = isinstance(value, list) and all(type(d) is int and 0 <= d < TENSOR_DIMS for d in value)
    return value if good and len(set(value)) == len(value) <= TENSOR_DIMS else None


def written(layout: Sequence[int]) -> str:
    """A layout as XLA writes it, minor-most dimension first."""
    return "{" + ",".join(map(str, layout)) + "}"


def layouts(features: np.ndarray) -> dict[str, list[int] | None]:
    """A site's layouts by tensor from its (18,) features; ``None`` for the compiler's choice."""
    parts = np.asarray(features).reshape(len(TENSORS), TENSOR_DIMS)
    named = ([int(d) for d in part if d >= 0] for part in parts)
    return {tensor: layout or None for tensor, layout in zip(TENSORS, named, strict=True)}
