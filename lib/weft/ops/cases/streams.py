"""Describe ops that read an array once.

They are copy, polynomial, transpose, reduce, scan and compact.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F

from ..op import Bench, Op
from . import SPECIAL, Answer, Case, random, sum_bound

# ---- copy --------------------------------------------------------------------------


def copy(x):
    """Return a copy of x, an array of any shape, with the same bits."""
    return x.clone(memory_format=torch.contiguous_format)


COPY = Op(
    copy,
    {"x": "...", "y": "..."},
    bench=Bench("count", (2**10, 2**20, 2**26), numpy={"copy": np.copy}),
)

_COPY_COUNTS = (
    1,
    2,
    3,
    4,
    5,
    31,
    32,
    33,
    255,
    257,
    1023,
    1024,
    1025,
    4095,
    4097,
    12289,
)
# Distances of x and of y from an address that is a multiple of 16, in floats.
_COPY_SHIFTS = ((1, 1), (2, 2), (3, 3), (0, 1), (3, 2))


def copy_cases(generator) -> Iterator[Case]:
    for count in _COPY_COUNTS:
        yield _make_copy(generator, count)
        dy = random(generator, count)
        yield COPY.case(f"count={count}", {"dy": dy}, {"dx": Answer(dy.double())})
    for count in (1, 4, 4099):
        for shifts in _COPY_SHIFTS:
            yield _make_copy(generator, count, *shifts)


def _make_copy(generator, count: int, from_: int = 0, to: int = 0) -> Case:
    x = random(generator, count)
    title = f"count={count}" + f", shifted by {from_} and {to}" * bool(from_ or to)
    case = COPY.case(title, {"x": x}, {"y": Answer(x.double())})
    case.shift = {"x": from_, "y": to}
    return case


# ---- polynomial --------------------------------------------------------------------


def polynomial(x, a0=0.0, a1=1.0, a2=0.5, a3=0.0):
    """Return a0 + a1 x + a2 x^2 + a3 x^3 for x of any shape; no gradients of a0 to a3.

    The default is x + x^2 / 2.
    """
    return ((a3 * x + a2) * x + a1) * x + a0


POLYNOMIAL = Op(
    polynomial,
    {"x": "...", "y": "..."},
    bench=Bench("count", (2**10, 2**20, 2**26), beside_copy=True),
)


def polynomial_cases(generator) -> Iterator[Case]:
    for count in (1, 2, 3, 4, 5, 31, 32, 33, 255, 257, 1009, 5000):
        x, dy = random(generator, count), random(generator, count)
        # C receives float32 numbers, so the answers use their values.
        drawn = random(generator, 4).tolist() if count % 2 else [0.0, 1.0, 0.5, 0.0]
        a = dict(zip(("a0", "a1", "a2", "a3"), drawn))
        want, slope = _evaluate(x.double(), drawn)
        size, slope_size = _evaluate(x.double().abs(), [abs(c) for c in drawn])
        # Horner's rule has 2 roundings per degree, or 6 (Higham, section 5.1). The
        # slope has 4, one more for 3 a3, and one for the product with dy.
        answer = Answer(want, sum_bound(5, size))
        title = f"count={count} " + " ".join(f"{k}={v:.3g}" for k, v in a.items())
        case = POLYNOMIAL.case(title, {"x": x}, {"y": answer}, **a)
        case.shift = {"x": count % 4, "y": count % 2}
        yield case
        dy64, b = dy.double(), {k: v for k, v in a.items() if k != "a0"}
        bound = sum_bound(5, dy64.abs() * slope_size)
        answers = {"dx": Answer(dy64 * slope, bound)}
        yield POLYNOMIAL.case(title, {"dy": dy, "x": x}, answers, **b)


def _evaluate(x: torch.Tensor, a: list[float]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the polynomial and its slope at x."""
    y = a[0] + a[1] * x + a[2] * x**2 + a[3] * x**3
    return y, a[1] + 2 * a[2] * x + 3 * a[3] * x**2


# ---- transpose ---------------------------------------------------------------------


def transpose(x):
    """Return the transpose of x (rows, cols) as a new array (cols, rows)."""
    return x.t().contiguous()


TRANSPOSE = Op(
    transpose,
    {"x": "rows, cols", "y": "cols, rows"},
    bench=Bench(
        *("rows", (256, 1024, 8192)),
        same=("cols",),
        numpy={"transpose": lambda x: x.T.copy()},
    ),
)

