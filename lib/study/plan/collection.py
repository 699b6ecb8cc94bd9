"""How large the graphs of a collection are, by its raw files or by what official data have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lib.files.errors import DataError
from lib.ranking.folds import UNIT_OF, folds_of
from lib.settings import Settings
from lib.tpugraphs import archive
from lib.tpugraphs.protobuf import read_protobuf
from lib.tpugraphs.rankable import count_parts
from lib.tpugraphs.roots import SPLITS, DataRoot
from lib.tpugraphs.sizes import GraphSize, official_graphs


def graphs_of(settings: Settings, root: DataRoot | None) -> list[GraphSize]:
    """The size of each graph; of an npz only headers are read.

    Args:
        settings: of the collection.
        root: its raw data, or ``None`` for what official data have.

    Raises:
        DataError: a file cannot be believed.
    """
    if root is None:
        return official_graphs(settings.collection)
    return [
        size
        for split in SPLITS
        for path in root.files(settings.folder, split)
        for size in sizes_in(path, split)
    ]


def check_folds(settings: Settings, root: DataRoot) -> None:
    """Deal graphs to folds as stage 2 does, which raises a UserError if there are too few."""
    part = UNIT_OF[settings.keep_together]
    count = count_parts(root.path, settings.folder, part, settings.folds_total)
    folds_of(map(str, range(count)), settings)


def others_of(settings: Settings, root: DataRoot | None) -> list[GraphSize]:
    """The same of the other collections that are learned from as well."""
    others = (replace(settings, collection=name) for name in settings.others)
    return [size for one in others for size in graphs_of(one, root)]


def sizes_in(path: Path, split: str) -> list[GraphSize]:
    """The graphs of a raw file; of a protobuf, which has no headers, all of it is read."""
    if path.suffix != ".npz":
        found = read_protobuf(path)
        return [_size(split, one) for one in (found if isinstance(found, list) else [found])]
    with archive.open_members(path) as members:
        lengths = {
            key: archive.read_header(members[key]).shape[0]
            for key in ("node_feat", "node_config_ids", "config_runtime")
            if key in members and archive.read_header(members[key]).shape
        }
    missing = {"node_feat", "config_runtime"} - set(lengths)
    if missing:
        raise DataError(path, sorted(missing)[0], "nothing", "an array")
    configurable = lengths.get("node_config_ids", 0)
    return [GraphSize(split, lengths["node_feat"], configurable, lengths["config_runtime"])]


def _size(split: str, graph: object) -> GraphSize:
    ids = getattr(graph, "node_config_ids", ())
    return GraphSize(split, len(graph.node_opcode), len(ids), len(graph.config_runtime))
