"""Every shape of arguments: an op returns PyTorch's float64 result or a one-line
error.

The tests cover sizes of 0, dimensions, batches, strides, and PyTorch's other options.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from conftest import first_kernel

import weft
from weft import ops
from weft.ops.cases import OPS, find_op

# PyTorch warns about means of empty arrays, and about weights without elements.
pytestmark = pytest.mark.filterwarnings("ignore")

NUMBERS = {
    **{"n": 4, "c": 3, "ic": 3, "oc": 2, "h": 6, "w": 5, "kh": 3, "kw": 2, "d": 5},
    **{"in": 5, "out": 3, "classes": 7, "count": 12, "lr": 0.25, "padding": 1},
    **{"rows": 3, "cols": 4, "k": 2, "threshold": 0.25, "bins": 7},
}
NO_GRADIENTS = "bincount", "compact", "histogram", "sgd", "sort"
DECLARED = [op for op in OPS if op != "matmul"]
RUNGS = ["naive", None]
Found = list[torch.Tensor | None] | str


def is_float(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.is_floating_point()


def first(y: Any) -> torch.Tensor:
    """Return the first of several results: the numbers, which precede their places."""
    return y[0] if isinstance(y, tuple) else y


def close(got: torch.Tensor, want: torch.Tensor) -> None:
    """Compare within fp32's error for a few terms; NaNs must be at the same places."""
    assert got.shape == want.shape
    assert got.dtype == (torch.float32 if want.is_floating_point() else want.dtype)
    limits = {"atol": 1e-5, "rtol": 1e-5}
    torch.testing.assert_close(got.double(), want.double(), **limits, equal_nan=True)


def result(function: Callable, args: Sequence[Any], gradients: bool) -> Found:
    """Return the result of a call and the gradients of its arguments, or the error."""
    args = [x.clone().requires_grad_(gradients) if is_float(x) else x for x in args]
    try:
        y = first(function(*args))
    except weft.ArgumentError as error:
        return str(error)
    results: list[torch.Tensor | None] = [y.detach()]
    if gradients:
        leaves = [x for x in args if is_float(x)]
        dy = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)
        results += torch.autograd.grad(y, leaves, dy)
    return results


def exactly(twin: Callable, args: Sequence[Any], gradients: bool) -> Found:
    """Return the same as result(), for PyTorch's function in float64."""
    try:
        return result(twin, [x.double() if is_float(x) else x for x in args], gradients)
    except (RuntimeError, ValueError, IndexError) as error:
        return str(error)


def want_the_same(
    op: str, twin: Callable, args: Sequence[Any], device: Any = "cpu", **named: Any
) -> None:
    """Assert that the op agrees with the twin in float64, or that both refuse."""

    def ours(*args: Any) -> torch.Tensor:
        moved = [x.to(device) if isinstance(x, torch.Tensor) else x for x in args]
        y = first(getattr(ops, op)(*moved, **named))
        assert y.device.type == torch.device(device).type
        return y.cpu()

    for gradients in (False, True)[: 1 if op in NO_GRADIENTS else 2]:
        want = exactly(twin, args, gradients)
        got = result(ours, args, gradients)
        if isinstance(want, str):
            assert isinstance(got, str), (got, want)
            assert op in got.partition(":")[0] and "\n" not in got, got
            continue
        assert not isinstance(got, str), got
        for g, w in zip(got, want, strict=True):
            close(g, w)


# ---- sizes of 0 ------------------------------------------------------------------


def sizes_of(op: str) -> list[str]:
    """List the sizes of an op's arrays, by their names in weft.h."""
    plan = find_op(op).plan
    names = {dim for i in plan.inputs for dim in i.dims if dim != "..."}
    return sorted(names | ({plan.count} if plan.count else set()))


ZEROS = [(op, size) for op in DECLARED for size in sizes_of(op)]
# Without classes, the test cannot draw a target.
ZEROS.remove(("cross_entropy", "classes"))


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(("op", "size"), ZEROS)
def test_a_size_of_0_gives_what_pytorch_gives(op, size, first, device):
    torch.manual_seed(0)
    rung = first_kernel(op) if first else None
    spec = find_op(op)
    want_the_same(op, spec.twin, spec.draw(NUMBERS | {size: 0}), device, rung=rung)


def test_what_has_nothing_to_do_still_looks_at_its_arguments():
    x, weight = torch.zeros(0, 3, 6, 5), torch.randn(2, 3, 3, 3)
    bad = {
        r"conv2d: weight is \(2, 4, 3, 3\), expected": (x, torch.randn(2, 4, 3, 3)),
        r"conv2d: x is \(0, 3, 6, 5\), .*negative padding": (x, weight, None, -1),
        r"conv2d: x is torch.float64": (x.double(), weight),
    }
    for line, args in bad.items():
        with pytest.raises(weft.ArgumentError, match=line):
            weft.conv2d(*args)
    with pytest.raises(weft.ArgumentError, match="conv2d has no rung 'fastest'"):
        weft.conv2d(x, weight, rung="fastest")
    with pytest.raises(weft.ArgumentError, match="no target can be below classes = 0"):
        weft.cross_entropy(torch.zeros(2, 0), torch.zeros(2).long())


