"""Images side by side."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
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


def mosaic(maps: np.ndarray, scaled: bool = True) -> np.ndarray:
    """maps (channels,h,w) side by side as one picture, NaN in the gaps.

    scaled: to shades from 0 to 1, each map on its own scale, from its least value to
    its largest; else the values stay.
    """
    channels, h, w = maps.shape
    rows, columns = choose_grid(channels)
    picture = np.full((rows * (h + 1) - 1, columns * (w + 1) - 1), np.nan)
    for index, values in enumerate(maps):
        top, left = index // columns * (h + 1), index % columns * (w + 1)
        if scaled:
            values = (values - values.min()) / (np.ptp(values) or 1.0)
        picture[top : top + h, left : left + w] = values
    return picture


def draw_image(ax: Axes, shades: np.ndarray, title: str = "") -> None:
    """Shades (h,w) from 0, white, to 1, black, without ticks; a NaN is left out."""
    ax.imshow(shades, cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set(visible=True, color=INK)
    ax.grid(visible=False)
    ax.set_title(title, size=11)


def choose_grid(channels: int) -> tuple[int, int]:
    columns = 8 if channels >= 8 else channels
    return -(-channels // columns), columns
