"""Guesses from the wrong region of an output, and from stored positions (an argmax)."""

from __future__ import annotations

import math

import numpy as np

from .scene import WrongOutput, is_summed

# A guess about an output's end begins like this; place() omits it for a sum.
EARLY = "an end that comes one too early: "
IDLE = (
    "blocks other than the first do no useful work (threadIdx where the global index "
    "is needed?)"
)


def place(s: WrongOutput) -> str | None:
    region = describe_region(s, s.bad)
    if region and is_summed(s):  # a sum may also end too early
        region = region.removeprefix(EARLY)
    return f"{region} wrong, the rest right" if region else None


def describe_region(s: WrongOutput, mask: np.ndarray) -> str | None:
    """Describe `mask` if it is a plain region of the output and not all of it."""
    if mask.all() or not mask.any():
        return None
    if mask.ndim == 2 and s.block is not None and (text := _describe_corner(s, mask)):
        return text
    for axis in range(mask.ndim):
        if text := _describe_run(s, mask, axis):
            return text
    flat, numbers = mask.ravel(), np.arange(mask.size)
    if s.block is not None and mask.ndim >= 1:
        threads = math.prod(s.block)
        if threads > 1 and (flat == (numbers % threads != 0)).all():
            return "only the first element of each block is right: the others are"
        if threads > 1 and (flat == (numbers % threads == 0)).all():
            return "the first element of each block is"
        is_split = mask.ndim == 1 and 1 < threads < mask.size
        if is_split and (text := _describe_ends(mask, threads)):
            return text
    if flat.sum() > 2 and mask.size > 4:
        for parity, name in ((0, "even"), (1, "odd")):
            if (flat == (numbers % 2 == parity)).all():
                return f"the elements with {name} numbers are"
    edge = np.ones(mask.shape, bool)
    if mask.ndim == 2 and min(mask.shape) > 2:
        edge[1:-1, 1:-1] = False
        if (mask == edge).all():
            return "the border is"
    return None


