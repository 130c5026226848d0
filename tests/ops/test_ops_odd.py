"""Odd arguments: an op computes PyTorch's result, or raises an error of one line.

The tests try each array of every op, including new ops.
"""

import inspect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from conftest import first_kernel
from tiers import naming_case
from torch.autograd import forward_ad

import weft
from weft import ops
from weft.ops.cases import OPS, find_op

# PyTorch itself warns about nested tensors, and about an import of forward_ad.
pytestmark = pytest.mark.filterwarnings(
    "ignore:The PyTorch API", "ignore:`torch.jit", "ignore:var_mean"
)

# Sizes by their names in weft.h, and options.
NUMBERS = {
    **{"n": 4, "c": 3, "ic": 3, "oc": 2, "h": 6, "w": 5, "kh": 3, "kw": 2, "d": 5},
    **{"in": 5, "out": 3, "classes": 7, "count": 12, "lr": 0.25, "padding": 1},
    **{"rows": 3, "cols": 4, "k": 2, "threshold": 0.25, "bins": 7},
}
NO_GRADIENTS = "bincount", "compact", "histogram", "sgd", "sort"
WITH_GRADIENTS = [op for op in OPS if op not in NO_GRADIENTS]


@dataclass
class Call:
    """An op, arguments that it accepts, and PyTorch's functions for the result."""

    op: str
    args: list[Any]
    twin: Callable[..., torch.Tensor]
    other: Callable[..., torch.Tensor]  # another right result for infinities

    @property
    def arrays(self) -> list[int]:
        """Return the positions of the arrays among the arguments."""
        return [i for i, arg in enumerate(self.args) if isinstance(arg, torch.Tensor)]

    def name(self, at: int) -> str:
        """Return the name of an argument."""
        return [*inspect.signature(getattr(ops, self.op)).parameters][at]

    def tried(self, args: Sequence[Any], rung: str | None = None) -> torch.Tensor | str:
        """Return the op's result, or its error of one line, which names the op."""
        try:
            y = getattr(ops, self.op)(*args, rung=rung)
        except (weft.ArgumentError, weft.OutOfMemory) as error:
            line = str(error)
            assert "\n" not in line and self.op in line.partition(":")[0], line
            return line
        return torch.as_tensor(first(y))


def first(y: Any) -> Any:
    """Return the first of several results: the numbers, which precede their places."""
    return y[0] if isinstance(y, tuple) else y


def padded(x, weight, bias, padding):
    """Return conv2d with padding in memory, where infinity times 0 is NaN, not 0."""
    return F.conv2d(F.pad(x, [padding] * 4), weight, bias)


def centred(x, weight, bias, eps):
    """Return batchnorm2d by its definition; x * scale + shift would be inf - inf."""
    var, mean = torch.var_mean(x, (0, 2, 3), correction=0, keepdim=True)
    scaled = (x - mean) * (var + eps).rsqrt() * weight[:, None, None]
    return scaled + bias[:, None, None]


def call_of(op: str) -> Call:
    torch.manual_seed(0)
    if op == "matmul":
        args = [torch.randn(4, 6), torch.randn(6, 3)]
        return Call(op, args, torch.matmul, torch.matmul)
    spec = find_op(op)
    stable = {"conv2d": padded, "batchnorm2d": centred}
    twins = spec.twin, stable.get(op, spec.twin)
    numbers = [lambda *args, twin=twin: first(twin(*args)) for twin in twins]
    return Call(op, spec.draw(NUMBERS), *numbers)


def same(got: torch.Tensor, want: torch.Tensor) -> bool:
    """Compare within fp32's error for a few terms; NaNs and infinities must match."""
    got, want = got.detach().double(), want.detach().double()
    return got.shape == want.shape and torch.allclose(
        got, want, rtol=1e-4, atol=1e-4, equal_nan=True
    )


def is_float(x: torch.Tensor) -> bool:
    return x.is_floating_point()


