"""Parse the answers that a puzzle accepts, and explain why others are refused."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import cells as jit
from ..base.errors import ArgumentError
from ..csource import scanner, signature
from ..pykernel.language import PythonKernel, plain_function, source_of

if TYPE_CHECKING:
    from .puzzle import Puzzle


WAYS = "a function, sim(k), numba_jit(k), cuda_c(k), or CUDA C: %%cuda, load_cuda(src)"


@dataclass(frozen=True)
class PuzzleAnswer:
    """A parsed answer. subject: the argument of check() and show().

    function: the Python function; None for CUDA C. text: its source; "" if unreadable.
    """

    subject: Any
    name: str
    language: str
    parameters: tuple[str, ...]
    function: Any = None
    text: str = ""


def parse_answer(puzzle: Puzzle, candidate: Any) -> PuzzleAnswer:
    """Return the parsed answer to a puzzle, or raise ArgumentError."""
    answer = _of_c(puzzle, candidate) or _of_python(puzzle, candidate)
    _refuse_another_puzzles(puzzle, answer)
    if answer.function is not None and answer.function is puzzle.spec:
        raise ArgumentError(f"{puzzle.name}: this is the spec itself; write your own")
    if answer.parameters != puzzle.parameters:
        language = "" if answer.function else '"cuda"'
        expected, actual = map(", ".join, (puzzle.parameters, answer.parameters))
        raise ArgumentError(
            f"{puzzle.name}: {answer.name} has the parameters ({actual}), but the stub "
            f"has ({expected}), in this order; puzzles.{puzzle.name}.reset({language}) "
            f"shows it again"
        )
    _refuse_borrowed(puzzle, answer)
    _refuse_several_indices(puzzle, answer)
    return answer


def is_stub(puzzle: Puzzle, answer: PuzzleAnswer) -> bool:
    """Return whether an answer is the reader's stub, apart from comments and blanks.

    A stub that raises NotImplementedError is recognised by its exception. A stub in C
    raises no exception, and a kernel that the reader repairs already runs.
    """
    if answer.function is None:
        body = _body_of_c(answer.text, answer.name)
        stub = _body_of_c(puzzle.cuda_c_stub, puzzle.kernel_name)
        return body in ("", stub)
    return puzzle.start is not None and is_same_code(answer.text, puzzle.stub)


def as_declared(puzzle: Puzzle, answer: PuzzleAnswer, error: Exception) -> Exception:
    """Return a clearer error if a kernel declares an array differently from its stub.

    The puzzle provides the arrays, not the reader.
    """
    kind = r": ([^:]*\*\s*(\w+)): (?:wants|takes|expects|expected)\b"
    match = re.search(kind, str(error))
    if answer.language != "CUDA C" or not match:
        return error
    declared, array = match.groups()
    parameters = [p for s in signature.parse(puzzle.cuda_c_stub) for p in s.params]
    expected = [p for p in parameters if p.pointer and p.name == array]
    if not expected:
        return error
    return ArgumentError(
        f"{puzzle.name}: {answer.name} declares {declared}, but the stub declares "
        f"{expected[0]}, the type of the puzzle's {array}; "
        f'puzzles.{puzzle.name}.reset("cuda") shows the stub again'
    )


def _of_c(puzzle: Puzzle, candidate: Any) -> PuzzleAnswer | None:
    if isinstance(candidate, jit.Launch):
        candidate = candidate.kernel
    if isinstance(candidate, jit.Module):
        kernels = {n: getattr(candidate, n) for n in candidate.signatures}
        if len(kernels) != 1 and puzzle.kernel_name not in kernels:
            names = ", ".join(kernels) or "none"
            raise ArgumentError(
                f"{puzzle.name}: this source has {len(kernels)} kernels ({names}) and "
                f"none is {puzzle.kernel_name}: pass one, e.g. check(source.name)"
            )
        candidate = kernels.get(puzzle.kernel_name) or next(iter(kernels.values()))
    if not isinstance(candidate, jit.Kernel):
        return None
    if not puzzle.is_kernel:
        raise ArgumentError(
            f"{puzzle.name} takes a NumPy function that returns its result, but "
            f"{candidate.__name__} is a kernel"
        )
    names = tuple(p.name for p in candidate.params)
    text = candidate.module.source
    return PuzzleAnswer(candidate, candidate.__name__, "CUDA C", names, None, text)


def _of_python(puzzle: Puzzle, candidate: Any) -> PuzzleAnswer:
    module = type(candidate).__module__
    language = "Python"
    wrapped = candidate
    if module.startswith("weft.pykernel.numba"):
        language, wrapped = "Numba", candidate.py_func
    elif module.startswith("weft.pykernel.to_cuda"):
        wrapped = candidate.kernel
    elif module.startswith("weft.pykernel.sim"):
        candidate = wrapped = candidate.kernel
    is_one = isinstance(wrapped, (types.FunctionType, PythonKernel))
    if not is_one and not hasattr(wrapped, "py_func"):
        raise ArgumentError(f"{puzzle.name}: {_no_answer(candidate)}; it takes {WAYS}")
    function = plain_function(wrapped)
    if not puzzle.is_kernel and candidate is not function:
        raise ArgumentError(
            f"{puzzle.name} takes a NumPy function that returns its result: pass "
            f"{function.__name__} itself"
        )
    try:
        text = source_of(function).text
    except ArgumentError:
        text = ""
    name, parameters = function.__name__, tuple(inspect.signature(function).parameters)
    return PuzzleAnswer(candidate, name, language, parameters, function, text)


def _no_answer(candidate: Any) -> str:
    """Describe an object that is not an answer."""
    if isinstance(candidate, str):
        return "this is a string, not a kernel: for CUDA C, use check(load_cuda(text))"
    if type(candidate).__name__ == "Puzzle":
        return "this is a puzzle, not a kernel"
    if isinstance(candidate, type) or type(candidate).__module__ != "builtins":
        return f"this is {type(candidate).__name__}, not a kernel"
    return f"this is {candidate!r:.40} of type {type(candidate).__name__}, not a kernel"


def _refuse_another_puzzles(puzzle: Puzzle, answer: PuzzleAnswer) -> None:
    """Raise ArgumentError for the name of another (loaded) puzzle's kernel."""
    if answer.name == puzzle.kernel_name:
        return
    groups = [m for n, m in sys.modules.items() if n.startswith(f"{__package__}.")]
    for other in [value for group in groups for value in vars(group).values()]:
        if getattr(other, "kernel_name", None) == answer.name:
            name = other.name
            raise ArgumentError(
                f"{answer.name} belongs to the puzzle {name}: puzzles.{name}.check"
                f"({answer.name}); this puzzle's kernel is {puzzle.kernel_name}"
            )


