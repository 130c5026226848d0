"""Time from an edit to its result: `python -m weft bench edit`.

In an open session with existing arrays, an edit changes a number in a kernel, and
load_cuda() compiles the new text. The clock stops when the first launch has finished.
Twenty different edits are timed and checked against NumPy. The alternatives run the
same sources: nvcc (to machine code, without a launch), torch's load_inline (once, since
it is slow) and CuPy's RawKernel.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import cells as jit
from ..base.device import parse_device
from ..base.progress import Progress
from ..timing import Timing, device_name, summarize
from ..timing.clocks import WallTimer
from ..timing.race import Contender, race
from ..timing.results import first_line
from ..toolchain import build
from . import say

EDITS = 20
WATCHED = "load_cuda watched"  # %%cuda on the CPU works this way by default
PEERS = ("nvcc", "torch", "cupy")
SHOWN = ["impl", "rung", "target", "edits", "us", "us_low", "us_high"]
SHOWN += [f"vs_{peer}" for peer in PEERS]
N, BLOCK = 1 << 14, 256

# Each source contains a number to edit; a NumPy function computes the expected result.
SOURCES: list[tuple[str, Callable[[np.ndarray, float], np.ndarray]]] = [
    (
        """
__global__ void scale(float *out, const float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] * NUMBERf;
}
""",
        lambda x, number: x * np.float32(number),
    ),
    (
        """
__device__ float smooth(float left, float here, float right) {
    return NUMBERf * (left + right) + here;
}
__global__ void stencil(float *out, const float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float left = i > 0 ? x[i - 1] : 0.0f, right = i < n - 1 ? x[i + 1] : 0.0f;
    out[i] = smooth(left, x[i], right);
}
""",
        lambda x, number: (
            np.float32(number) * (np.pad(x, (1, 0))[:-1] + np.pad(x, (0, 1))[1:]) + x
        ),
    ),
    (
        """
__global__ void block_sum(float *out, const float *x, int n) {
    __shared__ float part[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] * NUMBERf : 0.0f;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (i < n) out[i] = part[0];
}
""",
        lambda x, number: np.repeat(
            (x.astype(float) * number).reshape(-1, BLOCK).sum(1), BLOCK
        ),
    ),
    (
        """
