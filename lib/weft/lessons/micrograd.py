"""Pictures and checks of the engines of lesson 10b.

play_graph(y)           a graph of scalars, with a slider for its backward pass
play_tape(tape)         the entries of a weft.Tape, below their graph
compare_gradients()     each operation of the tape against finite differences
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.errors import ArgumentError
from ..base.style import DIM, PALE, READ, WIDTH, WRITTEN
from ..base.text import count_things
from ..ops.check import numeric_gradient
from ..ops.tape import Tape
from ..report.html import Table, table
from ..see.pictures import svg
from ..see.pictures.panels import EDGE
from ..see.pictures.svg import Drawing, Slider, box, label, num, remark

TOP, HIGH, APART = 80.0, 40.0, 16.0  # pixels: first row's y, heights of node and gap
LANE = TOP - 14  # y of the edges that skip columns
GAP = 12.0  # minimum distance between two columns in pixels


@dataclass(frozen=True)
class Node:
    """A node of a graph. operands: indices of earlier nodes."""

    name: str
    operands: tuple[int, ...]
    note: str = ""


# ---- scalars -------------------------------------------------------------------------


def play_graph(last: Any) -> Drawing:
    """Return the graph of a scalar, with a slider along its backward pass.

    last: a number with the attributes data, name, parents and slopes; a slope is the
    derivative for a parent. The picture computes the gradients itself, in float64.
    Raises ArgumentError if the graph is too wide.
    """
    values = _sort_values(last)
    index = {id(value): at for at, value in enumerate(values)}
    operands = [tuple(index[id(p)] for p in value.parents) for value in values]
    grads = [0.0] * len(values)
    grads[-1] = 1.0
    rows, captions = [list(grads)], [f"before: the gradient of {last.name} is 1"]
    for at in range(len(values) - 1, -1, -1):
        if not operands[at]:
            continue
        shares = []
        for parent, slope in zip(operands[at], values[at].slopes):
            grads[parent] += slope * grads[at]
            text = f"{slope:g} · {grads[at]:g} to {values[parent].name}"
            shares.append(text)
        rows.append(list(grads))
        captions.append(f"{values[at].name} adds {' and '.join(shares)}")
    senders = [at for at in range(len(values) - 1, -1, -1) if operands[at]]

    def write_note(turn: int, at: int) -> str:
        return f"{values[at].data:g}, grad {rows[turn][at]:g}"

    turns = [
        [
            Node(value.name, operands[at], write_note(turn, at))
            for at, value in enumerate(values)
        ]
        for turn in range(len(rows))
    ]
    title = f"{count_things(len(values), 'number')}, and their gradients"
    return _play(title, turns, senders, captions, has_strip=False)


def _sort_values(last: Any) -> list[Any]:
    """Return the numbers that `last` depends on, each after its parents."""
    order: list[Any] = []

    def visit(value: Any) -> None:
        if not any(value is one for one in order):
            for parent in value.parents:
                visit(parent)
            order.append(value)

    visit(last)
    return order


# ---- tapes ---------------------------------------------------------------------------


def play_tape(tape: Tape, names: Sequence[str] = ()) -> Drawing:
    """Return the entries of a tape as a strip below their graph.

    The slider moves backwards along the strip, as weft_tape_backward() does. names:
    names for the first entries, which replace "tensor". Raises ArgumentError if there
    are no operations, or if the graph is too wide.
    """
    entries = tape.entries
    index = {entry.id: at for at, entry in enumerate(entries)}
    nodes = [
        Node(
            names[at] if at < len(names) else entry.op,
            tuple(index[number] for number in entry.operands),
            " x ".join(map(str, entry.shape)),
        )
        for at, entry in enumerate(entries)
    ]
    senders = [at for at in range(len(nodes) - 1, -1, -1) if nodes[at].operands]
    if not senders:
        raise ArgumentError(f"play_tape: {tape} has no operations")
    needs = [entry.needs_grad for entry in entries]
    captions = ["before: the gradient of the last entry is 1"]
    for at in senders:
        into = [f"{n} ({nodes[n].name})" for n in nodes[at].operands if needs[n]]
        captions.append(f"entry {at}, {nodes[at].name}, adds to {' and '.join(into)}")
    title = f"{len(nodes)} entries, walked backwards"
    turns = [nodes] * len(captions)
    return _play(title, turns, senders, captions, has_strip=True, needs=needs)


# ---- the picture of both -------------------------------------------------------------


def _play(
    title: str,
    turns: Sequence[Sequence[Node]],
    senders: Sequence[int],
    captions: Sequence[str],
    *,
    has_strip: bool,
    needs: Sequence[bool] | None = None,
) -> Drawing:
    """Draw a graph for each step of its backward pass; turns: the nodes at each step.

    senders: the node that sends its gradient back at each step after the first.
    needs: whether each node needs a gradient; by default, all do.
    """
    nodes = turns[0]
    needs = needs or [True] * len(nodes)
    board = Board(turns, needs)
    frames = {}
    for turn in range(len(captions)):
        head = senders[turn - 1] if turn else None
        parts = [board.draw(turn, head, set(senders[:turn]))]
        if has_strip:
            parts.append(board.draw_strip(head, set(senders[:turn])))
        frames[turn,] = [*parts, remark(EDGE, 44, captions[turn])]
    bottom = board.bottom + (74 if has_strip else 8)
    marks = [(svg.square(colour=READ, fill=svg.FILL), "its gradient is complete")]
    marks += [(svg.square(colour=WRITTEN, stroke=2), "adds to its operands")]
    base = label(EDGE, 22, title, 16, bold=True)
    base += svg.legend(EDGE, bottom + 14, marks)[0]
    stops = ("before", *(f"step {turn}" for turn in range(1, len(captions))))
    account = f"{title}. " + "; ".join(captions)
    size = WIDTH if has_strip else max(board.right + EDGE, 460), bottom + 28
    sliders, start = [Slider("backward", stops)], (len(captions) // 2,)
    return Drawing(title, *size, base, sliders, frames, start, account)


class Board:
    """The places of a graph's nodes: columns by depth, from left to right.

    turns: the nodes at each step. needs: whether each node needs a gradient.
    """

    def __init__(self, turns: Sequence[Sequence[Node]], needs: Sequence[bool]) -> None:
        self.turns, self.nodes, self.needs = turns, turns[0], needs
        columns = self._list_columns()
        texts = [svg.width_of(node.name, 13.5) for node in self.nodes]  # bold
        texts += [svg.width_of(n.note, svg.SMALL) + 6 for nodes in turns for n in nodes]
        self.wide = max(texts) + 8
        room = WIDTH - 2 * EDGE - len(columns) * self.wide
        if len(columns) > 1 and room < GAP * (len(columns) - 1):
            size = f"{len(columns)} columns of {self.wide:.0f} pixels"
            raise ArgumentError(f"the graph has {size}, but {WIDTH} are available")
        self.step = self.wide + min(7 * GAP, room / max(1, len(columns) - 1))
        most = max(map(len, columns))
        self.at: dict[int, tuple[float, float]] = {}
        for place, column in enumerate(columns):
            above = (most - len(column)) * (HIGH + APART) / 2
            for row, node in enumerate(column):
                y = TOP + above + row * (HIGH + APART)
                self.at[node] = EDGE + place * self.step, y
        self.right = EDGE + (len(columns) - 1) * self.step + self.wide
        self.bottom = TOP + most * (HIGH + APART)

    def _list_columns(self) -> list[list[int]]:
        """Return the nodes by column; a tensor's is to the left of its first use."""
        depth: list[int] = []
        for node in self.nodes:
            depth.append(1 + max((depth[n] for n in node.operands), default=-1))
        for at, node in enumerate(self.nodes):
            uses = [depth[n] for n, o in enumerate(self.nodes) if at in o.operands]
            if uses and not node.operands:
                depth[at] = min(uses) - 1
        columns: list[list[int]] = [[] for _ in range(max(depth) + 1)]
        for at, column in enumerate(depth):
            columns[column].append(at)
        return columns

    def draw(self, turn: int, head: int | None, sent: set[int]) -> str:
        """Draw the graph; head: the node that adds to its operands at this step."""
        out = ""
        for at, node in enumerate(self.nodes):
            for place, operand in enumerate(node.operands):
                out += self._draw_edge(at, operand, place, at == head)
        for at, node in enumerate(self.turns[turn]):
            x, y = self.at[at]
            out += box(x, y, self.wide, HIGH, **self._choose_style(at, head, sent))
            middle = x + self.wide / 2
            out += label(middle, y + 16, node.name, 12, anchor="middle", bold=True)
            out += label(middle, y + 32, node.note, svg.SMALL, anchor="middle")
        return out

    def draw_strip(self, head: int | None, sent: set[int]) -> str:
        """Draw the tape itself: a cell for each entry, in the order of the array."""
        wide, y, out = (WIDTH - 2 * EDGE) / len(self.nodes), self.bottom + 20, ""
        # The head comes last, so that no neighbour's outline covers its own.
        for at, node in sorted(enumerate(self.nodes), key=lambda pair: pair[0] == head):
            x = EDGE + at * wide
            look = self._choose_style(at, head, sent) | {"radius": 0}
            out += box(x, y, wide, HIGH, **look)
            name = svg.clipped(node.name, wide - 4, svg.SMALL)
            operands = ", ".join(map(str, node.operands))
            out += label(x + wide / 2, y + 16, name, svg.SMALL, anchor="middle")
            out += label(x + wide / 2, y + 32, operands, svg.SMALL, anchor="middle")
            out += remark(x + wide / 2, y - 5, str(at), anchor="middle")
        return out

    def _choose_style(
        self, at: int, head: int | None, sent: set[int]
    ) -> dict[str, Any]:
        uses = [n for n, o in enumerate(self.nodes) if at in o.operands]
        is_complete = self.needs[at] and all(n in sent for n in uses)
        look = {"colour": READ, "fill": svg.FILL} if is_complete else {"strength": DIM}
        head_look = {"edge": WRITTEN, "stroke": 2, "strength": 1}
        return look | (head_look if at == head else {})

    def _draw_edge(self, to: int, source: int, place: int, flows: bool) -> str:
        """Draw a pale line forward, or an arrow back while the gradient flows.

        An edge that skips columns runs above the nodes.
        """
        (x0, y0), (x1, y1) = self.at[source], self.at[to]
        flows = flows and self.needs[source]
        if x1 - x0 > 1.5 * self.step:
            x0, x1 = x0 + self.wide / 2, x1 + self.wide / 2
            path = f"M{num(x1)} {num(y1 - 1)}V{num(LANE + 8)}q0 -8 -8 -8H{num(x0 + 8)}"
            path += f"q-8 0 -8 8V{num(y0 - 1)}"
            if not flows:
                return f'<path d="{path}" fill="none" {PALE}/>'
            head = f"M{num(x0 - 3.2)} {num(y0 - 6)}h6.4l-3.2 5z"
            line = (
                f'<path d="{path}" fill="none" stroke="{WRITTEN}" stroke-width="1.3"/>'
            )
            return f'{line}<path d="{head}" fill="{WRITTEN}"/>'
        x0, y0, y1 = x0 + self.wide, y0 + HIGH / 2, y1 + HIGH / 2 - 7 + 14 * place
        if flows:
            y0 += 5 * (2 * place - 1) * (self.nodes[to].operands.count(source) > 1)
            return svg.arrow((x1 - 1, y1), (x0 + 1, y0), WRITTEN, level=True)
        middle = num((x0 + x1) / 2)
        path = f"M{num(x0)} {num(y0)}C{middle} {num(y0)} {middle} {num(y1)} "
        return f'<path d="{path}{num(x1)} {num(y1)}" fill="none" {PALE}/>'


