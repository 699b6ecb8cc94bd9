"""``python -m lib.collect.xla.count FILE.json``: count the operations of programs.

For datasets that were measured before a measurement counted them: no configuration is compiled and
nothing is timed. A file that is there is gone on with. :mod:`lib.collect.xla.export` reads it.
"""

from __future__ import annotations

import os
from pathlib import Path

from tqdm import tqdm

from lib.collect.xla.__main__ import ENVIRONMENT, chosen_programs
from lib.collect.xla.operations import operations, read_counted
from lib.collect.xla.zoo import ZooProgram
from lib.files.artifacts import write_json
from lib.files.command_line import Parser
from lib.files.errors import one_line_errors


def operations_of(program: ZooProgram) -> dict[str, int]:
    """What XLA makes of a program, with every layout left to it, counted."""
    import jax  # late: it reads the environment

    from lib.collect.xla import instrument

    function, arguments = program.build()
    traced = instrument.trace(function, arguments)
    lowered = jax.jit(traced.configured(None)).lower(*jax.tree.leaves(tuple(arguments)))
    counted = operations(lowered.compile().as_text())
    jax.clear_caches()
    return counted


def main() -> None:
    """Count the chosen programs that the file lacks."""
    parser = Parser(prog="python -m lib.collect.xla.count", description=__doc__)
    parser.add_argument("file", type=Path, help="a JSON file, program by program; is added to")
    parser.add_argument("--programs", default="*", help="comma-separated names or patterns")
    args = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    counted = read_counted(args.file) if args.file.exists() else {}
    missing = [program for program in chosen_programs(args.programs) if program.name not in counted]
    for program in tqdm(missing, unit="program", disable=None):
        counted[program.name] = operations_of(program)
        write_json(args.file, counted)
    print(f"count: operations of {len(counted)} programs in {args.file}")


if __name__ == "__main__":
    with one_line_errors():
        main()
