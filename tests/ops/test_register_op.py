"""register_op(): the reader's kernels as ops and layers of PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch.autograd.gradcheck import GradcheckError
from torch.library import opcheck

import weft

HEAD = "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n)"
SOURCE = f"""
template <typename T> __global__ void poly(T *y, const T *x, int n) {{
    {HEAD} y[i] = x[i] + x[i] * x[i] / 2;
}}
template <typename T>
__global__ void poly_backward(T *dx, const T *dy, const T *x, int n) {{
    {HEAD} dx[i] = dy[i] * (1 + x[i]);
}}
template <typename T>
__global__ void poly_wrong(T *dx, const T *dy, const T *x, int n) {{
    {HEAD} dx[i] = dy[i] * (1 + x[i] / 2);
}}
__global__ void twice(float *y, const float *x, int n) {{ {HEAD} y[i] = 2 * x[i]; }}
"""


@pytest.fixture(scope="module")
def kernels():
    return weft.load_cuda(SOURCE, target="cpu")


@pytest.fixture
def poly(kernels):
    return weft.register_op("poly", kernels.poly, kernels.poly_backward)


def draw(*shape: int, dtype=torch.float32) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype, requires_grad=True)


def test_gradcheck_accepts_the_right_gradient_alone(kernels, poly):
    x = draw(3, 4, dtype=torch.float64)
    assert torch.autograd.gradcheck(poly, (x,))
    wrong = weft.register_op("poly_with_mistake", kernels.poly, kernels.poly_wrong)
    with pytest.raises(GradcheckError):
        torch.autograd.gradcheck(wrong, (x,))


def test_opcheck(poly):
    opcheck(torch.ops.weft_user.poly.default, (draw(3, 4),))


def test_compile_and_vmap(poly):
    x = draw(3, 4)
    compiled = torch.compile(poly, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), poly(x))
    gradients = torch.vmap(torch.func.grad(lambda row: poly(row).sum()))(x.detach())
    torch.testing.assert_close(gradients, 1 + x.detach())


def test_a_second_call_replaces_the_kernels(kernels, poly):
    first = weft.register_op("replaced", kernels.twice)
    x = draw(5)
    assert torch.equal(first(x), 2 * x)
    with pytest.raises(
        NotImplementedError, match="weft_user::replaced has no gradient"
    ):
        first(x).sum().backward()
    weft.register_op("replaced", kernels.poly, kernels.poly_backward)
    first(x).sum().backward()
    torch.testing.assert_close(x.grad, 1 + x.detach())


def test_an_empty_array_needs_no_launch(poly):
    assert poly(torch.empty(0, 3)).shape == (0, 3)


def test_it_is_a_layer_that_trains(poly):
    torch.manual_seed(0)
    model = weft.nn.Sequential(
        weft.nn.Linear(4, 8), weft.nn.Activation(poly), weft.nn.Linear(8, 1)
    )
    x, optimizer = torch.randn(16, 4), torch.optim.SGD(model.parameters(), 0.05)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = (model(x)[:, 0] - x[:, 0] ** 2).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2


READ_ONLY = "__global__ void f(const float *y, float *x, int n) { x[0] = y[0]; }"
BAD = {
    "name": (lambda k: weft.register_op("1x", k.twice), "name='1x'"),
    "ending": (lambda k: weft.register_op("x_backward", k.twice), "_backward"),
    "no kernel": (lambda k: weft.register_op("bad", 3), "forward is 3"),
    "parameters": (
        lambda k: weft.register_op("bad", k.poly_backward),
        r"expected a kernel with the parameters \(y, x, n\)",
    ),
    "read-only result": (
        lambda k: weft.register_op("bad", weft.load_cuda(READ_ONLY)),
        r"expected a kernel with the parameters \(y, x, n\)",
    ),
    "several": (lambda k: weft.register_op("bad", k), "4 kernels"),
    "dtype": (
        lambda k: weft.register_op("only_float", k.twice)(draw(3, dtype=torch.float64)),
        "only_float: x is torch.float64, expected torch.float32",
    ),
    "strides": (
        lambda k: weft.register_op("only_float", k.twice)(draw(3, 4).t()),
        r"only_float: x \(4, 3\) has strides",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(kernels, case):
    call, message = BAD[case]
    with pytest.raises(weft.ArgumentError, match=message):
        call(kernels)