def filled(value: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function that sets one element, or all integers, to `value`."""

    def fill(x: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        if is_float(x):
            x.view(-1)[1] = value
        return x

    return fill


# PyTorch accepts these arrays: the op returns the same numbers, or refuses by name.
SAME = {
    "flipped": lambda x: x.flip(0),
    "column slice": lambda x: torch.cat([x, x], -1)[..., : x.shape[-1]],
    "every second row": lambda x: x.repeat_interleave(2, 0)[::2],
    "columns first": lambda x: x.mT.contiguous().mT if x.dim() > 1 else x,
    "channels last": lambda x: (
        x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x
    ),
    "expanded": lambda x: x[:1].expand(x.shape),
    "NaN": filled(float("nan")),
    "infinity": filled(float("inf")),
    "minus infinity": filled(-float("inf")),
    "tiny": filled(1e-42),
    "zero": torch.zeros_like,
    "a parameter": lambda x: torch.nn.Parameter(x) if is_float(x) else x,
    "negated view": lambda x: torch._neg_view(x) if is_float(x) else x,
    "row of one": lambda x: x[:1],
    "empty batch": lambda x: x[:0],
    "empty rows": lambda x: x[..., :0],
    "one dimension more": lambda x: x[None],
    "one dimension less": lambda x: x[0],
    "no dimensions": lambda x: torch.tensor(1.0 if is_float(x) else 1),
    "from NumPy": lambda x: x.numpy(),
    "read-only": lambda x: np.broadcast_to(x.numpy(), x.shape),
}
# Arguments that no op accepts as an array.
REFUSED = {
    "float64": lambda x: x.double(),
    "half": lambda x: x.half(),
    "int16": lambda x: x.short(),
    "bool": lambda x: x > 0,
    "complex": lambda x: x.to(torch.complex64),
    "another device": lambda x: x.to("meta"),
    "a list": lambda x: x.tolist(),
    "a string": lambda x: "x",
    "a number": lambda x: 1.5,
    "sparse": lambda x: x.to_sparse(),
    "nested": lambda x: torch.nested.nested_tensor([x, x]),
    "big endian": lambda x: x.numpy().astype(
        f">{x.numpy().dtype.kind}{max(2, x.element_size())}"
    ),
    "backwards": lambda x: x.numpy()[::-1],
    "masked": lambda x: np.ma.masked_array(x.numpy(), x.numpy() > 0),
    "objects": lambda x: x.numpy().astype(object),
    "letters": lambda x: x.numpy().astype("S4"),
    "no export": lambda x: NoExport(),
    "no device": lambda x: NoDevice(),
}


class NoExport:
    def __dlpack__(self, **kwargs):
        raise BufferError("it cannot be exported\nfor reasons")

    def __dlpack_device__(self):
        return 1, 0


class NoDevice:
    __cuda_array_interface__ = {  # noqa: RUF012
        **{"shape": (3,), "typestr": "<f4", "data": (0, False), "version": 3}
    }


def as_tensor(x: Any) -> Any:
    """Return the twin's equivalent of an argument of the op."""
    return torch.tensor(x.copy()) if isinstance(x, np.ndarray) else x


def changed(call: Call, at: int, change: Callable) -> list[Any]:
    args = [a.clone() if isinstance(a, torch.Tensor) else a for a in call.args]
    args[at] = change(args[at])
    return args


# These tests loop over 40 kinds of arrays, since a test costs more than a kind.
@pytest.mark.parametrize("op", OPS)
def test_an_odd_array_gives_what_pytorch_gives_or_one_line(op):
    call, rungs = call_of(op), ["reference", first_kernel(op)]
    for odd, at, rung in itertools.product(SAME, call.arrays, rungs):
        with torch.no_grad(), naming_case(odd, call.name(at), rung):
            got = call.tried(changed(call, at, SAME[odd]), rung)
            if isinstance(got, str):
                assert call.name(at) in got or "columns do not match" in got, got
                continue
            expected = [
                twin(*map(as_tensor, changed(call, at, SAME[odd])))
                for twin in (call.twin, call.other)
            ]
            assert any(same(got, want) for want in expected)


@pytest.mark.parametrize("op", OPS)
def test_what_no_op_takes_is_one_line_with_the_arrays_name(op):
    call = call_of(op)
    for odd, at in itertools.product(REFUSED, call.arrays):
        with naming_case(odd, call.name(at)):
            line = call.tried(changed(call, at, REFUSED[odd]))
            assert isinstance(line, str) and call.name(at) in line, line


@pytest.mark.parametrize("op", OPS)
def test_none_is_refused_unless_the_twin_has_it_by_default(op):
    call = call_of(op)
    for at in call.arrays:
        parameter = inspect.signature(getattr(ops, op)).parameters[call.name(at)]
        args = changed(call, at, lambda x: None)
        if parameter.default is None:
            assert same(call.tried(args), call.twin(*args))
        else:
            assert call.name(at) in call.tried(args)


@pytest.mark.parametrize("op", WITH_GRADIENTS)
def test_gradients_of_every_subset_are_pytorchs(op):
    """Test each array alone, then all together, with a dy that is not contiguous."""
    call = call_of(op)
    floats = [i for i in call.arrays if is_float(call.args[i])]
    for selected in [*([i] for i in floats), floats]:
        got, want = changed(call, 0, lambda x: x), changed(call, 0, lambda x: x)
        for args in (got, want):
            for i in selected:
                args[i].requires_grad_()
        y, exact = first(getattr(ops, op)(*got)), call.twin(*want)
        dy = torch.randn([*exact.shape, 2])[..., 0]
        y.backward(dy)
        exact.backward(dy)
        for i in floats:
            if i in selected:
                assert same(got[i].grad, want[i].grad), (call.name(i), selected)
            else:
                assert got[i].grad is None


@pytest.mark.parametrize("op", WITH_GRADIENTS)
def test_a_gradient_that_cannot_be_is_refused_and_not_left_out(op):
    call = call_of(op)
    args = changed(call, 0, lambda x: x.requires_grad_())
    y = first(getattr(ops, op)(*args)).sum()
    with pytest.raises(weft.ArgumentError, match=rf"{op}: create_graph=True"):
        torch.autograd.grad(y, args[0], create_graph=True)
    with forward_ad.dual_level():
        args = changed(call, 0, lambda x: forward_ad.make_dual(x, x.clone()))
        assert "no forward mode" in call.tried(args)


@pytest.mark.parametrize("op", OPS)
def test_wrong_arguments_are_one_line(op):
    call, function = call_of(op), getattr(ops, op)
    cases = [({"stride": 2}, "stride"), ({"rung": 3}, "rung=3"), ({"rung": []}, "rung")]
    cases += [({"rung": np.eye(20)}, "rung=array")]
    cases += [({"rung": "fastest"}, "no rung 'fastest'")]
    for keywords, words in cases:
        with pytest.raises((weft.ArgumentError, TypeError), match=words) as raised:
            function(*call.args, **keywords)
        assert op in str(raised.value) and "\n" not in str(raised.value)
    parameters = inspect.signature(function).parameters.values()
    required = sum(p.default is p.empty for p in parameters if p.name != "rung")
    for args in (call.args[: required - 1], [*call.args, *[None] * 9]):
        with pytest.raises((weft.ArgumentError, TypeError), match=op):
            function(*args)


OPTIONS = {  # values that raise an error of one line, by (op, option)
    ("conv2d", "padding"): [-1, 1.5, (1, 1), "same", None, float("nan"), 2**40],
    ("maxpool2d", "kernel_size"): [0, -1, [], [1, 2, 3], "ab", None, 1e9, 99],
    ("batchnorm2d", "eps"): ["x", None, float("nan"), -1.0, [1.0, 2.0]],
    ("bincount", "bins"): [0, -1, 1.5, "x", None, [1, 2], 2**31],
    ("compact", "threshold"): ["x", None, [1.0, 2.0]],
    ("sort", "descending"): ["x", None, 0.5, [1, 0]],
    ("topk", "k"): [0, -1, 5, 1.5, None, "x", [1, 2], float("nan"), 2**70],
    ("sgd", "lr"): ["x", None, float("nan"), float("inf"), [1.0, 2.0]],
    ("matmul", "alpha"): ["x", None, [1.0, 2.0]],
    ("matmul", "precision"): [3, [], {}, b"x", "x", np.ones(1)],
    ("matmul", "relu"): [torch.ones(0), np.ones(2)],
}


@pytest.mark.parametrize(("op", "option"), OPTIONS)
def test_an_odd_option_is_one_line(op, option):
    call = call_of(op)
    arrays = [call.args[i] for i in call.arrays]
    for value in [*OPTIONS[op, option], np.eye(20), torch.eye(20)]:
        with pytest.raises((weft.ArgumentError, weft.OutOfMemory)) as raised:
            getattr(ops, op)(*arrays, **{option: value})
        line = str(raised.value)
        assert op in line and "\n" not in line and len(line) < 300


# ---- particular cases ----------------------------------------------------------------


def test_no_array_broadcasts_where_shapes_differ():
    with pytest.raises(
        weft.ArgumentError, match=r"grad is \(1, 3\), expected \(2, 3\)"
    ):
        weft.sgd(torch.ones(2, 3), torch.ones(1, 3), 0.1)


def test_sgd_writes_to_the_array_and_autograd_hears_of_it():
    param, grad = torch.ones(5), torch.arange(5.0)
    version = param._version
    assert weft.sgd(param, grad, lr=0.5) is param
    assert torch.equal(param, 1 - 0.5 * grad) and param._version > version
    array = np.ones(5, np.float32)
    assert weft.sgd(array, grad.numpy(), 0.5) is array
    assert np.array_equal(array, param.numpy())


def test_sgd_refuses_what_it_cannot_write_to():
    array, grad = np.ones(4, np.float32), np.ones(4, np.float32)
    array.flags.writeable = False
    with pytest.raises(weft.ArgumentError, match="param.*read-only"):
        weft.sgd(array, grad, 0.1)
    base = torch.ones(6)
    with pytest.raises(weft.ArgumentError, match="param and grad overlap"):
        weft.sgd(base[:4], base[2:], 0.1)
    leaf = torch.ones(4, requires_grad=True)
    with pytest.raises(weft.ArgumentError, match="no gradient flows to param"):
        weft.sgd(leaf, torch.ones(4), 0.1)
    with torch.no_grad():
        weft.sgd(leaf, torch.ones(4), 0.5)
    assert torch.equal(leaf, torch.full((4,), 0.5))


def test_a_declaration_that_is_new_is_read_after_a_reload(monkeypatch):
    op = find_op("relu")
    plan = op.plan
    assert op.plan is plan
    monkeypatch.setattr(weft.toolchain.native, "ffi", object())
    # This object replaces a header that was read again; it has no types.
    with pytest.raises(AttributeError):
        _ = op.plan
