"""GST, which learns from whole graphs, through make on synthetic data."""

from __future__ import annotations

import json

import pytest

from lib.cache.reader import Cache
from lib.files.artifacts import read_json
from tests.builders import COLLECTION
from tests.stages import SCRIPTS, make, run_stage, stages_in
from tests.synthetic import write_collection

FLAGS = (
    "--folds-total 2 --configurations 8 --channels 8 --heads 2 --segment-nodes 8 "
    "--trained-segments 2 --segment-dropout 0.3"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The data root, the folder of outputs, and what make said."""
    root = tmp_path_factory.mktemp("whole")
    data, outputs = root / "data", root / "outputs"
    write_collection(data, COLLECTION, train=6, valid=2, test=2)
    given = {"DATA": data, "OUTPUTS": outputs, "MODEL": "gst", "ARGS": FLAGS}
    return data, outputs, make("all", **given, FOLDS=1, EPOCHS=2, JOBS=1)


def test_every_stage_ran_and_the_results_have_the_models_name(made):
    _, outputs, said = made
    assert stages_in(said) == list(SCRIPTS)
    names = {path.name for path in outputs.iterdir() if path.name[0] != "."}
    assert names == {COLLECTION, f"{COLLECTION}@gst"}
    folder = outputs / f"{COLLECTION}@gst"
    assert (folder / "submission.csv").read_text().count("\n") == 3
    assert len(read_json(folder / "metrics.json")["validation"]["graphs"]) == 4


def test_the_cache_has_every_node_in_its_order(made):
    cache = Cache(made[1] / COLLECTION / "cache-all")
    for name in cache.names("train"):
        graph, row = cache.graph(name), cache.rows[name]
        assert row["nodes"] == row["source_nodes"] == 30
        assert row["edges"] == row["source_edges"]
        assert (graph.edges[:, 0] > graph.edges[:, 1]).all()  # operands first, as in the source
        assert graph.node_splits.tolist() == [0, 30]


def test_one_program_is_ranked_as_in_the_submission(made):
    data, outputs, _ = made
    path = data / "npz/layout/xla/default/test/test_0.v1.0.npz"
    flags = ["--outputs", outputs, path, "--model", "gst", "--top", 20, "--json"]
    done = run_stage("lib.scoring.rank", *flags)
    assert done.returncode == 0, done.stderr
    order = ";".join(str(one["config"]) for one in json.loads(done.stdout)["top"])
    rows = (outputs / f"{COLLECTION}@gst" / "submission.csv").read_text().splitlines()
    assert rows[1].endswith(f",{order}")
