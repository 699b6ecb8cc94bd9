"""``make status``: what of a collection is built, what is stale and why, scores so far."""

from __future__ import annotations

import time
from collections.abc import Sequence

from lib.files.errors import DataError, one_line_errors
from lib.files.schema import expect
from lib.files.terminal import counted, duration, paint, table
from lib.ranking.metrics import Metric
from lib.report.experiment import SECTIONS, Experiment, read_experiment
from lib.report.stale import Part, stale_parts
from lib.report.words import with_error
from lib.runs.code import STAGES
from lib.runs.identity import Run
from lib.runs.make import all_flags, run_of


def main() -> None:
    """Print the state of a collection."""
    making = run_of(all_flags(__doc__).parse_args())
    print(status(making, stale_parts(making)))


def status(making: Run, parts: Sequence[Part]) -> str:
    """The state of a collection as text for a terminal.

    Args:
        making: what make would make results from.
        parts: what it would make, with why it would be made again.
    """
    folder = making.folder
    if not folder.is_dir():
        variables = {"COLLECTION": "collection", "MODEL": "model", "EXPERIMENT": "experiment"}
        values = {name: getattr(making.settings, setting) for name, setting in variables.items()}
        named = " ".join(f"{name}={value}" for name, value in values.items() if value)
        return f"{folder}: nothing is built yet; make all {named} builds it"
    experiment = read_experiment(folder, every=True)
    title = paint(folder.name, "bold") + f"   {folder}/"
    if experiment.name():
        title += f"   experiment {experiment.name()}"
    blocks = [title, _stages(parts)]
    blocks += [block for block in (_under_way(parts), _scores(experiment)) if block]
    return "\n\n".join(blocks)


def _stages(parts: Sequence[Part]) -> str:
    lines = [paint(f"{'stage':<12}{'folds':>7}{'made':>18}   state", "bold")]
    for stage in STAGES:
        of_stage = _of(parts, stage)
        built = [part for part in of_stage if part.built]
        stale = [part for part in built if part.why]
        state, colour = _state(len(of_stage), len(built), len(stale))
        when = max((part.time / 1e9 for part in built), default=0)
        age = f"{duration(max(0.0, time.time() - when))} ago" if built else "-"
        count = f"{len(built)} of {len(of_stage)}" if of_stage[0].fold is not None else ""
        lines.append(f"{stage:<12}{count:>7}{age:>18}   {paint(state, colour)}")
        reasons = dict.fromkeys(reason for part in stale for reason in part.why)
        lines += [f"{'':<12}{line}" for line in reasons]
    return "\n".join(lines)


def _state(total: int, built: int, stale: int) -> tuple[str, str]:
    if not built:
        return "not built", "dim"
    if stale:
        return "stale" if stale == total else f"stale: {stale} of {total}", "yellow"
    if built < total:
        return f"{total - built} of {total} not built", "yellow"
    return "up to date", "green"


def _under_way(parts: Sequence[Part]) -> str:
    """Folds whose training is running or was killed: how far they are."""
    lines = []
    for part in _of(parts, "train"):
        state = part.files[0].parent / "state.safetensors"
        if not state.exists():
            continue
        from lib.files import tensor_file  # late: torch takes seconds

        try:
            about = tensor_file.read_about(state)
            progress = expect(about, {"progress": {"epochs": int}}, state)["progress"]
        except DataError:
            continue
        ago = duration(max(0.0, time.time() - state.stat().st_mtime))
        lines.append(
            f"fold {part.fold}: {counted(progress['epochs'], 'epoch')} trained, saved {ago} ago; "
            f"running, or it goes on from there"
        )
    return "\n".join(lines)


def _scores(experiment: Experiment) -> str:
    kind, blocks = experiment.kind, []
    main = kind.main
    rows = []
    for fold, metrics in experiment.folds.items():
        last, best = metrics.get("last", {}), metrics.get("best", {})
        mark = "blended" if fold in experiment.blended else ""
        texts = [main.text(side.get(main.key)) for side in (last, best)]
        epoch = f"{best['epoch']:g} of {last.get('epoch', 0):g}" if best else "–"
        rows.append([f"fold {fold}", *texts, epoch, mark])
    if rows:
        head = [f"validation {main.name}", "last", "best", "best epoch", ""]
        blocks.append(table(rows, head))
    names = ["network", kind.baseline.name, kind.ceiling.name]
    blocks.append(_means(experiment, main.name, (main, kind.baseline, kind.ceiling), names))
    if any(experiment.values(section, gain.key) for section in SECTIONS for gain in kind.gains):
        names = [gain.name for gain in kind.gains]
        blocks.append(_means(experiment, "gain over the compiler", kind.gains, names))
    return "\n\n".join(block for block in blocks if block)


def _means(
    experiment: Experiment, title: str, shown: Sequence[Metric], names: Sequence[str]
) -> str:
    """Means over the graphs of each section that stage 4 measured; empty if there is none."""
    rows = []
    for section in filter(experiment.metrics_of, SECTIONS):
        texts = []
        for metric in shown:
            average = experiment.mean(section, metric.key)
            texts.append(with_error(metric, average) if average.count else "–")
        rows.append([section, str(len(experiment.metrics_of(section))), *texts])
    head = [f"{title} by stage 4", f"{experiment.kind.item}s", *names]
    return table(rows, head) if rows else ""


def _of(parts: Sequence[Part], stage: str) -> list[Part]:
    return [part for part in parts if part.stage == stage]


if __name__ == "__main__":
    with one_line_errors():
        main()
