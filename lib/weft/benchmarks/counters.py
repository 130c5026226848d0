"""Are the CPU's counters right? `python -m weft bench counters`, beside ncu's.

The kernels of counters.cu run under the watch build, which counts, and on the GPU
under Nsight Compute, which counts too. Counts must be the same (a GPU may have 2 % more
sectors of atomics), ratios agree within 2 %. Where the compiler has changed an access
(merged loads), the row says so, with the instruction that shows it; a difference larger
than that explains (excuses.py) is told with its numbers. Without ncu, or a GPU, the
CPU's side is printed alone. The exit status is 1 if a row differs without a reason.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import BuildError
from ..cells import load_cuda
from ..see.inspect import inspect
from ..see.machine_code import ncu, replay, sass
from ..see.machine_code.instructions import Instruction
from ..see.machine_code.ncu import Metric
from ..timing import device_name
from .excuses import Excuse, find_excuse

SOURCE = Path(__file__).with_suffix(".cu")
RATIO = 0.02  # by which a ratio may differ
N = 8192  # elements of most arrays
SIDE = 128  # of a matrix
THREADS = 256
ROUNDS = 400
SHOWN = ["rung", "metric", "cpu", "ncu", "difference", "verdict"]
SCATTERED = "the GPU takes some scattered requests in more turns"

Shape = tuple[Any, Any]


@dataclass
class Case:
    """A launch: its name here, the kernel's, the shape and the arguments.

    lanes: it is about active threads, which must agree with ncu's. template: the
    kernel's arguments, where it is one.
    """

    name: str
    kernel: str
    shape: Shape
    args: tuple[Any, ...]
    lanes: bool = False
    template: tuple[int, ...] = ()


def list_cases() -> list[Case]:
    """Every launch that is compared."""
    rng = np.random.default_rng(0)
    line, square = (N // THREADS, THREADS), ((SIDE // 32,) * 2, (32, 32))

    def floats(count: int, kind: type = np.float32) -> np.ndarray:
        return rng.random(count).astype(kind)

    def matmul(tile: int, unroll: int) -> Case:
        shape, name = ((SIDE // tile,) * 2, (tile, tile)), f"matmul, tiles of {tile}"
        args = (*(floats(SIDE**2) for _ in "cab"), SIDE)
        name += ", unrolled" * (unroll > 1)
        return Case(name, "matmul", shape, args, template=(tile, unroll))

    def transpose(kernel: str) -> Case:
        return Case(kernel, kernel, square, (floats(SIDE**2), floats(SIDE**2), SIDE))

    def branches(kernel: str, rounds: int = ROUNDS) -> Case:
        return Case(kernel, kernel, line, (floats(N), floats(N), rounds), lanes=True)

    x, bins = rng.integers(1, 9, N, np.int32), rng.integers(0, 1024, N, np.int32)
    order = rng.permutation(N).astype(np.int32)
    bytes_ = rng.integers(0, 255, N, np.uint8)
    made = [Case("coalesced", "coalesced", line, (floats(N), floats(N)))]
    for s in (2, 4, 8):
        made.append(Case(f"stride {s}", "strided", line, (floats(N), floats(s * N), s)))
    made.append(Case("stores 4", "scattered", line, (floats(4 * N), floats(N), 4)))
    made += [
        Case("random gather", "gather", line, (floats(N), floats(N), order)),
        Case("misaligned", "misaligned", line, (floats(N), floats(N), N)),
        Case("copy of float4", "copy_float4", line, (floats(4 * N), floats(4 * N))),
        Case(
            "copy of double", "copy_double", line, (floats(N, float), floats(N, float))
        ),
        Case("copy of bytes", "copy_bytes", line, (bytes_.copy(), bytes_)),
        *map(transpose, ("transpose_naive", "transpose_tile", "transpose_padded")),
    ]
    for s in (1, 2, 32):
        arrays = floats(N), floats(N)
        made.append(Case(f"shared, stride {s}", "shared_stride", line, (*arrays, s)))
    made.append(
        Case("shared float4", "shared_float4", line, (floats(4 * N), floats(4 * N)))
    )
    for kernel in ("sum_interleaved", "sum_strided", "sum_halves", "sum_shuffles"):
        made.append(Case(kernel, kernel, line, (floats(N // THREADS), floats(N))))
    made += [matmul(tile, unroll) for tile in (16, 32) for unroll in (1, tile)]
    made += [branches("odd_and_even"), branches("by_warp"), branches("by_lane", 16)]
    sums = np.zeros(N, np.int32)
    made += [
        Case("atomic, one address", "atomic_one", line, (sums[:1].copy(), x)),
        Case("atomic, one float", "atomic_one_float", line, (floats(1), floats(N))),
        Case("atomic, spread", "atomic_spread", line, (sums.copy(), x)),
        Case("atomic, histogram", "atomic_histogram", line, (sums.copy(), x, bins)),
        Case(
            "atomic, old value", "atomic_old", line, (sums.copy(), sums.copy(), x, bins)
        ),
        Case("atomic, shared", "atomic_shared", line, (sums.copy(), x, bins)),
    ]
    return made


def rows_of(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Count every case on both sides. --rungs: the names of some."""
    wanted = {name.strip() for name in args.rungs.split(",") if name}
    chosen = [c for c in list_cases() if not wanted or {c.name, c.kernel} & wanted]
    if not chosen:
        names = ", ".join(dict.fromkeys(c.kernel for c in list_cases()))
        raise ValueError(f"--rungs {args.rungs}: there are {names}")
    try:
        ncu.require()
        theirs: Sequence[dict[str, float]] | None = _by_ncu(chosen)
    except ncu.NoCounters as error:
        print(f"weft: the CPU's counters alone: {error}", file=sys.stderr)
        theirs = None
    rows = []
    for at, case in enumerate(chosen):
        rows += _compare_case(case, theirs[at] if theirs else None)
    return rows


