"""The lab's kernels in Triton, kernels/OP/in_triton.py, and three ways to run them.

    load_programs("softmax")           the file's functions, in the first available way
    check_programs("softmax", way)     compare them with float64
    find_ways()                        the ways; for an absent one, the reason

"gpu": Triton compiles the programs. "interpreter": Triton runs them in Python, without
a GPU (TRITON_INTERPRET=1). "twin": `twin`, below, runs them without Triton, and is
stricter than the interpreter: a load or store outside its array raises OutOfArray, and
the lanes that a mask excludes contain NaN unless `other` is given.

The twin contains only what the lab's programs use. Its blocks are torch tensors, which
round bfloat16 as a GPU does. Source for the language's semantics: triton.language in
Triton's documentation.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import inspect
import itertools
import math
import os
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..base.arrays import Guarded
from ..base.errors import ArgumentError, Mismatch
from ..base.paths import KERNELS
from .cases import Case, cases, find_op
from .cases.matmul import Product, matmul_case
from .check import RungVerdict, run_case

# ---- the twin ------------------------------------------------------------------------


class OutOfArray(Mismatch):
    """A program used an element outside an array, and no mask excluded it.

    verb: "load" or "store". array: its name. program: the program's index on three
    axes, of which the grid has `axes`. at: the index of each lane, flat. used: whether
    the mask includes each lane. count: the array's number of elements.
    """

    def __init__(self, verb: str, pointer: _Pointer, at: Any, used: Any):
        self.verb, self.array = verb, pointer.name
        self.program, self.axes = twin.language.program, twin.language.axes
        self.at, self.used = at.flatten(), used.flatten()
        self.count = len(pointer.memory)
        wrong = self.at[self.used & _is_outside(self.at, self.count)]
        place = f"program {', '.join(map(str, self.program[: self.axes]))}"
        super().__init__(
            f"{verb}, {place}: {len(wrong)} of {len(self.at)} lanes use an element "
            f"outside {self.array}, which has {self.count}: the first is "
            f"{self.array}[{int(wrong[0])}]; a mask must exclude them"
        )


def _is_outside(at: torch.Tensor, count: int) -> torch.Tensor:
    return (at < 0) | (at >= count)


class _Pointer:
    """The addresses of some elements of an array; adding a number moves them all."""

    def __init__(self, name: str, memory: torch.Tensor, at: Any = 0):
        self.name, self.memory, self.at = name, memory, torch.as_tensor(at)

    def __add__(self, distance: Any) -> _Pointer:
        return _Pointer(self.name, self.memory, self.at + distance)

    __radd__ = __add__

    def find(self, verb: str, mask: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the index of each lane, and which lanes the mask includes."""
        mask = torch.as_tensor(True if mask is None else mask)
        at, used = torch.broadcast_tensors(self.at, mask)
        if (used & _is_outside(at, len(self.memory))).any():
            raise OutOfArray(verb, self, at, used)
        return at, used


class _Language:
    """The names of triton.language that the lab's programs use."""

    constexpr = int  # an annotation
    float32, float16, bfloat16 = torch.float32, torch.float16, torch.bfloat16
    exp, where, maximum = torch.exp, torch.where, torch.maximum

    def __init__(self):
        self.program, self.axes = (0, 0, 0), 1

    def program_id(self, axis: int) -> int:
        return self.program[axis]

    def arange(self, start: int, end: int) -> torch.Tensor:
        if (end - start) & (end - start - 1) or end <= start:
            raise ArgumentError(
                f"arange({start}, {end}): the length {end - start} is not a power of "
                "two, which Triton requires"
            )
        return torch.arange(start, end)

    def load(self, pointer: _Pointer, mask: Any = None, other: Any = None) -> Any:
        at, used = pointer.find("load", mask)
        memory = pointer.memory
        if other is None:  # Triton leaves these lanes undefined
            floats = memory.dtype.is_floating_point
            other = math.nan if floats else torch.iinfo(memory.dtype).max
        if not len(memory):
            return torch.full(at.shape, other, dtype=memory.dtype)
        return torch.where(used, memory[torch.where(used, at, 0)], other)

    def store(self, pointer: _Pointer, value: Any, mask: Any = None) -> None:
        at, used = pointer.find("store", mask)
        value = torch.as_tensor(value).to(pointer.memory.dtype)
        pointer.memory[at[used]] = value.expand(at.shape)[used]

    def zeros(self, shape: Any, dtype: torch.dtype) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype)

    def full(self, shape: Any, value: float, dtype: torch.dtype) -> torch.Tensor:
        return torch.full(shape, value, dtype=dtype)

    def max(self, block: torch.Tensor, axis: int) -> torch.Tensor:
        return block.amax(axis)

    def sum(self, block: torch.Tensor, axis: int) -> torch.Tensor:
        return block.sum(axis)

    def dot(self, a: Any, b: Any, acc: Any = 0.0, input_precision: str = "") -> Any:
        """Multiply in float32: the twin has no tensor cores that round to tf32."""
        return acc + a.float() @ b.float()


