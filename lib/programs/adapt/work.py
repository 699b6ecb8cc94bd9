"""The two things that ``make adapt`` does: another device, or other networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from lib.cache.reader import Cache
from lib.files.artifacts import atomic_file, read_json, write_json
from lib.files.errors import DataError
from lib.programs.adapt.case import Case, load_case
from lib.programs.adapt.device import (
    CORRECTED,
    OTHERS,
    SIZE,
    FineTuning,
    Predictions,
    by_baselines,
    by_correction,
    by_fine_tuning,
    report,
)
from lib.programs.adapt.judge import COUNT, judged, text_of
from lib.programs.adapt.network import NetworkCase, load_network_case
from lib.programs.adapt.source import source_network
from lib.programs.adapt.tasks import LISTED, choose, write_tasks
from lib.programs.adapt.tuning import AdaptFold, fine_tune
from lib.programs.inputs import Programs, devices_of, predict
from lib.programs.metrics import MAPE
from lib.programs.settings import ProgramCollection
from lib.runs.provenance import run_identity, versions
from lib.scoring.trained import load_networks
from lib.settings import described

METRICS, PREDICTIONS = "metrics.json", "predictions.csv"
DIGITS = 6  # of a predicted latency
BEFORE, AFTER = "the predictor of stage 2", "fine-tuned towards the networks"


@dataclass(frozen=True, eq=False)
class Work:
    """What both have.

    Attributes:
        cache: of the programs.
        settings: of the model.
        folder: for the results.
        tuning: how networks are fine-tuned.
        fold: whose training programs are the source.
        draw: part of every seed.
    """

    cache: Cache
    settings: ProgramCollection
    folder: Path
    tuning: FineTuning
    fold: int
    draw: int

    def identity(self, *parts: Any) -> str:
        """Fingerprint of what a result depends on."""
        about = [described(self.settings), asdict(self.tuning), self.fold, self.draw]
        about += [self.cache.fingerprint, versions(), *parts]
        return run_identity(about, self.settings, "lib/programs/adapt/__main__.py")


def adapt_to_device(
    work: Work, target: str, sources: Sequence[str] | None, choice: Mapping[str, Any]
) -> str:
    """Predict every program on a device of the data, from the chosen tasks' latencies there.

    Returns:
        The text to print. Of a run that was done before, it is made from its files.
    """
    case = load_case(work.cache, target, sources)
    identity = work.identity("device", case.names, dict(choice))
    if (record := _done(work.folder, identity)) is None:
        measured = np.isfinite(case.programs.seconds[:, -1])
        among = np.bincount(case.programs.task[measured], minlength=len(case.programs.tasks)) > 0
        chosen = choose(case.programs, among, choice)
        predictions = _predicted(work, case, chosen, identity)
        names = [case.programs.tasks[k] for k in chosen]
        record = {
            "identity": identity,
            "device": case.names[-1],
            "sources": list(case.names[:-1]),
            "tasks": names,
            "results": report(case, chosen, predictions),
        }
        write_tasks(work.folder / LISTED, names)
        _write(work.folder, _device_table(work, case, chosen, predictions), record)
    (headline,) = (
        row for row in record["results"] if (row["section"], row["method"]) == (OTHERS, CORRECTED)
    )
    shown = f"{CORRECTED}: MAPE {MAPE.plain(headline.get(MAPE.key))} of {headline[COUNT]:,.0f}"
    return (
        f"{text_of(record['results'])}\n"
        f"adapt: {record['device']} from {len(record['sources'])} devices and "
        f"{len(record['tasks'])} tasks: {shown} latencies of other tasks; wrote {work.folder}/"
    )


def _predicted(work: Work, case: Case, chosen: np.ndarray, identity: str) -> Predictions:
    """Each method's predictions; no method is given latencies that are not known."""
    visible = case.visible(chosen)
    folder = work.folder.parent / "sources"
    network, _ = source_network(case, work.cache, work.settings, work.fold, folder)
    predictions = by_baselines(visible, network) | by_correction(visible, network, work.draw)
    state = work.folder / "state.safetensors"
    return predictions | by_fine_tuning(
        visible, network, work.settings, work.tuning, work.draw, state, identity
    )


