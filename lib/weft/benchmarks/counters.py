"""Compare the CPU's counters with ncu's: `python -m weft bench counters`.

The watch build counts the costs of the kernels in counters.cu on the CPU, and Nsight
Compute counts them on the GPU. Counts must be equal, except that a GPU may count 2 %
more sectors for atomics. Ratios must agree within 2 %. Without ncu or a GPU, only the
CPU's counts are printed. The exit status is 1 if a row differs without a reason.

find_excuse() looks for the reason for a difference. The compiler merges accesses, lets
one lane act for its warp, and generates more instructions for one piece of the source
than for another. Each reason explains a range of ncu's numbers, which is computed from
our counts and the instructions. The row then contains the reason and the instruction
that shows it. A difference outside this range is reported with its numbers.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import BuildError
from ..cells import load_cuda
from ..report.costs import CostPlace, Counters
from ..see.machine_code import ncu, sass
from ..see.machine_code.instructions import Instruction, find_loops
from ..see.machine_code.ncu import Metric
from ..see.watched_runs import inspect
from ..timing import device_name
from . import say, split_words

WEIGHED = "ncu weighs each instruction, the CPU each straight piece of the source"
# Instructions that let one lane perform its whole warp's atomic operation.
_TOGETHER = {"REDUX", "CREDUX", "POPC", "UPOPC", "MATCH"}

Code = Sequence[Instruction]
Share = tuple[float, float]  # how often threads execute it, and how often warps do


@dataclass(frozen=True)
class Excuse:
    """A reason and the range of ncu's numbers that it explains."""

    why: str
    least: float
    most: float


def find_excuse(metric: Metric, counters: Counters, code: Code) -> Excuse | None:
    """Return the reason that the machine code gives for a difference, or None."""
    if metric.tight:
        return _weigh(counters, code)
    wanted = metric.space, metric.kind
    places = [p for p in counters.places if (p.space, p.kind) == wanted and p.requests]
    if not places:
        return None
    return _merge(metric, places, code) or _excuse_aggregated_atomics(
        metric, places, code
    )


# ---- counts ---------------------------------------------------------------------


def _merge(metric: Metric, places: list[CostPlace], code: Code) -> Excuse | None:
    """Return the excuse that the compiler merged neighbouring accesses into wider ones.

    A wide access costs at least as much as its most expensive part. All instructions of
    a loop run equally often, so their counts show how many accesses were merged.
    """
    operation = {"read": "load", "write": "store"}.get(metric.kind, metric.kind)
    accesses = [one for one in code if one.kind == f"{metric.space} {operation}"]
    source = max(8 * p.size for p in places)
    wide = [one for one in accesses if one.bits > max(32, source)]
    if not wide:
        return None
    names = Counter(f"{one.opcode.split('.')[0]}.{one.bits}" for one in wide)
    listing = ", ".join(f"{count} {name}" for name, count in names.items())
    on_lines = _select_places(places, wide)
    lines = {one.place for one in wide}
    candidates = [one for one in accesses if one.place in lines]
    least = 8 * min(p.size for p in on_lines)
    share = max(
        _compute_merged_share(group, least, source, conflict=metric.what == "conflicts")
        for group in _group_by_loop(code, candidates)
    )
    cost = max(getattr(p, metric.what) / p.requests for p in on_lines)
    ours = metric.ours_of(places)
    reduction = share * cost * sum(p.requests for p in on_lines)
    reduction = min(reduction, sum(getattr(p, metric.what) for p in on_lines))
    why = f"the compiler merged accesses of {source} bits: {listing}"
    return Excuse(why, ours - reduction, ours)


