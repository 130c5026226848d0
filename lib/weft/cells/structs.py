"""C types of a cell's parameters: scalars, dtypes, and structs with their members.

StructLayout lists the offsets of a struct's members, and marks the addresses.

Like scanner.py, this module reads declarations rather than all of C++. A struct with a
base, a union, bit fields or an array of unknown length has no layout, and Python passes
it as bytes. The compilers' sizes take precedence.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..csource import scanner, signature
from ..csource.signature import Param


@dataclass(frozen=True)
class CScalar:
    """A C type that is passed by value, or that a pointer points to.

    code: the struct module's letter for one component
    count: number of components (float4: 4)
    align: alignment in bytes
    dtypes: names of the dtypes allowed for an array of this type
    kind: int, float, bool, half or bfloat16
    """

    name: str
    code: str
    count: int
    size: int
    align: int
    dtypes: tuple[str, ...]
    kind: str

    def numbers(self, value: Any) -> tuple[Any, ...]:
        """Return `value` as one number per component, for struct.pack() with `code`.

        Raises TypeError for a value that is not a number of this kind. Raises
        OverflowError, which states the limits, for a number that does not fit.
        """
        if self.count == 1:
            return (self._number(value),)
        try:
            parts = tuple(value)
        except Exception:  # __iter__ of another class may raise anything
            parts = ()
        if len(parts) != self.count or isinstance(value, (str, bytes)):
            raise TypeError(f"{self.name} takes {self.count} numbers, e.g. a tuple")
        return tuple(self._number(part) for part in parts)

    def _number(self, value: Any) -> Any:
        if self.kind == "bool":
            return bool(_convert_whole(value, self.name, 0, 1))
        if self.kind == "int":
            return _convert_whole(value, self.name, *self.limits())
        number = _convert_real(value, self.name)
        if self.kind == "bfloat16":
            return _bfloat16_bits(number)
        try:
            struct.pack("=" + self.code, number)
        except OverflowError:
            raise OverflowError(f"it does not fit into {self.name}") from None
        return number

    def limits(self) -> tuple[int, int]:
        """Return the smallest and the largest integer of the type."""
        bits = 8 * struct.calcsize(self.code)
        if self.code.isupper():
            return 0, 2**bits - 1
        return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def find_scalar(name: str) -> CScalar | None:
    """Return the scalar type `name`; None for a struct, an enum or an unknown type."""
    return _make_table().get(name)


def _convert_whole(value: Any, name: str, low: int, high: int) -> int:
    if name == "char" and isinstance(value, (str, bytes)) and len(value) == 1:
        value = ord(value)
        value -= 256 if 128 <= value < 256 else 0
    if getattr(value, "ndim", 0) or not hasattr(value, "__index__"):
        hint = ""
        if isinstance(value, float):
            hint = " (in Python n / 2 is a float, n // 2 a whole number)"
        raise TypeError(f"{name} takes a whole number{hint}")
    try:
        number = operator.index(value)
    except Exception as error:  # torch.tensor(1.5) has __index__, which raises
        raise TypeError(f"{name} takes a whole number") from error
    if not low <= number <= high:
        raise OverflowError(f"{name} ranges from {low} to {high}")
    return number


def _convert_real(value: Any, name: str) -> float:
    if getattr(value, "ndim", 0):
        raise TypeError(f"{name} takes one number, not an array")
    is_unfit = isinstance(value, (str, bytes, bytearray))
    if isinstance(value, np.ndarray):  # this is also true for np.ma.masked
        is_unfit = value.dtype.kind in "SU" or isinstance(value, np.ma.MaskedArray)
    if is_unfit or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        raise TypeError(f"{name} takes a number")
    try:
        return float(value)
    except OverflowError:
        raise OverflowError(f"it does not fit into {name}") from None
    except Exception as error:  # __float__ of another class may raise anything
        raise TypeError(f"{name} takes a number") from error


def _bfloat16_bits(number: float) -> int:
    """Return the upper half of the number's float32 bits, rounded to nearest even."""
    try:
        (bits,) = struct.unpack("=I", struct.pack("=f", number))
    except OverflowError:
        raise OverflowError("it does not fit into bfloat16") from None
    if number != number:
        return bits >> 16 | 0x40
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


