"""Lay out the arrays and threads of the access picture, and draw its moving parts.

The sliders move filled cells, arrows and names.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ...base.style import SHARED, THREAD, WIDTH, WRITTEN
from . import svg
from .findings import outside
from .grid import Grid, binned, picture
from .panels import EDGE, LEFT, LINE, READABLE, Panel, Wish, beside, has_indices, stack
from .scene import Scene, place_block, place_threads
from .svg import label
from .touches import Touches, axis_names, names_of, unique_rows

WORDS = 11.5  # font size of index expressions in pixels
ARROWS = 70  # if there are more arrows, only colours show the threads
FEW = 64  # Maximum number of cells of a large array that are marked one by one.
LABELS = 300  # maximum number of cells of an array that contain labels
NAMES = 6  # maximum number of lines of locals


@dataclass(frozen=True)
class Moment:
    """One position of the sliders.

    time: an interval; -1 for all intervals; -2, -3, ... for one access of a thread.
    who: a (block, thread), or None for all threads. of: the accesses of all threads at
    that time; mine: those of `who`.
    """

    scene: Scene
    time: int
    who: tuple[int, int] | None
    of: Touches
    mine: Touches
    lines: dict = field(default_factory=dict)  # the results of lines_of(), by array

    @property
    def interval(self) -> int:
        """The displayed interval; -1: all of them."""
        return int(self.mine.interval[0]) if self.time < -1 else self.time

    @property
    def few(self) -> bool:
        """Whether arrows for all threads and cells remain readable."""
        return len(self.order) <= ARROWS

    @functools.cached_property
    def order(self) -> np.ndarray:
        """The distinct (block, thread, array, is a write, element), one per arrow."""
        parts = []
        for write, mask in enumerate((self.mine.reads, self.mine.writes)):
            m = self.mine.where(mask)
            columns = m.block, m.thread, m.array, np.full(len(m), write), m.element
            parts.append(np.stack(columns, 1))
        return unique_rows(np.concatenate(parts))


def ground(moment: Moment, panel: Panel) -> str:
    """Draw all threads' accesses faintly, behind the accesses of one thread."""
    if panel.grid.is_large:
        return _draw_large(moment.of, panel, 0.3)
    out = []
    for elements, fill, _ in _list_kinds(moment.of, panel).values():
        path = panel.grid.squares(elements)
        if path:
            out.append(
                f'<path d="{path}" fill="{fill}" fill-opacity=".13" data-ground=""/>'
            )
    return "".join(out)


def fills(moment: Moment, panel: Panel) -> str:
    """Draw the touched cells in their colours."""
    grid, name = panel.grid, svg.escape(panel.array.name)
    out = []
    if grid.is_large:
        return _draw_large(moment.mine, panel, 0.8)
    for kind, (elements, fill, edge) in _list_kinds(moment.mine, panel).items():
        path = grid.squares(elements)
        if not path:
            continue
        wide = "1.4" if grid.gap or moment.who else ".5"
        strong = ".28" if grid.gap or moment.who is None else ".5"
        out.append(
            f'<path d="{path}" fill="{fill}" fill-opacity="{strong}" stroke="{edge}" '
            f'stroke-width="{wide}" stroke-linejoin="round" data-array="{name}" '
            f'data-kind="{kind}" data-cells="{_list_ranges(elements)}"/>'
        )
        if kind != "read" and grid.side >= 9 and len(elements) <= 2000:
            places = zip(*grid.corners(elements))
            marks = "".join(svg.corner(x, y, grid.cell) for x, y in places)
            out.append(f'<path d="{marks}" fill="{WRITTEN}"/>')
    return "".join(out) + _draw_labels(moment, panel)


def _list_kinds(found: Touches, panel: Panel) -> dict[str, tuple[np.ndarray, str, str]]:
    """Return (elements, fill colour, outline colour) for each kind of access."""
    accesses = found.of(array=panel.number)
    read, written = accesses.element[accesses.reads], accesses.element[accesses.writes]
    base = panel.colour
    fill = base if base == SHARED else WRITTEN
    return {
        "read": (np.setdiff1d(read, written), base, base),
        "written": (np.setdiff1d(written, read), fill, WRITTEN),
        "both": (np.intersect1d(read, written), base, WRITTEN),
    }


