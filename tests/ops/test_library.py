"""The ops in torch.ops.weft pass PyTorch's checks, and its tracers can follow them."""

from __future__ import annotations

import functools

import pytest
import torch
from library_samples import make_samples
from torch.library import opcheck

import weft
from weft import ops
from weft.ops.launcher_ops import NOT_BATCHED

SAMPLES = make_samples()
CASES = [
    pytest.param(name, i, id=f"{name}-{i}")
    for name, samples in SAMPLES.items()
    for i in range(len(samples))
]
QUICK = [("relu", 0), ("maxpool2d", 0), ("linear", 0)]
EVERY = pytest.mark.parametrize(("name", "i"), CASES)
FEW = pytest.mark.parametrize(("name", "i"), QUICK)


def overload(name: str):
    return getattr(torch.ops.weft, name).default


def copies(args, grads: bool = True) -> list:
    """Return copies of the arrays that require gradients if the originals do."""
    return [
        a.detach().clone().requires_grad_(grads and a.requires_grad)
        if isinstance(a, torch.Tensor)
        else a
        for a in args
    ]


def results(y) -> tuple:
    return y if isinstance(y, tuple) else (y,)


def square_sum(y) -> torch.Tensor:
    return results(y)[0].square().sum()


def assert_equal(got, want) -> None:
    assert len(results(got)) == len(results(want))
    for one, other in zip(results(got), results(want)):
        assert torch.equal(one, other)


def check_compiled(name: str, i: int, backend: str = "aot_eager") -> None:
    torch._dynamo.reset()
    function, mine, theirs = getattr(weft, name), *map(copies, [SAMPLES[name][i]] * 2)
    want = function(*mine)
    compiled = torch.compile(
        lambda *args: function(*args), fullgraph=True, backend=backend
    )
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        got = compiled(*theirs)
    assert_equal(got, want)
    if results(want)[0].requires_grad:
        square_sum(want).backward()
        square_sum(got).backward()
    for one, other in zip(mine, theirs):
        if isinstance(one, torch.Tensor):
            assert torch.equal(one, other)  # sgd writes to its argument
            assert (one.grad is None) == (other.grad is None)
            assert one.grad is None or torch.equal(one.grad, other.grad)


# ---- PyTorch's checks ----------------------------------------------------------------


def test_every_op_is_in_the_library():
    assert {*SAMPLES} == {*ops.__all__} - {"register_op"}
    for name in SAMPLES:
        assert overload(name)._schema.name == f"weft::{name}"


@FEW
def test_opcheck(name, i):
    opcheck(overload(name), SAMPLES[name][i])


@pytest.mark.slow
@EVERY
def test_opcheck_of_every_op(name, i):
    opcheck(overload(name), SAMPLES[name][i])


@EVERY
def test_fake_results_have_the_shapes_of_real_ones(name, i):
    from torch._subclasses.fake_tensor import FakeTensorMode

    args = copies(SAMPLES[name][i], grads=False)
    real = results(overload(name)(*args))
    if name == "sgd":
        assert real == (None,)
        return
    with FakeTensorMode() as mode:
        fake_args = [
            mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in args
        ]
        if name == "compact":  # its result's size depends on the numbers
            with pytest.raises(
                torch._subclasses.fake_tensor.DynamicOutputShapeException
            ):
                overload(name)(*fake_args)
            return
        fake = results(overload(name)(*fake_args))
        by_function = results(getattr(weft, name)(*fake_args))
    assert [(f.shape, f.dtype, f.stride()) for f in fake] == [
        (r.shape, r.dtype, r.stride()) for r in real
    ]
    assert [f.shape for f in by_function] == [
        r.shape for r in results(getattr(weft, name)(*args))
    ]


# ---- compile, export, vmap -----------------------------------------------------------


@FEW
def test_fullgraph(name, i):
    check_compiled(name, i)


@pytest.mark.slow
@EVERY
def test_fullgraph_of_every_op(name, i):
    check_compiled(name, i)


@pytest.mark.slow
def test_inductor_compiles_for_any_size():
    def layer(x, weight):
        return weft.relu(weft.linear(x, weight) * 2) + 1

    compiled = torch.compile(layer, fullgraph=True, dynamic=True)
    weight = torch.randn(4, 5)
    for rows in (3, 7, 12):
        x, y = copies([draw := torch.randn(rows, 5, requires_grad=True), draw])
        want, got = layer(x, weight), compiled(y, weight)
        torch.testing.assert_close(got, want)
        want.sum().backward()
        got.sum().backward()
        torch.testing.assert_close(x.grad, y.grad)


@pytest.mark.slow
@pytest.mark.parametrize("strict", [False, True])
@EVERY
def test_export(name, i, strict):
    function = getattr(weft, name)

    class Model(torch.nn.Module):
        def forward(self, *args):
            return function(*args)

    want = function(*copies(SAMPLES[name][i], grads=False))
    args = tuple(copies(SAMPLES[name][i], grads=False))
    exported = torch.export.export(Model(), args, strict=strict)
    assert f"weft.{name}.default" in str(exported.graph)
    assert_equal(exported.module()(*copies(SAMPLES[name][i], grads=False)), want)


def make_batch(args) -> tuple[list, tuple]:
    """Return three different examples as one batch, and vmap's in_dims."""
    examples = [
        [a.flip(0) if j == 1 and isinstance(a, torch.Tensor) else a for a in args]
        for j in range(3)
    ]
    dims = tuple(0 if isinstance(a, torch.Tensor) else None for a in args)
    parts = zip(dims, zip(*examples))
    return [torch.stack(p) if d == 0 else p[0] for d, p in parts], dims


