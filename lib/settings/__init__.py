"""What a collection is, and every hyper-parameter of it, once.

A setting has a default, and may have a value that suits some data better (``fits``). Every stage
takes every setting as a flag of the same name, so that the dataclass of the model is also the
command line's help.
"""

from lib.settings.base import WEIGHTS_FILES, Settings, described
from lib.settings.flags import parser
from lib.settings.models import (
    LayoutCollection,
    LayoutSettings,
    PlusSettings,
    TileCollection,
    TileSettings,
)
from lib.settings.resolved import COMMAND_LINE, Resolved, resolve, root_of
from lib.settings.tables import COLLECTIONS, MODELS, settings_class, settings_for
