"""Raw files as `lib.collect.xla.measure` writes them, from a hand-made HLO module."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from lib.collect.xla.measurements import FACTS
from lib.tpugraphs.drawing import random_configuration, unconstrained
from lib.tpugraphs.schema_pb2 import HloComputationProto, HloInstructionProto, HloModuleProto

NODES = (4, 5, 6)  # reshape, dot, reshape; the reshape before them has one layout only
RANKS = ((2, 3, 0), (2, 2, 2), (3, 2, 0))


def instruction(number: int, opcode: str, dimensions=(), operands=()) -> HloInstructionProto:
    made = HloInstructionProto(id=number, opcode=opcode, name=f"{opcode}.{number}")
    made.shape.element_type = 11
    made.shape.dimensions.extend(dimensions)
    made.shape.layout.minor_to_major.extend(reversed(range(len(dimensions))))
    made.operand_ids.extend(operands)
    return made


def module() -> HloModuleProto:
    """reshape(reshape(x) . y), and a reshape of one number."""
    main = HloComputationProto(
        name="main",
        id=2,
        root_id=17,
        instructions=[
            instruction(10, "parameter", (4, 2, 3)),
            instruction(11, "parameter", (6, 5)),
            instruction(12, "parameter"),
            instruction(13, "reshape", (1,), [12]),
            instruction(14, "reshape", (4, 6), [10]),
            instruction(16, "dot", (4, 5), [14, 11]),
            instruction(17, "reshape", (4, 5, 1), [16]),
        ],
    )
    return HloModuleProto(name="jit_f", computations=[main], entry_computation_id=2)


def write_raw(
    path: Path, seed: int = 0, random: int = 48, genetic: int = 32, noise: float = 0.0, **changes
) -> dict[str, np.ndarray]:
    """Write a raw file; returns its arrays. ``changes`` replace arrays, or drop them if None."""
    rng = np.random.default_rng(seed)
    total = random + genetic
    configurations = [unconstrained(RANKS)]
    configurations += [random_configuration(RANKS, rng) for _ in range(total - 1)]
    rounds = rng.permutation(total)[:, None] * 10_000 + 1_000_000 + np.zeros((1, 7))
    rounds = (rounds * (1 + noise * rng.random(rounds.shape))).astype(np.int64)
    rounds[:random, 5:] = 0
    arrays = {
        "module": np.frombuffer(module().SerializeToString(), np.uint8),
        "nodes": np.array(NODES),
        "configuration": np.stack(configurations),
        "search": np.repeat(np.array([0, 1], np.int8), [random, genetic]),
        "rounds": rounds,
        "optimized_hash": np.array([f"{k:016x}" for k in range(total)]),
        "rejected": np.array(3),
        "about": np.array(json.dumps(dict.fromkeys(FACTS, "said") | {"processor": "Test 9000"})),
        **changes,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **{k: v for k, v in arrays.items() if v is not None})
    return arrays


def collection(folder: Path) -> list[tuple[str, str]]:
    """Raw files of 15 programs in each source, of 8 families; returns (source, program)."""
    made = []
    for source in ("xla", "nlp"):
        for seed, family in enumerate("abcdefgggghhhhh"):
            name = f"{family}net.w{seed}.forward"
            write_raw(folder / source / f"{name}.npz", seed, noise=0.05)
            made.append((source, name))
    return made
