"""Charts as text: their SVG, and the texts in it."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable

from matplotlib.figure import Figure

from weft.base import style


def drawn(draw: Callable, *args: object, **options: object) -> str:
    """Return the SVG of draw(axes, ...)."""
    with style.style():
        figure = Figure(figsize=(9, 4))
        draw(figure.subplots(), *args, **options)
        return style.write_svg(figure)


def texts(figure) -> list[str]:
    """List the texts of the SVG, which must remain text."""
    tree = ElementTree.fromstring(style.write_svg(figure))
    elements = tree.iter("{http://www.w3.org/2000/svg}text")
    return [" ".join("".join(text.itertext()).split()) for text in elements]
