"""Turn Python's arguments into a launch on the GPU, in a few microseconds.

The module generates one function per kernel, which checks and packs the kernel's
arguments. Arguments that the function does not recognise take the careful path
(arguments.py). That path accepts all valid arguments and explains errors in others.
This module itself needs no GPU: loader.py supplies the calls.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from cffi import FFI

from ...base.errors import ArgumentError
from ...toolchain import native
from ..arguments import Array, Binder, common_device, list_held_arrays

ffi = FFI()
# The free rooms (Room) and the kernel's handle for each device.
Rooms = dict[int, tuple[list["Room"], int]]

# struct CUlaunchConfig of cuda.h, CUDA 12 and 13; the arguments follow it in memory.
_GRID = struct.Struct("=7I")  # grid, block, bytes of shared memory
STREAM, _ARGUMENTS = 32, 64  # byte offsets in a Room
NO_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT: this thread has used no GPU yet
# A CUlaunchAttribute for a cooperative launch.
COOPERATIVE = struct.pack("=I4xi60x", 2, 1)


@dataclass(frozen=True)
class LaunchPlan:
    """The checked shape of a launch on one device, and the kernel's handle there."""

    function: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int


@dataclass(frozen=True)
class LaunchTarget:
    """The functions that launch on one kind of device.

    call:    cuLaunchKernelEx(configuration, function, arguments, 0) -> status
    plan:    (device, grid, block, shared) -> LaunchPlan; raises if they do not fit
    stream:  device -> torch's current stream on the device, as a number
    current: () -> the device whose context is current; None if there is only one device
    enter:   device -> a context manager that makes the device current
    fail:    (status, device); raises the error for a nonzero status of `call`
    after:   (device, stream); called after a launch is queued; None: nothing to call
    default: () -> the device of a launch without any array
    kind:    the device type of the arrays
    attributes: CUlaunchAttributes, for example COOPERATIVE
    """

    call: Callable[[int, int, int, int], int]
    plan: Callable[[int, Any, Any, int], LaunchPlan]
    stream: Callable[[int], int]
    enter: Callable[[int], AbstractContextManager[None]]
    fail: Callable[[int, int], None]
    default: Callable[[], int]
    current: Callable[[], int] | None = None
    after: Callable[[int, int], None] | None = None
    kind: str = "cuda"
    attributes: bytes = b""


class Room:
    """Memory for one launch: its configuration, its arguments, their addresses."""

    __slots__ = ("buffer", "configuration", "held", "table")

    def __init__(self, plan: LaunchPlan, size: int, offsets: Iterable[int]) -> None:
        memory = ffi.new("char[]", _ARGUMENTS + size + 16)
        # CUDA reads a float4 only from an address with its alignment.
        start = -_address_of(memory) % 16
        self.configuration = _address_of(memory) + start
        first = self.configuration + _ARGUMENTS
        table = ffi.new("uintptr_t[]", [first + offset for offset in offsets] or [0])
        self.buffer = memoryview(ffi.buffer(memory))[start:]
        self.table = _address_of(table)
        self.held = memory, table
        _GRID.pack_into(self.buffer, 0, *plan.grid, *plan.block, plan.shared)

    def fill(self, packed: bytes, stream: int = 0, head: bytes = bytes(12)) -> None:
        """Store the packed arguments, the stream, and the address of attributes."""
        struct.pack_into("=Q12s", self.buffer, STREAM, stream, head)
        self.buffer[_ARGUMENTS : _ARGUMENTS + len(packed)] = packed


