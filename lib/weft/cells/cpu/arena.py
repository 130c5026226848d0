"""Fenced copies of a launch's arrays, on which a cell's kernel actually works.

    | guard: no access | 0xff ... | the array | 0xff ... | guard: no access |

A copy ends as close to its upper guard as its alignment allows. Usually it ends at the
guard. If the cell casts pointers to vector types, copies are aligned to 16 bytes, which
leaves up to 15 bytes of slack. An access to a guard is a page fault, which the SIMT
runtime turns into a failed launch. The arena finds a write into the slack after the
launch; reads from the slack return NaN or -1. Arrays that share memory also share one
copy, in which they overlap in the same way.

Since a kernel works on copies, each address in a struct, in a list or in an array of
structs must become the address of a copy. An address that Python passed as a number is
looked up among the launch's arrays, then among the variables of the calling functions.
An unknown address stays unchanged.
"""

from __future__ import annotations

import bisect
import contextlib
import mmap
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from cffi import FFI

from ...base.errors import ArgumentError
from ...csource.signature import Param
from ..arguments import Array, Binder, Packed, describe
from ..structs import CScalar, StructLayout, find_scalar, member_of

PAGE = mmap.PAGESIZE
GUARD = 1 << 30  # bytes of address space, not of memory
KEEP = 256 << 20  # bytes of fenced memory kept for later launches
KEEP_REGIONS = 256  # maximum number of regions in which that memory is kept
FILL = 0xFF

ffi = FFI()
# Addresses are integers in these declarations: each launch calls the functions many
# times, and converting pointers takes longer.
ffi.cdef("""
intptr_t mmap(uintptr_t address, size_t length, int protection, int flags, int fd,
              long offset);
int munmap(uintptr_t address, size_t length);
int mprotect(uintptr_t address, size_t length, int protection);
uintptr_t memmove(uintptr_t to, uintptr_t from, size_t length);
uintptr_t memset(uintptr_t to, int byte, size_t length);
int memcmp(uintptr_t a, uintptr_t b, size_t length);
""")
_libc = ffi.dlopen(None)
_NONE, _READ_WRITE = 0, 3
_PRIVATE_ANONYMOUS = 0x22 if sys.platform == "linux" else 0x1002
_NORESERVE = 0x4000 if sys.platform == "linux" else 0x40
# Patterns of a cast to a vector type, and of code that may contain one.
_TYPES = (
    r"(?:u?(?:char|short|int|long|longlong)|float|double|(?:__)?half|(?:__)?nv_bfloat16)"
    r"[1-4]\b"
)
_VECTOR = re.compile(
    rf"\b{_TYPES}[\s\w]*[*&][\s*]*[)>]|\b(?:using|typedef)\b[^;]*\b{_TYPES}"
    r"|\balignas\b|\b__align__\b"
)
_filled_memory = ffi.new("char[]", bytes([FILL]) * 2 * PAGE)
_canary = int(ffi.cast("uintptr_t", _filled_memory))


@dataclass(slots=True)
class Region:
    """Fenced memory that contains the copy of one array or of overlapping arrays.

    [base, base + room) is accessible, and the `guard` bytes on either side are not. The
    copy of [source, source + nbytes) begins at `start`.
    """

    base: int
    room: int
    guard: int
    start: int = 0
    source: int = 0
    nbytes: int = 0

    def fill(self) -> None:
        """Write the copy, and the canary around it."""
        front, after = self.start - self.base, self.start + self.nbytes
        _libc.memset(self.base, FILL, front)
        _libc.memset(after, FILL, self.base + self.room - after)
        if self.nbytes:
            _libc.memmove(self.start, self.source, self.nbytes)

    def find_overwritten(self) -> int | None:
        """Return the address of an overwritten canary byte, or None."""
        after = self.start + self.nbytes
        slack = self.base + self.room - after
        if _libc.memcmp(after, _canary, slack):
            return after + _find_first(_view_bytes(after, slack))
        front = self.start - self.base
        if _libc.memcmp(self.base, _canary, front):
            return self.start - 1 - _find_first(_view_bytes(self.base, front)[::-1])
        return None


