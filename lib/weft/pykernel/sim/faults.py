"""Explain why a launch failed, from the exception and its frames."""

from __future__ import annotations

import ast
import linecache
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...report import cures
from ...report.model import Finding
from ...report.places import Index, unflatten, write_index
from .. import language
from ..trees import split_chain
from .layout import AccessPlace
from .memory import HALF, has
from .rewrite import THREAD
from .schedule import Stop, TooLong

if TYPE_CHECKING:
    from .launch import SimulatedLaunch

_HERE = str(Path(__file__).parent)
_VALUES = ", ".join(f"{re.escape(name)}[^,)]*" for name in THREAD)
_HIDDEN = re.compile(rf"(?<=\(){_VALUES}(, )?")
_SEVERAL = {
    "tuple": ": x, y = cuda.grid(2) gives two",
    "Dim3": ": cuda.threadIdx has three, .x .y .z",
}
NUMBERS = (int, float, complex, np.number)
VERBS = {"read": "reads", "write": "writes", "atomic": "updates"}


@dataclass
class End:
    """The end of a failed launch.

    finding: the finding to report; None for an exception of the user's code.
    """

    finding: Finding | None
    thread: Index | None
    frames: TracebackType | None


def explain(error: BaseException, launch: SimulatedLaunch) -> End:
    """Explain how `error` ended the launch."""
    frames = _list_frames(error, launch)
    number = frames[0].tb_frame.f_locals.get(".lin") if frames else None
    if isinstance(error, Stop) and error.thread is not None:
        number = error.thread
    thread = None if number is None else unflatten(number, launch.config.block)
    inner = frames[-1] if frames else None
    stop = error if isinstance(error, Stop) else _find_index_error(error, inner, launch)
    stop = stop or _find_inner_error(error, inner, launch)
    if isinstance(stop, TooLong):
        stop = _describe_timeout(inner, launch)
    finding = _make_finding(stop, inner, thread, launch) if stop else None
    return End(finding, thread, _cut_traceback(frames))


def _make_finding(
    stop: Stop,
    inner: TracebackType | None,
    thread: Index | None,
    launch: SimulatedLaunch,
) -> Finding:
    where = stop.place
    if where is None and inner is not None:
        variant = launch.program.codes[_get_code(inner)]
        where = AccessPlace("", "", variant.file, inner.tb_lineno, 0)
    subject = "the launch"
    if thread is not None and launch.at is not None:
        subject = f"thread {write_index(thread, launch.config.block)}"
        if launch.config.grid != (1, 1, 1):
            subject += f" of block {write_index(launch.at, launch.config.grid)}"
    text, cure = stop.text, ""
    line = f" at line {where.line}" if where is not None else ""
    if stop.kind == "bounds":
        chained = where is not None and "][" in where.text
        shown = ("][" if chained else ", ").join(map(str, stop.index or ()))
        verb = VERBS.get(where.kind if where else "", "touches")
        what = f"{stop.array}[{shown}]" if stop.index is not None else stop.array
        text = f"{verb} {what}{line}: {stop.text}"
        # If the launch determines the array's size, a guard is not the cure.
        if any(e.dynamic and e.name == stop.array for e in launch.program.entities):
            size = launch.config.shared
            text += (
                f", since the launch gave {size} bytes of shared memory: [grid, block, "
                f"stream, bytes]"
            )
        elif where is not None:
            cure = _guard(stop, where, launch)
    elif where is not None:
        text = f"{text} (line {where.line})"
    place = (where.file, where.line, where.column) if where else ("", 0, 0)
    return Finding(
        stop.kind,
        f"{subject} {text}",
        *place,
        block=launch.at,
        thread=thread,
        array=stop.array,
        index=stop.index,
        cure=cure,
    )


def _guard(stop: Stop, where: AccessPlace, launch: SimulatedLaunch) -> str:
    """Return the cure for an access outside its array; "" if there is none."""
    try:
        _, parts = split_chain(ast.parse(where.text, mode="eval").body)
    except SyntaxError:
        return ""
    own = [one for one in launch.program.sources if one.file == where.file]
    lines = "\n".join(
        one.line(n) for one in own for n in range(one.first, where.line + 1)
    )
    texts = [ast.unparse(part) for part in parts]
    return cures.guard(stop.array or "", texts, stop.index or (), lines, "if {}:")


# ---- accesses that NumPy or the log refused ----------------------------------------


def _find_index_error(
    error: BaseException, inner: TracebackType | None, launch: SimulatedLaunch
) -> Stop | None:
    """Return the Stop for an error at an access; None for other errors."""
    kinds = (IndexError, OverflowError, TypeError)
    if inner is None or not isinstance(error, kinds) or inner.tb_next is not None:
        return None
    variant = launch.program.codes[_get_code(inner)]
    place = variant.places.get(_find_place(inner))
    if place is None:
        return None
    if place.entity is None or not place.index:
        is_index = isinstance(error, IndexError)
        return Stop("bounds", str(error), place, place.text) if is_index else None
    values = _list_values(place, inner.tb_frame)
    raw = launch.raws.get(place.entity.number)
    if place.entity.origin == "local":
        raw = getattr(inner.tb_frame.f_locals.get(place.entity.name), "raw", None)
    if raw is None or len(values) != raw.ndim:
        return None
    if any(not 0 <= v < side for v, side in zip(values, raw.shape)):
        text = has(place.entity.name, raw.shape)
        return Stop("bounds", text, place, place.entity.name, tuple(values))
    return None