_TRANSPOSE_SHAPES = (
    *((1, 1), (1, 70), (70, 1), (3, 5), (4, 4), (31, 33), (32, 32), (33, 31)),
    *((63, 65), (64, 64), (65, 63), (60, 68), (68, 60), (4, 132), (132, 4)),
    *((128, 192), (127, 129), (129, 127), (100, 36), (145, 70), (16, 16), (256, 8)),
)
# Distances of x and of y from an address that is a multiple of 16, in floats.
_TRANSPOSE_SHIFTS = ((1, 0), (0, 1), (3, 3))


def transpose_cases(generator) -> Iterator[Case]:
    for rows, cols in _TRANSPOSE_SHAPES:
        yield _make_transpose(generator, rows, cols)
        dy = random(generator, cols, rows)
        title = f"rows={rows}, cols={cols}"
        yield TRANSPOSE.case(title, {"dy": dy}, {"dx": Answer(dy.t().double())})
    for shifts in _TRANSPOSE_SHIFTS:
        yield _make_transpose(generator, 68, 72, *shifts)


def _make_transpose(
    generator, rows: int, cols: int, from_: int = 0, to: int = 0
) -> Case:
    x = random(generator, rows, cols)
    title = f"rows={rows}, cols={cols}"
    title += f", shifted by {from_} and {to}" * bool(from_ or to)
    case = TRANSPOSE.case(title, {"x": x}, {"y": Answer(x.t().double())})
    case.shift = {"x": from_, "y": to}
    return case


# ---- reduce ------------------------------------------------------------------------


def reduce(x, blocks=0):
    """Return the sum of x, an array of any shape, as one number of shape ().

    blocks: the number of blocks of the grid; if it is 0, the rung chooses. PyTorch
    lacks this parameter; it reveals which rungs give the same bits for every grid.
    """
    return x.sum()


REDUCE = Op(
    reduce,
    {"x": "...", "sum": ""},
    bench=Bench(
        "count", (2**10, 2**20, 2**26), numpy={"sum": lambda x, blocks: x.sum()}
    ),
)

_REDUCE_COUNTS = (1, 2, 3, 4, 31, 32, 33, 255, 257, 1023, 1025, 4095, 4096, 4097, 33000)


def reduce_cases(generator) -> Iterator[Case]:
    for count in _REDUCE_COUNTS:
        x, dsum = random(generator, count), random(generator, 1)
        title = f"count={count}"
        yield _make_reduce(title, x)
        yield REDUCE.case(
            title, {"dsum": dsum}, {"dx": Answer(dsum.double().expand(count).clone())}
        )
    yield _make_reduce("large numbers cancel", _make_cancelling(generator, 3001))
    for blocks in (1, 3, 100):
        yield _make_reduce(f"blocks={blocks}", random(generator, 20001), blocks)


def _make_reduce(title: str, x: torch.Tensor, blocks: int = 0) -> Case:
    want, bound = x.double().sum(), sum_bound(x.numel(), x.double().abs().sum())
    answer = Answer(want.reshape(1), bound.reshape(1))
    return REDUCE.case(title, {"x": x}, {"sum": answer}, blocks=blocks)


def _make_cancelling(generator, count: int) -> torch.Tensor:
    """Return numbers whose large parts cancel, in random order."""
    large = 1e6 * random(generator, count)
    numbers = torch.cat([large, -large, random(generator, count)])
    return numbers[torch.randperm(len(numbers), generator=generator)]


# ---- scan --------------------------------------------------------------------------


def scan(x, exclusive=False, reverse=False):
    """Return the running sums of x (count): y[i] = x[0] + ... + x[i].

    exclusive: leave x[i] out of y[i], so that y[0] is 0. reverse: add from the last
    number to the first. PyTorch's torch.cumsum lacks both options.
    """
    if reverse:
        return scan(x.flip(0), exclusive).flip(0)
    sums = x.cumsum(0)
    return F.pad(sums, (1, 0))[:-1] if exclusive else sums


SCAN = Op(
    scan,
    {"x": "count", "y": "count"},
    only={"dim": 0},
    bench=Bench(
        *("count", (2**16, 2**20, 2**26)),
        beside_copy=True,
        numpy={"cumsum": lambda x, exclusive, reverse: np.cumsum(x)},
    ),
)

_SCAN_COUNTS = (1, 2, 3, 31, 32, 33, 255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097)