def _describe_ends(mask: np.ndarray, threads: int) -> str | None:
    """Describe a missing halo: the last elements of each block that has a successor."""
    index = np.arange(mask.size)
    first = int((np.flatnonzero(mask) % threads).min())
    followed = (index // threads + 1) * threads < mask.size
    if 2 * first <= threads or (mask != (followed & (index % threads >= first))).any():
        return None
    count = threads - first
    subject, verb = "the last element", "is"
    if count > 1:
        subject, verb = f"the last {count} elements", "are"
    return (
        f"a block's end without its neighbors in the next block: {subject} of each "
        f"block but the last {verb}"
    )


def _describe_corner(s: WrongOutput, mask: np.ndarray) -> str | None:
    """Describe an output that is right only in the top left corner of one block."""
    assert s.block is not None
    width, height = s.block[:2]

    def all_but(rows: int, columns: int) -> bool:
        outside = np.ones(mask.shape, bool)
        outside[:rows, :columns] = False
        return bool((mask == outside).all())

    rows, columns = mask.shape
    if width < columns and height < rows and all_but(height, width):
        return f"{IDLE}: all but the first {height} rows of {width} are"
    if s.grid is None:
        return None
    reach_x, reach_y = s.grid[0] * width, s.grid[1] * height
    if reach_x >= columns and reach_y >= rows and all_but(reach_x, reach_y):
        lines = f"rows from {reach_x}" if reach_x < rows else f"columns from {reach_y}"
        cause = "x and y swapped (x runs along a row, so it gives the column)"
        return f"{cause}: the {lines} on are"
    return None


def _describe_run(s: WrongOutput, mask: np.ndarray, axis: int) -> str | None:
    """Describe a run of rows, columns or elements at one end of an axis."""
    lines = np.moveaxis(mask, axis, 0).reshape(mask.shape[axis], -1)
    bad_lines = lines.any(axis=1)
    if (lines.all(axis=1) != bad_lines).any() or bad_lines.all():
        return None  # Some lines are only partly wrong.
    length, at = len(bad_lines), np.flatnonzero(bad_lines)
    row, rows = _line_names(mask.ndim, axis)
    if at[-1] - at[0] + 1 != at.size:
        return None
    if at[0] == 0:
        region = f"{at.size} {rows} are" if at.size > 1 else f"{row} is"
        return f"the first {region}"
    if at[-1] != length - 1:
        return None
    is_row = s.grid is not None and mask.ndim == 1
    if is_row and (text := _describe_threads(s, int(at[0]))):
        return text
    region = f"{rows} from {at[0]} on are"
    along = mask.ndim - 1 - axis  # 0 for x, 1 for y, 2 for z
    # The number of lines that one block covers; 0: unknown
    side = s.block[along] if s.block is not None and along < 3 else 0
    if side and at[0] == side and (at.size > 1 or side > 8):
        if s.grid is not None and s.grid[along] == 1:
            return f"the {region}"  # There is no other block.
        return f"{IDLE}: {region}"
    if at.size == 1:
        return f"{EARLY}the last {row} is"
    if side and at[0] % side == 0 and s.grid is None and length - at[0] <= side:
        cause = "n // block for a grid, where cdiv(n, block) is needed"
        return f"a missing last block ({cause}): the {region}"
    return f"the {region}"


def _describe_threads(s: WrongOutput, first: int) -> str | None:
    """Describe elements from index `first`, if there are `first` threads or blocks."""
    assert s.grid is not None and s.block is not None
    blocks = math.prod(s.grid)
    if first == blocks * math.prod(s.block):
        return f"the elements from {first} on, for which no threads are left, are"
    if first == blocks > 1 and first != math.prod(s.block):
        cause = "one element for each block and no more"
        hint = "blockIdx where the global index is needed?"
        return f"{cause} ({hint}): the elements from {first} on are"
    return None


def _line_names(ndim: int, axis: int) -> tuple[str, str]:
    if ndim > 2:
        return f"slice along axis {axis}", f"slices along axis {axis}"
    name = "element" if ndim == 1 else ("row", "column")[axis]
    return name, f"{name}s"


def guess_padding(s: WrongOutput) -> str | None:
    """Guess that padding won in an argmax or similar kernel: positions past the end of
    the row. All other errors must be choices among equal numbers."""
    name = _find_rows(s)
    if not name:
        return None
    x, bad, got = s.inputs[name], s.bad, s.got.astype(np.int64)
    length, best = x.shape[-1], _take_numbers(x, s.want)
    is_min = (best == x.min(axis=-1)).all()
    if not (is_min or (best == x.max(axis=-1)).all()) or _other_places(s, x)[bad].all():
        return None
    # Rows may be padded up to this length.
    limit = max(4 * length, math.prod(s.block or (1,)))
    beyond = (got >= length) & (got < limit)
    if not (bad & beyond).any() or not (beyond | _find_equal(s, x))[bad].all():
        return None
    return (
        f"a position past the end of the row: its padding must lose against every "
        f"number of {name}, even a {'positive' if is_min else 'negative'} one"
    )


def _find_rows(s: WrongOutput) -> str:
    """Return the input whose rows the output's positions refer to; "" if none."""
    if s.want.dtype.kind not in "iu" or not s.output:
        return ""
    for name, dims in s.axes.items():
        x = s.inputs[name]
        if dims[:-1] == s.output and x.shape[:-1] == s.want.shape and x.size:
            in_range = s.want.min() >= 0 and s.want.max() < x.shape[-1]
            return name if in_range else ""
    return ""


def _flatten_expected(s: WrongOutput, x: np.ndarray) -> np.ndarray:
    """Return the expected positions, counted through the whole array."""
    return np.arange(s.want.size).reshape(s.want.shape) * x.shape[-1] + s.want


def _other_places(s: WrongOutput, x: np.ndarray) -> np.ndarray:
    """Mark where `got` is a position in the flat array, or the number itself."""
    numbers = _take_numbers(x, s.want).astype(np.int64)
    return (s.got == _flatten_expected(s, x)) | (s.got == numbers)


def _find_equal(s: WrongOutput, x: np.ndarray) -> np.ndarray:
    """Mark positions within a row at which the input has the expected number."""
    got = s.got.astype(np.int64)
    in_range = (got >= 0) & (got < x.shape[-1])
    found = _take_numbers(x, np.where(in_range, got, 0))
    return in_range & (found == _take_numbers(x, s.want))


def guess_indices(s: WrongOutput) -> str | None:
    """Guess the wrong index or value that an argmax or similar kernel stored."""
    name = _find_rows(s)
    if not name:
        return None
    x, bad, got = s.inputs[name], s.bad, s.got.astype(np.int64)
    if (got == _flatten_expected(s, x))[bad].all():
        return "a position in the flat array, where the position in its row is needed"
    numbers = _take_numbers(x, s.want)
    if (got == numbers.astype(np.int64))[bad].all() and (bad.sum() > 1 or got.size < 3):
        return "the number itself, where its position is needed"
    if not ((got >= 0) & (got < x.shape[-1]))[bad].all():
        return None
    if _find_equal(s, x)[bad].all():
        choice = "the first" if (got > s.want)[bad].all() else "another"
        return (
            f"a wrong choice among equals: {name} has the same number at both "
            f"positions, and {choice} of them is expected"
        )
    negative = (x < 0).all(axis=-1)
    if negative[bad].all() and not got[bad | negative].any():
        return "a comparison that begins with 0: the wrong rows have no positive number"
    return None


def _take_numbers(x: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the number at the given position in each row."""
    at = places.astype(np.int64)[..., None]
    return np.take_along_axis(x, at, axis=-1)[..., 0]
