"""``.venv-collect/bin/python -m lib.collect.xla.text IN.txt OUT.pb``: HLO text to a protobuf.

For dumps of which nothing but the text is left, such as ``*.before_optimizations.txt``. JAX parses
them, so that this runs in the environment of ``make collect``. Nodes and their features are those
of the protobuf that XLA would have dumped.
"""

from __future__ import annotations

from pathlib import Path

from lib.files.artifacts import atomic_file
from lib.files.command_line import Parser
from lib.files.errors import DataError, UserError, one_line_errors
from lib.files.regular import read_regular

MAX_BYTES = 2**31 - 1  # of the text
ABSENT = "JAX is needed: `make .venv-collect/.ready` makes the environment of make collect"


def serialized(path: Path) -> bytes:
    """Return the HloModuleProto of a file of HLO text.

    Raises:
        DataError: it is none.
        UserError: there is no JAX.
    """
    try:
        from jaxlib import _hlo
    except ImportError:
        raise UserError(ABSENT) from None
    try:
        text = read_regular(path, MAX_BYTES).decode()
        return _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    except (ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(
            path, "HLO text", reason, "what XLA dumps, such as HloModule f ..."
        ) from None


def main(arguments: list[str] | None = None) -> None:
    """Convert one file."""
    parser = Parser(prog="python -m lib.collect.xla.text", description=__doc__)
    parser.add_argument("source", metavar="IN.txt", type=Path, help="HLO text")
    parser.add_argument("target", metavar="OUT.pb", type=Path, help="the protobuf to write")
    args = parser.parse_args(arguments)
    module = serialized(args.source)
    with atomic_file(args.target) as temporary:
        temporary.write_bytes(module)
    print(f"text: wrote {args.target}: an HloModuleProto of {len(module):,} bytes")


if __name__ == "__main__":
    with one_line_errors():
        main()