OPTIONS = ("num_warps", "num_stages")  # for Triton's compiler; the twin ignores them


class _Program:
    """The result of triton.jit(function); program[grid](...) runs the grid."""

    def __init__(self, function: Callable[..., None]):
        self.function, self.__name__ = function, function.__name__
        self.names = [*inspect.signature(function).parameters]

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def launch(*args: Any, **more: Any) -> None:
            given = dict(zip(self.names, args)) | more
            given = {n: _point_to(n, x) for n, x in given.items() if n not in OPTIONS}
            language = twin.language
            language.axes = len(grid)
            for turn in itertools.product(*(range(count) for count in grid)):
                language.program = (*turn, 0, 0)[:3]
                self.function(**given)

        return launch

    def __call__(self, *args: Any) -> Any:
        """Run the function as part of another program."""
        return self.function(*args)


def _point_to(name: str, value: Any) -> Any:
    """Turn a tensor into a pointer to the memory from its first to its last element."""
    if not isinstance(value, torch.Tensor):
        return value
    pairs = zip(value.shape, value.stride())
    reach = 1 + sum((size - 1) * stride for size, stride in pairs)
    count = reach if value.numel() else 0
    return _Pointer(name, value.detach().as_strided((count,), (1,)))


twin = types.SimpleNamespace(
    language=_Language(),
    jit=_Program,
    cdiv=lambda a, b: -(-a // b),
    next_power_of_2=lambda n: 1 << (n - 1).bit_length(),
)

# ---- the ways ------------------------------------------------------------------------

WAYS = ("gpu", "interpreter", "twin")


def find_ways() -> dict[str, str]:
    """Return each way with the reason for its absence; "" if it is available."""
    found, on_gpu = importlib.util.find_spec("triton"), torch.cuda.is_available()
    # A folder named triton, without a module, has no origin.
    missing = "" if found and found.origin else "Triton is not installed"
    return {
        "gpu": missing or ("" if on_gpu else "there is no GPU"),
        "interpreter": missing or ("Triton compiles for the GPU" if on_gpu else ""),
        "twin": "",
    }


def load_programs(op: str, way: str = "") -> types.ModuleType:
    """Return the module kernels/OP/in_triton.py, whose programs run in this way.

    way: one of WAYS; by default the first available one. The module's functions have
    the parameters of weft.h without `rung` and `stream`, and take tensors as arrays.
    Raises ArgumentError if the file or the way is absent.
    """
    path = KERNELS / op / "in_triton.py"
    if not path.exists():
        raise ArgumentError(f"{op} has no kernel in Triton; {', '.join(OPS)} have one")
    return load_file(path, way)


OPS = tuple(sorted(path.parent.name for path in KERNELS.glob("*/in_triton.py")))


def load_file(path: Path, way: str = "") -> types.ModuleType:
    """Load a file that imports triton, so that its programs run in this way.

    Raises ArgumentError if the way is absent.
    """
    ways = find_ways()
    way = way or next(name for name, reason in ways.items() if not reason)
    if reason := ways.get(way, f"expected one of {', '.join(WAYS)}"):
        raise ArgumentError(f"way {way!r}: {reason}")
    name = f"weft_{way}_{path.parent.name}"
    if way == "twin":
        module = types.ModuleType(name)
        module.__dict__["__builtins__"] = vars(builtins) | {"__import__": _import}
        exec(compile(path.read_text(), path, "exec"), module.__dict__)
        return module
    if way == "interpreter":
        _start_interpreter()
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _import(name: str, *rest: Any) -> Any:
    """Import `twin` instead of triton and its parts."""
    return twin if name.partition(".")[0] == "triton" else __import__(name, *rest)


def _start_interpreter() -> None:
    """Import Triton so that its own functions are also interpreted."""
    os.environ["TRITON_INTERPRET"] = "1"  # Triton reads it during the import
    triton = importlib.import_module("triton")
    if type(triton.language.sum).__name__ != "InterpretedFunction":
        raise ArgumentError(
            "Triton was imported before this call, without TRITON_INTERPRET=1; set it, "
            "and start again"
        )


def make_call(op: str, args: Sequence[Any]) -> Callable[[], torch.Tensor] | None:
    """Return a function that computes the op with these arguments of its twin.

    Triton compiles the programs for the arguments' GPU. The result is None if the op
    has no kernel in Triton, or if Triton is absent.
    """
    if op not in OPS or find_ways()["gpu"]:
        return None
    run, plan = getattr(load_programs(op, "gpu"), op), find_op(op).plan
    launcher = plan.launcher
    tensors, numbers = plan.bind(args)
    inputs, values = (
        [tensors[name] for name in launcher.inputs],
        launcher.values(numbers),
    )

    def call() -> torch.Tensor:
        y = torch.empty_like(inputs[0])  # each of these ops keeps its first shape
        run(y, *inputs, *values)
        return y

    return call


# ---- checks --------------------------------------------------------------------------


class _Caller:
    """A library whose functions are those of a module, for run_case()."""

    def __init__(self, module: types.ModuleType):
        self.module = module

    def call(self, function: str, *args: Any) -> None:
        if function == "weft_sync":
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            return
        _, *args, _ = args  # without rung and stream
        getattr(self.module, function.removeprefix("weft_"))(*args)


def check_programs(op: str, way: str = "", some: Any = None) -> RungVerdict:
    """Check an op's kernel in Triton against float64, as check_op() checks a rung.

    some: cases instead of all. Raises Mismatch if a result exceeds its bound.
    """
    caller = _Caller(load_programs(op, way))
    way = way or next(name for name, reason in find_ways().items() if not reason)
    device = torch.device("cuda" if way == "gpu" else "cpu")
    runs, worst = 0, 0.0
    for case in list_cases(op) if some is None else some:
        try:
            with np.errstate(all="ignore"):  # the interpreter computes with NumPy
                worst = max(worst, run_case(caller, 0, case, device, _flat))
        except Mismatch as error:
            raise Mismatch(f"{op} in Triton ({way}), {case.title}: {error}") from None
        runs += 1
    return RungVerdict(op, "in_triton", "fp32", way, runs, worst)


def _flat(array: Guarded) -> torch.Tensor:
    return array.tensor


_PRODUCTS = [
    *[Product(1, 1, 1), Product(2, 3, 1), Product(1, 7, 13), Product(31, 33, 34)],
    *[Product(64, 64, 32), Product(65, 127, 33), Product(5, 3, 700)],
    *[Product(37, 35, 37, values=kind) for kind in ("special", "huge", "tiny")],
]


def list_cases(op: str) -> Iterator[Case]:
    """Yield the cases of an op; for matmul, those without options of weft.h."""
    if op != "matmul":
        yield from cases(op)
        return
    generator = torch.Generator().manual_seed(0)
    for product in _PRODUCTS:
        case = matmul_case(generator, product, "fp32")
        sizes = product.m, product.n, product.k

        def launch(lib, rung, p, stream, sizes=sizes):
            lib.call("weft_matmul", rung, p["c"], p["a"], p["b"], *sizes, stream)

        case.launch = launch
        yield case
