"""The report's tables, as rows of text and bars for its template."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from lib.files.terminal import duration, readable
from lib.report.experiment import Experiment
from lib.report.figures import bar, ranked
from lib.report.statistics import mean, with_error
from lib.runs.code import SCRIPTS, STAGES


@dataclass(frozen=True)
class Table:
    """A head and rows; a cell is text, or a bar, which is ``Markup``."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    sortable: bool = False


def numbers(experiment: Experiment) -> Table:
    """Return every metric's mean over the graphs of each section, with its standard error."""
    sections = [s for s in ("test", "validation", "training") if experiment.metrics_of(s)]
    kind = experiment.kind
    head = ["", *(f"{s} ({len(experiment.metrics_of(s)):,} {kind.item}s)" for s in sections)]
    rows = []
    for metric in kind.described:
        name = f"{metric.name}’s {kind.main.name}" if metric is kind.baseline else metric.name
        means = [experiment.mean(s, metric.key) for s in sections]
        if any(m.count for m in means):
            rows.append([name, *(with_error(metric, m) if m.count else "–" for m in means)])
    return Table(head, rows)


def graphs(experiment: Experiment, most: int = 1000) -> Table:
    """Return a row for each graph that was not learned from, best first, ``most`` of a section."""
    kind, rows = experiment.kind, []
    shown = kind.described
    for section in ("test", "validation"):
        metrics = experiment.metrics_of(section)
        for name in ranked(metrics, kind.main)[:most]:
            row = metrics[name]
            rows.append([name, section, *(m.text(row.get(m.key)) for m in shown)])
    head = [kind.item, "split", *(metric.name for metric in shown)]
    return Table(head, rows, sortable=True)


def times(experiment: Experiment) -> Table:
    """Return the wall-clock time of each stage: a run, all runs together, and peak memory."""
    runs = {stage: experiment.runs_of(stage) for stage in STAGES}
    spent = {
        stage: [run["seconds"] + run.get("earlier_seconds", 0.0) for run in of_stage]
        for stage, of_stage in runs.items()
        if of_stage
    }
    longest = max(map(sum, spent.values()), default=1.0)
    rows = []
    for stage, seconds in spent.items():
        wall, total = mean(seconds), sum(seconds)
        text = duration(wall.value) + (f" ± {duration(wall.error)}" if wall.count > 1 else "")
        memory = readable(max(run["peak_memory_bytes"] for run in runs[stage]))
        picture = bar(total / longest, f"{stage} {duration(total)}")
        rows.append([stage, str(wall.count), text, duration(total), memory, picture])
    return Table(["stage", "runs", "each (wall)", "together", "peak memory", ""], rows)


def folds(experiment: Experiment) -> Table | None:
    """Return a row for each fold: how it ended, its best epoch, and whether it was blended."""
    main, rows = experiment.kind.main, []
    for fold, metrics in experiment.folds.items():
        used, best = metrics["validation"], metrics.get("best", {})
        texts = [str(fold), main.text(used.get(main.key)), main.text(best.get(main.key))]
        texts.append(f"{best['epoch']:g}" if best else "–")
        rows.append([*texts, "yes" if fold in experiment.blended else "no"])
    head = ["fold", main.name, f"best {main.name}", "best epoch", "blended"]
    return Table(head, rows) if rows else None


def facts(experiment: Experiment) -> Table:
    """Return what results came from: data, experiment, commands, commit, versions, machines."""
    rows = [["experiment", experiment.name()]] if experiment.name() else []
    rows.append(["data (SHA-256)", experiment.data or "–"])
    rows += [
        [stage, shlex.join([SCRIPTS[stage], *run["command"]])]
        for stage in STAGES
        for run in experiment.runs_of(stage)[:1]  # of a fold, or all
        if "command" in run
    ]
    records = experiment.stages.values()
    commits = sorted({run["commit"] for run in records if run.get("commit")})
    rows += [["commit", ", ".join(commits)]] if commits else []
    rows += [[name, str(value)] for name, value in experiment.metadata.get("versions", {}).items()]
    machines = [run["machine"] for run in records if run.get("machine")]
    names = [f"{m['processor']}, {m['system']}, cores used: {m['cores']}" for m in machines]
    rows += [["machine", name] for name in dict.fromkeys(names)]
    return Table(["", ""], rows)


def settings(experiment: Experiment) -> Table:
    """Return all settings."""
    values = {k: str(v) for k, v in experiment.settings().items() if k != "versions"}
    return Table(["setting", "value"], [[key, value] for key, value in values.items()])
