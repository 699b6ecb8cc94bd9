"""GST and its baselines through make, beside TGraph, on synthetic data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lib.cache.reader import Cache
from lib.files.artifacts import read_json
from tests.builders import COLLECTION
from tests.stages import SCRIPTS, make, run_stage, stages_in
from tests.synthetic import write_collection

SMALL = ["--folds-total", 2, "--configurations", 8]
ATTENTION = [*SMALL, "--channels", 8, "--heads", 2]
FLAGS = {
    "gst": [*ATTENTION, "--segment-nodes", 8, "--trained-segments", 2, "--segment-dropout", 0.3],
    "tgraph-plus": [*SMALL, "--channels", 8, "--pretraining", 20],
}


def results(model: str) -> str:
    """The folder of a model's results: the default one has the plain name."""
    return COLLECTION if model == "tgraph-plus" else f"{COLLECTION}@{model}"


class Outputs:
    """A data root and the folder that models put their results in."""

    def __init__(self, root: Path):
        self.data, self.folder = root / "data", root / "outputs"
        write_collection(self.data, COLLECTION, train=6, valid=2, test=2)

    def make(self, *arguments: str, model: str, **variables: object) -> str:
        given = {"DATA": self.data, "OUTPUTS": self.folder, "FOLDS": 1, "EPOCHS": 2}
        given |= {"MODEL": model, "JOBS": 1}
        flags = " ".join(map(str, FLAGS[model]))
        return make(*arguments, **{**given, "ARGS": flags, **variables})


@pytest.fixture(scope="module")
def outputs(tmp_path_factory) -> Outputs:
    made = Outputs(tmp_path_factory.mktemp("whole"))
    made.said = {model: made.make("all", model=model) for model in FLAGS}
    return made


def test_models_lie_side_by_side_and_share_the_cache(outputs):
    assert stages_in(outputs.said["gst"]) == list(SCRIPTS)
    assert stages_in(outputs.said["tgraph-plus"]) == list(SCRIPTS)
    names = {path.name for path in outputs.folder.iterdir() if path.name[0] != "."}
    assert names == {results(model) for model in FLAGS}
    for model in FLAGS:
        assert stages_in(outputs.make("all", model=model)) == []
        folder = outputs.folder / results(model)
        assert {path.name for path in (folder / "fold_0").iterdir()} == {
            "model.safetensors",
            "last.safetensors",
            "history.parquet",
            "metrics.json",
        }
        assert (folder / "submission.csv").read_text().count("\n") == 3
        metrics = read_json(folder / "metrics.json")
        assert len(metrics["validation"]["graphs"]) == 4


def test_the_cache_has_every_node_in_its_order(outputs):
    cache = Cache(outputs.folder / COLLECTION / "cache-all")
    for name in cache.names("train"):
        graph, row = cache.graph(name), cache.rows[name]
        assert row["nodes"] == row["source_nodes"] == 30
        assert row["edges"] == row["source_edges"]
        assert (graph.edges[:, 0] > graph.edges[:, 1]).all()  # operands first, as in the source
        assert graph.node_splits.tolist() == [0, 30]


@pytest.mark.parametrize("model", ["gst", "tgraph-plus"])
def test_one_program_is_ranked_by_a_model(outputs, model):
    path = outputs.data / "npz/layout/xla/default/test/test_0.v1.0.npz"
    flags = ["--outputs", outputs.folder, path, "--model", model, "--top", 20, "--json"]
    done = run_stage("lib.scoring.rank", *flags)
    assert done.returncode == 0, done.stderr
    order = ";".join(str(one["config"]) for one in json.loads(done.stdout)["top"])
    rows = (outputs.folder / results(model) / "submission.csv").read_text().splitlines()
    assert rows[1].endswith(f",{order}")
