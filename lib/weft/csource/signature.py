"""Parse the kernels of a cell: their names, parameters and templates.

Python's arguments are converted to the declared types: 2.0 becomes a float where
`float` is declared. The module resolves `typedef`, `using` and `#define` of a type.
"""

from __future__ import annotations

import contextlib
import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..base.errors import ArgumentError
from ..base.text import shorten_repr
from . import scanner


@dataclass(frozen=True)
class Param:
    """One parameter; `const float *__restrict__ a` is a const pointer of type float.

    type:  the C type without const and without the last *; "float *" for a float **
    const: whether a pointer's target is read-only (False for values)
    text:  the parameter as written in the source
    """

    type: str
    name: str
    pointer: bool
    const: bool
    text: str = ""

    def __str__(self) -> str:
        return self.text or f"{self.type} {'*' * self.pointer}{self.name}"


@dataclass(frozen=True)
class TemplateParam:
    """A template parameter: `class T` or `int TILE = 16`.

    kind: "" if the parameter is a type, otherwise the value's type, such as int
    """

    kind: str
    name: str
    default: str = ""


@dataclass(frozen=True)
class Signature:
    """A __global__ function defined in the source. line: its line, counted from 1."""

    name: str
    params: tuple[Param, ...]
    template: tuple[TemplateParam, ...]
    line: int
    scope: str = ""  # "outer::" for a kernel in namespace outer
    returns: str = "void"

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.params))})"

    def instantiate(self, args: Sequence[Any]) -> tuple[str, tuple[Param, ...]]:
        """Return the instance's C++ name and its parameters.

        args: template arguments: strings of C++, ints, bools, NumPy or torch dtypes, or
            the types int, float and bool. Arguments with a default may be omitted.

        Raises ArgumentError if the arguments do not fit the template.
        """
        values = [_template_argument(self, arg) for arg in args]
        for param, arg in zip(self.template, args):
            _check_kind(self, param, arg)
        defaults = [p.default for p in self.template]
        missing = [p.name for p in self.template[len(values) :] if not p.default]
        if len(values) > len(self.template) or missing:
            expected = ", ".join(p.name for p in self.template)
            text = f"{self.name} takes {len(self.template)} template arguments"
            text += f" ({expected})" * bool(expected)
            raise ArgumentError(f"{text}, but {len(values)} are given")
        if not self.template:
            return self.scope + self.name, self.params
        known: dict[str, str] = {}
        for param, value in zip(self.template, values + defaults[len(values) :]):
            known[param.name] = _substitute(value, known)
        expression = f"{self.scope}{self.name}<{', '.join(known.values())}>"
        return expression, tuple(_with_types(p, known) for p in self.params)


def parse(source: str) -> list[Signature]:
    """Return the kernels that `source` defines, in source order.

    Declarations without a body and code under `#if 0` are omitted.
    """
    code = scanner.blank_comments(source)
    aliases = read_aliases(code)
    code = scanner.blank_directives(code)
    return [
        _parse_signature(source, code, function, aliases)
        for function in scanner.list_functions(code, "__global__")
        if function.brace is not None and not function.is_specialised
    ]


# A launch other than <<<>>>, such as cudaLaunchKernelEx(&config, k, ...).
_LAUNCH_CALL = re.compile(r"\bcudaLaunch\w*Kernel\w*\s*\(")
_FUNCTION = re.compile(r"(?P<name>\w+)\s*\((?P<params>[^;{}]*)\)[^()]*$")


@dataclass(frozen=True)
class Launcher:
    """A host function that starts kernels, possibly through other functions.

    body: the code between its braces, without comments
    is_callable: whether other files can call it: it is neither static nor main()
    """

    signature: Signature
    body: str
    is_callable: bool


def list_launchers(source: str) -> list[Launcher]:
    """Return the host functions in `source` that start kernels."""
    code = scanner.blank_comments(source)
    aliases = read_aliases(code)
    code = scanner.blank_directives(code)
    found = []
    for head, start, body in scanner.list_outermost(code):
        match = _FUNCTION.search(head)
        if not (body and match) or re.search(rf"\b{scanner.DEVICE}", head):
            continue
        name_at, opening = start + match.start(), start + match.start("params") - 1
        places = name_at, name_at, opening, start + match.end("params")
        function = scanner.Function(match["name"], *places, None, False)
        signature = _parse_signature(source, code, function, aliases)
        is_static = re.search(r"\bstatic\b", head[: match.start()])
        is_callable = not is_static and match["name"] != "main"
        found.append(Launcher(signature, body, is_callable))
    starts = [one for one in found if _starts_kernel(one.body)]
    for one in starts:  # the list grows: callers of launchers are launchers
        call = re.compile(rf"\b{one.signature.name}\s*(?:<[^;]*>)?\(")
        starts += [f for f in found if f not in starts and call.search(f.body)]
    return [one for one in found if one in starts]


