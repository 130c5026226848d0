"""topk in PyTorch, with the cases and sizes for its checks and timings."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from ..op import Bench, Op
from . import Answer, Case, random


def topk(x, k):
    """Return the k largest numbers of each row of x (rows, columns), and where they
    are, as values (rows, k) in float32 and indices (rows, k) in int64.

    The largest comes first. Of equal numbers, the one with the lower index comes first,
    always; -0 equals 0. NaN is larger than all other numbers. x may have any number of
    dimensions before the last; the results keep them. PyTorch's torch.topk leaves the
    order of equal numbers open.
    """
    return torch.topk(x, k)


def _choose_columns(x: np.ndarray, k: int) -> np.ndarray:
    """Return the k largest numbers of each row by their columns, in order."""
    chosen = np.argpartition(x, x.shape[-1] - k)[..., -k:]
    values = np.take_along_axis(x, chosen, -1)
    return -np.sort(-values)


OP = Op(
    topk,
    {"x": "*rows, columns", "values": "*rows, k", "indices": "*rows, k"},
    only={"dim": -1, "largest": True, "sorted": True},
    results=("values", "indices"),
)
BENCH = Bench(
    "columns",
    (1024, 2**20, 2**26),
    {
        # Few short rows, as tests have.
        "rows": lambda columns: max(1, min(columns**2 // 16, 2**26 // columns)),
        "k": lambda columns: 8 if columns < 2**16 else 64,
    },
    counted={"rows": lambda columns: max(1, 2**16 // columns)},
    on_gpu={"rows": lambda columns: max(1, 2**28 // columns)},
    beside_copy=True,
    numpy={
        # Values without indices: NumPy has no faster function for them.
        "partition": lambda x, k: -np.sort(-np.partition(x, x.shape[-1] - k)[..., -k:]),
        "argpartition": _choose_columns,
    },
)

_SHAPES = (  # rows, columns, k
    *((1, 1, 1), (3, 2, 2), (5, 7, 3), (2, 31, 31), (9, 32, 8), (3, 33, 1)),
    *((4, 100, 33), (2, 255, 255), (1, 256, 64), (3, 257, 5), (1, 1000, 300)),
    *((2, 1023, 8), (2, 1024, 8), (1, 1025, 32), (1, 4097, 16), (1, 5000, 2500)),
)
_SPECIAL = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1e-45, -1e-45, 3e38]


def cases(generator) -> Iterator[Case]:
    for rows, columns, k in _SHAPES:
        x = random(generator, rows, columns)
        case = _make_case(f"rows={rows}, columns={columns}, k={k}", x, k)
        case.every_order = columns <= 300
        yield case
    columns, k = 9000, 5  # one filtered row: its columns exceed those of a sample
    for title, x in _odd_rows(random(generator, 1, columns)).items():
        case = _make_case(f"{title}, columns={columns}", x, k)
        case.every_order = False
        yield case
    special = torch.tensor([_SPECIAL * 5, sorted([*_SPECIAL[1:], 0.0]) * 5])
    for k in (1, 7, 40):
        yield _make_case(f"special numbers, k={k}", special, k)
    ties = torch.randint(4, (4, 60), generator=generator).float()
    yield _make_case("ties, k=20", ties, 20)
    case = _make_case("shifted by 1", random(generator, 3, 64), 4)
    case.shift = {"x": 1, "values": 1, "indices": 1}
    yield case


def _odd_rows(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return rows of the shape of x (1, columns) in orders that need care."""
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


def _make_case(title: str, x: torch.Tensor, k: int) -> Case:
    """Return the case of k numbers of each row of x (rows, columns)."""
    order = x.sort(dim=-1, descending=True, stable=True)
    values, indices = order.values[:, :k].double(), order.indices[:, :k]
    answers = {
        "values": Answer(values),
        "indices": Answer(indices.contiguous(), 0.0, torch.int64),
    }
    return OP.case(title, {"x": x}, answers)
