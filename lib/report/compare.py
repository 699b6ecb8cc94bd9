"""``python -m lib.report.compare A B``: two experiments side by side, with a paired test.

A and B are folders of one collection each, such as ``outputs/layout-xla-default``.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NoReturn

from lib.files.command_line import Parser
from lib.files.errors import UserError, one_line_errors
from lib.files.terminal import duration, paint, readable, table
from lib.ranking.metrics import Metric
from lib.report.experiment import Experiment, read_experiment
from lib.report.figures import shortened
from lib.report.statistics import Paired, p_text, paired

COMPARED = ("test", "validation")
NAME = 44  # characters of a graph's name
ROWS = 40  # graphs shown of a section, unless all are asked for


class _Parser(Parser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; usage: make compare A=outputs/x B=outputs/y [ARGS=--all]")


def main() -> None:
    """Compare two folders of outputs."""
    parser = _Parser(description=__doc__)
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--all", action="store_true", help=f"every graph, not {ROWS} a section")
    args = parser.parse_args()
    first, second = read_two(args.first, args.second)
    print(comparison(first, second, math.inf if args.all else ROWS))


def read_two(first: Path, second: Path) -> tuple[Experiment, Experiment]:
    """Read both sides.

    Raises:
        UserError: unless both have been through stage 4, for collections of one kind, and have
            graphs in common.
    """
    a, b = _experiment(first), _experiment(second)
    if a.kind is not b.kind:
        raise UserError(
            f"{a.folder} is judged by {a.kind.main.name}, {b.folder} by "
            f"{b.kind.main.name}: compare collections of one kind"
        )
    if not any(_common(a, b, section) for section in COMPARED):
        raise UserError(f"{a.folder} and {b.folder} have no scored graph in common")
    return a, b


def comparison(first: Experiment, second: Experiment, most: float = ROWS) -> str:
    """Everything about two experiments as text for a terminal.

    Args:
        first, second: A and B.
        most: graphs shown of each section; those with the largest differences.
    """
    blocks = [_sides(first, second), _settings(first, second)]
    for section in COMPARED:
        names = _common(first, second, section)
        if names:
            blocks += [_graphs(first, second, section, names, most)]
    blocks += [_numbers(first, second)]
    return "\n\n".join(block for block in blocks if block)


def _sides(first: Experiment, second: Experiment) -> str:
    rows = []
    for side, experiment in (("A", first), ("B", second)):
        blended = ", ".join(map(str, experiment.blended)) or "-"
        texts = [experiment.name() or "-", experiment.data[:12], blended, _cost(experiment)]
        rows.append([f"{side}  {experiment.folder}", *texts])
    text = table(rows, ["", "experiment", "data", "folds blended", "training"])
    warning = ""
    if first.collection != second.collection:
        warning = "Different collections: graphs of one name have other configurations in each."
    elif first.data != second.data:
        warning = "Different data: only graphs of the same name and split are compared."
    return f"{text}\n{paint(warning, 'yellow')}" if warning else text


def _cost(experiment: Experiment) -> str:
    runs = [run for run in experiment.stages.values() if run.get("stage") == "train"]
    if not runs:
        return "-"
    seconds = sum(run["seconds"] + run.get("earlier_seconds", 0.0) for run in runs)
    return f"{duration(seconds)}, {readable(max(run['peak_memory_bytes'] for run in runs))}"


def _settings(first: Experiment, second: Experiment) -> str:
    a, b = first.settings(), second.settings()
    rows = [
        [key, str(a.get(key, "-")), str(b.get(key, "-"))]
        for key in sorted(set(a) | set(b))
        if a.get(key) != b.get(key)
    ]
    for package in sorted({*first.about.get("versions", {}), *second.about.get("versions", {})}):
        versions = [side.about.get("versions", {}).get(package, "-") for side in (first, second)]
        if versions[0] != versions[1]:
            rows.append([f"version of {package}", *versions])
    if not rows:
        return "The settings are the same."
    return table(rows, ["settings that differ", "A", "B"])


def _graphs(
    first: Experiment, second: Experiment, section: str, names: list[str], most: float
) -> str:
    main, items = first.kind.main, f"{first.kind.item}s"
    a, b = (side.values(section, main.key) for side in (first, second))
    compared = paired([a[n] for n in names], [b[n] for n in names], main.higher_is_better)
    ordered = sorted(names, key=lambda n: (-abs(b[n] - a[n]), n))
    shown = ordered if len(names) <= most else ordered[: int(most)]
    shown.sort(key=lambda n: (-_gain(main, a[n], b[n]), n))
    rows = []
    for name in shown:
        gain = _gain(main, a[name], b[name])
        winner = "B" if gain > 1e-12 else "A" if gain < -1e-12 else "="
        values = (main.text(a[name]), main.text(b[name]))
        rows.append([shortened(name, NAME), *values, main.text(b[name] - a[name], True), winner])
    lines = table(rows, [f"{section}: {main.name}", "A", "B", "B − A", "better"]).splitlines()
    for place, row in enumerate(rows, start=1):
        colour = {"A": "blue", "B": "green"}.get(row[-1])
        lines[place] = paint(lines[place], colour) if colour else lines[place]
    if len(shown) < len(names):
        lines.append(f"... {len(names) - len(shown)} more {items} differ less (--all shows them)")
    return "\n".join([*lines, "", *_test(compared, main, section, items)])


def _test(compared: Paired, main: Metric, section: str, items: str) -> list[str]:
    wins = f"B better on {compared.wins}, A on {compared.losses}, equal on {compared.ties}"
    lines = [f"{section}: {compared.difference.count} {items}: {wins}"]
    difference = compared.difference
    lines.append(f"  mean difference B − A: {main.text(difference.value, True)}")
    if difference.count > 1:
        lines[-1] += f" ± {main.text(difference.error)} (standard error over {items})"
        low, high = main.text(compared.low, True), main.text(compared.high, True)
        lines.append(f"  95 % confidence interval: {low} to {high}")
        lines.append(f"  paired permutation test: {p_text(compared.permutation)}")
    gain = difference.value if main.higher_is_better else -difference.value
    better, colour = ("B", "green") if gain > 0 else ("A", "blue")
    says = f"{better} is better" if compared.sure else "the two cannot be told apart"
    lines.append(f"  so {paint(says, 'bold', colour) if compared.sure else paint(says, 'bold')}")
    return lines


def _numbers(first: Experiment, second: Experiment) -> str:
    kind = first.kind
    rows = []
    for section in COMPARED:
        names = _common(first, second, section)
        for metric in (*kind.metrics, *kind.gains) if names else ():
            a, b = (side.values(section, metric.key) for side in (first, second))
            common = [n for n in names if n in a and n in b]
            if common:
                before, after = [a[n] for n in common], [b[n] for n in common]
                compared = paired(before, after, metric.higher_is_better)
                means = [metric.text(sum(side) / len(side)) for side in (before, after)]
                change = metric.text(compared.difference.value, True)
                error = metric.text(compared.difference.error)
                p = p_text(compared.permutation)
                rows.append([f"{section}: {metric.name}", *means, f"{change} ± {error}", p])
    return table(rows, ["means", "A", "B", "B − A", "permutation test"])


def _gain(metric: Metric, first: float, second: float) -> float:
    return second - first if metric.higher_is_better else first - second


def _common(first: Experiment, second: Experiment, section: str) -> list[str]:
    key = first.kind.main.key
    return sorted(set(first.values(section, key)) & set(second.values(section, key)))


def _experiment(path: Path) -> Experiment:
    if not path.is_dir():
        raise UserError(f"{path}: no such folder; give a collection's outputs")
    if not (path / "metrics.json").exists():
        raise UserError(f"{path}: no metrics.json there; run 04_ensemble.py first")
    return read_experiment(path)


if __name__ == "__main__":
    with one_line_errors():
        main()
