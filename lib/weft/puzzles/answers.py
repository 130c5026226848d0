"""Parse the answers that a puzzle accepts, and explain why others are refused.

display_refused() draws a wrong answer. short_errors() and explain_stop() reduce an
error to one sentence, without a traceback.
"""

from __future__ import annotations

import ast
import contextlib
import html
import inspect
import io
import re
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from .. import cells as jit
from ..base import errors
from ..base.errors import (
    ArgumentError,
    KernelError,
    Mismatch,
    line_of,
    shorten,
)
from ..base.text import count_things
from ..check.runners import time_limit
from ..csource import scanner, signature
from ..pykernel.language import PythonKernel, plain_function, source_of
from ..report.html import highlight_text

if TYPE_CHECKING:
    from ..check import Verdict
    from .answer_cost import Score
    from .progress import Cloth, PuzzleProgress
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
    """Return whether an answer is the reader's stub, ignoring comments and blanks.

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

    The reader cannot change the array, since the puzzle provides it.
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
    """Raise ArgumentError for an answer named like another loaded puzzle's kernel."""
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


# ---- the display in a notebook -------------------------------------------------------

# The picture of a wrong answer may delay its error by this time in seconds.
DRAWING = 2.0


def display_refused(puzzle: Puzzle, answer: Any) -> None:
    """Display the picture of a refused answer in a notebook, before its error.

    Only the error matters, so a picture that fails is omitted. The answer's printed
    output is not repeated.
    """
    if getattr(errors.running_shell(), "kernel", None) is None:
        return  # a terminal cannot show pictures
    from IPython.display import publish_display_data

    with contextlib.suppress(Exception, KeyboardInterrupt):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), time_limit("a picture", DRAWING):
            bundle = puzzle.show(answer)._repr_mimebundle_()
        publish_display_data(bundle)


@dataclass(frozen=True)
class ProgramText:
    """A program's text that displays itself in colour."""

    text: str
    language: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return highlight_text(self.text, self.language)


@dataclass(frozen=True)
class Solved:
    """A solved puzzle: the language, the check, the counts, and the progress.

    Its display compares the counts with those of the best known answer, and adds a
    cloth.
    """

    puzzle: Puzzle
    language: str
    verdict: Verdict
    score: Score
    cloth: Cloth
    progress: PuzzleProgress

    def __repr__(self) -> str:
        head = f"{self.puzzle.title}: solved in {self.language}. {self.verdict}."
        parts = (head, self.score, self.cloth, f"{self.progress.sentence}.")
        return "\n".join(text for text in map(str, parts) if text)

    def _repr_html_(self) -> str:
        title, verdict = html.escape(self.puzzle.title), self.verdict._repr_html_()
        sentence = html.escape(self.progress.sentence)
        return (
            f"<div><b>{title}</b>: solved in {self.language}. {verdict}</div>"
            f"{self.score._repr_html_()}{self.cloth._repr_html_()}"
            f'<div style="opacity:.75;font-size:13px">{sentence}.</div>'
        )


# Largest number of printed lines to show. A check runs an answer many times.
PRINTED = 32
OPTIONS = re.compile(  # advice on options of check() that puzzles do not offer
    r", or (allow more time(: numba_jit\(.*?\)| with timeout=( \(--timeout\))?)"
    r"|name with outputs= the parameters that it writes into)"
)
UNWATCHED = "allow more time with timeout= (--timeout), or run it unwatched (--fast)"
CURE = re.compile(r"\s*usually cured by:")  # a cure's beginning; see report/text.py


@contextlib.contextmanager
def short_errors(answer: Any) -> Iterator[None]:
    """Shorten the errors of a check for a puzzle.

    The message omits the cure, which may be the answer. A notebook shows no traceback,
    not even for the reader's interrupts, since the cell contains the calling line.
    """
    # The wrapped function of sim(k) or numba_jit(k).
    function = getattr(answer, "function", answer)
    try:
        yield
    except (Mismatch, KernelError) as error:
        lines = (one for one in str(error).splitlines() if not CURE.match(one))
        message = OPTIONS.sub("", "\n".join(lines))
        error.args = (message.replace(UNWATCHED, "look for a loop that does not end"),)
        shorten(error, function)
        raise
    except KeyboardInterrupt as error:
        error.args = error.args or ("interrupted; nothing is lost, run it again",)
        shorten(error)
        raise


@contextlib.contextmanager
def few_prints(most: int = PRINTED) -> Iterator[None]:
    """Show the first lines that an answer prints, and the number of omitted lines."""
    out = _FewLines(sys.stdout, most)
    with contextlib.redirect_stdout(out):  # type: ignore[type-var]
        try:
            yield
        finally:
            out.end()


class _FewLines:
    """A stream that passes on only its first lines."""

    def __init__(self, stream: TextIO, most: int) -> None:
        self._stream, self._left, self._dropped = stream, most, 0

    def write(self, text: str) -> int:
        for line in text.splitlines(keepends=True):
            if self._left:
                self._stream.write(line)
                self._left -= line.endswith("\n")
            else:
                self._dropped += line.endswith("\n")
        return len(text)

    def end(self) -> None:
        """Write the number of omitted lines."""
        if self._dropped:
            lines = count_things(self._dropped, "line")
            end = f"... and {lines} more, since a check runs a kernel many times"
            print(end, file=self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def explain_stop(answer: PuzzleAnswer, error: Exception) -> Exception:
    """Convert an exception raised inside an answer to a one-line refusal."""
    notes = [n.removeprefix("check: ") for n in getattr(error, "__notes__", ())]
    when = " ".join(notes).replace(f" of {answer.name} ", " ")
    _, text = line_of(answer.function, error)
    place = f"{answer.name} stopped{f' at `{text}`' if text else ''} {when}"
    return Mismatch(f"{place}: {type(error).__name__}: {error}")


def is_inside(answer: PuzzleAnswer, error: Exception) -> bool:
    """Return whether the error was raised in the answer or in a function it calls."""
    return bool(line_of(answer.function, error)[1])
