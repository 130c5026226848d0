"""Show pictures in a lesson: texts side by side, figures, arrays, and images.

beside() compares two texts, such as a Python body and its CUDA C, line by line:

    beside(source("lib/weft/pykernel/bodies.py", "relu"),
           source("kernels/relu.cu", "relu_naive"), "Python", "CUDA C")

figure() and cells() draw arrays with their values; show_images() shows images:

    with figure(9, 3) as ax:
        cells(ax, [[1, 2], [3, 4]], 0, 1, "x", "2 x 2", {(0, 1): READ})
"""

from __future__ import annotations

import contextlib
import dataclasses
import html
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch, Rectangle
from numpy.typing import ArrayLike

from ..base.style import (
    FAINT,
    INK,
    READ,
    THREAD,
    describe_figure,
    fade_colour,
    outlined,
    pale_patch,
    style,
    write_svg,
)
from .pictures.svg import make_bundle

Pair = tuple[str | None, str | None]

# Words that are ignored when two texts are compared: one language always uses them.
_COMMON = {"const", "size_t", "float", "int", "static", "for", "if", "cuda", "in"}
# Comments in Python, and docstrings.
_PYTHON = re.compile(r'#[^\n]*|""".*?(?:"""|$)', re.S)
_C = re.compile(r"//[^\n]*|/\*.*?(?:\*/|$)", re.S)
_MARKS = ("#", "//", "/*", '"""')  # the start of a comment
_CORNERS = "round,pad=0,rounding_size=0.1"
_CELL = "text-align:left;vertical-align:top;padding:0 1em 0 0;border:0"


def beside(left: str, right: str, *titles: str) -> Beside:
    """Show two texts with corresponding parts at the same height.

    Each statement and each comment stays whole, even if it has several lines. A longest
    common subsequence matches them, as in diff, weighted by the share of common words
    (Needleman and Wunsch, J. Mol. Biol. 48(3), 1970).
    """
    a, b = list(_split_statements(left)), list(_split_statements(right))
    score = [[0.0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a) - 1, -1, -1):
        for j in range(len(b) - 1, -1, -1):
            both = score[i + 1][j + 1] + _measure_likeness(a[i], b[j])
            score[i][j] = max(both, score[i + 1][j], score[i][j + 1])
    pairs: list[Pair] = []
    i = j = 0
    while i < len(a) and j < len(b):
        if score[i][j] == score[i + 1][j]:
            pairs.append((a[i], None))
            i += 1
        elif score[i][j] == score[i][j + 1]:
            pairs.append((None, b[j]))
            j += 1
        else:
            pairs.append((a[i], b[j]))
            i, j = i + 1, j + 1
    pairs += [(line, None) for line in a[i:]] + [(None, line) for line in b[j:]]
    return Beside(_close_gaps(pairs), titles or ("", ""))


class Beside:
    """The result of beside(): a table in a notebook, columns of text elsewhere.

    pairs: matching statements of both texts, with None for a missing counterpart.
    """

    def __init__(self, pairs: list[Pair], titles: tuple[str, ...]) -> None:
        self.pairs, self.titles = pairs, titles

    def __repr__(self) -> str:
        rows: list[Pair] = [self.titles]  # type: ignore[list-item]
        for pair in self.pairs:
            rows += zip_longest(*[(side or "").split("\n") for side in pair])
        width = max(len(left or "") for left, _ in rows)
        lines = [f"{left or '':<{width}}  | {right or ''}" for left, right in rows]
        return "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        titles = map(html.escape, self.titles)
        head = "".join(f'<th style="{_CELL}">{title}</th>' for title in titles)
        texts = ["\n".join(side or "" for side in sides) for sides in zip(*self.pairs)]
        kinds = [_compile_comments(text) for text in texts]
        cells = (map(_render_cell, pair, kinds) for pair in self.pairs)
        rows = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
        return (
            '<div style="overflow-x:auto">'
            '<table class="weft-beside" style="border-collapse:collapse">'
            f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        )


def _compile_comments(text: str) -> re.Pattern[str]:
    """Return the pattern of comments in the language of this text, Python or C."""
    return _PYTHON if re.search(r"^\s*(def|class) \w+.*:$", text, re.M) else _C


def _split_statements(text: str) -> Iterator[str]:
    """Split the text into whole statements and whole comments."""
    piece: list[str] = []
    for line in text.rstrip().splitlines():
        piece.append(line)
        code = _compile_comments(text).sub(_blank_comment, "\n".join(piece))
        opened = sum(map(code.count, "([")) - sum(map(code.count, ")]"))
        if opened <= 0 and not re.search(r"[*+\-=?&|,\0]\s*$", code):
            yield "\n".join(piece)
            piece = []
    if piece:
        yield "\n".join(piece)


def _blank_comment(comment: re.Match[str]) -> str:
    """Return the replacement of a comment: "", or NUL if the comment is unfinished."""
    text = comment[0]
    closed = len(text) > 5 and text.endswith(('"""', "*/"))
    return "" if closed or text.startswith(("#", "//")) else "\0"


