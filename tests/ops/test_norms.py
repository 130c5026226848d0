"""layernorm and rmsnorm: residuals, odd rows, equal bits, large shapes, gradients."""

import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tiers import in_two_lists, naming_case, only

import weft
from weft.base.errors import ArgumentError
from weft.toolchain import native

OPS = {"layernorm": weft.layernorm, "rmsnorm": weft.rmsnorm}
RUNGS = [(op, rung.name) for op in OPS for rung in native.rungs(op)]
KERNELS = [pair for pair in RUNGS if pair[1] != "reference"]
INFINITY = float("inf")


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def compute_twin(op: str, x: torch.Tensor, weight=None, residual=None) -> torch.Tensor:
    s = x if residual is None else x + residual
    norm = F.layer_norm if op == "layernorm" else F.rms_norm
    return norm(s, s.shape[-1:], weight, eps=1e-5)


def call(op: str, x: torch.Tensor, weight=None, residual=None, rung=None):
    return OPS[op](x, weight, residual=residual, eps=1e-5, rung=rung)


def compute_gradients(op: str, rung: str | None, rows: int, cols: int, function=call):
    """Return the result and the gradients of x, weight and residual."""
    leaves = [draw(rows, cols), draw(cols, seed=1), draw(rows, cols, seed=2)]
    leaves = [leaf.requires_grad_() for leaf in leaves]
    options = {"rung": rung} if function is call else {}
    y = function(op, *leaves, **options)
    y.backward(draw(rows, cols, seed=3))
    return [y.detach(), *(leaf.grad for leaf in leaves)]


def find_bits(op: str, rung: str, rows: int, cols: int) -> bytes:
    return b"".join(
        x.numpy().tobytes() for x in compute_gradients(op, rung, rows, cols)
    )


@pytest.mark.parametrize("op, rung", RUNGS)
def test_odd_rows_are_those_of_pytorch(op, rung):
    rows = [
        *([INFINITY, 1, 2], [float("nan"), 1, 2], [-INFINITY, INFINITY, 0]),
        *([5, 5, 5], [0, 0, 0], [1e-42, -1e-42, 0], [1e18, -1e18, 0], [-0.0, 1, 2]),
    ]
    x = torch.tensor(rows, dtype=torch.float32)
    wide = draw(len(rows), 1100)
    wide[:3, 500:503] = x[:3]
    for numbers in (x, wide):
        got, want = call(op, numbers, rung=rung), compute_twin(op, numbers)
        torch.testing.assert_close(got, want, rtol=1e-4, atol=2e-5, equal_nan=True)


@pytest.mark.parametrize("op, rung", RUNGS)
def test_large_numbers_whose_sum_is_a_float(op, rung):
    """PyTorch's layer norm of these rows is NaN in float32, but not in float64."""
    for cols in (4, 1100):
        x = torch.full((2, cols), 1e30)
        if op == "rmsnorm":
            x *= 1e-15  # so that the sum of the squares is finite in float32
        got, want = call(op, x, rung=rung), compute_twin(op, x.double())
        torch.testing.assert_close(got, want.float(), rtol=1e-5, atol=0)