class GpuLauncher:
    """A kernel on one kind of device; launches are only queued."""

    def __init__(self, binder: Binder, target: LaunchTarget) -> None:
        self.binder, self.target = binder, target
        self._attributes = ffi.new("char[]", target.attributes or b"\0")
        count = len(target.attributes) // 72
        self._head = struct.pack("=QI", _address_of(self._attributes), count)
        self._make = _make_quick_launch(binder, target, self._head)

    def __call__(
        self,
        grid: Any,
        block: Any,
        shared: int,
        stream: Any,
        args: tuple[Any, ...],
        rooms: Rooms | None = None,
    ) -> None:
        """Launch a kernel, with every argument checked in Python.

        stream: a torch.cuda.Stream, a number, or an object with __cuda_stream__. None:
            torch's current stream.
        rooms: receives the memory of this launch, for reuse by later launches.

        Raises ArgumentError for arguments that do not fit.
        """
        target, binder = self.target, self.binder
        bound = binder.bind(args)
        arrays = [value for value, p in zip(bound, binder.params) if p.pointer]
        addresses = [array.address if array else 0 for array in arrays]
        arrays += list_held_arrays(bound) if binder.holds_addresses else []
        device = _device_of(binder.kernel, arrays, target)
        packed, offsets = binder.pack(bound, addresses)
        with target.enter(device):
            plan = target.plan(device, grid, block, shared)
            room = Room(plan, len(packed), offsets)
            current = target.stream(device)
            number = current if stream is None else stream_number(stream)
            room.fill(packed, number, self._head)
            _wait_for_producers(arrays, number)
            status = target.call(room.configuration, plan.function, room.table, 0)
            if status:
                target.fail(status, device)
            if number != current and target.kind == "cuda":
                _keep(arrays, number, device)
            if target.after:
                target.after(device, number)
        if rooms is not None:
            rooms.setdefault(device, ([], plan.function))[0].append(room)

    def at(
        self,
        grid: Any,
        block: Any,
        shared: int = 0,
        otherwise: Callable[[tuple[Any, ...], Rooms], None] | None = None,
    ) -> Callable[..., None]:
        """Return a function that launches the kernel in this shape with its arguments.

        otherwise: called for arguments that the quick path rejects, which include the
            first launch's arguments. It passes the rooms on to the careful path.
        """
        rooms: Rooms = {}

        def careful(args: tuple[Any, ...], rooms: Rooms) -> None:
            self(grid, block, shared, None, args, rooms)

        otherwise = otherwise or careful
        if self._make is None:
            return lambda *args: otherwise(args, rooms)
        return self._make(rooms, otherwise)


def stream_number(stream: Any) -> int:
    """Return the CUstream of a stream object, or a number unchanged."""
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    for name in ("cuda_stream", "ptr", "handle"):  # torch, CuPy, cuda.core
        if isinstance(number := getattr(stream, name, None), int):
            return number
    if hasattr(stream, "__cuda_stream__"):
        pair = stream.__cuda_stream__
        return int((pair() if callable(pair) else pair)[1])
    cure = "pass a torch.cuda.Stream or a stream's number"
    raise ArgumentError(f"{stream!r} is not a stream: {cure}")


# ---- the quick path -----------------------------------------------------------


def _make_quick_launch(
    binder: Binder, target: LaunchTarget, head: bytes
) -> Callable[..., Any] | None:
    """Return make(rooms, otherwise) -> launch(*args), or None for the careful path."""
    lines = _quick_lines(binder, target, head)
    if lines is None:
        return None
    names: dict[str, Any] = {
        **{"native": native, "after": target.after, "current": target.current},
        **{"call": target.call, "stream_of": target.stream, "fail": target.fail},
        "pack_into": _make_layout(binder, bool(target.attributes)).pack_into,
        **_bind_dtypes(binder),
    }
    exec(compile("\n".join(lines), f"<launch of {binder.kernel}>", "exec"), names)
    return names["make"]


def _quick_lines(binder: Binder, target: LaunchTarget, head: bytes) -> list[str] | None:
    """Return the source of `make`; None if a parameter needs the careful path."""
    names = [f"a{i}" for i in range(len(binder.params))]
    conditions, packed, first = ["not native._lost"], [], None
    for name, param, kind in zip(names, binder.params, binder.types):
        if kind is None or (kind.kind == "bfloat16" and not param.pointer):
            return None
        if param.pointer:
            conditions += _array_conditions(name, param, kind, first)
            packed.append(f"{name}.data_ptr()")
            first = first or name
        elif kind.count > 1:
            conditions += [f"{name}.__class__ is tuple", f"len({name}) == {kind.count}"]
            packed += [f"{name}[{i}]" for i in range(kind.count)]
        else:
            conditions += [f"{name}.__class__ is bool"] * (kind.kind == "bool")
            packed.append(name)
    if first is None:
        return None  # without arrays, no argument determines the device
    if target.current:
        conditions.append("current() == device")
    if target.attributes:
        packed = [str(number) for number in struct.unpack("=QI", head)] + packed
    return [
        "def make(rooms, otherwise):",
        "  def launch(*args):",
        "    quick = False",
        "    try:",
        f"        {', '.join(names)}, = args",
        f"        device = {first}.get_device()",
        f"        if {' and '.join(conditions)}:",
        "            free, function = rooms[device]",
        "            room = free.pop()",
        "            number = stream_of(device)",
        f"            pack_into(room.buffer, {STREAM}, number, {', '.join(packed)})",
        "            quick = True",
        "    except Exception:",
        "        pass  # the careful way reports the error",
        "    if not quick:",
        "        return otherwise(args, rooms)",
        "    status = call(room.configuration, function, room.table, 0)",
        "    free.append(room)",
        "    if status:",
        f"        if status == {NO_CONTEXT}:",
        "            return otherwise(args, rooms)",
        "        fail(status, device)",
        *["    after(device, number)"] * bool(target.after),
        "  return launch",
    ]


