"""Numba's compiled kernels launched without Numba, and its arrays over torch's memory.

Numba's own launch makes each argument ready again, which takes tens of microseconds.
What it hands to the driver is known (numba_cuda/numba/cuda/dispatcher.py, _Kernel):
numbers as they are, and for an array two null pointers, its size and itemsize, its
address, its shape and its strides in bytes. Here they are packed at once.

Numba's arrays over the memory of torch's tensors on a GPU.

Numba takes tens of microseconds to see what a tensor is. So its view of each is kept
for as long as the tensor lives.
"""

from __future__ import annotations

import struct
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...cells.gpu import driver, launch
from ...toolchain.config import Config

_CODES = {
    **{"int8": "b", "int16": "h", "int32": "i", "int64": "q"},
    **{"uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q"},
    **{"float32": "f", "float64": "d", "bool": "?"},
}

STREAM, NO_CONTEXT = launch.STREAM, launch.NO_CONTEXT


@dataclass
class Ready:
    """A kernel for arguments of these types, in one shape: all that a launch takes.

    pack: a Struct's pack_into, from the configuration's stream on. rooms: memory for
    launches, one for each that is under way at a time.
    """

    kernel: Any
    function: int
    pack: Any
    rooms: list[launch.Room]


def pack_codes(types: Sequence[Any]) -> str | None:
    """How struct packs a kernel's parameters of Numba's types; None if it cannot."""
    found = ""
    for kind in types:
        if hasattr(kind, "layout") and hasattr(kind, "ndim"):
            found += "QQqqQ" + "q" * (2 * kind.ndim)
        elif str(kind) in _CODES:
            found += _CODES[str(kind)]
        else:
            return None
    return found


def load_ready(kernel: Any, config: Config) -> Ready | None:
    """A compiled kernel of Numba, loaded on the current device, for this shape.

    None where only Numba can launch it: its grid waits for itself, or it takes tuples
    or complex numbers.
    """
    each = pack_codes(kernel.argument_types)
    if each is None or kernel.cooperative or kernel.launch_config_sensitive:
        return None
    form, offsets, end = "=Q24x", [], 0
    for code in each:
        size = struct.calcsize("=" + code)
        offsets.append(-(-end // size) * size)
        form += "x" * (offsets[-1] - end) + code
        end = offsets[-1] + size
    function = int(kernel._codelibrary.get_cufunc().handle)
    plan = launch.Plan(function, config.grid, config.block, config.shared)
    room = launch.Room(plan, end, offsets)
    return Ready(kernel, function, struct.Struct(form).pack_into, [room])


def array_words(array: Any) -> tuple[int, ...]:
    """What a kernel gets of one of Numba's arrays on a GPU."""
    address = array.device_ctypes_pointer.value or 0
    sizes = array.size, array.dtype.itemsize
    return 0, 0, *sizes, address, *array.shape, *array.strides


def queue() -> Any:
    """cuLaunchKernelEx(configuration, function, arguments, 0) -> status."""
    return driver.open_library().cuLaunchKernelEx


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
        *(kind, view, array_words(view)),
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
