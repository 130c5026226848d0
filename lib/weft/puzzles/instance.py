"""A puzzle at the size that is drawn: small inputs, what comes out, and what of what.

Nothing is listed by hand: the outputs are the reference's, and an output depends on an
input element if the reference gives another one where that element is another.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..check.cases import Spec, by_name, spec
from ..check.problem import Problem, wide
from ..guarded import poison

Arrays = dict[str, np.ndarray]
OTHERS = 5  # values that an element is tried with
ASKED = 4000  # calls of a reference at most; arrays of more elements get fewer values
FEW = 64  # elements whose values can be read
LARGE = 20  # by how much a value exceeds all others, to see whether it could matter
NOW, COULD = 2, 1


@dataclass(frozen=True)
class Instance:
    """One case of a puzzle: sizes and arrays by name, in the shapes of its checks.

    inputs: as the reference gets them (and, narrowed, a kernel); wants: what the
    outputs and the arrays written in place shall hold; starts: what these hold before.
    axes: the name of each dimension of each array, "" where it has none.
    """

    problem: Problem
    sizes: dict[str, int]
    values: dict[str, Any]
    inputs: Arrays
    starts: Arrays
    wants: Arrays
    axes: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def numbers(self) -> dict[str, Any]:
        """Sizes and other arguments that are plain numbers."""
        return self.sizes | self.values

    def asked(self, inputs: Arrays) -> np.ndarray:
        """All outputs of the reference for other inputs, flat, one after the other."""
        return _flat(_answer(self.problem, inputs, self.numbers, self.starts))


def instance(puzzle: Any) -> Instance:
    """The case that a puzzle draws: `drawn` sizes, small whole numbers as inputs.

    An input with a maker of its own (checks' data=) has that maker's numbers.
    """
    checks = dict(puzzle.checks)
    dtypes, data = checks.get("dtypes") or {}, checks.get("data") or {}
    groups = [
        {
            name: spec(name, one, dtypes)
            for name, one in (checks.get(what) or {}).items()
        }
        for what in ("outputs", "inputs", "inout")
    ]
    sizes = dict(puzzle.drawn)
    rng = np.random.default_rng(7)
    values = {
        name: _whole(by_name(v, sizes | {"rng": rng})) if callable(v) else v
        for name, v in (checks.get("values") or {}).items()
    }
    problem = Problem(puzzle.spec, *groups, values, list(sizes), data=data)
    outputs, given, inout = groups
    starts = {}
    for name, one in outputs.items():
        dtype = one.dtype or np.dtype(np.float32)
        starts[name] = np.full(one.shape(sizes), poison(dtype), dtype)
    inputs = _chosen(problem, given | inout, sizes, values, starts)
    starts |= {name: inputs[name] for name in inout}
    wants = _answer(problem, inputs, sizes | values, starts)
    axes = {name: one.axes for group in groups for name, one in group.items()}
    return Instance(problem, sizes, values, inputs, starts, wants, axes)


def depends(case: Instance) -> np.ndarray:
    """What depends on what: (outputs, inputs), all arrays flat and in their order.

    NOW: most other values of the input element change the output element. COULD: some
    do (a larger one would be the maximum; a positive one would be kept). 0: none.
    """
    before = case.asked(case.inputs)
    count = sum(a.size for a in case.inputs.values())
    most = max(1, min(OTHERS, ASKED // max(1, count) - 1))
    out = np.zeros((len(before), count), np.int8)
    at = 0
    for name, array in case.inputs.items():
        free = name not in case.problem.data
        free &= (case.problem.inputs | case.problem.inout)[name].data is None
        for element in range(array.size):
            own, far = _others(array, element, most, free)
            changed = [_changed(case, name, element, v, before) for v in own]
            share = np.mean(changed, axis=0) if changed else np.zeros(len(before))
            could = share > 0
            for value in far:
                could |= _changed(case, name, element, value, before)
            out[:, at] = np.where(share > 0.5, NOW, np.where(could, COULD, 0))
            at += 1
    none = ~(out == NOW).any(1)
    out[none] = np.where(out[none] == COULD, NOW, 0)
    return out


def _changed(
    case: Instance, name: str, element: int, value: Any, before: np.ndarray
) -> np.ndarray:
    """Which outputs are others when one element has another value."""
    array = case.inputs[name].copy()
    array.reshape(-1)[element] = value
    try:
        with np.errstate(all="ignore"):
            after = case.asked(case.inputs | {name: array})
    except (ArithmeticError, LookupError, ValueError):
        return np.zeros(len(before), bool)  # no input that the reference takes
    if len(after) != len(before):
        return np.zeros(len(before), bool)
    return ~((after == before) | (np.isnan(after) & np.isnan(before)))


def _others(
    array: np.ndarray, element: int, most: int, free: bool
) -> tuple[list[Any], list[Any]]:
    """Values to try instead: those that the array has elsewhere, and a large one.

    free: whether any number is an input; else only those that the array has.
    """
    here = array.reshape(-1)[element]
    if array.dtype.kind == "b":
        return [not here], []
    kinds = np.unique(array)
    kinds = kinds[kinds != here]
    if not len(kinds):
        return ([here + 1], []) if not free else ([here + 1, here - 2], [])
    chosen = kinds[np.unique(np.linspace(0, len(kinds) - 1, most).astype(int))]
    tall = int(array.max()) + LARGE
    fits = array.dtype.kind == "f" or tall <= np.iinfo(array.dtype).max
    return list(chosen), [tall] if free and fits and most > 1 else []


# ---- inputs ------------------------------------------------------------------------


def _chosen(
    problem: Problem, specs: dict[str, Spec], sizes: dict, values: dict, starts: Arrays
) -> Arrays:
    """Numbers for each input. A maker's float ones only where the reference takes no
    others, or where they are many: a picture, say."""
    numbers = sizes | values
    inputs = {n: _numbers(one, sizes, problem.data.get(n)) for n, one in specs.items()}
    free = [n for n, one in specs.items() if one.data is None]
    for name in free:
        made = inputs[name]
        if name in problem.data and (made.dtype.kind != "f" or made.size > FEW):
            continue
        plain = inputs | {name: _numbers(specs[name], sizes, None)}
        try:
            if _sign_matters(problem, plain, numbers, starts, name):
                plain[name] = _signed(name, plain[name])
            with np.errstate(all="ignore"):
                _answer(problem, plain, numbers, starts)
        except (ArithmeticError, LookupError, ValueError):
            continue  # ArgumentError, a ValueError: outputs of another size
        inputs = plain
    return inputs


def _numbers(one: Spec, sizes: dict[str, int], maker: Callable | None) -> np.ndarray:
    """Values that one can read: small whole numbers, if a maker does not say others."""
    if one.data is not None:
        return one.data.copy()
    shape, dtype = one.shape(sizes), one.dtype or np.dtype(np.float32)
    rng = np.random.default_rng(zlib.crc32(one.name.encode()))
    if maker is not None:
        made = np.asarray(by_name(maker, sizes | {"rng": rng, "shape": shape}))
        made = made.reshape(shape)
        return (made if made.size > FEW else _whole(made)).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    count = int(np.prod(shape))
    if count <= 9:
        return rng.permutation(np.arange(1, 10))[:count].reshape(shape).astype(dtype)
    high = 5 if len(shape) > 1 and min(shape) > 1 else 10
    return rng.integers(high == 5, high, shape).astype(dtype)


def _whole(value: Any) -> Any:
    """A maker's number, or numbers, as small whole ones of the same signs."""
    array = np.asarray(value)
    if array.dtype.kind != "f" or not np.isfinite(array).all():
        return value
    largest = np.abs(array).max(initial=0)
    scale = 9 / largest if 0 < largest < 9 and array.ndim else 1
    whole = np.sign(array) * np.ceil(np.abs(array) * scale)
    return whole if array.ndim else float(whole)


def _signed(name: str, values: np.ndarray) -> np.ndarray:
    """About every third value negative."""
    if values.dtype.kind not in "if":
        return values
    rng = np.random.default_rng(zlib.crc32(f"sign of {name}".encode()))
    flat = values.reshape(-1).copy()
    count = len(flat)
    flat[rng.permutation(count)[: (count + 1) // 3]] *= -1
    return flat.reshape(values.shape)


def _sign_matters(
    problem: Problem, inputs: Arrays, numbers: dict, starts: Arrays, name: str
) -> bool:
    """Whether negative values of an input show what positive ones do not.

    They do not where the outputs follow it up and down alike: f(-x) - f(0) is
    f(0) - f(x).
    """
    if inputs[name].dtype.kind not in "if":
        return False
    sides = []
    for by in (1, 0, -1):
        changed = (inputs[name] * by).astype(inputs[name].dtype)
        with np.errstate(all="ignore"):
            after = _answer(problem, inputs | {name: changed}, numbers, starts)
        sides.append(_flat(after))
    up, flat, down = sides
    return not np.allclose(up - flat, flat - down, equal_nan=True)


def _answer(problem: Problem, inputs: Arrays, numbers: dict, starts: Arrays) -> Arrays:
    return problem._wants(problem.answer(wide(inputs) | numbers), starts)


def _flat(arrays: Arrays) -> np.ndarray:
    return np.concatenate([np.ravel(a).astype(float) for a in arrays.values()])
