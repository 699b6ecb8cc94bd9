"""``python -m lib.report.pictures outputs/<collection> docs/results/``: a picture for the pages.

The report's own figure of each graph, as an SVG file that stands alone: its colours are inside,
for light and for dark screens, and so is its background, because a page that embeds a picture
may have chosen otherwise than the screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from lib.files.artifacts import atomic_file
from lib.files.command_line import Parser
from lib.files.errors import UserError, one_line_errors
from lib.report.experiment import Experiment, read_experiment
from lib.report.figures import WIDE, by_graph
from lib.report.svg import Figure, attributes

MARGIN, CAPTION = 18.0, 46.0  # around and above the figure, in user units
MOST = 26  # graphs, evenly spaced ones from best to worst
# The report's colours and marks, set on the picture itself instead of on a page.
STYLE = (Path(__file__).parent / "page.css").read_text(encoding="utf-8").replace(":root", "svg")
OWN_STYLE = """
svg { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
.card { fill: var(--page); stroke: var(--rule); }
.title { fill: var(--text); font-size: 15px; font-weight: 600; }
"""


def graphs(experiment: Experiment) -> str:
    """The number that counts of each graph, against baseline and ceiling.

    Raises:
        UserError: if stage 4 has not measured anything yet.
    """
    section = next((s for s in ("validation", "test") if experiment.metrics_of(s)), "")
    if not section:
        raise UserError(f"{experiment.folder}: no results in metrics.json; make all writes them")
    kind, metrics = experiment.kind, experiment.metrics_of(section)
    figure = by_graph(metrics, kind, WIDE, MOST)
    some = f"{MOST} of " if len(metrics) > MOST else ""
    title = f"{experiment.collection}: {kind.main.name} of {some}{len(metrics)} {section} graphs"
    keys = [("model", "network"), ("baseline", kind.baseline.name)]
    present = any(kind.ceiling.key in own for own in metrics.values())
    return _picture(figure, title, [*keys, *([("ceiling", kind.ceiling.name)] * present)])


def write_picture(folder: Path, into: Path) -> Path:
    """Write ``graphs.svg`` of a collection's outputs, and return where it is.

    Args:
        folder: ``<outputs>/<collection>``.
        into: folder of the picture, made if need be.

    Raises:
        UserError: if the outputs lack what it shows.
        DataError: if a file of them cannot be read.
    """
    text = graphs(read_experiment(folder))
    into.mkdir(parents=True, exist_ok=True)
    with atomic_file(into / "graphs.svg") as temporary:
        temporary.write_text(text, encoding="utf-8")
    return into / "graphs.svg"


def _picture(figure: Figure, title: str, keys: Sequence[tuple[str, str]]) -> Markup:
    """A figure on a card, below a title and what the marks mean."""
    width, height = 2 * MARGIN + figure.width, 2 * MARGIN + CAPTION + figure.height
    card = Figure(width, height, title)
    card.add("rect", "card", x=0.5, y=0.5, width=width - 1, height=height - 1, rx=8)
    card.text("title", MARGIN, MARGIN + 12, title)
    _draw_keys(card, keys, MARGIN + 33)
    moved = attributes(transform=f"translate({MARGIN:g} {MARGIN + CAPTION:g})")
    card.parts.append(Markup("<g{}>\n{}\n</g>").format(moved, Markup("\n").join(figure.parts)))
    about = attributes(
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        width=f"{width:g}",
        height=f"{height:g}",
        role="img",
        aria_label=title,
    )
    style = Markup("<style>{}</style>").format(STYLE + OWN_STYLE)
    inner = Markup("\n").join([style, *card.parts])
    return Markup("<svg{}>\n{}\n</svg>\n").format(about, inner)


def _draw_keys(card: Figure, keys: Sequence[tuple[str, str]], y: float) -> None:
    x = MARGIN + 6
    for look, name in keys:
        if look == "model":
            card.dot("mark model", x, y - 4, 5)
        elif look == "baseline":
            card.diamond("mark baseline", x, y - 4, 5)
        else:
            card.add("rect", "mark ceiling", x=x - 1.5, y=y - 11, width=3, height=14, rx=1)
        card.text("name", x + 13, y, name)
        x += 34 + 6.5 * len(name)


def main() -> None:
    """Write the picture and say where."""
    parser = Parser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="a collection's outputs")
    parser.add_argument("into", type=Path, help="folder of the picture")
    args = parser.parse_args()
    print(f"pictures: {args.folder.name}: wrote {write_picture(args.folder, args.into)}")


if __name__ == "__main__":
    with one_line_errors():
        main()
