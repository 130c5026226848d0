"""argsort(): the order of an array, by any rung of sort."""

from __future__ import annotations

import torch

from .calls import Array, launch, make_empty, same_kind, want_rung
from .cases.orders import SORT


def argsort(x: Array, descending: bool = False, *, rung: str | None = None) -> Array:
    """Return the indices that sort x (count), as int32 (count): x[indices] is sorted.

    x is int32, uint32 or float32, of less than 2^31 numbers, in sort()'s order. Equal
    numbers keep their order, so the result is that of torch.argsort with stable=True.
    PyTorch's indices are int64, which take twice the memory. Raises ArgumentError for
    arguments that do not fit.
    """
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
