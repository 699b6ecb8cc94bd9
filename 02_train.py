"""Stage 2: train the network of one fold.

Reads   <outputs>/<collection>/cache/
Writes  <outputs>/<collection>[@<model>]/fold_<k>/{model,last}.safetensors, history.parquet and
        metrics.json; trees.safetensors, if the network stands beside trees
"""

from __future__ import annotations

from lib.runs.begin import one_line_errors

# isort: split
from lib.runs.asked import parse_or_end

if __name__ == "__main__":  # before all other imports, which take seconds
    asked = parse_or_end("train", __doc__)

# isort: split
import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from lib import settings
from lib.cache.reader import Cache
from lib.files import tensor_file
from lib.files.artifacts import write_json
from lib.files.parquet import write_parquet
from lib.files.progress import Lines
from lib.files.terminal import counted
from lib.inputs.input import network_for
from lib.models.precision import resolve_device
from lib.runs.asked import making_of, tell_as_it_was
from lib.runs.identity import Making
from lib.runs.provenance import versions
from lib.runs.stage import Stage
from lib.runs.tracking import Tracker, epoch_point
from lib.runs.turns import turn_on
from lib.train.fold import load_fold
from lib.train.loop import FoldTraining, new_network
from lib.train.processes import Processes, processes_on
from lib.train.schedule import shared
from lib.train.split import left_out
from lib.train.summary import log_graphs, summary_table


def main(stage: Stage, args: argparse.Namespace, resolved: settings.Resolved) -> None:
    """Train one fold, or go on where a killed run of it stopped."""
    chosen = resolved.settings
    torch.set_num_threads(chosen.threads)
    device = resolve_device(chosen.device)
    with turn_on(device, args.outputs, args.fold), processes_on(device) as processes:
        chosen = shared(chosen, processes)
        if processes.first:
            print(f"train: {resolved.choice()}", flush=True)
        train_fold(stage, making_of(args, chosen), args.fold, resolved.record(), processes)


def train_fold(
    stage: Stage, making: Making, fold: int, changed: dict[str, Any], processes: Processes
) -> None:
    """Train a fold and write its results; of several processes the first one does what is told."""
    chosen, cache = making.settings, Cache(making.cache)
    about = {**settings.described(chosen), "fold": fold, **making.data_of_training}
    about |= {"identity": making.identity("train", fold), "versions": versions()}
    files = making.files("train", fold)
    folder = files[0].parent
    state_file = folder / "state.safetensors"
    waited = processes.first and stage.alone(making.outputs, folder, *files, state_file)
    if processes.broadcast(waited and making.as_it_was("train", fold)):
        if processes.first:
            tell_as_it_was(making, "train", fold)
        return
    data = load_fold(cache, fold, chosen)
    network = new_network(lambda: network_for(chosen), data, chosen.seed, fold)
    training = FoldTraining(network, data, fold, processes)
    if not processes.first:
        for _ in training.run(state_file, about["identity"]):
            pass
        return
    if told := left_out(cache):
        print(f"train: {told}", flush=True)
    tracker = stage.begin("train", making, cache.fingerprint, fold)
    train(training, state_file, about["identity"], tracker)
    stage.note(**changed, processes=processes.count, **data.beside.record())
    finish(stage, training, about, files, tracker)


def finish(
    stage: Stage,
    training: FoldTraining,
    about: dict[str, Any],
    files: list[Path],
    tracker: Tracker,
) -> None:
    """Write the results of a training that has ended, and say what it has come to."""
    chosen, fold, data, state = training.settings, training.fold, training.data, training.state
    used, folder = state.validation(chosen.weights), files[0].parent
    history = state.history_frame()
    resumed = history["seconds"][: state.resumed_at].sum()
    stage.note(earlier_seconds=resumed)
    write_results(stage, files, training, about)
    state.delete()
    tracker.artifact(f"weights-{chosen.results}-fold-{fold}", "model", *files[:3])
    print(
        f"{summary_table(history, state.validations, chosen.metric)}\n"
        f"train: {chosen.results} fold {fold}: validation {chosen.metric} "
        f"{used[chosen.metric]:.4f} ({chosen.weights} of {counted(training.epochs, 'epoch')}), "
        f"{len(data.train)} + {len(data.valid)} "
        f"{chosen.graphs}; wrote {folder}/"
    )


def train(training: FoldTraining, state_file: Path, identity: str, tracker: Tracker) -> None:
    """Train to the end; say how far it is now and then, and tell W&B of each epoch and the end."""
    chosen, seen = training.settings, ""
    lines = Lines(f"train: {chosen.results} fold {training.fold}", training.steps, "step")
    training.after_step = lambda steps: lines.at(steps, seen)
    for row in training.run(state_file, identity):
        tracker.log(epoch_point(row))  # those before a kill too, some of which it may have lost
        value = row.get(f"validation_{chosen.metric}")
        validated = "" if value is None else f", {chosen.metric} {value:.3f}"
        seen = f"loss {row['loss']:.3f}{validated}"
    log_graphs(tracker, training.state.validations, chosen.metric)


def write_results(
    stage: Stage, files: Sequence[Path], training: FoldTraining, about: dict[str, Any]
) -> None:
    """Write the results of a fold, weights, metrics and history: all of them, or none."""
    state, validations = training.state, training.state.validations
    used = validations[training.settings.weights]
    with stage.results(*files) as (best, last, metrics, epochs):
        weights = {"best": state.best_weights, "last": training.network.state_dict()}
        for path, kept in ((best, "best"), (last, "last")):
            tensor_file.save(path, weights[kept], {**about, "kept": kept, **validations[kept]})
        write_json(metrics, {**about, "validation": used, **validations})
        write_parquet(state.history_frame(), epochs)


if __name__ == "__main__":
    with one_line_errors(), Stage() as stage:
        main(stage, *asked)
