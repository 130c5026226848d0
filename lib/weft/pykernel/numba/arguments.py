"""Check and copy the arguments of a launch, and launch Numba's kernels directly.

Numba prepares each argument again at each launch, which takes tens of microseconds.
This module packs all arguments in one call. Numba defines the driver's format in
numba_cuda/numba/cuda/dispatcher.py, _Kernel. A number is passed unchanged. An array
becomes two null pointers, its size and itemsize, its address, its shape and its
strides in bytes.

Numba also takes tens of microseconds to inspect a tensor. This module therefore keeps
Numba's view of each GPU tensor while the tensor exists.

Host arrays that overlap must also overlap for the kernel. They are therefore copied
together, as one span of bytes.
"""

from __future__ import annotations

import numbers
import struct
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

from ...base.errors import ArgumentError
from ...base.progress import remark
from ...cells.arguments import describe
from ...cells.cpu import arena
from ...cells.gpu import launch
from ...toolchain.launch_config import LaunchConfig
from ..language import refuse_unfit

_CODES = {
    **{"int8": "b", "int16": "h", "int32": "i", "int64": "q"},
    **{"uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q"},
    **{"float32": "f", "float64": "d", "bool": "?"},
}

STREAM, NO_CONTEXT = launch.STREAM, launch.NO_CONTEXT


@dataclass
class Ready:
    """A compiled kernel that is prepared for launches with given types and one shape.

    pack: pack_into() of a Struct that begins with the configuration's stream.
    rooms: memory for arguments; each concurrent launch takes one room.
    """

    kernel: Any
    function: int
    pack: Any
    rooms: list[launch.Room]


def pack_codes(types: Sequence[Any]) -> str | None:
    """Return the codes of Numba's types for struct.pack(); None if one has no code."""
    codes = ""
    for kind in types:
        if hasattr(kind, "layout") and hasattr(kind, "ndim"):
            codes += "QQqqQ" + "q" * (2 * kind.ndim)
        elif str(kind) in _CODES:
            codes += _CODES[str(kind)]
        else:
            return None
    return codes


