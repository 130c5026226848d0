"""show(kernel)[grid, block](*args): a picture of which thread touches which cell.

    show(matmul, shapes={"c": ("m", "n")})[grid, block](c, a, b, m, n, k)
    show(matmul, thread=(2, 1))[grid, block](...)   one thread, access by access
    show(matmul, view="heat")[grid, block](...)     how often each cell is touched
    show(divergent, view="lanes")[grid, block](...) which lanes of a warp are active
    show(tiled, view="timeline")[grid, block](...)  the work between two barriers

The launch runs on the simulator and writes into the arrays, like any launch.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...base.errors import ArgumentError, KernelFault
from ...pykernel.language import PythonKernel
from ...pykernel.sim import sim
from ...report.model import Report
from . import access
from .scene import scene

if TYPE_CHECKING:
    from ...pykernel.sim.layout import Trace
    from .svg import Drawing

VIEWS = {  # the module and the drawing function of each view
    "access": ("access", "draw"),
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
    of each thread or warp between two barriers). thread, block: the index, (x, y, z) or
    shorter, of a thread or block to select. arrays: the names of the arrays to draw,
    including shared ones; None: all. shapes: flat arrays to draw with rows and columns,
    such as {"a": ("m", "k")}, in numbers or names of parameters. timeout: time limit in
    seconds for one block; a block that hangs is drawn up to that point. Raises
    ArgumentError for invalid arguments, and the launch's own exceptions. A KernelFault
    that can be drawn appears in the picture, in vermilion.
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
    drawing.account = drawing.account or access.account(selection)
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