def scan_cases(generator) -> Iterator[Case]:
    for count in (*_SCAN_COUNTS, 33_001):
        x = random(generator, count)
        for flags in range(4) if count in (1, 257, 4097) else (0,):
            for case in _make_scans(f"count={count}", x, flags & 1, flags >> 1):
                case.every_order = count <= 4097
                yield case
    large = 1e6 * random(generator, 1500)
    yield from _make_scans("large numbers cancel", torch.cat([large, -large]))
    yield from _make_scans("all equal", torch.full((5000,), 0.1))
    yield from _make_scans("denormal numbers", 2.0**-149 * torch.ones(5000))
    for case in _make_scans("shifted by 1", random(generator, 5001)):
        case.shift = {"x": 1, "dy": 1}
        yield case


def bound_scan(x: torch.Tensor, exclusive=False, reverse=False) -> torch.Tensor:
    """Return an error bound for each number of scan(x), in float64.

    Each result is a tree of additions over its own numbers: those of its tile, and the
    sums of earlier tiles. Hence no number is in more additions than the result has
    terms. The addition of a 0 is exact.
    """
    sizes = scan(x.double().abs(), exclusive, reverse)
    places = scan(torch.ones_like(sizes), exclusive, reverse)
    return sum_bound(places, sizes)


def _make_scans(title: str, x: torch.Tensor, exclusive=0, reverse=0) -> Iterator[Case]:
    """Yield a forward and a backward case whose incoming gradient is x."""
    title += ", exclusive" * exclusive + ", reverse" * reverse
    for array, result, backwards in ("x", "y", reverse), ("dy", "dx", 1 - reverse):
        want = scan(x.double(), exclusive, backwards)
        answer = Answer(want, bound_scan(x, exclusive, backwards))
        yield SCAN.case(
            *(title, {array: x}, {result: answer}), exclusive=exclusive, reverse=reverse
        )


# ---- compact -----------------------------------------------------------------------


def compact(x, threshold):
    """Return the numbers of x (count) above `threshold`, in their order, as (kept).

    NaN is not above any threshold. The result is the start of an array of `count`
    numbers and keeps the whole array in memory; clone() it to free the rest. With the
    rungs "atomic" and "ballot", the order varies between runs.
    """
    return x[x > threshold]


COMPACT = Op(
    compact,
    {"x": "count", "y": "count", "kept": "1"},
    length="kept",
    # On average, half of the random numbers are kept. `kept` adds 8 bytes.
    floor=lambda sizes: 4 * (sizes["count"] + sizes["count"] / 2) + 8,
    bench=Bench(
        *("count", (2**16, 2**20, 2**26), {"threshold": 0}),
        beside_copy=True,
        numpy={
            "index": lambda x, threshold: x[x > threshold],
            "compress": lambda x, threshold: np.compress(x > threshold, x),
        },
    ),
)

_COMPACT_COUNTS = (
    1,
    2,
    3,
    5,
    31,
    32,
    33,
    255,
    257,
    1023,
    1024,
    1025,
    4095,
    4096,
    4097,
    33000,
)
_UNORDERED = "atomic", "ballot"


def compact_cases(generator, rung="") -> Iterator[Case]:
    def make(title: str, x: torch.Tensor, threshold: float = 0.0) -> Case:
        kept, rest = x[x > threshold], random(generator, len(x))
        y = Answer(torch.cat([kept, rest[len(kept) :]]).double())
        y.any_order = len(kept) if rung in _UNORDERED else 0
        answers = {"y": y, "kept": Answer(torch.tensor([len(kept)]), 0.0, torch.int64)}
        initial = {"y": rest}
        return COMPACT.case(title, {"x": x}, answers, initial, threshold=threshold)

    for count in _COMPACT_COUNTS:
        x = random(generator, count)
        yield make(f"count={count}", x)
        yield make(f"count={count}, all kept", x, -torch.inf)
        yield make(f"count={count}, none kept", x, torch.inf)
        yield make(f"count={count}, one kept", x, float(x.sort().values[-2:][0]))
    special = torch.tensor(SPECIAL * 100)
    for threshold in (*SPECIAL, -1.0):
        yield make(f"special numbers above {threshold}", special, threshold)
    for x_shift, y_shift in ((1, 0), (0, 1), (3, 2)):
        case = make(f"shifted by {x_shift} and {y_shift}", random(generator, 4099))
        case.shift = {"x": x_shift, "y": y_shift}
        yield case