def load_ready(kernel: Any, config: LaunchConfig) -> Ready | None:
    """Load a compiled kernel of Numba on the current device, for one shape.

    The result is None if only Numba can launch the kernel, because it is cooperative
    or takes tuples or complex numbers.
    """
    codes = pack_codes(kernel.argument_types)
    # In numba-cuda 0.22, Colab's version, no kernel depends on the shape.
    depends = getattr(kernel, "launch_config_sensitive", False)
    if codes is None or kernel.cooperative or depends:
        return None
    form, offsets, end = "=Q24x", [], 0
    for code in codes:
        size = struct.calcsize("=" + code)
        offsets.append(-(-end // size) * size)
        form += "x" * (offsets[-1] - end) + code
        end = offsets[-1] + size
    handle = kernel._codelibrary.get_cufunc().handle
    function = int(getattr(handle, "value", handle))  # version 0.22: a ctypes pointer
    plan = launch.LaunchPlan(function, config.grid, config.block, config.shared)
    room = launch.Room(plan, end, offsets)
    return Ready(kernel, function, struct.Struct(form).pack_into, [room])


def array_words(array: Any) -> tuple[int, ...]:
    """Return the words that a kernel receives for a Numba array on a GPU."""
    address = array.device_ctypes_pointer.value or 0
    sizes = array.size, array.dtype.itemsize
    return 0, 0, *sizes, address, *array.shape, *array.strides


@dataclass(frozen=True, slots=True)
class SeenTensor:
    """A tensor from an earlier launch, with the values that later launches use.

    ref: a weak reference to the tensor.
    kind: the number of Numba's type for the tensor.
    view: Numba's array over the tensor's memory.
    words: the words that a kernel receives.
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
        """Return whether the stored values still describe the tensor."""
        current = tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype
        earlier = self.address, self.shape, self.strides, self.dtype
        return self.ref() is tensor and current == earlier


SEEN: dict[int, SeenTensor] = {}  # tensors of earlier launches, by id(tensor)
# Each array type of Numba has a number here, since hashing a type is slow.
_kinds: dict[Any, int] = {}


def of_tensor(tensor: torch.Tensor) -> Any:
    """Return Numba's array over a tensor's memory, kept while the tensor exists."""
    key, address, shape = id(tensor), tensor.data_ptr(), tensor.shape
    known = SEEN.get(key)
    if known and known.holds(tensor):
        return known.view
    dtype = np.dtype(str(tensor.dtype)[6:])
    strides = None
    if not tensor.is_contiguous():
        strides = tuple(stride * dtype.itemsize for stride in tensor.stride())
    view = view_memory(address, tuple(shape), strides, dtype)
    # Bind SEEN.pop now: at exit, a module's names are deleted before the last tensors.
    ref = weakref.ref(tensor, lambda _, pop=SEEN.pop: pop(key, None))
    kind = _kinds.setdefault(view._numba_type_, len(_kinds))
    SEEN[key] = SeenTensor(
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
    """Return Numba's array at an address; it does not own the memory."""
    from numba import cuda

    interface = {"shape": shape, "strides": strides, "typestr": dtype.str}
    interface |= {"data": (address, False), "version": 2}
    return cuda.from_cuda_array_interface(interface, sync=False)


def check_arguments(kernel: str, named: dict[str, Any]) -> list[Any]:
    """Return the arguments as numbers, tuples, NumPy arrays and GPU arrays.

    NumPy arrays share the memory of the arrays and tensors on the host. GPU arrays are
    returned unchanged: torch tensors and objects with __cuda_array_interface__. Other
    values raise ArgumentError.
    """
    return [_check_argument(kernel, name, value) for name, value in named.items()]


def on_gpu(value: Any) -> bool:
    """Return whether a checked argument is an array on a GPU."""
    return isinstance(value, torch.Tensor) or hasattr(value, "__cuda_array_interface__")


def say_once(text: str) -> None:
    """Show a remark, unless it has been shown before."""
    if text not in _printed:
        _printed.add(text)
        remark(text)


_printed: set[str] = set()


def _check_argument(kernel: str, name: str, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _check_tensor(kernel, name, value)
    if isinstance(value, np.ndarray):
        return _check_array(kernel, name, value)
    if isinstance(value, (numbers.Number, tuple)):
        refuse_unfit(kernel, name, value)
        return value
    return _check_other(kernel, name, value)


def _check_tensor(kernel: str, name: str, tensor: torch.Tensor) -> Any:
    refuse_unfit(kernel, name, tensor)
    return tensor if tensor.device.type == "cuda" else tensor.numpy()


def _check_array(kernel: str, name: str, array: np.ndarray) -> np.ndarray:
    refuse_unfit(kernel, name, array)
    return np.asarray(array)


def _check_other(kernel: str, name: str, value: Any) -> Any:
    try:
        if hasattr(value, "__cuda_array_interface__"):
            # This call rejects invalid arrays, and every array if there is no GPU.
            describe(value)
            return value
        if hasattr(value, "__array_interface__"):
            return _check_array(kernel, name, np.asarray(value))
        if hasattr(value, "__dlpack__"):
            return _check_tensor(kernel, name, torch.from_dlpack(value))
    except Exception as error:  # another library's methods may raise any exception
        if str(error).startswith(f"{kernel}: "):
            raise
        raise ArgumentError(f"{kernel}: {name}: {error}") from None
    refuse_unfit(kernel, name, value)
    return value


_ALIGNED = 256  # alignment of torch's memory on a GPU, in bytes


@dataclass
class PlacedArray:
    """An array within the memory of `owner`, a tensor of bytes on a device."""

    owner: torch.Tensor
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # strides in bytes
    dtype: np.dtype


@dataclass
class Sent:
    """Copies of arrays.

    where: the copies, by the id() of the original array.
    steps: actions that copy the results back.
    """

    where: dict[int, torch.Tensor | PlacedArray] = field(default_factory=dict)
    steps: list[Callable[[], None]] = field(default_factory=list)

    def back(self) -> None:
        """Copy the results back to the arrays that are writable."""
        for step in self.steps:
            step()


def send(kernel: str, arrays: list[np.ndarray], device: torch.device | str) -> Sent:
    """Copy arrays to a device; raise ArgumentError for arrays of structures."""
    copies = Sent()
    spans, offsets = spans_of(arrays)
    groups: list[list[np.ndarray]] = [[] for _ in spans]
    for array in arrays:
        if array.dtype.fields:
            raise ArgumentError(
                f"{kernel}: a launch cannot copy an array of structures to the GPU: "
                f"pass the result of Numba's cuda.to_device(array)"
            )
        if id(array) in offsets:
            groups[offsets[id(array)][0]].append(array)
        else:  # the array has no elements
            empty = torch.from_numpy(np.empty(array.shape, array.dtype))
            copies.where[id(array)] = empty.to(device)
    for span, group in zip(spans, groups):
        # The elements of an array overlap if they have more bytes than the span.
        if len(set(map(_place, group))) == 1 and group[0].nbytes <= span[1]:
            _send_one(copies, group, device)
        else:
            _send_span(copies, span, group, offsets, device)
    return copies


def address_bounds(array: np.ndarray) -> tuple[int, int]:
    """Return the address of an array's first byte and the address past its last."""
    low, high = np.lib.array_utils.byte_bounds(array)
    return int(low), int(high)


def spans_of(
    arrays: list[np.ndarray],
) -> tuple[list[tuple[int, int]], dict[int, tuple[int, int]]]:
    """Return the memory of arrays as (start, length) spans, with overlaps merged.

    The second result maps each array's id to the number of its span and the offset of
    its first element in the span.
    """
    spans: list[list[int]] = []
    for low, high in sorted(address_bounds(array) for array in arrays if array.size):
        if spans and low < spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], high)
        else:
            spans.append([low, high])
    offsets = {}
    for array in arrays:
        address = array.__array_interface__["data"][0]
        for number, (low, high) in enumerate(spans):
            if array.size and low <= address < high:
                offsets[id(array)] = number, address - low
    return [(low, high - low) for low, high in spans], offsets


def _place(array: np.ndarray) -> tuple[object, ...]:
    """Return a key that is equal for arrays with the same elements in memory."""
    address = array.__array_interface__["data"][0]
    return address, array.shape, array.strides, array.dtype


def _send_one(copies: Sent, group: list[np.ndarray], device: Any) -> None:
    """Copy one array to a device; `group` contains all NumPy objects for its memory."""
    first = next((a for a in group if a.flags.writeable), group[0])
    tensor = torch.from_numpy(first if _is_plain(first) else np.array(first, order="C"))
    copy = tensor.to(device, copy=True)
    copies.where |= {id(array): copy for array in group}
    if first.flags.writeable:
        copies.steps.append(partial(_receive_one, first, copy))


def _receive_one(array: np.ndarray, copy: torch.Tensor) -> None:
    if _is_plain(array):
        torch.from_numpy(array).copy_(copy)
    else:
        array[...] = copy.cpu().numpy()


def _is_plain(array: np.ndarray) -> bool:
    return array.flags.c_contiguous and array.flags.writeable


def _send_span(
    copies: Sent,
    span: tuple[int, int],
    group: list[np.ndarray],
    offsets: dict[int, tuple[int, int]],
    device: torch.device | str,
) -> None:
    """Copy arrays that overlap to a device, together, as one span of bytes."""
    start, length = span
    shift = start % _ALIGNED  # so that each element of the copy is aligned as before
    copy = torch.empty(shift + length, dtype=torch.uint8, device=device)
    host = np.frombuffer(arena.view_memory(start, length), np.uint8)
    copy[shift:].copy_(torch.from_numpy(host))
    written = []
    for array in group:
        offset = shift + offsets[id(array)][1]
        place = copy.data_ptr() + offset, array.shape, array.strides, array.dtype
        copies.where[id(array)] = PlacedArray(copy, *place)
        if array.flags.writeable:
            written.append((array, offset))
    if written:
        copies.steps.append(partial(_receive_span, copy, written))


def _receive_span(copy: torch.Tensor, written: list[tuple[np.ndarray, int]]) -> None:
    data = copy.cpu().numpy()
    for array, offset in written:
        array[...] = np.ndarray(array.shape, array.dtype, data, offset, array.strides)
