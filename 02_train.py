"""Stage 2: train the network of one fold.

Reads   <outputs>/<collection>/cache/
Writes  <outputs>/<collection>[@<model>]/fold_<k>/{model,last}.safetensors, history.parquet and
        metrics.json
"""

from __future__ import annotations

from lib.runs.begin import one_line_errors  # before all others, which take seconds

# isort: split
import math

import torch
from tqdm import tqdm

from lib import settings
from lib.cache.reader import Cache
from lib.files import checkpoint
from lib.files.artifacts import atomic_files, write_json
from lib.files.errors import UserError
from lib.files.parquet import write_parquet
from lib.inputs.networks import network_for
from lib.runs.provenance import run_identity, versions
from lib.runs.stage import Stage
from lib.runs.tracking import epoch_point
from lib.train.finished import is_trained
from lib.train.kinds import load_fold
from lib.train.loop import FoldTraining, new_network
from lib.train.summary import log_graphs, summary_table

RESULTS = ("model.safetensors", "last.safetensors", "metrics.json", "history.parquet")


def main(stage: Stage) -> None:
    """Train one fold, or go on where a killed run of it stopped."""
    parser = settings.parser(__doc__)
    parser.add_argument("--fold", type=int, required=True, help="which fold to leave out, from 0")
    parser.add_argument("--folds", type=int, help="how many are trained in all, one after another")
    args = parser.parse_args()
    chosen, _ = settings.resolve(args)
    torch.set_num_threads(chosen.threads)

    folder = args.outputs / chosen.results / f"fold_{args.fold}"
    cache = Cache(args.outputs / chosen.cache)
    about = {**settings.described(chosen), "fold": args.fold, "data": cache.fingerprint}
    identity = run_identity(about)
    about |= {"identity": identity, "versions": versions()}
    files = [folder / name for name in RESULTS]
    if stage.alone(args.outputs, folder, *files) and is_trained(files, about):
        print(f"train: {chosen.results} fold {args.fold}: trained by that run, in {folder}/")
        return
    data = load_fold(cache, args.fold, chosen)
    network = new_network(lambda: network_for(chosen), data, chosen.seed, args.fold)
    training = FoldTraining(network, data, chosen, args.fold)

    state = folder / "state.safetensors"
    tracker = stage.begin("train", args.outputs, chosen, cache.fingerprint, args.fold, about)
    total, metric = math.ceil(chosen.epochs), chosen.metric
    epochs = training.run(state, identity)
    bar = tqdm(epochs, total=total, desc=f"fold {args.fold}", unit="epoch", disable=None)
    for row in bar:
        if row["epoch"] > training.resumed_at:
            tracker.log(epoch_point(row))
        shown = {metric: row.get(f"validation_{metric}")}
        bar.set_postfix(loss=f"{row['loss']:.3f}", **shown)
    validation = {"best": training.progress.best, "last": training.progress.last}
    used = validation[chosen.weights]
    if not used:
        raise UserError(f"fold {args.fold} diverged: lower --learning-rate, or --weights best")
    log_graphs(tracker, validation, metric)
    history = training.history()
    stage.note(earlier_seconds=history["seconds"][: training.resumed_at].sum())

    with atomic_files(*files) as (best, last, metrics, epochs_table):
        checkpoint.save(best, training.best, {**about, **validation["best"]})
        checkpoint.save(last, network.state_dict(), {**about, **validation["last"]})
        write_json(metrics, {**about, "validation": used, **validation})
        write_parquet(history, epochs_table)
    training.end(state)
    tracker.artifact(f"weights-{chosen.results}-fold-{args.fold}", "model", *files[:3])
    print(
        f"{summary_table(history, validation, metric)}\n"
        f"train: {chosen.results} fold {args.fold}: validation {metric} {used[metric]:.4f} "
        f"({chosen.weights} of {chosen.epochs} epochs), {len(data.train)} + {len(data.valid)} "
        f"graphs; wrote {folder}/"
    )


if __name__ == "__main__":
    with one_line_errors(), Stage() as stage:
        main(stage)
