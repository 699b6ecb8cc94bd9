"""The predictor that comes with the repository: networks, devices, and how far it is off.

    python -m lib.programs.latency.bundle --collection programs-cpu --best-folds 3

keeps what is trained as :mod:`lib.scoring.weights` does, and tells each file of the devices that
it has learned from, and of the errors of networks that were held out.
"""

from __future__ import annotations

from pathlib import Path

from lib import settings
from lib.cache.reader import Cache
from lib.files.errors import one_line_errors
from lib.programs.inputs import devices_of
from lib.programs.latency.error import calls_of, errors_of
from lib.scoring.weights import BUNDLED, keep


def main() -> None:
    """Keep the predictor that the command line names."""
    parser = settings.parser(__doc__)
    parser.add_argument("--to", type=Path, default=BUNDLED, help="where it is kept")
    args = parser.parse_args()
    resolved = settings.resolve(args)
    chosen, results = resolved.settings, args.outputs / resolved.settings.results
    devices, calls = devices_of(Cache(args.outputs / chosen.cache)), calls_of(resolved.root().path)
    names = (device["name"] for device in devices)
    errors = {name: errors_of(results / "predictions.csv", name, calls) for name in names}
    folds = keep(results, chosen, args.to, {"devices": devices, "errors": errors})
    numbers = ", ".join(map(str, folds))
    print(f"weights: {args.collection}: folds {numbers}; wrote {args.to / chosen.results}/")


if __name__ == "__main__":
    with one_line_errors():
        main()
