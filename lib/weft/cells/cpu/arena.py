"""Fenced copies of a launch's arrays, on which a cell's kernel actually works.

    | guard: no access | 0xff ... | the array | 0xff ... | guard: no access |

A copy ends as close to its upper guard as its alignment allows. Usually it ends at the
guard. If the cell casts pointers to vector types, copies are aligned to 16 bytes, which
leaves up to 15 bytes of slack. An access to a guard is a page fault, which the SIMT
runtime turns into a failed launch. The arena finds a write into the slack after the
launch; reads from the slack return NaN or -1. Arrays that share memory also share one
copy, in which they overlap in the same way.
"""

from __future__ import annotations

import bisect
import mmap
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from cffi import FFI

from ..arguments import Array
from ..structs import CScalar

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

    def strayed(self) -> int | None:
        """Return the address of the nearest overwritten canary byte, or None."""
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
            # The copy is aligned exactly like the array, and not more strictly.
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

    def strayed(self) -> int | None:
        """Return an address outside the arrays that was written, or None."""
        found = (region.strayed() for region in self.regions)
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
