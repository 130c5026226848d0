"""The comments of a function, and where they stand."""

from __future__ import annotations

import ast
import inspect
import io
import re
import textwrap
import tokenize
from dataclasses import dataclass

from ..language.kernel import Source

_TOOLS = re.compile(r"#\s*(?:noqa|type:|fmt:|ruff|pylint|pragma|isort|%%|mypy)")


@dataclass(frozen=True)
class Comment:
    """One comment. text: without its #; alone: nothing stands before it."""

    line: int
    column: int
    text: str
    alone: bool


def list_comments(source: Source) -> list[Comment]:
    """The comments of a function in their order, those for tools left out."""
    found = []
    text = source.text
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type != tokenize.COMMENT or _TOOLS.match(token.string):
                continue
            line, column = token.start
            alone = not token.line[:column].strip()
            words = re.sub(r"^#+:?\s?", "", token.string).rstrip()
            if words or alone:
                number = source.first + line - 1
                found.append(Comment(number, column, _escape_comment(words), alone))
    except (tokenize.TokenError, IndentationError):
        pass  # what follows the function in its file; its own have been seen
    return found


def _escape_comment(text: str) -> str:
    """A // comment that ends in a backslash would take the next line with it."""
    return text.rstrip("\\").rstrip() if text.endswith("\\") else text


def write_docstring(tree: ast.FunctionDef) -> list[str]:
    """The docstring as lines of one /* */; [] if there is none."""
    text = ast.get_docstring(tree)
    if not text:
        return []
    lines = inspect.cleandoc(text.replace("*/", "* /").replace("/*", "/ *")).split("\n")
    if len(lines[0]) > 76:
        lines[:1] = textwrap.wrap(lines[0], 76)
    if len(lines) == 1:
        return [f"/* {lines[0]} */"]
    body = [f" * {line}".rstrip() for line in lines[1:]]
    if len(body[-1]) < 76:
        return [f"/* {lines[0]}", *body[:-1], f"{body[-1]} */"]
    return [f"/* {lines[0]}", *body, " */"]
