"""weft.matmul: layouts, batches, precisions, epilogues, gradients, and bad input."""

import numpy as np
import pytest
import torch

import weft
from weft.ops.cases import sum_bound
from weft.ops.cases.matmul import error_bound
from weft.toolchain import native

HALVES = {"fp16": torch.float16, "bf16": torch.bfloat16}


def random(*shape, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator).to(dtype)


def close(got, a, b, precision="fp32", factor=1.0):
    """Return whether got is factor * a @ b within the bound of the precision."""
    a, b = a.double().cpu(), b.double().cpu()
    size = abs(factor) * (a.abs() @ b.abs())
    bound = error_bound(precision, a.shape[-1] + 3) * size + 1e-6 * size
    assert got.dtype == torch.float32 and got.shape == size.shape
    return bool(((got.cpu().double() - factor * (a @ b)).abs() <= bound).all())


def within(got, want, bound):
    """Return whether each element of got is within its bound of want (float64)."""
    return bool(((got.detach().cpu().double() - want).abs() <= bound).all())


def affine(a, b, c=None, bias=None, alpha=1.0, beta=1.0):
    """Return alpha a @ b + beta c + bias in float64, and the error bound of float32.

    Each term is rounded k times in the product, then by alpha and by two additions.
    """
    a, b, c, bias = (None if x is None else x.double().cpu() for x in (a, b, c, bias))
    want, size = alpha * (a @ b), abs(alpha) * (a.abs() @ b.abs())
    for x, factor in ((c, beta), (bias, 1.0)):
        if x is not None:
            want, size = want + factor * x, size + abs(factor) * x.abs()
    return want, sum_bound(a.shape[-1] + 3, size)


LAYOUTS = {
    "rows": lambda x: x.contiguous(),
    "columns": lambda x: x.mT.contiguous().mT,
}


@pytest.mark.parametrize("way_b", LAYOUTS)
@pytest.mark.parametrize("way_a", LAYOUTS)
@pytest.mark.parametrize("batch", [(), (3,)])
def test_views_that_are_transposed_are_taken_as_they_lie(way_a, way_b, batch, device):
    a, b = random(*batch, 5, 7).to(device), random(*batch, 7, 6).to(device)
    a, b = LAYOUTS[way_a](a), LAYOUTS[way_b](b)
    got = weft.matmul(a, b)
    assert got.is_contiguous() and close(got, a, b)
    assert close(weft.matmul(a, b, rung="naive"), a, b)


@pytest.mark.parametrize("shapes", [
    *[((3, 4, 5), (5, 6)), ((4, 5), (3, 5, 6)), ((1, 4, 5), (3, 5, 6))],
    *[((3, 4, 5), (1, 5, 6)), ((1, 4, 5), (1, 5, 6)), ((3, 1, 5), (5, 1))],
])  # fmt: skip
def test_one_matrix_may_serve_a_batch(shapes, device):
    a, b = (random(*shape).to(device) for shape in shapes)
    for rung in (None, "naive"):
        assert close(weft.matmul(a, b, rung=rung), a, b)
        assert close(weft.matmul(LAYOUTS["columns"](a), b, rung=rung), a, b)


def test_an_expanded_matrix_is_not_copied(device):
    a, b = random(4, 5).to(device).expand(3, 4, 5), random(3, 5, 6).to(device)
    assert close(weft.matmul(a, b), a, b)


def test_every_second_matrix_of_a_batch(device):
    a, b = random(6, 4, 5).to(device)[::2], random(6, 5, 6).to(device)[1::2]
    assert close(weft.matmul(a, b), a, b)


@pytest.mark.parametrize("precision", HALVES)
def test_16_bits_in_float_out(precision, device):
    a, b = (random(*s, dtype=HALVES[precision]) for s in ((9, 20), (20, 12)))
    a, b = a.to(device), b.to(device)
    assert close(weft.matmul(a, b), a, b, precision)
    assert close(weft.matmul(a, b.mT.contiguous().mT), a, b, precision)


