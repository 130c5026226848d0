"""Numba's arrays over the memory of torch's tensors on a GPU.

Numba takes tens of microseconds to see what a tensor is. So its view of each is kept
for as long as the tensor lives.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from . import direct


@dataclass(frozen=True, slots=True)
class Seen:
    """A tensor that a launch has had, and what a launch needs to know of it.

    ref: to the tensor, not keeping it. kind: the number of its type. view: Numba's
    array. words: what a kernel gets.
    """

    ref: weakref.ref
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: int
    kind: int
    view: Any
    words: tuple[int, ...]

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether all of this is true of the tensor still."""
        now = tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype
        was = self.address, self.shape, self.strides, self.dtype
        return self.ref() is tensor and now == was


SEEN: dict[int, Seen] = {}  # by id(tensor)
_kinds: dict[Any, int] = {}  # Numba's types of arrays, whose hash takes long


def of_tensor(tensor: torch.Tensor) -> Any:
    """Numba's array over a tensor's memory, kept while the tensor lives."""
    key, address, shape = id(tensor), tensor.data_ptr(), tensor.shape
    found = SEEN.get(key)
    if found and found.holds(tensor):
        return found.view
    dtype = np.dtype(str(tensor.dtype)[6:])
    strides = None
    if not tensor.is_contiguous():
        strides = tuple(stride * dtype.itemsize for stride in tensor.stride())
    view = view_memory(address, tuple(shape), strides, dtype)
    # A module's names are gone before the last tensors are, at the program's end.
    ref = weakref.ref(tensor, lambda _, pop=SEEN.pop: pop(key, None))
    kind = _kinds.setdefault(view._numba_type_, len(_kinds))
    SEEN[key] = Seen(
        *(ref, address, shape, tensor.stride(), tensor.dtype, tensor.get_device()),
        *(kind, view, direct.array_words(view)),
    )
    return view


def view_memory(
    address: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None,
    dtype: np.dtype,
) -> Any:
    """Numba's array there. It owns no memory: else no tensor would ever end."""
    from numba import cuda

    return cuda.from_cuda_array_interface(
        {
            **{"shape": shape, "strides": strides, "typestr": dtype.str},
            **{"data": (address, False), "version": 2},
        },
        sync=False,
    )
