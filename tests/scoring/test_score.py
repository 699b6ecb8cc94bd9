"""The local leaderboard: truth from labelled files and from measurements that lie apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lib.files.errors import DataError
from lib.ranking.metrics import kendall_tau
from lib.ranking.truth import ALIKE
from lib.scoring.score import main as score_main
from lib.scoring.score import means_of, score_submission
from lib.settings.resolved import BUNDLED
from lib.tpugraphs.npz import TileKernel, read_layout, write_layout, write_tile
from tests.commands import call
from tests.synthetic import layout_graph, write_collection

LAYOUT = "layout-xla-default"


def write_submission(path: Path, rows: dict[str, np.ndarray]) -> Path:
    lines = [f"{name}," + ";".join(map(str, order)) for name, order in rows.items()]
    path.write_text("\n".join(["ID,TopConfigs", *lines]) + "\n")
    return path


def kernel(runtimes: np.ndarray, normalizers: np.ndarray) -> TileKernel:
    graph = layout_graph("kernel", 0)
    features = np.zeros((len(runtimes), 24), np.float32)
    arrays = graph.node_feat, graph.node_opcode, graph.edge_index
    return TileKernel("kernel", *arrays, features, runtimes, normalizers)


@pytest.fixture
def data(tmp_path) -> Path:
    """A layout collection whose valid split is labelled, and one tile kernel."""
    root = tmp_path / "data"
    write_collection(root, LAYOUT, train=1, valid=2, test=1)
    runtimes, normalizers = np.array([40, 20, 30, 10, 60, 50, 70]), np.full(7, 10)
    normalizers[3] = 1  # which makes the fastest run one of the slow ones
    for split in ("train", "valid"):
        write_tile(root / "npz/tile/xla" / split / f"{split}.npz", kernel(runtimes, normalizers))
    return root


def test_a_submission_over_a_labelled_split(tmp_path, data):
    files = sorted((data / "npz/layout/xla/default/valid").iterdir())
    truth = {path.name.removesuffix(".npz"): read_layout(path).config_runtime for path in files}
    rng = np.random.default_rng(0)
    orders = {graph: rng.permutation(20) for graph in truth}
    rows = {f"layout:xla:default:{graph}": order for graph, order in orders.items()}
    rows["tile:xla:valid"] = np.array([0, 3, 4, 5, 6])
    scores, unscored = score_submission(write_submission(tmp_path / "a.csv", rows), data)
    assert unscored == {}
    found = dict(scores.select("graph", "score").iter_rows())
    for graph, order in orders.items():
        assert found[graph] == pytest.approx(kendall_tau(np.argsort(order), truth[graph]))
    assert found["valid"] == pytest.approx(2 - 4 / 2)  # 40 / 10 against 20 / 10
    means = means_of(scores)
    assert means["collection"].to_list() == [LAYOUT, "tile-xla"]
    taus = [found[graph] for graph in orders]
    assert means["mean"].mean() == pytest.approx((np.mean(taus) + found["valid"]) / 2)


def test_the_true_order_of_the_bundled_test_split_scores_one(tmp_path):
    table = pl.read_parquet(BUNDLED / "measurements.parquet").filter(
        split="test", collection=LAYOUT
    )
    rows = {}
    for (collection, graph), own in table.group_by("collection", "graph"):
        runtimes = own.sort("config")["runtime"].to_numpy()
        rows[f"{collection.replace('-', ':')}:{graph}"] = np.argsort(runtimes, kind="stable")
    path = write_submission(tmp_path / "a.csv", rows)
    scores, unscored = score_submission(path, None)
    assert (len(scores), unscored) == (len(rows), {})
    assert scores["score"].min() > 0.98  # equal runtimes are tied, a submission has no ties
    means = means_of(scores)
    assert means["graphs"].sum() == len(rows)


def test_the_command_scores_several_submissions_and_writes_every_score(tmp_path, data):
    path = sorted((data / "npz/layout/xla/default/valid").iterdir())[0]
    name = f"layout:xla:default:{path.name.removesuffix('.npz')}"
    order = np.argsort(read_layout(path).config_runtime, kind="stable")
    good = write_submission(tmp_path / "good.csv", {name: order})
    bad = write_submission(tmp_path / "bad.csv", {name: order[::-1]})
    said = call(score_main, bad, good, "--data", data, "--outputs", tmp_path)
    assert said.returncode == 0, said.stderr
    assert f"score: {good}: mean over 1 collections 1.0000\n" in said.stdout
    table = pl.read_parquet(tmp_path / "score.parquet")
    assert table["score"].to_list() == pytest.approx([-1, 1], abs=0.02)


def test_before_the_submission_there_is_one_line(tmp_path):
    said = call(score_main, "--outputs", tmp_path)
    line = f"error: {tmp_path}/submission.csv: not there; make submission writes it first\n"
    assert (said.returncode, said.stderr) == (2, line)
    said = call(score_main, "a.csv", "--outputs", tmp_path)
    assert said.stderr == "error: a.csv: not there; name one that is\n"


def test_a_graph_without_an_order_has_no_score(tmp_path, data):
    """All of its configurations are the same, or ran equally fast: nothing could be ranked."""
    folder = data / "npz/layout/xla/default/valid"
    known = sorted(path.stem for path in folder.iterdir())
    same, fast = layout_graph("same", 7), layout_graph("fast", 8)
    same.node_config_feat[:] = same.node_config_feat[:1]
    fast.config_runtime[:] = 5
    for graph in (same, fast):
        write_layout(folder / f"{graph.name}.npz", graph)
    rows = {f"layout:xla:default:{graph}": np.arange(20) for graph in ("fast", "same", *known)}
    scores, unscored = score_submission(write_submission(tmp_path / "a.csv", rows), data)
    assert scores["graph"].to_list() == known
    assert unscored == {ALIKE: ["layout:xla:default:fast", "layout:xla:default:same"]}


VALID = f"{LAYOUT.replace('-', ':')}:valid_0.v1.0"


@pytest.mark.parametrize(
    ("name", "order"),
    [
        *((VALID, one) for one in ([*range(19), 20], [0, 0], range(21), [-1, 3], range(4), [])),
        ("layout:abc:default:x", [0]),
        ("x", [0]),
        ("", [0]),
    ],
)
def test_a_bad_row_is_told(tmp_path, data, name, order):
    path = write_submission(tmp_path / "a.csv", {name: np.array(order)})
    with pytest.raises(DataError, match=r"a\.csv"):
        score_submission(path, data)
