"""Guesses from the wrong region of an output, and from stored positions (an argmax)."""

from __future__ import annotations

import math

import numpy as np

from .scene import WrongOutput, is_summed

EARLY = "an end that comes one too early: "  # the end of the output


def place(s: WrongOutput) -> str | None:
    region = describe_region(s, s.bad)
    if region and is_summed(s):  # The end may belong to a sum, not the output.
        region = region.removeprefix(EARLY)
    return f"{region} wrong, the rest right" if region else None


def describe_region(s: WrongOutput, mask: np.ndarray) -> str | None:
    """Describe `mask` if it is a plain region of the output and not all of it."""
    if mask.all() or not mask.any():
        return None
    description = (
        _describe_corner(s, mask) if mask.ndim == 2 and s.block is not None else None
    )
    if description:
        return description
    for axis in range(mask.ndim):
        description = _describe_run(s, mask, axis)
        if description:
            return description
    index = np.flatnonzero(mask)
    if s.block is not None and mask.ndim >= 1:
        threads = s.block[0] * s.block[1] * s.block[2]
        numbers = np.arange(mask.size)
        if threads > 1 and (mask.ravel() == (numbers % threads != 0)).all():
            return "only the first element of each block is right: the others are"
        if threads > 1 and (mask.ravel() == (numbers % threads == 0)).all():
            return "the first element of each block is"
        if mask.ndim == 1 and 1 < threads < mask.size:
            description = _describe_ends(mask, threads)
            if description:
                return description
    if index.size > 2 and mask.size > 4:
        for parity, name in ((0, "even"), (1, "odd")):
            if (mask.ravel() == (np.arange(mask.size) % 2 == parity)).all():
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
    subject = f"the last {count} elements" if count > 1 else "the last element"
    return (
        f"a block's end without its neighbors in the next block: {subject} of each "
        f"block but the last {'are' if count > 1 else 'is'}"
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
        return (
            f"blocks other than the first do no useful work (threadIdx where the "
            f"global index is needed?): all but the first {height} rows of {width} are"
        )
    if s.grid is None:
        return None
    reach_x, reach_y = s.grid[0] * width, s.grid[1] * height
    if reach_x >= columns and reach_y >= rows and all_but(reach_x, reach_y):
        missing = f"the columns from {reach_y} on are"
        if reach_x < rows:
            missing = f"the rows from {reach_x} on are"
        return (
            f"x and y swapped (x runs along a row, so it gives the column): {missing}"
        )
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
        return (
            f"the first {at.size} {rows} are" if at.size > 1 else f"the first {row} is"
        )
    if at[-1] != length - 1:
        return None
    if s.grid is not None and mask.ndim == 1:
        description = _describe_threads(s, int(at[0]))
        if description:
            return description
    side = _count_lines(s, mask.ndim, axis)
    if side and at[0] == side and (at.size > 1 or side > 8):
        if s.grid is not None and s.grid[mask.ndim - 1 - axis] == 1:
            return f"the {rows} from {at[0]} on are"  # There is no other block.
        return (
            f"blocks other than the first do no useful work (threadIdx where the "
            f"global index is needed?): {rows} from {at[0]} on are"
        )
    if at.size == 1:
        return f"{EARLY}the last {row} is"
    full = side and at[0] % side == 0
    if full and s.grid is None and length - at[0] <= side:
        return (
            f"a missing last block (n // block for a grid, where cdiv(n, block) is "
            f"needed): the {rows} from {at[0]} on are"
        )
    return f"the {rows} from {at[0]} on are"


def _describe_threads(s: WrongOutput, first: int) -> str | None:
    """Describe elements from `first` on, if there are `first` threads or blocks."""
    assert s.grid is not None and s.block is not None
    blocks = math.prod(s.grid)
    if first == blocks * math.prod(s.block):
        return f"the elements from {first} on, for which no threads are left, are"
    if first == blocks > 1 and first != math.prod(s.block):
        return (
            f"one element for each block and no more (blockIdx where the global "
            f"index is needed?): the elements from {first} on are"
        )
    return None


def _line_names(ndim: int, axis: int) -> tuple[str, str]:
    if ndim == 1:
        return "element", "elements"
    if ndim == 2:
        return ("row", "rows") if axis == 0 else ("column", "columns")
    return f"slice along axis {axis}", f"slices along axis {axis}"


def _count_lines(s: WrongOutput, ndim: int, axis: int) -> int:
    """Return the number of lines along an axis that one block covers; 0: unknown."""
    if s.block is None or axis < ndim - 3:
        return 0
    return s.block[ndim - 1 - axis]


def guess_indices(s: WrongOutput) -> str | None:
    """Guess the wrong index or value that an argmax or similar kernel stored."""
    name = _find_rows(s)
    return _of_rows(s, name, s.inputs[name]) if name else None


def guess_padding(s: WrongOutput) -> str | None:
    """Guess that padding won in an argmax or similar kernel: positions past the end of
    the row. All other errors must be choices among equals."""
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
    return in_range & (
        _take_numbers(x, np.where(in_range, got, 0)) == _take_numbers(x, s.want)
    )


def _of_rows(s: WrongOutput, name: str, x: np.ndarray) -> str | None:
    bad, got = s.bad, s.got.astype(np.int64)
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