@functools.cache
def batched_cases():
    return [case for case in CASES if case.values[0] not in NOT_BATCHED]


@pytest.mark.parametrize(("name", "i"), batched_cases())
def test_vmap(name, i):
    function = getattr(weft, name)
    batch, dims = make_batch(copies(SAMPLES[name][i], grads=False))
    got = results(torch.vmap(function, in_dims=dims)(*batch))
    for j in range(3):
        one = [a if d is None else a[j] for a, d in zip(batch, dims)]
        for g, w in zip(got, results(function(*one)), strict=True):
            assert torch.equal(g[j], w)


def test_vmap_moves_the_batch_from_any_dimension():
    x, weight = torch.randn(3, 5, 4), torch.randn(6, 5)
    got = torch.vmap(weft.linear, in_dims=(2, None))(x, weight)
    for j in range(4):
        assert torch.equal(got[j], weft.linear(x[..., j].contiguous(), weight))


@pytest.mark.parametrize(
    ("name", "i"), [c for c in CASES if SAMPLES[c.values[0]][0][0].requires_grad]
)
def test_gradients_of_each_example(name, i):
    function, args = getattr(weft, name), SAMPLES[name][i]
    places = tuple(
        at
        for at, a in enumerate(args)
        if isinstance(a, torch.Tensor) and a.requires_grad
    )
    batch, dims = make_batch(copies(args, grads=False))
    gradient = torch.func.grad(lambda *a: square_sum(function(*a)), argnums=places)
    got = torch.vmap(gradient, in_dims=dims)(*batch)
    for j in range(3):
        one = copies([a if d is None else a[j] for a, d in zip(batch, dims)])
        for at in places:
            one[at].requires_grad_()
        square_sum(function(*one)).backward()
        for g, at in zip(got, places):
            torch.testing.assert_close(g[j], one[at].grad)


@pytest.mark.parametrize("name", NOT_BATCHED)
def test_vmap_refuses_ops_without_a_rule(name):
    batch, dims = make_batch(copies(SAMPLES[name][0], grads=False))
    with pytest.raises(NotImplementedError, match=f"{name}: vmap has no rule"):
        torch.vmap(overload(name), in_dims=dims)(*batch)


# ---- bad input -----------------------------------------------------------------------

X = torch.randn(3, 4)
BAD = {
    "dtype": (lambda: torch.ops.weft.relu(X.double()), "relu: x is torch.float64"),
    "stride": (lambda: torch.ops.weft.relu(X.t()), r"relu: x \(4, 3\) has strides"),
    "shape": (lambda: torch.ops.weft.linear(X, X.t().contiguous()), "linear: weight"),
    "rung": (lambda: torch.ops.weft.relu(X, rung="warp"), "relu has no rung 'warp'"),
    "constant": (
        lambda: torch.ops.weft.compact(X[0].clone().requires_grad_(), 0.0),
        "compact: no gradient flows to x",
    ),
    "backward": (
        lambda: torch.ops.weft.relu_backward(X, X[:2].contiguous()),
        r"relu_backward: y is \(2, 4\), expected \(3, 4\)",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_names_the_op_and_its_numbers(case):
    call, message = BAD[case]
    with pytest.raises(weft.ArgumentError, match=message):
        call()


def test_other_devices_are_not_implemented():
    with pytest.raises(NotImplementedError, match="weft::relu"):
        torch.ops.weft.relu(X.to_sparse())


def test_fake_arrays_are_checked():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x, weight = torch.empty(3, 4), torch.empty(5, 6)
        with pytest.raises(weft.ArgumentError, match=r"weight is \(5, 6\), expected"):
            weft.linear(x, weight)
        with pytest.raises(weft.ArgumentError, match="x is torch.float64"):
            weft.relu(x.double())


@pytest.mark.parametrize("transform", [False, True])
def test_second_derivatives_are_not_implemented(transform):
    def second(x):
        return torch.func.grad(lambda z: torch.func.grad(gradient_sum)(z).sum())(x)

    def gradient_sum(x):
        return square_sum(torch.ops.weft.relu(x) if not transform else weft.relu(x))

    x = X.clone().requires_grad_()
    with pytest.raises(NotImplementedError, match="second derivatives"):
        if transform:
            second(X)
        else:
            (dx,) = torch.autograd.grad(gradient_sum(x), x, create_graph=True)
            dx.sum().backward()


def test_other_results_are_constants():
    y, mean, rstd = torch.ops.weft.batchnorm2d(*SAMPLES["batchnorm2d"][0])
    assert y.requires_grad and not mean.requires_grad and not rstd.requires_grad


def test_gradients_of_empty_arrays():
    for rows, columns in ((0, 5), (3, 0)):
        shapes = (rows, columns), (4, columns), (4,)
        mine = [torch.randn(s, requires_grad=True) for s in shapes]
        theirs = copies(mine)
        for function, args in (
            (torch.ops.weft.linear, mine),
            (torch.nn.functional.linear, theirs),
        ):
            square_sum(function(*args)).backward()
        for one, other in zip(mine, theirs):
            torch.testing.assert_close(one.grad, other.grad)


def test_subclasses_see_the_op():
    seen = []

    class Seeing(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            seen.append(op)
            return op(*args, **(kwargs or {}))

    with Seeing():
        weft.relu(X)
    assert seen == [torch.ops.weft.relu.default]
