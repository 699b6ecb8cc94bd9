"""Collections, and every setting of them, once.

A setting has a default, and may have a value that suits some data better (``fits``). The settings
of a model are a dataclass in ``lib/models/<model>/settings.py``, and the command line's help as
well: every stage takes every setting as a flag of the same name.
"""

from lib.settings.base import WEIGHTS_FILES, Settings, described
from lib.settings.flags import parser
from lib.settings.resolved import Resolved, resolve, root_of
from lib.settings.tables import COLLECTIONS, MODELS, settings_class, settings_for