# ---- gradcheck -----------------------------------------------------------------------


def _log_softmax(a: np.ndarray) -> np.ndarray:
    shifted = a - a.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))


PICKED = [2, 0, 1, 4]  # the targets of nll, a column for each of four rows
# For each operation: the shapes of its operands, the function on a tape, and NumPy's.
OPERATIONS: dict[str, tuple[list[tuple[int, int]], Callable, Callable]] = {
    "add": ([(4, 5)] * 2, lambda t, a, b: a + b, np.add),
    "add_row": ([(4, 5), (1, 5)], lambda t, a, b: a + b, np.add),
    "mul": ([(4, 5)] * 2, lambda t, a, b: a * b, np.multiply),
    "matmul": ([(4, 3), (3, 5)], lambda t, a, b: a @ b, np.matmul),
    "relu": ([(4, 5)], Tape.relu, lambda a: np.maximum(a, 0)),
    "log_softmax": ([(4, 5)], Tape.log_softmax, _log_softmax),
    "sum": ([(4, 5)], Tape.sum, np.sum),
    "nll": (
        [(4, 5)],
        lambda t, a: t.nll(a, PICKED),
        lambda a: -a[range(4), PICKED].mean(),
    ),
}
LARGEST = 64 * 2.0**-24  # largest error of a gradient, relative to its largest element


