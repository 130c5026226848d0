"""Compare an answer's cost with that of the best known: score(puzzle, answer).

One launch at the puzzle's `scored` sizes (by default `drawn`) is counted. A Python
kernel, including one for Numba, is counted on the simulator. CUDA C is counted by the
watch build on the CPU, regardless of where it was checked. The best known answer is
counted in the same way. Limits are judged in every case.

counts.py defines the counts and their budgets. The budget allows every method that a
lesson or a hint teaches; EXPLAINED is the explanation for the reader.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..base.errors import BuildError, KernelFault, Mismatch
from ..base.style import FAINT, OURS, SHARED, WRITTEN, write_colour
from ..cells import CompileError
from ..check.cases import LaunchShape, spoken_of
from ..check.plan import plan_cases
from ..check.problem import Problem, make_arguments
from ..check.runners import CellRunner, SimulatedRunner, make_runners
from ..pykernel.to_cuda.cuda_c import cuda_c
from ..report.costs import Counters, write_short
from ..report.html import with_code
from ..report.model import Report
from ..see.watched_runs import inspect
from .counts import (
    COUNTS,
    allowed_count,
    count_value,
    is_above,
    judge_everywhere,
    list_refusals,
)

if TYPE_CHECKING:
    from ..check.runners import Runner
    from .puzzle import Puzzle

EXPLAINED = (
    "The score compares your answer with the best that we know. Your answer is *within "
    "the budget* if it needs no more reads, writes and atomics in global memory, and "
    "causes no more bank conflicts. It may have about twice as many barriers and turns "
    "of shared memory. Every method that a lesson teaches is within the budget; an "
    "answer beyond the budget is still right."
)
NOT_COUNTED = "Not counted: this code does not compile for the CPU, which counts."
TIMEOUT = 10.0  # time limit of a launch in seconds, as in check()
ALWAYS = ("reads", "writes")
IF_ANY = (
    *("atomics", "shared_reads", "shared_writes", "shared_atomics", "shared_turns"),
    *("bank_conflicts", "barriers"),
)


def score(puzzle: Puzzle, answer: Any) -> Score:
    """Return the counts of a right answer and those of the best known answer.

    answer: as for Puzzle.check(). Raises Mismatch if the launch has a fault, or if a
    count does not meet the puzzle's limits. The result has no rows for a function that
    is not launched (an exercise in NumPy), or for C that g++ cannot compile. If there
    are limits, such C raises the compiler's error.
    """
    case = ScoredCase.of(puzzle)
    if case is None:
        return Score()
    runner = _choose_runner(answer)
    try:
        report = case.launched(runner)
    except (CompileError, BuildError):  # the C code compiles only for a GPU
        if puzzle.limits:
            raise
        return Score(advice=NOT_COUNTED)
    best = _count_best(case, runner)
    limits = {n: one for n, one in puzzle.limits.items() if _can_be_met(n, best)}
    case.judge(runner.name, report, limits)
    judge_everywhere(case, runner, limits)
    assert report.counters is not None
    rows = tuple(_make_rows(case, report.counters, best))
    return Score(rows, puzzle.better, case.other(report))


# ---- the counted launch --------------------------------------------------------------


@dataclass(frozen=True)
class ScoredCase:
    """The sizes and the launch with which a puzzle is scored."""

    puzzle: Puzzle
    sizes: Mapping[str, int]
    launch: Any

    @classmethod
    def of(cls, puzzle: Puzzle) -> ScoredCase | None:
        """Return a puzzle's case; None if it has no launch."""
        launch, sizes = puzzle.launch, puzzle.scored or puzzle.drawn
        if launch is None:
            return None
        launch = sizes.get("launch", launch)
        return cls(puzzle, {n: v for n, v in sizes.items() if n != "launch"}, launch)

    def launched(self, runner: Runner) -> Report:
        """Run one launch of a kernel on the CPU and return its report with costs."""
        checks, sizes, problem = self.puzzle.checks, dict(self.sizes), self.problem()
        shared = checks.get("shared", 0)
        plan = sizes, None, None, self.launch, shared
        ((row, shape),) = plan_cases(problem, runner, *plan)
        assert shape is not None  # a kernel always has a launch shape
        _, args = make_arguments(runner, problem.prepare(runner, row, shape, 0))
        try:
            return _run_counted(runner, shape, args, checks.get("timeout") or TIMEOUT)
        except KernelFault as fault:
            facts = {n: getattr(fault, n, None) for n in ("block", "thread", "report")}
            raise Mismatch(f"{fault} (with {self._where(shape)})", **facts) from None

    def problem(self) -> Problem:
        """Return the puzzle as a problem for check()."""
        checks = self.puzzle.checks
        values, groups = dict(checks.get("values") or {}), spoken_of(checks)
        problem = Problem(self.puzzle.spec, *groups, values, list(self.puzzle.drawn))
        problem.data, problem.seed = checks.get("data") or {}, checks.get("seed", 0)
        return problem

    def judge(self, name: str, report: Report, limits: Mapping[str, Any]) -> None:
        """Raise Mismatch for a fault, or for a limit that is not met."""
        launch = f" (with {self._where(LaunchShape(report.grid, report.block))})"
        for one in report.findings:
            facts = {n: getattr(one, n) for n in ("block", "thread", "array", "kind")}
            message = f"{name}: {one.text}{launch}"
            raise Mismatch(message, **facts, index=one.index, report=report)
        inputs = self.puzzle.checks.get("inputs") or {}
        # A restored input counts as written, although a comparison finds no change.
        restored = {f"{kind}.{n}": 0 for kind in ("writes", "atomics") for n in inputs}
        held = {**limits, **restored}
        for message, array, key in list_refusals(name, report, held, self.sizes):
            facts = {"array": array or None, "report": report, "kind": "limit"}
            why = f". {self.puzzle.why[key]}" if key in self.puzzle.why else ""
            raise Mismatch(message + launch + why, **facts, sizes=dict(self.sizes))

    def other(self, report: Report) -> str:
        """Write the sizes and the launch, unless they are those of the drawn case."""
        if self.sizes == dict(self.puzzle.drawn) and self.launch == self.puzzle.launch:
            return ""
        return self._where(LaunchShape(report.grid, report.block))

    def _where(self, shape: LaunchShape) -> str:
        """Write the sizes and the launch, such as "n = 8, grid 2, block 4"."""
        parts = [f"{name} = {number}" for name, number in self.sizes.items()]
        return ", ".join([*parts, str(shape)])


