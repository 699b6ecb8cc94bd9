"""What a collection is, and every hyper-parameter of it, once.

A setting has a value for official data (the paper's) and, where small data wants another, one
for the bundled measurements. Every stage takes every setting as a flag of the same name, so that
the dataclass of the model is also the command line's help.
"""

from lib.settings.base import BLENDINGS, WEIGHTS_FILES, Settings, described
from lib.settings.file import read_settings, write_settings
from lib.settings.flags import parser
from lib.settings.models import (
    EVERY,
    NONE,
    WHOLE,
    LayoutCollection,
    LayoutSettings,
    PlusSettings,
    TileCollection,
    TileSettings,
)
from lib.settings.resolved import (
    BUNDLED,
    BUNDLED_TPU,
    DOWNLOADED,
    PROGRAMS,
    ROOT,
    ROOTS,
    Resolved,
    dataset_for,
    resolve,
    root_of,
)
from lib.settings.search import Search
from lib.settings.space import space_of
from lib.settings.tables import (
    COLLECTIONS,
    COMMAND_LINE,
    LAYOUT_COLLECTIONS,
    MODELS,
    OFFICIAL,
    SMALL,
    cache_of,
    check_collection,
    check_trained_with,
    settings_class,
    settings_for,
)

__all__ = [
    "BLENDINGS",
    "BUNDLED",
    "BUNDLED_TPU",
    "COLLECTIONS",
    "COMMAND_LINE",
    "DOWNLOADED",
    "EVERY",
    "LAYOUT_COLLECTIONS",
    "MODELS",
    "NONE",
    "OFFICIAL",
    "PROGRAMS",
    "ROOT",
    "ROOTS",
    "SMALL",
    "WEIGHTS_FILES",
    "WHOLE",
    "LayoutCollection",
    "LayoutSettings",
    "PlusSettings",
    "Resolved",
    "Search",
    "Settings",
    "TileCollection",
    "TileSettings",
    "cache_of",
    "check_collection",
    "check_trained_with",
    "dataset_for",
    "described",
    "parser",
    "read_settings",
    "resolve",
    "root_of",
    "settings_class",
    "settings_for",
    "space_of",
    "write_settings",
]
