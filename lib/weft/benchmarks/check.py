"""The cost of the watch build: `python -m weft bench check`.

The kernels in check.cu are compiled both plainly and for the watch build. The
contenders take turns, and each result is checked. `cost` is a contender's fastest run
divided by the plain build's fastest. The last row times an edit of a checked cell, as
in edit.py. The table does not measure kernels: it shows how many threads are practical.
BOUNDS contains the limits.
"""

from __future__ import annotations

import ctypes
import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..cells.cpu.launch import open_runtime
from ..cells.cpu.watched import raw_report
from ..ops.cases import sum_bound
from ..timing import device_name
from ..timing.race import Contender, race
from ..toolchain import build
from . import edit

SOURCE = Path(__file__).with_suffix(".cu")
BOUNDS = {"cost": 25.0, "edit": 150.0}  # cost is a factor; edit is in milliseconds
MODES = {  # whether counters and race detection are switched on
    "check": (1, 1),
    "no counters": (0, 1),
    "no races": (1, 0),
    "memory only": (0, 0),
}
SAMPLES, EDITS = 3, 12
SHOWN = ["impl", "rung", "mode", "us", "us_low", "us_high", "fastest", "cost"]
SHOWN += ["accesses", "ns_per_access"]
BINS = 256  # bins of the histogram, as in the source


@dataclass
class WatchCase:
    """A kernel's inputs, its size, and its expected result."""

    a: np.ndarray
    b: np.ndarray
    n: int
    want: np.ndarray
    bound: np.ndarray | float = 0.0


def rows(samples: int = SAMPLES, edits: int = EDITS, scale: int = 1) -> list[dict]:
    """Time all kernels in all modes, then edits of a checked cell.

    scale: divisor of the matrix sides: 1, 2, 4 or 8. Raises RuntimeError if a kernel's
    result is wrong or the watch build reports a finding.
    """
    libraries = {check: open_library(check) for check in (False, True)}
    result_rows: list[dict[str, Any]] = []
    for name, case in make_cases(scale).items():
        result_rows += _measure(name, case, libraries, samples)
    if edits:
        row = edit._time_ours("cpu", edits, watched=True)
        result_rows.append({**row, "mode": "check", "fastest": row["us_low"]})
    return result_rows


def note(rows: list[dict[str, Any]]) -> str:
    """Return the text below the table: the bounds and whether the rows meet them."""
    watched = [r for r in rows if r["op"] == "check" and r["mode"] == "check"]
    worst = max(watched, key=lambda r: r["cost"])
    edits = [row["us"] / 1e3 for row in rows if row["op"] == "edit"]
    name = f"the costliest, {worst['rung']}"
    texts = [_write_bound(name, worst["cost"], "cost", "x")]
    name = "from an edit to its checked result"
    return "; ".join([*texts, *(_write_bound(name, ms, "edit", " ms") for ms in edits)])


