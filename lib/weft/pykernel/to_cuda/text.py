"""Pieces of C: expressions, numbers, names, folded lines, and comments.

Long lines are folded where a person would fold them. Comments remain in their places.
"""

from __future__ import annotations

import ast
import inspect
import io
import math
import re
import textwrap
import tokenize
from dataclasses import dataclass

import numpy as np

from ..language import FunctionSource

# The precedence levels of C that kernels require, from the loosest to the tightest.
CHOICE, OR, AND, BIT_OR, BIT_XOR, BIT_AND, EQUAL, RELATION = range(8)
SHIFT, SUM, PRODUCT, UNARY, PRIMARY = range(8, 13)

# Keywords of C and C++, and macros or C functions in nvcc's headers.
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
# Functions of C, CUDA and Weft. A kernel or helper with such a name is renamed.
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
# CUDA's headers define many more names, such as the types of 1 to 4 numbers.
_HEADERS = re.compile(
    r"(u?(char|short|int|long|longlong)|float|double)[1-4]|make_\w+|half2?|dim3|uint"
    r"|(u?int(8|16|32|64|ptr)|ptrdiff|nullptr)_t|cuda[A-Z]\w*|atomic[A-Z_]\w*"
    r"|nv_\w+|__\w+"
)
RESERVED = frozenset(_RESERVED.split())
FUNCTIONS = frozenset(_FUNCTIONS.split())


def is_cudas(name: str) -> bool:
    """Return whether a function's name would collide with a name of CUDA or Weft."""
    single = name[:-1] if name.endswith("f") else ""
    return bool({name, single} & FUNCTIONS or _HEADERS.fullmatch(name))


@dataclass(frozen=True)
class CExpression:
    """A C expression.

    precedence: precedence of the outermost operator.
    type: type in C.
    literal: whether it is a plain number, which fits any type.
    enum: whether it is only the name of an enum constant.
    """

    text: str
    precedence: int
    type: str
    literal: bool = False
    enum: bool = False

    def within(self, precedence: int) -> str:
        """Return the text as an operand of an operator with this precedence.

        The text has parentheses if the expression's own precedence is lower.
        """
        return self.text if self.precedence >= precedence else f"({self.text})"


def cast(type_: str, value: CExpression) -> CExpression:
    """Write (type)value."""
    return CExpression(f"({type_}){value.within(UNARY)}", UNARY, type_)


def number(value: float, type_: str) -> CExpression:
    """Write a literal of float or double."""
    value = float(value)
    if math.isnan(value):
        return CExpression("NAN", PRIMARY, type_)
    single = float(np.float32(value)) if type_ == "float" else value
    if math.isinf(single):
        text = "-INFINITY" if single < 0 else "INFINITY"
        return CExpression(text, UNARY if single < 0 else PRIMARY, type_)
    text = _write_digits(value, type_)
    precedence = UNARY if text.startswith("-") else PRIMARY
    return CExpression(text + "f" * (type_ == "float"), precedence, type_, True)


def _write_digits(value: float, type_: str) -> str:
    text = repr(value) if type_ == "double" else str(np.float32(value))
    if type_ == "float" and len(repr(value)) < 9:
        text = repr(value)  # keep the few digits of the source
    if "e" in text:
        mantissa, _, exponent = text.partition("e")
        sign = "-" if exponent[0] == "-" else ""
        return f"{mantissa}e{sign}{int(exponent.lstrip('+-'))}"
    return text if "." in text else f"{text}.0"


def write_whole(value: int, source: str = "") -> CExpression:
    """Write an integer literal, in the notation of the source."""
    text = source.replace("_", "").lower()
    if not text.startswith(("0x", "0b")):
        text = str(value)
    if -(2**31) < value < 2**31:
        return CExpression(text, UNARY if value < 0 else PRIMARY, "int", True)
    if value == -(2**31):
        return CExpression("(-2147483647 - 1)", PRIMARY, "int", True)
    if 0 < value < 2**32:
        return CExpression(f"{text}u", PRIMARY, "unsigned", True)
    if value > 2**63 - 1:
        return CExpression(f"{text}ull", PRIMARY, "unsigned long long", True)
    if value == -(2**63):
        return CExpression("(-9223372036854775807ll - 1)", PRIMARY, "long long", True)
    return CExpression(f"{text}ll", UNARY if value < 0 else PRIMARY, "long long", True)


