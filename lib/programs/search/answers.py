"""A process that predicts for a search in another one: it reads messages, and answers them.

    python -m lib.programs.search.answers --device avx2

Started by :func:`lib.collect.tvm.cost_model.trained`, over standard input and output; ends with the
process that asks. Its first message says that it is ready.
"""

from __future__ import annotations

import os
import sys
from typing import BinaryIO

import torch

from lib.files.errors import one_line_errors
from lib.programs.latency.predictor import predictor_settings
from lib.programs.messages import receive, send
from lib.programs.search.__main__ import parser, predictor
from lib.programs.search.scorer import Predict, Scorer, learn, scores


def main() -> None:
    """Answer until nobody asks any more."""
    writing = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed is no message
    args = parser().parse_args(["--network", "", *sys.argv[1:]])
    torch.set_num_threads(1)
    _, settings = predictor_settings(args.collection, args.data, args.model, args.experiment)
    answer(predictor(args, settings), sys.stdin.buffer, writing)


def answer(predict: Predict, reading: BinaryIO, writing: BinaryIO) -> None:
    """Answer every message; what was measured of a task corrects its predictions."""
    scorers: dict[str, Scorer] = {}
    send(writing, {"kind": "ready"})
    while message := receive(reading):
        task, reply = message[0]["task"], {}
        scorer = scorers.setdefault(task, Scorer(predict))
        if message[0]["kind"] == "predict":
            reply["logs"] = scores(scorer, message)
        else:
            learn(scorer, message)
        send(writing, {}, reply)


if __name__ == "__main__":
    with one_line_errors():
        main()