def _compute_merged_share(
    group: Code, least: int, source: int, conflict: bool
) -> float:
    """Return the share of a group's source accesses that the machine code lacks.

    least, source: widths in bits of the narrowest and widest source access. conflict:
    count every merged access, since a wide access may have no conflict at all.
    """
    merged = [one.bits // least for one in group if one.bits > max(32, source)]
    lacking = sum(merged) - (0 if conflict else len(merged))
    return lacking / max(1, len(group) - len(merged) + sum(merged))


def _group_by_loop(code: Code, selected: Code) -> list[Code]:
    """Group instructions by innermost loop; those outside loops form another group."""
    loops = sorted(find_loops(code), key=lambda loop: len(loop.body))
    selected_ids = {id(one) for one in selected}
    groups: dict[int, list[Instruction]] = {}
    for at, one in enumerate(code):
        if id(one) in selected_ids:
            inside = (loop.head for loop in loops if at in loop.body)
            groups.setdefault(next(inside, -1), []).append(one)
    return list(groups.values())


def _excuse_aggregated_atomics(
    metric: Metric, places: list[CostPlace], code: Code
) -> Excuse | None:
    """Return the excuse that one lane performs the atomics of its whole warp."""
    warp_wide = [one for one in code if one.opcode.split(".")[0] in _TOGETHER]
    if metric.kind != "atomic" or not warp_wide:
        return None
    on_lines = _select_places(places, warp_wide, otherwise=False)
    base = 0 if metric.what == "conflicts" else 1
    counts = [(getattr(p, metric.what), base * p.requests) for p in on_lines]
    reduction = sum(max(0, count - least) for count, least in counts)
    if not reduction:
        return None
    names = sorted({one.opcode.split(".")[0] for one in warp_wide})
    ours = metric.ours_of(places)
    why = f"one lane acts for its warp: {', '.join(names)} before the atomic"
    return Excuse(why, ours - reduction, ours)


def _select_places(
    places: list[CostPlace], code: Code, otherwise: bool = True
) -> list[CostPlace]:
    """Return the places on the instructions' lines; all if any line is unknown.

    otherwise: whether to return all places if none of them is on these lines.
    """
    lines = {one.place for one in code}
    matches = [p for p in places if (p.file, p.line) in lines]
    unknown = not all(one.line for one in code) or (otherwise and not matches)
    return places if unknown else matches


# ---- active threads -------------------------------------------------------------


def _weigh(counters: Counters, code: Code) -> Excuse | None:
    """Return the excuse that pieces of the source differ in their instruction counts.

    A piece may have several instructions or none. An instruction runs as often as a
    piece on its line, or once per warp if a loop is unrolled. A predicated instruction
    may also run with the threads of the surrounding code.
    """
    pieces = [p for p in counters.places if p.kind == "step" and p.requests]
    if not pieces:
        return None
    shares = [
        _compute_shares(_find_pieces(one, pieces), counters.warps)
        for one in code
        if one.opcode != "NOP"
    ] or [[(p.lanes, 1.0) for p in pieces]]
    return Excuse(WEIGHED, *(_largest_mean(shares, sign) for sign in (-1, 1)))


def _find_pieces(one: Instruction, pieces: list[CostPlace]) -> list[CostPlace]:
    """Return the pieces that an instruction may be part of."""
    on_line = [p for p in pieces if p.file == one.file and p.line <= one.line <= p.last]
    if on_line and one.guard:
        most = max(p.lanes for p in on_line)
        on_line += [p for p in pieces if p.lanes > most]
    return on_line or pieces


def _compute_shares(pieces: Iterable[CostPlace], warps: int) -> list[Share]:
    """Return two shares per piece: for running each time, and for once per warp."""
    shares: list[Share] = []
    for p in pieces:
        once = min(1.0, warps / p.requests)
        shares += [(p.accesses * part, p.requests * part) for part in (1.0, once)]
    return shares


def _largest_mean(shares: list[list[Share]], sign: int) -> float:
    """Return the largest (sign 1) or smallest (-1) mean of threads over all choices.

    A choice has one share from each list. By Dinkelbach's method, the best choice for
    the current mean yields the next mean.
    """
    mean = 0.0
    while True:
        best = [max(some, key=lambda s: sign * (s[0] - mean * s[1])) for some in shares]
        new_mean = sum(s[0] for s in best) / sum(s[1] for s in best)
        if abs(new_mean - mean) <= 1e-9 * mean:
            return new_mean
        mean = new_mean


_say_once = cache(say)
SOURCE = Path(__file__).with_suffix(".cu")
RATIO = 0.02  # largest allowed relative difference between ratios
N = 8192  # number of elements in most arrays
SIDE = 128  # side of a square matrix
THREADS = 256
ROUNDS = 400
SHOWN = ["rung", "metric", "cpu", "ncu", "difference", "verdict"]
SCATTERED = "the GPU takes some scattered requests in more turns"

Shape = tuple[Any, Any]


@dataclass
class CounterCase:
    """A launch: the case's name, the kernel's name, the launch shape and the arguments.

    lanes: whether the active threads must agree with ncu's. template: the template
    arguments, if the kernel is a template.
    """

    name: str
    kernel: str
    shape: Shape
    args: tuple[Any, ...]
    lanes: bool = False
    template: tuple[int, ...] = ()


def list_cases() -> list[CounterCase]:
    """Return the launches to compare."""
    rng = np.random.default_rng(0)
    line, square = (N // THREADS, THREADS), ((SIDE // 32,) * 2, (32, 32))

    cases: list[CounterCase] = []

    def floats(count: int = N, kind: type = np.float32) -> np.ndarray:
        return rng.random(count).astype(kind)

    def add(name: str, *args: Any, kernel: str = "", shape: Shape = line, **more: Any):
        cases.append(CounterCase(name, kernel or name, shape, args, **more))

    x, bins = rng.integers(1, 9, N, np.int32), rng.integers(0, 1024, N, np.int32)
    order = rng.permutation(N).astype(np.int32)
    bytes_ = rng.integers(0, 255, N, np.uint8)
    add("coalesced", floats(), floats())
    for s in (2, 4, 8):
        add(f"stride {s}", floats(), floats(s * N), s, kernel="strided")
    add("stores 4", floats(4 * N), floats(), 4, kernel="scattered")
    add("random gather", floats(), floats(), order, kernel="gather")
    add("misaligned", floats(), floats(), N)
    add("copy of float4", floats(4 * N), floats(4 * N), kernel="copy_float4")
    add("copy of double", floats(N, float), floats(N, float), kernel="copy_double")
    add("copy of bytes", bytes_.copy(), bytes_, kernel="copy_bytes")
    for kernel in ("transpose_naive", "transpose_tile", "transpose_padded"):
        add(kernel, floats(SIDE**2), floats(SIDE**2), SIDE, shape=square)
    for s in (1, 2, 32):
        add(f"shared, stride {s}", floats(), floats(), s, kernel="shared_stride")
    add("shared float4", floats(4 * N), floats(4 * N), kernel="shared_float4")
    for kernel in ("sum_interleaved", "sum_strided", "sum_halves", "sum_shuffles"):
        add(kernel, floats(N // THREADS), floats())
    for tile, unroll in ((16, 1), (16, 16), (32, 1), (32, 32)):
        name = f"matmul, tiles of {tile}" + ", unrolled" * (unroll > 1)
        more = {"kernel": "matmul", "template": (tile, unroll)}
        shape = (SIDE // tile,) * 2, (tile, tile)
        add(name, *(floats(SIDE**2) for _ in "cab"), SIDE, shape=shape, **more)
    for kernel, rounds in (
        ("odd_and_even", ROUNDS),
        ("by_warp", ROUNDS),
        ("by_lane", 16),
    ):
        add(kernel, floats(), floats(), rounds, lanes=True)
    sums = np.zeros(N, np.int32)
    add("atomic, one address", sums[:1].copy(), x, kernel="atomic_one")
    add("atomic, one float", floats(1), floats(), kernel="atomic_one_float")
    add("atomic, spread", sums.copy(), x, kernel="atomic_spread")
    add("atomic, histogram", sums.copy(), x, bins, kernel="atomic_histogram")
    add("atomic, old value", sums.copy(), sums.copy(), x, bins, kernel="atomic_old")
    add("atomic, shared", sums.copy(), x, bins, kernel="atomic_shared")
    return cases


def rows_of(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Count every case, or those that --rungs names, on the CPU and the GPU."""
    requested = {*split_words(args.rungs)}
    cases = [c for c in list_cases() if not requested or {c.name, c.kernel} & requested]
    if not cases:
        names = ", ".join(dict.fromkeys(c.kernel for c in list_cases()))
        raise ValueError(f"--rungs {args.rungs}: the kernels are {names}")
    try:
        ncu.require()
        theirs: Sequence[dict[str, float]] | None = _run_ncu(cases)
    except ncu.NoCounters as error:
        say(f"absent: Nsight Compute's counters: {error}")
        theirs = None
    pairs = zip(cases, theirs or [None] * len(cases))
    return [row for case, counts in pairs for row in _compare_case(case, counts)]


def status(rows: list[dict[str, Any]]) -> int:
    """Return 1 if a row differs without a reason."""
    return int(any(row["agrees"] is False for row in rows))


def _run_ncu(cases: Sequence[CounterCase]) -> list[dict[str, float]]:
    launches = [
        ncu.record(_find_kernel(c.kernel, c.template), c.shape, c.args)[1]
        for c in cases
    ]
    names = ncu.ncu_names(ncu.ALL)
    return ncu.measure(launches, [case.kernel for case in cases], names)


def _compare_case(
    case: CounterCase, theirs: dict[str, float] | None
) -> list[dict[str, Any]]:
    """Return a case's rows: one for each metric that is not 0 on both sides."""
    kernel = _find_kernel(case.kernel, case.template)
    report = inspect(kernel, quiet=True)[case.shape](*case.args)
    if not report.ok:
        raise RuntimeError(f"{case.name}: {report.text()}")
    code = _read_instructions(case.kernel, case.template)
    grid, block = (list(np.atleast_1d(side).tolist()) for side in case.shape)
    common = {
        **{"op": "counters", "impl": "weft", "rung": case.name},
        **{"kernel": case.kernel, "grid": grid, "block": block},
        **{"target": "cuda" if theirs else "cpu", "sass": _list_accesses(code)},
        "device": device_name("cuda" if theirs else "cpu"),
    }
    rows = []
    for metric in (*ncu.COUNTS, *ncu.LANES):
        ours, measured = metric.ours(report.counters), metric.theirs(theirs or {})
        if not (ours or measured):
            continue
        inexcusable = metric.tight and case.lanes
        excuse = None if inexcusable else find_excuse(metric, report.counters, code)
        agrees, verdict = judge_counts(metric, ours, measured, excuse)
        row = {"metric": metric.name, "ncu_metric": metric.formula}
        row |= {"cpu": ours, "ncu": measured}
        row |= {"difference": ncu.difference(ours, measured)}
        rows.append({**common, **row, "agrees": agrees, "verdict": verdict})
    return rows


def judge_counts(
    metric: Metric, ours: float | None, theirs: float | None, excuse: Excuse | None
) -> tuple[bool | None, str]:
    """Return whether the counts agree (None if not comparable), and a verdict.

    excuse: the reason and range of an allowed difference; None if there is none.
    """
    if ours is None or theirs is None or not (metric.exact or metric.tight):
        return None, ""
    difference = ncu.difference(ours, theirs)
    if difference == 0:
        return True, "same"
    if metric.tight and difference is not None and abs(difference) <= RATIO:
        return True, f"within {RATIO:.0%}"
    if metric.more and difference is not None and -RATIO <= difference < 0:
        return True, f"within {RATIO:.0%}: {SCATTERED}"
    if excuse is None:
        return False, "DIFFERS"
    slack = RATIO if metric.tight else 0.0
    if excuse.least * (1 - slack) <= theirs <= excuse.most * (1 + slack):
        return True, excuse.why
    explained = f"{excuse.least:.6g} to {excuse.most:.6g}"
    return False, f"DIFFERS: {excuse.why}; that explains {explained}, not {theirs:.6g}"


def _list_accesses(code: Sequence[Instruction]) -> str:
    """Return the machine code's memory accesses ("LDG.E 1, LDS.128 4"), if known."""
    counts = Counter(
        one.opcode for one in code if one.kind.startswith(("global", "shared", "local"))
    )
    return ", ".join(f"{name} {count}" for name, count in counts.items())


@cache
def _find_kernel(name: str, template: tuple[int, ...]) -> Any:
    kernel = getattr(_load_module(), name)
    return kernel[template] if template else kernel


@cache
def _load_module() -> Any:
    return load_cuda(SOURCE.read_text(), name=SOURCE.name)


@cache
def _read_instructions(name: str, template: tuple[int, ...]) -> list[Instruction]:
    try:
        return sass(_find_kernel(name, template)).kernels[0].code.instructions
    except BuildError as error:
        _say_once(f"machine code is not available: {error}")
        return []