def join_operands(
    left: CExpression, sign: str, right: CExpression, precedence: int, type_: str
) -> CExpression:
    """Join two operands. Add the optional parentheses that compilers recommend."""
    bits = precedence in (BIT_OR, BIT_XOR, BIT_AND, SHIFT)
    relations = (RELATION, EQUAL)

    def operand(one: CExpression, right_side: bool) -> str:
        follows = one.precedence == precedence and not right_side
        text = one.within(precedence + right_side)
        unclear = (
            (bits and one.precedence not in (UNARY, PRIMARY) and not follows)
            or (precedence in relations and one.precedence in relations)
            or (precedence == OR and one.precedence == AND)
        )
        if unclear or (right_side and sign in "+-" and text.startswith(sign)):
            return f"({one.text})"
        return text

    text = f"{operand(left, False)} {sign} {operand(right, True)}"
    return CExpression(text, precedence, type_)


WIDTH = 80
# Operators from the loosest to the tightest. ? and : begin a line; others end it.
_BREAKS = (r"; ", r" \|\| ", r" && ", r" \? | : ", r", ", r" [+-] ", r" [*/] ", r" = ")

_ASSIGNED = re.compile(r"[^=;?\"]*? [-+*/%&|^]?= | *return ")


def wrap(line: str) -> list[str]:
    """Fold the line into parts of at most WIDTH columns, if possible.

    The line is cut at the loosest operator in the fewest brackets. The next lines align
    with the text after an assignment, or after the bracket of an if or a loop.
    Otherwise, they are indented by four more columns.
    """
    if len(line) <= WIDTH or line.lstrip().startswith(("//", "#")) or '"' in line:
        return [line]
    head = re.match(r" *(?:} else )?(?:if|for|while) \(", line)
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    out = []
    while len(line) > WIDTH:
        at = _cut(line, len(indent))
        if not at:
            break
        out.append(line[:at].rstrip())
        starts = head or _ASSIGNED.match(line)
        if starts and len(out) == 1 and starts.end() < min(at, WIDTH // 2):
            indent = " " * starts.end()
        line = indent + line[at:].lstrip()
    return [*out, line]


def _cut(line: str, least: int) -> int:
    """Return the offset at which to cut the line; 0 if no cut is possible."""
    depth, depths = 0, []
    for c in line:
        depth -= c in ")]"
        depths.append(depth)
        depth += c in "(["
    places = []
    for rank, pattern in enumerate(_BREAKS):
        for match in re.finditer(pattern, line):
            before = "?" in match[0] or ":" in match[0]
            at = match.start() if before else match.start() + len(match[0].rstrip())
            if least < at <= WIDTH:
                # Cutting at = has priority if the rest then fits into one line.
                fits = at > least + 20 and least + len(line) - at <= WIDTH
                assigns = match[0] == " = " and not fits
                rank = -1 if match[0] == " = " and fits else rank
                places.append((assigns, depths[match.start()], rank, -at, at))
    return min(places)[-1] if places else 0


_TOOLS = re.compile(r"#\s*(?:noqa|type:|fmt:|ruff|pylint|pragma|isort|%%|mypy)")


@dataclass(frozen=True)
class Comment:
    """A comment. text: without the #. alone: whether no code precedes it."""

    line: int
    column: int
    text: str
    alone: bool


def list_comments(source: FunctionSource) -> list[Comment]:
    """List the comments of a function in order, without comments for tools."""
    comments = []
    text = source.text
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type != tokenize.COMMENT or _TOOLS.match(token.string):
                continue
            line, column = token.start
            alone = not token.line[:column].strip()
            words = re.sub(r"^#+:?\s?", "", token.string).rstrip()
            if words or alone:
                if words.endswith("\\"):  # a backslash would continue a // comment
                    words = words.rstrip("\\").rstrip()
                number = source.first + line - 1
                comments.append(Comment(number, column, words, alone))
    except (tokenize.TokenError, IndentationError):
        # The end of the text may be invalid, but the function's comments precede it.
        pass
    return comments


def write_docstring(tree: ast.FunctionDef) -> list[str]:
    """Return the docstring as lines of one /* */; [] if there is none."""
    text = ast.get_docstring(tree)
    if not text:
        return []
    lines = inspect.cleandoc(text.replace("*/", "* /").replace("/*", "/ *")).split("\n")
    if len(lines[0]) > 76:
        lines[:1] = textwrap.wrap(lines[0], 76)
    comment = [f"/* {lines[0]}", *(f" * {line}".rstrip() for line in lines[1:])]
    if len(lines) > 1 and len(comment[-1]) >= 76:
        return [*comment, " */"]
    return [*comment[:-1], f"{comment[-1]} */"]
