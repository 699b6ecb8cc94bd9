"""What a raw measurement file holds: a graph, its sites' nodes, and the measured configurations.

The plain program is lowered with the scope ``site<k>`` around site k, and XLA keeps the scopes in
an instruction's ``metadata.op_name``, such as ``jit(function)/site12/dot_general``. Lowering adds
reshapes of its own, so that neither order nor opcode alone would tell. Nothing here needs JAX.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from lib.collect.xla.enough import UNTOLD
from lib.files.believing import believing
from lib.files.errors import DataError
from lib.ranking.rounds import label
from lib.tpugraphs.encoding import EncodedGraph, encode_module
from lib.tpugraphs.npz import stem
from lib.tpugraphs.schema_pb2 import HloComputationProto, HloInstructionProto, HloModuleProto

METADATA, OP_NAME = 7, 2  # HloInstructionProto.metadata, OpMetadata.op_name: not in our schema
SITE = re.compile(r"site(\d+)")
SEARCHES = ("random", "default")  # a raw file's `search` is an index into this

# Key of a raw file -> dtype kind, shape: b bytes, s sites, c configurations, r rounds.
RAW: dict[str, tuple[str, tuple[str | int, ...]]] = {
    "module": ("u", ("b",)),
    "site_opcode": ("U", ("s",)),
    "site_ranks": ("i", ("s", 3)),
    "configuration": ("i", ("c", "s", 3, 6)),
    "search": ("i", ("c",)),
    "rounds": ("i", ("c", "r")),
    "optimized_hash": ("U", ("c",)),
    "rejected": ("i", ()),
    "about": ("U", ()),
}


@dataclass(frozen=True, eq=False)
class Measurements:
    """One search on one program: n nodes, s sites, c configurations, r rounds.

    Attributes:
        source: the folder of the file, ``xla`` or ``nlp``.
        search: one of ``SEARCHES``.
        name: the graph's; its part before the first dot is the family.
        graph: the encoded plain program.
        nodes: (s,) int64, increasing: the sites' nodes.
        configuration: (c, s, 18) int8.
        rounds: (c, r) int64 nanoseconds, 0 where unused.
        optimized_hash: c hashes of the compiled programs.
        rejected: configurations of both searches that did not compile or computed otherwise.
        about: processor, versions, settings and date; ``operations`` of the optimized program
            where they were counted.
    """

    source: str
    search: str
    name: str
    graph: EncodedGraph
    nodes: np.ndarray
    configuration: np.ndarray
    rounds: np.ndarray
    optimized_hash: list[str]
    rejected: int
    about: dict[str, Any]

    @property
    def family(self) -> str:
        return self.name.split(".")[0]

    @property
    def program(self) -> str:
        """Its name where it is written or drawn: a family that it joined is not in it."""
        return self.about.get("program") or self.name

    @property
    def collection(self) -> str:
        return f"layout-{self.source}-{self.search}"

    @property
    def fewest_rounds(self) -> int:
        """Rounds that every configuration has."""
        return int((self.rounds > 0).sum(1).min())

    @property
    def runtime(self) -> np.ndarray:
        """The label: (c,) int64 nanoseconds."""
        return label(self.rounds)


def read_raw(path: Path) -> list[Measurements]:
    """The searches of a file that :mod:`lib.collect.xla.measure` wrote, but for empty searches.

    Raises:
        DataError: it is not such a file, or a site has no node of its own.
    """
    arrays = _read_arrays(path)
    module = read_module(arrays["module"].tobytes(), path)
    nodes = site_positions(module, arrays["site_opcode"].tolist(), arrays["site_ranks"], path)
    graph, order = encode_module(module, -1, path), np.argsort(nodes)
    about = _read_about(path, arrays["about"].item())
    searches = []
    for index, search in enumerate(SEARCHES):
        rows = np.flatnonzero(arrays["search"] == index)
        measurements = Measurements(
            source=path.parent.name,
            search=search,
            name=stem(path),
            graph=graph,
            nodes=nodes[order],
            configuration=arrays["configuration"][rows][:, order].reshape(
                len(rows), len(nodes), 18
            ),
            rounds=arrays["rounds"][rows],
            optimized_hash=arrays["optimized_hash"][rows].tolist(),
            rejected=int(arrays["rejected"]),
            about=about,
        )
        searches += [measurements] if len(rows) else []
    return searches


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    expected = "what lib.collect.xla.measure writes"
    with believing(path, "file", expected), np.load(path, allow_pickle=False) as file:
        arrays = {key: file[key] for key in RAW}
    sizes: dict[str, int] = {}
    for key, (kind, shape) in RAW.items():
        array = arrays[key]
        sizes |= {n: k for n, k in zip(shape, array.shape, strict=False) if n not in sizes}
        due = tuple(n if isinstance(n, int) else sizes.get(n) for n in shape)
        if array.dtype.kind != kind or array.shape != due:
            raise DataError(path, key, f"{array.dtype} {array.shape}", f"kind {kind}, {due}")
    used = arrays["rounds"] > 0
    if (arrays["rounds"] < 0).any() or (np.diff(used.astype(np.int8)) > 0).any():
        raise DataError(path, "rounds", "a gap", "positive rounds, then zeros")
    if (used.sum(1) < 2).any():
        raise DataError(path, "rounds", "a configuration with fewer", "two rounds at least")
    return arrays


def _read_about(path: Path, text: str) -> dict[str, Any]:
    try:
        about = json.loads(text)
        texts = {key: str(about[key]) for key in ("measured_at", "processor")}
        return UNTOLD | about | texts
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(path, "about", repr(error), "JSON with processor and date") from None


def read_module(data: bytes, source: Path | str = "HloModuleProto") -> HloModuleProto:
    """Parse a serialized HloModuleProto and take out the barriers that guard its sites.

    XLA folds a reshape of a reshape into one instruction, so that sites would be lost from the
    graph. An ``opt-barrier`` inside a site's scope prevents that; it computes nothing and is no
    part of the program, so its users are joined to its operand. Other barriers stay.

    Raises:
        DataError: the bytes are no such message, or a barrier has not exactly one operand.
    """
    try:
        module = HloModuleProto.FromString(data)
    except DecodeError as error:
        raise DataError(source, "module", str(error), "an HloModuleProto") from None
    for computation in module.computations:
        _remove_barriers(computation, source)
    return module


def site_positions(
    module: HloModuleProto,
    opcodes: Sequence[str],
    ranks: np.ndarray,
    source: Path | str = "HloModuleProto",
) -> np.ndarray:
    """The node position of each of s sites, (s,) int64, distinct and in the order of the sites.

    A position is an instruction's place in the concatenation of all computations in file order.

    Args:
        module: the plain program, with the sites' scopes in its metadata.
        opcodes: s HLO opcodes: ``convolution``, ``dot`` or ``reshape``.
        ranks: (s, 3) integer, rank of output, input and kernel; 0 for a tensor that is absent
            or has no layout to choose (rank 0 or 1).
        source: what an error names as the file.

    Raises:
        DataError: a site has no instruction of its opcode and ranks, or several.
    """
    instructions = [inst for comp in module.computations for inst in comp.instructions]
    by_id = {inst.id: inst for inst in instructions}
    scoped: dict[int, list[int]] = defaultdict(list)
    for position, instruction in enumerate(instructions):
        for site in _sites(instruction):
            scoped[site].append(position)
    positions = np.empty(len(opcodes), np.int64)
    sites = zip(opcodes, np.asarray(ranks).tolist(), strict=True)
    for site, (opcode, slots) in enumerate(sites):
        same = [p for p in scoped[site] if instructions[p].opcode == opcode]
        fitting = [p for p in same if _slot_ranks(instructions[p], by_id) == slots]
        if len(fitting) != 1:
            candidates = [f"{opcode} {_slot_ranks(instructions[p], by_id)}" for p in same]
            raise DataError(source, f"site{site}", candidates, f"one {opcode} of ranks {slots}")
        positions[site] = fitting[0]
    return positions


def operation_name(instruction: HloInstructionProto) -> str:
    """``metadata.op_name`` of an instruction, "" if it has none.

    The official schema table leaves metadata out, so it is read from the unknown fields.
    """
    for metadata in _payloads(instruction, METADATA):
        for name in _payloads(Empty.FromString(metadata), OP_NAME):
            return name.decode()
    return ""


def _payloads(message: HloInstructionProto | Empty, number: int) -> list[bytes]:
    """The payloads of a length-delimited field that the message's schema does not know."""
    return [field.data for field in UnknownFieldSet(message) if field.field_number == number]