def status(rows: list[dict[str, Any]]) -> int:
    """1 if a row differs without a reason."""
    return int(any(row["agrees"] is False for row in rows))


def _by_ncu(chosen: Sequence[Case]) -> list[dict[str, float]]:
    kernels = [_find_kernel(case.kernel, case.template) for case in chosen]
    launches = [
        replay.record(kernel, case.shape, case.args)[1]
        for kernel, case in zip(kernels, chosen)
    ]
    names = ncu.ncu_names(ncu.ALL)
    return ncu.measure(launches, [case.kernel for case in chosen], names)


def _compare_case(case: Case, theirs: dict[str, float] | None) -> list[dict[str, Any]]:
    """A case's rows: one for each metric that is not 0 on both sides."""
    kernel = _find_kernel(case.kernel, case.template)
    report = inspect(kernel, quiet=True)[case.shape](*case.args)
    if not report.ok:
        raise RuntimeError(f"{case.name}: {report.text()}")
    code = _read_instructions(case.kernel, case.template)
    grid, block = (list(np.atleast_1d(side).tolist()) for side in case.shape)
    known = {
        **{"op": "counters", "impl": "weft", "rung": case.name},
        **{"kernel": case.kernel, "grid": grid, "block": block},
        **{"target": "cuda" if theirs else "cpu", "sass": _list_accesses(code)},
        "device": device_name("cuda" if theirs else "cpu"),
    }
    rows = []
    for metric in (*ncu.COUNTS, *ncu.LANES):
        ours, found = metric.ours(report.counters), metric.theirs(theirs or {})
        if not (ours or found):
            continue
        excuse = None
        if not (metric.tight and case.lanes):
            excuse = find_excuse(metric, report.counters, code)
        agrees, verdict = judge_counts(metric, ours, found, excuse)
        rows.append(
            {
                **known,
                **{"metric": metric.name, "ncu_metric": metric.formula},
                **{"cpu": ours, "ncu": found},
                "difference": ncu.difference(ours, found),
                **{"agrees": agrees, "verdict": verdict},
            }
        )
    return rows


def judge_counts(
    metric: Metric, ours: float | None, theirs: float | None, excuse: Excuse | None
) -> tuple[bool | None, str]:
    """(whether they agree, in words); None: there is nothing to compare.

    excuse: why they may differ here, and by how much; None: no reason is known.
    """
    if ours is None or theirs is None or not (metric.exact or metric.tight):
        return None, ""
    off = ncu.difference(ours, theirs)
    if off == 0:
        return True, "same"
    if metric.tight and off is not None and abs(off) <= RATIO:
        return True, f"within {RATIO:.0%}"
    if metric.more and off is not None and -RATIO <= off < 0:
        return True, f"within {RATIO:.0%}: {SCATTERED}"
    if excuse is None:
        return False, "DIFFERS"
    slack = RATIO if metric.tight else 0.0
    if excuse.least * (1 - slack) <= theirs <= excuse.most * (1 + slack):
        return True, excuse.why
    explained = f"{excuse.least:.6g} to {excuse.most:.6g}"
    return False, f"DIFFERS: {excuse.why}; that explains {explained}, not {theirs:.6g}"


def _list_accesses(code: Sequence[Instruction]) -> str:
    """LDG.E 1, LDS.128 4: what touches memory in the machine code; "" if unknown."""
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
        _say_once(f"no machine code to look at: {error}")
        return []


@cache
def _say_once(text: str) -> None:
    print(f"weft: {text}", file=sys.stderr)