def compare_gradients(device: str = "cpu", rung: str | None = None) -> Table:
    """Compare each operation's gradients with differences in float64; return a table.

    The loss is sum(y * dy) with a random dy. Gradients here are sums of at most 5
    products of numbers of order 1, or softmaxes of 5 of them. Their errors are at most
    64 roundings of 2^-24. Raises AssertionError for a larger error, or for a NaN.
    """
    rows = []
    for name, (shapes, *functions) in OPERATIONS.items():
        with Tape(device, rung) as tape:
            error = _measure_error(tape, shapes, *functions)
        assert error <= LARGEST, f"{name}: {error:.1e} of the largest gradient"
        texts = [f"({m},{n})" for m, n in shapes]
        rows.append((name, " ".join(texts), error))
    return table(rows, "operation", "shapes", "largest error, relative")


def _measure_error(
    tape: Tape,
    shapes: Sequence[tuple[int, int]],
    record: Callable,
    in_numpy: Callable,
) -> float:
    """Return the largest error of an operation's gradients, over the largest one."""
    rng = np.random.default_rng(0)
    hosts = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    exact = [host.astype(np.float64) for host in hosts]
    inputs = [tape.tensor(host, grad=True) for host in hosts]
    y = record(tape, *inputs)
    dy = rng.standard_normal(y.shape).astype(np.float32)
    tape.backward(tape.sum(y * tape.tensor(dy)))

    def compute_loss(_: np.ndarray) -> float:
        return np.sum(in_numpy(*exact) * dy)

    errors = []
    for tensor, array in zip(inputs, exact):
        want = numeric_gradient(compute_loss, array)
        errors.append(abs(tensor.grad - want).max() / abs(want).max())
    return float(np.max(errors))  # a NaN stays a NaN, and fails the comparison