__global__ void turn(float *out, const float *x, int n) {
    __shared__ float tile[16][17];
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) tile[ty][tx] = x[i];
    __syncthreads();
    if (i < n) out[i] = tile[tx][ty] + NUMBERf;
}
""",
        lambda x, number: (
            x.reshape(-1, 16, 16).transpose(0, 2, 1).reshape(-1) + np.float32(number)
        ),
    ),
]


def rows(edits: int = EDITS, peers: bool = True) -> list[dict[str, Any]]:
    """Time our and the peers' edits, on the CPU and, if there is one, on a GPU.

    Raises RuntimeError if a kernel's result is wrong.
    """
    results = [_time_ours("cpu", edits), _time_ours("cpu", edits, watched=True)]
    gpu = torch.cuda.is_available()
    if gpu:
        results.append(_time_ours("cuda", edits))
    if peers:
        results += _time_nvcc(edits)
        results += _time_cupy(edits) if gpu else []
        results += [_load_inline("cuda" if gpu else "cpu")]
    theirs = {(row["impl"], row["target"]): row["us"] for row in results}
    for row in results:
        if row["impl"] == "weft":
            for peer in PEERS:
                us = theirs.get((peer, row["target"]))
                row[f"vs_{peer}"] = us / row["us"] if us else None
    return results


def note(rows: list[dict[str, Any]]) -> str:
    """Return the text below the table."""
    lines = [row["why"] for row in rows if row.get("why")]
    for row in rows:
        if row["impl"] == "weft":
            how = ", watched" * (row["rung"] == WATCHED)
            text = f"{row['us'] / 1e3:.0f} ms from the edit to the end of its first"
            lines.append(f"{row['target']}{how}: {text} launch")
    return "\n".join(lines)


def make_edits(edits: int) -> Iterator[tuple[str, Callable[[np.ndarray], np.ndarray]]]:
    """Yield sources that are in no cache, each with its computation in NumPy."""
    nonce = time.time_ns() % 10**6  # differs in each run, to miss all caches
    for edit in range(edits):
        text, compute = SOURCES[edit % len(SOURCES)]
        digits = f"{1 + nonce / 1e7 + edit / 10:.7f}"
        edited = text.replace("NUMBER", digits)
        yield edited, functools.partial(compute, number=float(digits))


# ---- the contenders -----------------------------------------------------------


def _time_ours(target: str, edits: int, watched: bool = False) -> dict[str, Any]:
    def launch(source: str, out: Any, x: Any) -> None:
        kernel = jit.load_cuda(source, target=target, watched=watched, name="edit")
        kernel[N // BLOCK, BLOCK](out, x, N)

    rung = WATCHED if watched else "load_cuda"
    return _time("weft", rung, target, edits, launch)


def _time_cupy(edits: int) -> list[dict[str, Any]]:
    try:
        import cupy
    except Exception:
        return [_make_row("cupy", "RawKernel", "cuda", "CuPy is not installed")]

    def launch(source: str, out: Any, x: Any) -> None:
        name = source.split("__global__ void ")[1].split("(")[0]
        code = source.replace("__global__", 'extern "C" __global__')
        kernel = cupy.RawKernel(code, name)
        arrays = cupy.asarray(out), cupy.asarray(x)
        kernel((N // BLOCK,), (BLOCK,), (*arrays, cupy.int32(N)))

    return [_time("cupy", "RawKernel", "cuda", edits, launch)]


def _time_nvcc(edits: int) -> list[dict[str, Any]]:
    names, compiler = ("nvcc", "nvcc -cubin", "cuda"), build.nvcc()
    if not compiler:
        return [_make_row(*names, "nvcc is not installed")]
    arch = f"sm_{build.live_sm()}" if torch.cuda.is_available() else "sm_90a"
    times = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "edit.cu"
        command = [compiler, "-cubin", f"-arch={arch}", "-o", f"{file}bin", str(file)]
        edits = min(edits, 5)
        with _show_progress("nvcc", edits) as bar:
            for source, _ in make_edits(edits):
                file.write_text(source)
                start = time.perf_counter_ns()
                process = subprocess.run(command, text=True, capture_output=True)
                times.append((time.perf_counter_ns() - start) / 1e3)
                if process.returncode:
                    why = f"nvcc: {process.stderr.strip().splitlines()[-1]}"
                    return [_make_row(*names, why)]
                bar.update()
    return [_make_row(*names, summarize(times, WallTimer.name))]


def _load_inline(target: str) -> dict[str, Any]:
    """Time torch.utils.cpp_extension.load_inline once, including the first launch."""
    if not shutil.which("ninja") and not importlib.util.find_spec("ninja"):
        why = "torch's load_inline needs ninja: pip install ninja"
        return _make_row("torch", "load_inline", target, why)
    from torch.utils import cpp_extension

    (source, compute), *_ = make_edits(1)
    out, x, host = _make_arrays(target)
    more: dict[str, Any] = {}
    if target == "cuda":
        wrapper = _WRAPPER.replace("CALL", f"scale<<<{N // BLOCK}, {BLOCK}>>>")
        more = {"cuda_sources": "#include <torch/types.h>\n" + source + wrapper}
        cpp = "void run(torch::Tensor out, torch::Tensor x);"
    else:
        number = source.split("x[i] * ")[1].split(";")[0]
        loop = f"for (int i = 0; i < {N}; i++) o[i] = in[i] * {number};"
        cpp = _WRAPPER.replace(
            "CALL(out.data_ptr<float>(), x.data_ptr<float>(), N);", ""
        )
        cpp = cpp.replace("//", f"{_POINTERS} {loop} //")
    cpp = cpp.replace("int N", "[[maybe_unused]] int N")
    name = f"weft_edit_{time.time_ns()}"
    say("torch's load_inline, about a minute")
    try:
        with tempfile.TemporaryDirectory() as folder, _silence_compilers():
            start = time.perf_counter_ns()
            more |= {"build_directory": folder, "functions": ["run"]}
            cpp_extension.load_inline(name, cpp, **more).run(out, x)
            _finish(target)
            us = (time.perf_counter_ns() - start) / 1e3
    except Exception as error:
        why = f"load_inline: {first_line(error)}"
        return _make_row("torch", "load_inline", target, why)
    _must_be_close(out, compute(host))
    return _make_row("torch", "load_inline", target, summarize([us], WallTimer.name))


_POINTERS = "float *o = out.data_ptr<float>(); const float *in = x.data_ptr<float>();"
_WRAPPER = f"""
void run(torch::Tensor out, torch::Tensor x) {{
    int N = {N}; //
    CALL(out.data_ptr<float>(), x.data_ptr<float>(), N);
}}
"""


# ---- timing -------------------------------------------------------------------


def _time(
    impl: str, rung: str, target: str, edits: int, launch: Callable
) -> dict[str, Any]:
    """Time launch(source, out, x) for new sources; return the row."""
    out, x, host = _make_arrays(target)
    (first, _), *_ = make_edits(1)
    launch(first, out, x)  # this loads the compilers and creates the contexts
    _finish(target)
    texts = [*make_edits(edits)]
    computes = iter(texts)
    one = Contender(
        lambda edit: launch(texts[edit][0], out, x),
        **{"calls": 1, "lead": False, "before": lambda: out.fill_(torch.nan)},
        after=lambda: _must_be_close(out, next(computes)[1](host)),
    )
    where = parse_device(target)
    with _show_progress(f"{impl} on {target}", edits) as bar:
        how = {"rounds": edits, "tick": bar.update}
        timed = race({impl: one}, where, WallTimer(where), **how)[impl]
    return _make_row(impl, rung, target, timed.timing)


def _show_progress(what: str, edits: int) -> Progress:
    return Progress(what, edits, "edits")


def _make_arrays(target: str) -> tuple[torch.Tensor, torch.Tensor, np.ndarray]:
    host = np.random.default_rng(0).standard_normal(N, np.float32)
    x = torch.from_numpy(host).to(target)
    return torch.full_like(x, torch.nan), x, host


def _finish(target: str) -> None:
    if target == "cuda":
        torch.cuda.synchronize()


def _must_be_close(out: torch.Tensor, want: np.ndarray) -> None:
    bad = ~(np.abs(out.cpu().numpy() - want) <= 1e-3)
    if bad.any():
        raise RuntimeError(f"an edit: {bad.sum()} of {bad.size} elements are wrong")


def _make_row(impl: str, rung: str, target: str, result: Timing | str) -> dict:
    """Make a row. result: the timing, or the reason for its absence."""
    installed = target == "cpu" or torch.cuda.is_available()
    row = {"op": "edit", "impl": impl, "rung": rung, "precision": "fp32"}
    row |= {"target": target, "device": device_name(target) if installed else None}
    if isinstance(result, Timing):
        return row | result.row() | {"edits": result.samples}
    empty = dict.fromkeys(("us", "us_low", "us_high", "us_mean", "edits"))
    return row | {"timer": WallTimer.name, **empty, "why": result}


@contextlib.contextmanager
def _silence_compilers() -> Iterator[None]:
    """Discard the output of ninja and compilers, which would break up the table."""
    sys.stdout.flush()
    saved_stdout = os.dup(1)
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            yield
    finally:
        os.dup2(saved_stdout, 1)
        os.close(saved_stdout)
