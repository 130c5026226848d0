"""The checkers of gradients accept right gradients, and only those."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from weft import Mismatch
from weft.lessons.exercises import exercise
from weft.ops.check import check_autograd, check_numeric, numeric_gradient


def test_numeric_gradient_is_close_and_leaves_x_alone():
    x = np.array([[0.3, -1.2], [2.0, 0.7]])
    original = x.copy()
    dx = numeric_gradient(lambda x: np.sin(x).sum(), x)
    assert np.allclose(dx, np.cos(x), rtol=0, atol=1e-9)
    assert np.array_equal(x, original)


def product(x, weight):
    return x @ weight


def product_backward(dy, x, weight):
    return dy @ weight.T, x.T @ dy


WRONG = {
    "swapped": lambda dy, x, weight: product_backward(dy, x, weight)[::-1],
    "one missing": lambda dy, x, weight: product_backward(dy, x, weight)[:1],
    "transposed": lambda dy, x, weight: (
        dy @ weight.T,
        dy.T @ x,
    ),
    "off by a percent": lambda dy, x, weight: (dy @ weight.T, 1.01 * x.T @ dy),
    "NaN": lambda dy, x, weight: (dy @ weight.T, np.nan * weight),
    "off by a little": lambda dy, x, weight: (dy @ weight.T, x.T @ dy + 1e-5),
}


def test_check_numeric_passes_a_right_gradient(capsys):
    check_numeric(product, product_backward, x=(3, 4), weight=(4, 2))
    assert "dx, dweight" in capsys.readouterr().out


@pytest.mark.parametrize("why", WRONG)
def test_check_numeric_refuses(why):
    with pytest.raises(Mismatch):
        check_numeric(product, WRONG[why], x=(3, 4), weight=(4, 2))


class Rounded(torch.autograd.Function):
    """A matrix product whose gradients are computed from numbers rounded to 11 bits."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, dc):
        a, b = (t.half().float() for t in ctx.saved_tensors)
        return dc @ b.T, a.T @ dc


def test_check_autograd_passes_float32_and_refuses_less():
    sizes = {"a": (33, 20), "b": (20, 17)}
    check_autograd(torch.matmul, torch.matmul, (17, 33), **sizes)
    with pytest.raises(Mismatch):
        check_autograd(Rounded.apply, torch.matmul, (17, 33), **sizes)


def test_check_autograd_refuses_a_mean_that_was_a_sum():
    target = torch.zeros(8, dtype=torch.int64)

    def summed(logits):
        return F.cross_entropy(logits, target, reduction="sum")

    def mean(logits):
        return F.cross_entropy(logits, target)

    def size(dloss, logits):
        return [torch.ones_like(logits) / 8]

    check_autograd(mean, mean, [30], size, logits=(8, 5))
    with pytest.raises(Mismatch):
        check_autograd(summed, mean, [30], size, logits=(8, 5))


def test_exercise_waits_praises_and_refuses(capsys):
    def check(answer):
        assert answer(2) == 4

    def unsolved(x):
        raise NotImplementedError

    exercise(unsolved, check)
    assert "unsolved: not solved yet" in capsys.readouterr().out

    def solved(x):
        return x * x

    exercise(solved, check)
    assert capsys.readouterr().out == "solved: solved\n"
    with pytest.raises(AssertionError):
        exercise(lambda x: x, check)