def test_empty_numpy_arrays_give_numpy():
    y = weft.relu(np.zeros((0, 3), np.float32))
    assert isinstance(y, np.ndarray) and y.shape == (0, 3) and y.dtype == np.float32
    param = np.zeros((3, 0), np.float32)
    assert weft.sgd(param, param.copy(), 0.5) is param


# ---- numbers of dimensions ---------------------------------------------------------


@pytest.mark.parametrize("op", DECLARED)
def test_another_number_of_dimensions_is_pytorchs_or_one_line_with_the_shape(op):
    """Test each array with one dimension fewer, one more, and two more."""
    torch.manual_seed(0)
    spec = find_op(op)
    arguments = spec.draw(NUMBERS)
    arrays = [at for at, x in enumerate(arguments) if isinstance(x, torch.Tensor)]
    for at in arrays:
        for change in (lambda x: x[0], lambda x: x[None], lambda x: x[None, None]):
            args = [*arguments[:at], change(arguments[at]), *arguments[at + 1 :]]
            got = result(getattr(ops, op), args, False)
            if isinstance(got, str):
                assert got.startswith(f"{op}: ") and "\n" not in got
                assert f"is {tuple(args[at].shape)}" in got and "expected (" in got
            else:
                want_the_same(op, spec.twin, args)


@pytest.mark.parametrize("lead", [(), (1,), (2, 4), (2, 1, 3), (2, 2, 1, 2), (2, 0, 3)])
def test_linear_takes_any_dimensions_before_the_last(lead, device):
    torch.manual_seed(0)
    x, weight, bias = torch.randn(*lead, 5), torch.randn(3, 5), torch.randn(3)
    for rung in RUNGS:
        want_the_same("linear", F.linear, [x, weight, bias], device, rung=rung)
        want_the_same("linear", F.linear, [x, weight], device, rung=rung)
    y = weft.linear(x.numpy(), weight.numpy())
    assert isinstance(y, np.ndarray) and y.shape == (*lead, 3)
    with pytest.raises(weft.ArgumentError) as raised:
        weft.linear(x, torch.randn(3, 4))
    line = f"linear: weight is (3, 4), expected (out, 5), since x is {(*lead, 5)}"
    assert str(raised.value) == line


SHAPES = [  # the shapes of a and b
    *[((6,), (6,)), ((4, 6), (6,)), ((6,), (6, 3)), ((2, 4, 6), (6,))],
    *[((6,), (2, 6, 3)), ((2, 4, 6), (6, 3)), ((4, 6), (2, 6, 3))],
    *[((1, 4, 6), (5, 6, 3)), ((2, 5, 4, 6), (2, 5, 6, 3)), ((2, 5, 4, 6), (6, 3))],
    *[((2, 5, 4, 6), (5, 6, 3)), ((2, 1, 4, 6), (1, 5, 6, 3)), ((4, 6), (2, 5, 6, 3))],
    *[((6,), (2, 5, 6, 3)), ((2, 1, 2, 4, 6), (3, 1, 6, 3)), ((1, 1, 4, 6), (1, 6, 3))],
    # These shapes have sizes of 0.
    *[((0, 6), (6, 3)), ((4, 0), (0, 3)), ((4, 6), (6, 0)), ((0,), (0,))],
    *[((0, 0), (0, 0)), ((0, 4, 6), (6, 3)), ((1, 4, 6), (0, 6, 3))],
    *[((2, 4, 0), (2, 0, 3)), ((4, 0), (0,)), ((2, 0, 4, 6), (6, 3))],
    *[((2, 5, 4, 0), (5, 0, 3)), ((3, 0, 4, 6), (3, 1, 6, 2))],
]
WRONG = [
    *[((2, 5, 4, 6), (2, 3, 6, 3)), ((2, 4, 6), (3, 6, 3)), ((), (3, 3))],
    *[((4, 5), (6, 3)), ((0, 6), (5, 3)), ((2, 4, 6), (0, 6, 3)), ((4, 3), ())],
]


