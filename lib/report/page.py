"""``report.html``: one file that needs nothing else, for a phone, a dark room and paper."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from lib.files.artifacts import atomic_file
from lib.files.named import named
from lib.ranking.truth import ALIKE
from lib.report import figures, tables
from lib.report.experiment import Experiment
from lib.report.statistics import paired, with_error
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


def write_page(path: Path, experiment: Experiment, running: dict[str, Any] | None = None) -> None:
    """Write the report of an experiment that was read.

    Args:
        path: the page.
        experiment: whose numbers it shows.
        running: the record so far of the stage that writes the report, whose own record on disk
            is still that of its last run.
    """
    if running:
        experiment.stages[running["stage"]] = running
    with atomic_file(path) as temporary:
        # Half a surrogate pair, from a name that is not UTF-8, has no way to be written.
        temporary.write_text(render(experiment), "utf-8", errors="replace")


def render(experiment: Experiment) -> str:
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
        **_content(experiment),
    )


OWN = {"style": "css", "script": "js"}  # files of this package that go into the page as they are


def _content(experiment: Experiment) -> dict[str, Any]:
    kind, section = experiment.kind, experiment.headline
    shown = [s for s in ("test", "validation") if experiment.metrics_of(s)]
    place = SYSTEMS[kind.name].report  # of what such collections alone have
    columns = (  # of a history, and what each is called
        ("loss", "training loss"),
        (f"validation_{kind.main.key}", f"validation {kind.main.name}"),
    )
    curves = [figures.learning_curve(experiment.histories, *column) for column in columns]
    return {
        "experiment": experiment,
        "kind": kind,
        "section": section,
        "verdict": verdict(experiment),
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
        "by_graph": [
            (s, figures.by_graph(graphs, kind, MOST_GRAPHS), len(graphs))
            for s in shown
            for graphs in (experiment.metrics_of(s),)
        ],
        "most": MOST_GRAPHS,
        "graphs": tables.graphs(experiment),
        **(named(place)(experiment) if place else {"latencies": ()}),
        "times": tables.times(experiment),
        "settings": tables.settings(experiment),
        "facts": tables.facts(experiment),
        "alike": ALIKE,
        "colours": figures.COLOURS,
        "has_ceiling": any(experiment.values(s, kind.ceiling.key) for s in shown),
    }


def verdict(experiment: Experiment) -> str:
    """Return the headline: a sentence on the section that counts most."""
    kind, section = experiment.kind, experiment.headline
    if not section:
        return "Nothing was measured against known runtimes"
    programs = SECTION_WORDS[section]
    network = experiment.values(section, kind.main.key)
    baseline = experiment.values(section, kind.baseline.key)
    names = sorted(set(network) & set(baseline))
    if not names:
        average = experiment.mean(section, kind.main.key)
        return f"{kind.main.name} of {with_error(kind.main, average)} on {average.count} {programs}"
    values = [baseline[n] for n in names], [network[n] for n in names]
    compared = paired(*values, kind.main.higher_is_better)
    if not compared.sure:
        return f"On {programs}, network and {kind.baseline.name} differ by no more than chance"
    gain = compared.difference.value * (1 if kind.main.higher_is_better else -1)
    verb = "ranks" if kind.ordered else "predicts"
    size = kind.main.text(abs(compared.difference.value))
    word = "better" if gain > 0 else "worse"
    return f"On {programs}, the network {verb} {word} than the {kind.baseline.name}, by {size}"