def adapt_to_networks(work: Work, pattern: str) -> str:
    """Fine-tune stage 2's network of a fold towards networks that it has not seen, and judge it."""
    folder = work.folder.parent.parent
    ensemble = load_networks(folder, type(work.settings), {"model": work.settings.model})
    if ensemble.data != work.cache.fingerprint:
        raise DataError(folder, "data", "another cache's fingerprint", "this one's: train again")
    case = load_network_case(ensemble, work.cache, pattern)
    identity = work.identity("networks", pattern, described(ensemble.settings), case.fold)
    if (record := _done(work.folder, identity)) is None:
        before = _every(case)
        chosen = work.tuning.of(ensemble.settings)
        data = AdaptFold(case.source, None, case.target, work.tuning.alpha, chosen)
        state = work.folder / "state.safetensors"
        fine_tune(case.network, data, work.draw, state, identity)
        logs = {BEFORE: before, AFTER: _every(case)}
        first, every = case.target.programs.first, np.ones(len(before), bool)
        section = ", ".join(case.names)
        results = [
            {"section": section, "method": name, **judged(predicted, case.truth, first, every)}
            for name, predicted in logs.items()
        ]
        record = {
            "identity": identity,
            "networks": list(case.names),
            "fold": case.fold,
            "results": results,
        }
        _write(work.folder, _network_table(work, case, logs[AFTER]), record)
    shown = ", then ".join(MAPE.plain(row.get(MAPE.key)) for row in record["results"])
    return (
        f"{text_of(record['results'])}\n"
        f"adapt: fold {record['fold']} towards {len(record['networks'])} networks: MAPE {shown}; "
        f"wrote {work.folder}/"
    )


def _every(case: NetworkCase) -> np.ndarray:
    """(n, d) what the predictor says of the networks' programs."""
    return predict(case.network.eval(), case.target.programs, case.target.devices, SIZE)


def _done(folder: Path, identity: str) -> dict[str, Any] | None:
    """The results of an earlier run of this identity, if its files are there."""
    path = folder / METRICS
    if not (path.exists() and (folder / PREDICTIONS).exists()):
        return None
    try:
        record = read_json(path)
    except DataError:
        return None
    return record if isinstance(record, dict) and record.get("identity") == identity else None


def _write(folder: Path, table: pl.DataFrame, record: dict[str, Any]) -> None:
    """The metrics come last: they say that all is there."""
    (folder / METRICS).unlink(missing_ok=True)
    with atomic_file(folder / PREDICTIONS) as temporary:
        table.write_csv(temporary)
    write_json(folder / METRICS, record)


def _device_table(
    work: Work, case: Case, chosen: np.ndarray, predictions: Predictions
) -> pl.DataFrame:
    """A row for each program on the target; without a latency where it was not measured."""
    names = {case.programs.tasks[k] for k in chosen}
    frames = []
    for programs, logs in zip((case.programs, case.test), predictions[CORRECTED], strict=True):
        for number, name in enumerate(programs.tasks):
            rows = slice(programs.first[number], programs.first[number + 1])
            split = "chosen" if name in names else work.cache.rows[name]["split"]
            frames.append(
                _rows(work.cache, name, split, case.numbers[-1:], logs[rows, None], case.names[-1:])
            )
    return pl.concat(frames)


def _network_table(work: Work, case: NetworkCase, logs: np.ndarray) -> pl.DataFrame:
    """A row for each program of the networks on each device."""
    names = [device["name"] for device in devices_of(work.cache)]
    programs: Programs = case.target.programs
    return pl.concat(
        _rows(
            work.cache,
            name,
            "target",
            range(len(names)),
            logs[programs.first[number] : programs.first[number + 1]],
            names,
        )
        for number, name in enumerate(programs.tasks)
    )


def _rows(
    cache: Cache,
    name: str,
    split: str,
    numbers: Sequence[int],
    logs: np.ndarray,
    devices: Sequence[str],
) -> pl.DataFrame:
    """``split, task, program, device, prediction, latency`` of a task on some devices.

    Args:
        cache, name, split: of the task.
        numbers: of the devices in the cache.
        logs: (distinct programs, devices) predicted.
        devices: their names.
    """
    task = cache.graph(name)
    frames = []
    for place, number in enumerate(numbers):
        latency = np.full(len(task.program), np.nan, np.float32)
        measured = task.device == number
        latency[task.owner[measured]] = task.seconds[measured]
        frame = pl.DataFrame(
            {
                "split": split,
                "task": name,
                "program": task.program,
                "device": devices[place],
                "prediction": np.exp(logs[task.original, place]),
                "latency": latency,
            }
        )
        shown = pl.col("prediction").round_sig_figs(DIGITS), pl.col("latency").fill_nan(None)
        frames.append(frame.with_columns(*shown))
    return pl.concat(frames)