@pytest.mark.parametrize("precision", ["fp32", "tf32", "3xtf32"])
def test_floats_in_the_precision_that_is_asked_for(precision, device):
    if precision not in {r.precision for r in native.rungs("matmul", device.type)}:
        pytest.skip(f"no rung in {precision} yet")
    a, b = random(33, 40).to(device), random(40, 36).to(device)
    got = weft.matmul(a, b, precision=precision)
    assert close(got, a, b, precision)
    # tf32 may run as fp32 where that is as fast.
    assert precision == "tf32" or close(got, a, b, "fp32")


def test_alpha_beta_bias_and_relu(device):
    a, b, c, bias = (
        random(*s).to(device) for s in ((5, 7), (7, 6), (5, 6), (6,))
    )  # fmt: skip
    original = c.clone()
    want, bound = affine(a, b, c, bias, alpha=0.5, beta=-2)
    got = weft.matmul(a, b, alpha=0.5, beta=-2, c=c, bias=bias, relu=True)
    assert within(got, want.relu(), bound)  # relu does not increase differences
    assert torch.equal(c, original)
    assert within(weft.matmul(a, b, c=c), *affine(a, b, c))  # beta is 1 by default
    assert close(weft.matmul(a, b, beta=5.0), a, b)


def test_out_is_where_the_result_goes(device):
    a, b, c = (random(*s).to(device) for s in ((5, 7), (7, 6), (5, 6)))
    out = torch.full_like(c, torch.nan)
    assert weft.matmul(a, b, out=out) is out and close(out, a, b)
    want, bound = affine(a, b, c, beta=2)
    assert weft.matmul(a, b, beta=2, c=c, out=c) is c
    assert within(c, want, bound)


def test_numpys_views_and_out():
    left, right = random(5, 7), random(6, 7)
    a, b = left.numpy(), right.numpy()
    got = weft.matmul(a, b.T)
    assert isinstance(got, np.ndarray) and close(torch.from_numpy(got), left, right.T)
    out = np.empty((5, 6), np.float32)
    assert weft.matmul(a, b.T, out=out) is out
    np.testing.assert_array_equal(out, got)
    half = weft.matmul(a.astype(np.float16), b.T.astype(np.float16))
    halves = left.half(), right.half().T  # the products round only in float32
    assert close(torch.from_numpy(half), *halves, "fp16")


@pytest.mark.parametrize("rung", ["reference", "naive"])
@pytest.mark.parametrize("shapes", [
    *[((4, 5), (5, 6)), ((3, 4, 5), (3, 5, 6)), ((3, 4, 5), (5, 6))],
    *[((4, 5), (3, 5, 6)), ((1, 4, 5), (3, 5, 6)), ((3, 4, 5), (1, 5, 6))],
])  # fmt: skip
@pytest.mark.parametrize("way", LAYOUTS)
def test_gradients_of_everything(shapes, rung, way, device):
    if device.type == "cuda" and rung == "reference":
        pytest.skip("the plain C rung runs on the CPU")
    a, b = (LAYOUTS[way](random(*s)) for s in shapes)
    c, bias = random(*torch.matmul(a, b).shape), random(6)
    dy = random(*c.shape, seed=5)
    inputs = [x.detach().to(device).requires_grad_() for x in (a, b, c, bias)]
    options = {"c": inputs[2], "bias": inputs[3], "relu": True, "rung": rung}
    weft.matmul(*inputs[:2], alpha=0.5, beta=-2.0, **options).backward(dy.to(device))

    y, bound = affine(a, b, c, bias, alpha=0.5, beta=-2.0)
    assert (y.abs() > bound).all()  # otherwise, rounding would decide relu's results
    dy = dy.double() * (y > 0)
    doubles = [x.double() for x in (a, b, c, bias)]
    wants = gradients(*doubles, -2.0, dy)
    sizes = gradients(*(x.abs() for x in doubles), 2.0, dy.abs())
    # Each term is rounded in the product, by alpha, and in the sum over a shared batch.
    batch, (m, n) = max(c[..., 0, 0].numel(), 1), c.shape[-2:]
    for x, want, size, terms in zip(
        inputs, wants, sizes, (n + 1 + batch, m * batch + 1, 1, m * batch)
    ):
        assert x.grad.shape == want.shape
        assert within(x.grad, want, sum_bound(terms, size))


