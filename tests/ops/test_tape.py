"""The tape of kernels/micrograd: each operation and its gradients against float64.

Bounds. U = 2^-24 is the relative error of one operation. A sum of n terms in any order
is off by at most 1.01 n U of the sum of magnitudes (Higham, Accuracy and Stability of
Numerical Algorithms, section 3.1). expf() and logf() err by at most 2 U. Results lie in
memory that the tape has filled with NaN, and gradients begin at 0, so that adding the
first share is exact.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from conftest import TARGETS
from tiers import loop_over, only

import weft
from weft.ops.tape import Tape
from weft.see.watched_runs import load_watched_library, open_runtime, report_watched
from weft.toolchain import native

U = 1.01 * 2.0**-24
RUNGS = [
    (target, rung.name)
    for target in TARGETS
    for rung in native.rungs("micrograd", target)
    if target in rung.targets
]
on_all_rungs = pytest.mark.parametrize("target, rung", RUNGS)

Bounded = tuple[np.ndarray, np.ndarray]  # the exact numbers, and bounds of their errors


@dataclass(frozen=True)
class Op:
    """An operation: its shapes for (m,n), and the exact results with their bounds.

    forward: from the operands. backward: from dy and the operands, for each operand.
    """

    record: Callable[..., object]
    shapes: Callable[[int, int], list[tuple[int, int]]]
    forward: Callable[..., Bounded]
    backward: Callable[..., list[Bounded]]


def exactly(x: np.ndarray) -> Bounded:
    return x, np.zeros_like(x)


def rounded(x: np.ndarray) -> Bounded:
    return x, U * abs(x)


def multiplied(a: np.ndarray, b: np.ndarray) -> Bounded:
    return a @ b, (a.shape[1] + 1) * U * (abs(a) @ abs(b))


def log_softmax(a: np.ndarray) -> Bounded:
    """The argument of each exponential is rounded: U |a - most|, at most the range."""
    shifted = a - a.max(1, keepdims=True)
    log_sum = np.log(np.exp(shifted).sum(1, keepdims=True))
    of_sum = (a.shape[1] + 2 + abs(shifted).max(1, keepdims=True)) * U
    y = shifted - log_sum
    return y, of_sum + U * (2 * abs(log_sum) + abs(shifted) + abs(y))


def log_softmax_backward(dy: np.ndarray, a: np.ndarray) -> list[Bounded]:
    y, of_y = log_softmax(a)
    p, total = np.exp(y), dy.sum(1, keepdims=True)
    da = dy - p * total
    of_total = a.shape[1] * U * abs(dy).sum(1, keepdims=True)
    bound = p * abs(total) * (1.01 * of_y + 3 * U) + 1.01 * p * of_total + U * abs(da)
    return [(da, bound)]


def targets(rows: int, cols: int) -> np.ndarray:
    return (np.arange(rows) * 7 + 3) % cols


def picked(a: np.ndarray) -> np.ndarray:
    rows = np.arange(len(a))
    return -a[rows, targets(*a.shape)]


def nll_backward(dy: np.ndarray, a: np.ndarray) -> list[Bounded]:
    da = np.zeros_like(a)
    da[np.arange(len(a)), targets(*a.shape)] = -dy[0, 0] / len(a)
    return [rounded(da)]


def same(m: int, n: int) -> list[tuple[int, int]]:
    return [(m, n)]


def twice(m: int, n: int) -> list[tuple[int, int]]:
    return [(m, n), (m, n)]


OPS = {
    "add": Op(
        lambda tape, a, b: a + b,
        twice,
        lambda a, b: rounded(a + b),
        lambda dy, a, b: [exactly(dy), exactly(dy)],
    ),
    "add_row": Op(
        lambda tape, a, b: a + b,
        lambda m, n: [(m, n), (1, n)],
        lambda a, b: rounded(a + b),
        lambda dy, a, b: [
            exactly(dy),
            (dy.sum(0, keepdims=True), len(dy) * U * abs(dy).sum(0, keepdims=True)),
        ],
    ),
    "mul": Op(
        lambda tape, a, b: a * b,
        twice,
        lambda a, b: rounded(a * b),
        lambda dy, a, b: [rounded(dy * b), rounded(dy * a)],
    ),
    "matmul": Op(
        lambda tape, a, b: a @ b,
        lambda m, n: [(m, n + 2), (n + 2, n)],
        multiplied,
        lambda dy, a, b: [multiplied(dy, b.T), multiplied(a.T, dy)],
    ),
    "relu": Op(
        lambda tape, a: tape.relu(a),
        same,
        lambda a: exactly(np.maximum(a, 0)),
        lambda dy, a: [exactly(dy * (a > 0))],
    ),
    "log_softmax": Op(
        lambda tape, a: tape.log_softmax(a), same, log_softmax, log_softmax_backward
    ),
    "sum": Op(
        lambda tape, a: tape.sum(a),
        same,
        lambda a: (a.sum(keepdims=True), a.size * U * abs(a).sum(keepdims=True)),
        lambda dy, a: [exactly(dy + np.zeros_like(a))],
    ),
    "nll": Op(
        lambda tape, a: tape.nll(a, targets(*a.shape)),
        same,
        lambda a: (
            picked(a).mean(keepdims=True).reshape(1, 1),
            (len(a) + 1) * U * abs(picked(a)).mean(),
        ),
        nll_backward,
    ),
}
# Single elements, a row, a column, blocks that are not full, and more than one block of
# rows, of columns and of plain C's shared loops.
SIZES = [(1, 1), (1, 7), (5, 1), (33, 17), (300, 140)]


def refuse(what: str, got: np.ndarray, want: Bounded) -> None:
    exact, bound = want
    assert got.shape == exact.shape, what
    bad = ~(abs(got - exact) <= bound)  # a NaN is bad
    assert not bad.any(), f"{what}: {got[bad][:3]}, expected {exact[bad][:3]}"


@on_all_rungs
@pytest.mark.parametrize("size", only(SIZES[:4], SIZES), ids=str)
@pytest.mark.parametrize("name", OPS)
def test_an_operation_and_its_gradients_agree_with_float64(name, size, target, rung):
    op, rng = OPS[name], np.random.default_rng(0)
    with Tape(target, rung) as tape:
        hosts = [
            rng.normal(0, 2, shape).astype(np.float32) for shape in op.shapes(*size)
        ]
        inputs = [tape.tensor(host, grad=True) for host in hosts]
        y = op.record(tape, *inputs)
        dy = rng.standard_normal(y.shape).astype(np.float32)
        # d sum(y * dy) / dy is exactly dy.
        tape.backward(tape.sum(y * tape.tensor(dy)))
        exact = [host.astype(np.float64) for host in hosts]
        refuse("y", y.value, op.forward(*exact))
        for turn, want in enumerate(op.backward(dy.astype(np.float64), *exact)):
            refuse(f"gradient {turn}", inputs[turn].grad, want)


def test_a_wrong_gradient_would_be_refused():
    """The check above fails for a gradient that is off by one part in 10,000."""
    rng = np.random.default_rng(0)
    for name, op in OPS.items():
        exact = [rng.normal(0, 2, shape) for shape in op.shapes(33, 17)]
        shape = op.forward(*exact)[0].shape
        want, bound = op.backward(rng.standard_normal(shape), *exact)[0]
        with pytest.raises(AssertionError):
            refuse(name, want * (1 + 1e-4), (want, bound))


@on_all_rungs
def test_the_shares_of_all_uses_are_added(target, rung):
    with Tape(target, rung) as tape:
        a = tape.tensor(3.0, grad=True)
        tape.backward(a + a)
        assert a.grad.item() == 2
        tape.reset(keep=[a])
        tape.backward(a * a + a)
        assert a.grad.item() == 7
        tape.reset()
        square = tape.tensor([[1, 2], [3, 4]], grad=True)
        tape.backward(tape.sum(square @ square))
        assert square.grad.tolist() == [[7, 11], [9, 13]]
        tape.reset()
        a, b = (tape.tensor(number, grad=True) for number in (3.0, 5.0))
        tape.backward(a @ b + a @ b)
        assert (a.grad.item(), b.grad.item()) == (10, 6)


@on_all_rungs
def test_only_entries_before_the_loss_pass_gradients_on(target, rung):
    """An infinity times a zero gradient would be NaN."""
    with Tape(target, rung) as tape:
        a = tape.tensor([1.0, np.inf], grad=True)
        unused = a * a
        tape.backward(tape.sum(a))
        assert a.grad.tolist() == [[1, 1]]
        assert unused.grad.tolist() == [[0, 0]]


@on_all_rungs
def test_tensors_without_gradients_have_none(target, rung):
    with Tape(target, rung) as tape:
        x, w = tape.tensor([[1.0, 2.0]]), tape.tensor([[3.0], [4.0]], grad=True)
        tape.backward(x @ w)
        assert w.grad.tolist() == [[1], [2]]
        with pytest.raises(weft.ArgumentError, match="depends on no tensor with a"):
            x.grad  # noqa: B018


def step(tape: Tape, params: list, lr: float = 0.1) -> float:
    """Take a step of a small network; return the loss."""
    w1, b1, w2, b2 = params
    rng = np.random.default_rng(1)
    x = tape.tensor(rng.standard_normal((20, 9)))
    logits = tape.relu(x @ w1 + b1) @ w2 + b2
    loss = tape.nll(tape.log_softmax(logits), rng.integers(0, 4, 20))
    tape.backward(loss)
    found = loss.value.item()
    tape.step(lr)
    tape.reset(keep=params)
    return found


def make_params(tape: Tape) -> list:
    rng = np.random.default_rng(0)
    shapes = (9, 70), (70,), (70, 4), (4,)
    return [tape.tensor(rng.normal(0, 0.3, shape), grad=True) for shape in shapes]


@on_all_rungs
def test_steps_lower_the_loss_and_have_the_same_bits_in_each_run(target, rung):
    runs = []
    for _ in range(2):
        with Tape(target, rung) as tape:
            params = make_params(tape)
            losses = [step(tape, params) for _ in range(10)]
            runs.append((losses, [param.value.tobytes() for param in params]))
    assert runs[0] == runs[1]
    assert runs[0][0][-1] < 0.9 * runs[0][0][0]


def test_plain_c_has_the_same_bits_for_any_number_of_threads():
    found = []
    for threads in (1, 3):
        before = weft.set_threads(threads)
        try:
            with Tape("cpu", "reference") as tape:
                a = tape.tensor(np.linspace(-1, 1, 60_000).reshape(200, 300), grad=True)
                row = tape.tensor(np.linspace(2, 3, 300), grad=True)
                tape.backward(tape.sum(tape.log_softmax(tape.relu(a + row) * a)))
                found.append((a.grad.tobytes(), row.grad.tobytes()))
        finally:
            weft.set_threads(before)
    assert found[0] == found[1]


@on_all_rungs
def test_step_subtracts_the_scaled_gradient(target, rung):
    with Tape(target, rung) as tape:
        w, fixed = tape.tensor([1.0, 2.0], grad=True), tape.tensor([3.0, 5.0])
        tape.backward(tape.sum(w * fixed))
        tape.step(0.5)
        assert w.value.tolist() == [[-0.5, -0.5]]
        assert fixed.value.tolist() == [[3, 5]]


# ---- memory --------------------------------------------------------------------------


def test_reset_frees_all_but_the_kept_tensors_whose_gradients_are_cleared():
    with Tape() as tape:
        a, b = tape.tensor(np.ones(100), grad=True), tape.tensor(np.ones(50), grad=True)
        kept = a.value.tobytes()
        before = tape.bytes
        tape.backward(tape.sum(a * a) + tape.sum(b))
        assert tape.bytes > before
        tape.reset(keep=[a])
        assert [entry.id for entry in tape.entries] == [a.id]
        assert tape.bytes == 2 * 512  # value and gradient, in units of 256 bytes
        assert a.value.tobytes() == kept
        tape.backward(tape.sum(a))
        assert (a.grad == 1).all()
        tape.reset()
        assert tape.bytes == 0 and not tape.entries


def test_later_steps_take_the_memory_of_the_first():
    with Tape() as tape:
        params, pool = make_params(tape), native.ffi.new("size_t *")
        sizes = set()
        for _ in range(3):
            step(tape, params)
            used = tape._lib.C.weft_tape_bytes(tape._tape, pool)
            sizes.add((used, pool[0]))
        assert len(sizes) == 1 and pool[0] > 0


def test_a_tape_is_freed_with_its_last_reference():
    tape = Tape()
    a = tape.tensor(np.ones(10))
    alive = tape.close
    del tape, a
    gc.collect()
    assert not alive.alive


def test_too_large_a_result_is_one_error_and_changes_nothing():
    with Tape() as tape:
        column = tape.tensor(np.ones((2**19, 1)))
        with pytest.raises(weft.OutOfMemory, match="out of memory: 1099511627776"):
            column @ tape.tensor(np.ones((1, 2**19)))
        assert len(tape.entries) == 2
        assert tape.sum(column).value.item() == 2**19


# ---- errors --------------------------------------------------------------------------


def errors() -> Iterator[tuple[str, Callable[[Tape], object]]]:
    def zeros(tape: Tape, *shape: int, grad: bool = False):
        return tape.tensor(np.zeros(shape), grad)

    yield r"add: shapes \(2,3\) and \(3,2\)", lambda t: zeros(t, 2, 3) + zeros(t, 3, 2)
    yield r"add_row: shapes \(2,3\) and \(1,2\)", lambda t: zeros(t, 2, 3) + zeros(t, 2)
    yield r"mul: shapes \(1,3\) and \(2,3\)", lambda t: zeros(t, 3) * zeros(t, 2, 3)
    yield (
        r"matmul: shapes \(2,3\) and \(2,3\), want \(m,k\)",
        lambda t: zeros(t, 2, 3) @ zeros(t, 2, 3),
    )
    yield r"add: got \(2, 3\) and 1; want", lambda t: zeros(t, 2, 3) + 1
    yield (
        r"mul: got \(1, 2\) and \(1, 2\); want tensors of one tape",
        lambda t: zeros(t, 2) * zeros(Tape(), 2),
    )
    yield r"relu: got None; want tensors", lambda t: t.relu(None)
    yield r"tensor: shape \(1, 2, 3\)", lambda t: zeros(t, 1, 2, 3)
    yield r"tensor: shape \(0,\)", lambda t: zeros(t, 0)
    yield (
        r"nll: target has shape \(3,\) and dtype int64, want .* of \(2, 3\)",
        lambda t: t.nll(zeros(t, 2, 3), [0, 1, 2]),
    )
    yield r"dtype float64, want whole", lambda t: t.nll(zeros(t, 1, 3), [0.0])
    yield r"target\[1\] = 3, want 0 to 2", lambda t: t.nll(zeros(t, 2, 3), [0, 3])
    yield r"target\[0\] = -1, want", lambda t: t.nll(zeros(t, 1, 3), [-5])
    yield (
        r"backward: the loss has shape \(1,2\), want \(1,1\)",
        lambda t: t.backward(zeros(t, 2, grad=True)),
    )
    yield r"tensor 0 depends on no", lambda t: t.backward(zeros(t, 1))
    yield r"no gradients before backward", lambda t: zeros(t, 1, grad=True).grad
    yield r"step: there are no gradients", lambda t: t.step(0.1)
    yield r"step: lr = inf", lambda t: t.step(np.inf)
    yield (
        r"reset: tensor 1 is the result of relu",
        lambda t: t.reset(keep=[t.relu(zeros(t, 2))]),
    )

    def twice(tape: Tape) -> None:
        loss = tape.sum(zeros(tape, 2, grad=True))
        tape.backward(loss)
        tape.backward(loss)

    yield "backward: called twice", twice

    def use_freed(tape: Tape) -> None:
        x = zeros(tape, 2)
        tape.reset()
        zeros(tape, 2)
        tape.relu(x)

    yield "relu: tensor 0 is not on this tape, which has 1", use_freed

    def use_closed(tape: Tape) -> None:
        x = zeros(tape, 2)
        tape.close()
        tape.relu(x)

    yield "this Tape is closed", use_closed


@on_all_rungs
@loop_over("message, wrong", errors())
def test_a_mistake_is_one_error_with_its_numbers(message, wrong, target, rung):
    with Tape(target, rung) as tape, pytest.raises(weft.ArgumentError, match=message):
        wrong(tape)


# ---- kernels under watch -------------------------------------------------------------


@pytest.mark.slow  # the watch build of matmul's ladder takes 27 s
@pytest.mark.parametrize("order", (0, 1, 2))
def test_a_step_of_the_kernels_is_clean(order, monkeypatch):
    lib = load_watched_library("micrograd")
    monkeypatch.setitem(native._open, ("micrograd", "cpu"), lib)
    open_runtime().simt_check_begin()
    lib.call("weft_set_order", order)
    try:
        with Tape("cpu", "kernels") as tape:
            params = make_params(tape)
            assert step(tape, params) > 0
            a = params[0]
            tape.backward(tape.sum((a + a) * a))
    finally:
        lib.call("weft_set_order", 0)
    found = report_watched("kernels").findings
    assert not found, found
