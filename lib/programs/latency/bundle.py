"""The predictor that comes with the repository: networks, devices, and how far it is off.

    python -m lib.programs.latency.bundle --collection programs-cpu --epochs 72

keeps what is trained as :mod:`lib.scoring.weights` does, and tells each file of the devices that
it has learned from, and of the errors of networks that were held out.
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


def about(resolved: Resolved, outputs: Path) -> dict[str, Any]:
    """What the files say of devices and errors."""
    chosen = resolved.settings
    devices, calls = devices_of(Cache(outputs / chosen.cache)), calls_of(resolved.root().path)
    path, names = outputs / chosen.results / "predictions.csv", [d["name"] for d in devices]
    return {"devices": devices, "errors": {name: errors_of(path, name, calls) for name in names}}


if __name__ == "__main__":
    with one_line_errors():
        command(__doc__, about)
