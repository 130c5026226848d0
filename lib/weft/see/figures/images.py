"""Images side by side."""

from __future__ import annotations

from numpy.typing import ArrayLike

from ...base.style import INK
from .view import figure

WIDEST, WIDE = 2.9, 9.5  # inches: of one image, of all together


def show_images(**images: ArrayLike) -> None:
    """Show images side by side below the cell, each under its name.

    images: (height, width) grey values, 0 black and the largest white, or
    (3, height, width) planes of red, green and blue from 0 to 1.
    """
    import numpy as np

    arrays = {name: np.asarray(image) for name, image in images.items()}
    rows, columns = next(iter(arrays.values())).shape[-2:]
    side = min(WIDEST, WIDE / len(arrays))
    high = side * rows / columns + 0.3  # room for the names
    with figure(side * len(arrays), high, columns=len(arrays), squeeze=False) as axes:
        for ax, (name, image) in zip(axes[0], arrays.items()):
            planes = image.transpose(1, 2, 0) if image.ndim == 3 else image
            ax.imshow(planes, cmap="gray", vmin=0)
            ax.set_title(name)
            ax.set(xticks=[], yticks=[])  # the frame stays: white ends on a white page
            ax.spines[:].set(visible=True, color=INK, linewidth=0.8)
