"""The devices that latencies are predicted on: those of the data, and this processor's.

What ``make calibrate`` has measured on a processor is kept with the results of the predictor, and
is used as long as the predictor is the one that it was made for.
"""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lib.files import tensor_file
from lib.files.artifacts import fingerprint_files, read_json
from lib.files.errors import DataError
from lib.files.schema import expect
from lib.programs.inputs import Programs, device_features, predict
from lib.programs.tensorir.records import DEVICE
from lib.scoring.trained import Ensemble

KEPT = "calibration"  # folder of the results, with one for each processor
FILE = "calibration.json"
CALIBRATED = {"like": str, "programs": int, "tuned": str}  # what a device has then
RECORD = {"weights": str, "devices": [{**DEVICE, **CALIBRATED}]}


def calibration_of(results: Path, processor: str) -> Path:
    """Return the path of the calibration of a processor.

    Args:
        results: folder of a collection and model.
        processor: its name.
    """
    return results / KEPT / re.sub(r"[^a-z0-9]+", "-", processor.lower()).strip("-") / FILE


def weights_of(folder: Path) -> str:
    """Return the fingerprint of the weights that a calibration is made for."""
    return fingerprint_files(folder.glob("fold_*/*.safetensors"), folder)


def known_devices(
    learned: Sequence[dict[str, Any]], results: Path, weights: Path
) -> list[dict[str, Any]]:
    """Return the devices that a predictor has learned from, and calibrated ones, in place of one of
    the same name.

    A calibrated one has what :data:`CALIBRATED` names: the learned device whose errors of whole
    networks are taken for its own; how many programs it was calibrated by; and of which tuned
    networks, if of any, predictions are.

    Args:
        learned: what the predictor has learned from.
        results: folder of a collection and model, with the calibrations.
        weights: folder of the predictor's networks, which is that of the results or bundled.

    Raises:
        DataError: a calibration is damaged.
    """
    devices = {device["name"]: device for device in learned}
    for path in sorted(results.glob(f"{KEPT}/*/{FILE}")):
        record = expect(read_json(path), RECORD, path, advice="make calibrate once more")
        if record["weights"] == weights_of(weights):
            devices |= {device["name"]: device for device in record["devices"]}
        else:
            print(
                f"{path}: for other weights, is not used; make calibrate once more", file=sys.stderr
            )
    return [*devices.values()]


def tuned_weights(results: Path, device: Mapping[str, Any]) -> Path:
    """Return the path of the networks that were tuned for a calibrated device."""
    return calibration_of(results, device["processor"]).with_name(f"{device['name']}.safetensors")


def tell(device: dict[str, Any]) -> None:
    """Say in one line that a device was calibrated, if it was."""
    if "tuned" in device:
        by = f"{device['programs']:,} programs measured there"
        print(f"{device['name']}: calibrated by {by}", file=sys.stderr)


def predicted_seconds(
    ensemble: Ensemble, programs: Programs, device: Mapping[str, Any]
) -> np.ndarray:
    """Return (n,) seconds of programs, to be added up or compared: exp of the mean of the networks'
    logarithms, as ``in_sums`` of ``predictions.csv`` has it.

    Args:
        ensemble: the folds.
        programs: n.
        device: one of :func:`known_devices`.
    """
    features, size = device_features([device]), ensemble.settings.batch
    logs = [
        predict(network, programs, features, size)[:, 0] for network in ensemble.networks.values()
    ]
    return np.exp(np.mean(logs, axis=0))


def on_device(ensemble: Ensemble, device: Mapping[str, Any], results: Path) -> Ensemble:
    """Return the networks that predict on a device: the ensemble's, or calibrated ones.

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
