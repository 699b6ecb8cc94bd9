"""Programs of any number of leaves as one row of numbers each."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lib.programs.inputs import Programs, batches_of
from lib.programs.models.cdmpp import DEVICE_FEATURES, LEAF_FEATURES, LOOP_FEATURES, ProgramBatch
from lib.programs.models.cdmpp_plus import log_work
from lib.programs.tensorir.features import COUNTED, FEATURES

# The last and the dominant leaf, and the loops of either; size of the tree, leaves, work.
POOLED = 2 * (LEAF_FEATURES + LOOP_FEATURES) + 3
READ = 4096  # programs whose pooled features are computed at a time


def pooled_rows(programs: Programs) -> np.ndarray:
    """Return (n, ``POOLED``) float32: each program as one row, the work last."""
    rows = np.empty((len(programs), POOLED), np.float32)
    operations = torch.tensor(COUNTED)
    loops, nowhere = FEATURES.index("loops_product"), torch.zeros((1, DEVICE_FEATURES))
    for numbers in batches_of(programs.counts, READ):
        batch = programs.batch(numbers, nowhere)
        features = batch.features.float()
        rows[numbers] = pooled(batch, features, log_work(features, operations, loops)).numpy()
    return rows


def pooled(batch: ProgramBatch, features: Tensor, work: Tensor) -> Tensor:
    """Return features of programs as one row each, (b, ``POOLED``).

    Args:
        batch: b programs of l leaves.
        features: its (b, l, 164) float32, log2(1 + x).
        work: (b, l) of the leaves, see :func:`log_work`; the dominant one has most.
    """
    programs, leaves, _ = features.shape
    first, dominant = torch.arange(programs, device=features.device), work.argmax(1)
    loops = batch.loops.float()
    parts = (
        features[:, -1],
        features[first, dominant],
        loops[:, -1],
        loops[first, dominant],
        batch.position.amax(1, keepdim=True).float(),
        torch.full_like(work[:, :1], leaves),
        torch.logsumexp(work, 1, keepdim=True),
    )
    return torch.cat(parts, 1)
