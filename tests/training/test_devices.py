"""Tensors of two devices meet nowhere: every model trains, resumes and scores on another device.

No card is needed: ``tests/other_device.py`` pretends to be one. It sees a buffer or a batch that
was not moved, an index or a number from the CPU, ``numpy()`` of what is elsewhere, an optimizer's
state that a checkpoint left on the CPU, and where a GPU is waited for. Its numbers are real, so
that code that depends on values runs, and results are compared to the bit.

Torch's own ways see less. ``meta`` tensors and ``FakeTensorMode`` have no values: training ends at
the first ``unique``, validation at its scores. Without CUDA in torch, no network moves to a fake
``cuda`` either.

None of them sees operators without a CUDA kernel, or whose kernel rounds otherwise, CUDA's
``torch_scatter``, copies that have not arrived yet, memory, and speed: ``python -m tests.gpu``
does, on a card.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from lib import native
from lib.cache.reader import Cache
from lib.files import tensor_file
from lib.models.common import build, chunks
from lib.programs.calibrate import tuning
from lib.programs.inputs import device_features
from lib.runs.stage import stage_script
from lib.scoring.infer import infer_of
from lib.settings import MODELS
from lib.training.fold import Batch, load_fold
from tests import kernels
from tests.builders import cache_of
from tests.other_device import OTHER, OtherDevice
from tests.programs import builders as programs
from tests.programs.calibrate.test_fit import untrained
from tests.training.test_split import OWN, names_of, write_cache
from tests.training_loop import Training, timeless

TINY = {
    **{"folds_total": 2, "epochs": 2, "save_seconds": 0.0, "precision": "float32"},
    **{"configurations": 8, "inference_configurations": 4, "kernels": 1},
    **{"channels": 16, "heads": 2, "layers": 1, "context_channels": 16},
}
OWN_VALUES = {
    "tgraph": {"permutations": 2},
    "tgraph-plus": {"pretraining": 3},
    "gst": {"segment_nodes": 4, "trained_segments": 1},
    "partitioning": {"trained_nodes": 5},
}
COLLECTIONS = {"layout": OWN, "tile": kernels.COLLECTION, "programs": programs.COLLECTION}
KIND = {model: kind for kind in COLLECTIONS for model in MODELS[kind]}


def settings_of(model: str) -> Any:
    """Settings of a run of milliseconds."""
    kind = MODELS[KIND[model]][model]
    known = {field.name for field in fields(kind) if field.init}
    given = {name: value for name, value in TINY.items() if name in known}
    return kind(COLLECTIONS[KIND[model]], **{**given, **OWN_VALUES.get(model, {})})


@pytest.fixture(scope="module")
def caches(tmp_path_factory) -> dict[str, Cache]:
    folder = tmp_path_factory.mktemp("caches")
    splits = enumerate(["train"] * 4 + ["test"])
    made = (kernels.cached_kernel(f"k{number}", number, split) for number, split in splits)
    tiles = cache_of(folder / "tile", made, "tile")
    layouts = write_cache(folder / "layouts", OWN, names_of(4, 2, 2))
    of_programs = programs.write_programs(folder / "programs", tasks=8)
    return {"layout": layouts, "tile": tiles, "programs": of_programs}


@pytest.fixture(autouse=True)
def torch_alone(monkeypatch):
    """The CPU computes by the operators that the other device has, and attention by the same."""
    monkeypatch.setattr(native, "takes", lambda like: False)
    with sdpa_kernel(SDPBackend.MATH):
        yield


@pytest.fixture
def other(monkeypatch):
    """The other device, on which networks are from now on."""
    monkeypatch.setattr(build, "resolve_device", lambda name: OTHER)
    with OtherDevice() as device:
        yield device


def trained(cache: Cache, settings: Any, folder: Path, killed_in: int | None = None) -> Training:
    """A training of fold 0, killed in an epoch if one is given."""
    folder.mkdir(exist_ok=True)
    training = Training(load_fold(cache, 0, settings), 0, folder / "state.safetensors", "a")
    for row in training.run():
        if row["epoch"] == killed_in:
            break
    return training


def scores(training: Training, cache: Cache, folder: Path) -> pl.DataFrame:
    """What stage 3 makes of the weights in a file."""
    settings, file = training.data.settings, folder / "last.safetensors"
    tensor_file.save(file, training.network.state_dict(), {})
    network = build.network_for(settings)
    tensor_file.load_into(network, file, tensor_file.load(file)[0])
    scoring, permuted_scores = infer_of(settings), stage_script("infer").permuted_scores
    wanted = scoring.to_score(cache, 0, settings)
    return pl.concat(scoring.frames(network, cache, wanted, settings, permuted_scores))


# Their code is that of ``gst`` and ``partitioning``.
@pytest.mark.parametrize("model", sorted(KIND.keys() - {"gat", "pooling"}))
def test_trained_killed_resumed_and_scored(caches, tmp_path, model, request):
    cache, settings = caches[KIND[model]], settings_of(model)
    expected = trained(cache, settings, tmp_path / "cpu")
    expected_scores = scores(expected, cache, tmp_path / "cpu")
    request.getfixturevalue("other")
    trained(cache, settings, tmp_path / "other", killed_in=2)
    found = trained(cache, settings, tmp_path / "other")
    assert found.checkpoint.resumed_at == 1
    for name, tensor in found.network.state_dict().items():
        assert tensor.device == OTHER, name
        assert torch.equal(tensor.cpu(), expected.network.state_dict()[name]), name
    assert timeless(found.checkpoint.history) == timeless(expected.checkpoint.history)
    assert scores(found, cache, tmp_path / "other").equals(expected_scores)


@pytest.mark.parametrize("model", ["tgraph", "tgraph-plus", "tile"])
def test_no_step_waits_for_the_device_and_validation_once_a_graph(caches, tmp_path, other, model):
    data, waits = load_fold(caches[KIND[model]], 0, settings_of(model)), []
    made = Training(data, 0, tmp_path / "state", "a")
    stage_2 = stage_script("train").train(
        *(made.network, made.optimizer, data, 0, made.checkpoint),
        after_step=lambda step: waits.append(len(other.waits)),
    )
    next(stage_2)
    assert waits[-1] == waits[0], other.waits[waits[0] : waits[-1]]
    assert len(waits) > 1
    before = len(other.waits)
    data.validate(made.network.eval())  # whose graphs have several batches
    assert len(other.waits) - before == len(data.valid), other.waits[before:]


def test_a_predictor_is_calibrated(tmp_path, other, monkeypatch):
    for name, count in {"PASSES": 1, "CMD_PASSES": 1, "STEPS": 2}.items():
        monkeypatch.setattr(tuning, name, count)
    settings = settings_of("cdmpp")
    network, learned, device = untrained(tmp_path, settings)
    source = tuning.Source(learned, device_features([device]))
    by_cmd = tuning.tuned_by_cmd(network, learned, device, source, settings)
    for made in (tuning.tuned(network, learned, device), by_cmd):
        assert {tensor.device for tensor in made.state_dict().values()} == {OTHER}


def left_where_they_are(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Load the moments of a checkpoint without moving them."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    optimizer.state.update({weights[k]: moments for k, moments in state["state"].items()})


FAULTS: dict[str, tuple[object, str, Callable[..., Any]]] = {
    "runtimes stay": (Batch, "to", lambda self, to: replace(self, inputs=self.inputs.to(to))),
    "numpy of what is elsewhere": (
        chunks,
        "scores_of",
        lambda score, rows, *_, **__: score(rows).detach().numpy(),
    ),
    "moments stay": (torch.optim.Optimizer, "load_state_dict", left_where_they_are),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(caches, tmp_path, other, monkeypatch, fault):
    monkeypatch.setattr(*FAULTS[fault])
    with pytest.raises((RuntimeError, TypeError), match=r"cpu, others on other|numpy"):
        for killed_in in (2, None):
            trained(caches["layout"], settings_of("tgraph"), tmp_path, killed_in)
