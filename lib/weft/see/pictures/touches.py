"""Collect a launch's accesses in one table, and describe them in words."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.text import count_things
from ...pykernel.sim.layout import ATOMIC, READ, WRITE, Trace, TracedArray

Index3 = tuple[int, int, int]


@dataclass(frozen=True)
class Touches:
    """n accesses, as arrays of length n. block, thread: linear indices.

    interval: the number of barriers before the access. site, array: indices into
    trace.sites and trace.arrays. reads, writes: at least one is set, and both for an
    atomic operation.
    """

    block: np.ndarray
    interval: np.ndarray
    thread: np.ndarray
    site: np.ndarray
    element: np.ndarray
    array: np.ndarray
    reads: np.ndarray
    writes: np.ndarray

    def where(self, chosen: np.ndarray) -> Touches:
        """Return the accesses that `chosen` selects, by a mask or by indices."""
        return Touches(*(getattr(self, name)[chosen] for name in _COLUMNS))

    def of(
        self,
        *,
        block: int | None = None,
        interval: int | None = None,
        thread: int | None = None,
        array: int | None = None,
    ) -> Touches:
        """Return the accesses with these values; None matches any value."""
        keep = np.ones(len(self.site), bool)
        criteria = dict(block=block, interval=interval, thread=thread, array=array)
        for name, value in criteria.items():
            if value is not None:
                keep &= getattr(self, name) == value
        return self.where(keep)

    def is_shared(self, trace: Trace) -> np.ndarray:
        """Return the mask of the accesses to shared memory."""
        numbers = [i for i, a in enumerate(trace.arrays) if a.space == "shared"]
        return np.isin(self.array, numbers)

    def distinct(self) -> Touches:
        """Return each access once, in the order of its first occurrence."""
        rows = (self.block, self.interval, self.thread, self.site, self.element)
        _, first = unique_rows(np.stack(rows, 1), return_index=True)
        return self.where(np.sort(first))

    def __len__(self) -> int:
        return len(self.site)


_COLUMNS = tuple(Touches.__dataclass_fields__)


def unique_rows(rows: np.ndarray, **options: Any) -> Any:
    """Return np.unique(rows, axis=0) in a tenth of the time.

    Speed matters since an endless loop touches its cells a million times. rows:
    (n, columns), whole numbers. options: other arguments of np.unique.
    """
    if not len(rows):
        return np.unique(rows, axis=0, **options)
    low = rows.min(0)
    sides = (rows.max(0) - low + 1).tolist()
    if math.prod(sides) >= 1 << 62:  # int64 has no room for so many combinations
        return np.unique(rows, axis=0, **options)
    keys = np.ravel_multi_index(tuple((rows - low).T), sides)
    unique = np.unique(keys, **options)
    keys, *extras = unique if isinstance(unique, tuple) else (unique,)
    result = np.stack(np.unravel_index(keys, sides), 1) + low
    return (result, *extras) if extras else result


def touches(trace: Trace) -> Touches:
    """Return the accesses of all intervals as a table, without steps and fences."""
    parts = [i for i in trace.intervals if len(i.site)]
    lengths = [len(i.site) for i in parts]
    kinds = np.array([s.kind for s in trace.sites] or [READ])
    arrays = np.array([s.array for s in trace.sites] or [-1])
    site = _join_columns([i.site for i in parts])
    kind = kinds[site]
    table = Touches(
        np.repeat([i.block for i in parts], lengths).astype(np.int64),
        np.repeat([i.number for i in parts], lengths).astype(np.int64),
        _join_columns([i.thread for i in parts]),
        site,
        _join_columns([i.element for i in parts]),
        arrays[site],
        (kind == READ) | (kind == ATOMIC),
        (kind == WRITE) | (kind == ATOMIC),
    )
    return table.where(table.array >= 0)


def _join_columns(columns: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(columns or [np.array([], np.int64)]).astype(np.int64)


def unravel(number: int, sides: Index3) -> Index3:
    """Return (x, y, z) of a linear index; x varies fastest."""
    x, quotient = number % sides[0], number // sides[0]
    return x, quotient % sides[1], quotient // sides[1]


def ravel(index: Sequence[int], sides: Index3) -> int:
    """Return the linear index of (x, y, z); y and z may be missing."""
    x, y, z = (*index, 0, 0)[:3]
    return x + sides[0] * (y + sides[1] * z)


def short(index: Sequence[int], sides: Index3) -> str:
    """Write an (x, y, z) in the dimensions that `sides` uses: "3", "3,0" or "3,0,1"."""
    used = 3 if sides[2] > 1 else 2 if sides[1] > 1 else 1
    return ",".join(str(i) for i in tuple(index)[:used])


def block_name(block: int, trace: Trace) -> str:
    """Write a block's name, such as "block 3" or "block (1, 0)"."""
    return write_place("block", block, trace.grid)


