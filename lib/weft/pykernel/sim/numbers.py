"""Arithmetic that differs between Python and C, including atomic updates.

UPDATES maps the name of each cuda.atomic function to a function that computes the new
value from the old value and the arguments. Functions of math return a number of their
NumPy argument's type, and NaN or infinity where Python raises an error. Values stored
as integers wrap, as an int32 does in C. _convert_float() converts floats as nvcc's
code does on a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

UPDATES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda old, value, _: old + value,
    "sub": lambda old, value, _: old - value,
    "min": lambda old, value, _: old if value >= old or old != old else value,
    "max": lambda old, value, _: old if value <= old or old != old else value,
    "nanmin": lambda old, value, _: value if value < old or old != old else old,
    "nanmax": lambda old, value, _: value if value > old or old != old else old,
    "and_": lambda old, value, _: old & value,
    "or_": lambda old, value, _: old | value,
    "xor": lambda old, value, _: old ^ value,
    "exch": lambda old, value, _: value,
    "inc": lambda old, value, _: 0 if old >= value else old + 1,
    "dec": lambda old, value, _: value if old == 0 or old > value else old - 1,
    "cas": lambda old, value, new: new if old == value else old,
}


def update(
    raw: np.ndarray, key: Any, name: str, value: Any, new: Any, casts: dict[str, Any]
) -> Any:
    """Change raw[key] as atomic.<name> does, and return the old value."""
    old = raw[key]
    kind = raw.dtype
    whole = kind.kind in "iu"
    convert = casts[f".cast_{kind.name}"] if whole else kind.type
    new = None if new is None else convert(new)
    result = UPDATES[name](int(old) if whole else old, convert(value), new)
    raw[key] = convert(result) if whole else result
    return old


class Dim3(NamedTuple):
    """A vector such as cuda.threadIdx, in a kernel that passes it to a helper."""

    x: int
    y: int
    z: int


_UFUNCS = {
    **{"pow": "power", "asin": "arcsin", "acos": "arccos", "atan": "arctan"},
    **{"asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "atan2": "arctan2"},
}
_EXACT = {
    *("ceil", "floor", "isnan", "isinf", "isfinite", "frexp", "modf"),
    *("gcd", "factorial", "comb", "perm", "lcm", "prod", "fsum"),
}


def math_function(name: str) -> Callable[..., Any]:
    """Return the function called `name` in math, with a kernel's semantics."""
    function = getattr(math, name)
    ufunc = getattr(np, _UFUNCS.get(name, name), None)
    if name == "trunc":  # math.trunc() does not accept NumPy's numbers
        return int
    if name in _EXACT:
        return function

    def computed(*args: Any) -> Any:
        kinds = [type(a) for a in args if isinstance(a, np.inexact)]
        if kinds:
            # As in C, the result has the widest type among the arguments.
            kind = np.result_type(*kinds).type
            if isinstance(ufunc, np.ufunc):
                whole = int, np.integer
                same = [a if isinstance(a, whole) else kind(a) for a in args]
                return kind(ufunc(*same))
            return kind(_call_guarded(function, None, args))
        return _call_guarded(function, ufunc, args)

    return computed


def _call_guarded(function: Callable[..., Any], ufunc: Any, args: Any) -> Any:
    try:
        return function(*args)
    except (ValueError, OverflowError, ZeroDivisionError):
        if isinstance(ufunc, np.ufunc):
            return float(ufunc(*[np.float64(a) for a in args]))
        return math.nan


def cast(dtype: np.dtype) -> Callable[[Any], Any]:
    """Return a function that converts numbers to ints in the range of `dtype`."""
    info = np.iinfo(dtype)
    low, high, span = int(info.min), int(info.max), 1 << info.bits

    def wrapped(value: Any) -> Any:
        if type(value) is int:
            if low <= value <= high:
                return value
            return (value - low) % span + low
        if isinstance(value, (np.integer, np.bool_, bool)):
            return wrapped(int(value))
        if isinstance(value, (float, np.floating)):
            return wrapped(_convert_float(value, info.bits, low < 0))
        return value

    return wrapped


