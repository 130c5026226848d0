"""Write statements and functions in C, with the source's comments and blank lines."""

from __future__ import annotations

import ast
from typing import Any

from ...csource.scanner import find_close
from . import statements
from .expressions import Expressions
from .statements import check_loops, is_dropped, write_number, write_simple
from .text import WIDTH, Comment, wrap, write_docstring
from .types import CONST, ScalarType
from .unit import Unit

Line = tuple[str, int]  # a line of the C text, and the number of its source line


class UnitWriter:
    """The writer of one unit of the translation, as `lines`."""

    _For = statements.write_for

    def __init__(self, unit: Unit, output: Any) -> None:
        self.unit, self.output = unit, output
        self.exprs = Expressions(unit, output)
        self.lines: list[Line] = []
        self.comments: list[Comment] = list(unit.comments)
        self.depth = 1
        # For each statement that declares a variable, whether this is constant.
        self.inline: dict[ast.stmt, bool] = {}
        self.before: dict[ast.stmt, list[tuple[str, bool]]] = {}
        self.line = unit.tree.lineno
        self.group: Any = None  # the source statement that was written last

    # ---- functions ----

    def function(self) -> list[Line]:
        """Return the lines of the whole function."""
        unit = self.unit
        check_loops(self)
        self._find_homes()
        first = unit.tree.body[0].lineno if unit.tree.body else self.line
        self.comments = [c for c in self.comments if c.line >= unit.tree.lineno]
        header = [c for c in self.comments if c.line < first and not c.alone]
        self.comments = [c for c in self.comments if c not in header]
        self.block(unit.tree.body)
        body = self.lines
        unused = [
            f"    (void){self.output.spelled(unit, p)};"
            for p in unit.parameters
            if (unit, p) not in self.output.used
        ]
        top = unit.tree.lineno
        head = [(line, top) for line in write_docstring(unit.source.tree)]
        head += [(f"// {c.text}", c.line) for c in header]
        head += [(line, top) for line in [*self._write_signature(), *unused]]
        return [*head, *body, ("}", unit.tree.end_lineno or 0)]

    def _write_signature(self) -> list[str]:
        unit = self.unit
        parts = [self._write_parameter(p) for p in unit.parameters]
        parts += [f"int {self.output.spelled(unit, name)}" for name in unit.sides]
        words = "__global__ void "
        if not unit.kernel:
            kind = unit.returns
            type_ = "void" if kind is None else self.exprs.type(kind, (unit, ""))
            words = f"static __device__ {type_} "
        head = f"{words}{self.output.unit_name(unit)}("
        lines, line = [], head
        for number_, part in enumerate(parts):
            end = ", " if number_ + 1 < len(parts) else ") {"
            if len(line) + len(part + end.rstrip()) > WIDTH and line.strip() != head:
                lines.append(line.rstrip())
                line = " " * len(head)
            line += part + end
        return [*lines, line if parts else f"{head}) {{"]

    def _write_parameter(self, name: str) -> str:
        unit = self.unit
        kind = unit.variables[name]
        spelled = self.output.spelled(unit, name)
        if isinstance(kind, ScalarType):
            return f"{self.exprs.type(kind, (unit, name))} {spelled}"
        constant = name not in unit.written
        if len(kind.shape) > 1:
            sides = "".join(f"[{side}]" for side in kind.shape)
            word = "const " * (kind.space == CONST)
            return f"{word}{kind.dtype.c} {spelled}{sides}"
        return f"{'const ' * constant}{kind.dtype.c} *{spelled}"

    # ---- declarations ----

    def _find_homes(self) -> None:
        unit = self.unit
        names = unit.scope.assigned() - set(unit.parameters) - set(unit.extents)
        for name in unit.scope.uses:
            if name not in names or not unit.scope.read(name):
                continue
            if not isinstance(unit.variables.get(name), ScalarType):
                continue
            home = unit.scope.home(name)
            if home.inline:
                self.inline[home.at] = home.constant
            else:
                self.before.setdefault(home.at, []).append((name, home.blank))

    def type_of(self, name: str) -> str:
        return self.exprs.type(self.unit.variables[name], (self.unit, name))

    # ---- lines ----

    def put(self, text: str, line: int | None = None) -> None:
        """Add a line at the current depth, folded if it is too long."""
        indent = "    " * self.depth
        for part in wrap(indent + text):
            self.lines.append((part, self.line if line is None else line))

    def block(self, body: list[ast.stmt]) -> None:
        """Write statements, with the comments before, next to and after them."""
        start = len(self.lines)
        for number_, one in enumerate(body):
            self.line = one.lineno
            first = min([c.line for c in self._list_above(one)], default=one.lineno)
            blank = not self.unit.source.line(first - 1).strip()
            if blank and len(self.lines) > start and not is_dropped(self, one):
                self.lines.append(("", first))
            for comment in self._list_above(one):
                self._comment(comment)
            self._statement(one, next(iter(body[number_ + 1 :]), None))
        if body:
            inner = body[0].col_offset
            end = max(getattr(s, "end_lineno", 0) or 0 for s in body)
            for comment in list(self.comments):
                if comment.line <= end or not comment.alone:
                    continue
                between = map(self.unit.source.line, range(end + 1, comment.line))
                code = any(line.strip() and line.strip()[0] != "#" for line in between)
                if comment.column < inner or code:
                    break
                self._comment(comment)

    def _list_above(self, one: ast.stmt) -> list[Comment]:
        return [c for c in self.comments if c.alone and c.line < one.lineno]

    def _comment(self, comment: Comment) -> None:
        self.comments.remove(comment)
        text = f"// {comment.text}" if comment.text else "//"
        self.lines.append(("    " * self.depth + text, comment.line))

    def _take_beside(self, first: int, last: int) -> str:
        """Return the comments that follow code in these lines, joined into one."""
        comments = [c for c in self.comments if first <= c.line <= last]
        return self._take(comments)

    def _take(self, comments: list[Comment]) -> str:
        """Mark comments as written; return their joined text."""
        self.comments = [c for c in self.comments if c not in comments]
        return " ".join(c.text for c in comments)

    def _statement(self, one: ast.stmt, following: ast.stmt | None) -> None:
        if is_dropped(self, one):
            if not self._continues(one, following):
                self._take_beside(one.lineno, one.end_lineno or one.lineno)
            return
        for name, blank in self.before.get(one, ()):
            type_ = self.type_of(name)
            start = f" = {write_number(0, type_)}" if blank else ""
            self.put(f"{type_} {self.output.name(self.unit, name)}{start};")
        if isinstance(one, (ast.If, ast.For, ast.While)):
            getattr(self, f"_{type(one).__name__}")(one)
            return
        at = len(self.lines)
        self.put(write_simple(self, one))
        self._join_group(one, at)
        if not self._continues(one, following):
            text = self._take_beside(one.lineno, one.end_lineno or one.lineno)
            self._attach(text, at)

    def _attach(self, text: str, at: int) -> None:
        """Append a comment to the last line; put a long one above line `at`."""
        if not text or len(self.lines) == at:
            return
        line, number_ = self.lines[-1]
        if len(line) + len(text) + 4 <= WIDTH + 8:
            self.lines[-1] = f"{line} // {text}", number_
        else:
            self.lines.insert(at, ("    " * self.depth + f"// {text}", number_))

    def _continues(self, one: ast.stmt, following: ast.stmt | None) -> bool:
        group = getattr(one, "together", None)
        return group is not None and group is getattr(following, "together", None)

    def _join_group(self, one: ast.stmt, at: int) -> None:
        """Join short declarations that are on one line in the source."""
        group = getattr(one, "together", None)
        if group is None or at == 0 or len(self.lines) != at + 1:
            return
        if isinstance(group.value, ast.Call) or self.group is not group:
            self.group = group
            return
        (old, line), (new, _) = self.lines[at - 1], self.lines[at]
        word = new.split("=")[0].split()[:-1]
        head = "    " * self.depth + " ".join(word) + " "
        simple = all("(" not in t and " // " not in t for t in (old, new))
        joined = f"{old[:-1]}, {new[len(head) :]}"
        if word and old.startswith(head) and simple and len(joined) <= WIDTH:
            self.lines[at - 1 :] = [(joined, line)]

    # ---- blocks ----

    def write_body(self, head: str, body: list[ast.stmt], comment: str) -> bool:
        """Write `head` and its block, on one line if short; return whether braced."""
        start = len(self.lines)
        line = self.line
        indent = "    " * self.depth
        self.depth += 1
        self.block(body)
        self.depth -= 1
        inner = self.lines[start:]
        single = len(body) == 1 and len(inner) == 1 and not comment
        if single and not isinstance(body[0], (ast.If, ast.For, ast.While)):
            text = inner[0][0].strip()
            joined = f"{indent}{head} {text}"
            fits = "//" not in text or len(joined) <= WIDTH
            short = len(joined) <= WIDTH + 8 * ("//" in text) and fits
            if short and not text.startswith(_DECLARATIONS):
                self.lines[start:] = [(joined, inner[0][1])]
                return False
        full = f"{indent}{head} {{ // {comment}"
        if comment and len(full) <= WIDTH + 8:
            heads = [(full, line)]
        else:
            heads = [(part, line) for part in wrap(f"{indent}{head} {{")]
            if comment and head.startswith("}"):
                inner.insert(0, (f"{indent}    // {comment}", line))
            elif comment:
                heads.insert(0, (f"{indent}// {comment}", line))
        self.lines[start:] = [*heads, *inner]
        return True

    def take_header(self, one: Any) -> str:
        lines = range(one.lineno, one.body[0].lineno)
        return self._take([c for c in self.comments if c.line in lines and not c.alone])

    def _If(self, one: ast.If) -> None:
        word, start = "if", len(self.lines)
        while True:
            head = f"{word} ({self.exprs.expr(one.test).text})"
            if not one.orelse:
                braces = self.write_body(head, one.body, self.take_header(one))
                if word != "if" and not braces:
                    self._add_braces(start)
                    braces = True
                if braces:
                    self.put("}", one.end_lineno)
                return
            at = len(self.lines)
            if not self.write_body(head, one.body, self.take_header(one)):
                self._brace(at, head)
            self.line = one.orelse[0].lineno
            inner = one.orelse[0]
            if self._is_elif(one.orelse):
                for comment in self._list_above(inner):
                    self.depth += 1
                    self._comment(comment)
                    self.depth -= 1
                word, one, start = "} else if", inner, len(self.lines)
                continue
            between = range(one.body[-1].end_lineno or 0, one.orelse[0].lineno)
            note = self._take(
                [c for c in self.comments if c.line in between and not c.alone]
            )
            at = len(self.lines)
            if not self.write_body("} else", one.orelse, note):
                self._brace(at, "} else")
            self.put("}", one.end_lineno)
            return

    def _is_elif(self, orelse: list[ast.stmt]) -> bool:
        inner = orelse[0]
        if len(orelse) > 1 or not isinstance(inner, ast.If):
            return False
        line = self.unit.source.line(inner.lineno)
        return line[inner.col_offset :].startswith("elif") and inner not in self.before

    def _brace(self, at: int, head: str) -> None:
        """Put the one-line body at line `at` on a separate line, and add braces."""
        text, line = self.lines[at]
        indent = "    " * self.depth
        body = text[len(indent) + len(head) + 1 :]
        self.lines[at:] = [(f"{indent}{head} {{", line), (f"{indent}    {body}", line)]

    def _add_braces(self, at: int) -> None:
        text = self.lines[at][0]
        end = find_close(text, text.index("("))
        self._brace(at, text[4 * self.depth : end + 1])

    def _While(self, one: ast.While) -> None:
        head = f"while ({self.exprs.expr(one.test).text})"
        if self.write_body(head, one.body, self.take_header(one)):
            self.put("}", one.end_lineno)


_DECLARATIONS = (
    *("const ", "int ", "float ", "double ", "bool ", "unsigned ", "long long "),
    *("__shared__", "extern ", "short ", "signed ", "half ", "//"),
)
