"""The sizes and launches that check an answer, and the puzzle at the drawn size.

every_size() lists every small size and a few large ones. An answer that is wrong at a
single size is wrong, so no small size is left out.

make_instance() makes the drawn case. The reference computes the outputs, and an output
depends on an input element if it changes with that element.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base.arrays import poison
from ..base.errors import ArgumentError
from ..check.cases import Spec, by_name, divide_up, names_of, spoken_of
from ..check.problem import Problem, widen_values

SMALL = 16  # Every length up to this one is tried.


def cover(size: Any, block: Any, more: int = 0) -> tuple[Any, Any]:
    """Return (grid, block) with a thread for each of `size` elements.

    size, block: numbers, or (x, y). more: extra blocks in each dimension.
    """
    if isinstance(size, int):
        return divide_up(size, block) + more, block
    return tuple(divide_up(n, side) + more for n, side in zip(size, block)), block


def blocks_of(threads: int, more: int = 0) -> Callable[[int], tuple[int, int]]:
    """Return a launch with a thread for each of n elements, and `more` extra blocks."""
    return lambda n: cover(n, threads, more)


def every_size(own: Sequence[Any], *large: Any, most: Any = SMALL) -> list[Any]:
    """Return `own` in order, then sizes with every length of each side, then `large`.

    own, large: numbers, or tuples with a number for each side. `own` comes first, since
    the reader sees the first size that fails. most: the longest side, as a number or as
    one number for each side. Raises ArgumentError if the numbers of sides differ.
    """
    if not own:
        raise ArgumentError("every_size([]): at least one size is required")
    rows = [size if isinstance(size, tuple) else (size,) for size in (*own, *large)]
    sides = len(rows[0])
    for row in rows:
        if len(row) != sides:
            raise ArgumentError(f"sizes: {row} has {len(row)} sides, not {sides}")
    limits = most if isinstance(most, tuple) else (most,) * sides
    if len(limits) != sides:
        raise ArgumentError(f"most={most!r}: expected {sides} lengths, one for a side")
    rows[len(own) : len(own)] = _list_small(limits)
    return [row if isinstance(own[0], tuple) else row[0] for row in dict.fromkeys(rows)]


def _list_small(limits: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
    """Yield rows in which each side takes every length from 1 to its limit.

    Each side has its own stride through the lengths, so that short lengths meet long
    ones.
    """
    strides = [_choose_stride(limit, turn) for turn, limit in enumerate(limits)]
    for i in range(max(limits)):
        yield tuple(
            (i * stride + turn) % limit + 1
            for turn, (stride, limit) in enumerate(zip(strides, limits))
        )


def _choose_stride(limit: int, turn: int) -> int:
    """Choose a stride that skips no length, since it shares no divisor with `limit`."""
    first = 2 * turn + 1
    return next(s for s in range(first, first + limit + 1) if math.gcd(s, limit) == 1)


Arrays = dict[str, np.ndarray]
OTHERS = 5  # number of other values to try for each element
# Approximate limit on the calls to the reference function; it determines how many
# values are tried for each element.
CALLS = 500
MANY = 150  # largest number of input elements that are tried one by one
FEW = 64  # largest number of elements whose values are readable
# Amount by which a trial value exceeds all others. The trial shows whether an element
# could matter.
LARGE = 20
NOW, COULD = 2, 1


@dataclass(frozen=True)
class Instance:
    """One case of a puzzle: sizes and arrays by name, in the shapes of its checks.

    inputs: the arguments of the reference (and, narrowed, of a kernel). wants: the
    expected outputs and arrays written in place; starts: the contents of these before
    the call. axes: the names of each array's dimensions, "" for a dimension without
    one. bounded: inputs whose maker restricts their values.
    """

    problem: Problem
    sizes: dict[str, int]
    values: dict[str, Any]
    inputs: Arrays
    starts: Arrays
    wants: Arrays
    axes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    bounded: frozenset[str] = frozenset()

    @property
    def numbers(self) -> dict[str, Any]:
        """Sizes and other arguments that are plain numbers."""
        return self.sizes | self.values

    def asker(self) -> Callable[[Arrays], np.ndarray]:
        """Return the reference as a function of the inputs alone.

        The function returns all outputs, flat and concatenated. It is called thousands
        of times, so names are looked up only once.
        """
        pool = widen_values(self.inputs) | self.numbers
        reference, names = self.problem.reference, names_of(self.problem.reference)
        in_order = not names or not set(names) <= set(pool)
        order = list(self.inputs) if in_order else list(names or ())

        def ask(changed: Arrays) -> np.ndarray:
            arguments = [changed.get(name, pool[name]) for name in order]
            with np.errstate(all="ignore"):
                result = reference(*arguments)
            parts = result if isinstance(result, tuple) else (result,)
            if isinstance(result, dict):
                parts = tuple(result[name] for name in self.wants)
            return np.concatenate([np.asarray(p, float).reshape(-1) for p in parts])

        return ask


def make_instance(puzzle: Any) -> Instance:
    """Return the case to draw: `drawn` sizes, small whole numbers as inputs.

    An input with its own maker (data= in the checks) may get that maker's numbers.
    """
    checks, sizes = puzzle.checks, dict(puzzle.drawn)
    groups, data = spoken_of(checks), checks.get("data") or {}
    rng = np.random.default_rng(7)
    values = {
        name: _round_whole(by_name(v, sizes | {"rng": rng})) if callable(v) else v
        for name, v in (checks.get("values") or {}).items()
    }
    problem = Problem(puzzle.spec, *groups, values, list(sizes), data=data)
    outputs, input_specs, inout = groups
    starts = {}
    for name, one in outputs.items():
        dtype = one.dtype or np.dtype(np.float32)
        starts[name] = np.full(one.shape(sizes), poison(dtype), dtype)
    specs = input_specs | inout
    inputs, bounded = _choose_inputs(problem, specs, sizes, values, starts)
    inputs = _shrink_inputs(problem, inputs, bounded, sizes | values, starts)
    starts |= {name: inputs[name] for name in inout}
    wants = _compute_answer(problem, inputs, sizes | values, starts)
    axes = {name: one.axes for group in groups for name, one in group.items()}
    return Instance(problem, sizes, values, inputs, starts, wants, axes, bounded)


# ---- dependences -----------------------------------------------------------------


def find_dependences(case: Instance, outputs: Sequence[int]) -> np.ndarray:
    """Return the dependences of output elements as an array (outputs, inputs).

    NOW: most other values of the input element change the output element. COULD: some
    values change it (a larger one would be the maximum; a positive one would be kept).
    0: no value changes it. If no element changes an output with each of its other
    values, the output compares all elements, as an argmax does. Each element that could
    change it is then NOW. If there are more than MANY input elements, groups are
    changed together, and split if one of the outputs changes.
    """
    count = sum(a.size for a in case.inputs.values())
    try_ = _Trial(case, np.asarray(outputs, int))
    out = np.zeros((len(outputs), count), np.int8)
    compared = np.ones(len(outputs), bool)
    at = 0
    for name, array in case.inputs.items():
        elements = np.arange(array.size)
        if count > MANY:
            elements = try_.select_relevant(name, elements)
        for element in elements.tolist():
            kinds, always = try_.classify(name, element)
            out[:, at + element] = kinds
            compared &= ~always
        at += array.size
    out[compared] = np.where(out[compared] > 0, NOW, 0)
    return out


class _Trial:
    """Calls of the reference with changed inputs."""

    def __init__(self, case: Instance, outputs: np.ndarray) -> None:
        self.case, self.outputs = case, outputs
        self.inputs = widen_values(case.inputs)
        self.ask = case.asker()
        self.all_before = self.ask({})
        self.before = self.all_before[outputs]
        count = sum(a.size for a in case.inputs.values())
        self.most = max(1, min(OTHERS, CALLS // max(1, count) - 1))

    def select_relevant(self, name: str, elements: np.ndarray) -> np.ndarray:
        """Find the elements of an input that could matter, by repeated halving."""
        if not self._mask_changed(name, elements, self._vary(name, elements)).any():
            return elements[:0]
        if len(elements) == 1:
            return elements
        half = len(elements) // 2
        parts = (elements[:half], elements[half:])
        return np.concatenate([self.select_relevant(name, part) for part in parts])

    def _vary(self, name: str, elements: np.ndarray) -> np.ndarray:
        """Return another value for each element, so that changes do not cancel out."""
        values = self.inputs[name].reshape(-1)[elements]
        if name in self.case.bounded or values.dtype.kind == "b":
            kinds = np.unique(self.inputs[name])
            return kinds[(np.searchsorted(kinds, values) + 1) % len(kinds)]
        return values + 1 + elements % 61

    def classify(self, name: str, element: int) -> tuple[np.ndarray, np.ndarray]:
        """Return how each output depends on one element: NOW, COULD or 0.

        Also return whether every other value of the element changes the output.
        """
        free = name not in self.case.bounded
        near, far = _other_values(self.inputs[name], element, self.most, free)
        changed = [self._mask_changed(name, element, value) for value in near]
        share = np.mean(changed, axis=0)
        could, always = share > 0, share == 1
        for value in far:
            changes = self._mask_changed(name, element, value)
            could, always = could | changes, always & changes
        return np.where(share > 0.5, NOW, np.where(could, COULD, 0)), always

    def _mask_changed(self, name: str, at: Any, value: Any) -> np.ndarray:
        """Return a mask of the outputs that change when elements get other values."""
        array = self.inputs[name].copy()
        array.reshape(-1)[at] = value
        nothing = np.zeros(len(self.before), bool)
        try:
            results = self.ask({name: array})
        except (ArithmeticError, LookupError, ValueError):
            return nothing  # the reference does not accept the input
        if len(results) != len(self.all_before):
            return nothing
        results = results[self.outputs]
        return ~((results == self.before) | (np.isnan(results) & np.isnan(self.before)))


def _other_values(
    array: np.ndarray, element: int, most: int, free: bool
) -> tuple[list[Any], list[Any]]:
    """Return other values to try: those elsewhere in the array, and a large one.

    If all elements are equal, the values are other numbers. free: whether any number is
    a valid input; otherwise, only the array's own values are valid.
    """
    values = array.reshape(-1)[element]
    if array.dtype.kind == "b":
        return [not values], []
    kinds = np.setdiff1d(array, values)
    if not len(kinds):
        return [values + 1, values - 2] if free else [values + 1], []
    chosen = kinds[np.unique(np.linspace(0, len(kinds) - 1, most).astype(int))]
    tall = int(array.max()) + LARGE
    fits = array.dtype.kind == "f" or tall <= np.iinfo(array.dtype).max
    return list(chosen), [tall] if free and fits and most > 1 else []


# ---- inputs ------------------------------------------------------------------------


def _choose_inputs(
    problem: Problem, specs: dict[str, Spec], sizes: dict, values: dict, starts: Arrays
) -> tuple[Arrays, frozenset[str]]:
    """Choose numbers for each input; also return the bounded inputs.

    A maker's floats are used only if the reference accepts no others, or if the array
    is large, as for an image. A maker's whole numbers are always used.
    """
    numbers = sizes | values
    data = problem.data
    inputs = {n: _draw_numbers(one, sizes, data.get(n)) for n, one in specs.items()}
    bounded = {n for n, one in specs.items() if one.data is not None}
    for name in [n for n in specs if n not in bounded]:
        array = inputs[name]
        if name in problem.data and (
            array.dtype.kind != "f"
            or array.size > FEW
            or _call_maker(specs[name], sizes, problem.data[name]).dtype.kind != "f"
        ):
            bounded |= {name} if array.dtype.kind != "f" else set()
            continue
        plain = inputs | {name: _draw_numbers(specs[name], sizes, None)}
        try:
            if _sign_matters(problem, plain, numbers, starts, name):
                plain[name] = _alternate_signs(name, plain[name])
            with np.errstate(all="ignore"):
                _compute_answer(problem, plain, numbers, starts)
        except (ArithmeticError, LookupError, ValueError):
            # Outputs of another size raise ArgumentError, which is a ValueError.
            bounded.add(name)
            continue
        inputs = plain
    return inputs, frozenset(bounded)


def _make_rng(one: Spec) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(one.name.encode()))


def _call_maker(one: Spec, sizes: dict[str, int], maker: Callable) -> np.ndarray:
    """Return the array that an input's maker returns."""
    shape = one.shape(sizes)
    pool = sizes | {"rng": _make_rng(one), "shape": shape}
    return np.asarray(by_name(maker, pool)).reshape(shape)


