"""show(kernel)[grid, block](*args): a picture of which thread touches which cell.

    show(matmul, shapes={"c": ("m", "n")})[grid, block](c, a, b, m, n, k)
    show(matmul, thread=(2, 1))[grid, block](...)   one thread, access by access
    show(matmul, view="heat")[grid, block](...)     how often each cell is touched
    show(divergent, view="lanes")[grid, block](...) which lanes of a warp are active
    show(tiled, view="timeline")[grid, block](...)  the work between two barriers

The launch runs on the simulator and writes into the arrays, like any launch.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.errors import ArgumentError, KernelFault
from ...base.style import DIM, THREAD, WIDTH
from ...base.text import count_things
from ...pykernel.language import PythonKernel
from ...pykernel.sim import sim
from ...report.model import Report
from . import svg
from .access_layout import AccessLayout, Moment, fills, ground, layout_of, names, words
from .arrows import Hidden, arrows, taken
from .findings import findings_of, foot, marks
from .panels import EDGE, LEFT
from .scene import (
    MOMENTS,
    Scene,
    draw_thread,
    draw_thread_axes,
    draw_thread_frames,
    draw_threads,
    label_threads_and_warps,
    name_thread_axes,
    scene,
)
from .svg import Drawing, Slider, label, num
from .touches import Touches, block_name, ravel, sentence, write_place

if TYPE_CHECKING:
    from ...pykernel.sim.layout import Trace

VIEWS = {  # the module and the drawing function of each view
    "access": ("show", "draw_accesses"),
    "heat": ("heat", "draw"),
    "lanes": ("lanes", "draw_lanes"),
    "timeline": ("lanes", "draw_timeline"),
}


class Picture:
    """The result of show(): a notebook draws it, with sliders if scripts may run.

    report: the report of the launch, including its trace.
    """

    def __init__(self, drawing: Drawing, report: Report) -> None:
        self.drawing, self.report = drawing, report

    def svg(self, *at: int) -> str:
        """Draw one still as SVG text, in the colours of the page that contains it.

        at: a stop for each slider, counted from 0; if omitted, the initial stops.
        """
        if at and at not in self.drawing.frames:
            counts = [len(slider.stops) for slider in self.drawing.sliders]
            stops = " and ".join(f"0 to {n - 1}" for n in counts)
            raise ArgumentError(f"svg{at}: this picture's sliders go from {stops}")
        return self.drawing.svg(at or None)

    def save(self, path: str | Path) -> None:
        """Write a still (.svg), or the picture with its sliders (.html)."""
        path = Path(path)
        makers = {".svg": self.svg, ".html": self.drawing.html}
        if path.suffix not in makers:
            raise ArgumentError(
                f"save({path.name!r}): the name must end in .svg or .html"
            )
        path.write_text(makers[path.suffix](), encoding="utf-8")

    def __repr__(self) -> str:
        return self.drawing.account

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/html": self.drawing.html(), "text/plain": repr(self)}


class Shown:
    """A kernel to draw: [grid, block](*args) runs it and returns the Picture."""

    def __init__(self, kernel: Any, options: dict[str, Any]) -> None:
        self.kernel, self.options = kernel, options
        self.python = PythonKernel(kernel)

    def __getitem__(self, key: Any) -> Callable[..., Picture]:
        config = self.python.config(key)
        thread = _check_inside(self.options["thread"], config.block, "thread", "block")
        block = _check_inside(self.options["block"], config.grid, "block", "grid")

        def run(*args: Any) -> Picture:
            bound = self.python.bind(args)
            report = _run_launch(self.kernel, key, args, self.options["timeout"])
            trace = report.trace
            names = _check_known(self.options["arrays"], trace)
            shapes = _check_shapes(self.options["shapes"], trace, bound)
            wishes = dict(thread=thread, block=block, arrays=names, shapes=shapes)
            return draw(report, self.options["view"], parameters=list(bound), **wishes)

        return run

    def __repr__(self) -> str:
        return f"show({self.python.name})[grid, block](*args) draws a launch"


def show(
    kernel: Any,
    *,
    view: str = "access",
    thread: int | Sequence[int] | None = None,
    block: int | Sequence[int] | None = None,
    arrays: str | Sequence[str] | None = None,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    timeout: float = 3.0,
) -> Shown:
    """Draw the accesses of a Python kernel's launch: show(kernel)[grid, block](*args).

    view: "access" (the cells that each thread touches), "heat" (how often each cell is
    touched), "lanes" (the active lanes of a warp at each step), or "timeline" (the work
    between two barriers). thread, block: the index, (x, y, z) or shorter, of a thread
    or block to select. arrays: the names of the arrays to draw, including shared ones;
    None: all. shapes: flat arrays to draw with rows and columns, such as {"a": ("m",
    "k")}, in numbers or names of parameters. timeout: time limit in seconds for one
    block; a block that hangs is drawn up to that point. Raises ArgumentError for
    invalid arguments, and the launch's own exceptions. A KernelFault that can be drawn
    appears in the picture, in vermilion.
    """
    if view not in VIEWS:
        raise ArgumentError(f"view={view!r}: there are {', '.join(VIEWS)}")
    if shapes is not None and not isinstance(shapes, Mapping):
        raise ArgumentError(f'shapes={shapes!r}: expected {{"a": (rows, columns)}}')
    options = dict(view=view, shapes=dict(shapes or {}), timeout=timeout)
    options["thread"] = _check_index("thread", thread)
    options["block"] = _check_index("block", block)
    return Shown(kernel, options | {"arrays": _check_names(arrays)})


def draw(report: Report, view: str = "access", **wishes: Any) -> Picture:
    """Draw a finished launch, whose report must contain a trace.

    wishes: arguments of pictures.scene.scene(), such as those of show().
    """
    # The heat map covers the whole launch, unless one block is requested.
    selection = scene(report.trace, report, all_blocks=view == "heat", **wishes)
    module, function = VIEWS[view]
    # Imported lazily to keep `import weft` fast.
    view_module = importlib.import_module(f".{module}", __package__)
    drawing = getattr(view_module, function)(selection)
    drawing.account = drawing.account or account(selection)
    return Picture(drawing, report)


def _run_launch(kernel: Any, key: Any, args: Sequence[Any], timeout: float) -> Report:
    try:
        return sim(kernel, trace=True, quiet=True, timeout=timeout)[key](*args)
    except KernelFault as fault:
        report = getattr(fault, "report", None)
        if report and report.trace:
            return report
        raise


def _check_index(name: str, value: Any) -> tuple[int, ...] | None:
    if value is None:
        return None
    sides = (value,) if hasattr(value, "__index__") else value
    valid = isinstance(sides, Sequence) and all(hasattr(i, "__index__") for i in sides)
    if not valid or isinstance(sides, str) or not 1 <= len(sides) <= 3:
        raise ArgumentError(f"{name}={value!r}: expected an index (x, y, z) or shorter")
    return tuple(int(i) for i in sides)


def _check_inside(
    index: tuple[int, ...] | None, sides: Sequence[int], name: str, container: str
) -> tuple[int, ...] | None:
    """Return the index; raise ArgumentError if no thread or block has it."""
    if index is None:
        return None
    if any(not 0 <= i < n for i, n in zip(index, sides)):
        number = index[0] if len(index) == 1 else index
        raise ArgumentError(f"{name}={number}: the {container} is {tuple(sides)}")
    return index


def _check_names(arrays: Any) -> tuple[str, ...] | None:
    if arrays is None:
        return None
    names = (arrays,) if isinstance(arrays, str) else tuple(arrays)
    if not names or not all(isinstance(name, str) for name in names):
        raise ArgumentError(f"arrays={arrays!r}: expected the names of arrays")
    return names


def _check_known(names: Sequence[str] | None, trace: Trace) -> Sequence[str] | None:
    available = [array.name for array in trace.arrays]
    for name in names or ():
        if name not in available:
            known = ", ".join(available)
            raise ArgumentError(f"arrays: no array {name!r}, only {known}")
    return names


def _check_shapes(
    requested: Mapping[str, Any], trace: Trace, bound: Mapping[str, Any]
) -> dict[str, tuple[int, ...]]:
    """Return shapes in numbers; raise ArgumentError if a size does not match."""
    sizes = {array.name: array.size for array in trace.arrays}
    out = {}
    for name, shape in requested.items():
        if name not in sizes:
            raise ArgumentError(f"shapes: no array {name!r}, only {', '.join(sizes)}")
        sides = (shape,) if isinstance(shape, (str, int)) else tuple(shape)
        numbers = tuple(_evaluate_side(name, side, bound) for side in sides)
        count = math.prod(numbers)
        if count != sizes[name] or min(numbers, default=0) < 1:
            raise ArgumentError(
                f"shapes: {name} has {sizes[name]} elements, but {numbers} has {count}"
            )
        out[name] = numbers
    return out


def _evaluate_side(name: str, side: Any, bound: Mapping[str, Any]) -> int:
    value = bound.get(side) if isinstance(side, str) else side
    if not hasattr(value, "__index__"):
        raise ArgumentError(
            f"shapes: {side!r} of {name} is neither a number nor a parameter with one"
        )
    return int(value)


# ---- arrays around the threads that read and write them ------------------------------

ALL = -1  # means all intervals; -2, -3, ...: the first, second, ... access
TANGLE = 12  # if one thread has more accesses than this, its arrows tangle
REPEATED = 20_000  # an endless loop usually has more accesses than this
# Maximum number of a thread's accesses that become stops of the slider.
ACCESSES = 160


def draw_accesses(scene: Scene) -> Drawing:
    """Draw a scene, with sliders for the interval and the thread."""
    if scene.thread is None and len(scene.found) > REPEATED:
        scene = replace(scene, found=scene.found.distinct(), _kept={})
    layout = layout_of(scene)
    times, selections = _list_stops(scene)
    cache: dict = {}  # the parts that many positions share
    frames = {
        (i, j): _draw_frame(scene, layout, time, who, cache)
        for i, time in enumerate(times)
        for j, who in enumerate(selections)
    }
    start = _choose_start(scene, times, selections)
    total = int(np.prod(scene.trace.grid))
    block = f", one block of {total}" * (len(scene.blocks) == 1 and total > 1)
    heading = f"{scene.trace.kernel}{block}: which thread touches which cell"
    notes, height = foot(scene, layout.bottom)
    base = label(EDGE, 28, heading, 17, bold=True) + _draw_base(scene, layout) + notes
    axis = "interval" if scene.thread is None else "access"
    sliders = [
        Slider(axis, tuple(_name_time(scene, t) for t in times)),
        Slider("thread", tuple(_name_who(scene, w) for w in selections)),
    ]
    title = f"{heading}. {_describe(scene, _build_moment(scene, ALL, None))}"
    occupied = taken(layout, scene, height)
    return Drawing(title, WIDTH, height, base, sliders, frames, start, taken=occupied)


def _list_stops(scene: Scene) -> tuple[list[int], list[tuple[int, int] | None]]:
    chosen = scene.chosen()
    if scene.thread is not None:
        count = min(ACCESSES, len(_select_touches(scene, chosen[0])))
        return [ALL, *(ALL - 1 - i for i in range(count))], [*chosen]
    intervals = scene.intervals[:MOMENTS] if len(scene.intervals) > 1 else []
    return [ALL, *intervals], [None, *chosen]


def _choose_start(
    scene: Scene, times: Sequence[int], selections: Sequence
) -> tuple[int, int]:
    """Choose the stop that shows the most accesses without tangled arrows."""
    arrays = [scene.trace.arrays[n] for n in scene.arrays]
    if selections[0] is None and all(len(a.shape) <= 1 for a in arrays):
        for i, time in enumerate(times):
            moment = _build_moment(scene, time, selections[0])
            if len(moment.order) and moment.few:
                return (i, 0)
    if not len(scene.drawn):
        return (0, 0)
    for one in _list_faulty(scene):
        if one in selections:
            return (0, list(selections).index(one))
    per = [len(_build_moment(scene, ALL, who).mine) if who else 0 for who in selections]
    busy = [j for j, count in enumerate(per) if count == max(per)]
    middle = min(busy, key=lambda j: _measure_distance(scene, selections[j]))
    # If all of the thread's arrows would tangle, show those before the first barrier.
    if max(per) > TANGLE and len(times) > 1 and scene.thread is None:
        first = _build_moment(scene, times[1], selections[middle]).mine
        return (int(len(first) > 0), middle)
    return (0, middle)


def _list_faulty(scene: Scene) -> list[tuple[int, int]]:
    """Return the (block, thread) of each finding, both as linear indices."""
    found, trace = [f for f in scene.findings if f.block and f.thread], scene.trace
    return [(ravel(f.block, trace.grid), ravel(f.thread, trace.block)) for f in found]


def _measure_distance(scene: Scene, who: tuple[int, int] | None) -> int:
    """Return a thread's distance from the most instructive place in its block.

    That place is off the edges, where an index is 0, and off the diagonal, where two
    indices are equal.
    """
    x, y, _ = scene.trace.block
    thread = who[1] if who else 0
    col, row = thread % x, thread // x % y
    return abs(col - min(2, x - 1)) + 2 * abs(row - min(1, y - 1)) + 3 * (col == row)


def _build_moment(scene: Scene, time: int, who: tuple[int, int] | None) -> Moment:
    if time < ALL:  # `time` selects one access
        mine = _select_touches(scene, who).where([ALL - 1 - time])
        return Moment(scene, time, who, scene.at(int(mine.interval[0])), mine)
    accesses = scene.at(time)
    mine = accesses if who is None else accesses.of(block=who[0], thread=who[1])
    return Moment(scene, time, who, accesses, mine)


def _select_touches(scene: Scene, who: tuple[int, int] | None) -> Touches:
    """Return all accesses of one thread, in the order in which it makes them."""
    block, thread = who or (0, 0)
    return scene.drawn.of(block=block, thread=thread)


def _draw_frame(
    scene: Scene,
    layout: AccessLayout,
    time: int,
    who: tuple[int, int] | None,
    cache: dict,
) -> list[str]:
    """Return the parts for one position of the sliders; reuse those in `cache`."""
    moment = _build_moment(scene, time, who)
    text = svg.clipped(_describe(scene, moment), WIDTH - 2 * EDGE, 13)
    out = [label(EDGE, 48, text, 13, faint=True)]
    if who is not None:
        if moment.interval not in cache:
            cache[moment.interval] = [ground(moment, panel) for panel in layout.panels]
        out += cache[moment.interval]
    out += _draw_threads(moment, layout, cache)
    for panel in layout.panels:
        out += [fills(moment, panel), words(moment, panel)]
    out.append(arrows(moment, layout.panels, layout.grids, layout.block))
    out.append(names(moment, layout.names))
    behind = functools.partial(Hidden, [], layout.grids)
    out.append(marks(scene, layout.panels, layout.grids, moment, behind))
    if layout.strip:
        out.append(_draw_timeline(scene, layout, moment.interval))
    return [part for part in out if part]


def _describe(scene: Scene, moment: Moment) -> str:
    """Describe the selected thread's accesses, or all accesses, in one sentence."""
    time, who = moment.time, moment.who
    if time < ALL:
        site = scene.trace.sites[int(moment.mine.site[0])]
        array = scene.trace.arrays[site.array]
        index = np.unravel_index(int(moment.mine.element[0]), array.shape)
        at = ", ".join(str(int(i)) for i in index)
        verb = {"read": "reads", "write": "writes"}.get(site.kind, "updates")
        when = f"{_name_time(scene, time)}, line {site.line}".capitalize()
        text = f"{verb} {site.text}, which is {array.name}[{at}]"
        return f"{when}: {_name_who(scene, who)} {text}."
    when = "" if time == ALL else f"{_name_time(scene, time)}: ".capitalize()
    actions = sentence(moment.mine, scene.trace, scene.arrays)
    if who is not None:
        text = actions.replace("read ", "reads ", 1).replace("write ", "writes ", 1)
        if not len(moment.mine):
            wrong = who in _list_faulty(scene)
            text = "has a fault: see below" if wrong else "touches nothing here"
        name = _name_who(scene, who)
        return f"{when}{name if when else name.capitalize()} {text}."
    active = len(np.unique(moment.mine.block * scene.threads + moment.mine.thread))
    total = scene.threads * len(scene.blocks)
    count = f"all {total}" if active == total else f"{active} of {total}"
    if not active:
        return f"{when}No thread touches an array."
    if total == 1:
        return f"{when}the thread: {actions}."
    return f"{when}{count} threads {actions}."


