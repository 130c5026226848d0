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


_PUZZLES = f"{__package__}."
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


def parse_answer(puzzle: Puzzle, given: Any) -> PuzzleAnswer:
    """Return the parsed answer to a puzzle, or raise ArgumentError."""
    answer = _of_c(puzzle, given) or _of_python(puzzle, given)
    _refuse_another_puzzles(puzzle, answer)
    if answer.function is not None and answer.function is puzzle.spec:
        raise ArgumentError(f"{puzzle.name}: this is the spec itself; write your own")
    if answer.parameters != puzzle.parameters:
        language = "" if answer.function else '"cuda"'
        wanted, found = (", ".join(p) for p in (puzzle.parameters, answer.parameters))
        raise ArgumentError(
            f"{puzzle.name}: {answer.name} has the parameters ({found}), the stub has "
            f"({wanted}), in this order; puzzles.{puzzle.name}.reset({language}) gives "
            f"it again"
        )
    _refuse_borrowed(puzzle, answer)
    _refuse_several_indices(puzzle, answer)
    return answer


def is_stub(puzzle: Puzzle, answer: PuzzleAnswer) -> bool:
    """Return whether an answer is the reader's stub, apart from comments and blanks.

    A stub that raises NotImplementedError reports this itself. A stub in C cannot
    report it, and a kernel to repair already runs.
    """
    if answer.function is None:
        body = _body_of_c(answer.text, answer.name)
        stub = _body_of_c(puzzle.cuda_c_stub, puzzle.kernel_name)
        return body in ("", stub)
    return puzzle.start is not None and dump_function(answer.text) == dump_function(
        puzzle.stub
    )


def as_declared(puzzle: Puzzle, answer: PuzzleAnswer, error: Exception) -> Exception:
    """Return a clearer error if a kernel declares an array unlike its stub.

    The puzzle provides the arrays, not the reader.
    """
    found = re.search(r": ([^:]*\*\s*(\w+)): wants", str(error))
    if answer.language != "CUDA C" or not found:
        return error
    own, array = found.groups()
    stubs = signature.parse(puzzle.cuda_c_stub)
    wanted = [p for stub in stubs for p in stub.params if p.pointer and p.name == array]
    if not wanted:
        return error
    return ArgumentError(
        f"{puzzle.name}: {answer.name} has {own}, the stub has {wanted[0]}, as the "
        f"puzzle's {array} is; puzzles.{puzzle.name}.reset"
        f'("cuda") gives it again'
    )


def _of_c(puzzle: Puzzle, given: Any) -> PuzzleAnswer | None:
    if isinstance(given, jit.Launch):
        given = given.kernel
    if isinstance(given, jit.Module):
        kernels = {n: getattr(given, n) for n in given.signatures}
        if len(kernels) != 1 and puzzle.kernel_name not in kernels:
            names = ", ".join(kernels) or "none"
            raise ArgumentError(
                f"{puzzle.name}: this source has {len(kernels)} kernels ({names}) and "
                f"none is {puzzle.kernel_name}: say which, e.g. check(source.name)"
            )
        given = kernels.get(puzzle.kernel_name) or next(iter(kernels.values()))
    if not isinstance(given, jit.Kernel):
        return None
    if not puzzle.is_kernel:
        raise ArgumentError(
            f"{puzzle.name} asks for a function of NumPy that returns its result, "
            f"{given.__name__} is a kernel"
        )
    names = tuple(p.name for p in given.params)
    text = given.module.source
    return PuzzleAnswer(given, given.__name__, "CUDA C", names, None, text)


