"""Pieces of C: expressions with their precedence and type, numbers, names."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

# Precedence in C, as far as kernels use it.
(COMMA, ASSIGN, CHOICE, OR, AND, BIT_OR, BIT_XOR, BIT_AND, EQUAL, RELATION) = range(10)
(SHIFT, SUM, PRODUCT, UNARY, PRIMARY) = range(10, 15)

# Words of C and C++, and what nvcc's headers have as macros or functions of C.
_RESERVED = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char
    class compl concept const consteval constexpr constinit const_cast continue
    co_await co_return co_yield decltype default delete do double dynamic_cast else
    enum explicit export extern false float for friend goto if inline int long
    mutable namespace new noexcept not not_eq nullptr operator or or_eq private
    protected public register reinterpret_cast requires return short signed sizeof
    static static_assert static_cast struct switch template this thread_local throw
    true try typedef typeid typename union unsigned using virtual void volatile
    wchar_t while xor xor_eq threadIdx blockIdx blockDim gridDim warpSize assert
    printf linux unix NULL NAN INFINITY main restrict size_t dim3
"""
# A kernel or helper of such a name would meet the function of that name.
_FUNCTIONS = """
    abs acos asin atan atan2 cbrt ceil cos cosh div erf erfc exp exp2 expm1 fabs
    floor fmax fmin fmod free hypot index isfinite isinf isnan j0 j1 jn ldexp log
    log10 log1p log2 malloc max memcpy memset min modf norm pow printf remainder
    rint round rsqrt sin sincos sinh sqrt tan tanh time trunc y0 y1 yn signal exit
    system read write acosh asinh atanh copysign cospi erfcinv erfcx erfinv exp10 fdim
    fma ilogb lgamma llrint llround logb lrint lround nearbyint nextafter norm3d norm4d
    normcdf normcdfinv rcbrt remquo rhypot rnorm scalbn signbit sincospi sinpi tgamma
    clock clock64 labs llabs umin umax llmin llmax ullmin ullmax mul24 umul24 std
    floor_div floor_mod power minimum maximum laneid
"""
# What CUDA's headers define by the dozen: types of 1 to 4 numbers and the like.
_HEADERS = re.compile(
    r"(u?(char|short|int|long|longlong)|float|double)[1-4]|make_\w+|half2?|dim3|uint"
    r"|(u?int(8|16|32|64|ptr)|ptrdiff|nullptr)_t|cuda[A-Z]\w*|atomic[A-Z_]\w*"
    r"|nv_\w+|__\w+"
)
RESERVED = frozenset(_RESERVED.split())
FUNCTIONS = frozenset(_FUNCTIONS.split())


def is_cudas(name: str) -> bool:
    """Whether a function of this name would meet something of CUDA's, or of ours."""
    single = name[:-1] if name.endswith("f") else ""
    return bool({name, single} & FUNCTIONS or _HEADERS.fullmatch(name))


@dataclass(frozen=True)
class C:
    """An expression. precedence: of its outermost operator; type: in C.

    literal: a number as it stands, which suits any type. enum: a constant's bare name.
    """

    text: str
    precedence: int
    type: str
    literal: bool = False
    enum: bool = False

    def within(self, precedence: int) -> str:
        """Its text as an operand of an operator that binds so tightly."""
        return self.text if self.precedence >= precedence else f"({self.text})"


def cast(type_: str, value: C) -> C:
    """(type)value"""
    return C(f"({type_}){value.within(UNARY)}", UNARY, type_)


def number(value: float, type_: str) -> C:
    """A literal of float or double."""
    value = float(value)
    if math.isnan(value):
        return C("NAN", PRIMARY, type_)
    single = float(np.float32(value)) if type_ == "float" else value
    if math.isinf(single):
        text = "-INFINITY" if single < 0 else "INFINITY"
        return C(text, UNARY if single < 0 else PRIMARY, type_)
    text = _write_digits(value, type_)
    suffix = "f" if type_ == "float" else ""
    return C(text + suffix, UNARY if text.startswith("-") else PRIMARY, type_, True)


def _write_digits(value: float, type_: str) -> str:
    text = repr(value) if type_ == "double" else str(np.float32(value))
    if type_ == "float" and len(repr(value)) < 9 and float(repr(value)) == value:
        # The reader's own digits, where they are no more than a float's.
        near = np.float32(value)
        text = repr(value) if np.float32(repr(value)) == near else text
    if "e" in text:
        mantissa, _, exponent = text.partition("e")
        sign = "-" if exponent[0] == "-" else ""
        return f"{mantissa}e{sign}{int(exponent.lstrip('+-'))}"
    return text if "." in text else f"{text}.0"


def write_whole(value: int, source: str = "") -> C:
    """A literal of a whole number, in the notation of the source."""
    text = source.replace("_", "").lower()
    if not text.startswith(("0x", "0b")):
        text = str(value)
    if -(2**31) < value < 2**31:
        return C(text, UNARY if value < 0 else PRIMARY, "int", True)
    if value == -(2**31):
        return C("(-2147483647 - 1)", PRIMARY, "int", True)
    if 0 < value < 2**32:
        return C(f"{text}u", PRIMARY, "unsigned", True)
    if value > 2**63 - 1:
        return C(f"{text}ull", PRIMARY, "unsigned long long", True)
    if value == -(2**63):
        return C("(-9223372036854775807ll - 1)", PRIMARY, "long long", True)
    return C(f"{text}ll", UNARY if value < 0 else PRIMARY, "long long", True)


def join_operands(left: C, sign: str, right: C, precedence: int, type_: str) -> C:
    """left sign right, with the brackets that compilers ask for besides C's own."""
    bits = precedence in (BIT_OR, BIT_XOR, BIT_AND, SHIFT)
    relation = precedence in (RELATION, EQUAL)
    tight = precedence

    def operand(one: C, right_side: bool) -> str:
        follows = one.precedence == precedence and not right_side
        if bits and one.precedence not in (UNARY, PRIMARY) and not follows:
            return f"({one.text})"
        if relation and one.precedence in (RELATION, EQUAL):
            return f"({one.text})"
        if precedence == OR and one.precedence == AND:
            return f"({one.text})"
        text = one.within(tight + right_side)
        if right_side and sign in "+-" and text.startswith(sign):
            return f"({text})"
        return text

    text = f"{operand(left, False)} {sign} {operand(right, True)}"
    return C(text, precedence, type_)


def find_closing(text: str, at: int) -> int:
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i
    return -1
