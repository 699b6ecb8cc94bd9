"""``python -m lib.report.compare A B``: which of two experiments is better, and how sure that is.

A and B are folders of one collection each, such as ``outputs/layout-xla-default``.
"""

from __future__ import annotations

from pathlib import Path

from lib.files.command_line import Parser
from lib.files.errors import UserError, one_line_errors
from lib.files.terminal import paint, table
from lib.ranking.metrics import BEST_SPEEDUP
from lib.report.experiment import Experiment, read_experiment
from lib.report.figures import shortened
from lib.report.statistics import in_words, paired

COMPARED = ("test", "validation")
NAME = 44  # characters of a graph's name


def main() -> None:
    """Compare two folders of outputs."""
    parser = Parser(description=__doc__)
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--all", action="store_true", help="every graph as well")
    args = parser.parse_args()
    print(comparison(*read_two(args.first, args.second), every_graph=args.all))


def read_two(first: Path, second: Path) -> tuple[Experiment, Experiment]:
    """Read both sides.

    Raises:
        UserError: unless both have been through stage 4, for collections of one kind, and have
            graphs in common.
    """
    for path in (first, second):
        if not path.is_dir():
            raise UserError(f"{path}: no such folder; give a collection's outputs")
        if not (path / "metrics.json").exists():
            raise UserError(f"{path}: no metrics.json there; run 04_ensemble.py first")
    a, b = read_experiment(first), read_experiment(second)
    if a.kind is not b.kind:
        raise UserError(
            f"{a.folder} is measured by {a.kind.main.name}, {b.folder} by "
            f"{b.kind.main.name}: compare collections of one kind"
        )
    if not any(_in_common(a, b, section, a.kind.main.key) for section in COMPARED):
        raise UserError(f"{a.folder} and {b.folder} have no scored graph in common")
    return a, b


def comparison(first: Experiment, second: Experiment, every_graph: bool = False) -> str:
    """Return what there is to say of two experiments, A and B, as text for a terminal: the verdict
    first, and the graphs, if each is wanted, last."""
    key = first.kind.main.key
    sections = [s for s in COMPARED if _in_common(first, second, s, key)]
    verdicts = [_verdict(first, second, section) for section in sections]
    blocks = ["\n".join([*verdicts, *_reservations(first, second)])]
    blocks += [_means(first, second, sections), _settings(first, second)]
    blocks += [_graphs(first, second, section) for section in sections if every_graph]
    return "\n\n".join(blocks)


def _verdict(first: Experiment, second: Experiment, section: str) -> str:
    main = first.kind.main
    compared = paired(*_in_common(first, second, section, main.key), main.higher_is_better)
    gain = compared.difference.value * (1 if main.higher_is_better else -1)
    better, colour = ("B", "green") if gain > 0 else ("A", "blue")
    says = paint("the two differ by no more than chance", "bold")
    if compared.sure:
        says = paint(f"{better} is better", "bold", colour)
    count = compared.difference.count
    what = f"B − A in {main.name} over {count} {first.kind.item}{'s' * (count > 1)}"
    wins = f"B is better on {compared.wins}, A on {compared.losses}, equal on {compared.ties}"
    return f"{section}: {says}; {what}: {in_words(compared, main)}\n  {wins}"


def _reservations(first: Experiment, second: Experiment) -> list[str]:
    """Return what a reader should know to weigh the verdict."""
    seeds = " and ".join(str(side.metadata.get("seed", "-")) for side in (first, second))
    said = [
        f"one seed each ({seeds}): the error is over {first.kind.item}s; what another seed "
        "changes is not in it"
    ]
    if first.collection != second.collection:
        said += ["different collections: graphs of one name have other configurations in each"]
    elif first.data != second.data:
        said += ["different data: only graphs of the same name and split are compared"]
    for word in ("blended", "measured"):
        folds = (sorted(getattr(side, word)) for side in (first, second))
        a, b = (", ".join(map(str, some)) or "-" for some in folds)
        if a != b:
            said += [f"other folds are {word}: {a} in A, {b} in B"]
    return [paint(f"note: {text}", "yellow") for text in said]


def _means(first: Experiment, second: Experiment, sections: list[str]) -> str:
    """Return the means of all numbers that depend on the scores."""
    kind, rows = first.kind, []
    shown = [metric for metric in (*kind.metrics, *kind.gains) if metric is not BEST_SPEEDUP]
    for section in sections:
        for metric in shown:
            values = _in_common(first, second, section, metric.key)
            if values:
                difference = paired(*values, metric.higher_is_better).difference
                means = [metric.text(sum(side) / len(side)) for side in values]
                change = metric.text(difference.value, True)
                change += f" ± {metric.text(difference.error)}" if difference.count > 1 else ""
                rows.append([f"{section}: {metric.name}", *means, change])
    return table(rows, ["means", "A", "B", "B − A"])


def _settings(first: Experiment, second: Experiment) -> str:
    a, b = (
        side.settings()
        | {f"version of {k}": v for k, v in side.metadata.get("versions", {}).items()}
        for side in (first, second)
    )
    rows = [
        [key, str(a.get(key, "-")), str(b.get(key, "-"))]
        for key in sorted({**a, **b}, key=lambda key: (key.startswith("version of "), key))
        if a.get(key) != b.get(key)
    ]
    return table(rows, ["settings that differ", "A", "B"]) if rows else "The settings are the same."


def _graphs(first: Experiment, second: Experiment, section: str) -> str:
    """Return a row for each graph, where B gains most first."""
    main = first.kind.main
    a, b = (side.values(section, main.key) for side in (first, second))
    sign = 1 if main.higher_is_better else -1
    gains = {name: sign * (b[name] - a[name]) for name in a.keys() & b.keys()}
    rows = []
    for name in sorted(gains, key=lambda name: (-gains[name], name)):
        better = "B" if gains[name] > 1e-12 else "A" if gains[name] < -1e-12 else "="
        values = main.text(a[name]), main.text(b[name]), main.text(b[name] - a[name], True)
        rows.append([shortened(name, NAME), *values, better])
    return table(rows, [f"{section}: {main.name}", "A", "B", "B − A", "better"])


def _in_common(
    first: Experiment, second: Experiment, section: str, key: str
) -> tuple[list[float], list[float]] | tuple[()]:
    """Return a number of the graphs that both sides have it of; nothing if there are none."""
    a, b = (side.values(section, key) for side in (first, second))
    names = sorted(a.keys() & b.keys())
    return ([a[name] for name in names], [b[name] for name in names]) if names else ()


if __name__ == "__main__":
    with one_line_errors():
        main()
