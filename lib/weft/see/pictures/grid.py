"""Place the cells of an array, or the threads of a block, on a drawing."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .svg import num

LARGEST = 34.0  # largest size of a cell with its gap, in pixels
GAP = 14.0  # gap between two planes of a 3D array, in pixels
APART = 12.0  # smallest cell, in pixels, that has a gap to its neighbours
# Maximum number of cells of a picture in SVG; a larger one becomes a PNG.
MOST = 100_000


@dataclass(frozen=True)
class Grid:
    """planes x rows x cols squares of `side` pixels, of which the first `count` exist.

    Planes are side by side, with `line` of them in a row. left, top: the position of
    the first plane.
    """

    count: int
    planes: int
    rows: int
    cols: int
    side: float
    line: int = 1
    left: float = 0.0
    top: float = 0.0

    @property
    def width(self) -> float:
        return self.line * (self.cols * self.side + GAP) - GAP

    @property
    def height(self) -> float:
        return -(-self.planes // self.line) * (self.rows * self.side + GAP) - GAP

    @property
    def gap(self) -> float:
        """Pixels between two cells."""
        return min(4.0, 0.14 * self.side) if self.side >= APART else 0.0

    @property
    def cell(self) -> float:
        """The side of a cell without the gap, in pixels."""
        return self.side - self.gap

    def at(self, left: float, top: float) -> Grid:
        """Return the same grid at another position."""
        return replace(self, left=left, top=top)

    def places(self, elements: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (plane, row, column) of each element."""
        flat_row, col = np.divmod(elements, self.cols)
        plane, row = np.divmod(flat_row, self.rows)
        return plane, row, col

    def origin(self, plane: Any) -> tuple[Any, Any]:
        """Return x and y of a plane's upper left corner, or of each plane's."""
        x = self.left + (plane % self.line) * (self.cols * self.side + GAP)
        return x, self.top + plane // self.line * (self.rows * self.side + GAP)

    def corners(self, elements: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return x and y of each element's upper left corner."""
        plane, row, col = self.places(elements)
        x, y = self.origin(plane)
        return x + col * self.side, y + row * self.side

    def frames(self) -> list[tuple[float, float, float, float]]:
        """Return the frame of each row of cells: (left, top, right, bottom)."""
        out = []
        for row in range(self.rows):
            right = self.left + min(self.cols, self.count - row * self.cols) * self.side
            top = self.top + row * self.side
            out.append((self.left - 2, top - 1, right, top + self.cell + 1))
        return out

    def middle(self, element: int) -> tuple[float, float]:
        """Return x and y of an element's centre."""
        x, y = self.corners(np.array([element]))
        return float(x[0]) + self.cell / 2, float(y[0]) + self.cell / 2

    def squares(self, elements: np.ndarray) -> str:
        """Return the path around these elements, joining neighbours that touch."""
        elements = np.unique(elements)
        elements = elements[(elements >= 0) & (elements < self.count)]
        if not len(elements):
            return ""
        lengths = np.ones(len(elements), int)
        if not self.gap:
            new = (np.diff(elements, prepend=-2) != 1) | (elements % self.cols == 0)
            starts = np.flatnonzero(new)
            lengths = np.diff(starts, append=len(elements))
            elements = elements[starts]
        x, y = self.corners(elements)
        high, wide = num(self.cell), lengths * self.side - self.gap
        return "".join(
            f"M{num(a)} {num(b)}h{num(w)}v{high}h-{num(w)}z"
            for a, b, w in zip(x, y, wide)
        )

    @property
    def is_large(self) -> bool:
        """Whether the cells are too many or too small for separate shapes."""
        return self.count > MOST or self.side < 1


NOWHERE = Grid(1, 1, 1, 1, 1.0)  # the grid of an array that has no position yet


def fit(
    count: int,
    planes: int,
    rows: int,
    cols: int,
    width: float,
    height: float,
    largest: float = LARGEST,
) -> Grid:
    """Return the grid with the largest cells that fits into width x height pixels."""
    best = Grid(count, planes, rows, cols, 0.0)
    for line in range(1, planes + 1):
        down = -(-planes // line)
        if line > 1 and -(-planes // (line - 1)) == down and line != planes:
            continue
        side = min(
            (width - (line - 1) * GAP) / (line * cols),
            (height - (down - 1) * GAP) / (down * rows),
            largest,
        )
        if side > best.side + 0.01:
            best = replace(best, side=side, line=line)
    side = best.side or 0.5  # there may be more planes than pixels
    return replace(best, side=math.floor(side) if side >= 3 else side)


def fit_line(count: int, width: float, height: float, largest: float = LARGEST) -> Grid:
    """Place up to 47 cells in one row, and more cells in rows of 32, 64, ... (warps).

    height: height in pixels for all rows; cells become smaller to fit.
    """
    if count <= 47:
        return fit(count, 1, 1, count, width, height, largest)
    cols = 32
    while True:
        rows = -(-count // cols)
        side = min(width / cols, LARGEST, 22.0)
        if rows * side <= height or cols >= 4096:
            return fit(count, 1, rows, cols, width, height, min(largest, 22.0))
        cols *= 2


def binned(values: np.ndarray, grid: Grid, pixels: int = 1000) -> np.ndarray:
    """Return the largest value in each pixel of an image, at most `pixels` per side.

    values: (count,), one for each element. Returns (rows, columns) over all planes.
    """
    down = -(-grid.planes // grid.line)
    room = np.zeros(grid.line * down * grid.rows * grid.cols)
    room[: len(values)] = values
    image = room.reshape(down, grid.line, grid.rows, grid.cols)
    image = image.transpose(0, 2, 1, 3).reshape(down * grid.rows, -1)
    for axis in (0, 1):
        step = -(-image.shape[axis] // pixels)
        if step > 1:
            starts = np.arange(0, image.shape[axis], step)
            image = np.maximum.reduceat(image, starts, axis=axis)
    return image


def picture(strength: np.ndarray, colour: str, grid: Grid) -> str:
    """Return an <image> with pixels of this colour and the opacities in `strength`.

    strength: (rows, columns), from 0 (empty) to 1.
    """
    png = base64.b64encode(_write_png(strength, colour)).decode()
    return (
        f'<image x="{num(grid.left)}" y="{num(grid.top)}" width="{num(grid.width)}" '
        f'height="{num(grid.height)}" preserveAspectRatio="none" '
        f'style="image-rendering:pixelated" href="data:image/png;base64,{png}"/>'
    )


def _write_png(strength: np.ndarray, colour: str) -> bytes:
    """Return an 8-bit RGBA image as in the PNG specification (ISO/IEC 15948)."""
    rows, cols = strength.shape
    pixels = np.empty((rows, cols, 4), np.uint8)
    pixels[..., :3] = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    pixels[..., 3] = np.rint(255 * np.clip(strength, 0, 1))
    # Each line begins with its filter byte, 0.
    lines = np.zeros((rows, 1 + 4 * cols), np.uint8)
    lines[:, 1:] = pixels.reshape(rows, -1)
    header = struct.pack(">IIBBBBB", cols, rows, 8, 6, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 6))]
    out = b"\x89PNG\r\n\x1a\n"
    for kind, data in [*parts, (b"IEND", b"")]:
        out += struct.pack(">I", len(data)) + kind + data
        out += struct.pack(">I", zlib.crc32(kind + data))
    return out
