"""``python -m tests.attack.networks FOLDER``: networks in files, written where TVM is."""

from __future__ import annotations

import sys
from pathlib import Path

import onnx
import torch
from onnx import TensorProto, helper


def main(folder: Path) -> None:
    """Write ``net.onnx`` and ``net.pt2``."""
    folder.mkdir()
    layers = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU(), torch.nn.Softmax(1))
    network = torch.export.export(layers.eval(), (torch.zeros(2, 8),))
    torch.export.save(network, folder / "net.pt2")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 8]) for n in "xy")
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Softmax", ["r"], ["y"])]
    graph = helper.make_graph(nodes, "net", [x], [y])
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), folder / "net.onnx")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
