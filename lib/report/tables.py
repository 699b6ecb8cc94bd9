"""The report's tables, as rows of text and pictures for its template."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_high

from lib.files.terminal import duration, readable
from lib.ranking.folds import family
from lib.report.experiment import Experiment
from lib.report.figures import bar, ranked
from lib.report.statistics import mean
from lib.report.words import with_error
from lib.runs.code import SCRIPTS, STAGES

SIZES = (  # of a graph before stage 1 and after it: what, columns of the cache's table
    ("nodes", "source_nodes", "nodes"),
    ("edges", "source_edges", "edges"),
    ("configurations", "source_configurations", "configurations"),
)
NOISY = 0.6  # a ceiling below this: labels hardly say which configuration is fast
WORST_FAMILIES = 5
MOST_FAMILIES = 20  # that are named of a fold


@dataclass(frozen=True)
class Table:
    """A head and rows; a cell is text, unless it is a picture, which is ``Markup``."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    sortable: bool = False


def numbers(experiment: Experiment) -> Table:
    """Every metric's mean over the graphs of each section, with its standard error."""
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
    """A row a graph of every section but training, best first, ``most`` of a section."""
    kind, rows = experiment.kind, []
    shown = [metric for metric in kind.described if not metric.share]
    for section in ("test", "validation"):
        metrics = experiment.metrics_of(section)
        for name in ranked(metrics, kind.main)[:most]:
            row = metrics[name]
            mark = " (noisy labels)" if _is_noisy(experiment, row) else ""
            texts = [m.text(row.get(m.key)) + mark * (m is kind.ceiling) for m in shown]
            rows.append([name, section, *texts])
    head = [kind.item, "split", *(metric.name for metric in shown)]
    return Table(head, rows, sortable=True)


def groups(experiment: Experiment) -> Table | None:
    """A row for graphs that have something in common, of the section that counts most: means of
    the network, the baseline and the ceiling; ``None`` if nothing tells graphs apart."""
    kind, section = experiment.kind, experiment.headline
    shown = [
        m for m in (kind.main, kind.baseline, kind.ceiling) if experiment.mean(section, m.key).count
    ]
    values = [experiment.values(section, metric.key) for metric in shown]
    rows = []
    for title, names in _in_common(experiment).items() if kind.ordered and shown else ():
        if 0 < len(names) < len(values[0]):
            means = (mean([of[name] for name in names if name in of]) for of in values)
            texts = (with_error(*pair) for pair in zip(shown, means, strict=True))
            rows.append([title, f"{len(names):,}", *texts])
    head = ["", f"{kind.item}s", *(metric.name for metric in shown)]
    return Table(head, rows) if rows else None


def _in_common(experiment: Experiment) -> dict[str, list[str]]:
    """Which graphs are training steps or forward passes, large or small, have noisy labels, and
    are of the families that are ranked worst, among those of several graphs."""
    metrics, main = experiment.metrics_of(experiment.headline), experiment.kind.main
    table, columns = experiment.graphs, ("graph", "source_nodes")
    known = dict(table.select(columns).iter_rows()) if {*columns} <= {*table.columns} else {}
    sizes = {name: known[name] for name in metrics if name in known}
    middle = median_high(sizes.values() or [0])
    words = {name: re.split("[._]", name) for name in metrics}
    families: dict[str, list[str]] = {}
    for name in metrics:
        families.setdefault(f"family {family(name)}", []).append(name)
    several = [own for own in families.items() if len(own[1]) > 1]
    several.sort(key=lambda own: mean([metrics[name][main.key] for name in own[1]]).value)
    return {
        "training steps": [name for name in metrics if "train" in words[name]],
        "forward passes": [name for name in metrics if "forward" in words[name]],
        f"{middle:,.0f} nodes or more": [n for n in sizes if sizes[n] >= middle],
        f"under {middle:,.0f} nodes": [n for n in sizes if sizes[n] < middle],
        "noisy labels": [name for name in metrics if _is_noisy(experiment, metrics[name])],
        **dict(several[:WORST_FAMILIES]),
    }


def _is_noisy(experiment: Experiment, row: Mapping[str, float]) -> bool:
    kind = experiment.kind
    return kind.ordered and row.get(kind.ceiling.key, 1.0) < NOISY


def picks(experiment: Experiment, most: int) -> Table | None:
    """What the layouts of each test graph's pick cost and gain, of ``most`` graphs whose pick is
    not the compiler's own; ``None`` if there is none."""
    rows = []
    for graph, parts in list(experiment.metrics.get("picks", {}).items())[:most]:
        for part in parts:
            share = f"{part['share']:+.0%}".replace("-", "−")
            rows.append([graph, part["where"], part["what"], share])
    return Table([experiment.kind.item, "operation", "is", "share"], rows) if rows else None