def _draw_numbers(
    spec: Spec, sizes: dict[str, int], maker: Callable | None
) -> np.ndarray:
    """Return readable values for an input.

    spec.data is copied. A maker's array is used, but rounded to small whole numbers if
    it has at most FEW elements. Without either, the values are small whole numbers, or
    0, 1, 2, ... for a larger array of several dimensions.
    """
    if spec.data is not None:
        return spec.data.copy()
    shape, dtype = spec.shape(sizes), spec.dtype or np.dtype(np.float32)
    if maker is not None:
        array = _call_maker(spec, sizes, maker)
        return (array if array.size > FEW else _round_whole(array)).astype(dtype)
    rng = _make_rng(spec)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    count = int(np.prod(shape))
    if count <= 9:
        return rng.permutation(np.arange(1, 10))[:count].reshape(shape).astype(dtype)
    if len(shape) > 1 and count > FEW:  # increasing values show where elements move
        return np.arange(count).reshape(shape).astype(dtype)
    return rng.integers(0, 5 if count > 24 else 10, shape).astype(dtype)


def _shrink_inputs(
    problem: Problem, inputs: Arrays, bounded: frozenset, numbers: dict, starts: Arrays
) -> Arrays:
    """Divide float inputs by 4 if outputs (such as exponentials) are hard to read."""
    outputs = np.abs(_flatten(_compute_answer(problem, inputs, numbers, starts)))
    if np.mean((outputs > 0) & (outputs < 0.01)) < 0.25:
        return inputs
    return {
        name: a if name in bounded or a.dtype.kind != "f" else np.rint(a / 4)
        for name, a in inputs.items()
    }


