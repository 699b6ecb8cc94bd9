"""The predictor as a cost model in a tuner's own process; skipped where there is no TVM."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="needs TVM, see lib/collect/tvm/requirements.txt")

from tvm import te
from tvm.ir import IRModule
from tvm.s_tir import Schedule, meta_schedule

from lib.collect.tvm import compiler
from lib.collect.tvm.cost_model import PredictorModel, Talk, trained
from lib.files.errors import UserError


class Answers(Talk):
    """The other half, which says what it is told to."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    def tell(self, kind, about, arrays):
        self.asked.append((kind, about["task"]))
        return {"logs": np.array(self.answers.pop(0))}


def doubled(size: int) -> IRModule:
    x = te.placeholder((size,), name="x")
    return IRModule({"main": te.create_prim_func([x, te.compute((size,), lambda i: 2 * x[i])])})


def test_scores_are_over_the_best_of_each_task():
    """One tuner searches tasks of other sizes side by side."""
    small, large = doubled(64), doubled(4096)
    talk = Answers([-9, -8, np.nan], [-3.0], [-10.0], [-2.0])
    model, scores, asked = PredictorModel(talk), [], []
    for task, count in ((small, 3), (large, 1), (small, 1), (large, 1)):
        candidates = [meta_schedule.MeasureCandidate(Schedule(task), []) for _ in range(count)]
        scores.append(
            model.predict(compiler.context_of(task, 0, False, "replay-trace"), candidates).tolist()
        )
        asked.append(("predict", compiler.hash_of(task)))
    assert scores == [[1, pytest.approx(np.exp(-1)), 0], [1], [1], [pytest.approx(np.exp(-1))]]
    assert talk.asked == asked


def test_a_schedule_that_a_generation_keeps_is_predicted_once():
    task = doubled(64)
    context = compiler.context_of(task, 0, False, "replay-trace")
    one, two, three = (meta_schedule.MeasureCandidate(Schedule(task), []) for _ in range(3))
    talk = Answers([-9, -8], [-7], [], [-6, -5])
    model = PredictorModel(talk)
    model.predict(context, [one, two])
    assert model.predict(context, [two, three]).tolist() == pytest.approx(np.exp([-1, -2]))
    model.update(context, [one], [meta_schedule.runner.RunnerResult([1.0], None)])
    model.predict(context, [two, three])  # what was measured has changed what is predicted
    assert [kind for kind, _ in talk.asked] == ["predict", "predict", "measured", "predict"]
    log, schedule = model.best[compiler.hash_of(task)]
    assert log == -9 and schedule.same_as(one.sch)


def test_a_device_that_is_not_known_is_told(tmp_path):
    with pytest.raises(UserError, match="device 'avx3': neither an instruction set"):
        trained("avx3", tmp_path)