def _measure_likeness(left: str, right: str) -> float:
    """Return the share of common words in two pieces, 0 to 1; halve it for comments."""
    if not left.strip() and not right.strip():
        return 0.1  # two empty lines match, but weakly
    remarks = [piece.lstrip().startswith(_MARKS) for piece in (left, right)]
    if remarks[0] != remarks[1]:
        return 0.0
    words = [set(re.findall(r"\w+", piece)) - _COMMON for piece in (left, right)]
    both = words[0] & words[1]
    share = 2 * len(both) / (len(words[0]) + len(words[1])) if both else 0.0
    # Matching code counts more than matching comments.
    return share / 2 if remarks[0] else share


def _close_gaps(pairs: list[Pair]) -> list[Pair]:
    """Pair adjacent pieces without a counterpart, so that they share a row."""
    found: list[Pair] = []
    waiting: tuple[list[str], list[str]] = ([], [])
    for left, right in [*pairs, ("", "")]:
        if left is None or right is None:
            waiting[left is None].append(left if right is None else right or "")
            continue
        found += zip_longest(*waiting)
        waiting = [], []
        found.append((left, right))
    return found[:-1]


def _render_cell(text: str | None, comments: re.Pattern[str]) -> str:
    """Render a cell; comments are fainter than code."""
    marked = comments.sub(lambda found: f"\0{found[0]}\1", text or " ")
    shown = html.escape(marked).replace("\0", f'<span style="opacity:{FAINT}">')
    shown = shown.replace("\1", "</span>") or "&nbsp;"
    return f'<td style="{_CELL};white-space:pre;font-family:monospace">{shown}</td>'


@contextlib.contextmanager
def figure(width: float, height: float, columns: int = 1, **options: Any) -> Iterator:
    """Yield a figure in the lab's style, then show it below the cell as SVG.

    width, height: its size in inches. A page is 9.5 inches (920 pixels) wide. Yields
    the axes, or an array of `columns` axes. options: other arguments of matplotlib's
    subplots().
    """
    with style():
        made = Figure(figsize=(width, height), layout="constrained")
        yield made.subplots(1, columns, **options)
    show_figure(made)


def show_figure(made: Figure) -> None:
    """Show a figure below the cell as SVG."""
    from IPython.display import display

    display(make_chart_bundle(made), raw=True)


def make_chart_bundle(made: Figure) -> dict[str, str]:
    """Return the output of a cell with this figure: HTML and text."""
    return make_bundle(write_svg(made), describe_figure(made))


def sheet(ax: Axes, columns: float, rows: float, left: float = -0.1) -> None:
    """Prepare `ax` for columns x rows cells, row 0 on top, without ticks."""
    ax.set(xlim=(left, columns), ylim=(rows, 0), aspect="equal")
    ax.set_axis_off()


def cells(
    ax: Axes,
    values: Sequence[Sequence[Any]],
    left: float,
    top: float,
    name: str = "",
    note: str = "",
    colours: Mapping[tuple[int, int], str] | None = None,
) -> None:
    """Draw a 2D array as squares that begin at (left, top), under its name and note.

    values: the contents of the squares ("" for none). colours: the colours of touched
    squares, by (row, column); the others stay grey.
    """
    ax.text(left, top - 0.75, name, family="monospace", weight="bold", size=11)
    ax.text(left, top - 0.2, note, size=8.5)
    for row, line in enumerate(values):
        for col, value in enumerate(line):
            colour = (colours or {}).get((row, col))
            _draw_cell(ax, left + col, top + row, str(value), colour)


def frame(ax: Axes, left: float, top: float, columns: int, rows: int) -> None:
    """Draw a frame around columns x rows squares."""
    look = {"fill": False, "lw": 2, "color": INK}
    ax.add_patch(Rectangle((left, top), columns, rows, **look))


def _draw_cell(ax: Axes, x: float, y: float, text: str, colour: str | None) -> None:
    look = {"ec": INK, "fc": "none", "lw": 0.7, "alpha": 0.7}
    if colour:
        look = {"ec": colour, "fc": fade_colour(colour), "lw": 1.4}
    # add_patch() would update the limits, which do not change here.
    ax.add_artist(FancyBboxPatch((x + 0.1, y + 0.1), 0.8, 0.8, _CORNERS, **look))
    inside = {"ha": "center", "va": "center", "in_layout": False}
    ax.text(x + 0.5, y + 0.52, text, size=8.5, **inside)


def thread(
    ax: Axes, x: float, y: float, number: Any = "", runs: bool = True, colour=THREAD
) -> None:
    """Draw a thread, a circle with its number, in the square at (x, y).

    runs: whether it is active; an idle thread is pale.
    """
    look = outlined(colour) if runs else pale_patch()
    ax.add_patch(Circle((x + 0.5, y + 0.5), 0.4, **look))
    ax.text(x + 0.5, y + 0.52, str(number), size=8.5, ha="center", va="center")