@functools.cache
def _make_table() -> dict[str, CScalar]:
    table: dict[str, CScalar] = {}

    def add(names: str, code: str, dtypes: str, kind: str = "int") -> None:
        size, allowed = struct.calcsize(code), tuple(dtypes.split())
        for name in names.split(","):
            table[name] = CScalar(name, code, 1, size, size, allowed, kind)

    # torch has few unsigned types, so arrays of signed types are accepted for them. Any
    # one-byte type is accepted for any other.
    add("bool", "?", "bool", "bool")
    add("char,signed char,int8_t", "b", "int8 uint8 bool bytes8")
    add("unsigned char,uint8_t,uchar", "B", "uint8 int8 bool bytes8")
    add("short,int16_t", "h", "int16")
    add("unsigned short,uint16_t,ushort", "H", "uint16 int16")
    add("int,int32_t", "i", "int32")
    add("unsigned int,uint32_t,uint", "I", "uint32 int32")
    add("long,long long,int64_t,ptrdiff_t,intptr_t", "q", "int64")
    add("unsigned long,unsigned long long,ulong", "Q", "uint64 int64")
    add("uint64_t,size_t,uintptr_t", "Q", "uint64 int64")
    add("float", "f", "float32", "float")
    add("double", "d", "float64", "float")
    add("half,__half", "e", "float16", "half")
    add("nv_bfloat16,__nv_bfloat16", "H", "bfloat16", "bfloat16")
    bases = {"char": "char", "uchar": "unsigned char", "short": "short"}
    bases |= {"ushort": "unsigned short", "int": "int", "uint": "unsigned int"}
    bases |= {"long": "long", "ulong": "unsigned long", "longlong": "long long"}
    bases |= {"ulonglong": "unsigned long long", "float": "float", "double": "double"}
    for name, base in bases.items():
        for count in (1, 2, 3, 4):
            _add_vector(table, f"{name}{count}", base, count)
    for name, base in (("half2", "half"), ("nv_bfloat162", "nv_bfloat16")):
        _add_vector(table, name, base, 2)
        _add_vector(table, f"__{name}", base, 2)
    table["dim3"] = CScalar("dim3", "I", 3, 12, 4, ("uint32", "int32"), "int")
    return table


def _add_vector(table: dict[str, CScalar], name: str, base: str, count: int) -> None:
    scalar = table[base]
    align = scalar.size if count in (1, 3) else min(16, scalar.size * count)
    dtypes = scalar.dtypes
    if count == 2 and scalar.kind == "float":
        dtypes += ("complex64",) if base == "float" else ("complex128",)
    size = scalar.size * count
    table[name] = CScalar(name, scalar.code, count, size, align, dtypes, scalar.kind)


@dataclass(frozen=True)
class Member:
    """One member of a struct.

    extents: lengths of an array's dimensions; () for a single value.
    kind: scalar type of an element; None for a struct and for an address.
    inner: layout of an element that is a struct; otherwise None.
    """

    param: Param
    offset: int
    size: int  # bytes of one element
    extents: tuple[int, ...]
    kind: CScalar | None
    inner: StructLayout | None


@dataclass(frozen=True)
class StructLayout:
    """The layout of a struct in memory, as the compilers choose it."""

    name: str
    size: int
    align: int
    members: tuple[Member, ...]

    @functools.cached_property
    def pointers(self) -> tuple[tuple[int, Param], ...]:
        """The offset and declaration of each address, also in nested structs."""
        offsets = []
        for member in self.members:
            inner = member.inner.pointers if member.inner else ()
            inner = ((0, member.param),) if member.param.pointer else inner
            for i in range(math.prod(member.extents)):
                start = member.offset + i * member.size
                offsets += [(start + at, param) for at, param in inner]
        return tuple(offsets)


def member_of(member: Param, owner: Param) -> Param:
    """Return a member with its name for messages: p.x, or rows[] in a list."""
    if not member.name:
        return replace(member, name=f"{owner.name}[]", text=owner.text)
    text = f"{member} of {owner.text or owner.name}"
    return replace(member, name=f"{owner.name}.{member.name}", text=text)


def find_layout(source: str, kind: str) -> StructLayout | None:
    """Return the layout of a parameter's type, or of the type that it points to."""
    if kind.endswith("*"):
        base = kind[:-1].strip()
        param = Param(base, "", True, False, kind)
        member = Member(param, 0, 8, (), None, None)
        return StructLayout(kind, 8, 8, (member,))
    if not re.fullmatch(r"[\w:]+", kind):
        return None
    return list_layouts(source).get(kind.split("::")[-1])