def _draw_large(found: Touches, panel: Panel, strength: float) -> str:
    """Draw an array whose cells are smaller than a pixel, as an image for each colour.

    If only a few cells are touched, draw visible marks instead.
    """
    out = []
    accesses = found.of(array=panel.number)
    kinds = {"read": (accesses.reads, panel.colour)}
    kinds["written"] = accesses.writes, WRITTEN
    for kind, (mask, colour) in kinds.items():
        elements = np.unique(accesses.element[mask])
        if 0 < len(elements) <= FEW:
            said = f'data-array="{svg.escape(panel.array.name)}" data-kind="{kind}"'
            for element in elements:
                x, y = panel.grid.middle(int(element))
                mark = svg.box(x - 3, y - 3, 6, 6, colour=colour, fill=0.6, radius=1)
                out.append(mark.replace("<rect ", f"<rect {said} ", 1))
        elif len(elements):
            share = np.zeros(panel.grid.count)
            share[elements] = strength
            out.append(picture(binned(share, panel.grid), colour, panel.grid))
    return "".join(out)


def _list_ranges(elements: np.ndarray) -> str:
    """Write elements as ranges, such as "0-3,7", for readers of the SVG."""
    if not len(elements):
        return ""
    starts = np.flatnonzero(np.diff(elements, prepend=elements[0] - 2) != 1)
    ends = np.append(starts[1:], len(elements)) - 1
    pairs = zip(elements[starts].tolist(), elements[ends].tolist())
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in pairs)


def _draw_labels(moment: Moment, panel: Panel) -> str:
    """Label each touched cell with its index or, in two dimensions, its thread."""
    grid, scene = panel.grid, moment.scene
    accesses = moment.mine.of(array=panel.number)
    elements = np.unique(accesses.element)
    if not len(elements) or len(elements) > LABELS or grid.side < READABLE:
        return ""
    out = []
    if panel.flat:
        for element in elements if has_indices(grid) else ():
            x, y = grid.middle(int(element))
            out.append(label(x, y + 4, str(element), 11, anchor="middle"))
        return "".join(out)
    if moment.who is not None:
        return ""
    threads = accesses.block * scene.threads + accesses.thread
    pairs = unique_rows(np.stack([accesses.element, threads], 1))
    for element in elements:
        threads = pairs[pairs[:, 0] == element, 1]
        name = scene.thread_name(int(threads[0] % scene.threads))
        text = name if len(threads) == 1 else f"{len(threads)}×"
        if svg.width_of(text, 11) <= grid.cell:
            x, y = grid.middle(int(element))
            out.append(label(x, y + 4, text, 11, anchor="middle"))
    return "".join(out)


def words(moment: Moment, panel: Panel) -> str:
    """Write the current index expressions of an array, and the labels of its axes."""
    out = []
    for x, y, text, colour in lines_of(moment, panel):
        # A box before the text shows the colour, since blue text is too dark on black.
        out.append(svg.box(x, y - 8, 8, 8, colour=colour, fill=0.8, radius=1))
        out.append(label(x + 13, y, text, WORDS, mono=True))
    for x, y, text, anchor in axis_labels(moment, panel):
        out.append(label(x, y, text, 11, anchor=anchor, mono=True, bold=True))
    return "".join(out)


def lines_of(moment: Moment, panel: Panel) -> list[tuple[float, float, str, str]]:
    """Return the current index expressions as (x, y, text, colour of the box)."""
    if panel.number in moment.lines:
        return moment.lines[panel.number]
    out, (x, y) = [], panel.words_at
    room = max(panel.grid.width + 40, 190) if panel.flat else panel.room
    if panel.flat and (panel.grid.left <= LEFT or panel.beside):
        room = WIDTH  # such an array is the first in its line, usually the only one
    room = min(room, WIDTH - EDGE - x)
    for word, line in list_expressions(moment.scene, moment.mine, panel.number):
        text = svg.clipped(line, room - 14, WORDS, mono=True)
        out.append((x, y, text, panel.colour if word == "reads" else WRITTEN))
        y += LINE
    moment.lines[panel.number] = out
    return out