def savings(experiment: Experiment) -> Table | None:
    """What stage 1 left out: sizes before and after; ``None`` without a cache."""
    frame = experiment.graphs
    if frame.is_empty():
        return None
    rows = []
    for name, before, after in SIZES:
        if before in frame.columns and after in frame.columns:
            if name == "configurations" and not experiment.kind.ordered:
                name = "latencies"
            rows.append(_saving(name, int(frame[before].sum()), int(frame[after].sum())))
    if "source_bytes" in frame.columns:
        files = experiment.cache.iterdir()
        now = sum(path.stat().st_size for path in files)
        rows.append(_saving("bytes", int(frame["source_bytes"].sum()), now, readable))
    return Table(["", "before", "after", "ratio", "kept"], rows)


def times(experiment: Experiment) -> Table:
    """Wall-clock time of each stage: its runs together, one run, and peak memory."""
    of_stages = {}
    for stage in STAGES:
        runs = [run for run in experiment.stages.values() if run.get("stage") == stage]
        seconds = [run["seconds"] + run.get("earlier_seconds", 0.0) for run in runs]
        memory = max((run["peak_memory_bytes"] for run in runs), default=0)
        if seconds:
            of_stages[stage] = (seconds, memory)
    longest = max((sum(seconds) for seconds, _ in of_stages.values()), default=1.0)
    rows = []
    for stage, (seconds, memory) in of_stages.items():
        wall = mean(seconds)
        text = duration(wall.value) + (f" ± {duration(wall.error)}" if wall.count > 1 else "")
        total = sum(seconds)
        picture = bar(total / longest, f"{stage} {duration(total)}")
        texts = [stage, str(wall.count), text, duration(total), readable(memory) if memory else "–"]
        rows.append([*texts, picture])
    return Table(["stage", "runs", "each (wall)", "together", "peak memory", ""], rows)


def folds(experiment: Experiment) -> Table | None:
    """A row a fold: how it ended, its best epoch, whether it was blended, what was held out."""
    main, blended, rows = experiment.kind.main, experiment.blended, []
    for fold, metrics in experiment.folds.items():
        used, best = metrics["validation"], metrics.get("best", {})
        held = used.get("graphs", {})
        families = sorted({family(name) for name in held})
        many = len(families) > MOST_FAMILIES
        named = f"{len(families)} families" if many else ", ".join(families)
        texts = [str(fold), main.text(used.get(main.key)), main.text(best.get(main.key))]
        texts.append(f"{best['epoch']:g}" if best else "–")
        texts.append("yes" if fold in blended else "no")
        rows.append([*texts, f"{len(held)} of {named}" if held else "–"])
    head = ["fold", main.name, f"best {main.name}", "best epoch", "blended"]
    return Table([*head, f"held out: {experiment.kind.item}s, families"], rows) if rows else None


def facts(experiment: Experiment) -> Table:
    """Data fingerprint, experiment, commands, commit, versions, machine: what results came from."""
    about = experiment.about
    rows = [["data (SHA-256)", experiment.data or "–"]]
    if experiment.name():
        rows.insert(0, ["experiment", experiment.name()])
    rows += [
        [f"training run, fold {fold}", metrics["identity"][:12]]
        for fold, metrics in experiment.folds.items()
        if "identity" in metrics
    ]
    for stage in STAGES:
        runs = [run for run in experiment.stages.values() if run.get("stage") == stage]
        for run in runs[:1]:  # of a fold, or all
            if "command" in run:
                rows.append([stage, shlex.join([SCRIPTS[stage], *run["command"]])])
    commits = sorted({run["commit"] for run in experiment.stages.values() if run.get("commit")})
    rows += [["commit", ", ".join(commits)]] if commits else []
    rows += [[name, str(value)] for name, value in about.get("versions", {}).items()]
    rows += [["machine", machine] for machine in _machines(experiment)]
    return Table(["", ""], rows)


def changed(experiment: Experiment) -> Table | None:
    """The settings that are no defaults of the model, and where their values come from; ``None``
    where no stage has recorded them."""
    parts = [record["origins"] for record in experiment.stages.values() if "origins" in record]
    origins = {name: why for part in parts for name, why in part.items()}
    rows = [[k, str(v), origins[k]] for k, v in experiment.settings().items() if k in origins]
    return Table(["setting", "value", "from"], rows) if rows else None


def settings(experiment: Experiment) -> Table:
    """Each setting's value in the stage that reads it."""
    values = {k: v for k, v in experiment.settings().items() if k != "versions"}
    return Table(["setting", "value"], [[key, str(value)] for key, value in values.items()])


def _saving(
    name: str, before: int, after: int, text: Callable[[int], str] = "{:,}".format
) -> list[str]:
    share = after / max(1, before)
    return [
        name,
        text(before),
        text(after),
        f"{before / max(1, after):.1f}×",
        bar(share, f"{share:.0%} kept"),
    ]


def _machines(experiment: Experiment) -> list[str]:
    """What the stages ran on; of one machine, the most cores that a stage might use."""
    cores: dict[str, int] = {}
    for record in experiment.stages.values():
        about = record.get("machine")
        if about:
            name = f"{about['processor']}, {about['system']}"
            cores[name] = max(cores.get(name, 0), about["cores"])
    return [f"{name}, cores used: {count}" for name, count in cores.items()]
