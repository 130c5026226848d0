"""Is a backward pass right? Against finite differences, and against autograd.

check_numeric() asks the forward pass itself: move one input a little, see what
the loss does. check_autograd() asks torch. Both raise Mismatch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ..base.errors import Mismatch
from .cases import Answer, sum_bound
from .check import compare

STEP = float(np.finfo(np.float64).eps ** (1 / 3))  # where both errors are small
TOLERANCE = 1e-7  # of a gradient by differences; they are good to about 1e-10
Shape = tuple[int, ...]


def numeric_gradient(
    loss: Callable[[np.ndarray], float], x: np.ndarray, h: float = STEP
) -> np.ndarray:
    """The gradient of loss(x) by central differences, one element at a time.

    x: float64, any shape. It is changed in place and put back. Costs two calls
    of `loss` for each element of x.
    """
    dx = np.empty_like(x)
    for i in np.ndindex(x.shape):
        here = x[i]
        x[i] = here + h
        above = loss(x)
        x[i] = here - h
        below = loss(x)
        x[i] = here
        dx[i] = (above - below) / (2 * h)
    return dx


def check_numeric(
    forward: Callable[..., np.ndarray],
    backward: Callable[..., Any],
    **inputs: Shape | np.ndarray,
) -> None:
    """Check backward(dy, *inputs) against differences of forward(*inputs).

    inputs: in the order that forward takes them; a shape becomes random float64
    numbers. The loss is sum(forward(...) * dy) with a random dy, so that its
    gradient with respect to the output is dy. backward returns one gradient for
    each input (a lone one needs no tuple). Prints one line; raises Mismatch.
    """
    rng = np.random.default_rng(0)
    arrays = {
        name: value.copy()
        if isinstance(value, np.ndarray)
        else rng.standard_normal(value)
        for name, value in inputs.items()
    }
    dy = rng.standard_normal(np.shape(forward(*arrays.values())))
    got = backward(dy, *(array.copy() for array in arrays.values()))
    got = got if isinstance(got, tuple) else (got,)
    _want_one_each(got, arrays)
    for (name, array), gradient in zip(arrays.items(), got):
        want = numeric_gradient(lambda _: np.sum(forward(*arrays.values()) * dy), array)
        bound = TOLERANCE * np.maximum(1.0, np.abs(want))
        answer = Answer(torch.from_numpy(want), torch.from_numpy(bound))
        compare(f"d{name}", torch.as_tensor(np.asarray(gradient)), answer)
    print(f"{_join_names(arrays)}: as finite differences say")


def check_autograd(
    ours: Callable[..., torch.Tensor],
    torchs: Callable[..., torch.Tensor],
    terms: Sequence[int],
    size: Callable[..., Sequence[torch.Tensor]] | None = None,
    device: str | torch.device = "cpu",
    **shapes: Shape,
) -> None:
    """Check ours' gradients (float32) against torch's (float64).

    terms: for each input, how many products are summed into one element of its
    gradient. size(dy, *inputs): for each input, that sum over absolute values;
    by default torch's gradient of the absolute values, which is right where the
    function is linear in each input. Both give the bound (see cases.sum_bound).
    Prints the largest error over its bound; raises Mismatch.
    """
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(*shape, generator=generator) for shape in shapes.values()]
    with torch.no_grad():
        dy = torch.randn(torchs(*inputs).shape, generator=generator)
    got = _run_autograd(ours, [t.to(device) for t in inputs], dy.to(device))
    exact, dy = [t.double() for t in inputs], dy.double()
    want = _run_autograd(torchs, exact, dy)
    if size:
        sizes = size(dy, *exact)
    else:
        sizes = _run_autograd(torchs, [t.abs() for t in exact], dy.abs())
    worst = 0.0
    for name, g, w, k, s in zip(shapes, got, want, terms, sizes, strict=True):
        answer = Answer(w, sum_bound(k, s))
        worst = max(worst, compare(f"d{name}", g.cpu(), answer))
    print(f"{_join_names(shapes)}: largest error {worst:.1g} of its bound")


def _run_autograd(function, inputs, dy) -> list[torch.Tensor]:
    leaves = [t.clone().requires_grad_() for t in inputs]
    return list(torch.autograd.grad(function(*leaves), leaves, dy))


def _want_one_each(got: tuple, inputs: dict) -> None:
    if len(got) != len(inputs):
        raise Mismatch(
            f"backward returned {len(got)} gradients for {len(inputs)} inputs "
            f"({', '.join(inputs)})"
        )


def _join_names(inputs: dict) -> str:
    return ", ".join(f"d{name}" for name in inputs)