def _of_python(puzzle: Puzzle, given: Any) -> PuzzleAnswer:
    module = type(given).__module__
    language = "Python"
    wrapped = given
    if module.startswith("weft.pykernel.numba"):
        language, wrapped = "Numba", given.py_func
    elif module.startswith("weft.pykernel.to_cuda"):
        wrapped = given.kernel
    elif module.startswith("weft.pykernel.sim"):
        given = wrapped = given.kernel
    is_one = isinstance(wrapped, (types.FunctionType, PythonKernel))
    if not is_one and not hasattr(wrapped, "py_func"):
        raise ArgumentError(f"{puzzle.name}: {_no_answer(given)}; it takes {WAYS}")
    function = plain_function(wrapped)
    if not puzzle.is_kernel and given is not function:
        raise ArgumentError(
            f"{puzzle.name} asks for a function of NumPy that returns its result: give "
            f"{function.__name__} as it is"
        )
    try:
        text = source_of(function).text
    except ArgumentError:
        text = ""
    parameters = tuple(inspect.signature(function).parameters)
    return PuzzleAnswer(given, function.__name__, language, parameters, function, text)


def _no_answer(given: Any) -> str:
    """Describe an object that is not an answer."""
    if isinstance(given, str):
        return "this is a text, no kernel: write check(load_cuda(text)) for CUDA C"
    if type(given).__name__ == "Puzzle":
        return "this is a puzzle, no kernel"
    if isinstance(given, type) or type(given).__module__ != "builtins":
        return f"this is {type(given).__name__}, no kernel"
    return f"this is {given!r:.40} of type {type(given).__name__}, no kernel"


def _refuse_another_puzzles(puzzle: Puzzle, answer: PuzzleAnswer) -> None:
    """Raise ArgumentError if the name is the kernel of another (loaded) puzzle."""
    if answer.name == puzzle.kernel_name:
        return
    groups = [m for n, m in sys.modules.items() if n.startswith(_PUZZLES)]
    for other in [value for group in groups for value in vars(group).values()]:
        if getattr(other, "kernel_name", None) == answer.name:
            name = other.name
            raise ArgumentError(
                f"{answer.name} belongs to the puzzle {name}: puzzles.{name}.check"
                f"({answer.name}); here {puzzle.kernel_name} is asked for"
            )


def _refuse_borrowed(puzzle: Puzzle, answer: PuzzleAnswer) -> None:
    """Raise ArgumentError if a kernel calls the puzzle's spec or best known answer."""
    if answer.function is None or not answer.text:
        return
    scope = inspect.getclosurevars(answer.function)
    known = {**scope.globals, **scope.nonlocals}
    for node in ast.walk(source_of(answer.function).tree):
        if isinstance(node, ast.Attribute) and node.attr not in ("spec", "answer"):
            # Others, such as cuda.threadIdx.x, may exist only in a running kernel.
            continue
        found = _resolve_name(node, known)
        for what, function in (("spec", puzzle.spec), ("answer", puzzle.answer)):
            if found is function and found is not answer.function:
                raise ArgumentError(
                    f"{puzzle.name}: {answer.name} calls the puzzle's {what}; write "
                    f"out what it does"
                )


def _resolve_name(node: ast.AST, known: Mapping[str, Any]) -> Any:
    """Return the value of a name, attribute or constant item; None if unknown."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Attribute):
        return getattr(_resolve_name(node.value, known), node.attr, None)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        of = _resolve_name(node.value, known)
        # Items are looked up as attributes, since puzzles supports both.
        return getattr(of, str(node.slice.value), None)
    return None


def _refuse_several_indices(puzzle: Puzzle, answer: PuzzleAnswer) -> None:
    """Raise ArgumentError if a Python kernel indexes a flat array by rows and columns.

    Otherwise check() would pass a two-dimensional array, which CUDA C never gets.
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
                f"arrives flat, as it lies in memory: it takes one index, the number "
                f"of the element counted from the beginning"
            )


def dump_function(text: str) -> str:
    """Return a function's syntax tree as text, without name, comments and docstring."""
    try:
        function = ast.parse(inspect.cleandoc("\n" + text)).body[0]
    except SyntaxError:
        return text
    if not isinstance(function, ast.FunctionDef):
        return text
    body = function.body
    if (
        body
        and isinstance(body[0], ast.Expr)
        and isinstance(body[0].value, ast.Constant)
    ):
        body = body[1:]
    return "\n".join(map(ast.dump, body))


def _body_of_c(text: str, name: str) -> str:
    """Return the body of a C kernel without comments and blanks; "?" if not found."""
    body = scanner.read_body(text, name)
    return "?" if body is None else "".join(body.split())