def list_expressions(
    scene: Scene, found: Touches, number: int
) -> list[tuple[str, str]]:
    """Return ("reads" or "writes", line of index expressions) for one array."""
    accesses, sites, out = found.of(array=number), scene.trace.sites, []
    for word, mask in (("reads", accesses.reads), ("writes", accesses.writes)):
        texts = dict.fromkeys(sites[s].text for s in np.unique(accesses.site[mask]))
        out += [(word, f"{word} {', '.join(texts)}")] * bool(texts)
    return out


def axis_labels(moment: Moment, panel: Panel) -> list[tuple[float, float, str, str]]:
    """Label the touched rows and columns with their index expressions.

    Returns (x, y, text, anchor) for each label.
    """
    grid, accesses = panel.grid, moment.mine.of(array=panel.number)
    if panel.flat or not len(accesses) or grid.is_large:
        return []
    texts = [moment.scene.trace.sites[s].text for s in np.unique(accesses.site)]
    named = [axis_names(text, len(panel.array.shape)) for text in texts]
    if not all(named):
        return []
    plane, row, col = grid.places(np.unique(accesses.element))
    first = plane == plane.min()
    rows = ", ".join(dict.fromkeys(n[-2] for n in named))
    cols = ", ".join(dict.fromkeys(n[-1] for n in named))
    digits = 7.0 * len(str(grid.rows - 1)) + 10 if panel.numbered else 6
    out = []
    x0, y0 = grid.origin(int(plane.min()))
    y = y0 + (row[first].min() + row[first].max() + 1) / 2 * grid.side + 4
    x = x0 + (col[first].min() + col[first].max() + 1) / 2 * grid.side
    if svg.width_of(rows, 11, mono=True) <= panel.gutter - digits + 5:
        out.append((grid.left - digits - 1, y, rows, "end"))
    if svg.width_of(cols, 11, mono=True) <= max(panel.room, 60):
        half = svg.width_of(cols, 11, mono=True) / 2
        x = min(max(x, panel.left + half), panel.left + max(panel.room - half, half))
        numbers = LINE - 1 if panel.numbered else 1
        bottom = grid.top + grid.height + numbers + 10
        at = grid.top - numbers - 4 if panel.above else bottom
        out.append((x, at, cols, "middle"))
    return out


def names(moment: Moment, at: tuple[float, float]) -> str:
    """Write the locals' values left of the threads, or below them at the edge."""
    scene, (x, y) = moment.scene, at
    blocks = [moment.who[0]] if moment.who else list(scene.blocks)
    threads = [moment.who[1]] if moment.who else range(scene.threads)
    out = []
    for line in name_lines(scene, blocks, threads, x == EDGE)[:NAMES]:
        # The line ends at x, right-aligned like the label of the threads.
        wide = svg.width_of("  ".join(f"{n} = {v}" for n, v in line), 12, mono=True)
        left = x if x == EDGE else max(EDGE - 12, x - wide)
        parts = [piece for n, v in line for piece in ((n, THREAD), (f" = {v}  ", ""))]
        parts[-1] = (parts[-1][0].rstrip(), "")
        out.append(svg.words(left, y, parts))
        y += LINE + 1
    return "".join(out)


def name_lines(
    scene: Scene, blocks: Sequence[int], threads: Sequence[int], wide: bool
) -> list[list[tuple[str, str]]]:
    """Return lines of (name, value) pairs that fit the available width."""
    room = WIDTH - 2 * EDGE if wide else LEFT - EDGE + 4
    lines: list[list[tuple[str, str]]] = []
    used = room
    for name, value in names_of(scene.trace, blocks, threads, skip=scene.parameters):
        size = svg.width_of(f"{name} = {value}  ", 12, mono=True)
        if not lines or used + size > room:
            lines.append([])
            used = 0.0
        lines[-1].append((name, value))
        used += size
    return lines


