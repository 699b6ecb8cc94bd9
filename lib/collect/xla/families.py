"""Programs that differ little from each other are one family, by what XLA makes of them.

Families are kept apart when programs are split and dealt to folds. A family is named by who wrote
or drew a program; two grammars may still draw nearly the same network. So the operations of the
optimized programs are compared, which does not see names, sizes, depths, or what is only written
differently.

    python -m lib.collect.xla.families data/xla-cpu    # wants JAX

counts the operations of the programs of a dataset that was measured before they were counted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import polars as pl
from tqdm import tqdm

from lib.files.artifacts import atomic_file
from lib.files.command_line import Parser
from lib.files.errors import UserError, one_line_errors
from lib.files.parquet import write_parquet
from lib.tpugraphs.schema_pb2 import HloModuleProto

ALIKE = 0.9  # share of the operations that two programs of one family have in common, at least
UNCOUNTED = ("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "fusion", "call")
COLUMN = "operations"  # of programs.parquet: JSON, operation -> count; null where not counted yet
Operations = Mapping[str, int]


def operations(module: bytes) -> dict[str, int]:
    """How often each operation occurs in a program, by opcode and rank of the result.

    Args:
        module: a serialized HloModuleProto, optimized. Operations inside fusions count; what only
            carries data does not.
    """
    parsed = HloModuleProto.FromString(module)
    found = Counter(
        f"{one.opcode} {len(one.shape.dimensions)}"
        for computation in parsed.computations
        for one in computation.instructions
        if one.opcode not in UNCOUNTED
    )
    return dict(sorted(found.items()))


def likeness(a: Operations, b: Operations) -> float:
    """The share of two programs' operations that they have in common, 0 to 1.

    Each operation counts by its share of its own program, so that a network of two blocks is like
    one of four of the same blocks.
    """
    if not a or not b:
        return 0.0
    totals = sum(a.values()), sum(b.values())
    return sum(min(count / totals[0], b.get(name, 0) / totals[1]) for name, count in a.items())


def joined(
    programs: Iterable[tuple[str, Operations | None]], settled: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The family of each program of one source.

    One after the other, by name, those that are settled first: a program that is like ones before
    it, but none of the family that its name says, joins the family of the likest. All others, and
    those whose operations were not counted, are of the family that their name says.

    Args:
        programs: name where it is written or drawn, and operations.
        settled: name -> family, of an earlier export: those stay.
    """
    settled = settled or {}
    families: dict[str, str] = {}
    counted: list[tuple[str, Operations]] = []
    for name, own in sorted(programs, key=lambda one: (one[0] not in settled, one[0])):
        families[name] = settled.get(name, name.split(".")[0])
        if own is None:
            continue
        if name not in settled:
            known = [(likeness(own, other), families[before]) for before, other in counted]
            near = [one for one in known if one[0] >= ALIKE]
            if near and families[name] not in {family for _, family in near}:
                families[name] = max(near)[1]
        counted.append((name, own))
    return families


def named(name: str, family: str) -> str:
    """A program's name in a dataset, whose first part is its family: there it may be another."""
    return name if name.split(".")[0] == family else f"{family}.{name}"


def settled_families(table: Path) -> dict[tuple[str, str], str]:
    """(source, program) -> family of the dataset that a ``programs.parquet`` describes."""
    if not table.exists():
        return {}
    rows = pl.read_parquet(table)
    program = "program" if "program" in rows.columns else "graph"
    source = pl.col("collection").str.split("-").list[1]
    return {
        (place, name): own for place, name, own in rows.select(source, program, "family").rows()
    }


def count_missing(root: Path) -> int:
    """Count the operations of programs whose row in ``programs.parquet`` lacks them.

    Returns:
        The number of programs that were compiled for it.

    Raises:
        UserError: no such table.
    """
    table = root / "programs.parquet"
    if not table.exists():
        raise UserError(f"{table} is missing: a dataset that lib.collect.xla.export wrote")
    rows = pl.read_parquet(table)
    if COLUMN not in rows.columns:
        rows = rows.with_columns(pl.lit(None, pl.String).alias(COLUMN))
    program = "program" if "program" in rows.columns else "graph"
    missing = sorted(set(rows.filter(pl.col(COLUMN).is_null())[program]))
    found = {
        name: json.dumps(operations(compiled(name)))
        for name in tqdm(missing, unit="program", disable=None)
    }
    filled = pl.col(program).replace_strict(found, default=pl.col(COLUMN), return_dtype=pl.String)
    with atomic_file(table) as temporary:
        write_parquet(rows.with_columns(filled.alias(COLUMN)), temporary)
    return len(missing)


def compiled(name: str) -> bytes:
    """The optimized module of a program of the zoo, left to XLA in all its layouts."""
    import jax

    from lib.collect.xla import instrument
    from lib.collect.xla.zoo import program_named

    function, arguments = program_named(name).build()
    traced = instrument.trace(function, arguments)
    lowered = jax.jit(traced.configured(None)).lower(*jax.tree.leaves(tuple(arguments)))
    return optimized(lowered.compile())


def optimized(executable: object) -> bytes:
    """The serialized module of what JAX compiled."""
    (module,) = executable.runtime_executable().hlo_modules()
    return module.as_serialized_hlo_module_proto()


def main() -> None:
    """Count, and say in one line of how many."""
    parser = Parser(prog="python -m lib.collect.xla.families", description=__doc__)
    parser.add_argument("root", type=Path, help="the dataset, such as data/xla-cpu")
    args = parser.parse_args()
    count = count_missing(args.root)
    print(f"families: operations of {count} programs counted in {args.root}/programs.parquet")


if __name__ == "__main__":
    with one_line_errors():
        main()
