"""Raw files as `lib.collect.xla.measure` writes them, from a hand-made HLO module."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from lib.tpugraphs.drawing import random_configuration, unconstrained
from lib.tpugraphs.schema_pb2 import HloComputationProto, HloInstructionProto, HloModuleProto

# The order of the nodes is not that of the sites: the dot is site 0, the first reshape site 2.
SITES = (("dot", (2, 2, 2)), ("reshape", (3, 2, 0)), ("reshape", (2, 3, 0)))
POSITIONS = (6, 7, 5)


def instruction(
    number: int, opcode: str, dimensions=(), operands=(), scope: str = ""
) -> HloInstructionProto:
    """An instruction whose metadata, which our schema leaves out, says ``jit(f)/<scope>/op``."""
    made = HloInstructionProto(id=number, opcode=opcode, name=f"{opcode}.{number}")
    made.shape.element_type = 11
    made.shape.dimensions.extend(dimensions)
    made.shape.layout.minor_to_major.extend(reversed(range(len(dimensions))))
    made.operand_ids.extend(operands)
    name = f"jit(f)/{scope}/op".encode() if scope else b"jit(f)/op"
    metadata = bytes([0x12, len(name)]) + name  # OpMetadata.op_name is field 2
    return HloInstructionProto.FromString(
        made.SerializeToString() + bytes([0x3A, len(metadata)]) + metadata  # and metadata field 7
    )


def module() -> HloModuleProto:
    """reshape(reshape(x)) and a dot, beside a reshape that lowering might have added."""
    helper = HloComputationProto(
        name="add",
        id=1,
        root_id=1,
        instructions=[instruction(1, "parameter"), instruction(2, "add", operands=[1, 1])],
    )
    main = HloComputationProto(
        name="main",
        id=2,
        root_id=18,
        instructions=[
            instruction(10, "parameter", (4, 2, 3)),
            instruction(11, "parameter", (6, 5)),
            instruction(12, "reshape", (24,), [10]),
            instruction(13, "opt-barrier", (4, 2, 3), [10], "site2"),
            instruction(14, "reshape", (4, 6), [13], "site2"),
            instruction(15, "opt-barrier", (4, 6), [14], "site2"),
            instruction(16, "dot", (4, 5), [15, 11], "site0"),
            instruction(17, "reshape", (4, 5, 1), [16], "site1"),
            instruction(18, "opt-barrier", (4, 5, 1), [17], "site1"),
        ],
    )
    return HloModuleProto(name="jit_f", computations=[helper, main])


def write_raw(
    path: Path, seed: int = 0, random: int = 48, genetic: int = 32, noise: float = 0.0, **changes
) -> dict[str, np.ndarray]:
    """Write a raw file; returns its arrays. ``changes`` replace arrays, or drop them if None."""
    rng = np.random.default_rng(seed)
    ranks = [ranks for _, ranks in SITES]
    total = random + genetic
    configurations = [unconstrained(ranks)]
    configurations += [random_configuration(ranks, rng) for _ in range(total - 1)]
    rounds = rng.permutation(total)[:, None] * 10_000 + 1_000_000 + np.zeros((1, 7))
    rounds = (rounds * (1 + noise * rng.random(rounds.shape))).astype(np.int64)
    rounds[:random, 5:] = 0
    about = {"processor": "Test 9000", "measured_at": "2026-01-02T03:04:05Z", "jax": "0.10.2"}
    arrays = {
        "module": np.frombuffer(module().SerializeToString(), np.uint8),
        "site_opcode": np.array([opcode for opcode, _ in SITES]),
        "site_ranks": np.array(ranks, np.int8),
        "configuration": np.stack(configurations),
        "search": np.repeat(np.array([0, 1], np.int8), [random, genetic]),
        "rounds": rounds,
        "optimized_hash": np.array([f"{k:016x}" for k in range(total)]),
        "rejected": np.array(3),
        "about": np.array(json.dumps(about)),
        **changes,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **{k: v for k, v in arrays.items() if v is not None})
    return arrays


def collection(folder: Path) -> list[tuple[str, str]]:
    """Raw files of 15 programs in each source, of 5 families; returns (source, program)."""
    made = []
    for source in ("xla", "nlp"):
        for seed, family in enumerate("aabbcccddddeeee"):
            name = f"{family}net.w{seed}.forward"
            write_raw(folder / source / f"{name}.npz", seed, noise=0.05)
            made.append((source, name))
    return made
