"""Translate a Python kernel to CUDA C that a person might have written.

    types = ("float32[:]", "float32[:]", "float32[:]", "int", "int", "int")
    print(to_cuda(matmul, types))

The C code computes the same values as the kernel on the simulator. They agree bit for
bit where the kernel states its types (float32(0), int32(1)). The types on each runner
are the following:

                          sim                  Numba     C by to_cuda
    0.5 * float32         float32              float64   float: 0.5f
    0.5 among floats      float64              float64   double
    a // b, a % b         rounds down          the same  / and % if neither can be
                                                         negative, else a helper
    int32 / int32         float64              float64   double
    int32 + float32       float64              float64   double
    i + float32           float32              float64   float
    int32 + int32         int32, wraps         int64     int, wraps
    i * i                 grows                int64     int: stay below 2**31
    int32 << 40, >> 40    0, and 0 or -1       int64     the same on a GPU
    x ** 2                pow                  x * x     x * x
    int32 < uint32        as numbers           the same  the same, with a cast
    float32 / 0           inf or NaN           the same  the same
    int32 // 0            0                    undefined a fault on the CPU

i is a Python int, as are literals, sizes, indices of threads and integer arguments
(int8 to int64 that fit an int). int32 is an element of an array or int32(...). On sim,
Python's i / 0 and i // 0 raise an error.

Indices and sizes of threads and blocks, sizes of arrays, and loop variables that rise
from such numbers are never negative. The same holds for their sums and products. A
Python int that is passed as an argument selects a translation by its sign, so its sign
is known as well.

Indices and sizes are C's int, so an array has at most 2**31 - 1 elements. A variable
has one type, which can represent all its values. The same holds for the operands of
`a if c else b`, min and max.

On sim, a float that does not fit into an int is converted as on a GPU. It becomes the
nearest number of at least 32 bits, whose low bits are used. C++ does not define this
conversion, nor shifts by 32 or more. On the CPU, a watched launch reports both.

Results have the same bits for + - * / // % of numbers, comparisons, bit operations and
conversions. The same holds for sqrt, fabs, floor, ceil, trunc, min, max and fma. Other
functions of math, and ** of floats, are not rounded exactly. They differ by a few units
in the last place. A GPU rounds a * b + c only once, unless a flag prevents this:
cuda_c(kernel, flags="--fmad=false").

    types                           types of values; the error for untranslatable code
    scope                           one assignment per statement; declarations of locals
    unit                            a function for given argument types, its names, and
                                    its arrays
    infer                           types and value ranges of all expressions
    calls                           types of calls
    statements                      types of variables; statements in C
    emit                            functions in C
    emit_calls                      calls in C
    expressions, operators          expressions in C
    output, text                    names, constants and text, shared by the above
    cuda_c                          builds the translation and runs it
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...base.errors import ArgumentError
from ...csource import scanner
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
    """The translation of a kernel.

    text: the CUDA C.
    name: the kernel's name in the text.
    extents: the additional parameters, which follow the kernel's own. Each has a list
        of the array sides whose common length it passes.
    lines: for each line of the text, the number of its source line (0 if there is
        none) and the name of its function.
    functions: the translated Python functions, beginning with the kernel.
    """

    text: str
    name: str
    extents: tuple[tuple[str, tuple[Extent, ...]], ...]
    lines: tuple[tuple[int, str], ...]
    functions: tuple[Any, ...]


def to_cuda(kernel: Any, types: Sequence[Any]) -> str:
    """Translate a kernel to CUDA C.

    types: for each parameter, an argument as for a launch, or a type: "float32", "int",
        "float", "float32[:, :]", a NumPy dtype or a Numba type. "int" is the type of a
        size, a Python int that is not negative.

    Raises TranslationError for code without an equivalent in C.
    """
    return translate(kernel, types).text


def translate(kernel: Any, types: Sequence[Any]) -> Translation:
    """Translate a kernel; return its text with the information for a launch."""
    if not isinstance(kernel, PythonKernel):
        kernel = PythonKernel(kernel)
    if isinstance(types, str) or not isinstance(types, Sequence):
        raise ArgumentError(
            f"types takes one type for each parameter, e.g. ('float32[:]', 'int'), not "
            f"{types!r:.60}"
        )
    arguments = [parse(name, value) for name, value in kernel.bind(types).items()]
    return translate_kernel(kernel, arguments)


# This pattern matches the type half, but not a variable named half.
HALF = r"\bhalf\b(?=\s*[\w*&(])|[(<]half[)>]"


def translate_kernel(kernel: PythonKernel, arguments: list[Argument]) -> Translation:
    """Return the translation for parsed argument types."""
    program = TranslatedUnits(kernel, arguments)
    infer(program)
    for function in {unit.function: unit for unit in program.units}.values():
        warn(function)
    output = TranslationOutput(program.units)
    for _ in range(ROUNDS):
        output.begin()
        known_extents = sum(len(unit.needed) for unit in program.units)
        unit_lines = [UnitWriter(unit, output).function() for unit in program.units]
        more_needed = sum(len(unit.needed) for unit in program.units) != known_extents
        if not (output.grew or more_needed):
            break
    return _assemble(program, output, unit_lines)


def _assemble(
    program: TranslatedUnits, output: TranslationOutput, unit_lines: list
) -> Translation:
    code = "\n".join(line for lines in unit_lines for line, _ in lines)
    if re.search(HALF, scanner.blank_comments(code)):
        output.headers.add("cuda_fp16.h")
    parts = [[(line, 0, "") for line in text.split("\n")] for text in output.head()]
    for unit in _order_units(program):
        lines = unit_lines[program.units.index(unit)]
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
    """Order the units so that every helper precedes its callers."""
    ordered: list[Unit] = []

    def visit(unit: Unit) -> None:
        for callee in unit.calls.values():
            if callee not in ordered:
                visit(callee)
        if unit not in ordered:
            ordered.append(unit)

    visit(program.units[0])
    return ordered


__all__ = ["Translation", "TranslationError", "of_argument", "to_cuda", "translate"]