def _round_whole(value: Any) -> Any:
    """Round a maker's number or array to small whole numbers of the same signs."""
    array = np.asarray(value)
    if array.dtype.kind != "f" or not np.isfinite(array).all():
        return value
    largest = np.abs(array).max(initial=0)
    scale = 9 / largest if largest > 0 and array.ndim else 1
    scaled = np.sign(array) * np.ceil(np.abs(array) * scale)
    return scaled if array.ndim else float(scaled)


def _alternate_signs(name: str, values: np.ndarray) -> np.ndarray:
    """Make about every third value negative, always in the same places for a name."""
    if values.dtype.kind not in "if":
        return values
    rng = np.random.default_rng(zlib.crc32(f"sign of {name}".encode()))
    signs = np.ones_like(values)
    signs.flat[rng.permutation(values.size)[: (values.size + 1) // 3]] = -1
    return values * signs


def _sign_matters(
    problem: Problem, inputs: Arrays, numbers: dict, starts: Arrays, name: str
) -> bool:
    """Return whether negative values of an input show more than positive ones.

    They show no more if a change of sign only mirrors the outputs: f(-x) - f(0) is
    f(0) - f(x).
    """
    if inputs[name].dtype.kind not in "if":
        return False
    sides = []
    for by in (1, 0, -1):
        changed = (inputs[name] * by).astype(inputs[name].dtype)
        shown = inputs | {name: changed}
        with np.errstate(all="ignore"):
            sides.append(_flatten(_compute_answer(problem, shown, numbers, starts)))
    up, flat, down = sides
    return not np.allclose(up - flat, flat - down, equal_nan=True)


def _compute_answer(
    problem: Problem, inputs: Arrays, numbers: dict, starts: Arrays
) -> Arrays:
    return problem._wants(problem.answer(widen_values(inputs) | numbers), starts)


def _flatten(arrays: Arrays) -> np.ndarray:
    return np.concatenate([np.ravel(a).astype(float) for a in arrays.values()])