def _choose_runner(answer: Any) -> Runner:
    """Choose the runner that counts an answer; Numba's kernels run on the simulator."""
    if type(answer).__module__.startswith("weft.pykernel.numba"):
        answer = answer.py_func
    return make_runners(answer, True, "cpu", True)[0]


def _run_counted(
    runner: Runner, shape: LaunchShape, args: list[Any], timeout: float
) -> Report:
    key: Any = shape.grid, shape.block, 0, shape.shared
    if isinstance(runner, CellRunner):
        key = shape.grid, shape.block, shape.shared
    subject = runner.function if isinstance(runner, SimulatedRunner) else runner.ready
    return inspect(subject, quiet=True, timeout=timeout)[key](*args)


def _can_be_met(name: str, best: Counters) -> bool:
    """Return whether the best known answer meets a limit in the answer's language.

    A C compiler omits a read of a value that the same thread has just written.
    """
    return name != "shared_reads" or count_value(best, name) > 0


# The best known answers' counters, each counted once.
_best_counts: dict[Any, Counters] = {}


def _count_best(case: ScoredCase, runner: Runner) -> Counters:
    """Return the counters of the best known answer, in the language of the runner."""
    answer, in_c = case.puzzle.answer, not isinstance(runner, SimulatedRunner)
    key = answer, in_c, tuple(case.sizes.items()), str(case.launch)
    if key not in _best_counts:
        report = case.launched(_choose_runner(cuda_c(answer) if in_c else answer))
        assert report.counters is not None
        _best_counts[key] = report.counters
    return _best_counts[key]


def _make_rows(case: ScoredCase, yours: Counters, best: Counters) -> list[CountRow]:
    rows = []
    for name in _list_names(case.puzzle, yours, best):
        base, _, array = name.partition(".")
        count = COUNTS[base]
        wording = f"{count.of} of {array}" if array else count.of
        wording += f" per {count.per}" if count.per else ""
        # count_value() has already applied the other divisors.
        each = yours.threads if count.per == "thread" else 1
        numbers = [count_value(counters, name) / each for counters in (yours, best)]
        # A mean of 0 means that there was nothing to average. For example, lanes that
        # exchange numbers do not read.
        if (array and not any(numbers)) or (count.is_mean and not all(numbers)):
            continue
        budget = allowed_count(case.puzzle, name, numbers[1])
        rows.append(CountRow(wording, *numbers, count.least, budget))
    return rows


def _list_names(puzzle: Puzzle, yours: Counters, best: Counters) -> list[str]:
    """List the counts to show: reads and writes, others that occur, and limits.

    If limits on single arrays cover a count completely, the count's sum is not shown.
    """
    both = (yours, best)
    names = [*ALWAYS, *(n for n in IF_ANY if any(count_value(s, n) for s in both))]
    names_shown: dict[str, None] = {}  # a dict keeps the order of its keys
    for name in names:
        parts = [p for p in puzzle.limits if p.startswith(f"{name}.")]
        is_covered = parts and all(
            sum(count_value(s, p) for p in parts) == count_value(s, name) for s in both
        )
        names_shown |= dict.fromkeys(parts if is_covered else [name])
    return [*names_shown | dict.fromkeys(puzzle.limits)]


# ---- display -----------------------------------------------------------------------