def _convert_float(value: Any, bits: int, signed: bool) -> int:
    """Convert a float as PTX's cvt.rzi does: towards zero, clamped to the range.

    NaN becomes 0 or, if either type has 64 bits, a number with only the topmost bit
    set. nvcc converts a float or a double to at least 32 bits, and keeps
    the lowest bits.
    """
    if not isinstance(value, np.float16):
        bits = max(bits, 32)
    if value != value:
        return 1 << bits - 1 if bits == 64 or isinstance(value, float) else 0
    half = 1 << bits - 1
    low, high = (-half, half - 1) if signed else (0, 2 * half - 1)
    exact = float(value)  # in float16, a comparison would round the bounds
    return high if exact >= high else low if exact <= low else int(exact)


def converted(kind: type) -> Callable[[Any], Any]:
    """Return a function that converts numbers to `kind` as C does."""
    wrapped = cast(np.dtype(kind))
    return lambda value: kind(wrapped(value))


def _get_bits(value: Any) -> tuple[int, int]:
    """Return a number's bits, and their count. An int has 32 unless it requires 64."""
    if isinstance(value, np.integer):
        width = max(value.dtype.itemsize * 8, 32)
        return int(value) & ((1 << width) - 1), width
    value = int(value)
    width = 32 if -(1 << 31) <= value < 1 << 32 else 64
    return value & ((1 << width) - 1), width


def popc(value: Any) -> int:
    """Return the number of bits that are set."""
    return _get_bits(value)[0].bit_count()


def clz(value: Any) -> int:
    """Return the number of leading zeros."""
    bits, width = _get_bits(value)
    return width - bits.bit_length()


def ffs(value: Any) -> int:
    """Return the number, from 1, of the lowest set bit; 0 if no bit is set."""
    bits, _ = _get_bits(value)
    return (bits & -bits).bit_length()


def brev(value: Any) -> int:
    """Return the bits in reverse order."""
    bits, width = _get_bits(value)
    return int(f"{bits:0{width}b}"[::-1], 2)


def fma(a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c, rounded once."""
    kinds = [type(v) for v in (a, b, c) if isinstance(v, np.inexact)]
    kind = np.result_type(*kinds).type if kinds else np.float64
    exact = all(math.isfinite(v) for v in (a, b, c))
    if not exact:
        return kind(kind(a) * kind(b) + kind(c))
    from fractions import Fraction

    a, b, c = (Fraction(float(kind(v))) for v in (a, b, c))
    total = a * b + c
    if not total:
        return kind(0)
    return _round_fraction(total, kind)


def _round_fraction(value: Any, kind: type) -> Any:
    """Return the float of a type that is nearest to a fraction; ties go to even."""
    near = kind(value.numerator / value.denominator)
    if kind is np.float64 or not np.isfinite(near):
        return near
    # `near` was rounded twice, first to float64, so a neighbour may be nearer.
    from fractions import Fraction

    floats = [np.nextafter(near, kind(-np.inf)), near, np.nextafter(near, kind(np.inf))]
    finite = [v for v in floats if np.isfinite(v)]
    distances = [abs(Fraction(float(v)) - value) for v in finite]
    best = [v for v, o in zip(finite, distances) if o == min(distances)]
    if len(best) == 1:
        return best[0]
    unsigned = {2: np.uint16, 4: np.uint32}[np.dtype(kind).itemsize]
    return next(v for v in best if not v.view(unsigned) & 1)


def selp(condition: Any, a: Any, b: Any) -> Any:
    """Return `a` if the condition is true, else `b`."""
    return a if condition else b


def cbrt(value: Any) -> Any:
    """Return the cube root."""
    return np.cbrt(value) if isinstance(value, np.generic) else math.cbrt(value)


TYPES = [np.dtype(f"{sign}{size}").type for sign in "iu" for size in (1, 2, 4, 8)]
NUMBERS: dict[str, Callable[..., Any]] = {
    **{".popc": popc, ".clz": clz, ".ffs": ffs, ".brev": brev, ".fma": fma},
    **{f".to_{kind.__name__}": converted(kind) for kind in TYPES},
    **{".selp": selp, ".cbrt": cbrt, ".Dim3": Dim3},
}
