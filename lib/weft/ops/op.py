"""An op in Python: its twin in PyTorch, its arrays' shapes, and weft.h's declarations.

A module of cases/ makes an Op from the twin and the shapes. The Python function, its
gradients, the calls of its cases, and the arguments for benchmarks follow from the
declarations.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..base.errors import ArgumentError
from ..toolchain import native
from ..toolchain.native import write_value
from .bindings import ANY, LEADING, CallPlan, Differentiable, Extents
from .calls import Array, is_traced, same_kind, wants_gradients
from .cases import Answer, Case, Tensors

OtherSize = int | Callable[[int], int]
_NO_NAMES: dict[str, Any] = {"__builtins__": {}}


@dataclass(frozen=True)
class Bench:
    """The sizes for timing an op, by name.

    size: the size that varies. usual: its usual values. others: the other sizes, each
    fixed or a function of the varying size. same: sizes that equal the varying size.
    counted, on_gpu: sizes that replace those of `others` if the traffic is counted, or
    if a GPU is timed. flop: the number of floating-point operations for these sizes, if
    it limits the speed. beside_copy: whether to time a copy, too, which shows the
    memory's speed. numpy: NumPy's functions by name, which take NumPy arrays and the
    twin's other arguments.
    torch_waits: whether PyTorch's op waits for a number from the GPU.
    """

    size: str
    usual: Sequence[int]
    others: Mapping[str, OtherSize] = field(default_factory=dict)
    same: Sequence[str] = ()
    flop: Callable[[Mapping[str, int]], float] = lambda sizes: 0.0
    counted: Mapping[str, OtherSize] = field(default_factory=dict)
    on_gpu: Mapping[str, OtherSize] = field(default_factory=dict)
    beside_copy: bool = False
    numpy: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    torch_waits: bool = False

    def sizes_for(
        self, size: int, counted: bool = False, on_gpu: bool = False
    ) -> dict[str, int]:
        """Return all sizes of the problem whose varying size is `size`.

        counted: whether the op's traffic is counted instead of its time. on_gpu:
        whether a GPU is timed.
        """
        special = self.counted if counted else self.on_gpu if on_gpu else {}
        others = dict(self.others) | dict(special)
        sizes = dict.fromkeys((self.size, *self.same), size)
        for name, other in others.items():
            sizes[name] = other(size) if callable(other) else other
        return sizes


class Op:
    """An op as a module of cases/ describes it.

    twin: the op in PyTorch. The Python function has its name, parameters and docstring.
    An array whose default is None may be omitted.

    shapes: each array's sizes, with their names in weft.h, such as "n, c, h // kh",
    or "..." for any shape. "*n, in" allows any number of dimensions, of which all but
    the last count as one. A parameter of the twin that represents two numbers is
    included, too.

    skipped: gradients that the backward pass leaves out if their pointer is NULL.
    below: for an array of integers, the size that must exceed every element. only:
    additional parameters of PyTorch's function, each with the one value that the op
    supports, or with the name of the parameter whose value it shares. extra: outputs
    that exist only if an optional array is given, by the array's name. Benchmarks omit
    `only` and `extra`. length: the output that contains the number of valid elements in
    the first output. floor: the bytes that the op must move, if not those of all
    arrays. drawn: like below, but only random integers stay below the size; others need
    not. Without a limit, random integers have any value of their type from 0 up.
    results: the outputs that the function returns as a tuple if they exist; without
    them, it returns the first output alone. words: outputs, each with an input of the
    same dtype. Both are int32_t in weft.h and may be int32, uint32 or float32 (WORDS in
    bindings.py); weft.h's number `kind` is the index of the first input's dtype there.
    instead: an expression with gradients, for the error message of an op without them.
    bench: the sizes for timing; benchmarks omit an op without them.
    """

    def __init__(
        self,
        twin: Callable[..., torch.Tensor],
        shapes: Mapping[str, str],
        skipped: Sequence[str] = (),
        below: Mapping[str, str] | None = None,
        only: Mapping[str, Any] | None = None,
        extra: Mapping[str, str] | None = None,
        length: str = "",
        floor: Callable[[Mapping[str, int]], float] | None = None,
        drawn: Mapping[str, str] | None = None,
        results: Sequence[str] = (),
        words: Mapping[str, str] | None = None,
        instead: str = "",
        bench: Bench | None = None,
    ):
        self.name, self.twin = twin.__name__, twin
        texts = shapes.items()
        self.many = {name for name, text in texts if text.startswith(LEADING)}
        self.shapes = {n: _parse_dims(text.removeprefix(LEADING)) for n, text in texts}
        self.extents = {name: _make_extents(dims) for name, dims in self.shapes.items()}
        self.skipped, self.below, self.only = skipped, below or {}, only or {}
        self.extra, self.length, self.floor = extra or {}, length, floor
        self.drawn = {**self.below, **(drawn or {})}
        self.results, self.words, self.bench = results, words or {}, bench
        self.instead = instead
        self.omitted = {*self.extra, *self.extra.values()}
        self.parameters = inspect.signature(twin).parameters
        # The op of torch.ops.weft, which launcher_ops.py sets.
        self.library: Callable[[Sequence[Any], str | None], Any] | None = None
        self._plan: tuple[Any, CallPlan | None] = None, None

    @property
    def plan(self) -> CallPlan:
        """Return the plan of calls; rebuild it when weft.h's declarations change."""
        header, plan = self._plan
        if plan is None or header is not native.ffi:
            plan = CallPlan(self)
            self._plan = native.ffi, plan
        return plan

    def function(self) -> Callable[..., Array]:
        """Return the op as a Python function: the twin's parameters, and `rung`."""
        defaults = [parameter.default for parameter in self.parameters.values()]
        required = defaults.count(inspect.Parameter.empty)

        def call(*args: Any, rung: str | None = None, **keywords: Any) -> Array:
            if keywords or not required <= len(args) <= len(defaults):
                args = self._complete(args, keywords)
            return self.run((*args, *defaults[len(args) :]), rung)

        call.__name__ = call.__qualname__ = self.name
        call.__module__, call.__doc__ = __package__, self.twin.__doc__
        rung = inspect.Parameter("rung", inspect.Parameter.KEYWORD_ONLY, default=None)
        call.__signature__ = inspect.Signature([*self.parameters.values(), rung])
        return call

    def run(self, args: Sequence[Any], rung: str | None) -> Array:
        """Run the op on the arguments of its twin, in that order."""
        if is_traced(args[0]) and self.library:
            return self.library(args, rung)
        plan = self.plan
        tensors, numbers = plan.bind(args)
        if plan.in_place:
            plan.want_room(args, tensors)
        gradients = wants_gradients(*tensors.values())
        if gradients:
            plan.want_gradients(tensors)
        if plan.is_empty(tensors, numbers):
            y = plan.of_nothing(rung, tensors, numbers)
        elif gradients:
            y = Differentiable.apply((plan, rung, numbers), *tensors.values())
        else:
            y = plan.forward(rung, tensors, numbers)
        for i in plan.in_place:
            # Inform autograd that the tensor has changed.
            if not tensors[i.name].is_inference():
                torch.autograd.graph.increment_version(tensors[i.name])
            return args[i.at]
        names = self.results or (plan.result,)
        found = y if isinstance(y, tuple) else (y,)
        parts = [self.unfold(name, one, numbers) for name, one in zip(names, found)]
        parts = [same_kind(args[0], part) for part in parts]
        return tuple(parts) if isinstance(y, tuple) else parts[0]

    def unfold(
        self, name: str, y: torch.Tensor, numbers: Mapping[str, Any]
    ) -> torch.Tensor:
        """Give an output the leading dimensions that bind() has folded into one."""
        leading = numbers.get(LEADING)
        if leading is None or name not in self.many:
            return y
        return y.view(*leading, *y.shape[1:])

    def _complete(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> list[Any]:
        """Return all arguments in the twin's order, with defaults filled in."""
        takes = f"it takes {', '.join([*self.parameters, 'rung'])}"
        if len(args) > len(self.parameters):
            raise ArgumentError(f"{self.name}: {len(args)} arguments, but {takes}")
        arguments = dict(zip(self.parameters, args))
        fixed = {name: keywords.pop(name) for name in self.only if name in keywords}
        for name in keywords:
            if name not in self.parameters:
                raise ArgumentError(f"{self.name}: no argument '{name}': {takes}")
            if name in arguments:
                raise ArgumentError(f"{self.name}: {name} is given twice")
        arguments |= keywords
        for name, parameter in self.parameters.items():
            if arguments.setdefault(name, parameter.default) is parameter.empty:
                raise ArgumentError(f"{self.name}: {name} is missing: {takes}")
        for name, value in fixed.items():
            want = arguments.get(self.only[name], self.only[name])
            if not _is_same(value, want):
                raise ArgumentError(
                    f"{self.name}: {name}={write_value(value)}: its kernels support "
                    f"only {write_value(want)}"
                )
        return [arguments[name] for name in self.parameters]

    # ---- cases and benchmarks ----------------------------------------------------

    def case(
        self,
        title: str,
        inputs: dict[str, torch.Tensor | None],
        answers: dict[str, Answer],
        initial: Tensors | None = None,
        **options: float,
    ) -> Case:
        """Return a case of the launcher with these outputs; see cases."""
        plan = self.plan
        launcher = plan.launcher
        if not answers.keys() <= set(launcher.outputs):
            title, launcher = f"backward {title}", plan.backward
        arrays = inputs | {name: answer.want for name, answer in answers.items()}
        for name in arrays:
            if self.array(name) not in self.shapes:
                raise ArgumentError(
                    f"{self.name}: {name} of a case is not one of the arrays "
                    f"{', '.join(self.shapes)}; pass a number as {name}=..."
                )
        numbers = self._sizes_of(arrays) | options

        def call(lib, rung, p, stream):
            pointers = [p.get(name, native.NULL) for name in launcher.dtypes]
            values = launcher.values(numbers)
            lib.call(launcher.function, rung, *pointers, *values, stream)

        return Case(self.name, title, inputs, answers, call, initial or {})

    def draw(self, numbers: Mapping[str, Any], device: Any = "cpu") -> list[Any]:
        """Draw random arguments for the twin and the op, with these sizes."""
        return [self._draw(name, numbers, device) for name in self.parameters]

    def count_bytes(self, numbers: Mapping[str, int]) -> float:
        """Count the bytes of all arrays: inputs read once, outputs written once."""
        if self.floor:
            return self.floor(numbers)
        sizes = (
            math.prod(self.shape_of(name, numbers)) * dtype.itemsize
            for name, dtype in self.plan.launcher.dtypes.items()
            if name not in self.omitted
        )
        return float(sum(sizes))

    def array(self, name: str) -> str:
        """Return the name of an array, or of the array to which a gradient belongs."""
        return name if name in self.shapes else name[1:]

    def _sizes_of(self, arrays: Mapping[str, torch.Tensor | None]) -> dict[str, int]:
        """Return the sizes, by name, of these arrays and gradients."""
        sizes: dict[str, int] = {}
        for name, array in arrays.items():
            dims = self.shapes[self.array(name)]
            if array is not None and dims is ANY:
                sizes[self.plan.count] = array.numel()
            elif array is not None and len(dims) == array.dim():
                sizes |= {d: n for d, n in zip(dims, array.shape) if d.isidentifier()}
        return sizes

    def _draw(self, name: str, numbers: Mapping[str, Any], device: Any) -> Any:
        if name in self.omitted:
            return None
        if name not in self.plan.launcher.dtypes:
            default = self.parameters[name].default
            values = [numbers.get(n, default) for n in self.shapes.get(name, (name,))]
            return values if len(values) > 1 else values[0]
        shape = self.shape_of(name, numbers)
        dtype = self.plan.launcher.dtypes[name]
        if dtype.is_floating_point:
            return torch.randn(shape, device=device)
        if name in self.words.values():
            return torch.randint(-(2**31), 2**31, shape, dtype=dtype, device=device)
        limit = self.drawn.get(name)
        most = numbers[limit] if limit else torch.iinfo(dtype).max + 1
        return torch.randint(most, shape, dtype=dtype, device=device)

    def shape_of(self, name: str, numbers: Mapping[str, int]) -> Sequence[int]:
        """Return the dimensions of an array for these sizes."""
        if self.shapes[name] is ANY:
            return [numbers[self.plan.count]]
        return self.extents[name](self.name, numbers)


def _is_same(argument: Any, want: Any) -> bool:
    """Return whether both are the same pair; a number n counts as the pair (n, n)."""

    def pair(value: Any) -> tuple[Any, ...]:
        values = tuple(value) if isinstance(value, Sequence) else (value,)
        return values * 2 if len(values) == 1 else values

    try:
        return bool(pair(argument) == pair(want))
    # A comparison with an array, which is not a pair of numbers, raises these errors.
    except (RuntimeError, ValueError):
        return False


def _parse_dims(text: str) -> tuple[str, ...]:
    """Return the sizes in a shape's text: ("n", "c") for "n, c"."""
    dims = tuple(word.strip() for word in text.split(",") if word.strip())
    return ANY if dims == ANY else dims


def _make_extents(dims: tuple[str, ...]) -> Extents:
    """Return a function of the op's name and the sizes that returns the dimensions."""
    if dims is ANY:
        return lambda op, sizes: sizes[ANY[0]]
    # Plain names need no eval(), which cannot parse a size named `in`.
    if all(dim.isidentifier() for dim in dims):
        return lambda op, sizes: [sizes[dim] for dim in dims]
    code = compile(f"({', '.join(dims)},)", "<shape>", "eval")

    def extents(op: str, sizes: Mapping[str, Any]) -> list[int]:
        try:
            return [max(0, extent) for extent in eval(code, _NO_NAMES, sizes)]
        except ZeroDivisionError:
            text = ", ".join(f"{name} = {size}" for name, size in sizes.items())
            raise ArgumentError(f"{op}: the result has no size for {text}") from None

    return extents
