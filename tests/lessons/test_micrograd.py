"""The pictures and the gradcheck of lesson 10b."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import weft
from weft.lessons import micrograd


@dataclass(eq=False)
class Number:
    """A scalar as the lesson's Value, without its operators."""

    data: float
    name: str
    parents: tuple[Number, ...] = ()
    slopes: tuple[float, ...] = ()


def test_the_picture_of_scalars_adds_the_shares_of_all_uses():
    a = Number(3.0, "a")
    square = Number(9.0, "*", (a, a), (3.0, 3.0))
    drawing = micrograd.play_graph(Number(12.0, "+", (square, a), (1.0, 1.0)))
    last = "".join(drawing.frames[2,])
    assert "3, grad 7" in last and "9, grad 1" in last
    assert "3, grad 1" in "".join(drawing.frames[1,])
    assert "* adds 3 · 1 to a and 3 · 1 to a" in drawing.account
    assert len(drawing.frames) == 3


def test_a_number_sends_only_after_all_its_uses():
    """The sum's parents are in the wrong order for a plain depth-first walk."""
    a = Number(2.0, "a")
    b = Number(4.0, "b", (a,), (2.0,))
    c = Number(8.0, "c", (b,), (2.0,))
    account = micrograd.play_graph(Number(12.0, "+", (b, c), (1.0, 1.0))).account
    assert account.index("c adds 2 · 1 to b") < account.index("b adds 2 · 3 to a")


def test_the_picture_of_a_tape_walks_its_entries_backwards():
    with weft.Tape() as tape:
        x, w = tape.tensor([[1.0, 2.0]]), tape.tensor([[3.0], [4.0]], grad=True)
        tape.relu(x @ w)
        drawing = micrograd.play_tape(tape, ["x", "w"])
    assert drawing.account.endswith(
        "entry 3, relu, adds to 2 (matmul); entry 2, matmul, adds to 1 (w)"
    )
    assert len(drawing.frames) == 3
    assert "2 x 1" in drawing.svg()


def test_a_tape_without_operations_and_a_wide_graph_are_refused():
    with weft.Tape() as tape:
        x = tape.tensor(1.0)
        with pytest.raises(weft.ArgumentError, match="1 entries.* has no operations"):
            micrograd.play_tape(tape)
        for _ in range(30):
            x = tape.relu(x)
        with pytest.raises(weft.ArgumentError, match="31 columns"):
            micrograd.play_tape(tape)


@pytest.mark.parametrize("rung", ["reference", "kernels"])
def test_all_operations_of_the_tape_are_compared(rung):
    text = str(micrograd.compare_gradients(rung=rung))
    with weft.Tape() as tape:
        names = tape._ops[1:]
    assert all(name in text for name in names) and len(names) == 8


@pytest.mark.parametrize(
    "wrong",
    [lambda a: np.maximum(a, 0) * 1.0001, lambda a: np.full_like(a, np.nan)],
    ids=["off by 1e-4", "nan"],
)
def test_a_wrong_gradient_is_refused(wrong, monkeypatch):
    shapes, record, _ = micrograd.OPERATIONS["relu"]
    monkeypatch.setitem(micrograd.OPERATIONS, "relu", (shapes, record, wrong))
    with pytest.raises(AssertionError, match="^relu: .* of the largest gradient"):
        micrograd.compare_gradients()
