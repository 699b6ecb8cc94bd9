"""Weights that come with the repository: programs are ranked, and schedules searched, before
anything was trained.

    python -m lib.scoring.weights --collection layout-xla-default

keeps those of the folds that stage 4 would blend in ``data/weights/``. Each file says what it
was made from: every setting, fingerprints of data and code, versions of packages, and how well the
fold ranks. Code may have changed since: weights that do not fit a network's shapes or settings any
more are refused, and a test compares how they rank bundled programs with how they did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lib import settings
from lib.files import tensor_file
from lib.files.artifacts import atomic_folder
from lib.files.errors import UserError, one_line_errors
from lib.scoring.trained import load_networks
from lib.settings import COLLECTIONS, Settings
from lib.settings.resolved import ROOT, Resolved
from lib.settings.tables import plain_model

BUNDLED = ROOT / "data" / "weights"


def weights_in(results: Path, own: Settings) -> Path:
    """The folder to take networks from: one's own results, or if there are none bundled ones.

    Args:
        results: of a collection and model.
        own: its settings. Bundled weights of other hardware are not taken.

    Raises:
        UserError: there is neither.
    """
    if any(results.glob("fold_*/*.safetensors")):
        return results
    hardware = getattr(own, "hardware", None)
    there = {
        path.parts[-3]: path.parents[1]
        for path in sorted(BUNDLED.glob("*/fold_*/*.safetensors"))
        if (metadata := tensor_file.read_metadata(path)).get("hardware") == hardware
        and COLLECTIONS.get(metadata.get("collection", "")) == own.kind
    }
    if results.name not in there:
        model = "" if type(own) is plain_model(own.collection) else f" MODEL={own.model}"
        how = f"make all COLLECTION={own.collection}{model} trains some"
        hint = f" (bundled weights are of {', '.join(there)} alone)" if there else ""
        raise UserError(f"{results}: nothing is trained there; {how}{hint}")
    return there[results.name]


def keep(results: Path, own: Settings, target: Path, also: Mapping[str, Any] = {}) -> list[int]:
    """Keep the weights of the folds that stage 4 would blend, in place of those there.

    Args:
        results: of a collection and model.
        own: its settings; ``best_folds`` says how many.
        target: in it, a folder of the results' name.
        also: further metadata of the files.

    Returns:
        the folds' numbers.

    Raises:
        UserError, DataError: as :func:`lib.scoring.trained.load_networks`.
    """
    overrides = {"model": own.model, "best_folds": own.best_folds}
    ensemble = load_networks(results, type(own), overrides)
    name = settings.WEIGHTS_FILES[ensemble.settings.weights]
    with atomic_folder(target / results.name) as folder:
        for fold in ensemble.networks:
            part = f"fold_{fold}"
            (folder / part).mkdir()
            tensors, metadata = tensor_file.load(results / part / name)
            tensor_file.save(folder / part / name, tensors, {**metadata, **also})
    return list(ensemble.networks)


def command(description: str, also: Callable[[Resolved, Path], Mapping[str, Any]]) -> None:
    """Keep the weights that the command line names.

    Args:
        description: of the command, for its help.
        also: (resolved settings, outputs) -> further metadata, see :func:`keep`.
    """
    parser = settings.parser(description)
    parser.add_argument("--to", type=Path, default=BUNDLED, help="where they are kept")
    args = parser.parse_args()
    resolved = settings.resolve(args)
    results = resolved.settings.results
    folds = keep(args.outputs / results, resolved.settings, args.to, also(resolved, args.outputs))
    numbers = ", ".join(map(str, folds))
    print(f"weights: {args.collection}: folds {numbers}; wrote {args.to / results}/")


def main() -> None:
    """Keep weights of layouts or tiles."""
    command(__doc__, lambda resolved, outputs: {})


if __name__ == "__main__":
    with one_line_errors():
        main()
