"""``python -m lib.report.pictures outputs/<collection> docs/``: the README's pictures.

The report's own figures of a run, each as an SVG file that stands alone: its colours are inside,
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
from lib.report.figures import COLOURS, WIDE, by_graph, learning_curve
from lib.report.svg import Figure, attributes

MARGIN, CAPTION, GAP = 18.0, 46.0, 40.0  # around, above and between figures, in user units
MOST = 26  # graphs of one picture
SHAPES = {"model": "dot", "baseline": "diamond", "ceiling": "bar"}  # of keys; others are lines
# The report's colours and marks, set on the picture itself instead of on a page.
STYLE = (Path(__file__).parent / "page.css").read_text(encoding="utf-8").replace(":root", "svg")
OWN_STYLE = """
svg { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
.card { fill: var(--page); stroke: var(--rule); }
.title { fill: var(--text); font-size: 15px; font-weight: 600; }
line.key { stroke: var(--ink); stroke-width: 3; }
"""


def learning_curves(experiment: Experiment) -> str:
    """Loss and validation of every fold by epoch, side by side.

    Raises:
        UserError: if no fold has been trained.
    """
    main = experiment.kind.main
    found = [
        learning_curve(experiment.histories, "loss", "training loss"),
        learning_curve(experiment.histories, f"validation_{main.key}", f"validation {main.name}"),
    ]
    shown = [figure for figure in found if figure is not None]
    if not shown:
        raise UserError(f"{experiment.folder}: no fold has a history; make train writes them")
    folds = len(experiment.histories)
    title = f"{experiment.collection}: learning curves of {folds} folds and their mean"
    return _picture(shown, title, [*_fold_keys(experiment), ("meanline", "mean")])


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
    return _picture([figure], title, [*keys, *([("ceiling", kind.ceiling.name)] * present)])


def write_pictures(folder: Path, into: Path) -> list[Path]:
    """Write ``learning-curves.svg`` and ``graphs.svg`` of a collection's outputs.

    Args:
        folder: ``<outputs>/<collection>``.
        into: folder of the pictures, made if need be.

    Raises:
        UserError: if the outputs lack what a picture shows.
        DataError: if a file of them cannot be read.
    """
    experiment = read_experiment(folder)
    pictures = {
        "learning-curves.svg": learning_curves(experiment),
        "graphs.svg": graphs(experiment),
    }
    into.mkdir(parents=True, exist_ok=True)
    for name, text in pictures.items():
        with atomic_file(into / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return [into / name for name in pictures]


def _picture(figures: Sequence[Figure], title: str, keys: Sequence[tuple[str, str]]) -> Markup:
    """Figures in a row on a card, below a title and what the marks mean."""
    width = 2 * MARGIN + sum(one.width for one in figures) + GAP * (len(figures) - 1)
    height = 2 * MARGIN + CAPTION + max(one.height for one in figures)
    card = Figure(width, height, title)
    card.add("rect", "card", x=0.5, y=0.5, width=width - 1, height=height - 1, rx=8)
    card.text("title", MARGIN, MARGIN + 12, title)
    _draw_keys(card, keys, MARGIN + 33)
    x = MARGIN
    for one in figures:
        moved = attributes(transform=f"translate({x:g} {MARGIN + CAPTION:g})")
        card.parts.append(Markup("<g{}>\n{}\n</g>").format(moved, Markup("\n").join(one.parts)))
        x += one.width + GAP
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
        shape = SHAPES.get(look, "line")
        if shape == "dot":
            card.dot("mark model", x, y - 4, 5)
        elif shape == "diamond":
            card.diamond("mark baseline", x, y - 4, 5)
        elif shape == "bar":
            card.add("rect", "mark ceiling", x=x - 1.5, y=y - 11, width=3, height=14, rx=1)
        else:
            card.line(f"key {look}", x - 6, y - 4, x + 8, y - 4)
        card.text("name", x + 13, y, name)
        x += 34 + 6.5 * len(name)


def _fold_keys(experiment: Experiment) -> list[tuple[str, str]]:
    return [(f"fold-{fold % COLOURS}", f"fold {fold}") for fold in experiment.histories]


def main() -> None:
    """Write the pictures and say where."""
    parser = Parser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="a collection's outputs")
    parser.add_argument("into", type=Path, help="folder of the pictures")
    args = parser.parse_args()
    written = write_pictures(args.folder, args.into)
    print(f"pictures: {args.folder.name}: wrote {', '.join(map(str, written))}")


if __name__ == "__main__":
    with one_line_errors():
        main()
