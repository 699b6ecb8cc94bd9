"""Latents before and after fine-tuning with the discrepancy, and error over it, as CDMPP has them.

    .venv/bin/python -m tests.bench.latents [--outputs outputs] [--into docs/results/latents.svg]

A predictor of `make all COLLECTION=programs-cpu` is fine-tuned towards a network that it has not
seen, as `make adapt NETWORK=` does it. Drawn, and printed, is on one device: latents of programs
that it learned from and of that network's, before and after, in two dimensions by t-SNE (figure 8
of the paper); and for every network that the predictor's fold has not seen, the Central Moment
Discrepancy of its latents from those learned from, and how far it is off (figure 18). Below:
another network has learned from three processors, and is fine-tuned towards a fourth with some of
its tasks; latents of programs on one that it learned from and on the fourth, before and after
(figure 11).
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import spearmanr
from sklearn.manifold import TSNE
from torch import nn

from lib.cache.reader import Cache
from lib.files.artifacts import atomic_file
from lib.programs.adapt.case import load_case
from lib.programs.adapt.device import FineTuning, by_fine_tuning
from lib.programs.adapt.network import NetworkCase, load_network_case
from lib.programs.adapt.source import source_network
from lib.programs.adapt.tasks import choose
from lib.programs.adapt.tuning import AdaptFold, Part, fine_tune
from lib.programs.folds import sides_of_fold
from lib.programs.inputs import batches_of, device_named, devices_of, load_programs
from lib.programs.inputs import predict as predicted
from lib.programs.latency.predict import load_predictor, predictor_settings
from lib.programs.metrics import mape
from lib.programs.models.discrepancy import central_moment_discrepancy
from lib.programs.settings import ProgramCollection, ProgramPlusSettings
from lib.programs.task import networks_of
from lib.report.figures import PANEL

SHOWN, COMPARED = 400, 4000  # programs of a cloud, and of those learned from for a discrepancy
FEWEST = 64  # programs of a network, for its moments to say anything
DEVICE = "avx512"  # of the first row
EPOCHS = 12  # of the network of the second
TARGET = "intel-r-xeon-r-6-167.rocketlake.1t"  # of the second
SOURCES = (
    "intel-r-xeon-r-6-207.emeraldrapids.1t",
    "amd-epyc-25-17.znver4.1t",
    "amd-epyc-26-2.znver5.1t",
)
CHOICE = {"method": "kmeans", "count": 30, "seed": 0}  # of tasks that are known on the target
WIDE, HIGH = PANEL
COLOURS = ("C0", "C1")


@torch.inference_mode()
def latents(network: nn.Module, part: Part, most: int = 0) -> torch.Tensor:
    """(n, e) latents on a part's one device of all programs, or of ``most`` drawn at random."""
    programs = part.programs
    if most:
        order = np.random.default_rng(0).permutation(len(programs))
        programs = programs.some(order < most)
    rows = [*batches_of(programs.counts, 1024)]
    parts = [network.with_latents(programs.batch(own, part.devices))[1][:, 0] for own in rows]
    return torch.cat(parts)[np.argsort(np.concatenate(rows))]


def on_device(part: Part, device: int) -> Part:
    """The programs of a part that one of its devices has measured, on that device alone."""
    programs = replace(part.programs, seconds=part.programs.seconds[:, [device]])
    return Part(programs, part.devices[[device]]).with_latencies()


@dataclass(frozen=True)
class Panels:
    """Where clouds are drawn.

    Attributes:
        axes: of this row.
        keys: what the programs of the two colours are.
    """

    axes: Sequence[Axes]
    keys: tuple[str, str]

    def cloud(self, column: int, name: str, network: nn.Module, parts: tuple[Part, Part]) -> None:
        """Programs that were learned from and others; how far the network is off on the others."""
        found = [latents(network, part, SHOWN) for part in parts]
        title = f"{name}: discrepancy {central_moment_discrepancy(*found):.3f}"
        said = np.exp(predicted(network, parts[1].programs, parts[1].devices, 1024))
        off = mape(said[:, 0], parts[1].programs.seconds[:, 0])
        print(f"{self.keys[1]}, {title}, MAPE {off:.1%}")
        flat = TSNE(random_state=0).fit_transform(torch.cat(found).numpy())
        axes, first = self.axes[column], len(found[0])
        for colour, key, part in zip(COLOURS, self.keys, (flat[:first], flat[first:]), strict=True):
            axes.plot(*part.T, ".", color=colour, markersize=4, label=key)
        axes.set(title=title, xticks=[], yticks=[])
        if not column:
            axes.legend()


