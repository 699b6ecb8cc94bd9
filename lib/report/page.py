"""``report.html``: one file that needs nothing else, for a phone, a dark room and paper."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import polars as pl
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from lib.files.artifacts import atomic_file
from lib.files.named import named
from lib.files.results import SPLIT_OF
from lib.files.scores import read_score_rows
from lib.ranking.blending import KEYS, blend_frames
from lib.ranking.metrics import GLUE
from lib.ranking.truth import ALIKE, column_by_graph
from lib.report import figures, tables
from lib.report.experiment import Experiment, read_experiment
from lib.report.statistics import Paired, in_words, paired, with_error
from lib.systems import SYSTEMS

HERE = Path(__file__).resolve().parent
MOST_GRAPHS = 60  # of a section in its figure; the table has them all
SECTION_WORDS = {"test": "new programs", "validation": "unseen programs", "training": "known ones"}
# What a browser may do with the page: its own style and its own script, known by their hashes, and
# the empty icon that keeps it from asking for one. If a name should ever get into the page as
# something other than text, it can neither run nor load anything.
POLICY = (
    "default-src 'none'; style-src '{style}'; script-src '{script}'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)


def write_report(folder: Path, measurements: pl.DataFrame | None = None) -> Path:
    """Write ``report.html`` of the results in a folder; returns the file.

    Args:
        folder: the collection's, ``<outputs>/<collection>``.
        measurements: see :func:`write_page`.
    """
    path = folder / "report.html"
    write_page(path, read_experiment(folder), measurements)
    return path


def write_page(
    path: Path,
    experiment: Experiment,
    measurements: pl.DataFrame | None = None,
    running: dict[str, Any] | None = None,
) -> None:
    """Write the report of an experiment that was read.

    Args:
        path: the page.
        experiment: whose numbers it shows.
        measurements: runtimes that are not in the scores: those of the test split.
        running: the record so far of the stage that writes the report, whose own record on disk
            is still that of its last run.
    """
    if running:
        experiment.stages[running["stage"]] = running
    with atomic_file(path) as temporary:
        # Half a surrogate pair, from a name that is not UTF-8, has no way to be written.
        temporary.write_text(render(experiment, measurements), "utf-8", errors="replace")


def render(experiment: Experiment, measurements: pl.DataFrame | None = None) -> str:
    """Return the page's text; all that it shows is escaped unless it is markup."""
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    files = {name: (HERE / f"page.{end}").read_text("utf-8") for name, end in OWN.items()}
    hashes = {
        name: "sha256-" + b64encode(sha256(text.encode()).digest()).decode()
        for name, text in files.items()
    }
    return environment.get_template("page.html").render(
        **{name: Markup(text) for name, text in files.items()},  # noqa: S704
        policy=POLICY.format(**hashes),
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        **_content(experiment, measurements),
    )


OWN = {"style": "css", "script": "js"}  # files of this package that go into the page as they are


def _content(experiment: Experiment, measurements: pl.DataFrame | None) -> dict[str, Any]:
    kind, section = experiment.kind, experiment.headline
    shown = [s for s in ("test", "validation") if experiment.metrics_of(s)]
    place = SYSTEMS[kind.name].report  # of what such collections alone have
    columns = (  # of a history, what each is called, whether a logarithm suits it
        ("loss", "training loss", False),
        (f"validation_{kind.main.key}", f"validation {kind.main.name}", False),
        ("gradient_norm", "gradient norm", True),
        ("learning_rate", "learning rate", False),
    )
    curves = [figures.learning_curve(experiment.histories, *column) for column in columns]
    changed, settings = tables.settings(experiment)
    return {
        "experiment": experiment,
        "kind": kind,
        "section": section,
        "verdict": verdict(experiment),
        "improvements": [improvement(experiment, s) for s in shown],
        "tiles": [
            (look, metric, average)
            for look, metric in (
                ("model", kind.main),
                ("baseline", kind.baseline),
                ("ceiling", kind.ceiling),
            )
            if (average := experiment.mean(section, metric.key)).count
        ],
        "numbers": tables.numbers(experiment) if section else None,
        "curves": [curve for curve in curves if curve is not None],
        "by_fold": tables.folds(experiment),
        "by_graph": [(s, _by_graph(experiment, s), len(experiment.metrics_of(s))) for s in shown],
        "most": MOST_GRAPHS,
        "noisy": tables.NOISY,
        "graphs": tables.graphs(experiment),
        **(named(place)(experiment) if place else {"latencies": ()}),
        "examples": examples(experiment, section, measurements) if kind.ordered else [],
        "picks": tables.picks(experiment, MOST_GRAPHS),
        "savings": tables.savings(experiment),
        "times": tables.times(experiment),
        "settings": settings,
        "changed": changed,
        "facts": tables.facts(experiment),
        "alike": ALIKE,
        "colours": figures.COLOURS,
        "has_ceiling": any(experiment.values(s, kind.ceiling.key) for s in shown),
    }


def _by_graph(experiment: Experiment, section: str) -> Markup:
    """Return a figure for a wide page and one for a phone; the style shows the one that fits."""
    given = experiment.metrics_of(section), experiment.kind, MOST_GRAPHS
    return figures.by_graph(*given) + figures.by_graph(*given, narrow=True)


