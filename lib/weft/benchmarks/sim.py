"""Time the Python simulator: `python -m weft bench sim`.

Four kernels run with all checks, without checks, and in Numba's simulator. Contenders
take turns in a process that has NUMBA_ENABLE_CUDASIM=1. The table does not measure
kernels. It shows the number of threads that is practical in a lesson.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from types import FunctionType
from typing import Any

import numpy as np

from .. import cuda
from ..ops.cases import sum_bound
from ..pykernel import bodies
from ..pykernel.sim import sim
from ..timing import device_name
from ..timing.race import Contender, race
from . import say

SAMPLES, PEER_SAMPLES = 15, 3
N = 48  # side of the matrices in both products, with blocks of 16 x 16
THREADS = 256
ROUNDS = 20  # barriers that each thread of `barriers` executes
SHOWN = ["impl", "rung", "checks", "us", "us_low", "us_high", "threads_per_s"]
SHOWN += ["us_per_access", "us_per_wait", "vs_numba"]


def barriers(x, rounds):
    """Wait at a barrier `rounds` times, then write `rounds`."""
    for _ in range(rounds):
        cuda.syncthreads()
    x[cuda.grid(1)] = rounds


def reduction(y, x):
    """Sum each block's 256 numbers in a tree."""
    s = cuda.shared.array(256, np.float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    half = 128
    while half > 0:
        if t < half:
            s[t] += s[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        y[cuda.blockIdx.x] = s[0]


Case = tuple[FunctionType, Any, Any, tuple[Any, ...], np.ndarray, np.ndarray, int]


def make_cases() -> dict[str, Case]:
    """Return cases by kernel name, with arguments, expected results and bounds."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, N, N), np.float32)
    x = rng.standard_normal(8 * THREADS, np.float32)
    product, tiles = np.float64(a) @ b, N // 16
    bound = sum_bound(N, abs(np.float64(a)) @ abs(b)).reshape(-1)
    flat = [a.reshape(-1), b.reshape(-1), N, N, N]
    cases: dict[str, Case] = {}
    for name in ("matmul", "matmul_tiled"):
        c, square = np.full(N * N, np.nan, np.float32), (tiles, tiles)
        waits = 2 * tiles if name == "matmul_tiled" else 0
        kernel = getattr(bodies, name)
        expected = product.reshape(-1), bound
        cases[name] = kernel, square, (16, 16), (c, *flat), *expected, waits
    y = np.full(8, np.nan, np.float32)
    sums = x.reshape(8, THREADS).sum(1, dtype=np.float64)
    depth = THREADS.bit_length() - 1  # additions in the longest path to a sum
    bound = sum_bound(depth, abs(x).reshape(8, THREADS).sum(1, dtype=np.float64))
    cases["reduction"] = reduction, 8, THREADS, (y, x), sums, bound, 9
    z = np.full(2 * THREADS, np.nan, np.float32)
    want = np.full(z.shape, ROUNDS)
    cases["barriers"] = barriers, 2, THREADS, (z, ROUNDS), want, 0 * want, ROUNDS
    return cases


def rows() -> list[dict[str, Any]]:
    """Time all contenders; raise RuntimeError if a result is wrong."""
    env = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "PYTHONWARNINGS": "ignore"}
    process = subprocess.run(
        [sys.executable, "-c", "from weft.benchmarks import sim; sim.run_child()"],
        **{"env": env, "text": True, "stdout": subprocess.PIPE},
    )
    if process.returncode:
        raise RuntimeError(f"the benchmark's process exited with {process.returncode}")
    return json.loads(process.stdout.splitlines()[-1])


def note(rows: list[dict[str, Any]]) -> str:
    """Return the text below the table: ratios to Numba's simulator and the costs."""
    ours = {(r["rung"], r["checks"]): r for r in rows if r["impl"] == "weft"}
    off, on = ours["matmul_tiled", "off"], ours["matmul_tiled", "on"]
    products = ours["matmul", "on"], on
    figures = {
        "matmul_tiled, checks off, vs numba": off["vs_numba"],
        "checks on": on["vs_numba"],
        "us an access": max(row["us_per_access"] for row in products),
        "us a thread at a barrier": ours["barriers", "on"]["us_per_wait"],
    }
    texts = [f"{name}: {_write_figure(value)}" for name, value in figures.items()]
    return "; ".join(texts) + ". One core."


def _write_figure(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.3g}"


def run_child() -> None:
    """Time all cases in the child process; print the rows as JSON on the last line."""
    cases = make_cases().items()
    print(json.dumps([row for name, case in cases for row in _measure(name, case)]))


def _measure(name: str, case: Case) -> list[dict[str, Any]]:
    kernel, grid, block, args, want, bound, waits = case
    calls = {
        "on": lambda: sim(kernel)[grid, block](*args),
        "off": lambda: sim(kernel, checks=False)[grid, block](*args),
    }
    peer = _run_numba(kernel)
    if peer is not None:
        calls["numba"] = lambda: peer[grid, block](*args)

    def require_right(key: str) -> None:
        if not (abs(args[0].astype(np.float64) - want) <= bound).all():
            raise RuntimeError(f"{name}, {key}: the result is wrong")

    contenders = {
        key: Contender(
            **{"call": call, "calls": 1, "lead": False},
            **{"before": lambda: args[0].fill(np.nan)},
            **{"after": lambda key=key: require_right(key)},
            most=PEER_SAMPLES if key == "numba" else SAMPLES,
        )
        for key, call in calls.items()
    }
    # The first round is discarded because it also compiles.
    timed = race(contenders, "cpu", rounds=SAMPLES, discard=1)
    counters = sim(kernel)[grid, block](*args).counters
    accesses = sum(p.accesses for p in counters.places if p.kind != "step")
    threads = counters.threads
    timings = {k: replace(t.timing, timer="perf_counter") for k, t in timed.items()}
    numba = timings["numba"].median if "numba" in timings else None
    return [
        {
            **{"op": "sim", "impl": "numba" if key == "numba" else "weft"},
            **{"rung": name, "precision": "fp32", "target": "cpu"},
            **{"device": device_name(), **timing.row()},
            "checks": "none" if key == "numba" else key,
            "threads": threads,
            "threads_per_s": threads / timing.median * 1e6,
            "us_per_access": timing.median / accesses,
            "us_per_wait": timing.median / (threads * waits) if waits else None,
            "vs_numba": numba / timing.median if numba else None,
        }
        for key, timing in timings.items()
    ]


def _run_numba(kernel: FunctionType) -> Any:
    """Return a kernel's body for Numba's simulator, or None if Numba is missing."""
    try:
        from numba import cuda as peer
    except ImportError as error:
        say(f"absent: numba: {error}")
        return None
    scope = {**kernel.__globals__, "cuda": peer}
    return peer.jit(FunctionType(kernel.__code__, scope, kernel.__name__))
