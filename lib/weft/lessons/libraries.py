"""Pictures, calls and tables of NVIDIA's libraries, for lesson 12.

Blas(device)                      cuBLAS, called with the parameters of its C function
play_layout(), play_operands()    one buffer, read by rows and by columns
play_leading()                    the cells that a leading dimension reaches
check_product()                   checks a reader's call to cublasSgemm()
philox(), draw_numbers()          random numbers, from a counter and from cuRAND
play_draws()                      the thread that drew each random number
draw_decision()                   a library, a compiler, or a kernel of your own?
list_rows(), draw_products()      first and later calls of each way, here and elsewhere
list_rivals()                     Weft's fastest rung and CUB, for several ops
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ..base import style as kit
from ..base.errors import ArgumentError
from ..base.progress import PATIENCE, Progress
from ..base.style import DIM, FAULT, PALE, READ, SHARED, THREAD, WRITTEN
from ..benchmarks import libraries, write_digits
from ..benchmarks.plot_bodies import load_elsewhere
from ..report.html import Table, table
from ..see.pictures import svg
from ..see.pictures.panels import EDGE
from ..see.pictures.svg import Drawing, Slider, box, label, remark
from ..timing.results import Row, is_drawn
from ..toolchain import vendor

Matrix = Sequence[Sequence[Any]]
CELL = 34.0  # side of a matrix's cell, in pixels


class Blas:
    """cuBLAS on a device; on the CPU, Weft's version of it.

    functions: the functions of the library. handle: the result of cublasCreate().
    """

    def __init__(self, device: str):
        self.library = vendor.open_library("blas", torch.device(device).type)
        self.functions, self.ffi = self.library.C, self.library.ffi
        handle = self.ffi.new("cublasHandle_t *")
        self.library.call("cublasCreate_v2", handle)
        self.handle = handle[0]

    def sgemm(
        self, turns: str, m: int, n: int, k: int, a: torch.Tensor, lda: int,
        b: torch.Tensor, ldb: int, c: torch.Tensor, ldc: int,
    ) -> int:  # fmt: skip
        """Call cublasSgemm() with alpha = 1 and beta = 0; return its status.

        turns: "N" or "T" for each factor, such as "NT". a, b, c: float32 tensors, whose
        addresses are passed. Raises ArgumentError for anything else, or if the call
        would access memory outside a tensor.
        """
        if sorted({*turns} | {"N", "T"}) != ["N", "T"] or len(turns) != 2:
            raise ArgumentError(f"sgemm: {turns!r}, expected NN, NT, TN or TT")
        shapes = [(m, k)[:: -1 if turns[0] == "T" else 1]]
        shapes += [(k, n)[:: -1 if turns[1] == "T" else 1], (m, n)]
        tensors = {"a": (a, lda), "b": (b, ldb), "c": (c, ldc)}
        for (name, (x, ld)), (rows, cols) in zip(tensors.items(), shapes):
            _check_reach(name, x, ld, rows, cols)
        at = [self.ffi.cast("float *", x.data_ptr()) for x in (a, b, c)]
        one, zero = (self.ffi.new("float *", value) for value in (1, 0))
        numbers = ["NT".index(turn) for turn in turns] + [m, n, k]
        words = one, at[0], lda, at[1], ldb, zero, at[2], ldc
        return self.functions.cublasSgemm_v2(self.handle, *numbers, *words)

    def describe(self, status: int) -> str:
        """Return a status in cuBLAS's words."""
        return self.library.describe_status(status)


_open_blas = functools.cache(Blas)  # one handle for all checks on a device


def check_product(
    multiply: Callable[..., int],
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor | None = None,
) -> None:
    """Check that multiply(blas, a, b, c) writes a @ b into c, and returns 0.

    a, b, c: on the same device; c: by default a new matrix. A wrong c is drawn. Raises
    AssertionError if numbers are wrong; the message names the product that c contains,
    if it is known.
    """
    blas = _open_blas(str(a.device))
    c = a.new_empty(len(a), b.shape[1]) if c is None else c
    c.fill_(torch.nan)
    status = multiply(blas, a, b, c)
    assert status == 0, f"sgemm returned {status!r}: {blas.describe(status or 0)}"
    exact, bound = libraries.find_bound(a, b)
    right = (c.double() - exact).abs() <= bound
    if not bool(right.all()):
        _show_wrong(right.cpu().numpy())
        sizes = f"a {tuple(a.shape)}, b {tuple(b.shape)}: "
        count = f"{int((~right).sum())} of {right.numel()} numbers of c are wrong"
        raise AssertionError(sizes + count + _recognise(c, a, b))