def against_baseline(experiment: Experiment, section: str) -> Paired | None:
    """Return the network's number minus the baseline's, graph by graph, if there is a baseline."""
    kind = experiment.kind
    network, baseline = (experiment.values(section, k) for k in (kind.main.key, kind.baseline.key))
    names = sorted(set(network) & set(baseline))
    values = [baseline[n] for n in names], [network[n] for n in names]
    return paired(*values, kind.main.higher_is_better) if names else None


def verdict(experiment: Experiment) -> str:
    """Return the headline: a sentence on the section that counts most."""
    kind, section = experiment.kind, experiment.headline
    if not section:
        return "Nothing was measured against known runtimes"
    compared, programs = against_baseline(experiment, section), SECTION_WORDS[section]
    if compared is None:
        average = experiment.mean(section, kind.main.key)
        return f"{kind.main.name} of {with_error(kind.main, average)} on {average.count} {programs}"
    if not compared.sure:
        return f"On {programs}, network and {kind.baseline.name} differ by no more than chance"
    gain = compared.difference.value * (1 if kind.main.higher_is_better else -1)
    verb = "ranks" if kind.ordered else "predicts"
    size = kind.main.text(abs(compared.difference.value))
    word = "better" if gain > 0 else "worse"
    return f"On {programs}, the network {verb} {word} than the {kind.baseline.name}, by {size}"


def improvement(experiment: Experiment, section: str) -> str:
    """Return how much better than the baseline the network is, and how far from the ceiling."""
    compared, kind = against_baseline(experiment, section), experiment.kind
    if compared is None:
        return ""
    main, items = kind.main, f"{kind.item}s"
    network, baseline, ceiling = (
        experiment.mean(section, m.key) for m in (main, kind.baseline, kind.ceiling)
    )
    text = (
        f"Over {compared.difference.count:,} {section} {items}, the network's mean {main.name} is "
        f"{with_error(main, network)}, the {kind.baseline.name}'s {with_error(main, baseline)}: a "
        f"difference of {in_words(compared, main)}. "
        f"The network is better on {compared.wins:,} {items}, worse on {compared.losses}"
    ) + (f", equal on {compared.ties}." if compared.ties else ".")
    room = ceiling.value - baseline.value
    if ceiling.count != network.count or abs(room) < 1e-3 or not kind.ceiling.name:
        return text
    way = (network.value - baseline.value) / room
    if way < 0:
        return f"{text} The {kind.baseline.name} is nearer to the {kind.ceiling.name}."
    share = f"{100 * way:.0f}{GLUE}%"
    return f"{text} That is {share} of the way from the {kind.baseline.name} to the ceiling."


def examples(
    experiment: Experiment, section: str, measurements: pl.DataFrame | None
) -> list[dict[str, Any]]:
    """Return the best, the median and the worst graph of a section, if their runtimes are known.

    Args:
        experiment, section: where from.
        measurements: runtimes that are not in the scores, ``graph, config, runtime``.
    """
    metrics, main = experiment.metrics_of(section), experiment.kind.main
    order = figures.ranked(metrics, main)
    if not order:
        return []
    places = {"worst": order[-1], "median": order[len(order) // 2], "best": order[0]}
    words = {graph: word for word, graph in places.items()}
    frame, apart = _scores(experiment, section, words), column_by_graph(measurements, "runtime")
    shown = []
    for graph in reversed(words) if frame is not None else ():
        rows = frame.filter(pl.col("graph") == graph).sort("config")
        own = rows["runtime"]
        runtimes = apart.get(graph, pl.Series()) if own.null_count() else own
        if 0 < len(runtimes) == len(rows):
            scores, measured = rows["score"].to_numpy(), runtimes.to_numpy().astype(float)
            figure = figures.rank_against_runtime(scores, measured, graph)
            known = {"scores": scores, "runtimes": measured, "value": metrics[graph][main.key]}
            shown.append({"place": words[graph], "graph": graph, "figure": figure, **known})
    return shown


def _scores(experiment: Experiment, section: str, graphs: Iterable[str]) -> pl.DataFrame | None:
    """Return the section's folds blended as stage 4 does: ``graph, config, score, runtime``."""
    folds = experiment.measured if section == "validation" else experiment.blended
    paths = [experiment.folder / "scores" / f"fold_{fold}.parquet" for fold in folds]
    of_graphs = (pl.col("split") == SPLIT_OF[section]) & pl.col("graph").is_in(sorted(graphs))
    columns = (*KEYS, "score", "runtime")
    there = [read_score_rows(path, columns, of_graphs) for path in paths if path.exists()]
    if not there:
        return None
    means = [frame.group_by(*KEYS).agg(pl.col("score").mean()).sort(*KEYS) for frame in there]
    measured = pl.concat(there, how="diagonal_relaxed").group_by(*KEYS)
    runtimes = measured.agg(pl.col("runtime").drop_nulls().first())
    return blend_frames(means, experiment.blending).join(runtimes, on=KEYS)
