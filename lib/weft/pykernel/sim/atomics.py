"""cuda.atomic.*: the new value of each, from the old one and the arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def _smaller(old: Any, value: Any) -> Any:
    return old if old != old or not (value < old or value != value) else value


def _larger(old: Any, value: Any) -> Any:
    return old if old != old or not (value > old or value != value) else value


def _nan_smaller(old: Any, value: Any) -> Any:
    return value if old != old or value < old else old


def _nan_larger(old: Any, value: Any) -> Any:
    return value if old != old or value > old else old


UPDATES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda old, value, _: old + value,
    "sub": lambda old, value, _: old - value,
    "min": lambda old, value, _: _smaller(old, value),
    "max": lambda old, value, _: _larger(old, value),
    "nanmin": lambda old, value, _: _nan_smaller(old, value),
    "nanmax": lambda old, value, _: _nan_larger(old, value),
    "and_": lambda old, value, _: old & value,
    "or_": lambda old, value, _: old | value,
    "xor": lambda old, value, _: old ^ value,
    "exch": lambda old, value, _: value,
    "inc": lambda old, value, _: 0 if old >= value else old + 1,
    "dec": lambda old, value, _: value if old == 0 or old > value else old - 1,
    "cas": lambda old, value, new: new if old == value else old,
}


def update(
    raw: np.ndarray, key: Any, name: str, value: Any, new: Any, casts: dict[str, Any]
) -> Any:
    """Change raw[key] as atomic.<name> does; the old value."""
    old = raw[key]
    kind = raw.dtype
    if kind.kind in "iu":
        cast = casts[f".cast_{kind.name}"]
        value = cast(value)
        made = UPDATES[name](int(old), value, None if new is None else cast(new))
        raw[key] = cast(made)
        return old
    made = UPDATES[name](old, kind.type(value), None if new is None else kind.type(new))
    raw[key] = made
    return old
