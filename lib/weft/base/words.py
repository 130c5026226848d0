"""Numbers as they stand in a sentence."""

from __future__ import annotations


def thousands(number: float) -> str:
    """A whole number with thin spaces: 2 565 000."""
    return f"{number:,.0f}".replace(",", "\u202f")


def rounded(number: float) -> str:
    """Three digits, or all of a whole number: 0.125, 12.5, 2 565."""
    return f"{number:.3g}" if number < 1000 else thousands(number)


def plural(count: int, thing: str) -> str:
    """1 cell, 2 cells, 3 accesses."""
    many = "es" if thing.endswith("s") else "s"
    return f"{thousands(count)} {thing}" + many * (count != 1)