@pytest.mark.parametrize("powers", in_two_lists([5, 10], range(1, 15)))
@pytest.mark.parametrize("op, rung", RUNGS)
def test_lengths_next_to_powers_of_two(op, rung, powers):
    for cols in (2**power + one for power in powers for one in (-1, 0, 1)):
        with naming_case(cols):
            got = compute_gradients(op, rung, 3, cols)
            want = compute_gradients(op, None, 3, cols, compute_twin)
            for g, w in zip(got, want, strict=True):
                torch.testing.assert_close(g, w, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("shift", [1, 2, 3])
@pytest.mark.parametrize("op, rung", only([("rmsnorm", "warp_a_row")], RUNGS, 2))
def test_rows_that_begin_at_odd_addresses(op, rung, shift):
    x = draw(1, 2 * 1100 + 4)[0, shift : shift + 2 * 1100].view(2, 1100)
    torch.testing.assert_close(call(op, x, rung=rung), compute_twin(op, x))


@pytest.mark.parametrize("op, rung", KERNELS)
def test_the_bits_depend_on_no_schedule(op, rung):
    library = native.library(op, "cpu")
    expected = find_bits(op, rung, 70, 33)
    try:
        for order in (1, 2, 3, 1234567):
            library.call("weft_set_order", order)
            assert find_bits(op, rung, 70, 33) == expected, order
    finally:
        library.call("weft_set_order", 0)


@pytest.mark.parametrize("op", OPS)
def test_the_weights_gradients_have_the_same_bits_in_every_kernel(op):
    """The order of their additions depends on the number of rows only."""
    rungs = [rung for name, rung in KERNELS if name == op]
    x, dy = draw(4200, 3), draw(4200, 3, seed=1)
    library, found = native.library(op, "cpu"), set()
    moments = [draw(4200, seed=2)] * (2 if op == "layernorm" else 1)
    for rung in rungs:
        sums = [torch.full((3,), float("nan")) for _ in moments]
        arrays = [None, None, *sums, dy, x, None, None, *moments]
        pointers = [native.pointer(array, "float *") for array in arrays]
        index = library.rung(rung).index
        library.call(f"weft_{op}_backward", index, *pointers, 4200, 3, native.NULL)
        found.add(b"".join(array.numpy().tobytes() for array in sums))
        # dweight sums dy * (x - mean) * rstd; here, both moments are the same numbers.
        mean = moments[0].double()[:, None] * (op == "layernorm")
        xhat = (x - mean) * moments[0].double()[:, None]
        torch.testing.assert_close(
            sums[0].double(), (dy * xhat).sum(0), rtol=1e-4, atol=1e-3
        )
    assert len(found) == 1


@pytest.mark.parametrize("op", OPS)
def test_the_bits_of_plain_c_depend_on_no_number_of_threads(op):
    library, found = native.library(op, "cpu"), set()
    try:
        for threads in (1, 2, 5):
            library.call("weft_set_threads", threads)
            found.add(find_bits(op, "reference", 130, 1001))
    finally:
        library.call("weft_set_threads", 0)
    assert len(found) == 1


@pytest.mark.slow
@pytest.mark.parametrize("rows, cols", [(300, 16_400), (4200, 1024), (5, 1_000_003)])
@pytest.mark.parametrize("op", OPS)
def test_plain_c_stores_large_results_past_the_caches(op, rows, cols):
    x, weight = draw(rows, cols), draw(cols, seed=1)
    want = compute_twin(op, x.double(), weight.double()).float()
    got = call(op, x, weight, rung="reference")
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("op, rung", KERNELS)
def test_rows_longer_than_any_shared_memory(op, rung):
    # 32 blocks of the CPU target keep at most 32 * 24,576 numbers.
    cols = 800_003 if rung == "split_rows" else 60_001
    got = compute_gradients(op, rung, 2, cols)
    want = compute_gradients(op, None, 2, cols, compute_twin)
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g, w, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("cols", [9000, 16_385])
@pytest.mark.parametrize("op", OPS)
def test_groups_of_blocks_take_one_row_after_the_other(op, cols):
    got = compute_gradients(op, "split_rows", 40, cols)
    want = compute_gradients(op, None, 40, cols, compute_twin)
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g, w, rtol=1e-3, atol=1e-4)


ONE_ROW = """
import re, resource
import torch, weft

x, w = torch.ones(1, 2**22, requires_grad=True), torch.ones(2**22, requires_grad=True)
y = weft.rmsnorm(x, w, rung="reference")
size = int(re.search(r"VmSize:\\s+(\\d+)", open("/proc/self/status").read())[1]) << 10
resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 30),) * 2)
y.sum().backward()
print(float(w.grad.min()))
"""


@pytest.mark.slow
def test_one_row_needs_the_sums_of_one_piece():
    command = [sys.executable, "-c", ONE_ROW]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize("op", OPS)
def test_a_residual_of_another_shape_is_refused(op):
    x = draw(6, 5)
    line = (
        rf"{op}: residual is \(3, 2, 5\), expected \(2, 3, 5\)|residual is \(3, 2, 5\)"
    )
    with pytest.raises(ArgumentError, match=line):
        call(op, x.view(2, 3, 5), residual=x.view(3, 2, 5))
    with pytest.raises(ArgumentError, match=r"residual is \(6, 4\)"):
        call(op, x, residual=draw(6, 4))
    got = call(op, x.view(2, 3, 5), residual=x.view(2, 3, 5))
    torch.testing.assert_close(got, compute_twin(op, 2 * x).view(2, 3, 5))


@pytest.mark.parametrize("op", OPS)
def test_bad_arguments_and_empty_arrays(op):
    for eps in (0.0, -1.0, INFINITY, float("nan")):
        with pytest.raises(ArgumentError, match="eps = .*, want a finite number"):
            OPS[op](draw(2, 3), eps=eps)
    assert call(op, torch.empty(0, 3)).shape == (0, 3)
    assert isinstance(OPS[op](np.ones((2, 3), np.float32)), np.ndarray)
    library, pointer = native.library(op, "cpu"), native.pointer(draw(1), "float *")
    moments = [pointer] * (2 if op == "layernorm" else 1)
    scales, null = [native.NULL] * len(moments), native.NULL
    arrays = [pointer, pointer, *moments, pointer, null, *scales]
    with pytest.raises(ArgumentError, match="residual is NULL, but total is not"):
        library.call(f"weft_{op}", 1, *arrays, 1, 1, 1e-5, null)
    arrays = [pointer, null, *moments, pointer, null, *scales]
    with pytest.raises(ArgumentError, match="x would have 551903297279 elements"):
        library.call(f"weft_{op}", 1, *arrays, 2**31 - 1, 257, 1e-5, null)
