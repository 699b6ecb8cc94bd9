"""The predictor that comes with the repository: networks, devices, and how far it is off.

    python -m lib.programs.latency.bundle --collection programs-cpu --epochs 72

keeps what is trained as :mod:`lib.scoring.weights` does, and adds the devices that it has
learned from, and the errors of networks that were held out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lib.cache.reader import Cache
from lib.files.errors import one_line_errors
from lib.programs.inputs import devices_of
from lib.programs.latency.error import calls_of, errors_of
from lib.scoring.weights import command
from lib.settings.resolved import Resolved


def metadata(resolved: Resolved, outputs: Path) -> dict[str, Any]:
    """Return what the files say of devices and errors."""
    settings = resolved.settings
    devices, calls = devices_of(Cache(outputs / settings.cache)), calls_of(resolved.root().path)
    path, names = outputs / settings.results / "predictions.csv", [d["name"] for d in devices]
    return {"devices": devices, "errors": {name: errors_of(path, name, calls) for name in names}}


if __name__ == "__main__":
    with one_line_errors():
        command(__doc__, metadata)
