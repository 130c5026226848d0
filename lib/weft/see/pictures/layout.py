"""Where the picture of who touches what has its arrays and its threads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...base.style import WIDTH
from . import svg, threads
from .foot import outside
from .grid import Grid
from .panels import EDGE, LEFT, LINE, Panel, Wish, beside, stack
from .scene import Scene
from .touched import NAMES, WORDS, name_lines
from .touches import axis_names


@dataclass
class Layout:
    """Where it all stands.

    grids: the threads of each block. block: the one block, if it has axes. names: x
    and y of the locals' values. strip: the top of the timeline; 0 without one. bottom:
    where findings, counts and legend begin.
    """

    panels: list[Panel]
    grids: dict[int, Grid]
    block: Panel | None
    names: tuple[float, float]
    strip: float
    bottom: float


def layout_of(scene: Scene) -> Layout:
    """Arrays above, below and beside the threads, as they fit."""
    trace = scene.trace
    inputs, outputs, shared = _group_arrays(scene)
    panels, y = stack(inputs, "above", 62.0)
    top = y + (30 if panels else 8)
    block = None
    if len(scene.blocks) == 1 and max(trace.block[1:]) > 1:
        block = threads.panel(trace, scene.blocks[0], top)
        grids = {scene.blocks[0]: block.grid}
        free = WIDTH - EDGE - block.left - block.width - 60
        wide = [wish for wish in shared if not wish.flat]
        if 0 < len(wide) <= 3 and free > 180 * len(wide):
            left = block.left + block.width + 60
            panels += beside(wide, "right", left, block.top, free, block.grid.side)
            shared = [wish for wish in shared if wish.flat]
    else:
        grids = threads.places(trace, scene.blocks, top)
    band = [*grids.values(), *(p.grid for p in panels if p.place == "right")]
    bottom = max(g.top + g.height for g in band) + 12
    if len(grids) > 1 and trace.block[1] > 1:
        bottom += 18  # the blocks' names
    first = next(iter(grids.values())).top
    names = (LEFT - 14, first + 34 + (14 if len(grids) == 1 else 0))
    if block:
        bottom = max(bottom, block.top + block.height)
        names = (EDGE, bottom + 18)
    every = list(range(scene.threads))
    lines = len(name_lines(scene, scene.blocks, every, block is not None)[:NAMES])
    if lines:
        bottom = max(bottom, names[1] + (lines - 1) * (LINE + 1) + 6)
    y = bottom
    for group in (shared, outputs):
        if group:
            made, y = stack(group, "below", y + 34)
            panels += made
    strip = y + 16 if len(scene.intervals) > 1 else 0.0
    return Layout(panels, grids, block, names, strip, y + (52 if strip else 10))


def _group_arrays(scene: Scene) -> tuple[list[Wish], list[Wish], list[Wish]]:
    """What stands above the threads, below, and in shared memory.

    Arrays that are written stand below, unless they have rows and columns.
    """
    found, above, below, shared = scene.found, [], [], []
    written = set(np.unique(found.array[found.writes]).tolist())
    arrays = scene.trace.arrays
    spaces = [arrays[n] for n in scene.arrays if arrays[n].space != "shared"]
    flat = all(len(a.shape) <= 1 for a in spaces)
    for number in sorted(scene.arrays, key=lambda n: n in written):
        array = arrays[number]
        lines = max(1, min(2, _count_lines(scene, number)))
        gutter, ghosts = _measure_gutter(scene, number), outside(scene, array)
        wish = Wish(number, array, lines, gutter, "", *ghosts, words(scene, number))
        if array.space == "shared":
            shared.append(wish)
        else:
            (below if flat and number in written else above).append(wish)
    order = {n: i for i, n in enumerate(scene.arrays)}
    return above, below, sorted(shared, key=lambda w: order[w.number])


def _count_lines(scene: Scene, number: int) -> int:
    """How many lines of index expressions an array needs: reads, and writes."""
    of = scene.found.of(array=number)
    return int(of.reads.any()) + int(of.writes.any())


def words(scene: Scene, number: int) -> float:
    """Pixels for the longest of these lines, with the mark before it."""
    of, sites = scene.found.of(array=number), scene.trace.sites
    texts = [
        f"{word} " + ", ".join({sites[s].text for s in np.unique(of.site[mask])})
        for word, mask in (("reads", of.reads), ("writes", of.writes))
    ]
    return 14 + max(svg.width_of(text, WORDS, mono=True) for text in texts)


def _measure_gutter(scene: Scene, number: int) -> float:
    """Room left of an array for the numbers and the names of its rows."""
    shape = scene.trace.arrays[number].shape
    rows = shape[-2] if len(shape) > 1 else 1
    sites = [s for s in scene.trace.sites if s.array == number]
    named = [axis_names(s.text, len(shape)) for s in sites]
    longest = max((len(n[-2]) for n in named if len(n) > 1), default=0)
    return min(110.0, 7.0 * len(str(rows - 1)) + 10 + 6.8 * longest + 8 * bool(longest))
