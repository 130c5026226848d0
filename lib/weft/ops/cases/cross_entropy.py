"""cross_entropy in PyTorch, with the cases and sizes for its checks and timings."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F

from ..op import Bench, Op
from . import Answer, Case, U, random


def cross_entropy(logits, target):
    """Return the batch mean of -log softmax(logits (n,classes))[target (n) int64].

    The result is one number, of shape (). On the host, a target outside [0, classes)
    raises an error. On a GPU the loss becomes NaN, since an error would require a
    synchronization.
    """
    return F.cross_entropy(logits, target)


OP = Op(
    cross_entropy,
    {"logits": "n, classes", "target": "n", "loss": "", "prob": "n, classes"},
    below={"target": "classes"},
)
BENCH = Bench("n", (64, 1024), {"classes": 10})

_SIZES = [  # n, classes, and a factor applied to the logits
    *[(1, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0), (3, 10, 30.0), (31, 10, 1.0)],
    *[(33, 7, 1.0), (64, 10, 1.0), (65, 101, 5.0), (257, 10, 1.0), (4, 5, 1000.0)],
]


def cases(generator) -> Iterator[Case]:
    for n, classes, factor in _SIZES:
        logits = factor * random(generator, n, classes)
        target = torch.randint(0, classes, (n,), generator=generator)
        dloss = random(generator, 1)
        title = f"n={n} classes={classes} factor={factor}"
        yield _entropy_forward(title, logits, target)
        yield _entropy_backward(title, logits, target, dloss)
        yield _entropy_backward(title, logits, target, None)


def _compute_softmax(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return prob in float64 and the relative errors of its float32 version.

    x - max is rounded once. exp() turns this error into a relative error of |x - max|
    u. exp() itself is accurate to 2 units in the last place, or 4 u.
    """
    logits64 = logits.double()
    depth = logits64.amax(1, keepdim=True) - logits64
    prob = logits64.softmax(1)
    relative = (1.01 * depth + 4.1) * U
    total = (prob * relative).sum(1, keepdim=True) + 1.01 * logits.shape[1] * U
    return prob, relative + total + 2 * U


def _entropy_forward(title, logits, target) -> Case:
    n = len(target)
    prob, relative = _compute_softmax(logits)
    logits64 = logits.double()
    rows = F.cross_entropy(logits64, target, reduction="none")
    depth = logits64.amax(1) - logits64.gather(1, target[:, None])[:, 0]
    log_sum = (rows - depth).abs()
    row_bound = relative.amax(1) + 3 * U * log_sum + 2 * U * depth.abs() + 2 * U * rows
    bound = row_bound.mean() + 1.01 * (n + 1) * U * rows.mean()

    answers = {
        "loss": Answer(rows.mean().reshape(1), bound.reshape(1)),
        # Below 2^-126, float32 loses digits and may flush to zero.
        "prob": Answer(prob, prob * relative + 2.0**-126),
    }
    return OP.case(title, {"logits": logits, "target": target}, answers)


def _entropy_backward(title, logits, target, dloss) -> Case:
    n, classes = logits.shape
    prob = logits.double().softmax(1).float()
    factor = 1.0 if dloss is None else dloss.double().item()
    onehot = F.one_hot(target, classes).double()
    want = (prob.double() - onehot) * factor / n
    size = (prob.double() + onehot) * abs(factor) / n

    inputs = {"dloss": dloss, "prob": prob, "target": target}
    answers = {"dlogits": Answer(want, 4 * U * size + 1e-38)}
    return OP.case(title, inputs, answers)
