"""``python -m lib.tpugraphs.convert IN.pb OUT_DIR``: from protobuf to the official npz form.

One file is written per graph or kernel, named by its module. Everything is read and encoded
before the first file is written, and the files appear together once all are complete.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from lib.files.artifacts import atomic_file
from lib.files.command_line import Parser
from lib.files.errors import UserError, one_line_errors
from lib.tpugraphs.encoding import PADDINGS
from lib.tpugraphs.messages import MESSAGE_KINDS, detect_kind
from lib.tpugraphs.npz import LayoutGraph, TileKernel, write_layout, write_tile
from lib.tpugraphs.protobuf import read_protobuf

MAX_NAME = 150  # characters; leaves room for suffixes and for the names of temporary files


def safe_stems(names: Sequence[str]) -> list[str]:
    """File stems for module names: only ``[A-Za-z0-9_.-]``, none hidden, all different.

    Other characters become ``_``. The second graph of a name gets ``-2`` behind it, and so on, in
    the order given. Stems that differ in case only are told apart too, for file systems that do
    not.
    """
    stems: list[str] = []
    taken: set[str] = set()
    for name in names:
        base = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:MAX_NAME]
        if not base or base[0] in ".-":
            base = f"_{base}"
        stem, count = base, 1
        while stem.lower() in taken:
            count += 1
            stem = f"{base}-{count}"
        taken.add(stem.lower())
        stems.append(stem)
    return stems


def convert(source: Path | str, folder: Path | str, pad: int = -1, kind: str = "auto") -> str:
    """Write the graphs of a protobuf file as ``folder/<module name>.npz``.

    Files of the same name are replaced. A raw HLO module becomes a layout file with no
    configurations (c = 0), its configurable nodes listed.

    Args:
        source: the protobuf file.
        folder: where to write; made if absent.
        pad: fill of the "leading only" node features, 0 or -1.
        kind: one of ``lib.tpugraphs.messages.MESSAGE_KINDS`` or ``auto``.

    Returns:
        One line that says what was written.

    Raises:
        UserError: the source cannot be believed, or the folder cannot be written; no file is
            left half-written.
    """
    kind = detect_kind(source) if kind == "auto" else kind
    read = read_protobuf(source, kind, pad)
    graphs = read if isinstance(read, list) else [read]
    stems = safe_stems([graph.name for graph in graphs])
    paths = [Path(folder) / f"{stem}.npz" for stem in stems]
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with ExitStack() as complete:
            for path, graph in zip(paths, graphs, strict=True):
                _write(complete.enter_context(atomic_file(path)), graph)
    except OSError as error:
        raise UserError(f"{error.filename or folder}: {error.strerror}") from None
    return _summary(kind, graphs, paths, folder)


def _write(path: Path, graph: LayoutGraph | TileKernel) -> None:
    if isinstance(graph, LayoutGraph):
        write_layout(path, graph)
    else:
        write_tile(path, graph)


def _summary(
    kind: str,
    graphs: Sequence[LayoutGraph | TileKernel],
    paths: Sequence[Path],
    folder: Path | str,
) -> str:
    nodes = sum(len(graph.node_opcode) for graph in graphs)
    runs = sum(len(graph.config_runtime) for graph in graphs)
    what = paths[0] if len(paths) == 1 else f"{len(paths)} files in {folder}"
    return f"wrote {what}: {kind}, {nodes} nodes, {runs} configurations"


@one_line_errors()
def main(argv: Sequence[str] | None = None) -> None:
    """The command line; errors are one line on standard error and exit code 2."""
    parser = Parser(prog="python -m lib.tpugraphs.convert", description=__doc__)
    parser.add_argument("source", metavar="IN.pb", type=Path, help="the protobuf file")
    parser.add_argument("folder", metavar="OUT_DIR", type=Path, help="where to write npz files")
    parser.add_argument(
        "--pad", type=int, choices=PADDINGS, default=-1, help="fill of absent list elements"
    )
    parser.add_argument(
        "--kind",
        choices=("auto", *MESSAGE_KINDS),
        default="auto",
        help="of message; auto: by content",
    )
    arguments = parser.parse_args(argv)
    print(convert(arguments.source, arguments.folder, arguments.pad, arguments.kind))


if __name__ == "__main__":
    main()