def _find_inner_error(
    error: BaseException, inner: TracebackType | None, launch: SimulatedLaunch
) -> Stop | None:
    """Return the Stop for an error that retains its text; None for other errors.

    Such errors are NumPy's exceptions, IndexError, ValueError and MemoryError, and a
    kernel's TypeErrors that improve_error() does not reword.
    """
    kinds = (IndexError, ValueError, MemoryError)
    of_numpy = type(error).__module__.startswith("numpy")
    if inner is None:
        return None
    reported = of_numpy or isinstance(error, kinds)
    if isinstance(error, TypeError) and inner.tb_next is None and not reported:
        reported = improve_error(error, launch) is error  # the text is still Python's
    if not reported:
        return None
    return Stop("exception", f"ends with {type(error).__name__}: {error}")


def _list_values(place: AccessPlace, frame: FrameType) -> list[int]:
    parts = place.index
    values = [p if isinstance(p, int) else frame.f_locals.get(p) for p in parts]
    return [int(value) for value in values if isinstance(value, (int, np.integer))]


def improve_error(error: BaseException, launch: SimulatedLaunch) -> BaseException:
    """Return the error, reworded if Python's text does not fit a kernel."""
    chain = _list_frames(error, launch)
    if not chain:
        return error
    if isinstance(error, NameError) and (name := language.without_cuda(error.name)):
        renamed = NameError(f"{name} is not defined: write cuda.{name} in a kernel")
        renamed.name = error.name
        return renamed
    if not isinstance(error, (TypeError, AttributeError)) or chain[-1].tb_next:
        return error
    variant = launch.program.codes[_get_code(chain[-1])]
    place = variant.places.get(_find_place(chain[-1]))
    frame = chain[-1].tb_frame
    text = _explain_index(str(error), place) or _explain_number(error, frame)
    if not text and "'float' object cannot be interpreted as an integer" in str(error):
        text = f"expected a whole number, not a float{HALF}"
    return type(error)(text) if text else error


def _explain_index(text: str, place: AccessPlace | None) -> str:
    """Explain an index that is not an integer; return "" for other errors."""
    if place is None or "cannot be interpreted as an integer" not in text:
        return ""
    name = place.entity.name if place.entity else place.text.partition("[")[0]
    value = text.partition("'")[2].partition("'")[0]
    hint = HALF if "float" in value else _SEVERAL.get(value, "")
    return (
        f"an index of {name} must be a whole number, but {place.text} has one of "
        f"type {value}{hint}"
    )


def _explain_number(error: TypeError | AttributeError, frame: FrameType) -> str:
    """Explain the error of x.shape for a number x; return "" for other errors."""
    value = getattr(error, "obj", None)
    if not isinstance(error, AttributeError) or not isinstance(value, NUMBERS):
        return ""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    for name, local_value in frame.f_locals.items():
        if local_value is value and f"{name}.{error.name}" in line:
            return f"{name} is a number, {value!r}: it has no {error.name}"
    return ""


# ---- time ----------------------------------------------------------------------


def _describe_timeout(inner: TracebackType | None, launch: SimulatedLaunch) -> Stop:
    text = f"is in a block that ran for longer than {launch.timeout:g} s"
    if inner is not None:
        turns = [
            value
            for name, value in inner.tb_frame.f_locals.items()
            if name.startswith(".turns") and isinstance(value, int)
        ]
        text += f": it is at line {inner.tb_lineno}"
        if turns and max(turns) > 1:
            text += f", and has gone round a while loop {max(turns)} times"
    text += "; look for a loop that does not end, or allow more time with timeout="
    return Stop("hang", text)


# ---- frames ----------------------------------------------------------------------


def _walk_traceback(traceback: TracebackType | None) -> list[TracebackType]:
    entries = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    return entries


def _list_frames(error: BaseException, launch: SimulatedLaunch) -> list[TracebackType]:
    """Return the frames of the kernel and its helpers, the innermost one last."""
    frames = _walk_traceback(error.__traceback__)
    return [one for one in frames if _get_code(one) in launch.program.codes]


def _get_code(traceback: TracebackType) -> CodeType:
    return traceback.tb_frame.f_code


def _find_place(traceback: TracebackType) -> tuple[Any, ...]:
    places = list(_get_code(traceback).co_positions())
    return places[traceback.tb_lasti // 2]


def _cut_traceback(frames: list[TracebackType]) -> TracebackType | None:
    """Return a traceback that contains only these frames."""
    traceback = None
    for one in reversed(frames):
        traceback = TracebackType(traceback, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return traceback


def shorten_error(error: BaseException) -> BaseException:
    """Hide the simulator's parts of the error's traceback in IPython.

    These parts are the simulator's frames, and the parameters that it inserted before
    the kernel's.
    """

    def render() -> list[str]:
        from IPython import get_ipython

        # Read the error from sys.last_value, where IPython stores it. A reference in
        # this closure would keep the arrays alive.
        error = sys.last_value
        frames = _walk_traceback(error.__traceback__)
        entries = [t for t in frames if not _get_code(t).co_filename.startswith(_HERE)]
        show = get_ipython().InteractiveTB.structured_traceback
        lines = show(type(error), error, _cut_traceback(entries))
        return [_HIDDEN.sub("", line) for line in lines]

    error._render_traceback_ = render  # type: ignore[attr-defined]  # IPython's name
    return error