def _recognise(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> str:
    """Describe the content of a wrong c, such as another product; "" if unknown."""
    known = {"a @ b, stored by columns": (a @ b).T.reshape(c.shape)}
    if a.shape == b.shape:
        known["b @ a"] = b @ a
    for name, product in known.items():
        if torch.allclose(c, product, atol=1e-4):
            return f": it is {name}"
    return ": none of them was written" if bool(c.isnan().all()) else ""


def _show_wrong(right: np.ndarray) -> None:
    """Draw c as a grid in which wrong numbers are marked."""
    rows, cols = right.shape
    title = f"{int(right.sum())} of {right.size} numbers of c are right"
    out = [label(EDGE, 24, title, 14)]
    for (row, col), good in np.ndenumerate(right):
        colour, sign = (SHARED, "") if good else (FAULT, "x")
        x, y = EDGE + col * 26, 40 + row * 26
        out.append(box(x, y, 26, 26, colour=colour, fill=svg.FILL))
        out.append(label(x + 13, y + 17, sign, 12, anchor="middle"))
    size = max(340, EDGE * 2 + cols * 26), 52 + rows * 26
    Drawing(title, *size, "".join(out), [], {(): []}, (), title).show()


def _check_reach(name: str, x: torch.Tensor, ld: int, rows: int, cols: int) -> None:
    """Raise ArgumentError if a matrix by columns extends beyond its tensor's memory."""
    if x.dtype != torch.float32:
        raise ArgumentError(f"sgemm: {name} is {x.dtype}, expected torch.float32")
    if min(rows, cols) < 1 or ld < rows:
        return  # cuBLAS does nothing, or returns an error
    room = x.untyped_storage().nbytes() // 4 - x.storage_offset()
    needed = (cols - 1) * ld + rows
    if needed > room:
        text = f"{cols} columns of {rows} numbers, {ld} apart, need {needed} numbers"
        raise ArgumentError(f"sgemm: {name}: {text}, but {room} remain in its memory")


# ---- rows and columns ----------------------------------------------------------------


def _draw_matrix(
    x: float, y: float, values: Matrix, name: str, colour: str = READ
) -> str:
    """Draw a matrix with its name above it."""
    out = [label(x, y - 8, name, 13, mono=True)]
    for row, line in enumerate(values):
        for col, value in enumerate(line):
            left, top = x + col * CELL, y + row * CELL
            out.append(box(left, top, CELL, CELL, colour=colour, fill=svg.FILL))
            middle = left + CELL / 2, top + CELL / 2 + 5
            out.append(label(*middle, f"{value:g}", 13, anchor="middle"))
    return "".join(out)


def play_layout() -> Drawing:
    """Draw a buffer of six numbers, and the two matrices that it may represent."""
    buffer, title = np.arange(1, 7), "One buffer, two matrices"
    base = label(EDGE, 24, title, 16, bold=True)
    base += _draw_matrix(EDGE, 76, [buffer], "the buffer, as it is in memory")
    rows, columns = buffer.reshape(2, 3), buffer.reshape(2, 3).T
    stops = ("by rows", "by columns")
    frames = {}
    for at, (values, word) in enumerate(((rows, "row"), (columns, "column"))):
        size = "x".join(map(str, values.shape))
        name = f"{stops[at]}: a matrix of {size}"
        out = [_draw_matrix(330, 76, values, name, (READ, SHARED)[at])]
        look = {"colour": (READ, SHARED)[at], "fill": 1, "radius": 1}
        for place in range(3):  # a bar below each number of the first row or column
            out.append(box(EDGE + place * CELL + 2, 116, CELL - 4, 5, **look))
        out.append(remark(EDGE, 138, f"the first {word}"))
        sides = (CELL, 3 * CELL) if at else (3 * CELL, CELL)
        out.append(box(330 + 2, 76 + 2, *(side - 4 for side in sides), stroke=2.5))
        frames[at,] = out
    account = f"{title}: 1 2 3 4 5 6 is [[1 2 3] [4 5 6]] by rows, and its transpose "
    account += "[[1 4] [2 5] [3 6]] by columns"
    size = 560, 76 + 3 * CELL + EDGE
    return Drawing(title, *size, base, [Slider("read", stops)], frames, (0,), account)


def play_operands(
    a: Matrix = ((1, 2), (3, 4)), b: Matrix = ((0, 1), (2, 5))
) -> Drawing:
    """Draw the product for both orders of operands, as cuBLAS and as you read it."""
    a, b = np.asarray(a), np.asarray(b)
    title = "Which product do you read?"
    base = label(EDGE, 24, title, 16, bold=True)
    frames, texts, across = {}, [], 3 * CELL + 58
    for at, (one, other, names) in enumerate(((a, b, "ab"), (b, a, "ba"))):
        seen = one.T @ other.T
        yours = seen.T
        out = [label(EDGE, 52, f"sgemm({names[0]}, {names[1]}, c)", 13, mono=True)]
        parts = [(one.T, f"{names[0]}, by columns", READ)]
        parts += [(other.T, f"{names[1]}, by columns", READ)]
        parts += [(seen, "c, by columns", WRITTEN), (yours, "c, by rows", WRITTEN)]
        for place, (values, name, colour) in enumerate(parts):
            x = EDGE + place * across
            out.append(_draw_matrix(x, 92, values, name, colour))
            sign = ("@", "=", "so", "")[place]
            middle = x + (2 * CELL + across) / 2, 92 + CELL + 5
            out.append(label(*middle, sign, 14, anchor="middle"))
        product = f"{names[1]} @ {names[0]}"
        is_right = bool(at)
        text = f"You read {product}" + (": what you wanted" if is_right else "")
        colour = SHARED if is_right else FAULT
        out.append(label(EDGE, 92 + 2 * CELL + 28, text, 13, colour=colour))
        frames[at,] = out
        texts.append(f"sgemm({names[0]}, {names[1]}) gives {product} by rows")
    size = EDGE + 4 * across, 92 + 2 * CELL + 46
    sliders = [Slider("operands", ("a, b", "b, a"))]
    return Drawing(
        title, *size, base, sliders, frames, (0,), f"{title} {'; '.join(texts)}"
    )


def play_leading(
    rows: int = 5,
    cols: int = 7,
    m: int = 3,
    n: int = 4,
    first: tuple[int, int] = (1, 2),
) -> Drawing:
    """Draw the cells that a library reads for a block, for each leading dimension.

    The block (m,n) begins at `first` in a matrix (rows,cols) by rows. The slider
    selects the leading dimension: the distance between two rows.
    """
    title = "A block inside a larger matrix"
    choices = range(n, cols + 2)
    start = first[0] * cols + first[1]
    inside = {start + r * cols + c for r in range(m) for c in range(n)}
    base = label(EDGE, 24, title, 16, bold=True)
    frames, texts = {}, []
    for at, ld in enumerate(choices):
        reached = [start + r * ld + c for r in range(m) for c in range(n)]
        good = sum(place in inside for place in reached)
        text = f"leading dimension {ld}: {good} of {m * n} cells are in the block"
        out = [label(EDGE, 50, text, 13)]
        for place in range(rows * cols):
            x, y = EDGE + place % cols * CELL, 66 + place // cols * CELL
            look: dict[str, Any] = {"strength": DIM}
            if place in reached:
                colour = READ if place in inside else FAULT
                look = {"colour": colour, "fill": svg.FILL}
            out.append(box(x, y, CELL, CELL, **look))
            faint = place not in reached
            middle = x + CELL / 2, y + CELL / 2 + 4
            out.append(label(*middle, str(place), 11, anchor="middle", faint=faint))
        x, y = EDGE + first[1] * CELL, 66 + first[0] * CELL
        out.append(box(x, y, n * CELL, m * CELL, stroke=2.5, radius=1))
        frames[at,] = out
        texts.append(text)
    marks = [(svg.square(colour=READ, fill=svg.FILL), "read, in the block")]
    marks += [(svg.square(colour=FAULT, fill=svg.FILL), "read, outside")]
    low = 66 + rows * CELL + 22
    base += svg.legend(EDGE, low, marks)[0]
    size, stops = (EDGE * 2 + cols * CELL + 120, low + 14), [f"{ld}" for ld in choices]
    return Drawing(
        *(title, *size, base, [Slider("leading dimension", tuple(stops))], frames),
        *((0,), f"{title}. " + "; ".join(texts)),
    )


# ---- random numbers ------------------------------------------------------------------

ORDERS: dict[str, Callable[[int], tuple[int, int]]] = {
    "XORWOW, host": lambda n: (n % 4096, n // 4096),
    "Philox, host": lambda n: (n // 4 % 65536, n // 262144 * 4 + n % 4),
    "a kernel, 1 each": lambda n: (n, 0),
    "a kernel, 4 each": lambda n: (n // 4, n % 4),
}


def play_draws(count: int = 16) -> Drawing:
    """Draw the first numbers in memory, and the thread that drew each of them.

    An array is filled by cuRAND's host functions, whose threads take turns, or by a
    kernel in which thread i draws numbers of subsequence i. Source: cuRAND's guide,
    "Generator Options", and libraries/curand.cpp for Philox.
    """
    title, side = "Which thread drew which number?", 44.0
    base, frames, texts = label(EDGE, 24, title, 16, bold=True), {}, []
    for at, (name, order) in enumerate(ORDERS.items()):
        drawn = [order(place) for place in range(count)]
        out = []
        for place, (thread, turn) in enumerate(drawn):
            x = EDGE + place * (side + 8)
            circle = x + side / 2, 74
            out.append(svg.thread(*circle, 15))
            out.append(label(circle[0], 79, f"{thread}", 12, anchor="middle"))
            out.append(f'<path d="M{circle[0]:.0f} 90V112" fill="none" {PALE}/>')
            out.append(box(x, 114, side, 30, colour=WRITTEN, fill=svg.FILL))
            text = f"{turn + 1}."
            out.append(label(circle[0], 134, text, 12, anchor="middle"))
        threads = len({thread for thread, _ in drawn})
        text = f"{name}: {threads} threads drew the first {count} numbers"
        out.append(label(EDGE, 48, text, 13))
        texts.append(text)
        frames[at,] = out
    marks = [(svg.MARKS["thread"][0], "the thread, or subsequence")]
    cell = svg.square(colour=WRITTEN, fill=svg.FILL)
    marks += [(cell, "which of its numbers is at this place of the array")]
    base += svg.legend(EDGE, 174, marks)[0]
    size = EDGE * 2 + count * (side + 8), 190
    sliders = [Slider("filled by", tuple(ORDERS))]
    return Drawing(
        title, *size, base, sliders, frames, (0,), f"{title} {'; '.join(texts)}"
    )


TURN = 4 * 65536  # numbers that the host functions' Philox threads draw in a turn


def philox(seed: int, turn: int, thread: int) -> list[int]:
    """Return the four 32-bit numbers that a thread draws in a turn, by Philox4x32-10.

    Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3"
    (SC 2011); the counter is composed as in curand_init().
    """
    low, mask = [], 0xFFFFFFFF
    for number in (turn, thread):
        low += [number & mask, number >> 32 & mask]
    keys = [seed & mask, seed >> 32 & mask]
    for _ in range(10):
        one, other = 0xD2511F53 * low[0], 0xCD9E8D57 * low[2]
        low = [
            *(other >> 32 ^ low[1] ^ keys[0], other & mask),
            *(one >> 32 ^ low[3] ^ keys[1], one & mask),
        ]
        steps = 0x9E3779B9, 0xBB67AE85
        keys = [(key + step) & mask for key, step in zip(keys, steps)]
    return low


def draw_numbers(
    kind: str, count: int, seed: int, offset: int = 0, device: str = "cpu"
) -> list[int]:
    """Return `count` 32-bit numbers from cuRAND's host functions, from `offset` on.

    kind: "philox" or "xorwow". Raises ArgumentError for another kind.
    """
    if kind not in libraries.GENERATORS:
        names = " or ".join(libraries.GENERATORS)
        raise ArgumentError(f"draw_numbers: {kind!r}, expected {names}")
    words, draw = libraries.prepare_numbers(kind, count, seed, offset, device)
    draw()
    return [int(word) & 0xFFFFFFFF for word in words.cpu()]


# ---- the decision --------------------------------------------------------------------

QUESTIONS = (
    ("Is it one named operation?", "product, convolution, FFT, sort", "a library"),
    ("Is it ops of PyTorch in a row?", "norm, add, activation", "torch.compile"),
    ("Is it a product with your own ending?", "bias, ReLU, dequantise", "Lt, CUTLASS"),
    ("Is it a sum or sort with your operator?", "reduce, scan, top-k", "CUB"),
    ("Does it work on tiles, block by block?", "softmax, attention", "Triton"),
    ("None of these, and it costs much time?", "measure first", "your own kernel"),
)


def draw_decision() -> Drawing:
    """Draw the questions that lead from an operation to a tool."""
    title = "Who should write this kernel?"
    out, high = [label(EDGE, 24, title, 16, bold=True)], 62.0
    for place, (question, example, tool) in enumerate(QUESTIONS):
        top = 44 + place * high
        out.append(box(EDGE, top, 360, 42, strength=DIM, radius=8))
        out.append(label(EDGE + 14, top + 18, question, 13))
        out.append(remark(EDGE + 14, top + 34, example))
        colour = THREAD if place == len(QUESTIONS) - 1 else READ
        out.append(box(500, top, 190, 42, colour=colour, fill=svg.FILL, radius=8))
        out.append(label(595, top + 26, tool, 14, anchor="middle", bold=True))
        middle = top + 21
        line = f"M{EDGE + 360} {middle}H{496}m-6 -3.5l6 3.5l-6 3.5"
        out.append(f'<path d="{line}" fill="none" {PALE}/>')
        out.append(label(428, middle - 6, "yes", 12, anchor="middle"))
        if place < len(QUESTIONS) - 1:
            line = f"M200 {top + 42}V{top + high - 2}m-3.5 -6l3.5 6l3.5 -6"
            out.append(f'<path d="{line}" fill="none" {PALE}/>')
            out.append(label(210, top + 56, "no", 12))
    account = f"{title} " + "; ".join(f"{q} {tool}" for q, _, tool in QUESTIONS)
    size = 720, 44 + len(QUESTIONS) * high
    return Drawing(title, *size, "".join(out), [], {(): []}, (), account)


# ---- measurements --------------------------------------------------------------------

NAMES = {
    "sgemm": "Sgemm",
    "gemm_ex": "GemmEx, TF32",
    "lt": "Lt, best of 8",
    "lt_epilogue": "Lt with bias and ReLU",
    "xt": "Xt, from host memory",
    "cutlass": "CUTLASS",
    "ours": "weft.matmul",
}
HERE = ("sgemm", "gemm_ex", "lt", "lt_epilogue", "xt", "ours")  # also on a CPU


def list_rows(sizes: Sequence[int] = (256,)) -> list[Row]:
    """Return the rows of `python -m weft bench libraries`: this machine's come first.

    Without a GPU, this machine measures Weft's versions of the libraries. Rows with the
    key "elsewhere" are committed results, with the machine and the date. Under
    WEFT_SITE=1, all rows are committed.
    """
    if os.environ.get("WEFT_SITE") == "1":
        return list_elsewhere()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with Progress("calling the libraries", delay=PATIENCE):
        return libraries.rows(HERE, device, sizes) + list_elsewhere()


def list_elsewhere() -> list[Row]:
    """Return the committed rows that have times; `elsewhere`: machine and date."""
    rows = []
    for result in load_elsewhere("libraries"):
        where = kit.list_machines([result])
        timed = (row for row in result["rows"] if row["us"] is not None)
        rows += [row | {"elsewhere": where} for row in timed]
    return rows


def draw_products(rows: Sequence[Row], n: int) -> Table:
    """Return the ways to a product of (n,n) matrices as a table."""
    lines = []
    for row in rows:
        if row["rung"] not in NAMES or row["n"] != n or row["us"] is None:
            continue
        place = row.get("elsewhere", "here")
        place += "" if is_drawn(row.get("waited")) else ", while busy"
        first, later = 1e-3 * row["first_us"], row["us"]
        rate = 2e-6 * n**3 / later
        counted = row["lines"] if row["lines"] is not None else 1
        line = (NAMES[row["rung"]], counted, f"{first:,.1f}", f"{later:,.0f}")
        lines.append((*line, write_digits(rate), f"{row['error']:.1e}", place))
    if not lines:
        lines = [("not measured yet", *[""] * 6)]
    heads = ["way", "lines of code", "first call, ms", "later calls, µs", "TFLOP/s"]
    return table(lines, *heads, "largest error", "timed")


def list_rivals(ops: Sequence[str] = ("histogram", "scan", "sort")) -> list[Row]:
    """Return, for each op, Weft's fastest rung and CUB at the largest committed size.

    A row has op, count, rung, the microseconds us and cub_us, their ratio cub_over_us,
    and the device.
    """
    rivals = []
    for op in ops:
        for result in load_elsewhere(op):
            most = max(row["count"] for row in result["rows"])
            rows = [row for row in result["rows"] if row["count"] == most]
            cub = [row["us"] for row in rows if row["impl"] == "cub"]
            if cub:
                ours = (row for row in rows if row["impl"] == "weft")
                best = min(ours, key=lambda row: row["us"])
                keys = {key: best[key] for key in ("op", "count", "rung", "us")}
                ratio = {"cub_us": cub[0], "cub_over_us": cub[0] / best["us"]}
                rivals.append(keys | ratio | {"device": best["device"]})
    return rivals