@functools.lru_cache(64)
def list_layouts(source: str) -> dict[str, StructLayout]:
    """Return the structs of a source (a cell and its headers) by their names."""
    code = scanner.blank_comments(source)
    known: dict[str, StructLayout] = {}
    if re.search(r"#\s*pragma\s+pack", code):
        return known
    aliases, numbers = signature.read_aliases(code), list_constants(code)
    for match in _STRUCT.finditer(code):
        opening = match.end() - 1
        closing = scanner.find_close(code, opening)
        head = code[: match.start()].rstrip()
        tail = re.match(r"\s*([\w\s]*?)\s*;", code[closing + 1 :])
        if closing < 0 or head.endswith(">") or not tail:
            continue
        names = [match["name"], *(tail[1].split() if match["typedef"] else ())]
        layout = _make_layout(code[opening + 1 : closing], aliases, numbers, known)
        align = numbers_of(match["align"] or "1", numbers)
        for name in filter(None, names):
            known.pop(name, None)
            if layout is not None and align:
                known[name] = _align_layout(replace(layout, name=name), align)
    return known


def tuple_of(layout: StructLayout | None) -> str:
    """Describe how Python passes a struct, such as `a tuple (float *x, int n), `."""
    if layout is None:
        return ""
    if layout.name.endswith("*"):
        return "a list of arrays, "
    return f"a tuple ({', '.join(str(m.param) for m in layout.members)}), "


def describe_misfit(layout: StructLayout, dtype: np.dtype) -> str:
    """Describe how a structured dtype differs from a struct; "" if it matches."""
    if dtype.itemsize != layout.size:
        return f"{layout.name} has {layout.size} bytes, but {dtype.itemsize} are given"
    fields = sorted(dtype.fields.items(), key=lambda item: item[1][1])
    count = len(layout.members)
    if len(fields) != count:
        return f"{layout.name} has {count} members, but the dtype {len(fields)}"
    for member, (name, (field, offset, *_)) in zip(layout.members, fields):
        if offset != member.offset:
            places = f"at byte {member.offset}, but the dtype's {name} at {offset}"
            return f"{member.param} of {layout.name} is {places}"
        if misfit := _member_misfit(member, name, field):
            return misfit
    return ""


def _member_misfit(member: Member, name: str, field: np.dtype) -> str:
    """Describe how one member differs from a field of the dtype."""
    size, base = member.size * math.prod(member.extents), field.base
    if field.itemsize != size:
        return f"{member.param} has {size} bytes, {name} {field.itemsize}"
    if member.inner:
        return describe_misfit(member.inner, base) if base.fields else ""
    allowed = member.kind.dtypes if member.kind else ("uint64", "int64")
    is_vector = member.kind is not None and member.kind.count > 1
    if is_vector or base.kind == "V" or base.name in allowed:
        return ""
    return f"{member.param}: expects {allowed[0]}, not {base.name}"


_ALIGN = r"(?:(?:__align__|alignas)\s*\((?P<align>[^)]*)\)\s*)?"
_STRUCT = re.compile(
    rf"(?P<typedef>\btypedef\s+)?\b(?:struct|class)\s+{_ALIGN}(?P<name>\w+)?\s*\{{"
)