def _name_time(scene: Scene, time: int) -> str:
    if time == ALL:
        return "all accesses" if scene.thread is not None else "all intervals"
    if time < ALL:
        count = len(_select_touches(scene, scene.chosen()[0]))
        return f"access {ALL - time} of {count}"
    numbers = scene.intervals
    return f"interval {numbers.index(time) + 1} of {len(numbers)}"


def _name_who(scene: Scene, who: tuple[int, int] | None) -> str:
    if who is None:
        return "all threads"
    name = write_place("thread", who[1], scene.trace.block)
    several = len(scene.blocks) > 1
    return name + f" of {block_name(who[0], scene.trace)}" * several


def _draw_threads(moment: Moment, layout: AccessLayout, cache: dict) -> list[str]:
    """Draw the threads, emphasising the selected one."""
    out = []
    block_of = moment.scene.trace.block
    filled = moment.who is None
    for block, grid in layout.grids.items():
        key = (moment.interval, block, filled)
        if key not in cache:  # all selected threads share this part
            active = np.unique(moment.of.of(block=block).thread)
            cache[key] = draw_threads(grid, active, block_of, block, filled)
        out.append(cache[key])
    if moment.who is not None:
        block, thread = moment.who
        out.append(draw_thread(layout.grids[block], thread, len(moment.mine) > 0))
    return out


