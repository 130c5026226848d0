"""Report the share of plumbing in each lesson's code: `python
tests/lesson_plumbing.py`.

The script counts the lines of a lesson's source that are neither blank nor comments. It
considers the cells that the reader gets, except those of puzzles and the one that
fetches the lab. All lines under a cell magic (%%cuda, %%writefile) belong to the
lesson's subject. A Python statement is plumbing if it is of one of these kinds:

imports   an import
paths     it builds a path or reads a file: ROOT, Path, glob(), read_json() ...
pictures  it draws with matplotlib: a block `with figure(...) as ax`, a call of ax
tables    it lays out text: a print() of padded columns or of a fixed heading, or an
          assignment of text that is put together
helpers   a function that the lesson's text does not name, unless it is a kernel,
          launches one or checks an answer. It must also do more than compute: it writes
          text, or calls a function that is neither from Python, NumPy or PyTorch nor
          one that only computes

A statement that launches (kernel[...](...), inspect(), train(), backward()), guesses,
checks or asserts is not plumbing. The head of a block is plumbing if all of it is.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nbformat import NotebookNode

from weft.lessons.grading import write_plain_python
from weft.lessons.maker import SOURCES, is_tagged, is_withheld, read_source

KINDS = ("imports", "paths", "pictures", "tables", "helpers")
ASKS = {"predict", "compare_guesses", "measured", "exercise", "check"}
ASKS |= {"check_op", "verify"}
LAUNCHES = {"inspect", "train", "backward"}
COMPUTE = {"np", "math", "torch", "F", "float32", "float64", "cdiv", "size"}
COMPUTE |= {"namedtuple"} | set(dir(builtins)) - {"print", "open"}
FILES = {"ROOT", "Path", "glob", "read_json", "read_text", "load_elsewhere"}
FIGURES = {"figure", "sheet"}
AXES = {"ax", "axes", "plt", "fig"}
PADDED = re.compile(r"f'([<>^]|\d)")  # a format with a width


@dataclass(frozen=True)
class Plumbing:
    """The counts of a lesson: its lines, those of each kind, its imports."""

    lines: int
    kinds: Counter[str]
    import_cells: int
    import_lines: int  # imports of the cell that has the most

    @property
    def share(self) -> float:
        """The share of the lines that are plumbing."""
        return sum(self.kinds.values()) / max(self.lines, 1)


def count_plumbing(source: NotebookNode) -> Plumbing:
    """Count the lines of a lesson's source."""
    matter = COMPUTE | _list_named(source)
    lines, kinds, imports = 0, Counter[str](), []
    for cell in source.cells:
        if cell.cell_type != "code" or is_withheld(cell):
            continue
        lines += len(_find_code(cell.source))
        if cell.source.startswith("%%"):
            continue
        text = write_plain_python(cell)
        answers = is_tagged(cell, "exercise") or "exercise(" in text
        code, kind_of = _find_code(text), {}
        for kind, first, last in _list_plumbing(ast.parse(text).body, matter, answers):
            kind_of |= dict.fromkeys(code & {*range(first, last + 1)}, kind)
        counts = Counter(kind_of.values())
        kinds += counts
        imports += [counts["imports"]] * (counts["imports"] > 0)
    return Plumbing(lines, kinds, len(imports), max(imports, default=0))


def _list_named(source: NotebookNode) -> set[str]:
    """List the names that the text has in backticks, alone or in a piece of code."""
    texts = (cell.source for cell in source.cells if cell.cell_type == "markdown")
    pieces = (piece for text in texts for piece in re.findall(r"`([^`\n]+)`", text))
    return {name for piece in pieces for name in re.findall(r"\w+", piece)}


def _find_code(text: str) -> set[int]:
    """Return the numbers of the lines that are code."""
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    return {at for at, line in lines if line and not re.match(r"# |//", line)}


def _list_plumbing(
    body: Iterable[ast.stmt], matter: set[str], answers: bool
) -> Iterator[tuple[str, int, int]]:
    """Yield the plumbing among statements: its kind, its first and its last line.

    matter: the functions that are not plumbing; newly found ones are added.
    """
    for statement in body:
        kind = _find_kind(statement, matter, answers)
        if kind:
            yield kind, _find_first_line(statement), statement.end_lineno or 0
        elif isinstance(statement, ast.FunctionDef | ast.ClassDef):
            matter.add(statement.name)
        else:
            children = ast.iter_child_nodes(statement)
            inside = [child for child in children if isinstance(child, ast.stmt)]
            plumbing = list(_list_plumbing(inside, matter, answers))
            yield from plumbing
            # Then the head of the block is plumbing, too.
            if inside and len(plumbing) == len(inside):
                yield plumbing[0][0], statement.lineno, inside[0].lineno - 1