class Arena:
    """The copies of one launch's arrays.

    arrays: arrays of the pointer parameters; None for NULL.
    align: minimal alignment of each array's copy, in bytes.
    """

    def __init__(self, arrays: Sequence[Array | None], align: Sequence[int]) -> None:
        self.arrays = arrays
        self.regions: list[Region] = []
        spans = merge_spans(arrays, align)
        self._ends = [end for _, end, _ in spans]
        for start, end, alignment in spans:
            region = _take(end - start + -end % alignment)
            region.source, region.nbytes = start, end - start
            top = region.base + region.room - region.nbytes
            # Align the copy exactly like the array, and not more strictly.
            region.start = top - (top - start) % alignment
            region.fill()
            self.regions.append(region)

    def addresses(self) -> list[int]:
        """Return the addresses to pass to the kernel, one for each array."""
        return [self._address(array) for array in self.arrays]

    def _address(self, array: Array | None) -> int:
        if array is None:
            return 0
        region = self._region_of(array)
        return region.start + array.address - region.source

    def memory_of(self, array: Array) -> memoryview:
        """Return the bytes of an array's copy as a writable view."""
        return view_memory(self._address(array), array.nbytes)

    def _region_of(self, array: Array) -> Region:
        # An empty array may begin where another one ends; it may use any region.
        at = bisect.bisect_left(self._ends, array.address + array.nbytes)
        return self.regions[at]

    def find_overwritten(self) -> int | None:
        """Return an address outside the arrays that was written, or None."""
        found = (region.find_overwritten() for region in self.regions)
        return next((address for address in found if address is not None), None)

    def copy_back(self, written: Sequence[bool]) -> None:
        """Copy the arrays marked in `written` back to their origin."""
        for array, at, marked in zip(self.arrays, self.addresses(), written):
            if marked and array is not None and array.nbytes:
                _libc.memmove(array.address, at, array.nbytes)

    def changed(self, written: Sequence[bool]) -> list[bool]:
        """Return, for each array not marked in `written`, whether its copy has changed.

        The result is False for marked arrays, and for arrays that share their copy
        with one of these.
        """
        rows = list(zip(self.arrays, self.addresses(), written))
        shared = {id(self._region_of(a)) for a, _, marked in rows if marked and a}
        return [
            not marked
            and array is not None
            and id(self._region_of(array)) not in shared
            and bool(_libc.memcmp(array.address, at, array.nbytes))
            for array, at, marked in rows
        ]

    def contents(self, written: Sequence[bool]) -> list[bytes | None]:
        """Return the content of marked arrays' copies; None for other arrays."""
        rows = zip(self.arrays, self.addresses(), written)
        return [
            _view_bytes(at, a.nbytes) if marked and a else None
            for a, at, marked in rows
        ]

    def release(self) -> None:
        """Release the memory to later launches or to the system."""
        for region in self.regions:
            _give_back(region)
        self.regions = []


def list_alignments(source: str, types: Sequence[CScalar | None]) -> list[int]:
    """Return the alignment of each copy in bytes.

    The alignment is that of the element type. It is 16 for structs, and for all copies
    if the cell casts to vector types.
    """
    if _VECTOR.search(source):
        return [16] * len(types)
    return [16 if kind is None else kind.align for kind in types]


def move(to: int, start: int, nbytes: int) -> None:
    """Copy memory between two addresses."""
    _libc.memmove(to, start, nbytes)


# ---- memory ------------------------------------------------------------------

_free: dict[int, list[Region]] = {}  # free regions by room in bytes, the oldest first
_kept_bytes = _kept_count = 0