def write_place(noun: str, number: int, sides: Index3) -> str:
    """Write a linear index with its noun, such as "thread 3" or "thread (1, 0)"."""
    index = short(unravel(number, sides), sides)
    return f"{noun} ({index.replace(',', ', ')})" if "," in index else f"{noun} {index}"


def size_of(array: TracedArray) -> str:
    """Write an array's shape, such as "6 × 8" or "15"."""
    return " × ".join(str(n) for n in array.shape) or "1"


def sentence(found: Touches, trace: Trace, arrays: Sequence[int]) -> str:
    """Describe the accesses, such as "read 4 cells of a, write 4 cells of c"."""
    things: dict[str, list[str]] = {"read": [], "write": []}
    for number in arrays:
        accesses = found.of(array=number)
        for verb, mask in (("read", accesses.reads), ("write", accesses.writes)):
            cells = len(np.unique(accesses.element[mask]))
            if cells:
                count = cells if things[verb] else count_things(cells, "cell")
                things[verb].append(f"{count} of {trace.arrays[number].name}")
    phrases = [f"{verb} {listed(those)}" for verb, those in things.items() if those]
    return ", ".join(phrases) or "no array is touched"


def listed(things: Sequence[str]) -> str:
    """Join names into a list: "a", "a and b" or "a, b and c"."""
    *most, last = things
    return f"{', '.join(most)} and {last}" if most else last


def names_of(
    trace: Trace, blocks: Sequence[int], threads: Sequence[int], skip: Any = ()
) -> list[tuple[str, str]]:
    """Return the locals of these threads: (name, "3") or (name, "0 … 7").

    Locals that change while a thread runs are left out, since only their last values
    are known.
    """
    locals_of = [trace.names.get((b, t), {}) for b in blocks for t in threads]
    out = []
    for name in dict.fromkeys(name for names in locals_of for name in names):
        if name in skip or name in trace.passing:
            continue
        values = sorted({names[name] for names in locals_of if name in names})
        low, high = values[0], values[-1]
        text = f"{low}, {high}" if len(values) == 2 else f"{low} … {high}"
        out.append((name, str(low) if low == high else text))
    return out


def axis_names(text: str, dimensions: int) -> list[str]:
    """Return the index expressions of an access: ["row", "col"] for c[row, col].

    For two dimensions, c[row * n + col] has the same result. Returns [] for any other
    form.
    """
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        return []
    parts: list[ast.expr] = []
    while isinstance(tree, ast.Subscript):
        inner = tree.slice
        parts = (inner.elts if isinstance(inner, ast.Tuple) else [inner]) + parts
        tree = tree.value
    if len(parts) == 1 < dimensions == 2:
        parts = _split_flat(parts[0])
    return [ast.unparse(p) for p in parts] if len(parts) == dimensions else []


def _split_flat(index: ast.expr) -> list[ast.expr]:
    """Return the row and col of `row * n + col`, which must begin with the product."""
    terms: list[ast.expr] = []
    while isinstance(index, ast.BinOp) and isinstance(index.op, ast.Add):
        terms.insert(0, index.right)
        index = index.left
    if not (terms and isinstance(index, ast.BinOp) and isinstance(index.op, ast.Mult)):
        return []
    column = terms[0]
    for term in terms[1:]:
        column = ast.BinOp(column, ast.Add(), term)
    return [index.left, column]
