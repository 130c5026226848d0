"""Define a puzzle: its task, the check of an answer, and help for the reader."""

from __future__ import annotations

import html
import inspect
import linecache
import re
import textwrap
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..base import errors
from ..base.errors import (
    ArgumentError,
    KernelError,
    Mismatch,
    refuse_unsolved,
)
from ..base.paths import link_notebook
from ..check import check
from ..check.cases import size_list, spoken_of
from ..pykernel.to_cuda import to_cuda
from ..report.html import highlight_text, with_code
from .answer_cost import score
from .answered import show
from .answers import (
    ProgramText,
    PuzzleAnswer,
    Solved,
    as_declared,
    display_refused,
    explain_stop,
    few_prints,
    is_inside,
    is_same_code,
    is_stub,
    parse_answer,
    short_errors,
)
from .catalogue import GROUPS, LESSONS, make_stub, number_of, remove_marks
from .counts import names_known
from .goal import draw_goal
from .progress import cloth, read_progress
from .progress import note_solved as remember

if TYPE_CHECKING:
    from ..check import Verdict
    from ..check.cases import Spec

TIMEOUT = 5.0  # Time limit in seconds for a launch of an answer.
NOT_SOLVED = "not solved yet"
# A Markdown link to the glossary.
LINK = re.compile(r"\[([^][]*)\]\(glossary\.ipynb#[^)\s]+\)")


