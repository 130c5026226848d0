"""The arrays that a launch's arguments reach through structs or through a `float **`.

On the CPU a kernel works on copies. Each address in a struct, in a list or in an array
of structs must therefore become the address of a copy. An address that Python passed as
a number is looked up among the launch's arrays, then among the variables of the calling
functions. An unknown address stays unchanged.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ..base.errors import ArgumentError
from ..csource.signature import Param
from .arguments import Array, Binder, Packed, describe
from .cpu import arena
from .structs import CScalar, StructLayout, find_scalar, member_of

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
    binder: Binder, bound: Sequence[Any], reached: Reached, copies: arena.Arena
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


def take_back(binder: Binder, reached: Reached, copies: arena.Arena) -> None:
    """Restore the original addresses in the copies, before the copies are copied back.

    Raises ArgumentError if the kernel has written into a list.
    """
    spans = [(r.start, r.start + r.nbytes, r.source) for r in copies.regions]
    for _, layout, array in reached.holders:
        _replace(copies.memory_of(array), layout, spans)
    for param, array in reached.lists:
        original = arena.view_memory(array.address, array.nbytes)
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
        data = arena.view_memory(value.address, value.nbytes)
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
