"""``python -m tests.attack.networks FOLDER``: networks and a tuning database, where TVM is."""

from __future__ import annotations

import sys
from pathlib import Path

import onnx
import torch
from onnx import TensorProto, helper

from lib.collect.tvm.compiler import Sampler
from lib.collect.tvm.database import TuningDatabase
from lib.collect.tvm.graph import graph_of
from lib.collect.tvm.importing import imported
from lib.collect.tvm.networks import named


def main(folder: Path) -> None:
    """Write ``net.onnx``, ``net.pt2``, ``own.pt2`` and a database ``tuned`` of its tasks."""
    folder.mkdir()
    layers = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU(), torch.nn.Softmax(1))
    for name in ("net", "own"):
        network = torch.export.export(layers.eval(), (torch.zeros(2, 8),))
        torch.export.save(network, folder / f"{name}.pt2")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 8]) for n in "xy")
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Softmax", ["r"], ["y"])]
    graph = helper.make_graph(nodes, "net", [x], [y])
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), folder / "net.onnx")
    database = TuningDatabase(folder / "tuned", "avx2")
    for task in graph_of(imported(named(str(folder / "own.pt2"), None), deployed=True)).tasks:
        for schedule in Sampler(task, 0).draw(2):
            database.add(task, schedule, 1e-6)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
