"""One image's way through a fused step, as the arrays between its kernels have it.

draw_inside(cnn, image, number)   after cnn has taken a step: Cnn.peek() as pictures
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ..figures.style import INK, OURS, READ, SHARED, THREAD, WRITTEN, outlined, style
from ..widgets.canvas import draw_image, mosaic
from .cnn import Cnn
from .plot import new_figure

# Which pixel of a 2x2 window won it.
WINNERS = {
    "upper left": READ,
    "upper right": WRITTEN,
    "lower left": SHARED,
    "lower right": THREAD,
}


def draw_inside(cnn: Cnn, image: np.ndarray, number: int = 0) -> Figure:
    """What the last step made of an image; cnn: on a fused rung.

    image (28,28) uint8: the one at place `number` of that step's batch.
    """
    with style():
        figure = new_figure(920, 900)
        axes = figure.subplots(3, 3, height_ratios=(4, 8, 5))
        draw_image(axes[0, 0], image / 255, "the image: 784 bytes")
        for ax, name in (axes[0, 1], "p1"), (axes[1, 0], "c2"), (axes[1, 1], "m2"):
            draw_image(ax, mosaic(maps_of(cnn, name, number)), _titled(cnn, name))
        for ax, name in (axes[0, 2], "code1"), (axes[1, 2], "code2"):
            _draw_codes(ax, maps_of(cnn, name, number), _titled(cnn, name))
        hidden = cnn.peek("h")[number]
        shades = hidden.reshape(8, -1) / (hidden.max() or 1.0)
        draw_image(axes[2, 0], shades, f"h: {hidden.size} numbers")
        _draw_logits(axes[2, 1], cnn.peek("logits")[number])
        owed = maps_of(cnn, "dp2", number)
        grey = 0.5 + 0.5 * owed / (np.abs(owed).max() or 1.0)
        draw_image(axes[2, 2], mosaic(grey, scaled=False), _titled(cnn, "dp2"))
        return figure


def maps_of(cnn: Cnn, name: str, number: int = 0) -> np.ndarray:
    """An array (batch,pixels,channels) of the last step as (channels,side,side)."""
    pixels = cnn.peek(name)[number]
    side = int(len(pixels) ** 0.5)
    return pixels.reshape(side, side, -1).transpose(2, 0, 1)


def _titled(cnn: Cnn, name: str) -> str:
    channels, side, _ = maps_of(cnn, name).shape
    return f"{name}: {channels} of {side}x{side}"


def _draw_codes(ax: Axes, codes: np.ndarray, title: str) -> None:
    """The winner of each window in its colour, nothing where none gets a gradient."""
    picture = mosaic(codes, scaled=False)
    won = np.nan_to_num(picture, nan=4) < 4
    colours = np.array([to_rgb(colour) for colour in WINNERS.values()])
    shown = np.zeros((*picture.shape, 4))
    shown[won, :3] = colours[picture[won].astype(int)]
    shown[won, 3] = 1
    ax.imshow(shown, interpolation="nearest")
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set(visible=True, color=INK)
    ax.grid(visible=False)
    ax.set_title(title, size=11)
    marks = [Patch(color=colour, label=name) for name, colour in WINNERS.items()]
    look = {"ncols": 2, "fontsize": 9, "handlelength": 1, "borderaxespad": 0.2}
    ax.legend(handles=marks, loc="upper center", bbox_to_anchor=(0.5, 0), **look)


def _draw_logits(ax: Axes, logits: np.ndarray) -> None:
    digits = range(len(logits))
    ax.bar(digits, logits, **outlined(OURS))
    ax.set(xticks=digits)
    ax.set_title(f"logits: {len(logits)} numbers", size=11)
    ax.grid(axis="x", visible=False)
