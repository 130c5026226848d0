"""print() as printf()."""

from __future__ import annotations

import ast
from typing import Any

from .text import C, cast

_PRINTF = {
    **{"bool": "%d", "int": "%d", "short": "%d", "signed char": "%d"},
    **{"unsigned": "%u", "unsigned char": "%u", "unsigned short": "%u"},
    **{"long long": "%lld", "unsigned long long": "%llu"},
    **{"float": "%g", "double": "%g", "half": "%g"},
}


def emit_printf(to: Any, node: ast.Call) -> str:
    """print(...) as printf(...)."""
    words = {k.arg: k.value.value for k in node.keywords}
    parts, values = [], []
    for arg in node.args:
        pieces = arg.values if isinstance(arg, ast.JoinedStr) else [arg]
        text = ""
        for one in pieces:
            if isinstance(one, ast.Constant) and isinstance(one.value, str):
                text += _escape_text(one.value)
                continue
            value = one.value if isinstance(one, ast.FormattedValue) else one
            made = to.expr(value)
            text += _format(to, one, made)
            values.append(
                made.text if made.type != "half" else cast("float", made).text
            )
        parts.append(text)
    line = _escape_text(words.get("sep", " ")).join(parts) + _escape_text(
        words.get("end", "\n")
    )
    return f"printf({', '.join([_quote_text(line), *values])})"


def _quote_text(text: str) -> str:
    return f'"{text}"'


def _escape_text(text: str) -> str:
    out = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return out.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")


def _format(to: Any, node: ast.AST, made: C) -> str:
    plain = _PRINTF[made.type]
    spec = getattr(node, "format_spec", None)
    if spec is None:
        return plain
    text = "".join(v.value for v in spec.values if isinstance(v, ast.Constant))
    digits = text.lstrip("0123456789.+-")
    if digits not in ("", "d", "f", "e", "g", "x") or len(text) == 0:
        to.unit.fail(f"the format {text!r} is not printf's", "write :.3f or :5d", node)
    width = text[: len(text) - len(digits)]
    return (
        "%"
        + width
        + (plain[1:-1] if plain[-1] in "du" and len(plain) > 2 else "")
        + (digits or plain[-1])
    )
