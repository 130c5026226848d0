"""What cannot be translated, said at its own line with the way to write it."""

from __future__ import annotations

import ast
from pathlib import Path

from ...csource.diagnostics import CompileError, Diagnostic
from ..language.kernel import FunctionSource


class TranslationError(CompileError):
    """A kernel, or a helper that it calls, does not become CUDA C.

    line, column: in the file or cell, from 1; hint: how to write it.
    """

    def __init__(
        self,
        message: str,
        hint: str,
        function: str,
        source: FunctionSource,
        node: ast.AST,
    ) -> None:
        self.line = getattr(node, "lineno", source.first)
        column = getattr(node, "col_offset", 0)
        text = source.line(self.line)
        self.column = len(text.encode()[:column].decode(errors="replace")) + 1
        self.hint, self.function = hint, function
        one = Diagnostic("", self.line, column + 1, "error", message)
        super().__init__([one], source.text, function)
        shown = f"{describe_place(source, self.line)}, in {function}: error: {message}"
        if text.strip():
            indent = len(text) - len(text.lstrip())
            shown += f"\n    {text.strip()}"
            shown += f"\n    {' ' * max(self.column - 1 - indent, 0)}^"
        self.args = (shown + (f"\n  hint: {hint}" if hint else ""),)

    def __str__(self) -> str:
        return self.args[0]


def describe_place(source: FunctionSource, line: int) -> str:
    """`kernels.py, line 12`; of a notebook's cell just the line."""
    name = Path(source.file).name
    if not name or "ipykernel" in source.file or name.startswith("<"):
        return f"line {line}"
    return f"{name}, line {line}"