def _array_conditions(name: str, param: Any, kind: Any, first: str | None) -> list[str]:
    """Return the conditions under which a torch tensor may be passed unchanged.

    Only tensors have a torch dtype. A subclass without memory, such as FakeTensor,
    raises an error when its address is requested, which leads to the careful path.
    """
    compare = "is" if len(_dtypes_of(kind)) == 1 else "in"  # `is` is twice as fast
    conditions = [f"{name}.dtype {compare} dtypes_{name}", f"{name}.is_contiguous()"]
    conditions += [f"{name}.get_device() == device"] * bool(first)
    conditions += [f"not {name}.requires_grad"] * (not param.const)
    if kind.count > 1:
        conditions.append(f"not {name}.data_ptr() % {kind.align}")
        conditions.append(f"not {name}.nbytes % {kind.size}")
    return conditions


def _bind_dtypes(binder: Binder) -> dict[str, Any]:
    """Return the torch dtypes allowed for array parameter 0 as dtypes_a0, and so on."""
    dtypes: dict[str, Any] = {}
    for i, (param, kind) in enumerate(zip(binder.params, binder.types)):
        if param.pointer and kind:
            kinds = _dtypes_of(kind)
            dtypes[f"dtypes_a{i}"] = next(iter(kinds)) if len(kinds) == 1 else kinds
    return dtypes


def _dtypes_of(kind: Any) -> frozenset[torch.dtype]:
    """Return a type's torch dtypes, except complex ones, which may be conjugated."""
    dtypes = [getattr(torch, name, None) for name in kind.dtypes]
    dtypes = [dtype for dtype in dtypes if isinstance(dtype, torch.dtype)]
    return frozenset(dtype for dtype in dtypes if not dtype.is_complex)


def _make_layout(binder: Binder, attributes: bool) -> struct.Struct:
    """Return the struct that packs the arguments and the end of a configuration."""
    form, end = "=QQI12x" if attributes else "=Q24x", 0
    for param, kind, offset in zip(binder.params, binder.types, binder.offsets):
        code = "Q" if param.pointer else kind.code * kind.count
        form += "x" * (offset - end) + code
        end = offset + struct.calcsize("=" + code)
    return struct.Struct(form)


# ---- the careful path ---------------------------------------------------------


def _device_of(kernel: str, arrays: list[Array | None], target: LaunchTarget) -> int:
    device = common_device(kernel, arrays)
    if device is None:
        return target.default()
    if device[0] != target.kind:
        array = next(filter(None, arrays))
        text = f"is compiled for {target.kind}, but one array is {array}"
        raise ArgumentError(f"{kernel} {text}")
    return device[1] if target.kind == "cuda" else -1


def _keep(arrays: list[Array | None], number: int, device: int) -> None:
    """Keep the memory of tensors, even freed ones, until this stream is done."""
    stream = torch.cuda.ExternalStream(number, device=device)
    for array in arrays:
        if array and isinstance(array.owner, torch.Tensor):
            array.owner.record_stream(stream)


def _address_of(memory: Any) -> int:
    return int(ffi.cast("uintptr_t", memory))


def _wait_for_producers(arrays: list[Array | None], number: int) -> None:
    """Wait for writes that another library has queued on a separate stream.

    https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html
    """
    for array in arrays:
        if array is None or isinstance(array.owner, torch.Tensor):
            continue
        interface = getattr(array.owner, "__cuda_array_interface__", {})
        stream = interface.get("stream")
        # Streams 1 and 2 are the default streams; stream 1 waits for all others.
        if stream and stream not in (1, number):
            torch.cuda.ExternalStream(stream).synchronize()
