"""Latents before and after fine-tuning with the discrepancy, and error over it, as CDMPP has them.

    .venv/bin/python -m tests.bench.latents [--outputs outputs] [--into docs/results/latents.svg]

A predictor of `make all COLLECTION=programs-cpu` is fine-tuned towards a network that it has not
seen, as `make adapt NETWORK=` does it. Drawn, and printed, is on one device: latents of programs
that it learned from and of that network's, before and after, in two dimensions by t-SNE (figure 8
of the paper); and for every network that the predictor's fold has not seen, the Central Moment
Discrepancy of its latents from those learned from, and how far it is off (figure 18).
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr
from sklearn.manifold import TSNE

from lib.cache.reader import Cache
from lib.files.artifacts import atomic_file
from lib.programs.adapt.device import FineTuning
from lib.programs.adapt.network import NetworkCase, load_network_case
from lib.programs.adapt.tuning import AdaptFold, fine_tune
from lib.programs.folds import sides_of_fold
from lib.programs.inputs import Programs, batches_of, device_named, devices_of, load_programs
from lib.programs.inputs import predict as predicted
from lib.programs.latency.predict import load_predictor, predictor_settings
from lib.programs.metrics import mape
from lib.programs.models.discrepancy import central_moment_discrepancy
from lib.programs.settings import ProgramCollection
from lib.programs.task import networks_of
from lib.report.figures import PANEL
from lib.report.svg import Figure, scale_over
from tests.stages import REPOSITORY

SHOWN, COMPARED = 400, 4000  # programs of a cloud, and of those learned from for a discrepancy
FEWEST = 64  # programs of a network, for its moments to say anything
WIDE, HIGH = PANEL
KEYS = (("mark fold-0", "learned from"), ("mark fold-1", "the network"))
STYLE = (REPOSITORY / "lib/report/page.css").read_text()


@torch.inference_mode()
def latents(case: NetworkCase, programs: Programs, device: int, most: int = 0) -> torch.Tensor:
    """(n, e) latents on one device of all programs, or of ``most`` drawn at random."""
    if most:
        order = np.random.default_rng(0).permutation(len(programs))
        programs = programs.some(order < most)
    where, rows = case.source.devices[[device]], [*batches_of(programs.counts, 1024)]
    parts = [case.network.with_latents(programs.batch(own, where))[1][:, 0] for own in rows]
    return torch.cat(parts)[np.argsort(np.concatenate(rows))]


def cloud(figure: Figure, left: float, name: str, case: NetworkCase, device: int) -> None:
    """A panel of programs that were learned from and of the network's."""
    parts = [latents(case, part.programs, device, SHOWN) for part in (case.source, case.target)]
    title = f"{name}: discrepancy {central_moment_discrepancy(*parts):.3f}"
    logs = predicted(case.network, case.target.programs, case.source.devices[[device]], 1024)[:, 0]
    known = np.isfinite(case.truth[:, device])
    print(f"{title}, MAPE {mape(np.exp(logs[known]), case.truth[known, device]):.1%}")
    flat = TSNE(random_state=0).fit_transform(torch.cat(parts).numpy())
    x = scale_over(flat[:, 0].tolist(), left + 8, left + WIDE - 8)
    y = scale_over(flat[:, 1].tolist(), HIGH - 8, 30)
    figure.text("name", left + 8, 18, title)
    for number, (a, b) in enumerate(flat):
        figure.dot(KEYS[number >= len(parts[0])][0], x(a), y(b), 2)


def errors(
    case: NetworkCase, cache: Cache, settings: ProgramCollection, device: int
) -> dict[str, tuple[float, float]]:
    """Of each network that the fold has not seen: discrepancy, and MAPE."""
    sides = sides_of_fold(cache, case.fold, settings)
    held = load_programs(cache, {**sides["valid"], **sides["test"]})
    held = held.some(np.isfinite(held.seconds[:, device]))
    known = latents(case, case.source.programs, device, COMPARED)
    own = latents(case, held, device)
    off = np.exp(predicted(case.network, held, case.source.devices[[device]], 1024)[:, 0])
    called, points = [networks_of(cache.rows[name]) for name in held.tasks], {}
    for name in sorted({network for networks in called for network in networks}):
        mask = np.array([name in networks for networks in called])[held.task]
        if mask.sum() >= FEWEST:
            gap = float(central_moment_discrepancy(known, own[mask]))
            points[name] = gap, mape(off[mask], held.seconds[mask, device])
    return points


def scattered(figure: Figure, left: float, points: dict[str, tuple[float, float]]) -> None:
    """A panel with a dot a network."""
    gaps, offs = np.array([*points.values()]).T
    rank = spearmanr(gaps, offs)
    print(f"{len(points)} networks: Spearman's rho {rank.statistic:.2f}, p {rank.pvalue:.2g}")
    left, right, bottom = left + 40, left + WIDE - 6, HIGH - 38
    x, y = scale_over(gaps.tolist(), left, right), scale_over((100 * offs).tolist(), bottom, 28)
    figure.y_axis(y, left, right, "")
    figure.text("name", left, 18, "MAPE of a network, %")
    figure.x_axis(x, 28, bottom, "its discrepancy")
    for name, (gap, off) in points.items():
        figure.dot("mark ceiling", x(gap), y(100 * off), 4, name)


def main() -> None:
    """Draw all three panels."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--outputs", type=Path, default=Path("outputs"))
    parser.add_argument("--into", type=Path, default=Path("docs/results/latents.svg"))
    parser.add_argument("--network", default="bert.w128_t64.b1", help="that is not learned from")
    args = parser.parse_args()
    torch.set_num_threads(1)
    settings = predictor_settings("programs-cpu", None, None)[1]
    ensemble, cache = load_predictor(args.outputs, settings)
    case = load_network_case(ensemble, cache, args.network)
    device = device_named("avx512", devices_of(cache))
    figure = Figure(3 * WIDE, HIGH, "Latents before and after fine-tuning; error over discrepancy")
    figure.add("rect", "", width="100%", height="100%", style="fill: var(--page)")
    scattered(figure, 2 * WIDE, errors(case, cache, ensemble.settings, device))
    cloud(figure, 0, "before", case, device)
    tuning = FineTuning()
    fold = AdaptFold(case.source, None, case.target, tuning.alpha, tuning.of(ensemble.settings))
    with tempfile.TemporaryDirectory() as folder:
        fine_tune(case.network, fold, 0, Path(folder) / "state", "latents")
    cloud(figure, WIDE, "after", case, device)
    for number, (look, name) in enumerate(KEYS):
        figure.dot(look, 190 + 95 * number, 14)
        figure.text("name", 198 + 95 * number, 18, name)
    inside = str(figure.render()).removeprefix("<svg").replace(">", f"><style>{STYLE}</style>", 1)
    with atomic_file(args.into) as temporary:
        temporary.write_text(f'<svg xmlns="http://www.w3.org/2000/svg"{inside}\n')


if __name__ == "__main__":
    main()
