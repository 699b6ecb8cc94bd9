"""``report.html``: one file that needs nothing else, for a phone, a dark room and paper."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import polars as pl
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from lib.files.artifacts import atomic_file
from lib.files.named import named
from lib.ranking.truth import ALIKE
from lib.report import figures, tables, words
from lib.report.evidence import examples
from lib.report.experiment import Experiment, read_experiment
from lib.systems import SYSTEMS

HERE = Path(__file__).resolve().parent
MOST_GRAPHS = 60  # of a section in its figure; the table has them all
CURVES = (  # column of a history, what it is called, whether a logarithm suits it
    ("loss", "training loss", False),
    ("gradient_norm", "gradient norm", True),
    ("learning_rate", "learning rate", False),
)

# What a browser may do with the page: its own style and its own script, known by their hashes, and
# the empty icon that keeps it from asking for one. If a name should ever get into the page as
# something other than text, it can neither run nor load anything.
POLICY = (
    "default-src 'none'; style-src '{style}'; script-src '{script}'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)


def write_report(folder: Path, measurements: pl.DataFrame | None = None) -> Path:
    """Write ``report.html`` beside what it tells of.

    Args:
        folder: the collection's, ``<outputs>/<collection>``.
        measurements: see :func:`write_page`.

    Returns:
        The file.
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
        experiment: what it tells of.
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
    """The page's text; all that it shows is escaped unless it is markup."""
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = _own("page.css"), _own("page.js")
    return environment.get_template("page.html").render(
        style=style,
        script=script,
        policy=POLICY.format(style=_hash(style), script=_hash(script)),
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        **_content(experiment, measurements),
    )


def _own(name: str) -> Markup:
    """A file of this package, which goes into the page as it is."""
    return Markup((HERE / name).read_text("utf-8"))  # noqa: S704


def _hash(text: str) -> str:
    """What a Content-Security-Policy calls an inline style or script."""
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


def _of_system(experiment: Experiment) -> dict[str, Any]:
    """What the page shows of this kind of collections alone."""
    place = SYSTEMS[experiment.kind.name].report
    return named(place)(experiment) if place else {"latencies": ()}


def _content(experiment: Experiment, measurements: pl.DataFrame | None) -> dict[str, Any]:
    kind, section = experiment.kind, experiment.headline
    shown = [s for s in ("test", "validation") if experiment.metrics_of(s)]
    return {
        "experiment": experiment,
        "kind": kind,
        "section": section,
        "verdict": words.verdict(experiment),
        "improvements": [words.improvement(experiment, s) for s in shown],
        "tiles": _tiles(experiment) if section else [],
        "numbers": tables.numbers(experiment) if section else None,
        "learning": words.learning(experiment),
        "curves": _curves(experiment),
        "folds": sorted(experiment.histories),
        "by_fold": tables.folds(experiment),
        "by_graph": [
            (s, figures.by_graph(rows, kind, MOST_GRAPHS), len(rows))
            for s in shown
            for rows in (experiment.metrics_of(s),)
        ],
        "most": MOST_GRAPHS,
        "groups": tables.groups(experiment),
        "noisy": tables.NOISY,
        "graphs": tables.graphs(experiment),
        **_of_system(experiment),
        "examples": _examples(experiment, section, measurements),
        "picks": tables.picks(experiment, MOST_GRAPHS),
        "savings": tables.savings(experiment),
        "times": tables.times(experiment),
        "settings": tables.settings(experiment),
        "changed": tables.changed(experiment),
        "facts": tables.facts(experiment),
        "alike": ALIKE,
        "blended": ", ".join(map(str, experiment.blended)),
        "colours": figures.COLOURS,
        "has_ceiling": any(experiment.values(s, kind.ceiling.key) for s in shown),
    }


def _tiles(experiment: Experiment) -> list[dict[str, str]]:
    """The headline's numbers: network, baseline, ceiling, each with its error."""
    kind, section = experiment.kind, experiment.headline
    named = [
        ("model", "network", kind.main.key, kind.main.explained),
        ("baseline", kind.baseline.name, kind.baseline.key, kind.baseline.explained),
        ("ceiling", kind.ceiling.name, kind.ceiling.key, kind.ceiling.explained),
    ]
    tiles = []
    for look, name, key, explained in named:
        average = experiment.mean(section, key)
        if average.count:
            error = "" if average.error != average.error else f"± {kind.main.text(average.error)}"
            value = kind.main.text(average.value)
            tiles.append(
                {"look": look, "name": name, "value": value, "error": error, "says": explained}
            )
    return tiles


def _curves(experiment: Experiment) -> list[Markup]:
    main = experiment.kind.main
    curves = [CURVES[0], (f"validation_{main.key}", f"validation {main.name}", False), *CURVES[1:]]
    histories = experiment.histories
    drawn = (figures.learning_curve(histories, *curve) for curve in curves)
    return [figure for figure in drawn if figure is not None]


def _examples(
    experiment: Experiment, section: str, measurements: pl.DataFrame | None
) -> list[dict[str, Any]]:
    metric = experiment.kind.main
    ordered = section and experiment.kind.ordered
    return [
        {
            "place": example.place,
            "graph": example.graph,
            "value": metric.text(example.value),
            "count": len(example.scores),
            "figure": figures.rank_against_runtime(example.scores, example.runtimes, example.graph),
        }
        for example in (examples(experiment, section, measurements) if ordered else [])
    ]