def _take(nbytes: int) -> Region:
    """Return a fenced region with at least `nbytes` accessible bytes."""
    room = -(-max(nbytes, 1) // PAGE) * PAGE
    regions = _free.get(room)
    if regions:
        return _take_region(regions, room)
    guard = GUARD
    while guard >= 16 * PAGE:
        total = guard + room + guard
        flags = _PRIVATE_ANONYMOUS | _NORESERVE
        base = _libc.mmap(0, total, _NONE, flags, -1, 0)
        if base != -1:
            if _libc.mprotect(base + guard, room, _READ_WRITE):
                _libc.munmap(base, total)
                break
            return Region(base + guard, room, guard)
        guard //= 8  # ulimit -v may limit the address space
    cure = "inplace=True (--inplace) lets the kernel work on the arrays themselves"
    raise MemoryError(f"no memory for a fenced copy of {nbytes} bytes; {cure}")


def _give_back(region: Region) -> None:
    global _kept_bytes, _kept_count
    if region.room > KEEP:
        return _unmap_region(region)
    _kept_bytes += region.room
    _kept_count += 1
    _free.setdefault(region.room, []).append(region)
    while _kept_bytes > KEEP or _kept_count > KEEP_REGIONS:
        room, oldest = next(iter(_free.items()))
        _unmap_region(_take_region(oldest, room))


def _unmap_region(region: Region) -> None:
    _libc.munmap(region.base - region.guard, region.room + 2 * region.guard)


def _take_region(regions: list[Region], room: int) -> Region:
    global _kept_bytes, _kept_count
    _kept_bytes -= room
    _kept_count -= 1
    region = regions.pop()
    if not regions:
        del _free[room]
    return region


def merge_spans(
    arrays: Sequence[Array | None], align: Sequence[int]
) -> list[tuple[int, int, int]]:
    """Return the arrays' memory as sorted (start, end, alignment), overlaps merged."""
    merged: list[list[int]] = []
    spans = [(a.address, a.address + a.nbytes, n) for a, n in zip(arrays, align) if a]
    for start, end, alignment in sorted(spans):
        if merged and (start < merged[-1][1] or (start, end) == tuple(merged[-1][:2])):
            merged[-1][1] = max(end, merged[-1][1])
            merged[-1][2] = max(alignment, merged[-1][2])
        else:
            merged.append([start, end, alignment])
    return [(start, end, alignment) for start, end, alignment in merged]


def _find_first(data: bytes | bytearray) -> int:
    """Return the index of the first byte that differs from the canary."""
    return len(data) - len(bytes(data).lstrip(bytes([FILL])))


def _view_bytes(address: int, length: int) -> bytes:
    return ffi.unpack(ffi.cast("char *", address), length)


def view_memory(address: int, length: int) -> memoryview:
    """Return a writable view of memory; the caller guarantees that it is writable."""
    return memoryview(ffi.buffer(ffi.cast("char *", address), length)).cast("B")


# ---- arrays that the arguments reach, through structs or a `float **` ----------------

MOST = 10_000  # maximum length of a list that is searched for an address
Slot = tuple[Param, np.ndarray]


@dataclass
class Reached:
    """The arrays that are reached through others, and the arrays that hold addresses.

    params, arrays: the reached arrays, each with the declaration that points to it
    holders: the arrays of addresses or structs, with their declarations and layouts
    lists: the holders that were built from Python lists
    """

    params: list[Param] = field(default_factory=list)
    arrays: list[Array] = field(default_factory=list)
    holders: list[tuple[Param, StructLayout, Array]] = field(default_factory=list)
    lists: list[tuple[Param, Array]] = field(default_factory=list)

    def has(self, param: Param, array: Array) -> bool:
        """Return whether the same memory was already reached as the same type."""
        same = (array.address, array.nbytes, param.type, param.const)
        pairs = zip(self.params, self.arrays)
        return any(same == (a.address, a.nbytes, p.type, p.const) for p, a in pairs)

    @property
    def types(self) -> list[CScalar | None]:
        """The element types of the reached arrays."""
        return [find_scalar(param.type) for param in self.params]

    @property
    def written(self) -> list[bool]:
        """For each reached array, whether the kernel may write to it."""
        return [not param.const for param in self.params]


def reach_arrays(binder: Binder, bound: Sequence[Any]) -> Reached:
    """Return everything on the host that the bound arguments point to."""
    reached = Reached()
    known = [value for value in bound if isinstance(value, Array)]
    pending = list(zip(binder.params, bound))
    while pending:
        param, value = pending.pop(0)
        layout = binder.layout_of(param.type)
        if value is None or layout is None or not layout.pointers:
            continue
        if isinstance(value, Array):
            reached.holders.append((param, layout, value))
            if value.holds:
                reached.lists.append((param, value))
        new = [*value.holds]
        new += _find_unknown(param, layout, value, [*known, *(a for _, a in new)])
        for inner, array in new:
            if not reached.has(inner, array):
                reached.params.append(inner)
                reached.arrays.append(array)
                pending.append((inner, array))
            known.append(array)
    return reached


# ---- addresses -----------------------------------------------------------------


def translate(
    binder: Binder, bound: Sequence[Any], reached: Reached, copies: Arena
) -> list[Any]:
    """Replace each array's address in the copies with the address of the array's copy.

    Returns the arguments, in which the addresses in structs are also replaced.
    """
    spans = [(r.source, r.source + r.nbytes, r.start) for r in copies.regions]
    for _, layout, array in reached.holders:
        _replace(copies.memory_of(array), layout, spans)
    translated = list(bound)
    for i, (value, layout) in enumerate(zip(bound, binder.layouts)):
        if isinstance(value, Packed) and layout is not None and layout.pointers:
            data = bytearray(value)
            _replace(memoryview(data), layout, spans)
            translated[i] = Packed(data)
    return translated


def take_back(binder: Binder, reached: Reached, copies: Arena) -> None:
    """Restore the original addresses in the copies, before the copies are copied back.

    Raises ArgumentError if the kernel has written into a list.
    """
    spans = [(r.start, r.start + r.nbytes, r.source) for r in copies.regions]
    for _, layout, array in reached.holders:
        _replace(copies.memory_of(array), layout, spans)
    for param, array in reached.lists:
        original = view_memory(array.address, array.nbytes)
        if copies.memory_of(array) != original:
            text = f"{binder.kernel}: {param}: the kernel wrote into a copy of the list"
            cure = "pass an array (of addresses, or a structured one)"
            raise ArgumentError(f"{text}, and the list does not change: {cure}")


def _list_slots(data: memoryview, layout: StructLayout) -> Iterator[Slot]:
    """Yield each address member of an array of structs, and a view of its values."""
    count = len(data) // layout.size
    for offset, param in layout.pointers if count else ():
        yield param, np.ndarray(count, "<u8", data, offset, (layout.size,))


def _replace(data: memoryview, layout: StructLayout, spans: Sequence[Any]) -> None:
    for _, values in _list_slots(data, layout):
        old, done = values.copy(), np.zeros(values.size, bool)
        # The address one past the end of an array belongs to that array, unless another
        # array begins there.
        for last in (0, 1):
            for start, end, to in spans:
                inside = (old >= start) & (old < end + last) & ~done
                values[inside] = old[inside] - np.uint64(start) + np.uint64(to)
                done |= inside


def _find_unknown(
    param: Param, layout: StructLayout, value: Packed | Array, known: Sequence[Array]
) -> Iterator[tuple[Param, Array]]:
    """Yield the callers' arrays, except known ones, to which addresses point."""
    if isinstance(value, Array):
        data = view_memory(value.address, value.nbytes)
    else:
        data = memoryview(value)
    known_arrays = list(known)
    visible: list[Array] | None = None
    for inner, values in _list_slots(data, layout):
        for address in np.unique(values).tolist():
            if not address or any(_has(one, address) for one in known_arrays):
                continue
            visible = _list_visible() if visible is None else visible
            array = next((one for one in visible if _has(one, address)), None)
            if array is not None:
                known_arrays.append(array)
                yield member_of(inner, param), array


def _has(array: Array, address: int) -> bool:
    return array.address <= address < array.address + array.nbytes


def _list_visible() -> list[Array]:
    """List the host arrays in the callers' variables, and in lists among them."""
    by_id: dict[int, Any] = {}
    frame: Any = sys._getframe(1)
    while frame is not None:
        if not frame.f_globals.get("__name__", "").startswith("weft."):
            for names in (frame.f_locals, frame.f_globals):
                for value in list(names.values()):
                    _collect_arrays(value, by_id)
        frame = frame.f_back
    arrays = []
    for value in by_id.values():
        with contextlib.suppress(ArgumentError):
            array = describe(value)
            if array is not None and array.device_type == "cpu" and array.contiguous:
                arrays.append(array)
    return sorted(arrays, key=lambda one: -one.nbytes)


def _collect_arrays(value: Any, by_id: dict[int, Any]) -> None:
    if isinstance(value, (np.ndarray, torch.Tensor)):
        by_id[id(value)] = value
    elif isinstance(value, (list, tuple, dict)) and len(value) <= MOST:
        for one in list(value.values() if isinstance(value, dict) else value):
            if isinstance(one, (np.ndarray, torch.Tensor)):
                by_id[id(one)] = one
