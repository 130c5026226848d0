"""Format values and numbers for messages and sentences."""

from __future__ import annotations

from typing import Any


def shorten_repr(value: Any, most: int = 40) -> str:
    """Return repr(value), truncated to `most` characters."""
    try:
        text = repr(value)
    except Exception:  # the value's __repr__ failed
        text = object.__repr__(value)
    return text if len(text) <= most else text[: most - 3] + "..."


def write_thousands(number: float) -> str:
    """Format a whole number with thin spaces: 2 565 000."""
    return f"{number:,.0f}".replace(",", "\u202f")


def round_number(number: float) -> str:
    """Format with three digits, or as a whole number if >= 1000: 0.125, 2 565."""
    # From 999.5 on, three digits would be 1e+03.
    return f"{number:.3g}" if number < 999.5 else write_thousands(number)


def count_things(count: int, thing: str) -> str:
    """Format a count with its noun: 1 cell, 2 cells, 3 accesses."""
    many = "es" if thing.endswith("s") else "s"
    return f"{write_thousands(count)} {thing}" + many * (count != 1)
