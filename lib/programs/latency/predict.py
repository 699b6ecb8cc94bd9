"""Predicted seconds of a network's programs, and the fastest of each task."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lib.cache.reader import Cache
from lib.files import tensor_file
from lib.files.errors import DataError, UserError
from lib.files.schema import expect
from lib.programs.devices import tuned_weights
from lib.programs.inputs import Programs, device_features, devices_of, predict
from lib.programs.settings import ProgramCollection
from lib.programs.tensorir.records import DEVICE
from lib.scoring.trained import Ensemble, load_networks
from lib.scoring.weights import weights_in
from lib.settings import Settings, root_of, settings_for
from lib.tpugraphs.roots import DataRoot


def predictor_settings(
    collection: str, data: Path | None, model: str | None, experiment: str = ""
) -> tuple[DataRoot, Settings]:
    """The data root that a predictor learned from, and its settings.

    Args:
        collection: its name.
        data: the root, if not the collection's own.
        model: of the predictor, if not the collection's own.
        experiment: that it is of, if that has a name.
    """
    root = root_of(collection, data)
    values = {"model": model} if model else {}
    return root, settings_for(collection, root.dataset, {**values, "experiment": experiment})


def predictor_in(outputs: Path, settings: Settings) -> tuple[Ensemble, list[dict[str, Any]], Path]:
    """The networks of a collection of programs, one's own or the bundled ones, which need no cache;
    the devices that they have learned from, and their folder.

    Raises:
        UserError: it is no such collection, or nothing is trained.
        DataError: the networks are of another cache.
    """
    collection = settings.collection
    if not isinstance(settings, ProgramCollection):
        raise UserError(f"latency: of tensor programs, and {collection} is of kind {settings.kind}")
    results = outputs / settings.results
    folder = weights_in(results, settings)
    ensemble = load_networks(folder, type(settings), {"model": settings.model})
    if folder == results:
        cache = Cache(outputs / settings.cache)
        if ensemble.data != cache.fingerprint:
            advice = "this one's: train again"
            raise DataError(folder, "data", "another cache's fingerprint", advice)
        return ensemble, devices_of(cache), folder
    path = next(folder.glob("fold_*/*"))
    known = expect(tensor_file.read_about(path), {"devices": [DEVICE]}, path, advice="make weights")
    make = f"make all COLLECTION={collection}"
    print(f"{folder}: bundled networks predict; {make} trains your own", file=sys.stderr)
    return ensemble, known["devices"], folder


def predicted_seconds(
    ensemble: Ensemble, programs: Programs, device: Mapping[str, Any]
) -> np.ndarray:
    """(n,) seconds that each program takes, to be added up or compared: exp of the mean of the
    networks' logarithms, as ``in_sums`` of ``predictions.csv`` has it, and calibrated.

    Args:
        ensemble: the folds.
        programs: n.
        device: one of :func:`lib.programs.devices.known_devices`.
    """
    features, size = device_features([device]), ensemble.settings.batch
    logs = [
        predict(network, programs, features, size)[:, 0] for network in ensemble.networks.values()
    ]
    return np.exp(np.mean(logs, axis=0)) * device.get("factor", 1.0)


def on_device(ensemble: Ensemble, device: Mapping[str, Any], results: Path) -> Ensemble:
    """The networks that predict on a device: the ensemble's, or what calibration made of them.

    Raises:
        DataError: these are missing, damaged, or others than the calibration's.
    """
    if not device.get("tuned"):
        return ensemble
    path = tuned_weights(results, device)
    tensors, metadata = tensor_file.load(path)
    if metadata.get("tuned") != device["tuned"]:
        raise DataError(path, "tuned", "other networks", "the calibration's; make calibrate")
    networks = copy.deepcopy(ensemble.networks)
    for fold, network in networks.items():
        of_fold = {name: tensor for name, tensor in tensors.items() if name.startswith(f"{fold}.")}
        weights = {name.partition(".")[2]: tensor for name, tensor in of_fold.items()}
        tensor_file.load_into(network, path, weights)
    return replace(ensemble, networks=networks)


def fastest(seconds: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """(tasks,) the program of each task that takes least; the first of equal ones.

    Args:
        seconds: (n,) of each program.
        owner: (n,) ascending, which task each is of; every task has one.
    """
    order = np.lexsort((np.arange(len(owner)), seconds, owner))
    return order[np.unique(owner[order], return_index=True)[1]]
