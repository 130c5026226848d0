"""Functions of lesson 09b: softmax of rows, timed on this processor and counted.

time_softmax(4096, 4096)                  copies and softmaxes, for draw_ruler()
count_owners(["online", "warp_a_row"])    counts at all lengths, for draw_owners()
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ..base.errors import ArgumentError
from ..benchmarks import counted
from ..timing.results import Row
from .bandwidth.ruler import call_op, list_copies, time_calls

LENGTHS = (32, 128, 1024, 4096, 16_384, 65_536, 262_144)  # columns of a row


def time_softmax(rows: int, cols: int) -> list[Row]:
    """Time copy and softmax of rows x cols floats on this machine's processor.

    Returns rows like time_ops() of lesson 09a: NumPy's softmax in three passes,
    PyTorch's, and Weft's plain C. Raises ArgumentError for sizes below 1.
    """
    if rows < 1 or cols < 1:
        raise ArgumentError(f"time_softmax({rows}, {cols}): both must be at least 1")
    x = torch.from_numpy(
        np.random.default_rng(0).standard_normal((rows, cols), np.float32)
    )
    y = torch.empty_like(x)
    numbers, target = x.numpy(), y.numpy()

    def soften() -> None:
        np.subtract(numbers, numbers.max(axis=1, keepdims=True), out=target)
        np.exp(target, out=target)
        np.divide(target, target.sum(axis=1, keepdims=True), out=target)

    softmaxes = {
        ("softmax", "NumPy"): soften,
        ("softmax", "PyTorch"): lambda: torch.softmax(x, 1, out=y),
        ("softmax", "Weft"): call_op("softmax", y, x, rows, cols),
    }
    return time_calls(4 * rows * cols, list_copies(x, y) | softmaxes)


def count_owners(rungs: Sequence[str], lengths: Sequence[int] = LENGTHS) -> list[Row]:
    """Count the traffic of softmax's rungs for rows of several lengths.

    For each length, the rows have about 65,536 numbers in total, or there is a single
    longer row. The rows are in the order of `lengths` and, within each, of `rungs`.
    """
    rows = counted.rows("softmax", lengths, rungs)
    found = {(row["cols"], row["rung"]): row for row in rows}
    return [found[cols, rung] for cols in lengths for rung in rungs]