def _find_first_line(statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(d.lineno for d in decorators)])


def _find_kind(statement: ast.stmt, matter: set[str], answers: bool) -> str | None:
    """Return the kind of plumbing of a whole statement, or None."""
    used = _list_used(statement)
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return "imports"
    if isinstance(statement, ast.With) and used & FIGURES and used & AXES:
        return "pictures"
    if _asks(statement) or _launches(statement):
        return None
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        is_matter = answers or statement.name in matter or "cuda" in used
        return None if is_matter or _computes(statement, matter) else "helpers"
    if any(isinstance(x, ast.stmt) for x in ast.iter_child_nodes(statement)):
        return None  # the statements of a block are judged separately
    if FILES & (used | _list_called(statement)):
        return "paths"
    if used & AXES:
        return "pictures"
    return "tables" if _lays_out_text(statement) else None


def _computes(function: ast.FunctionDef | ast.ClassDef, matter: set[str]) -> bool:
    """Return whether a function only computes: it calls only matter or its own."""
    own = {x.arg for x in ast.walk(function) if isinstance(x, ast.arg)}
    own |= {
        x.id
        for x in ast.walk(function)
        if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)
    }
    own |= {x.name for x in ast.walk(function) if isinstance(x, ast.FunctionDef)}
    if any(isinstance(x, ast.JoinedStr) for x in ast.walk(function)):
        return False
    calls = (x.func for x in ast.walk(function) if isinstance(x, ast.Call))
    return all(_list_used(call) <= own | matter for call in calls)


def _list_used(node: ast.AST) -> set[str]:
    """Return the names in a piece of code."""
    return {x.id for x in ast.walk(node) if isinstance(x, ast.Name)}


def _list_called(node: ast.AST) -> set[str]:
    """Return the names of the functions and methods that a piece of code calls."""
    functions = (x.func for x in ast.walk(node) if isinstance(x, ast.Call))
    return {getattr(f, "attr", getattr(f, "id", "")) for f in functions}


def _asks(node: ast.AST) -> bool:
    asserts = any(isinstance(x, ast.Assert) for x in ast.walk(node))
    return asserts or not ASKS.isdisjoint(_list_called(node))


def _launches(node: ast.AST) -> bool:
    """Return whether the code has kernel[grid, block](...) or a call that launches."""
    if LAUNCHES & _list_called(node):
        return True
    calls = (x.func for x in ast.walk(node) if isinstance(x, ast.Call))
    return any(isinstance(function, ast.Subscript) for function in calls)


def _lays_out_text(statement: ast.stmt) -> bool:
    """Return whether a statement prints a row or heading, or assembles text."""
    texts = [x for x in ast.walk(statement) if isinstance(x, ast.JoinedStr)]
    if isinstance(statement, ast.Assign | ast.AugAssign):
        return bool(texts) and isinstance(statement.value, ast.JoinedStr | ast.BinOp)
    value = getattr(statement, "value", None)
    if not isinstance(value, ast.Call) or "print" not in _list_called(value):
        return False
    formats = (x for text in texts for x in ast.walk(text))
    padded = any(
        isinstance(x, ast.FormattedValue)
        and x.format_spec is not None
        and PADDED.match(ast.unparse(x.format_spec))
        for x in formats
    )
    return padded or all(isinstance(x, ast.Constant) for x in value.args)


def main() -> None:
    """Print a row for each lesson."""
    print(f"{'lesson':<26}{'lines':>6}{'share':>7}" + "".join(f"{k:>9}" for k in KINDS))
    for path in sorted(SOURCES.glob("[0-9]*.md")):
        plumbing = count_plumbing(read_source(path))
        counts = "".join(f"{plumbing.kinds[kind]:>9}" for kind in KINDS)
        cells = (
            f"  imports in {plumbing.import_cells} cells, {plumbing.import_lines} lines"
        )
        print(
            f"{path.stem:<26}{plumbing.lines:>6}{plumbing.share:>7.0%}{counts}{cells}"
        )


if __name__ == "__main__":
    main()