@dataclass(frozen=True)
class CountRow:
    """One count: its name, the answer's number, and the best known answer's number.

    least: whether more is better. budget: the largest number within the budget (or the
    smallest, if more is better); None: the best known answer's number.
    """

    what: str
    yours: float
    best: float
    least: bool = False
    budget: float | None = None

    @property
    def worse(self) -> bool:
        """Whether the best known answer is better in this count."""
        return self._is_worse_than(self.best)

    @property
    def better(self) -> bool:
        """Whether the best known answer is worse in this count."""
        return is_above(*(self.best, self.yours)[:: -1 if self.least else 1])

    @property
    def within(self) -> bool:
        """Whether this count is within the budget."""
        budget = self.best if self.budget is None else self.budget
        return not (self.worse and self._is_worse_than(budget))

    @property
    def mark(self) -> str:
        """The verdict, such as "as good", "more, within the budget" or "fewer!"."""
        if not self.worse and not self.better:
            return "as good"
        word = "more" if self.yours > self.best else "fewer"
        if self.better:
            return f"{word}!"
        return f"{word}, within the budget" if self.within else word

    def _is_worse_than(self, other: float) -> bool:
        return is_above(*(other, self.yours)[:: 1 if self.least else -1])


@dataclass(frozen=True)
class Score:
    """The comparison of an answer with the best known; EXPLAINED describes the rule.

    rows: all counts; those that differ are shown. advice: the better method of the best
    known answer. case: the sizes and the launch that were counted, if they differ from
    the picture's.
    """

    rows: tuple[CountRow, ...] = ()
    advice: str = ""
    case: str = ""

    @property
    def differing(self) -> tuple[CountRow, ...]:
        """The rows in which the answer and the best known differ."""
        return tuple(row for row in self.rows if row.worse or row.better)

    @property
    def within(self) -> bool:
        """Whether every count is within the budget."""
        return all(row.within for row in self.rows)

    @property
    def beats(self) -> bool:
        """Whether a count is better than the best known answer's, and none is worse."""
        differing = self.differing
        return bool(differing) and all(row.better for row in differing)

    @property
    def sentence(self) -> str:
        """The verdict in words, with advice if the answer is not the best."""
        if not self.rows:
            return self.advice
        if not self.differing:
            return "As good as the best we know."
        if self.beats:
            return "Better than ours in these counts: wonderful!"
        start = "Within the budget" if self.within else "More than the budget allows"
        if any(row.better for row in self.rows):
            start += ", better than ours in one count and worse in another"
        return f"{start}{': ' + self.advice if self.advice else '.'}"

    def json(self) -> dict[str, list[float]]:
        """Return each row's numbers as [answer, best known]."""
        return {row.what: [row.yours, row.best] for row in self.rows}

    def __str__(self) -> str:
        sentence = self.sentence.replace("`", "")
        if not self.differing:
            return sentence
        wide = max(len(row.what) for row in self.differing)
        lines = [f"{'':<{wide}}  yours   best"]
        for row in self.differing:
            numbers = f"{write_short(row.yours):>6} {write_short(row.best):>6}"
            lines.append(f"{row.what:<{wide}} {numbers}  {row.mark}")
        counted = [f"Counted with {self.case}."] * bool(self.case)
        return "\n".join([*lines, sentence, *counted])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if not self.differing:
            return f"<div>{with_code(self.sentence)}</div>" if self.sentence else ""
        head = ("", "yours", "best known", "")
        rows = [tuple(map(_write_quiet, head))]
        for row in self.differing:
            best = _write_quiet(write_short(row.best))
            yours = html.escape(row.what), write_short(row.yours)
            rows.append((*yours, best, _draw_mark(row)))
        body = "".join(map(_write_line, rows))
        counted = f" Counted with {html.escape(self.case)}." if self.case else ""
        return (
            f'<table style="border-collapse:collapse;border:0;margin:4px 0;'
            f'font-size:13px;color:inherit;background:transparent">{body}</table>'
            f'<div title="{html.escape(EXPLAINED, quote=True)}">'
            f"{with_code(self.sentence)}{_write_quiet(counted)}</div>"
        )


def _write_quiet(text: str) -> str:
    return f'<span style="opacity:{FAINT}">{text}</span>'


def _write_line(cells: tuple[str, ...]) -> str:
    style = "padding:1px 12px 1px 0;border:0;background:transparent;text-align"
    sides = ("left", "right", "right", "left")
    columns = (f'<td style="{style}:{s}">{c}</td>' for s, c in zip(sides, cells))
    return f'<tr style="background:transparent">{"".join(columns)}</tr>'


def _draw_mark(row: CountRow) -> str:
    sign = "▴" if row.yours > row.best else "▾"
    colour = OURS if row.better else SHARED if row.within else WRITTEN
    return f'<span style="{write_colour(colour)}">{sign}</span> {row.mark}'