def _sites(instruction: HloInstructionProto) -> set[int]:
    """The sites whose scope is a component of the instruction's name."""
    parts = map(SITE.fullmatch, operation_name(instruction).split("/"))
    return {int(part.group(1)) for part in parts if part}


def _slot_ranks(
    instruction: HloInstructionProto, by_id: Mapping[int, HloInstructionProto]
) -> list[int]:
    """Rank of output, first and second operand; 0 where absent or without a choice of layout."""
    operands = [by_id[i].shape for i in instruction.operand_ids[:2] if i in by_id]
    ranks = [len(shape.dimensions) for shape in (instruction.shape, *operands)]
    return [rank if rank > 1 else 0 for rank in ranks] + [0] * (3 - len(ranks))


def _remove_barriers(computation: HloComputationProto, source: Path | str) -> None:
    """Join the users of each site's barrier to its operand, in place."""
    stands_for: dict[int, int] = {}
    barriers = []
    for index, instruction in enumerate(computation.instructions):  # operands before their users
        operands = [stands_for.get(i, i) for i in instruction.operand_ids]
        instruction.operand_ids[:] = operands
        if instruction.opcode == "opt-barrier" and _sites(instruction):
            if len(operands) != 1:
                raise DataError(source, instruction.name, f"{len(operands)} operands", "one")
            stands_for[instruction.id] = operands[0]
            barriers.append(index)
    computation.root_id = stands_for.get(computation.root_id, computation.root_id)
    for index in reversed(barriers):
        del computation.instructions[index]