def towards_network(
    panels: Panels, case: NetworkCase, settings: ProgramCollection, device: int
) -> None:
    """Two clouds of a network that a predictor has not seen, on one device."""
    target = replace(case.target, programs=replace(case.target.programs, seconds=case.truth))
    parts = on_device(case.source, device), on_device(target, device)
    panels.cloud(0, "before", case.network, parts)
    tuning = FineTuning()
    fold = AdaptFold(case.source, None, case.target, tuning.alpha, tuning.of(settings))
    with tempfile.TemporaryDirectory() as folder:
        fine_tune(case.network, fold, 0, Path(folder) / "state", "latents")
    panels.cloud(1, "after", case.network, parts)


def towards_device(panels: Panels, cache: Cache, work: Path) -> None:
    """Two clouds of a device that a network has not seen."""
    case = load_case(cache, TARGET, SOURCES)
    settings = ProgramPlusSettings("programs-cpu", epochs=EPOCHS)
    network, _ = source_network(case, cache, settings, 0, work)
    chosen = choose(case.programs, np.ones(len(case.programs.tasks), bool), CHOICE)
    others = Part(case.programs.some(~np.isin(case.programs.task, chosen)), case.devices)
    source, target = (on_device(others, device) for device in (-2, -1))
    panels.cloud(0, "before", network, (source, target))
    visible = case.visible(chosen)
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        by_fine_tuning(visible, network, settings, FineTuning(), 0, state, "latents")
    panels.cloud(1, "after", network, (source, target))


def errors(
    case: NetworkCase, cache: Cache, settings: ProgramCollection, device: int
) -> dict[str, tuple[float, float]]:
    """Of each network that the fold has not seen: discrepancy, and MAPE."""
    sides = sides_of_fold(cache, case.fold, settings)
    every = load_programs(cache, {**sides["valid"], **sides["test"]})
    part = on_device(Part(every, case.source.devices), device)
    held = part.programs
    known = latents(case.network, on_device(case.source, device), COMPARED)
    own = latents(case.network, part)
    off = np.exp(predicted(case.network, held, part.devices, 1024)[:, 0])
    called, points = [networks_of(cache.rows[name]) for name in held.tasks], {}
    for name in sorted({network for networks in called for network in networks}):
        mask = np.array([name in networks for networks in called])[held.task]
        if mask.sum() >= FEWEST:
            gap = float(central_moment_discrepancy(known, own[mask]))
            points[name] = gap, mape(off[mask], held.seconds[mask, 0])
    return points


def scattered(axes: Axes, points: dict[str, tuple[float, float]]) -> None:
    """A panel with a dot a network."""
    gaps, offs = np.array([*points.values()]).T
    rank = spearmanr(gaps, offs)
    print(f"{len(points)} networks: Spearman's rho {rank.statistic:.2f}, p {rank.pvalue:.2g}")
    axes.plot(gaps, 100 * offs, "o")
    axes.set(title="MAPE of a network, %", xlabel="its discrepancy")


def main() -> None:
    """Draw all five panels."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--outputs", type=Path, default=Path("outputs"))
    parser.add_argument("--into", type=Path, default=Path("docs/results/latents.svg"))
    parser.add_argument("--network", default="bert.w128_t64.b1", help="that is not learned from")
    parser.add_argument("--work", type=Path, default=Path("outputs/bench-latents"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    settings = predictor_settings("programs-cpu", None, None)[1]
    ensemble, cache = load_predictor(args.outputs, settings)
    case = load_network_case(ensemble, cache, args.network)
    device = device_named(DEVICE, devices_of(cache))
    matplotlib.rcParams["svg.hashsalt"] = "tgraph"
    figure = Figure((3 * WIDE / 72, 2 * HIGH / 72), layout="constrained")
    axes = figure.subplots(2, 3)
    axes[1, 2].set_axis_off()
    scattered(axes[0, 2], errors(case, cache, ensemble.settings, device))
    keys = "learned from", "a network not seen"
    towards_network(Panels(axes[0], keys), case, ensemble.settings, device)
    names = [name.split(".")[1] for name in (SOURCES[-1], TARGET)]
    keys = f"learned from: {names[0]}", f"not seen: {names[1]}"
    towards_device(Panels(axes[1], keys), cache, args.work)
    with atomic_file(args.into) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
