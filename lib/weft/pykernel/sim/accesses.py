"""Accesses to arrays that a kernel has under names known only as it runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import numbers
from .log import Log
from .memory import ArrayView
from .numbers import cast
from .record import SITES, AccessPlace

CASTS = {
    f".cast_{np.dtype(name).name}": cast(np.dtype(name))
    for name in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
}


class Accesses:
    """get, put and their like: what rewritten code calls. log: None without checks."""

    def __init__(self, places: list[AccessPlace]) -> None:
        self.places = places
        self.log: Log | None = None

    def get(self, array: Any, index: Any, number: int) -> Any:
        """array[index], written down."""
        place = self.places[number]
        if type(array) is not ArrayView:
            _no_number(array, place)
            return array[index]
        found = array.find(index, place)
        if type(found) is ArrayView:
            return found
        key, element = found
        self._note(place, array, element)
        return array.raw[key]

    def put(self, value: Any, array: Any, index: Any, number: int) -> None:
        """array[index] = value, written down."""
        place = self.places[number]
        if type(array) is not ArrayView:
            _no_number(array, place)
            if isinstance(array, tuple):
                name = place.text.partition("[")[0]
                raise TypeError(f"{name} is a tuple, which is only read: {place.text}")
            array[index] = value
            return
        found = array.find(index, place)
        if type(found) is ArrayView:
            raise TypeError(f"{array.name} is written element by element: {place.text}")
        key, element = found
        if array.raw.dtype.kind in "iu":
            value = CASTS[f".cast_{array.raw.dtype.name}"](value)
        assert self.log is not None
        self._note(place, array, element)
        self.log.values.append(value)
        array.raw[key] = value

    def put_field(
        self, value: Any, array: Any, index: Any, number: int, field: str
    ) -> None:
        """array[index].field = value, written down as a write of the element."""
        if type(array) is not ArrayView:
            array[index][field] = value
            return
        place = self.places[number]
        found = array.find(index, place)
        if type(found) is ArrayView:
            raise TypeError(f"a field is one of an element: {place.text}")
        key, element = found
        assert self.log is not None
        self._note(place, array, element)
        self.log.values.append(field)  # two threads may write two fields
        array.raw[key][field] = value

    def atomic(
        self, name: str, array: Any, index: Any, value: Any, new: Any, number: int
    ) -> Any:
        """An atomic update, written down."""
        place = self.places[number]
        if type(array) is not ArrayView:
            raise TypeError(f"cuda.atomic.{name} takes an array, this is {array!r:.40}")
        found = array.find(index, place)
        if type(found) is ArrayView:
            raise TypeError(f"cuda.atomic.{name} takes one index per dimension")
        key, element = found
        self._note(place, array, element)
        return numbers.update(array.raw, key, name, value, new, CASTS)

    def atomic_plain(
        self, name: str, array: Any, index: Any, value: Any, new: Any, number: int
    ) -> Any:
        """An atomic update."""
        return numbers.update(array, index, name, value, new, CASTS)

    def _note(self, place: AccessPlace, array: ArrayView, element: int) -> None:
        log = self.log
        assert log is not None
        site = log.site(place, array.array)
        log.entries.append(element * SITES + site)


def _no_number(array: Any, place: AccessPlace) -> None:
    """Raise the TypeError for x[i] where x is a number."""
    if isinstance(array, (int, float, complex, np.number)):
        name = place.text.partition("[")[0]
        raise TypeError(
            f"{name} is a number, {array!r}, not an array, in {place.text}: look at "
            f"the order of the arguments"
        )