def gradients(a, b, c, bias, beta, dy):
    """Return torch's gradients of 0.5 a @ b + beta c + bias."""
    inputs = [x.detach().clone().requires_grad_() for x in (a, b, c, bias)]
    (0.5 * (inputs[0] @ inputs[1]) + beta * inputs[2] + inputs[3]).backward(dy)
    return [x.grad for x in inputs]


@pytest.mark.parametrize("precision", HALVES)
def test_gradients_of_16_bits_have_16_bits(precision, device):
    dtype = HALVES[precision]
    a, b = (random(*s, dtype=dtype) for s in ((9, 20), (20, 12)))
    dy = random(9, 12, seed=3)
    inputs = [x.to(device).requires_grad_() for x in (a, b)]
    weft.matmul(*inputs).backward(dy.to(device))
    dy = dy.to(dtype)  # the op multiplies dy in this type
    for x, left, right in zip(inputs, (dy, a.T), (b.T, dy)):
        left, right = left.double(), right.double()
        product = error_bound(precision, left.shape[1]) * (left.abs() @ right.abs())
        want = left @ right
        # The result is then rounded to 16 bits, or to 2^-24 where fp16 is subnormal.
        rounding = torch.finfo(dtype).eps / 2 * (want.abs() + product) + 2.0**-25
        assert x.grad.dtype == dtype and within(x.grad, want, product + rounding)


def test_only_the_gradients_that_are_wanted():
    a, b, bias = random(4, 5), random(5, 6).requires_grad_(), random(6)
    weft.matmul(a, b, bias=bias).sum().backward()
    assert a.grad is None and bias.grad is None and b.grad.shape == b.shape


def test_a_gradient_goes_through_a_transposed_parameter():
    """A linear layer does this, since its weight is (out, in)."""
    x, weight = random(4, 5), random(6, 5).requires_grad_()
    weft.matmul(x, weight.T).sum().backward()
    bound = sum_bound(len(x), x.abs().double().sum(0))
    assert within(weight.grad, x.double().sum(0).expand(6, 5), bound)