def _refuse_borrowed(puzzle: Puzzle, answer: PuzzleAnswer) -> None:
    """Raise ArgumentError if a kernel calls the puzzle's spec or best known answer."""
    if answer.function is None or not answer.text:
        return
    scope = inspect.getclosurevars(answer.function)
    scope_values = {**scope.globals, **scope.nonlocals}
    for node in ast.walk(source_of(answer.function).tree):
        if isinstance(node, ast.Attribute) and node.attr not in ("spec", "answer"):
            # Other names, such as cuda.threadIdx.x, may exist only in a running kernel.
            continue
        value = _resolve_name(node, scope_values)
        for kind, function in (("spec", puzzle.spec), ("answer", puzzle.answer)):
            if value is function and value is not answer.function:
                raise ArgumentError(
                    f"{puzzle.name}: {answer.name} calls the puzzle's {kind}; write "
                    f"the computation yourself"
                )


def _resolve_name(node: ast.AST, values: Mapping[str, Any]) -> Any:
    """Return the value of a name, attribute or constant item; None if unknown."""
    if isinstance(node, ast.Name):
        return values.get(node.id)
    if isinstance(node, ast.Attribute):
        return getattr(_resolve_name(node.value, values), node.attr, None)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        owner = _resolve_name(node.value, values)
        # Items are looked up as attributes, since `puzzles` supports both.
        return getattr(owner, str(node.slice.value), None)
    return None


def _refuse_several_indices(puzzle: Puzzle, answer: PuzzleAnswer) -> None:
    """Raise ArgumentError if a Python kernel indexes a flat array by rows and columns.

    Otherwise check() would pass a two-dimensional array, which CUDA C never receives.
    """
    if not puzzle.is_kernel or answer.function is None or not answer.text:
        return
    arrays = puzzle.specs()
    for node in ast.walk(source_of(answer.function).tree):
        if not isinstance(node, ast.Subscript):
            continue
        array, several = node.value, isinstance(node.slice, (ast.Tuple, ast.Slice))
        if isinstance(array, ast.Subscript):  # a[row][col]
            array, several = array.value, True
        if several and isinstance(array, ast.Name) and array.id in arrays:
            raise ArgumentError(
                f"{puzzle.name}: `{ast.unparse(node)}` does not fit, since {array.id} "
                f"is flat, as it is in memory: it takes one index, the number of the "
                f"element counted from the beginning"
            )


def is_same_code(text: str, other: str) -> bool:
    """Return whether two functions differ only in name, comments and docstring."""
    return _dump_function(text) == _dump_function(other)


def _dump_function(text: str) -> str:
    """Return a function's syntax tree as text, without name, comments and docstring."""
    try:
        function = ast.parse(inspect.cleandoc("\n" + text)).body[0]
    except SyntaxError:
        return text
    if not isinstance(function, ast.FunctionDef):
        return text
    first, *rest = function.body
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return "\n".join(map(ast.dump, rest if is_text else function.body))


def _body_of_c(text: str, name: str) -> str:
    """Return the body of a C kernel without comments and blanks; "?" if not found."""
    body = scanner.read_body(text, name)
    return "?" if body is None else "".join(body.split())
