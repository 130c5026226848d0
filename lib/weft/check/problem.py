"""The problem of a check: arrays by name, the float64 answer, and its error bound.

Attempt is one run of one case, with its results. fan_in() counts the elements of an
input on which an element of the answer depends. For a product, this number follows from
the sizes. For a softmax, or for a sum that all outputs share, it does not. Therefore,
fan_in() changes an element of an input in the reference, and counts the elements of
the answer that change.

By default, a float output may differ from the answer by 1.01 * terms * u *
reference(|inputs|), with u = 2^-24 for float32. This is the bound of a sum of `terms`
products in any order (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed.,
section 3.1). The default for terms is the number of combinations of the inputs' sizes
per element of the output: k for a matmul, 1 for an elementwise map. A larger result of
fan_in() takes precedence, such as the length of a row for a softmax. Another 8 terms
cover other roundings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ..base.arrays import Guarded, poison, widen_floats
from ..base.errors import ArgumentError, Mismatch
from ..base.text import shorten_repr
from .cases import LaunchShape, Sizes, Spec, by_name, draw_values, names_of
from .runners import ReturningRunner, Runner


@dataclass
class Attempt:
    """One run of one case. got: the outputs; worst: the largest error divided by its
    bound; wrong: the name of the output compared last."""

    trial: Trial
    order: str
    got: dict[str, np.ndarray] = field(default_factory=dict)
    worst: float = 0.0
    error: Mismatch | None = None
    wrong: str = ""

    @property
    def by_value(self) -> bool:
        """Whether the run completed and returned wrong numbers."""
        error = self.error
        return bool(self.wrong) and error is not None and error.want is not None

    def __str__(self) -> str:
        sizes = " ".join(f"{n}={v}" for n, v in self.trial.sizes.items())
        parts = [sizes] if sizes else []
        if self.trial.shape is not None:
            parts.append(str(self.trial.shape))
        if self.order not in ("", "forward"):
            direction = {"reverse": "in reverse"}.get(self.order, self.order)
            parts.append(f"threads {direction}")
        return ", ".join(parts) or "its inputs"


Arrays = dict[str, np.ndarray]
STEP = 1 / 16  # change of an element: large enough to be visible in float64
# A smaller relative change of the answer is a rounding error of the reference.
SAME = 1e-12


def fan_in(
    answer: Callable[[Arrays], Arrays], inputs: Arrays, want: Mapping[str, np.ndarray]
) -> dict[str, int]:
    """Count, for each output, the elements of an input that affect one output element.

    The count is a mean over the output, for the input element with the widest effect.
    answer: a function that returns the outputs for changed inputs. inputs: floats as
    float64; only the first, middle and last element of each are changed.
    """
    counts = dict.fromkeys(want, 0)
    for name, array in inputs.items():
        if array.dtype.kind not in "fc":
            continue  # Integers select elements, so changing them proves nothing.
        for place in sorted({0, array.size // 2, array.size - 1} - {-1}):
            probe = array.copy()
            with np.errstate(invalid="ignore"):  # -infinity becomes NaN
                probe.flat[place] += STEP * (1 + abs(probe.flat[place]))
            for output, count in _count_changed(answer, {name: probe}, want).items():
                per_element = -(-array.size * count // max(1, want[output].size))
                counts[output] = max(counts[output], per_element)
    return counts


def _count_changed(
    answer: Callable[[Arrays], Arrays], inputs: Arrays, want: Mapping[str, np.ndarray]
) -> dict[str, int]:
    """Count the elements of each output that change with these inputs; return {} if the
    reference does not accept the inputs, or returns other shapes."""
    try:
        with np.errstate(all="ignore"):
            results = answer(inputs)
            counts = {}
            for name, expected in want.items():
                old, new = widen_floats(expected), widen_floats(results[name])
                counts[name] = int((np.abs(new - old) > SAME * np.abs(old)).sum())
            return counts
    except Exception:
        return {}


UNIT = {np.dtype(np.float16): 2.0**-11, np.dtype(np.float64): 2.0**-53}
MORE = 8  # terms added to cover roundings outside the sum


@dataclass
class Trial:
    """One case, ready to run: the kernel's inputs, the answers, the bounds.

    starts: the content of each output before the run; index: the number of the case.
    """

    sizes: Sizes
    shape: LaunchShape | None
    index: int
    inputs: Arrays
    starts: Arrays
    values: dict[str, Any]
    want: Arrays = field(default_factory=dict)
    bound: Arrays = field(default_factory=dict)

    @property
    def pool(self) -> dict[str, Any]:
        """All arguments that a reference may name; float arrays as float64."""
        return widen_values(self.inputs) | self.values | self.sizes


@dataclass
class Problem:
    """The function to compute, and its arrays. inout: arrays read and overwritten."""

    reference: Callable[..., Any]
    outputs: dict[str, Spec]
    inputs: dict[str, Spec]
    inout: dict[str, Spec]
    values: dict[str, Any]
    symbols: list[str]
    terms: Any = None
    bound: Any = None
    data: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    seed: int = 0

    @property
    def first_output(self) -> Any:
        """The Spec of the first array that is written; None if there is none."""
        return next(iter((self.outputs | self.inout).values()), None)

    def prepare(
        self, runner: Runner, sizes: Sizes, shape: LaunchShape | None, index: int
    ) -> Trial:
        """Draw the inputs of a case and compute the reference's answer."""
        rng = np.random.default_rng([self.seed, index])
        inputs = {
            name: self._draw(spec, runner, sizes, rng)
            for name, spec in (self.inputs | self.inout).items()
        }
        values = {
            name: by_name(v, sizes | {"rng": rng}) if callable(v) else v
            for name, v in self.values.items()
        }
        starts = {}
        for name, spec in self.outputs.items():
            dtype = spec.dtype or runner.dtype(name)
            starts[name] = np.full(spec.shape(sizes), poison(dtype, index), dtype)
        starts |= {name: inputs[name] for name in self.inout}
        trial = Trial(sizes, shape, index, inputs, starts, values)
        trial.want = self._wants(self.answer(trial.pool), starts)
        if not isinstance(runner, ReturningRunner):
            self.judge(trial, starts)
        return trial

    def _draw(
        self, spec: Spec, runner: Runner, sizes: Sizes, rng: np.random.Generator
    ) -> np.ndarray:
        if spec.data is not None:
            return spec.data.copy()
        shape = spec.shape(sizes)
        dtype = spec.dtype or runner.dtype(spec.name)
        maker = self.data.get(spec.name)
        if maker is None:
            return draw_values(shape, dtype, rng)
        array = np.asarray(by_name(maker, sizes | {"rng": rng, "shape": shape}))
        if array.shape != shape:
            text = f"data for {spec.name}: shape {array.shape}, expected {shape}"
            raise ArgumentError(text)
        return array.astype(dtype)

    def answer(self, pool: Mapping[str, Any]) -> Any:
        """Return the reference's result for these inputs, sizes and values."""
        arrays = {n: pool[n] for n in (*self.inputs, *self.inout)}
        return call(self.reference, arrays, pool)

    def _wants(self, result: Any, starts: Arrays) -> Arrays:
        if not starts:  # the outputs of a returning function have no names
            return name_results(result, None, "the reference")
        results = name_results(result, [*self.outputs, *self.inout], "the reference")
        return {n: fit_answer(n, results[n], s.shape) for n, s in starts.items()}

    def judge(self, trial: Trial, results: Arrays) -> None:
        """Set the error bounds for results; only the dtypes of the results are used."""
        dtypes = {n: a.dtype for n, a in results.items()}
        if self.bound is not None:
            limit = by_name(self.bound, trial.pool | {"want": trial.want})
            limit = limit if isinstance(limit, dict) else dict.fromkeys(dtypes, limit)
            trial.bound = {
                n: np.broadcast_to(np.asarray(limit[n], np.float64), w.shape)
                for n, w in trial.want.items()
            }
            return
        sizes = self._magnitudes(trial)
        floats = [name for name, dtype in dtypes.items() if dtype.kind in "fc"]
        derived = [name for name in floats if self._given_terms(name) is None]
        fan_ins = self._fan_in(trial) if derived else {}
        for name, dtype in dtypes.items():
            want = trial.want[name]
            bound = np.zeros(want.shape)
            if name in floats:
                terms = self._terms(name, trial, want, fan_ins.get(name, 0))
                unit = UNIT.get(dtype if name in trial.starts else None, 2.0**-24)
                with np.errstate(invalid="ignore"):  # 0 * infinity is NaN
                    bound = 1.01 * terms * unit * sizes[name] + 1e-38 * (terms > 0)
            trial.bound[name] = np.where(np.isfinite(bound), bound, 0.0)

    def _magnitudes(self, trial: Trial) -> Arrays:
        """Return reference(|inputs|), but at least the answer's magnitude."""
        # Integers and bools select elements: an index has no magnitude.
        pool = {n: abs(v) if _is_float(v) else v for n, v in trial.pool.items()}
        with np.errstate(all="ignore"):
            try:
                results = self._wants(self.answer(pool), trial.starts)
            except (ArithmeticError, ValueError):  # The reference is undefined for |x|.
                results = trial.want
            sizes = {}
            for name, want in trial.want.items():
                kind = complex if want.dtype.kind == "c" else float
                magnitude = np.abs(want.astype(kind))
                size = np.abs(results.get(name, magnitude)) * np.ones(want.shape)
                size = np.where(np.isfinite(size), size, magnitude)
                sizes[name] = np.maximum(size, magnitude)
        return sizes

    def _fan_in(self, trial: Trial) -> dict[str, int]:
        pool = trial.pool

        def answer(changed: Arrays) -> Arrays:
            return self._wants(self.answer(pool | changed), trial.starts)

        return fan_in(answer, {n: pool[n] for n in trial.inputs}, trial.want)

    def _terms(self, name: str, trial: Trial, want: np.ndarray, fan_in: int) -> float:
        terms = self._given_terms(name)
        if terms is None:
            specs = (self.inputs | self.inout).values()
            named_sizes = {symbol for spec in specs for symbol in spec.symbols}
            combinations = math.prod(trial.sizes[s] for s in named_sizes)
            if not named_sizes:
                combinations = max((a.size for a in trial.inputs.values()), default=1)
            return MORE + max(1, fan_in, -(-combinations // max(1, want.size)))
        if callable(terms):
            return float(by_name(terms, trial.pool))
        if isinstance(terms, str):
            return float(Spec("terms", (terms,), None).shape(trial.sizes)[0])
        return float(terms)

    def _given_terms(self, name: str) -> Any:
        """Return the caller's terms for an output; None if there are none."""
        return self.terms.get(name) if isinstance(self.terms, dict) else self.terms


def make_arguments(runner: Runner, trial: Trial) -> tuple[dict[str, Guarded], list]:
    """Return new guarded copies of the arrays, and the arguments for the runner."""
    contents = (trial.inputs | trial.starts).items()
    arrays = {name: Guarded(array, runner.device) for name, array in contents}
    pool, args = trial.sizes | trial.values, []
    for name in runner.parameters:
        if array := arrays.get(name):
            on_host = runner.device is None
            flat = array.array.ravel() if on_host else array.tensor
            args.append(flat if runner.flat(name) else flat.reshape(array.shape))
        else:
            args.append(pool[name])
    return arrays, args


def widen_values(arrays: Arrays) -> Arrays:
    """Copy the arrays: floats as float64, integers and bools unchanged."""
    return {
        name: a.astype(np.float64) if a.dtype.kind == "f" else a.copy()
        for name, a in arrays.items()
    }


def call(
    function: Callable[..., Any],
    arrays: Arrays,
    pool: Mapping[str, Any],
    copies: bool = True,
) -> Any:
    """Call function(...), by name if `pool` has all its parameters, else in order.

    Arrays are passed as NumPy arrays, or as tensors if the function accepts only those.
    copies: pass copies of the arrays instead of the arrays themselves.
    """
    parameters = names_of(function)
    if parameters and set(parameters) <= set(pool):
        names, keywords = parameters, True
    else:
        names, keywords = list(arrays), False

    def attempt(convert: Callable[[np.ndarray], Any]) -> Any:
        arguments = {n: convert(pool[n]) if n in arrays else pool[n] for n in names}
        return function(**arguments) if keywords else function(*arguments.values())

    try:
        return attempt(np.copy if copies else np.asarray)
    except (TypeError, AttributeError) as error:
        first = error
    try:
        return attempt(lambda a: torch.from_numpy(a.copy() if copies else a))
    except Exception:
        raise first from None


def name_results(result: Any, names: list[str] | None, whose: str) -> Arrays:
    """Return a function's results as arrays by name.

    names: the outputs' names; None: "result", or "result 0", "result 1", ... of a
    tuple. whose: the function's name for error messages.
    """
    if isinstance(result, dict):
        results = result
    elif isinstance(result, tuple) and (names is None or len(names) > 1):
        labels = names or [f"result {i}" for i in range(len(result))]
        if len(labels) != len(result):
            expected = f"expected {len(labels)}: {', '.join(labels)}"
            raise ArgumentError(f"{whose} returns {len(result)} arrays, {expected}")
        results = dict(zip(labels, result))
    else:
        results = {(names or ["result"])[0]: result}
    missing = [n for n in names or () if n not in results]
    if missing:
        raise ArgumentError(f"{whose} does not return {', '.join(missing)}")
    return {n: convert_result(v, n, whose) for n, v in results.items()}


def convert_result(value: Any, name: str, whose: str) -> np.ndarray:
    """Return a result as a NumPy array; raise ArgumentError if it is not numeric."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
    elif isinstance(value, (list, tuple)):
        value = [v.detach() if isinstance(v, torch.Tensor) else v for v in value]
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        array = np.asarray(None)
    if array.dtype.kind not in "biufc":
        text = shorten_repr(value, 60)
        raise ArgumentError(f"{whose} returns {text} for {name}: expected numbers")
    return array


def fit_answer(name: str, want: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the answer reshaped to the output; a flat answer is accepted."""
    flat = want.size == math.prod(shape) and 1 in (want.ndim, len(shape))
    if want.shape == shape or flat or (want.ndim == 0 and math.prod(shape) == 1):
        return want.reshape(shape)
    claim = f"the reference gives {name} the shape {want.shape}"
    raise ArgumentError(f"{claim}, but outputs= gives {shape}")


def _is_float(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind == "f"
    return isinstance(value, (float, np.floating))