def _starts_kernel(body: str) -> bool:
    return bool(scanner.LAUNCH.search(body) or _LAUNCH_CALL.search(body))


# ---- one kernel --------------------------------------------------------------

QUALIFIERS = re.compile(
    r"\b(?:__restrict__|__restrict|restrict|volatile|__grid_constant__|struct|class"
    r"|typename|register|\[\[maybe_unused\]\])\b"
)


def _parse_signature(
    source: str, code: str, function: scanner.Function, aliases: dict[str, str]
) -> Signature:
    parts = scanner.split_commas(code, function.opening + 1, function.closing)
    params = [_parse_param(code[a:b], source[a:b], aliases) for a, b in parts]
    start = max(code.rfind(c, 0, function.start) for c in ";}") + 1
    head = code[start : function.start]
    words = scanner.SPECIFIER.sub(" ", code[start : function.name_at]).split()
    qualifiers = {"static", "inline", "extern", ">"}
    return Signature(
        function.name,
        tuple(p for p in params if p),
        _parse_template(head),
        source.count("\n", 0, function.start) + 1,
        scanner.scope_at(code, function.start) or "",
        words[-1] if words and not words[-1].endswith(tuple(qualifiers)) else "",
    )


def _parse_param(code: str, raw: str, aliases: dict[str, str]) -> Param | None:
    code = code.split("=")[0].strip()
    text = " ".join(scanner.NOT_CODE.sub(" ", raw).split("=")[0].split())
    if code in ("", "void"):
        return None
    code = re.sub(r"\b__align__\s*\([^)]*\)|\[\[.*?\]\]", " ", code)
    code = QUALIFIERS.sub(" ", code)
    array = re.search(r"\[[^\]]*\]\s*$", code)  # a parameter float a[] is a pointer
    code = code[: array.start()] if array else code
    match = re.search(r"(?<!:)\b([A-Za-z_]\w*)\s*$", code)
    name, kind = "", code
    if match and not _is_type(code[match.start() :], code[: match.start()]):
        name, kind = match[1], code[: match.start()]
    return replace(declare(kind + "*" * bool(array), name, aliases), text=text)


def declare(kind: str, name: str, aliases: dict[str, str]) -> Param:
    """Return a Param for a type as written, with typedefs resolved."""
    for _ in range(8):
        resolved = _substitute(kind, aliases)
        if resolved == kind:
            break
        kind = resolved
    kind = re.sub(r"\*\s*const\b", "*", kind)
    pointer = kind.rstrip().endswith("*")
    if pointer:
        kind = kind.rstrip()[:-1]
    const = bool(re.search(r"\bconst\b", kind)) and pointer
    kind = " ".join(re.sub(r"\bconst\b", " ", kind).replace("*", " * ").split())
    return Param(spell_type(kind), name, pointer, const)


_WORDS = {
    *("void", "bool", "char", "short", "int", "long", "unsigned", "signed"),
    *("float", "double", "const", "size_t", "half"),
}


def _is_type(word: str, head: str) -> bool:
    """Return whether the last word of a parameter is its type, not its name."""
    word, head = word.strip(), head.strip()
    return word in _WORDS or head in ("", "const") or head.endswith("::")


def spell_type(kind: str) -> str:
    """Normalise C's integer types: `long unsigned int` becomes `unsigned long`."""
    words = kind.split()
    integer_words = {"unsigned", "signed", "char", "short", "int", "long"}
    if not words or not set(words) <= integer_words:
        return " ".join(words)
    sign = "unsigned " if "unsigned" in words else ""
    if "char" in words:
        return sign + "char" if sign or "signed" not in words else "signed char"
    longs = words.count("long")
    if "short" in words:
        return sign + "short"
    return sign + {0: "int", 1: "long", 2: "long long"}[min(longs, 2)]


# ---- templates, namespaces, typedefs ------------------------------------------


