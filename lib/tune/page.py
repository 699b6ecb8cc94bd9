"""``tune/report.html``: the search with Optuna's plots, one file that needs nothing else."""

from __future__ import annotations

import io
import warnings
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from optuna.exceptions import ExperimentalWarning
from optuna.study import Study

from lib.files.artifacts import atomic_file
from lib.report.page import page_text
from lib.tune.results import DIGITS, Seeds, check_text, counts, importances, rows_of, shown, verdict
from lib.tune.search import Tuning
from lib.tune.storage import completed, failures

TEMPLATE = Path(__file__).resolve().with_name("page.html")
SHOWN = 10  # trials


@dataclass(frozen=True)
class Plot:
    """A plot of the page: its name, what it shows, and the picture as a link's target."""

    name: str
    caption: str
    source: str


def write_page(path: Path, tuning: Tuning, seeds: Seeds) -> None:
    """Write the page of a search that has a value."""
    chosen = tuning.settings
    text = page_text(
        TEMPLATE,
        title=chosen.results,
        verdict=verdict(tuning),
        counts=counts(tuning),
        head=["setting", "as it is", "best", "importance"],
        rows=rows_of(tuning),
        metric=chosen.metric,
        direction="higher is better" if chosen.higher_is_better else "lower is better",
        objective=f"mean over {tuning.folds} of {chosen.folds_total} folds",
        check=check_text(tuning, seeds),
        plots=plots(tuning),
        trials={"head": ["trial", chosen.metric, *tuning.space], "rows": best_trials(tuning)},
        failures=[f"trial {number}: {why}" for number, why in failures(tuning.study).items()],
    )
    with atomic_file(path) as temporary:
        temporary.write_text(text, "utf-8")


def best_trials(tuning: Tuning) -> list[list[str]]:
    """The best of those that have a value, with what they had."""
    sign = -1 if tuning.settings.higher_is_better else 1
    best = sorted(completed(tuning.study), key=lambda one: sign * one.value)[:SHOWN]
    return [
        [str(one.number), f"{one.value:.{DIGITS}f}", *(shown(one.params[n]) for n in tuning.space)]
        for one in best
    ]


def plots(tuning: Tuning) -> list[Plot]:
    """Optuna's own, those that the trials suffice for."""
    from optuna.visualization import matplotlib as plotted  # takes a second

    every = [
        Plot(
            "optimization history",
            "Each trial's value, and the best so far. Trial 0 has the settings as they are.",
            _svg(plotted.plot_optimization_history, tuning.study),
        ),
        Plot(
            "learning curves",
            "Validation after each pass, a line a trial; those that end early were pruned: they "
            "were below the median of earlier trials at the same pass.",
            _svg(plotted.plot_intermediate_values, tuning.study),
        ),
    ]
    if importances(tuning):
        caption = "What tells the best tenth of the trials from all others."
        source = _svg(plotted.plot_param_importances, tuning.study)
        every.insert(1, Plot("importance of settings", caption, source))
    return every


def _svg(plot: Callable[[Study], object], study: Study) -> str:
    """What Optuna draws, as a link's target."""
    import matplotlib
    from matplotlib import pyplot

    with warnings.catch_warnings(), matplotlib.rc_context({"svg.hashsalt": "tgraph"}):
        warnings.simplefilter("ignore", ExperimentalWarning)
        matplotlib.use("agg")  # whose renderer the labels of bars want
        figure = plot(study).figure
        drawn = io.BytesIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None}, bbox_inches="tight")
        pyplot.close(figure)
    return f"data:image/svg+xml;base64,{b64encode(drawn.getvalue()).decode()}"