def memory(listing: str) -> None:
    """Draw variables at their addresses, with arrows from pointers to their targets.

    listing: a program's output, with a line for each variable: name, address, size in
    bytes, value. A value that is an address (0x...) becomes an arrow. Variables at
    distant addresses get separate rows, in the order of the listing.
    """
    rows = _group_neighbours([_Variable.read(line) for line in listing.splitlines()])
    columns = max((row[-1].end - row[0].address) / 4 for row in rows)
    with figure(0.5 * (columns + 4.2), 1.4 * len(rows)) as ax:
        sheet(ax, columns + 0.2, 2.8 * len(rows), -4)
        targets = {v.target for row in rows for v in row}
        for number, row in enumerate(rows):
            _draw_row(ax, row, 2.8 * number + 0.6, targets)
        _draw_arrows(ax, rows)


@dataclasses.dataclass(frozen=True)
class _Variable:
    name: str
    address: int
    size: int
    value: str

    @staticmethod
    def read(line: str) -> _Variable:
        name, address, size, value = line.split()
        return _Variable(name, int(address, 16), int(size), value)

    @property
    def target(self) -> int | None:
        return int(self.value, 16) if self.value.startswith("0x") else None

    @property
    def end(self) -> int:
        return self.address + self.size


def _group_neighbours(variables: list[_Variable]) -> list[list[_Variable]]:
    """Group variables that are within 32 bytes of each other into rows."""
    rows: list[list[_Variable]] = []
    for variable in sorted(variables, key=lambda v: v.address):
        if not rows or variable.address - rows[-1][-1].address > 32:
            rows.append([])
        rows[-1].append(variable)
    return sorted(rows, key=lambda row: min(map(variables.index, row)))


def _draw_row(
    ax: Axes, row: list[_Variable], top: float, targets: set[int | None]
) -> None:
    ax.text(-0.3, top + 0.52, f"{row[0].address:#x}", size=8.5, ha="right", va="center")
    for v in row:
        left, width = (v.address - row[0].address) / 4, v.size / 4
        reached = v.address in targets and v.target is None
        look = {"ec": INK, "fc": fade_colour(INK) if v.target else "none", "lw": 1}
        look |= {"ec": READ, "fc": fade_colour(READ), "lw": 1.4} if reached else {}
        ax.add_patch(
            FancyBboxPatch((left + 0.06, top), width - 0.12, 1, _CORNERS, **look)
        )
        middle = left + width / 2
        value = f"...{v.value[-3:]}" if v.target else v.value
        centred = {"ha": "center", "va": "center"}
        ax.text(middle, top + 0.52, value.replace("(nil)", "NULL"), size=8.5, **centred)
        ax.text(middle, top - 0.28, v.name, family="monospace", size=9, **centred)
        ax.text(middle, top + 1.28, f"{v.address & 0xFFF:03x}", size=8, **centred)


def _draw_arrows(ax: Axes, rows: list[list[_Variable]]) -> None:
    places = {
        v.address: ((v.address - row[0].address + v.size / 2) / 4, 2.8 * number + 0.6)
        for number, row in enumerate(rows)
        for v in row
    }
    for v in (v for row in rows for v in row):
        if v.target in places:
            (x0, y0), (x1, y1) = places[v.address], places[v.target]
            start = y0 - 0.55 if y1 < y0 else y0 + 1.5
            ends = ((x1, y1 - 0.55 if y1 > y0 else y1 + 1.5), (x0, start))
            bend = "arc3,rad=0.35" if y0 == y1 else "arc3,rad=0"
            look = {"arrowstyle": "->", "color": INK, "connectionstyle": bend}
            ax.annotate("", *ends, arrowprops=look | {"lw": 1.4})


WIDEST, WIDE = 2.9, 9.5  # largest width of one image, and of all together, in inches


def show_images(**images: ArrayLike) -> None:
    """Show images side by side below the cell, each under its name.

    images: (height, width) grey values, 0 black and the largest white, or
    (3, height, width) planes of red, green and blue from 0 to 1.
    """
    arrays = {name: np.asarray(image) for name, image in images.items()}
    rows, columns = next(iter(arrays.values())).shape[-2:]
    side = min(WIDEST, WIDE / len(arrays))
    high = side * rows / columns + 0.3  # the height includes room for the names
    with figure(side * len(arrays), high, columns=len(arrays), squeeze=False) as axes:
        for ax, (name, image) in zip(axes[0], arrays.items()):
            planes = image.transpose(1, 2, 0) if image.ndim == 3 else image
            ax.imshow(planes, cmap="gray", vmin=0)
            ax.set_title(name)
            # A frame marks the edge of a white image on a white page.
            ax.set(xticks=[], yticks=[])
            ax.spines[:].set(visible=True, color=INK, linewidth=0.8)


def mosaic(maps: np.ndarray, scaled: bool = True) -> np.ndarray:
    """Join maps (channels,h,w) side by side in one picture, with NaN in the gaps.

    scaled: whether each map's values are scaled to the range 0 to 1.
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
    """Draw shades (h,w) from 0 (white) to 1 (black), without ticks; NaNs stay empty."""
    ax.imshow(shades, cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set(visible=True, color=INK)
    ax.grid(visible=False)
    ax.set_title(title, size=11)


def choose_grid(channels: int) -> tuple[int, int]:
    columns = min(8, channels)
    return -(-channels // columns), columns