def _parse_template(head: str) -> tuple[TemplateParam, ...]:
    match = re.search(r"\btemplate\s*<", head)
    if not match:
        return ()
    opening = match.end() - 1
    closing = head.rfind(">")
    params = []
    for start, end in scanner.split_commas(head, opening + 1, closing):
        declared, _, default = head[start:end].partition("=")
        words = declared.replace("...", " ... ").split()
        if not words:
            continue
        name = words[-1] if len(words) > 1 else ""
        kind = " ".join(words[:-1])
        kind = "" if kind in ("class", "typename") else spell_type(kind)
        params.append(TemplateParam(kind, name, default.strip()))
    return tuple(params)


def read_aliases(code: str) -> dict[str, str]:
    """Return aliases of types: typedef, using, enum, and #define of one type."""
    kind = r"((?:[\w:]|[ \t*])+?)"
    aliases = {}
    for match in re.finditer(rf"\busing\s+(\w+)\s*=\s*{kind}\s*;", code):
        aliases[match[1]] = match[2]
    for match in re.finditer(rf"\btypedef\s+{kind}\s*\b(\w+)\s*;", code):
        aliases[match[2]] = match[1]
    for match in scanner.DEFINE.finditer(code):
        if set(match["value"].replace("*", " ").split()) <= _WORDS:
            aliases[match["name"]] = match["value"]
    enum = r"\benum\s+(?:class\s+|struct\s+)?(\w+)\s*(?::([\w\s]+))?\{"
    for match in re.finditer(enum, code):
        aliases[match[1]] = match[2] or "int"  # Python passes an enum as a number
    return {name: text.strip() for name, text in aliases.items()}


def _substitute(text: str, known: dict[str, str]) -> str:
    if not known:
        return text
    return re.sub(r"(?<![\w:])[A-Za-z_]\w*", lambda m: known.get(m[0], m[0]), text)


def _with_types(param: Param, known: dict[str, str]) -> Param:
    kind = "const " * param.const + _substitute(param.type, known)
    declared = declare(kind + " *" * param.pointer, param.name, {})
    return replace(declared, text=param.text)


_DTYPES = {
    **{"float16": "__half", "bfloat16": "__nv_bfloat16", "float32": "float"},
    **{"float64": "double", "bool": "bool", "int8": "signed char", "int16": "short"},
    **{"int32": "int", "int64": "long long", "uint8": "unsigned char"},
    **{"uint16": "unsigned short", "uint32": "unsigned int"},
    "uint64": "unsigned long long",
}
_PYTHON_TYPES = {float: "float", int: "int", bool: "bool"}


def c_type(dtype: Any) -> str | None:
    """Return the C type of a dtype (NumPy, torch, or its name); None if unknown."""
    text = dtype if isinstance(dtype, str) else shorten_repr(dtype)
    name = getattr(dtype, "name", None) or text.removeprefix("torch.")
    if isinstance(dtype, type):  # such as numpy.float32
        name = dtype.__name__.rstrip("_")
    return _DTYPES.get(name)


def _check_kind(signature: Signature, param: TemplateParam, arg: Any) -> None:
    """Raise ArgumentError for a type instead of a value, or the reverse."""
    if isinstance(arg, str):
        return
    is_value = hasattr(arg, "__index__") and not isinstance(arg, type)
    if is_value != bool(param.kind):
        kind = f"a value ({param.kind})" if param.kind else "a type"
        names = ", ".join(p.name for p in signature.template)
        raise ArgumentError(
            f"{signature.name}: {param.name} is {kind}, but {shorten_repr(arg)} is "
            f"not; the template's arguments come before the grid: "
            f"{signature.name}[{names}][grid, block](...)"
        )


def _template_argument(signature: Signature, arg: Any) -> str:
    if isinstance(arg, bool):
        return "true" if arg else "false"
    if isinstance(arg, str) and arg.strip():
        return arg.strip()
    if isinstance(arg, type) and arg in _PYTHON_TYPES:
        return _PYTHON_TYPES[arg]
    if hasattr(arg, "__index__") and not isinstance(arg, type):
        with contextlib.suppress(Exception):  # arrays have an __index__ that may raise
            return str(operator.index(arg))
    if name := c_type(arg):
        return name
    raise ArgumentError(
        f"{signature.name}: {shorten_repr(arg)} is not a template argument: pass a "
        f"number, a dtype or C++ as a string, e.g. "
        f'{signature.name}["float", 16][grid, block](...)'
    )
