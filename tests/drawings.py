"""A chart of `weft bench` as text."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.figure import Figure

from weft.base import style


def drawn(draw: Callable, *args: object, **options: object) -> str:
    """The SVG of draw(axes, ...)."""
    with style.style():
        made = Figure(figsize=(9, 4))
        draw(made.subplots(), *args, **options)
        return style.svg(made)
