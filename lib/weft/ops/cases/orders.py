"""Describe histogram, bincount, sort, argsort and topk: PyTorch twins, cases, sizes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from ..bindings import WORDS
from ..calls import Array, is_traced, launch, make_empty, same_kind, want_rung
from ..library import WEFT, LibraryOp
from ..op import Bench, Op
from . import SPECIAL, Answer, Case, random

# ---- histogram ---------------------------------------------------------------------

BYTE_BINS = 256  # values of a byte


def histogram(x):
    """Return how often each byte occurs in x (count), uint8, as (256), int64."""
    return torch.bincount(x, minlength=BYTE_BINS)


HISTOGRAM = Op(
    histogram,
    {"x": "count", "counts": f"{BYTE_BINS}"},
    bench=Bench(
        *("count", (2**16, 2**20, 2**26)),
        beside_copy=True,
        numpy={"bincount": lambda x: np.bincount(x, minlength=BYTE_BINS)},
        torch_waits=True,  # PyTorch copies the largest byte to the host
    ),
)

_BYTE_COUNTS = (
    1,
    2,
    15,
    16,
    17,
    31,
    32,
    33,
    63,
    64,
    65,
    255,
    256,
    257,
    4095,
    4096,
    4097,
)
_PART = 2**16  # minimum number of bytes per block
_PIECE = 2**17  # bytes per piece in the plain C rung


def histogram_cases(generator) -> Iterator[Case]:
    def draw(count: int, below: int = BYTE_BINS) -> torch.Tensor:
        shape, dtype = (count,), torch.uint8
        return torch.randint(below, shape, dtype=dtype, generator=generator)

    for count in (*_BYTE_COUNTS, 2 * _PART + 5, 2 * _PIECE + 77):
        case = _make_histogram(f"count={count}", draw(count))
        case.every_order = count < _PART
        yield case
    for value in (0, 7, 255):
        x = torch.full((5001,), value, dtype=torch.uint8)
        yield _make_histogram(f"all {value}", x)
    yield _make_histogram("each byte once", torch.arange(BYTE_BINS, dtype=torch.uint8))
    yield _make_histogram("sorted", draw(5000).sort().values)
    yield _make_histogram("reversed", draw(5000).sort(descending=True).values)
    often = draw(5000)
    often[draw(5000, 10) > 0] = 9
    yield _make_histogram("one in 90 % of all places", often)
    # The lanes of a warp have different bins, which share a bank.
    yield _make_histogram("one bank", draw(5000, 8) * 32)
    for shift in (1, 2, 4, 8, 15):
        case = _make_histogram(f"shifted by {shift}", draw(5003))
        case.shift = {"x": shift, "counts": 1}
        yield case


def _make_histogram(title: str, x: torch.Tensor) -> Case:
    counts = histogram(x)
    return HISTOGRAM.case(title, {"x": x}, {"counts": Answer(counts, 0.0, torch.int64)})


# ---- bincount ----------------------------------------------------------------------


def bincount(x, bins):
    """Return how often each number below `bins` occurs in x (count), int32, as (bins).

    The counts are int64. Numbers outside [0,bins) are ignored; PyTorch's
    torch.bincount refuses negative numbers and adds bins for large ones.
    """
    return torch.bincount(x[(x >= 0) & (x < bins)], minlength=bins)


BINCOUNT = Op(
    bincount,
    {"x": "count", "counts": "bins"},
    drawn={"x": "bins"},
    bench=Bench(
        *("count", (2**16, 2**20, 2**26), {"bins": 2**16}),
        counted={"bins": 2**10},
        beside_copy=True,
        numpy={"bincount": lambda x, bins: np.bincount(x, minlength=bins)},
        torch_waits=True,  # PyTorch copies the largest number to the host
    ),
)

_INTEGER_COUNTS = (1, 2, 31, 32, 33, 255, 257, 4095, 4096, 4097, 70_000)
_BINS = (1, 2, 33, 1024, 1025, 5000)
_RANGE = 2**13  # bins per range in the rung "partition"
_MOST = 2**21  # maximum number of bins for which "partition" uses ranges
_BOTH_ENDS = [-(2**31), -1, 0, 1, 2**31 - 1]


def bincount_cases(generator) -> Iterator[Case]:
    def draw(count: int, *limits: int) -> torch.Tensor:
        return torch.randint(*limits, (count,), dtype=torch.int32, generator=generator)

    for count in _INTEGER_COUNTS:
        for bins in _BINS if count == 4097 else (300,):
            yield _make_bincount(f"count={count} bins={bins}", draw(count, bins), bins)
    for bins in (4 * _RANGE - 1, 4 * _RANGE, 4 * _RANGE + 1, 2**17):
        case = _make_bincount(f"bins={bins}", draw(9001, bins), bins)
        case.every_order = False
        yield case
        yield _make_bincount(f"bins={bins}, outside", draw(4100, -bins, 2 * bins), bins)
    for bins in (_MOST, _MOST + 1):
        case = _make_bincount(f"bins={bins}", draw(3000, bins), bins)
        case.every_order = False
        yield case
    ends = torch.tensor(_BOTH_ENDS * 1000, dtype=torch.int32)
    for bins in (2, 4 * _RANGE):
        yield _make_bincount(f"bins={bins}, the least and the largest", ends, bins)
        equal = torch.full((5000,), bins - 1, dtype=torch.int32)
        yield _make_bincount(f"bins={bins}, all equal", equal, bins)
        yield _make_bincount(
            f"bins={bins}, sorted", draw(5000, bins).sort().values, bins
        )
    case = _make_bincount("shifted by 1", draw(5000, 4 * _RANGE), 4 * _RANGE)
    case.shift = {"x": 1, "counts": 1}
    yield case


def _make_bincount(title: str, x: torch.Tensor, bins: int) -> Case:
    counts = bincount(x, bins)
    answers = {"counts": Answer(counts, 0.0, torch.int64)}
    return BINCOUNT.case(title, {"x": x}, answers, bins=bins)


# ---- sort --------------------------------------------------------------------------


def sort(x, values=None, descending=False):
    """Return the numbers x (count), int32, uint32 or float32, in ascending order.

    Equal numbers keep their order, even if the sort is descending. Floats are ordered
    as in PyTorch: -0 equals 0, and every NaN is greater than infinity. values (count),
    of any type with 32 bits, is optional. If it is given, the result is a pair: the
    sorted numbers, and the values in the same order. sort() has no gradients, since
    its kernels do not store the indices; x[weft.argsort(x)] has the same numbers, and
    gradients.
    """
    if values is None and x.dtype != torch.uint32:
        return x.sort(stable=True, descending=bool(descending)).values
    order = order_stably(x, descending)
    keys = take(x, order)
    return keys if values is None else (keys, take(values, order))


def order_stably(x: torch.Tensor, descending: bool = False) -> torch.Tensor:
    """Return the indices, int64, that sort x stably in PyTorch."""
    wide = x.long() if x.dtype == torch.uint32 else x  # PyTorch cannot sort uint32
    return wide.sort(stable=True, descending=bool(descending)).indices


def take(x: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """Return x[order], also for uint32."""
    return x.view(torch.int32)[order].view(x.dtype)


SORT = Op(
    sort,
    {"x": "count", "values": "count", "y": "count", "sorted_values": "count"},
    extra={"sorted_values": "values"},
    words={"y": "x", "sorted_values": "values"},
    results=("y", "sorted_values"),
    instead="x[weft.argsort(x)]",
    # One pass reads to count the digits. Four passes read and write.
    floor=lambda sizes: (4 + 4 * 8) * sizes["count"],
    bench=Bench(
        *("count", (2**16, 2**20, 2**24)),
        numpy={"sort": lambda x, values, descending: np.sort(x)},
    ),
)

_PAIRS = "keys", "keys and indices", "keys and values"
_SORT_COUNTS = (1, 2, 3, 31, 32, 33, 255, 257, 511, 513, 1025, 2047, 2049, 8191, 8193)


def sort_cases(generator) -> Iterator[Case]:
    def draw(count: int, below: int = 2**31) -> torch.Tensor:
        low = -(2**31) if below == 2**31 else 0
        return torch.randint(
            *(low, below, (count,)), generator=generator, dtype=torch.int32
        )

    def make(title: str, x: torch.Tensor, pairs: int = 0, descending=0) -> Case:
        """Return a case. pairs: 0 keys alone, 1 keys and indices, 2 keys and values."""
        values = draw(len(x)) if pairs == 2 else None
        order = order_stably(x, descending)
        sorted_values = order.int() if values is None else values[order]
        answers = {"y": x.view(torch.int32)[order], "sorted_values": sorted_values}
        case = SORT.case(
            f"{title}, {_PAIRS[pairs]}{', descending' * descending}",
            {"x": x.view(torch.int32), "values": values},
            {
                n: Answer(answers[n], 0.0, torch.int32)
                for n in [*answers][: 1 + (pairs > 0)]
            },
            kind=WORDS.index(x.dtype),
            descending=descending,
        )
        case.every_order = len(x) < 2000
        return case

    for i, count in enumerate((*_SORT_COUNTS, 33_000)):
        yield make(f"count={count}", draw(count), i % 3, i // 3 % 2)
    for pairs in range(3):
        yield make("count=300", draw(300), pairs)
        yield make("few keys", draw(9000, 3), pairs, 1)
    x = draw(9000)
    yield make("all equal", torch.full((9000,), 7, dtype=torch.int32), 1)
    yield make("sorted", x.sort().values, 2)
    yield make("reversed", x.sort(descending=True).values, 1)
    for descending in range(2):
        yield make("uint32", draw(1000).view(torch.uint32), 1, descending)
        floats = torch.cat(
            [torch.randn(500, generator=generator), torch.tensor(SPECIAL * 50)]
        )
        floats[::9] = draw(len(floats))[::9].view(torch.float32)  # random bits
        yield make("floats", floats, 1, descending)


# ---- argsort -----------------------------------------------------------------------


def argsort(x: Array, descending: bool = False, *, rung: str | None = None) -> Array:
    """Return the indices that sort x (count), as int32 (count): x[indices] is sorted.

    x is int32, uint32 or float32 and has fewer than 2^31 numbers. The order is that of
    sort(). Equal numbers keep their order, as in torch.argsort with stable=True.
    PyTorch's indices are int64, which take twice the memory. Raises ArgumentError for
    arguments that do not fit.
    """
    if is_traced(x):
        return _ARGSORT.call({"rung": rung}, x, descending)
    return _argsort(x, descending, rung)


class _Argsort(LibraryOp):
    """torch.ops.weft.argsort."""

    def __init__(self):
        schema = "argsort(Tensor x, bool descending=False, *, str? rung=None) -> Tensor"
        super().__init__(WEFT, schema, gradient=False)

    def run(self, x, descending=False, *, rung=None):
        return _argsort(x, descending, rung)

    def infer_shapes(self, x, descending=False, *, rung=None):
        SORT.library.infer_shapes(x)  # raises an error for an unsuitable x
        return torch.empty_like(x, dtype=torch.int32)


_ARGSORT = _Argsort()


def _argsort(x: Array, descending: bool, rung: str | None) -> Array:
    plan = SORT.plan
    tensors, numbers = plan.bind((x, None, descending))
    keys = tensors["x"]
    order = make_empty("argsort", keys, len(keys), dtype=torch.int32)
    if len(keys) == 0:
        want_rung("sort", rung, keys)
        return same_kind(x, order)
    tensors |= {"y": torch.empty_like(keys), "sorted_values": order}
    args = plan.launcher.pointers(tensors) + plan.launcher.values(numbers)
    launch("sort", plan.launcher.function, rung, keys, args)
    return same_kind(x, order)


# ---- topk --------------------------------------------------------------------------


def topk(x, k):
    """Return the k largest numbers of each row of x (rows, cols), and their columns.

    The results are values (rows, k) in float32 and indices (rows, k) in int64. The
    largest number comes first. Of equal numbers, the one with the lower index always
    comes first; -0 equals 0. NaN is larger than all other numbers. x may have any
    number of dimensions before the last; the results keep them. PyTorch's torch.topk
    does not define the order of equal numbers. The gradient of values flows to x, at
    the indices.
    """
    return torch.topk(x, k)


def _choose_columns(x: np.ndarray, k: int) -> np.ndarray:
    """Return the k largest numbers of each row, selected by their columns, in order."""
    chosen = np.argpartition(x, x.shape[-1] - k)[..., -k:]
    values = np.take_along_axis(x, chosen, -1)
    return -np.sort(-values)


TOPK = Op(
    topk,
    {"x": "*rows, cols", "values": "*rows, k", "indices": "*rows, k"},
    only={"dim": -1, "largest": True, "sorted": True},
    results=("values", "indices"),
    bench=Bench(
        "cols",
        (1024, 2**20, 2**26),
        {
            # For short rows, which the tests use, the number of rows is small.
            "rows": lambda cols: max(1, min(cols**2 // 16, 2**26 // cols)),
            "k": lambda cols: 8 if cols < 2**16 else 64,
        },
        counted={"rows": lambda cols: max(1, 2**16 // cols)},
        on_gpu={"rows": lambda cols: max(1, 2**28 // cols)},
        beside_copy=True,
        numpy={
            # This returns no indices. NumPy has no faster function for the values.
            "partition": lambda x, k: (
                -np.sort(-np.partition(x, x.shape[-1] - k)[..., -k:])
            ),
            "argpartition": _choose_columns,
        },
    ),
)

_TOPK_SHAPES = (  # rows, cols, k
    *((1, 1, 1), (3, 2, 2), (5, 7, 3), (2, 31, 31), (9, 32, 8), (3, 33, 1)),
    *((4, 100, 33), (2, 255, 255), (1, 256, 64), (3, 257, 5), (1, 1000, 300)),
    *((2, 1023, 8), (2, 1024, 8), (1, 1025, 32), (1, 4097, 16), (1, 5000, 2500)),
)


def topk_cases(generator) -> Iterator[Case]:
    for rows, cols, k in _TOPK_SHAPES:
        x = random(generator, rows, cols)
        title = f"rows={rows}, cols={cols}, k={k}"
        dvalues = random(generator, rows, k)
        for case in _make_topk(title, x, k), _make_topk_backward(title, x, dvalues):
            case.every_order = cols <= 300
            yield case
    cols, k = 9000, 5  # one row, which is filtered: it is longer than a sample
    for title, x in _odd_rows(random(generator, 1, cols)).items():
        case = _make_topk(f"{title}, cols={cols}", x, k)
        case.every_order = False
        yield case
    special = torch.tensor([SPECIAL * 5, sorted([*SPECIAL[1:], 0.0]) * 5])
    for k in (1, 7, 40):
        yield _make_topk(f"special numbers, k={k}", special, k)
    ties = torch.randint(4, (4, 60), generator=generator).float()
    yield _make_topk("ties, k=20", ties, 20)
    yield _make_topk_backward("ties, k=20", ties, random(generator, 4, 20))
    x = random(generator, 3, 64)
    case = _make_topk("shifted by 1", x, 4)
    case.shift = {"x": 1, "values": 1, "indices": 1}
    yield case
    case = _make_topk_backward("shifted by 1", x, random(generator, 3, 4))
    case.shift = {"dx": 1, "dvalues": 1, "indices": 1}
    yield case


def _odd_rows(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return rows shaped like x (1, cols) whose orders are difficult to handle."""
    rising = x.sort().values
    few_large = torch.zeros_like(x)
    few_large[0, 1:4] = torch.tensor([3.0, 2.0, 2.0])
    return {
        "random": x,
        "rising": rising,
        "falling": rising.flip(-1),
        "all equal": torch.ones_like(x),
        "zeros, but few": few_large,
        "NaN and numbers": torch.where(x > 1, torch.nan, x),
        "minus infinity": torch.full_like(x, -torch.inf),
    }


def _make_topk(title: str, x: torch.Tensor, k: int) -> Case:
    """Return a case that selects k numbers from each row of x (rows, cols)."""
    order = x.sort(dim=-1, descending=True, stable=True)
    values, indices = order.values[:, :k].double(), order.indices[:, :k]
    answers = {
        "values": Answer(values),
        "indices": Answer(indices.contiguous(), 0.0, torch.int64),
    }
    return TOPK.case(title, {"x": x}, answers)


def _make_topk_backward(title: str, x: torch.Tensor, dvalues: torch.Tensor) -> Case:
    """Return a case of the gradients of x's largest numbers; dvalues (rows, k)."""
    order = x.sort(dim=-1, descending=True, stable=True).indices
    indices = order[:, : dvalues.shape[-1]].contiguous()
    dx = torch.zeros_like(x).scatter(-1, indices, dvalues)
    inputs = {"dvalues": dvalues, "indices": indices}
    return TOPK.case(title, inputs, {"dx": Answer(dx.double())})