class Puzzle:
    """A task for the reader: a kernel, or a function of NumPy.

    text: one or two sentences whose terms may be links to the glossary, such as
    [guard](glossary.ipynb#guard). spec: the reference, a short NumPy function of the
    inputs, sizes and values by name. answer: the best known answer; the reader writes
    the part between its two marks (catalogue.py). checks: options of weft.check(); a
    tuple of sizes is in the order of `drawn`. drawn, launch: the sizes of the picture,
    and its (grid, block); this case is checked first. hints: texts to read one after
    another. better: a line about the best known answer's method, shown for a costlier
    answer. scored: sizes for the score, with "launch", if they differ from the drawn
    ones. limits: bounds on counts for a right answer (counts.py lists the names); why:
    by name, a sentence that explains a limit if its numbers do not. budget: larger
    counts to allow, in a score's units, if a taught method needs more than usual.
    start: a function, or its text, for the reader to repair; it is then the stub. name:
    by default, the kernel's name; in the lab's own puzzles, the name of spec without
    "spec_". title: by default, the name with spaces.
    """

    def __init__(
        self,
        *,
        text: str,
        spec: Callable[..., Any],
        answer: Callable[..., Any],
        checks: Mapping[str, Any],
        drawn: Mapping[str, int],
        hints: Sequence[str],
        better: str = "",
        launch: tuple[Any, Any] | None = None,
        scored: Any = None,
        limits: Mapping[str, Any] | None = None,
        why: Mapping[str, str] | None = None,
        budget: Mapping[str, float] | None = None,
        start: Any = None,
        name: str = "",
        title: str = "",
    ) -> None:
        self.group = _find_group(answer)
        own_name = spec if self.group else answer
        self.name = name or own_name.__name__.removeprefix("spec_")
        self.title = title or self.name.replace("_", " ").capitalize()
        self.text, self.spec, self.answer = text, spec, answer
        self.checks, self.drawn, self.launch = dict(checks), dict(drawn), launch
        if "sizes" in checks:
            self.checks["sizes"] = size_list(checks["sizes"], list(drawn))
        self.hints, self.better, self.scored = tuple(hints), better, scored
        self.limits, self.budget = dict(limits or {}), dict(budget or {})
        self.start, self.why = start, dict(why or {})
        self.kernel_name = answer.__name__
        self.parameters = tuple(inspect.signature(answer).parameters)
        self.is_kernel = any(checks.get(kind) for kind in ("outputs", "inout"))
        if self.is_kernel and launch is None:
            raise ArgumentError(
                f"{self.name} requires launch=(grid, block) for {drawn}"
            )
        names_known({**self.limits, **self.budget}, self.parameters)

    # ---- methods for the reader --------------------------------------------------

    def goal(self) -> Any:
        """Draw the goal: the expected outputs, computed by the reference."""
        return draw_goal(self)

    def check(self, answer: Any, *, device: Any = None) -> Solved | None:
        """Check an answer: return Solved; for a stub, print a line and return None.

        answer: a Python kernel, sim(k), numba_jit(k), cuda_c(k), a kernel of %%cuda or
        load_cuda(), or the result of load_cuda(). device: where CUDA C runs, "cpu" or
        "cuda"; None: on both if there is a GPU, else on the CPU. Raises Mismatch if the
        answer is wrong or misses the puzzle's limits. The error names the element and
        the thread but never the answer. In a notebook, the picture of show() appears
        above the error. Raises ArgumentError if `answer` is not an answer.
        """
        with short_errors(answer):
            submission = parse_answer(self, answer)
            try:
                with few_prints():
                    if not is_stub(self, submission):
                        return self._judge(submission, device)
                    why = self._describe_failure(submission, device)
            except NotImplementedError:
                why = self._describe_stop(submission)
            except (Mismatch, KernelError):
                display_refused(self, answer)
                raise
            unsolved = f"{self.name}: {NOT_SOLVED}{why}"
            refuse_unsolved(self._describe_solved(submission) or unsolved)
            return None

    def show(self, answer: Any) -> Any:
        """Draw an answer's results, and the accesses of a kernel in Python."""
        with short_errors(answer):
            submission = parse_answer(self, answer)
            try:
                return show(self, answer)
            except (KernelError, ArgumentError):
                raise
            except Exception as error:
                if not is_inside(submission, error):
                    raise
                raise explain_stop(submission, error) from None

    def reset(self, language: str = "python") -> None:
        """Show the stub again in a new cell below; without IPython, print it.

        language: "python" or "cuda".
        """
        if language not in ("python", "cuda"):
            raise ArgumentError(f'reset({language!r}): expected "python" or "cuda"')
        text = self.stub if language == "python" else f"%%cuda\n{self.cuda_c_stub}"
        shell = errors.running_shell()
        if shell is None:
            print(text)
        else:
            shell.set_next_input(text, replace=False)

    @property
    def solution(self) -> ProgramText:
        """The best known answer, displayed in colour."""
        return ProgramText(self.solved_text, "python")

    # ---- texts -------------------------------------------------------------------

    @cached_property
    def stub(self) -> str:
        """The text from which the reader starts."""
        if self.start is None:
            return make_stub(self.marked_text)
        text = self.start if isinstance(self.start, str) else _read_source(self.start)
        return re.sub(r"^def \w+", f"def {self.kernel_name}", text, flags=re.M).strip()

    @cached_property
    def marked_text(self) -> str:
        """The best known answer's source, with the marks around the hidden part."""
        return _read_source(self.answer)

    @cached_property
    def solved_text(self) -> str:
        """The best known answer's source, without the marks."""
        return remove_marks(self.marked_text)

    @cached_property
    def spec_text(self) -> str:
        """The reference's source, with the function renamed to spec."""
        text = _read_source(self.spec)
        return re.sub(rf"\b{self.spec.__name__}\b", "spec", text)

    @cached_property
    def cuda_c_answer(self) -> str:
        """The best known answer as CUDA C; "" for a function of NumPy."""
        return remove_marks(self._in_c(self.answer)) if self.is_kernel else ""

    @cached_property
    def cuda_c_stub(self) -> str:
        """The stub in CUDA C; "" for a function of NumPy."""
        if not self.is_kernel:
            return ""
        if self.start is not None:
            return self._in_c(_compile_function(self.stub, self.answer)).strip()
        return make_stub(f"%%cuda\n{self._in_c(self.answer)}").partition("\n")[2]

    def specs(self) -> dict[str, Spec]:
        """Return the arrays' descriptions for check(): outputs, inputs, inout."""
        return {n: s for group in spoken_of(self.checks) for n, s in group.items()}

    def _in_c(self, function: Callable[..., Any]) -> str:
        specs, values = self.specs(), self.checks.get("values") or {}
        types: list[Any] = []
        for parameter in self.parameters:
            if parameter in specs:
                types.append(f"{specs[parameter].dtype or 'float32'}[:]")
            elif parameter in values:
                value = values[parameter]
                types.append("float" if callable(value) else value)
            else:
                types.append("int")
        return to_cuda(function, types)

    # ---- checking ----------------------------------------------------------------

    def _run_check(self, answer: PuzzleAnswer, device: Any) -> Verdict:
        """Run weft.check() with the puzzle's options.

        A kernel for Numba first runs on the simulator. Numba detects neither races nor
        accesses out of bounds, and an endless loop on a GPU cannot be stopped.
        """
        options = {"timeout": TIMEOUT} | self.checks
        options["first"] = [(self.drawn, self.launch)]
        # The puzzle determines the types, regardless of the declarations in CUDA C.
        if self.is_kernel:
            arrays = self.specs().items()
            options["dtypes"] = {n: s.dtype or "float32" for n, s in arrays}
        options |= {"device": device, "watched": True}  # only CUDA C uses these options
        try:
            if answer.language == "Numba":
                check(answer.function, self.spec, **options)
            return check(answer.subject, self.spec, **options)
        except ArgumentError as error:
            raise as_declared(self, answer, error) from None
        except (Mismatch, KernelError, NotImplementedError):
            raise
        except Exception as error:
            raise explain_stop(answer, error) from None

    def _describe_failure(self, answer: PuzzleAnswer, device: Any) -> str:
        """Describe the failure of an unrepaired kernel; "" for other stubs."""
        if self.start is None:
            return ""
        try:
            self._run_check(answer, device)
            score(self, answer.subject)
        except Mismatch as error:
            return f": {str(error).splitlines()[0]}"
        return ""

    def _describe_stop(self, answer: PuzzleAnswer) -> str:
        """Describe an answer that goes beyond its stub but still raises an error."""
        if is_same_code(answer.text, self.stub):
            return ""
        return f": {answer.name} still contains `raise NotImplementedError`"

    def _describe_solved(self, answer: PuzzleAnswer) -> str:
        """Write a note for the stub of a solved puzzle; "" if it is unsolved."""
        now = read_progress()
        is_new = answer.function and not is_same_code(answer.text, self.stub)
        if is_new or self.name not in now or not now.how(self.name):
            return ""
        return f"{self.name}: solved already, {now.how(self.name)}; {self.lesson}"

    def _judge(self, answer: PuzzleAnswer, device: Any) -> Solved:
        """Check, count and record an answer."""
        verdict = self._run_check(answer, device)
        counts = score(self, answer.subject)
        if self.group:  # other puzzles are not part of the course
            remember(self, answer.language, counts)
        shown = verdict, counts, cloth(self), read_progress()
        return Solved(self, answer.language, *shown)

    # ---- display -----------------------------------------------------------------

    @property
    def plain_text(self) -> str:
        """The text without its links to the glossary."""
        return LINK.sub(r"\1", self.text)

    @property
    def lesson(self) -> str:
        """The lesson with the puzzle, such as "lesson 01a"; "" if it has none."""
        return f"lesson {number_of(LESSONS[self.group])}" if self.group else ""

    @property
    def link(self) -> str:
        """The link to the puzzle's cell from another notebook; "" without a lesson."""
        cell = f"puzzle-{self.name.replace('_', '-')}-asked"
        return link_notebook(LESSONS[self.group], cell) if self.group else ""

    def __repr__(self) -> str:
        place = f" ({self.name}, {self.lesson})" if self.group else ""
        text = f"{self.title}{place}: {self.plain_text}"
        return f"{text}\n\n{self.spec_text}\n{self.stub}"

    def _repr_html_(self) -> str:
        code = highlight_text(f"{self.spec_text}\n{self.stub}", "python")
        title = f"<b>{html.escape(self.title)}</b>"
        if self.group:
            link = html.escape(self.link, quote=True)
            title += f' (<a href="{link}">{self.lesson}</a>)'
        return f"<div>{title}: {with_code(self.plain_text)}</div>{code}"


# ---- helpers -------------------------------------------------------------------------


def _find_group(answer: Callable[..., Any]) -> str:
    """Return a puzzle's group, the name of its module; "" in a notebook."""
    package, _, module = answer.__module__.rpartition(".")
    return module if package == "weft.puzzles" and module in GROUPS else ""


def _read_source(function: Callable[..., Any]) -> str:
    return textwrap.dedent(inspect.getsource(function)).strip()


def _compile_function(text: str, like: Callable[..., Any]) -> Any:
    """Compile a function from its text, with the global names of `like`."""
    file = f"<stub of {like.__module__}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    scope = dict(vars(inspect.getmodule(like)))
    exec(compile(text, file, "exec"), scope)
    return next(f for f in scope.values() if _is_from(f, file))


def _is_from(value: Any, file: str) -> bool:
    return isinstance(value, types.FunctionType) and value.__code__.co_filename == file