@dataclass
class AccessLayout:
    """The positions of all parts of the picture.

    grids: the threads of each block. block: the single block, if it has axes. names: x
    and y of the locals' values. strip: y of the timeline; 0 without a timeline. bottom:
    y of the findings, counts and legend.
    """

    panels: list[Panel]
    grids: dict[int, Grid]
    block: Panel | None
    names: tuple[float, float]
    strip: float
    bottom: float


def layout_of(scene: Scene) -> AccessLayout:
    """Place arrays above, below and to the right of the threads, as they fit."""
    trace = scene.trace
    inputs, outputs, shared = _group_arrays(scene)
    panels, y = stack(inputs, "above", 62.0)
    top = y + (30 if panels else 8)
    block = None
    if len(scene.blocks) == 1 and max(trace.block[1:]) > 1:
        block = place_block(trace, scene.blocks[0], top)
        grids = {scene.blocks[0]: block.grid}
        free = WIDTH - EDGE - block.left - block.width - 60
        wide = [wish for wish in shared if not wish.flat]
        if 0 < len(wide) <= 3 and free > 180 * len(wide):
            left = block.left + block.width + 60
            panels += beside(wide, "right", left, block.top, free, block.grid.side)
            shared = [wish for wish in shared if wish.flat]
    else:
        grids = place_threads(trace, scene.blocks, top)
    band = [*grids.values(), *(p.grid for p in panels if p.place == "right")]
    bottom = max(g.top + g.height for g in band) + 12
    if len(grids) > 1 and trace.block[1] > 1:
        bottom += 18  # room for the blocks' names
    first = next(iter(grids.values())).top
    names = (LEFT - 14, first + 34 + (14 if len(grids) == 1 else 0))
    if block:
        bottom = max(bottom, block.top + block.height)
        names = (EDGE, bottom + 18)
    every = range(scene.threads)
    lines = len(name_lines(scene, scene.blocks, every, block is not None)[:NAMES])
    if lines:
        bottom = max(bottom, names[1] + (lines - 1) * (LINE + 1) + 6)
    y = bottom
    for group in (shared, outputs):
        if group:
            row, y = stack(group, "below", y + 34)
            panels += row
    strip = y + 16 if len(scene.intervals) > 1 else 0.0
    return AccessLayout(panels, grids, block, names, strip, y + (52 if strip else 10))


def _group_arrays(scene: Scene) -> tuple[list[Wish], list[Wish], list[Wish]]:
    """Group the arrays: above the threads, below them, and in shared memory.

    Arrays that are written are below, unless some array has rows and columns.
    """
    found, above, below, shared = scene.found, [], [], []
    written = set(np.unique(found.array[found.writes]).tolist())
    arrays = scene.trace.arrays
    spaces = [arrays[n] for n in scene.arrays if arrays[n].space != "shared"]
    flat = all(len(array.shape) <= 1 for array in spaces)
    for number in scene.arrays:
        array = arrays[number]
        texts = [text for _, text in list_expressions(scene, found, number)]
        longest = max([*texts, "writes "], key=len)
        words = 14 + svg.width_of(longest, WORDS, mono=True)
        gutter, ghosts = _measure_gutter(scene, number), outside(scene, array)
        wish = Wish(number, array, max(1, len(texts)), gutter, "", *ghosts, words)
        if array.space == "shared":
            shared.append(wish)
        else:
            (below if flat and number in written else above).append(wish)
    return sorted(above, key=lambda wish: wish.number in written), below, shared


def _measure_gutter(scene: Scene, number: int) -> float:
    """Return the width in pixels of an array's row numbers and row labels."""
    shape = scene.trace.arrays[number].shape
    rows = shape[-2] if len(shape) > 1 else 1
    sites = [s for s in scene.trace.sites if s.array == number]
    named = [axis_names(s.text, len(shape)) for s in sites]
    longest = max((len(n[-2]) for n in named if len(n) > 1), default=0)
    return min(110.0, 7.0 * len(str(rows - 1)) + 10 + 6.8 * longest + 8 * bool(longest))
