"""Numba's compiled kernels, launched without Numba.

Numba's own launch makes each argument ready again, which takes tens of microseconds.
What it hands to the driver is known (numba_cuda/numba/cuda/dispatcher.py, _Kernel):
numbers as they are, and for an array two null pointers, its size and itemsize, its
address, its shape and its strides in bytes. Here they are packed at once.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
