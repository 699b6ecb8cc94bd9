"""Stage 2: train the network of one fold.

Reads   <outputs>/<collection>/cache/
Writes  <outputs>/<collection>[@<model>]/fold_<k>/: model.safetensors (the best epoch's weights),
        last.safetensors, metrics.json and history.parquet
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))  # where PYTHONSAFEPATH has left it out

from lib.cache.reader import Cache
from lib.files import tensor_file
from lib.files.artifacts import write_json
from lib.files.parquet import write_parquet
from lib.files.progress import Lines
from lib.files.terminal import counted
from lib.models.common.input import input_of
from lib.models.common.precision import resolve_device
from lib.runs.memory import memory_errors
from lib.runs.stage import Stage, run
from lib.runs.tracking import epoch_point
from lib.runs.turns import turn_on
from lib.training.checkpoint import Checkpoint
from lib.training.fold import Fold, load_fold, new_network, optimizer_of, seed_torch
from lib.training.schedule import learning_rate, passes_of
from lib.training.split import left_out
from lib.training.summary import log_validations, summary_table


def main(stage: Stage) -> None:
    """Train one fold, or go on where a killed run of it stopped, and write its results."""
    settings, fold = stage.settings, stage.fold
    torch.set_num_threads(settings.threads)
    device = resolve_device(settings.device)
    print(f"train: {stage.resolved.choice()}", flush=True)
    with turn_on(device, stage.run.outputs, fold):
        cache = Cache(stage.run.cache)
        if graphs := left_out(cache):
            print(f"train: {graphs}", flush=True)
        data = load_fold(cache, fold, settings)
        network = new_network(data, settings.seed, fold)  # standardized, and pretrained if it is
        optimizer = optimizer_of(network, settings)
        state = stage.files[0].parent / "state.safetensors"
        identity = stage.run.identity("train", fold)
        checkpoint = Checkpoint(state, network, optimizer, data, identity)
        stage.begin(cache.fingerprint)
        tracker = stage.track()

        label = f"train: {settings.results} fold {fold}"
        lines = Lines(label, total_steps(data), "step")
        less = input_of(settings).takes_less
        with memory_errors(f"a step of {settings.model}", less, device):
            for row in train(network, optimizer, data, fold, checkpoint, lines.at):
                tracker.log(epoch_point(row))  # those before a kill too, which it may have lost
                metric = f"validation_{settings.metric}"
                names = {"loss": "loss", settings.metric: metric}
                found = {name: row.get(key) for name, key in names.items()}
                lines.note(", ".join(f"{k} {v:.3f}" for k, v in found.items() if v is not None))
    write_results(stage, cache, network, data, checkpoint)


def train(
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: Fold,
    fold: int,
    checkpoint: Checkpoint,
    after_step: Callable[[int], None] = lambda step: None,
) -> Iterator[dict[str, float]]:
    """Train to the end, yielding a row of numbers an epoch, those of earlier runs first.

    Everything random is drawn from (seed, fold, epoch), so that a run that is killed and resumed
    ends with the same bits. A run whose loss is no longer finite stops after that epoch: nothing
    later can be of use (the paper drops such a fold by its validation score).

    Args:
        network, optimizer: as they are new, or as the checkpoint left them.
        data: graphs to draw from; what its methods do for a model is in lib/models/<model>/.
        fold: its number.
        checkpoint: history and validations, and what a killed run goes on from.
        after_step: gets the number of steps that are done.
    """
    settings, device = data.settings, next(network.parameters()).device
    steps_per_epoch, steps = data.steps(), total_steps(data)
    epochs = passes_of(settings, steps_per_epoch)  # 17.5: the last epoch is half a pass
    last = math.ceil(steps / steps_per_epoch if steps else epochs)
    yield from checkpoint.history

    for epoch in range(checkpoint.epochs, last):
        started = time.perf_counter()
        generator = np.random.default_rng([settings.seed, fold, epoch])
        seed_torch(generator)  # for dropout
        network.train()
        losses, norms, configurations, rate = [], [], 0, 0.0
        first = epoch * steps_per_epoch
        for step, group in zip(range(first, steps), data.groups(generator), strict=False):
            batch = data.draw(group, generator, first / steps).to(device)
            scores = network(batch.inputs)  # (b,) or (members, b): lower is faster
            loss = batch.loss(scores)  # of a model's members, the sum of theirs

            rate = learning_rate(
                step, steps, settings.learning_rate, settings.warmup, settings.schedule
            )
            for parameters in optimizer.param_groups:
                parameters["lr"] = rate
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(network.parameters(), settings.gradient_clip)
            optimizer.step()

            data.after_step()
            after_step(step + 1)
            configurations += batch.size
            losses.append(loss.detach())  # read after the epoch, so that no GPU is waited for
            norms.append(norm)

        row = {"epoch": type(epochs)(min(epoch + 1, epochs))}  # passes; whole if all are
        if losses:
            row["loss"] = float(np.mean(torch.stack(losses).tolist()))
            row["gradient_norm"] = float(np.mean(torch.stack(norms).tolist()))
            row["learning_rate"] = rate
        trained = time.perf_counter()
        row["configurations_per_second"] = configurations / (trained - started)
        if (epoch + 1) % settings.validate_every == 0 or epoch + 1 == last:
            row |= checkpoint.keep_if_best(row["epoch"], data.validate(network.eval()))
        row["validation_seconds"] = time.perf_counter() - trained
        row["seconds"] = time.perf_counter() - started
        checkpoint.add(row)
        yield row
        if not math.isfinite(row.get("loss", 0.0)):
            checkpoint.validations["last"] = {}  # it may be an earlier epoch's
            break
        checkpoint.save_if_due()
    checkpoint.validate_whole()


def total_steps(data: Fold) -> int:
    """Return the number of steps of a training; none of a network that is solved for."""
    return max(min(1, data.steps()), round(passes_of(data.settings, data.steps()) * data.steps()))


def write_results(
    stage: Stage, cache: Cache, network: nn.Module, data: Fold, checkpoint: Checkpoint
) -> None:
    """Write weights, metrics and history: all of them, or none; and print a summary."""
    settings, fold, validations = stage.settings, stage.fold, checkpoint.validations
    used = checkpoint.validation(fold)  # by the weights that stage 3 takes
    metadata = stage.result_metadata(cache.fingerprint)
    metadata |= {"fold": fold, **stage.run.data_of_training}
    history = checkpoint.history_frame()
    stage.note(earlier_seconds=history["seconds"][: checkpoint.resumed_at].sum())
    with stage.results() as (best, last, metrics, epochs):
        weights = {"best": checkpoint.best_weights, "last": network.state_dict()}
        for path, kept in ((best, "best"), (last, "last")):
            tensor_file.save(path, weights[kept], {**metadata, "kept": kept, **validations[kept]})
        write_json(metrics, {**metadata, "validation": used, **validations})
        write_parquet(history, epochs, {"identity": metadata["identity"]})
    checkpoint.delete()

    tracker, name = stage.tracker, f"weights-{settings.results}-fold-{fold}"
    log_validations(tracker, validations, settings.metric)
    tracker.artifact(name, "model", *stage.files[:3])
    print(
        f"{summary_table(history, validations, settings.metric)}\n"
        f"train: {settings.results} fold {fold}: validation {settings.metric} "
        f"{used[settings.metric]:.4f} ({settings.weights} of "
        f"{counted(passes_of(settings, data.steps()), 'epoch')}), "
        f"{len(data.train)} + {len(data.valid)} {settings.graphs}; wrote {stage.files[0].parent}/"
    )


if __name__ == "__main__":
    run("train", main, __doc__)