def _align_layout(layout: StructLayout, align: int) -> StructLayout:
    align = max(align, layout.align)
    return replace(layout, align=align, size=-(-layout.size // align) * align)


def _make_layout(
    body: str,
    aliases: dict[str, str],
    numbers: dict[str, int],
    known: dict[str, StructLayout],
) -> StructLayout | None:
    members, end, widest = [], 0, 1
    for base, stars, name, brackets in list_declarators(body):
        param = signature.declare(f"{base} {stars}", name, aliases)
        param = replace(param, text=" ".join(f"{base} {stars}{name}".split()))
        kind = None if param.pointer else find_scalar(param.type)
        inner = None if param.pointer else known.get(param.type.split("::")[-1])
        slot = (kind.size, kind.align) if kind else (8, 8) if param.pointer else None
        slot = (inner.size, inner.align) if inner and not kind else slot
        extents = extents_of(brackets, numbers)
        if slot is None or None in extents:
            return None
        size, align = slot
        end += -end % align
        members.append(Member(param, end, size, extents, kind, None if kind else inner))
        end += size * math.prod(extents)
        widest = max(widest, align)
    return _align_layout(StructLayout("", max(end, 1), widest, tuple(members)), widest)


_DECLARATOR = re.compile(r"(.*?)([\s*]*)\b(\w+)\s*((?:\[[^\]]*\]\s*)*)", re.S)
# A member of unknown type; its struct has no layout.
_UNKNOWN = ("?", "", "?", "")
_STRANGE = re.compile(
    r"\b(?:virtual|union|struct\s+\w*\s*\{|template|operator\b.*\bvirtual)|#|&|\(\s*\*"
    r"|\balignas\b|__align__|(?<!:):(?!:)"
)
_NO_FUNCTION = r"\(\s*\*|\bvirtual\b|\b__align__\b|\balignas\b"
_METHOD = re.compile(r"\)[\s\w]*(?::[^{;]*)?$")  # the text before a method's body


def list_declarators(body: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield (base type, stars, name, [extents]) for each member; skip functions."""
    body = re.sub(r"\b(?:public|private|protected)\s*:", " ", body)
    for text in _split_statements(body):
        if re.match(r"\s*(?:static|using|typedef|friend|enum)\b", text):
            continue
        if "(" in text and not re.search(_NO_FUNCTION, text):
            continue
        if _STRANGE.search(text):
            yield _UNKNOWN
            continue
        text = signature.QUALIFIERS.sub(" ", text)
        base = ""
        for i, (start, end) in enumerate(scanner.split_commas(text, 0, len(text))):
            part = text[start:end]
            part = re.sub(r"=.*|\{.*", "", part, flags=re.S).strip()
            match = _DECLARATOR.fullmatch(part)
            if not match or (i and match[1].strip()):
                yield _UNKNOWN
                continue
            base = base or match[1].strip()
            yield base or "?", match[2].strip(), match[3], match[4]


def _split_statements(body: str) -> Iterator[str]:
    """Yield the text before each semicolon; a method with a body ends at its brace."""
    start = at = 0
    while at < len(body):
        if body[at] == "{":
            closing = scanner.find_close(body, at)
            if closing < 0:
                return
            if _METHOD.search(body[start:at]):
                start = closing + 1
            at = closing
        elif body[at] == ";":
            if body[start:at].strip():
                yield body[start:at]
            start = at + 1
        at += 1


# ---- the lengths of arrays -----------------------------------------------------


def list_constants(code: str) -> dict[str, int]:
    """Return the named integers and their values, from #define, const and enum."""
    constants: dict[str, int] = {}
    const = r"\b(?:constexpr|const)\s+[\w\s]*?\b(?P<name>\w+)\s*=(?P<value>[^;,]+);"
    for pattern in (scanner.DEFINE, re.compile(const)):
        for match in pattern.finditer(code):
            if (value := numbers_of(match["value"], constants)) is not None:
                constants[match["name"]] = value
    for match in re.finditer(r"\benum\b[^{;]*\{([^}]*)\}", code):
        next_value = 0
        for item in match[1].split(","):
            name, _, value = item.partition("=")
            number = numbers_of(value, constants) if value.strip() else next_value
            if number is None or not name.strip():
                break
            constants[name.strip()] = number
            next_value = number + 1
    return constants


_OPERATORS = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul},
    **{ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod},
    **{ast.LShift: operator.lshift, ast.RShift: operator.rshift},
}


def numbers_of(text: str, known: dict[str, int]) -> int | None:
    """Evaluate a constant integer expression; None if it contains an unknown name."""
    text = re.sub(r"\b(\d+)[uUlL]+\b", r"\1", text.strip()).replace("/", "//")
    try:
        return _evaluate(ast.parse(text, mode="eval").body, known)
    except (SyntaxError, ValueError, KeyError, ZeroDivisionError, OverflowError):
        return None


def extents_of(brackets: str, known: dict[str, int]) -> tuple[int | None, ...]:
    """Evaluate the lengths of an array's dimensions, such as "[4][N]"."""
    lengths = re.findall(r"\[([^\]]*)\]", brackets)
    return tuple(numbers_of(length, known) for length in lengths)


def _evaluate(node: ast.expr, known: dict[str, int]) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return known[node.id]
    if isinstance(node, ast.BinOp) and abs(_evaluate(node.right, known)) < 1 << 32:
        left, right = _evaluate(node.left, known), _evaluate(node.right, known)
        if type(node.op) in (ast.LShift, ast.RShift) and not 0 <= right < 64:
            raise ValueError
        return _OPERATORS[type(node.op)](left, right)
    raise ValueError