@pytest.mark.parametrize(("a", "b"), SHAPES + WRONG)
def test_matmul_takes_the_shapes_that_torch_takes(a, b, device):
    torch.manual_seed(0)
    args = [torch.randn(a), torch.randn(b)]
    for rung in RUNGS:
        want_the_same("matmul", torch.matmul, args, device, rung=rung)


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_matmul_adds_c_and_a_bias_in_any_shape(a, b):
    def exact(a, b, c, bias):
        return (0.5 * a @ b + 2 * c + bias).relu()

    def ours(a, b, c, bias, **named):
        options = {"alpha": 0.5, "beta": 2, "c": c, "bias": bias.view(-1), "relu": True}
        return weft.matmul(a, b, **options, **named)

    torch.manual_seed(0)
    columns = b[1:][-1:]  # no columns if b is a vector
    a, b = torch.randn(a), torch.randn(b)
    args = [a, b, torch.randn((a @ b).shape), torch.randn(columns)]
    for gradients in (False, True):
        want = exactly(exact, args, gradients)
        for g, w in zip(result(ours, args, gradients), want, strict=True):
            close(g, w)
    out = torch.full_like(args[2], 9.0)
    assert ours(*args, out=out) is out
    close(out, exact(*[x.double() for x in args]))


def test_matmul_takes_the_matrices_of_batches_as_they_lie():
    """Transposed matrices are accepted; other strides are refused in one line."""
    torch.manual_seed(0)
    a, b = torch.randn(2, 5, 6, 4).mT, torch.randn(5, 2, 3, 6).transpose(0, 1).mT
    want_the_same("matmul", torch.matmul, [a, b])
    close(weft.matmul(a, b), a.double() @ b.double())
    with pytest.raises(weft.ArgumentError, match=r"a \(2, 5, 3, 6\) has strides \(120"):
        weft.matmul(a[..., :3, :], b)
    half = torch.randn(2, 5, 4, 6).half(), torch.zeros(2, 5, 6, 0).half()
    assert weft.matmul(*half).shape == (2, 5, 4, 0)
    assert weft.matmul(*half).dtype == torch.float32


# ---- other options of PyTorch, and strides ----------------------------------------

X, WEIGHT = torch.randn(2, 3, 6, 5), torch.randn(4, 3, 3, 2)
ONLY = {  # by argument of PyTorch: a supported value, and an unsupported one
    "conv2d": [
        *[("stride", 1, 2), ("stride", (1, 1), (1, 2)), ("stride", 1, None)],
        *[("stride", 1, "x"), ("stride", 1, torch.tensor([1, 2]))],
        *[("stride", 1, np.ones(3)), ("stride", 1, np.ones((2, 2)))],
        *[("dilation", [1], 2), ("groups", 1, 3)],
    ],
    "maxpool2d": [
        *[("stride", 2, 1), ("stride", [2], (2, 1)), ("padding", 0, 1)],
        *[("dilation", 1, 2), ("ceil_mode", False, True)],
    ],
}


@pytest.mark.parametrize("op", ONLY)
def test_steps_and_gaps_are_those_that_the_kernels_have(op):
    args, function = (X, WEIGHT if op == "conv2d" else 2), getattr(weft, op)
    for name, fine, bad in ONLY[op]:
        assert torch.equal(function(*args, **{name: fine}), function(*args)), name
        with pytest.raises(weft.ArgumentError) as raised:
            function(*args, **{name: bad})
        line = str(raised.value)
        value = " ".join(repr(bad).split())
        assert line.startswith(f"{op}: {name}={value}: its kernels support only"), line


LAYOUTS = {
    "channels last": lambda x: x.to(memory_format=torch.channels_last),
    "transposed": lambda x: x.mT.contiguous().mT,
    "column slice": lambda x: torch.cat([x, x], -1)[..., : x.shape[-1]],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("op", ["relu", "conv2d", "maxpool2d", "batchnorm2d", "sgd"])
def test_an_image_that_lies_otherwise_is_refused_with_its_strides(op, layout):
    layouts = {
        **{"relu": (), "conv2d": (WEIGHT,), "maxpool2d": (2,), "sgd": (X, 0.5)},
        "batchnorm2d": (torch.ones(3), torch.ones(3)),
    }
    x, name = LAYOUTS[layout](X), "param" if op == "sgd" else "x"
    with pytest.raises(weft.ArgumentError) as raised:
        getattr(weft, op)(x, *layouts[op])
    strides = f"has strides {tuple(x.stride())}, expected a contiguous array"
    assert str(raised.value).startswith(f"{op}: {name} (2, 3, 6, 5) {strides}")


def test_strides_of_sizes_of_1_mean_nothing():
    """An image of one channel or one pixel counts as contiguous in any layout."""
    for x in (torch.randn(2, 1, 6, 5), torch.randn(4, 3, 1, 1)):
        channels_last = x.to(memory_format=torch.channels_last)
        want_the_same("relu", F.relu, [channels_last])
        want_the_same("maxpool2d", F.max_pool2d, [channels_last, 1])
        assert torch.equal(weft.relu(channels_last), x.relu())
