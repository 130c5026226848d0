"""One checker for every kernel: Python on the simulator, Numba, CUDA C, and functions.

    check(add, lambda a, b: a + b, outputs={"c": "n"}, inputs={"a": "n", "b": "n"})

The checker tries sizes close to a block's sides, several launch shapes, random signed
inputs, and threads in three orders. Outputs are poisoned and enclosed by guard zones.
Results are compared with a float64 reference within a derived bound. A failure report
names the element, block and thread, and guesses the mistake (mistakes/).

    cases, plan      sizes and launch shapes, and the choice among them
    runners          a way to run each kind of kernel, with a time limit
    problem          inputs, the expected answer, and the error bound
    refusal          the report on a wrong result: element, block, thread, and a guess
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..base.arrays import Guarded, compare
from ..base.errors import ArgumentError, KernelFault, Mismatch, message_first
from ..base.progress import PATIENCE, Progress
from ..base.style import FAINT, SHARED, write_colour
from ..base.text import count_things
from ..cells import OrderDependence
from . import plan
from .cases import Case, Sizes, spoken_of
from .problem import Attempt, Problem, Trial, call, make_arguments, name_results
from .refusal import refuse_run
from .runners import FunctionTooLong, ReturningRunner, Runner, make_runners, time_limit

TIMEOUT = 10.0  # time limit of one launch, in seconds


@dataclass(frozen=True)
class Verdict:
    """The verdict on a kernel that passed. runs: the number of launches (or calls)
    compared; worst: the largest error divided by its bound; sizes, shapes: those of all
    runs; orders: the number of thread orders tried."""

    name: str
    runs: int
    worst: float
    sizes: list[Sizes] = field(default_factory=list)
    shapes: list[tuple[Any, tuple[int, int, int]]] = field(default_factory=list)
    orders: int = 1

    def __str__(self) -> str:
        parts = [count_things(self.runs, "run")]
        if self.sizes and self.sizes[0]:
            parts.append(count_things(len(self.sizes), "size"))
        if self.shapes:
            parts.append(count_things(len({b for _, b in self.shapes}), "block shape"))
        if self.orders > 1:
            parts.append(f"{self.orders} orders of threads")
        error = f"largest error {self.worst:.2f} of its bound"
        parts.append(error if self.worst else "every bit as expected")
        return f"{self.name} is right: {', '.join(parts)}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        name, _, summary = str(self).partition(" is right: ")
        return (
            f'<span style="{write_colour(SHARED)}">✓</span> '
            f"<code>{html.escape(name)}</code> "
            f'is right <span style="opacity:{FAINT}">{html.escape(summary)}</span>'
        )


def check(
    kernel: Any,
    reference: Callable[..., Any],
    *,
    outputs: Mapping[str, Any] | None = None,
    inputs: Mapping[str, Any] | None = None,
    inout: Mapping[str, Any] | None = None,
    values: Mapping[str, Any] | None = None,
    sizes: Any = None,
    block: Any = None,
    grid: Any = None,
    launch: Any = None,
    first: Any = (),
    shared: Any = 0,
    terms: Any = None,
    bound: Callable[..., Any] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    data: Mapping[str, Callable[..., Any]] | None = None,
    seed: int = 0,
    timeout: float = TIMEOUT,
    device: Any = None,
    watched: bool = False,
) -> Verdict:
    """Check a kernel, or a function, against a reference; raise Mismatch if wrong.

    kernel: a Python kernel (runs on sim), sim(k), numba_jit(k), cuda_c(k), or a kernel
    of load_cuda() or %%cuda. It may also be a plain function that writes into
    `outputs`. Without outputs, it is a function of the inputs that returns the outputs
    itself (NumPy, torch or lists). reference: a function that takes inputs
    (floats as float64), values and sizes by name, or the inputs in order. It returns
    the outputs, then the inout arrays.

    Arrays are described by parameter name, as outputs, inputs or inout (overwritten):
        {"c": ("m", "n"), "h": "int32[n + 1]", "x": an array}. The dtype is float32
        unless given here or in dtypes= (CUDA C declares it). values: the other
        arguments, each a number or a function of sizes and rng. All remaining
        parameters are sizes.
    sizes: numbers, tuples in the order of the names, or dicts. Default: 1, 2, 3, a
        prime, the block's side - 1, the side, the side + 1, and one large size.
    block: one block shape, or a list of them; grid: a grid as in a launch, or a
        function of sizes and block (default: a thread for each element of the first
        output). launch: (grid, block), a function of sizes that returns it, or a list
        of them. first: pairs (sizes, (grid, block)) that are run before all others.
        shared: bytes of dynamic shared memory, or a function of sizes and block.
    terms: the number of roundings in an element's sum, as a number, a size ("k") or a
        function; a dict for several outputs; 0: every bit must match. bound: a function
        of inputs, values, sizes and want that returns the largest allowed error
        (problem.py describes the default). Integers and bools must match exactly.
    data: for inputs with restricted values, functions of rng, shape and sizes by name.
    timeout: time limit in seconds for each launch. device: target of CUDA C, "cpu" or
        "cuda". watched: whether CUDA C on the CPU runs under the watch build, which is
        about 20 times slower. A kernel with findings (races, accesses out of bounds,
        barriers) then fails the check, as it does on the simulator.

    Raises ArgumentError for invalid arguments. Errors that the kernel itself raises
    (such as NotImplementedError in an exercise) pass through.
    """
    launched = any(x is not None for x in (block, grid, launch))
    runners = make_runners(kernel, bool(outputs or inout), device, launched, watched)
    options = {"outputs": outputs, "inputs": inputs, "inout": inout, "dtypes": dtypes}
    problem = _make_problem(runners[0], reference, options, values or {})
    problem.terms, problem.bound, problem.data = terms, bound, data or {}
    problem.seed = seed
    if bound is not None and not callable(bound):
        expected = "a function of inputs, sizes and want"
        cure = "or give the number of roundings as terms="
        raise ArgumentError(f"bound={bound!r}: expected {expected}; {cure}")
    shape = sizes, block, grid, launch, shared, first
    verdicts = []
    for runner in runners:
        cases = plan.plan_cases(problem, runner, *shape)
        with message_first(getattr(runner, "function", None)):
            verdicts.append(_check(problem, runner, cases, timeout))
    return _join_verdicts(verdicts)


# ---- the problem -----------------------------------------------------------------


def _make_problem(
    runner: Runner,
    reference: Any,
    options: Mapping[str, Mapping[str, Any] | None],
    values: Mapping[str, Any],
) -> Problem:
    if not callable(reference):
        text = f"the reference must be a function of the inputs, not {reference!r}"
        raise ArgumentError(text)
    outputs, inputs, inout = groups = spoken_of(options)
    names = [n for group in (*groups, values) for n in group]
    repeats = ", ".join(sorted({n for n in names if names.count(n) > 1}))
    if repeats:
        raise ArgumentError(f"{repeats}: given twice, as input and as output?")
    parameters = list(runner.parameters)  # a ReturningRunner has no parameters
    if isinstance(runner, ReturningRunner):
        if not inputs:
            cure = 'inputs={"a": ("m", "n")}; a kernel needs outputs= as well'
            raise ArgumentError(f"{runner.name}: describe its inputs, e.g. {cure}")
    elif unknown := ", ".join(n for n in names if n not in parameters):
        known = ", ".join(parameters) or "none"
        raise ArgumentError(f"{runner.name} has no parameter {unknown}; it has {known}")
    elif not outputs and not inout:
        example = f'outputs={{"{(parameters or ["c"])[0]}": ("m", "n")}}'
        cure = f"describe its outputs, e.g. {example}"
        raise ArgumentError(f"{runner.name} is a kernel: {cure}")
    unnamed = [n for n in parameters if n not in names]
    dimensions = [s for g in groups for spec in g.values() for s in spec.symbols]
    symbols = list(dict.fromkeys(unnamed + dimensions))
    return Problem(reference, *groups, dict(values), symbols)


# ---- the runs ----------------------------------------------------------------------


def _check(problem: Problem, runner: Runner, cases: list, timeout: float) -> Verdict:
    """Run every case; if one fails, raise the error that refuse_run() returns."""

    def again(number: int, order: str, case: Case | None = None) -> Attempt:
        next_trial = problem.prepare(runner, *(case or cases[number]), number)
        return _run_case(problem, runner, next_trial, order, timeout)

    runs, worst = 0, 0.0
    passed: list[Attempt] = []
    title, total = f"checking {runner.name}", len(cases) * len(runner.orders)
    with Progress(title, total, "runs", delay=PATIENCE) as job:
        for index, (sizes, shape) in enumerate(cases):
            trial = problem.prepare(runner, sizes, shape, index)
            for order in runner.orders:
                attempt = _run_case(problem, runner, trial, order, timeout)
                if attempt.error is not None:
                    args = problem, runner, attempt, passed, len(cases), again
                    raise refuse_run(*args) from attempt.error.__cause__
                runs, worst = runs + 1, max(worst, attempt.worst)
                job.update()
            passed.append(attempt)
    shapes = [(s.grid, s.block) for _, s in cases if s is not None]
    unique = [dict(row) for row in dict.fromkeys(tuple(s.items()) for s, _ in cases)]
    name = f"{runner.name} {runner.where}".strip()
    return Verdict(name, runs, worst, unique, shapes, len(runner.orders))


def _run_case(
    problem: Problem, runner: Runner, trial: Trial, order: str, timeout: float
) -> Attempt:
    """Run one case once; return the results, with a Mismatch if they are wrong."""
    attempt = Attempt(trial, order)
    try:
        if isinstance(runner, ReturningRunner):
            _run_function(problem, runner, trial, attempt, timeout)
        else:
            _run_writer(runner, trial, attempt, timeout)
        for name, got in attempt.got.items():
            attempt.wrong = name
            worst = compare(name, got, trial.want[name], trial.bound[name])
            attempt.worst = max(attempt.worst, worst)
    except ArgumentError:
        raise
    except Mismatch as error:
        attempt.error = error
    except (KernelFault, OrderDependence, FunctionTooLong) as error:
        attempt.error = _refuse_fault(runner, error)
    except NotImplementedError:
        raise
    except Exception as error:
        error.add_note(f"check: with {attempt}")
        raise
    return attempt


def _run_writer(runner: Runner, trial: Trial, attempt: Attempt, timeout: float) -> None:
    """Run a kernel or function that writes into its arrays, and verify all of them."""
    arrays, args = make_arguments(runner, trial)
    report = runner.run(args, trial.shape, attempt.order, timeout)
    attempt.got = {n: arrays[n].values() for n in trial.starts}
    for name, array in arrays.items():
        if name in trial.starts:
            array.verify_guards(name)
        else:
            array.verify_untouched(name)
    findings = getattr(report, "findings", ())
    if findings:
        raise _refuse_findings(findings, report)


def _run_function(
    problem: Problem,
    runner: ReturningRunner,
    trial: Trial,
    attempt: Attempt,
    timeout: float,
) -> None:
    """Call a function of the inputs, which must leave them unchanged."""
    guarded = {n: Guarded(a) for n, a in trial.inputs.items()}
    arrays = {n: g.array for n, g in guarded.items()}
    with time_limit(runner.name, timeout):
        pool = arrays | trial.values | trial.sizes
        result = call(runner.function, arrays, pool, copies=False)
    if result is None:
        cure = "or name with outputs= the parameters that it writes into"
        raise ArgumentError(f"{runner.name} returns None: return the result, {cure}")
    got = name_results(result, None, runner.name)
    if set(got) != set(trial.want):
        expected = f"but the reference returns {', '.join(trial.want)}"
        raise ArgumentError(f"{runner.name} returns {', '.join(got)}, {expected}")
    for name, array in guarded.items():
        array.verify_untouched(name)
    attempt.got = got
    problem.judge(trial, got)


def _refuse_fault(runner: Runner, error: Exception) -> Mismatch:
    """Turn a stopped launch into a Mismatch."""
    report = getattr(error, "report", None)
    facts = {n: getattr(error, n, None) for n in ("block", "thread")}
    findings = getattr(report, "findings", None)
    if findings:
        matches = [f for f in findings if f.text in str(error)]
        # The message quotes the finding that ended the launch.
        facts |= _list_facts((matches or findings)[-1])
    text = str(error).removeprefix(f"{runner.name}: ")
    mismatch = Mismatch(text, report=report, **facts)
    mismatch.__cause__ = error
    return mismatch


def _refuse_findings(findings: Any, report: Any) -> Mismatch:
    """Turn the simulator's findings in a completed launch into a Mismatch."""
    first = findings[0]
    times = sum(f.count for f in findings)
    text = first.text + f"; {times} times in total" * (times > 1)
    facts = {"block": first.block, "thread": first.thread, **_list_facts(first)}
    return Mismatch(text, **facts, report=report)


def _list_facts(finding: Any) -> dict[str, Any]:
    return {n: getattr(finding, n) for n in ("array", "index", "kind", "pattern")}


def _join_verdicts(verdicts: list[Verdict]) -> Verdict:
    """Combine the verdicts of the CPU and a GPU into one."""
    name = " and ".join(v.name for v in verdicts)
    runs, worst = sum(v.runs for v in verdicts), max(v.worst for v in verdicts)
    return replace(verdicts[0], name=name, runs=runs, worst=worst)