def make_cases(scale: int = 1) -> dict[str, WatchCase]:
    """Return the cases by kernel name. scale: see rows()."""
    rng = np.random.default_rng(0)
    sides = {"matmul_tiled": 512 // scale, "matmul_naive": 256 // scale}
    cases: dict[str, WatchCase] = {}
    for name, n in sides.items():
        a, b = rng.standard_normal((2, n, n), np.float32)
        wide = np.float64(a), np.float64(b)
        bound = sum_bound(n, abs(wide[0]) @ abs(wide[1]))
        cases[name] = WatchCase(a, b, n, wide[0] @ wide[1], bound)
    x, y = rng.standard_normal((2, (1 << 22) // scale**2), np.float32)
    cases["add"] = WatchCase(x, y, x.size, x + y)
    parts = np.float64(x[: x.size // 4]).reshape(-1, 256)
    bound = sum_bound(8, abs(parts).sum(1))  # a tree of 256 numbers has 8 levels
    cases["reduction"] = WatchCase(x, y, parts.size, parts.sum(1), bound)
    square = x[: (1024 // scale) ** 2].reshape(-1, 1024 // scale)
    cases["transpose"] = WatchCase(square, y, len(square), square.T.copy())
    u = rng.random((1 << 20) // scale**2, np.float32)
    counts = np.bincount((u * np.float32(BINS)).astype(int), minlength=BINS)
    cases["histogram"] = WatchCase(u, y, u.size, counts.astype(float))
    return cases


def open_library(check: bool) -> ctypes.CDLL:
    """Build check.cu, plainly or for the watch build, and open the library."""
    flavour = build.Flavour("cpu", check=check)
    library = ctypes.CDLL(str(build.library_of("bench_check", [SOURCE], flavour)))
    library.bench_upload.restype = ctypes.c_void_p
    return library


# ---- one kernel ----------------------------------------------------------------


class Arrays:
    """A case's kernel and its arrays, in memory that kernels can access."""

    def __init__(self, name: str, case: WatchCase, library: ctypes.CDLL) -> None:
        self.name, self.case, self.library = name, case, library
        self.out = np.full(case.want.shape, np.nan, np.float32)
        hosts = (self.out, case.a, case.b)
        self.at = [ctypes.c_void_p(self._upload(host)) for host in hosts]
        self.function = getattr(library, f"bench_{name}")

    def _upload(self, host: np.ndarray) -> int:
        size = ctypes.c_size_t(host.nbytes)
        at = self.library.bench_upload(ctypes.c_void_p(host.ctypes.data), size)
        if not at:
            raise MemoryError(f"{self.name}: no memory for {host.nbytes} bytes")
        return at

    def launch(self) -> None:
        if status := self.function(*self.at, self.case.n):
            raise RuntimeError(f"{self.name}: CUDA error {status}")

    def check(self) -> None:
        """Raise RuntimeError unless the kernel's result is right."""
        out, size = self.out, ctypes.c_size_t(self.out.nbytes)
        self.library.bench_download(ctypes.c_void_p(out.ctypes.data), self.at[0], size)
        bad = ~(abs(np.float64(out) - self.case.want) <= self.case.bound)
        if bad.any():
            raise RuntimeError(f"{self.name}: {bad.sum()} of {bad.size} are wrong")

    def release(self) -> None:
        for at in self.at:
            self.library.bench_release(at)


def _measure(
    name: str, case: WatchCase, libraries: dict[bool, ctypes.CDLL], samples: int
) -> list[dict[str, Any]]:
    pair = {check: Arrays(name, case, libraries[check]) for check in libraries}
    accesses: dict[str, int] = {}

    def require_right(mode: str, arrays: Arrays) -> None:
        arrays.check()
        if mode == "check" and mode not in accesses:
            accesses[mode] = _count_accesses(name)

    contenders = {}
    for mode in ("plain", *MODES):
        arrays, checks = pair[mode != "plain"], MODES.get(mode, (1, 1))
        contenders[mode] = Contender(
            **{"call": arrays.launch, "calls": 1, "lead": False},
            before=functools.partial(_switch_checks, *checks),
            after=functools.partial(require_right, mode, arrays),
        )
    # The first round is discarded because it also fills caches.
    timed = race(contenders, "cpu", rounds=samples, discard=1)
    _switch_checks(1, 1)
    for arrays in pair.values():
        arrays.release()
    plain = timed["plain"].fastest
    rows = []
    for mode, result in timed.items():
        count, fastest = accesses.get(mode), result.fastest
        ns = (fastest - plain) * 1e3 / count if count else None
        row = {"op": "check", "impl": "weft", "rung": name, "precision": "fp32"}
        row |= {"target": "cpu", "device": device_name(), "mode": mode}
        row |= result.timing.row() | {"fastest": fastest, "cost": fastest / plain}
        rows.append(row | {"accesses": count, "ns_per_access": ns})
    return rows


def _switch_checks(counters: int, races: int) -> None:
    simt = open_runtime()
    simt.simt_check_begin()
    simt.simt_check_counters(counters)
    simt.simt_check_races(races)


def _count_accesses(name: str) -> int:
    """Return the number of accesses reported since simt_check_begin()."""
    report = json.loads(raw_report())
    for finding in report["findings"]:
        raise RuntimeError(f"{name}: {finding['text']}")
    sites = [site for kernel in report["kernels"] for site in kernel["sites"]]
    return sum(site["accesses"] for site in sites)


def _write_bound(what: str, value: float, name: str, unit: str) -> str:
    missed = "" if value <= BOUNDS[name] else " (missed)"
    return f"{what}: {value:.3g}{unit}, bound {BOUNDS[name]:g}{unit}{missed}"