def _draw_base(scene: Scene, layout: AccessLayout) -> str:
    """Draw the parts that do not depend on the sliders."""
    trace = scene.trace
    out = [panel.drawn() for panel in layout.panels]
    out.append(draw_thread_frames(trace, layout.grids))
    if layout.block:
        out += [layout.block.title(), layout.block.numbers()]
        names = name_thread_axes(trace, scene.blocks[0])
        out.append(draw_thread_axes(layout.block, names))
    else:
        out.append(label_threads_and_warps(trace, layout.grids))
    return "".join(out)


def _draw_timeline(scene: Scene, layout: AccessLayout, time: int) -> str:
    """Draw the timeline, highlighting the displayed interval."""
    numbers, y = scene.intervals, layout.strip
    width = min(90.0, (WIDTH - LEFT - EDGE) / len(numbers))
    spacing = max(1, int(np.ceil(26 / width)))
    out = [label(LEFT - 14, y + 15, "barriers", 12, anchor="end", faint=True)]
    for i, number in enumerate(numbers):
        x, current = LEFT + i * width, time in (ALL, number)
        look = dict(colour=THREAD, fill=svg.FILL) if current else dict(strength=DIM)
        out.append(svg.box(x + 1, y, width - 3, 22, **look))
        if i % spacing == 0:
            look = dict(anchor="middle", faint=not current)
            out.append(label(x + width / 2 - 0.5, y + 15, str(i + 1), 11, **look))
        if i:
            out.append(svg.rule(f"M{num(x - 0.5)} {num(y - 4)}v30", width="1.6"))
    return "".join(out)


def account(scene: Scene) -> str:
    """Describe the picture in words, with a line for each array."""
    trace = scene.trace
    lines = [f"{trace.kernel}, {_describe(scene, _build_moment(scene, ALL, None))}"]
    for number in scene.arrays:
        array, accesses = trace.arrays[number], scene.found.of(array=number)
        times = f"{count_things(int(accesses.reads.sum()), 'read')}, "
        times += count_things(int(accesses.writes.sum()), "write")
        cells = len(np.unique(accesses.element))
        lines.append(f"  {array.name} {array.shape}: {times}; {cells} cells touched")
    lines += [f"  {finding.text}" for finding in findings_of(scene)]
    return "\n".join(lines)
