"""Ranking one program; tests/test_pipeline.py compares it with stages 3 and 4."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch

from lib.cache.kernel import CachedKernel
from lib.files import tensor_file
from lib.files.errors import DataError, UserError
from lib.models.common.build import build_network
from lib.runs.stage import stage_script
from lib.scoring import rank
from lib.scoring.candidates import Request
from lib.scoring.rank import as_json, as_text, rank_programs
from lib.scoring.timing import Timings
from lib.scoring.trained import load_ensemble
from lib.tpugraphs.npz import write_layout, write_tile
from lib.tpugraphs.protobuf import read_tile_pb
from lib.tpugraphs.schema_pb2 import TuningData
from lib.tpugraphs.tiles import bounds_of
from tests import kernels
from tests.builders import COLLECTION, tiny_settings
from tests.graphs import compress
from tests.synthetic import layout_graph
from tests.tpugraphs.builders import chain, computation, instruction, module, tile_run, tuning

SETTINGS = tiny_settings(best_folds=2)
MODEL = {"model": "tgraph"}

permuted_scores = stage_script("infer").permuted_scores


def rank_program(*given):
    (ranking,) = rank_programs(*given)
    return ranking


@pytest.fixture
def program(tmp_path):
    graph = layout_graph("net.v1", 0)
    write_layout(tmp_path / "net.v1.npz", graph)
    return tmp_path / "net.v1.npz", graph


@pytest.fixture
def folds(tmp_path):
    """Three trained folds, of which the best two are 2 and 0."""
    networks = {}
    for fold, tau in ((0, 0.3), (1, 0.1), (2, 0.5)):
        torch.manual_seed(fold)
        networks[fold] = build_network(SETTINGS).eval()
        write_fold(tmp_path, fold, networks[fold], tau=tau)
    return tmp_path, networks


def write_fold(folder, fold, network, **about):
    about = {**dataclasses.asdict(SETTINGS), "data": "d", "fold": fold, "kept": "last", **about}
    (folder / f"fold_{fold}").mkdir(exist_ok=True)
    tensor_file.save(folder / f"fold_{fold}" / "last.safetensors", network.state_dict(), about)


def test_the_weights_that_folds_were_trained_to_be_scored_with(folds):
    """Without a flag that says it again: those that stage 4 has blended."""
    folder, _ = folds
    for fold in range(3):
        path = folder / f"fold_{fold}" / "last.safetensors"
        tensors, about = tensor_file.load(path)
        best = {name: value + 1 for name, value in tensors.items()}
        tensor_file.save(path, tensors, {**about, "weights": "best"})
        about |= {"weights": "best", "kept": "best"}
        tensor_file.save(path.with_name("model.safetensors"), best, about)
    used, last = (
        load_ensemble(folder, COLLECTION, {**MODEL, **more}) for more in ({}, {"weights": "last"})
    )
    assert (used.settings.weights, last.settings.weights) == ("best", "last")
    one, other = (next(made.networks[2].parameters()) for made in (used, last))
    torch.testing.assert_close(one, other + 1)


def test_the_best_folds_mean_score_of_every_configuration(folds, program):
    folder, networks = folds
    path, raw = program
    overrides = {**MODEL, "permutations": 3}
    ranking = rank_program(path, None, folder, COLLECTION, overrides)
    assert list(ranking.ensemble.networks) == [2, 0]
    graph = compress(raw, "test", SETTINGS.hops)
    chosen = dataclasses.replace(SETTINGS, **overrides)
    each = [permuted_scores(networks[k], graph, chosen).mean(axis=0) for k in (2, 0)]
    assert ranking.scores == pytest.approx(np.mean(each, axis=0)[graph.original], abs=1e-4)
    assert np.all(np.diff(ranking.scores[ranking.best(20)]) >= 0)
    ranked = rank_program(path, None, folder, COLLECTION, {**overrides, "blending": "standardized"})
    assert ranked.scores.mean() == pytest.approx(0, abs=0.2)  # of all, repeats among them
    assert -3 < ranked.scores.min() < -0.5 < 0.5 < ranked.scores.max() < 3


def test_equal_scores_share_a_rank_and_are_said_in_their_unit(folds, program):
    folder, _ = folds
    path, raw = program
    features = raw.node_config_feat.copy()
    features[7] = -1
    write_layout(path, dataclasses.replace(raw, node_config_feat=features))
    ranking = rank_program(path, None, folder, COLLECTION, {**MODEL, "blending": "standardized"})
    scores = np.arange(20.0)
    scores[[3, 4]] = 2.0, 2.00004  # printed alike
    ranking = dataclasses.replace(ranking, scores=scores)
    assert ranking.ranks.tolist() == [1, 2, 3, 3, 3, *range(6, 21)]
    timings = Timings({0: 2_000_000, 2: None}, 2_100_000, 0.01)
    lines = as_text(ranking, 6, timings).splitlines()
    found = [line.split()[0] for line in lines if line[0] == "#"]
    assert found == ["#1", "#2", "#3", "#3", "#3", "#6"]
    assert ", in standard deviations among them; a lower score is faster; the" in lines[-2]
    assert "the compiler's own choice is #8" in lines[-2]
    assert "timed 2.000 ms, 5.0% faster than the compiler's own" in lines[0]
    said = json.loads(json.dumps(as_json(ranking, 4, timings)))
    assert [one["rank"] for one in said["top"]] == [1, 2, 3, 3]
    assert [one["timed_ns"] for one in said["top"]] == [2_000_000, None, None, None]
    assert (said["unit"], said["compilers_own_rank"]) == ("in standard deviations among them", 8)
    assert said["compilers_own_timed_ns"] == 2_100_000


def test_below_each_site_of_the_first_of_a_module_stands_what_sets_it_in_jax(folds, program):
    path, raw = program
    features = np.full_like(raw.node_config_feat, -1)
    features[:, :2, :2] = 0, 1  # minor-most first; of JAX it is last
    write_layout(path, dataclasses.replace(raw, node_config_feat=features))
    ranking = rank_program(path, None, folds[0], COLLECTION, MODEL)
    assert "with_layout_constraint" not in as_text(ranking, 2)
    instructions = [instruction(k) for k in range(len(raw.node_opcode))]
    of_module = dataclasses.replace(
        ranking.program, module=module(computation("main", 1, *instructions))
    )
    ranking = dataclasses.replace(ranking, program=of_module)
    found = [line.strip() for line in as_text(ranking, 2).splitlines() if "Layout" in line]
    line = "output = with_layout_constraint(output, Layout((1, 0)))"
    assert found[1:] == [line, line] and found[0].startswith("# from jax.experimental.layout ")


@pytest.mark.parametrize("how", ["random", "search"])
def test_configurations_are_drawn_for_a_program(folds, program, how):
    path, _ = program
    given = path, Request(how, 12), folds[0], COLLECTION, MODEL
    ranking = rank_program(*given)
    assert (len(ranking.scores), ranking.compilers_own) == (12, 0)
    again = rank_program(*given)
    assert np.array_equal(
        again.program.graph.node_config_feat, ranking.program.graph.node_config_feat
    )
    with pytest.raises(UserError, match="are layouts, and tile-xla has tiles"):
        rank_programs(path, Request(how, 12), folds[0], "tile-xla", {})


def test_what_was_timed_comes_first_fastest_first(folds, program):
    path, _ = program
    ranking = rank_program(path, Request("random", 8), folds[0], COLLECTION, MODEL)
    ranking = dataclasses.replace(ranking, scores=np.array([2.0, 1, 1, 1, 3, 4, 5, 6]))
    timings = Timings({1: 1_000_000, 4: 800_000, 5: None, 0: 900_000}, 1_003_000, 0.02)
    assert ranking.shown(2, timings) == [4, 0]
    assert ranking.shown(5, timings) == [4, 0, 1, 2, 3]
    assert ranking.shown(3) == ranking.best(3) == [1, 2, 3]
    lines = as_text(ranking, 3, timings).splitlines()
    shown = [line for line in lines if line.startswith("#")]
    assert [line.split()[2] for line in shown] == ["4", "0", "1"]
    assert "configuration 4 (#5), 25.4% faster than the compiler's own; two" in lines[-1]
    assert [line.endswith("within noise") for line in shown] == [False, False, True]
    top = json.loads(json.dumps(as_json(ranking, 4, timings)))["top"]
    assert [one["timed_ns"] for one in top] == [800_000, 900_000, 1_000_000, None]
    assert [one.get("within_noise") for one in top] == [False, False, True, None]
    assert all("sites" in one for one in top)


def test_the_best_of_each_rank_are_timed_and_a_ranking_outlives_its_clock(
    folds, program, tmp_path, monkeypatch, capsys
):
    path, _ = program
    ranking = rank_program(path, Request("random", 8), folds[0], COLLECTION, MODEL)
    ranking = dataclasses.replace(ranking, scores=np.array([1.0, 2, 1, 0, 0, 3, 4, 5]))
    asked = []

    def no_clock(*given):
        asked.append(given[1:])
        raise UserError("XLA ended")

    monkeypatch.setattr(rank, "time_best", no_clock)
    monkeypatch.setattr(rank, "check_timeable", lambda *given: None)
    assert rank.timed(ranking, 3, tmp_path) is None
    assert asked == [([3, 2, 1], tmp_path)]
    assert capsys.readouterr().err == "warning: not timed: XLA ended\n"


def test_names_from_a_file_do_not_act_on_the_terminal(folds, program):
    path, _ = program
    ranking = rank_program(path, None, folds[0], COLLECTION, MODEL)
    hostile = "\x1b[2Jdot\r\u202e3"
    names = [hostile] * len(ranking.program.graph.node_opcode)
    graph = dataclasses.replace(ranking.program.graph, name=hostile)
    hostile_program = dataclasses.replace(ranking.program, names=names, graph=graph)
    text = as_text(dataclasses.replace(ranking, program=hostile_program), 3)
    assert "rank: \\x1b[2Jdot\\r\\u202e3: " in text and "    \\x1b[2Jdot" in text
    assert not set("\x1b\r\u202e") & set(text)


@pytest.mark.parametrize(
    ("content", "what"), [(b"ML\xefR\rMLIR", "bytecode"), (b"module @jit_f {", "text")]
)
def test_stablehlo_is_told_how_to_become_hlo(folds, tmp_path, content, what):
    (tmp_path / "f.mlir").write_bytes(content)
    with pytest.raises(
        DataError, match=rf"StableHLO {what}, expected an HLO module, .*compiler_ir"
    ):
        rank_programs(tmp_path / "f.mlir", None, folds[0], COLLECTION, MODEL)


def test_a_module_that_xla_has_optimized_is_refused(folds, tmp_path):
    module = chain("a")
    schedule = b"\x3a\x00"  # field 7, which has the order of instructions
    path = tmp_path / "module_0001.f.cpu_after_optimizations.hlo.pb"
    path.write_bytes(module.SerializeToString() + schedule)
    expected = r"module: found one that XLA has optimized, .*/module_0001\.f\.before_optimizations"
    with pytest.raises(DataError, match=expected):
        rank_programs(path, None, folds[0], COLLECTION, MODEL)


def test_what_cannot_be_ranked(folds, program, tmp_path):
    folder, networks = folds
    _, raw = program
    with pytest.raises(UserError, match=r"run 02_train\.py first"):
        load_ensemble(tmp_path / "none", COLLECTION, MODEL)
    with pytest.raises(UserError, match="did you mean"):
        load_ensemble(folder, "layout-xla-defualt", {})
    with pytest.raises(DataError, match="channels"):
        load_ensemble(folder, COLLECTION, {**MODEL, "channels": 32})
    empty = dataclasses.replace(
        raw, node_config_feat=raw.node_config_feat[:0], config_runtime=raw.config_runtime[:0]
    )
    write_layout(tmp_path / "empty.npz", empty)
    with pytest.raises(UserError, match="--candidates FILE"):
        rank_program(tmp_path / "empty.npz", None, folder, COLLECTION, MODEL)
    write_fold(folder, 1, networks[1], tau=0.1, data="another")
    with pytest.raises(DataError, match="as of the other folds"):
        load_ensemble(folder, COLLECTION, MODEL)


@pytest.fixture
def kernel_folds(tmp_path):
    """Two trained folds of the network of tiles, and what they score of a kernel."""
    chosen = kernels.tiny_settings()
    networks = []
    for fold in range(2):
        torch.manual_seed(fold)
        networks.append(build_network(chosen).eval())
        about = {**dataclasses.asdict(chosen), "data": "d", "kept": "last", "tile_score": 0.5}
        path = tmp_path / f"fold_{fold}" / "last.safetensors"
        path.parent.mkdir()
        tensor_file.save(path, networks[-1].state_dict(), {**about, "fold": fold})

    def expected(raw):
        cached = CachedKernel.of(raw, "test")
        return np.mean([permuted_scores(one, cached, chosen)[0] for one in networks], axis=0)

    return tmp_path, expected


def test_a_kernel_of_an_npz(kernel_folds):
    folder, expected = kernel_folds
    raw = kernels.tile_kernel("k", 0, configurations=12)
    write_tile(folder / "k.npz", raw)
    (ranking,) = rank_programs(folder / "k.npz", None, folder, "tile-xla", {})
    assert ranking.scores == pytest.approx(expected(raw), abs=1e-5)
    best = ranking.best(2)
    found = as_json(ranking, 2)
    assert [one["config"] for one in found["top"]] == best
    assert found["top"][0]["output_bounds"] == bounds_of(raw.config_feat[best[0]])["output_bounds"]
    assert [int(line.split()[2]) for line in as_text(ranking, 2).splitlines()[::2][:2]] == best


def test_the_kernels_of_a_tuning_protobuf(kernel_folds):
    folder, expected = kernel_folds
    modules = [
        tuning(chain(name), tile_run(20, default=True), tile_run(30, output_bounds=[8, 128]))
        for name in ("one", "two")
    ]
    path = folder / "k.pb"
    path.write_bytes(TuningData(modules=modules).SerializeToString())
    ranked = rank_programs(path, None, folder, "tile-xla", {})
    assert [ranking.program.graph.name for ranking in ranked] == ["one", "two"]
    for ranking, raw in zip(ranked, read_tile_pb(path), strict=True):
        assert ranking.scores == pytest.approx(expected(raw), abs=1e-5)
    with pytest.raises(DataError, match="COLLECTION=tile-xla ranks kernels"):
        rank_programs(path, None, folder, COLLECTION, MODEL)