half, bf16 = torch.float16, torch.bfloat16
BAD = {
    r"a is \(3, 4\) and b is \(5, 2\): 4 columns do not match 5 rows": lambda: (
        weft.matmul(random(3, 4), random(5, 2))
    ),
    r"a batch of 2 does not match one of 3": lambda: weft.matmul(
        random(2, 3, 4), random(3, 4, 5)
    ),
    r"b \(4, 3\) has strides \(12, 2\), expected its rows or its columns": lambda: (
        weft.matmul(random(5, 4), random(4, 12)[:, :6:2])
    ),
    r"a \(4, 3\) has strides \(6, 1\)": lambda: weft.matmul(
        random(4, 6)[:, :3], random(3, 2)
    ),
    r"a is \(2, 5, 3, 4\) and b is \(3, 1, 4, 2\): a batch of \(2, 5\) does": (
        lambda: weft.matmul(random(2, 5, 3, 4), random(3, 1, 4, 2))
    ),
    r"a has 0 dimensions \(\), expected 1 or more": lambda: weft.matmul(
        torch.tensor(1.0), random(4, 2)
    ),
    r"b \(4,\) has strides \(2,\)": lambda: weft.matmul(random(3, 4), random(8)[::2]),
    r"bias is \(3,\), expected \(1,\)": lambda: weft.matmul(
        random(3, 4), random(4), bias=random(3)
    ),
    "a is torch.float32, but b is torch.bfloat16": lambda: weft.matmul(
        random(3, 4), random(4, 2, dtype=bf16)
    ),
    r"precision='bf16' is for torch.bfloat16, but a is torch.float32": lambda: (
        weft.matmul(random(3, 4), random(4, 2), precision="bf16")
    ),
    r"precision='fast': expected one of fp32, tf32, 3xtf32, fp16, bf16": lambda: (
        weft.matmul(random(3, 4), random(4, 2), precision="fast")
    ),
    r"rung 'naive' computes in fp32, a is torch.float16": lambda: weft.matmul(
        random(3, 4, dtype=half), random(4, 2, dtype=half), rung="naive"
    ),
    r"rung 'naive' computes in fp32, not tf32": lambda: weft.matmul(
        random(3, 4), random(4, 2), rung="naive", precision="tf32"
    ),
    r"c is \(2, 2\), expected \(3, 2\)": lambda: weft.matmul(
        random(3, 4), random(4, 2), c=random(2, 2)
    ),
    r"bias is \(3,\), expected \(2,\)": lambda: weft.matmul(
        random(3, 4), random(4, 2), bias=random(3)
    ),
    r"out is torch.float64, expected torch.float32": lambda: weft.matmul(
        random(3, 4), random(4, 2), out=random(3, 2).double()
    ),
    "contiguous array: omit out, and copy the result into it": lambda: weft.matmul(
        random(3, 4), random(4, 2), out=random(3, 4)[:, ::2]
    ),
    r"out and a overlap": lambda: weft.matmul(X := random(4, 4), random(4, 4), out=X),
    r"out takes no gradients": lambda: weft.matmul(
        random(3, 4).requires_grad_(), random(4, 2), out=random(3, 2)
    ),
    r"out takes no gradients: call": lambda: weft.matmul(
        random(3, 4), random(4, 2), out=random(3, 2).requires_grad_()
    ),
    r"out \(3, 2\) is read-only": lambda: weft.matmul(
        random(3, 4), random(4, 2), out=np.broadcast_to(np.float32(0), (3, 2))
    ),
    r"alpha='2': expected a number": lambda: weft.matmul(
        random(3, 4), random(4, 2), alpha="2"
    ),
    r"a is \(0, 4\) and b is \(3, 2\): 4 columns do not match 3 rows": lambda: (
        weft.matmul(torch.empty(0, 4), random(3, 2))
    ),
    r"no rung 'quick' on cpu; it has ijk, ikj, blocked": lambda: weft.matmul(
        random(3, 4), random(4, 2), rung="quick"
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_one_error_with_its_numbers(message):
    with pytest.raises(weft.ArgumentError, match=message):
        BAD[message]()
    a = random(3, 3)
    assert close(weft.matmul(a, a), a, a)  # the session continues


@pytest.fixture
def turing(monkeypatch):
    """Pretend that the library's GPU is a T4; no GPU is required."""
    lib = native.Library("matmul", "cpu")
    lib.target = "cuda"
    properties = {"compute_capability": (7, 5), "current_gpu": 0, "name": "Tesla T4"}
    for function, answer in properties.items():
        monkeypatch.setattr(native.device, function, lambda *_, a=answer: a)
    rung = native.Rung("matmul", *("tiny", "", "fp32"), ("cpu", "cuda"), 0, 0)
    lib.rungs = [
        rung,
        native.Rung("matmul", *("wgmma", "", "bf16"), ("cuda",), 90, 1),
        native.Rung("matmul", *("ring", "", "fp32"), ("cpu", "cuda"), 80, 2),
        native.Rung("matmul", *("wmma", "", "fp16"), ("cuda",), 70, 3),
        native.Rung("matmul", *("mma", "", "fp16"), ("cuda",), 75, 4),
    ]
    return lib


def test_a_rung_that_the_gpu_is_too_old_for_is_refused_kindly(turing):
    needs = "needs compute capability 9.0, but this is a Tesla T4 with 7.5"
    with pytest.raises(weft.ArgumentError, match=f"matmul's rung 'wgmma' {needs}"):
        turing.rung("wgmma")
    with pytest.raises(weft.ArgumentError, match=f"matmul in bf16 {needs}"):
        turing.rung(None, "bf16")
    with pytest.raises(weft.ArgumentError, match="no rung in 3xtf32 on cuda; it has"):
        turing.fastest("3xtf32")
    assert [r.name for r in turing.here()] == ["tiny", "wmma", "mma"]
    assert turing.rung().name == "tiny"
    assert turing.rung(None, "fp16").name == "mma"
