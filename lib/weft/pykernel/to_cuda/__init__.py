"""A Python kernel as CUDA C that a person would have written.

    types = ("float32[:]", "float32[:]", "float32[:]", "int", "int", "int")
    print(to_cuda(matmul, types))

The C does what the kernel does on the simulator, bit for bit where the kernel spells
its types (float32(0), int32(1)). What becomes of it:

                          sim                  Numba     C by to_cuda
    0.5 * float32         float32              float64   float: 0.5f
    0.5 among floats      float64              float64   double
    a // b, a % b         rounds down          the same  / and % where neither can be
                                                         negative, else a helper
    int32 / int32         float64              float64   double
    int32 + float32       float64              float64   double
    i + float32           float32              float64   float
    int32 + int32         int32, wraps         int64     int, wraps
    i * i                 grows                int64     int: stay below 2**31
    int32 << 40, >> 40    0, and 0 or -1       int64     the same on a GPU
    x ** 2                pow                  x * x     x * x
    int32 < uint32        as numbers           the same  the same, by a cast
    float32 / 0           inf or NaN           the same  the same
    int32 // 0            0                    undefined a fault on the CPU

i: a Python int, as are literals, sizes, indices of threads and whole numbers that are
passed (int8 to int64 that fit an int); int32 is an element of an array or int32(...).
Python's own i / 0 and i // 0 raise on sim. Never negative are: threadIdx and its like,
sizes of arrays, loops from such numbers upwards, Python ints passed that are not (each
sign has its translation), and their sums and products. Indices and sizes are C's int,
so an array has at most 2**31 - 1 elements. A variable has one type, that of all that it
is given; both sides of `a if c else b`, and of min and max, are brought to one, too.
A float that an int cannot hold becomes on sim what it does on a GPU: the nearest number
of 32 bits at least, of which the low ones are taken. On the CPU C++ leaves that open,
and such shifts: a watched launch says where.

The same bits hold for + - * / // % of numbers, comparisons, bits, conversions, sqrt,
fabs, floor, ceil, trunc, min, max and fma. Other functions of math, and ** of floats,
are not rounded exactly: within a few units of the last place. On a GPU a * b + c is one
rounding unless the flag says otherwise: cuda_c(kernel, flags="--fmad=false").

    types                           what values are; what has no place in C
    scope                           assignments one by one; where locals are declared
    unit                            a function for its argument types, and its names
    infer, statements               types, least and largest values of everything
    calls, arrays                   ... of what is called
    emit, emit_statements           statements of C
    emit_calls                      calls in C
    expressions, operators          expressions in C
    output, text                    what all of it shares
    cuda_c                          builds the translation and runs it
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...base.errors import ArgumentError
from ...csource import signature
from ..language import PythonKernel
from .emit import UnitWriter
from .infer import infer
from .output import TranslationOutput
from .scope import warn
from .types import Argument, TranslationError, of_argument, parse
from .unit import TranslatedUnits

if TYPE_CHECKING:
    from .unit import Extent, Unit

ROUNDS = 20


@dataclass(frozen=True)
class Translation:
    """What became of a kernel.

    text: the C. name: the kernel's name in it. extents: the parameters that follow
    the reader's own, each with the sides of arrays that it is. lines: for each line
    of the text the line of the source that it comes from, and its function; 0: none.
    functions: of Python that were translated, the kernel first.
    """

    text: str
    name: str
    extents: tuple[tuple[str, tuple[Extent, ...]], ...]
    lines: tuple[tuple[int, str], ...]
    functions: tuple[Any, ...]


def to_cuda(kernel: Any, types: Sequence[Any]) -> str:
    """The kernel as CUDA C. types: one for each parameter.

    A type is an argument as a launch would pass it, "float32", "int", "float",
    "float32[:, :]", a NumPy dtype or a type of Numba's. "int" is a size: a Python int
    that is not negative. Raises TranslationError at what has no place in C.
    """
    return translate(kernel, types).text


def translate(kernel: Any, types: Sequence[Any]) -> Translation:
    """The same with what a launch needs to know."""
    if not isinstance(kernel, PythonKernel):
        kernel = PythonKernel(kernel)
    if isinstance(types, str) or not isinstance(types, Sequence):
        raise ArgumentError(
            f"types wants one type for each parameter, e.g. ('float32[:]', 'int'), "
            f"this is {types!r:.60}"
        )
    given = kernel.bind(types)
    return translate_kernel(
        kernel, [parse(name, value) for name, value in given.items()]
    )


HALF = r"\bhalf\b(?=\s*[\w*&(])|[(<]half[)>]"  # the type, not a variable's name


def translate_kernel(kernel: PythonKernel, arguments: list[Argument]) -> Translation:
    """The translation for types that are known already."""
    # Here, as `import weft` should not wait for what most lessons never use.

    program = TranslatedUnits(kernel, arguments)
    infer(program)
    for function in {unit.function: unit for unit in program.units}.values():
        warn(function)
    output = TranslationOutput(program.units)
    for _ in range(ROUNDS):
        output.begin()
        known = sum(len(unit.needed) for unit in program.units)
        written = [UnitWriter(unit, output).function() for unit in program.units]
        again = sum(len(unit.needed) for unit in program.units) != known
        if not (output.grew or again):
            break
    return _assemble(program, output, written)


def _assemble(
    program: TranslatedUnits, output: TranslationOutput, written: list
) -> Translation:
    parts: list[list[tuple[str, int, str]]] = []
    code = signature.blank_comments(
        "\n".join(line for lines in written for line, _ in lines)
    )
    if re.search(HALF, code):
        output.headers.add("cuda_fp16.h")
    for text in output.head():
        parts.append([(line, 0, "") for line in text.split("\n")])
    for unit in _order_units(program):
        lines = written[program.units.index(unit)]
        name = unit.function.__name__
        parts.append([(text, line, name) for text, line in lines])
    flat: list[tuple[str, int, str]] = []
    for part in parts:
        flat += [*([("", 0, "")] if flat else []), *part]
    kernel = program.units[0]
    return Translation(
        "".join(f"{text}\n" for text, _, _ in flat),
        output.unit_name(kernel),
        tuple((name, tuple(sides)) for name, sides in kernel.sides.items()),
        tuple((line, name) for _, line, name in flat),
        tuple(dict.fromkeys(unit.function for unit in program.units)),
    )


def _order_units(program: TranslatedUnits) -> list[Unit]:
    """The units so that every helper stands above those who call it."""
    done: list[Unit] = []

    def visit(unit: Unit) -> None:
        for called in unit.calls.values():
            if called not in done:
                visit(called)
        if unit not in done:
            done.append(unit)

    visit(program.units[0])
    return done


__all__ = ["Translation", "TranslationError", "of_argument", "to_cuda", "translate"]
