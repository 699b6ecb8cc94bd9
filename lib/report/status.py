"""``make status``: what of a collection is built, what is stale and why, scores so far."""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Sequence
from pathlib import Path

from lib import settings
from lib.files.command_line import Parser
from lib.files.errors import DataError, UserError, one_line_errors
from lib.files.schema import expect
from lib.files.terminal import duration, paint, table
from lib.report.experiment import SECTIONS, STAGES, Experiment, read_experiment
from lib.report.stale import Now, Part, parts_of
from lib.report.statistics import mean
from lib.report.words import with_error
from lib.settings import Settings


def main() -> None:
    """Print the state of a collection."""
    parser = Parser(prog="python -m lib.report.status", description=__doc__)
    parser.add_argument("--outputs", type=Path, default=Path("outputs"), help="where results go")
    parser.add_argument("--stamps", type=Path, help="where make keeps its flags, in the outputs")
    for stage in STAGES:
        needed = stage != STAGES[0]
        help = "flags that make would give the stage"
        parser.add_argument(f"--{stage}", default="", required=needed, help=help)
    args = parser.parse_args()
    flags = {stage: getattr(args, stage) for stage in STAGES}
    now, folds = read_flags(args.outputs, args.stamps or args.outputs / ".make", flags)
    print(status(now, parts_of(now, folds)))


def read_flags(outputs: Path, stamps: Path, flags: dict[str, str]) -> tuple[Now, int]:
    """What the stages would use, and how many folds there are to be.

    Args:
        outputs, stamps: see :class:`lib.report.stale.Now`.
        flags: each stage's, as in a shell.

    Raises:
        UserError: for a flag or a value that the stages would refuse.
    """
    args = {stage: _parsed(flags[stage]) for stage in STAGES[1:]}
    last = args["ensemble"]
    try:
        root = settings.root_of(last.collection, last.data)
    except UserError:  # which is no reason not to look at the results
        settings.check_collection(last.collection)
        root = None
    dataset = root.dataset if root else settings.dataset_for(last.collection, last.data)
    chosen: dict[str, Settings] = {
        stage: settings.chosen_by(one, dataset) for stage, one in args.items()
    }
    return Now(outputs, stamps, flags, chosen, root, last.data), last.folds or chosen[
        "ensemble"
    ].folds_total


def _parsed(flags: str) -> argparse.Namespace:
    parser = settings.parser(__doc__)
    parser.add_argument("--folds", type=int)
    return parser.parse_args(shlex.split(flags))


def status(now: Now, parts: Sequence[Part]) -> str:
    """The state of a collection as text for a terminal.

    Args:
        now: what make would use.
        parts: what it would make, with why it would be made again.
    """
    folder = now.folder
    if not folder.is_dir():
        collection, _, model = folder.name.partition("@")
        named = f"COLLECTION={collection}" + (f" MODEL={model}" if model else "")
        return f"{folder}: nothing is built yet; make all {named} builds it"
    experiment = read_experiment(folder)
    title = paint(folder.name, "bold") + f"   {folder}/"
    if experiment.name():
        title += f"   experiment {experiment.name()}"
    blocks = [title, _stages(parts)]
    blocks += [block for block in (_under_way(parts), _scores(experiment)) if block]
    return "\n\n".join(blocks)


def _stages(parts: Sequence[Part]) -> str:
    lines = [paint(f"{'stage':<12}{'folds':>7}{'made':>18}   state", "bold")]
    for stage in STAGES:
        own = _of(parts, stage)
        built = [part for part in own if part.built]
        stale = [part for part in built if part.why]
        state, colour = _state(len(own), len(built), len(stale))
        when = max((part.time / 1e9 for part in built), default=0)
        made = f"{duration(max(0.0, time.time() - when))} ago" if built else "-"
        count = f"{len(built)} of {len(own)}" if own[0].fold is not None else ""
        lines.append(f"{stage:<12}{count:>7}{made:>18}   {paint(state, colour)}")
        reasons = dict.fromkeys(reason for part in stale for reason in part.why)
        lines += [f"{'':<12}{line}" for line in reasons]
    return "\n".join(lines)


def _state(wanted: int, built: int, stale: int) -> tuple[str, str]:
    if not built:
        return "not built", "dim"
    if stale:
        return "stale" if stale == wanted else f"stale: {stale} of {wanted}", "yellow"
    if built < wanted:
        return f"{wanted - built} of {wanted} not built", "yellow"
    return "up to date", "green"


def _under_way(parts: Sequence[Part]) -> str:
    """Folds whose training is running or was killed: how far they are."""
    lines = []
    for part in _of(parts, "train"):
        state = part.path.parent / "state.safetensors"
        if not state.exists():
            continue
        from lib.files import checkpoint  # late: torch takes seconds

        try:
            about = checkpoint.read_about(state)
            progress = expect(about, {"progress": {"epochs": int}}, state)["progress"]
        except DataError:
            continue
        ago = duration(max(0.0, time.time() - state.stat().st_mtime))
        lines.append(
            f"fold {part.fold}: {progress['epochs']} epochs trained, saved {ago} ago; "
            f"running, or it goes on from there"
        )
    return "\n".join(lines)


def _scores(experiment: Experiment) -> str:
    main, blocks = experiment.kind.main, []
    rows = []
    for fold, one in experiment.folds.items():
        last, best = one.get("last", {}), one.get("best", {})
        mark = "blended" if fold in experiment.blended else ""
        cells = [main.text(side.get(main.key)) for side in (last, best)]
        epoch = f"{best['epoch']:g} of {last.get('epoch', 0):g}" if best else "–"
        rows.append([f"fold {fold}", *cells, epoch, mark])
    if rows:
        head = [f"validation {main.name}", "last", "best", "best epoch", ""]
        blocks.append(table(rows, head))
    rows = []
    for section in SECTIONS:
        cells = []
        for key in (main.key, experiment.kind.baseline.key, experiment.kind.ceiling.key):
            values = list(experiment.values(section, key).values())
            cells.append(with_error(main, mean(values)) if values else "–")
        if experiment.metrics_of(section):
            rows.append([section, str(len(experiment.metrics_of(section))), *cells])
    if rows:
        kind = experiment.kind
        head = [f"{main.name} by stage 4", f"{kind.item}s", "network"]
        blocks.append(table(rows, [*head, kind.baseline.name, kind.ceiling.name]))
    return "\n\n".join(blocks)


def _of(parts: Sequence[Part], stage: str) -> list[Part]:
    return [part for part in parts if part.stage == stage]


if __name__ == "__main__":
    with one_line_errors():
        main()
