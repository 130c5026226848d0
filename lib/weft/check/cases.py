"""The cases with which check() runs a kernel: arrays, sizes, launch shapes, inputs."""

from __future__ import annotations

import ast
import inspect
import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base.arrays import shorten_shape
from ..base.errors import ArgumentError

Sizes = dict[str, int]
PRIMES = (7, 13, 5, 11, 3)
BLOCKS = {  # default launch shapes by the number of dimensions that a kernel uses
    1: ((64,), (96,), (32,), (256,)),
    2: ((16, 16), (8, 4), (32, 3)),
    3: ((8, 4, 4), (4, 3, 2)),
}


def divide_up(a: int, b: int) -> int:
    """Return a / b rounded up."""
    return -(-a // b)


def by_name(function: Callable[..., Any], pool: Mapping[str, Any]) -> Any:
    """Call function(...) with the entries of `pool` that its parameters name.

    Raises ArgumentError, with the available names, if a parameter is not in `pool`.
    """
    parameters = names_of(function)
    if parameters is None:
        raise ArgumentError(f"{_name(function)} has no parameters that have names")
    if missing := ", ".join(n for n in parameters if n not in pool):
        known = ", ".join(pool) or "nothing"
        raise ArgumentError(f"{_name(function)} requires {missing}; available: {known}")
    return function(**{n: pool[n] for n in parameters})


def names_of(function: Callable[..., Any]) -> list[str] | None:
    """Return the names of the required parameters; None if they are unknown."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    required = [p for p in parameters if p.default is p.empty]
    if any(p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL) for p in required):
        return None
    return [p.name for p in required if p.kind is not p.VAR_KEYWORD]


def _name(function: Any) -> str:
    return getattr(function, "__name__", None) or repr(function)


# ---- arrays ---------------------------------------------------------------------


@dataclass(frozen=True)
class Spec:
    """The description of an array for check(): dimensions (names, numbers, expressions
    of names such as "n - 1", functions of sizes), a dtype, or the actual data."""

    name: str
    dims: tuple[Any, ...]
    dtype: np.dtype | None
    data: np.ndarray | None = None

    @property
    def symbols(self) -> list[str]:
        """The sizes that appear in the dimensions, in order of appearance."""
        names: list[str] = []
        for dim in self.dims:
            if isinstance(dim, str):
                tree = ast.walk(ast.parse(dim, mode="eval"))
                names += [n.id for n in tree if isinstance(n, ast.Name)]
            elif callable(dim):
                names += names_of(dim) or []
        return [n for n in dict.fromkeys(names) if n not in _FUNCTIONS]

    @property
    def axes(self) -> tuple[str, ...]:
        """The name of each dimension; "" for a dimension that is not a plain size."""
        return tuple(d if _is_name(d) else "" for d in self.dims)

    def shape(self, sizes: Sizes) -> tuple[int, ...]:
        """Return the shape for these sizes; raise ArgumentError if one is missing."""
        return tuple(_parse_dimension(self.name, dim, sizes) for dim in self.dims)


_FUNCTIONS = {"cdiv": divide_up, "min": min, "max": max}


def parse_spec(name: str, value: Any, dtypes: Mapping[str, Any]) -> Spec:
    """Parse a Spec from ("m", "n"), "n", 3, "int32[m, n]" or from an array itself."""
    dtype = dtypes.get(name)
    if hasattr(value, "__array__") or hasattr(value, "detach"):
        data = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
        return Spec(name, data.shape, data.dtype, data)
    if isinstance(value, str):
        typed = re.fullmatch(r"\s*(\w+)\s*\[(.*)\]\s*", value)
        if typed:
            dtype, value = dtype or typed[1], typed[2]
        value = tuple(part.strip() for part in _split(value) if part.strip())
    elif isinstance(value, int) or callable(value):
        value = (value,)
    if not isinstance(value, (tuple, list)):
        expected = 'a shape such as ("m", "n"), "int32[n]" or an array'
        raise ArgumentError(f"{name}: expected {expected}, not {value!r}")
    for dim in value:
        if isinstance(dim, str):
            try:
                ast.parse(dim, mode="eval")
            except SyntaxError:
                raise ArgumentError(f"{name}: {dim!r} is not a size") from None
    return Spec(name, tuple(value), _parse_dtype(name, dtype))


def spoken_of(options: Mapping[str, Any]) -> list[dict[str, Spec]]:
    """Return the outputs, inputs and inout arrays of check()'s options, by name."""
    dtypes = options.get("dtypes") or {}
    kinds = (options.get(kind) or {} for kind in ("outputs", "inputs", "inout"))
    return [{n: parse_spec(n, v, dtypes) for n, v in kind.items()} for kind in kinds]


def _split(text: str) -> list[str]:
    """Split the text at the commas outside brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _parse_dtype(name: str, dtype: Any) -> np.dtype | None:
    if dtype is None:
        return None
    try:
        text = str(dtype)
        return np.dtype(text[6:] if text.startswith("torch.") else dtype)
    except TypeError:
        raise ArgumentError(f"{name}: {dtype!r} is not a dtype") from None


def _is_name(dim: Any) -> bool:
    return isinstance(dim, str) and dim.isidentifier()


def _parse_dimension(name: str, dim: Any, sizes: Sizes) -> int:
    try:
        if callable(dim):
            value = by_name(dim, sizes)
        elif isinstance(dim, str):
            value = eval(dim, {"__builtins__": {}}, _FUNCTIONS | sizes)
        else:
            value = dim
        length = int(value)
    except NameError as error:
        raise ArgumentError(f"{name}: {error}") from None
    except (TypeError, ValueError):
        raise ArgumentError(f"{name}: {dim!r} is not a size") from None
    if length != value:
        raise ArgumentError(f"{name}: {dim!r} is {value!r}, not a whole number")
    return length


def draw_values(
    shape: tuple[int, ...], dtype: np.dtype, rng: np.random.Generator
) -> np.ndarray:
    """Draw random values: uint8 from the full range, int8 up to ±100, other integers up
    to 1000 in magnitude, and floats from a normal distribution."""
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        high = {"u": 256, "i": 101}[dtype.kind] if dtype.itemsize == 1 else 1001
        return rng.integers(0 if dtype.kind == "u" else 1 - high, high, shape, dtype)
    values = rng.standard_normal(shape)
    if dtype.kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


# ---- launch shapes ----------------------------------------------------------------


@dataclass(frozen=True)
class LaunchShape:
    """A launch shape: grid and block as (x, y, z), and bytes of dynamic shared memory.

    plain: whether the launch has one thread for each element of the first output. like:
    a function that returns the launch shape of the same plan for other sizes; None if
    the shape does not follow from sizes.
    """

    grid: tuple[int, ...]
    block: tuple[int, int, int]
    shared: int = 0
    plain: bool = False
    like: Callable[..., Any] | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"grid {shorten_shape(self.grid)}, block {shorten_shape(self.block)}"


Case = tuple[Sizes, LaunchShape | None]


def list_blocks(block: Any, dims: int) -> list[tuple[int, int, int]]:
    """List the blocks to try: the given block or blocks, or the default ones."""
    blocks = block if isinstance(block, list) else [block]
    return [make_three(b) for b in (BLOCKS[dims] if block is None else blocks)]


def make_three(given: Any) -> tuple[int, int, int]:
    """Return (x, y, z) for an int or a sequence of one to three ints."""
    parts = tuple(given) if isinstance(given, Iterable) else (given,)
    if not 1 <= len(parts) <= 3 or not all(hasattr(p, "__index__") for p in parts):
        raise ArgumentError(f"a block or grid is one to three ints, not {given!r}")
    x, y, z = (*(int(p) for p in parts), 1, 1)[:3]
    return x, y, z


def cover_elements(
    shape: tuple[int, ...], block: tuple[int, int, int], dims: int
) -> LaunchShape:
    """Return the launch shape that has one thread for each element of an array.

    Threads run in x along the last array axis, in y along the one before it, and so on.
    dims: the number of thread axes that the kernel uses. If the array has more axes,
    the last of these thread axes covers all remaining (leading) ones, flattened.
    """
    axes = shape[::-1]
    lengths = [*axes[: dims - 1], math.prod(axes[dims - 1 :])]
    lengths += [1] * (3 - len(lengths))
    grid = tuple(max(1, divide_up(n, b)) for n, b in zip(lengths, block))
    return LaunchShape(grid, block, plain=True)


def count_dimensions(text: str) -> int:
    """Count the axes of threads that a kernel's source uses: 1, 2 or 3."""
    axes = re.findall(r"\b(?:thread|block)(?:Idx|Dim)\s*\.\s*([xyz])", text)
    counts = re.findall(r"\bgrid(?:size)?\(\s*([123])", text)
    counts += ["xyz".index(axis) + 1 for axis in axes]
    return max(map(int, counts), default=1)


# ---- sizes ----------------------------------------------------------------------


def size_list(sizes: Any, symbols: Sequence[str]) -> list[Sizes]:
    """Return the caller's sizes as dicts; each may be a number, a tuple or a dict."""
    is_row = isinstance(sizes, tuple) and len(symbols) == len(sizes) != 1
    if is_row or isinstance(sizes, (int, dict)):
        sizes = [sizes]
    rows, names = [], ", ".join(symbols)
    for entry in sizes:
        if isinstance(entry, dict):
            values = entry
        else:
            parts = tuple(entry) if isinstance(entry, (tuple, list)) else (entry,)
            if len(parts) != len(symbols):
                text = f"sizes: {entry!r} gives {len(parts)} of {len(symbols)} sizes"
                raise ArgumentError(f"{text} ({names or 'there are none'})")
            values = dict(zip(symbols, parts))
        if set(values) != set(symbols):
            expected = "exactly the sizes of the shapes and parameters"
            raise ArgumentError(f"sizes: {entry!r} must have {expected}: {names}")
        if not all(hasattr(v, "__index__") and v >= 0 for v in values.values()):
            raise ArgumentError(f"sizes: {entry!r}: expected whole numbers >= 0")
        rows.append({n: int(values[n]) for n in symbols})
    if not rows:
        raise ArgumentError("sizes is empty: nothing would be checked")
    return rows


def default_sizes(
    symbols: Sequence[str],
    sides: Mapping[str, int],
    most: int,
    first: bool = True,
    other: int = 16,
) -> list[Sizes]:
    """Return default sizes: 1, 2, 3, primes, a large one, and some near a block's side.

    sides: the length of a block along each symbol. most: the largest product of all
    sizes. first: whether the sizes are for the first launch shape; later shapes get
    fewer. other: the length for symbols along which no side of a block runs, such as
    the length of a sum that is computed in tiles.
    """
    if not symbols:
        return [{}]
    side = [sides.get(s, 3 if len(symbols) > 3 else other) for s in symbols]
    count = len(symbols)
    turns = itertools.cycle((-1, 1, 0))
    mixed = [max(1, b + d) for b, d in zip(side, turns)]
    rows = [[max(1, b - 1) for b in side], [b + 1 for b in side]]
    if first:
        small = [[1], [2], [3]] if count == 1 else [[1], [2, 3, 1], [3, 1, 2]]
        rows = [[r[i % len(r)] for i in range(count)] for r in small] + rows
        large = 1009 if count == 1 else 0
        rows += [side, mixed, [large or 2 * b + p for b, p in zip(side, PRIMES * 3)]]
    elif count <= 2:
        rows.append([2 * b + 1 for b in side])
    rows.insert(-1, [PRIMES[i % len(PRIMES)] for i in range(count)])
    rows = [_at_most(row, most, symbols, sides) for row in rows]
    unique = list(dict.fromkeys(map(tuple, rows)))
    return [dict(zip(symbols, row)) for row in unique]


def _at_most(
    row: list[int], most: int, symbols: Sequence[str], sides: Mapping[str, int]
) -> list[int]:
    """Limit the sizes' product to `most`; first shrink sizes that no block covers."""
    row = list(row)
    while math.prod(row) > most:
        uncovered = [i for i, s in enumerate(symbols) if s not in sides and row[i] > 2]
        candidates = uncovered or range(len(row))
        largest = max(candidates, key=lambda i: row[i])
        row[largest] = max(1, row[largest] * 2 // 3)
    return row
