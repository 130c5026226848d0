"""Check and time calls of NVIDIA's libraries: `python -m weft bench libraries`.

The files of kernels/vendor make the calls. WAYS lists ways to one matrix product:

    sgemm        cuBLAS: cublasSgemm, strict float32
    gemm_ex      cuBLAS: cublasGemmEx, which rounds the factors to TF32
    lt           cuBLASLt: the fastest of the algorithms that its heuristics propose
    lt_epilogue  cuBLASLt: the same, with bias and ReLU in the same kernel
    xt           cuBLASXt: matrices in host memory, copied tile by tile
    cutlass      CUTLASS: templates that nvcc compiles
    ours         weft.matmul

The others are random numbers (philox, xorwow), fft, cudnn (a layer of the CNN in the
graph API), cub (a reduction with an operator of our own) and nccl (a sum over devices).
Without a GPU, those with a version for the CPU run.

Every result is compared with float64, and its output is NaN before the call. A row has
the time of the first call (first_us), which creates handles and loads or compiles
kernels, and of later calls (us). On a GPU, each way runs in its own process, so that
the first call is the first one in its process, and a crash affects no other way. The
row of a way that cannot run contains no times, but the reason as `absent`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import ops
from ..base.device import compute_capability, parse_device
from ..base.errors import ArgumentError, BuildError, KernelError
from ..csource.scanner import blank_comments
from ..timing import device_name
from ..timing.race import Contender, race
from ..timing.results import Row, first_line
from ..toolchain import native, vendor
from . import say, split_words

SIZES = {"cpu": (256, 1024), "cuda": (256, 1024, 4096)}
WORKSPACE = 32 << 20  # bytes of device memory for a library
LIMIT = 240  # seconds for one way on a GPU; nvcc compiles CUTLASS in about 15
SHOWN = ["rung", "n", "lines", "first_us", "us", "us_low", "us_high", "error", "absent"]
NUMBERS = 1 << 24  # random numbers per call
GENERATORS = {"philox": "PHILOX4_32_10", "xorwow": "XORWOW"}  # names in rand.c
POINTS = 1 << 20  # points of a Fourier transform
SUMMED = 1 << 26  # numbers that CUB reduces and NCCL adds
LAYER = {"n": 128, "ic": 32, "h": 14, "w": 14, "oc": 64}  # the CNN's second layer
# The operator of CUB's reduction: the larger absolute value.
OPERATOR = b"""extern "C" __device__ void combine(void *a, void *b, void *out) {
    *(float *)out = fmaxf(fabsf(*(float *)a), fabsf(*(float *)b));
}"""


@dataclass(frozen=True)
class Way:
    """A way to compute a product: a file of kernels/vendor and its function.

    choices: algorithms to try. biased: whether it adds a bias and applies ReLU.
    on_host: whether the matrices are in host memory. tf32: whether it rounds the
    factors.
    """

    key: str
    function: str
    choices: int = 1
    biased: bool = False
    on_host: bool = False
    tf32: bool = False


WAYS = {
    "sgemm": Way("blas", "blas_sgemm"),
    "gemm_ex": Way("blas", "blas_gemm_ex", tf32=True),
    "lt": Way("lt", "lt_matmul", choices=8),
    "lt_epilogue": Way("lt", "lt_matmul", choices=8, biased=True),
    "xt": Way("xt", "xt_sgemm", on_host=True),
    "cutlass": Way("cutlass", "cutlass_gemm"),
}


class Product:
    """A product computed in one way: c (m,n) = a (m,k) @ b (k,n), or relu(c + bias).

    a, b, bias: contiguous float32 on the target's device, or on the host for a way with
    on_host. Raises BuildError if the library is missing; call() raises KernelError if
    the library reports an error.
    """

    def __init__(
        self,
        way: str,
        a: torch.Tensor,
        b: torch.Tensor,
        bias: torch.Tensor | None = None,
        target: str = "cpu",
    ):
        self.way = WAYS[way]
        self.library = vendor.open_library(self.way.key, target)
        (m, k), n = a.shape, b.shape[1]
        self.c = torch.full((m, n), torch.nan, device=a.device)
        room = WORKSPACE if target == "cuda" and not self.way.on_host else 0
        self.workspace = torch.empty(room, dtype=torch.uint8, device=a.device)
        self.tensors = a, b, bias  # kept, since C has only their addresses
        point = self._point
        values = point(self.c), point(a), point(b), point(bias), m, n, k, 0
        scratch = self.library.ffi.cast("void *", self.workspace.data_ptr())
        ffi = self.library.ffi
        self.arguments = ffi.new("struct product *", (*values, scratch, room))
        self.plan = ffi.new("void **")

    def _point(self, x: torch.Tensor | None) -> Any:
        return self.library.ffi.cast("float *", 0 if x is None else x.data_ptr())

    def call(self) -> None:
        """Compute c."""
        self.library.call(self.way.function, self.plan, self.arguments)

    def choose(self, place: Any) -> int:
        """Time each proposed algorithm, keep the fastest; return the number timed."""
        fastest, tried = (np.inf, 0), 0
        for choice in range(self.way.choices):
            self.arguments.choice = choice
            try:
                self.call()
            except KernelError:  # there are no more algorithms
                break
            tried += 1
            timed = race({"": Contender(call=self.call)}, place, samples=8, seconds=0.1)
            fastest = min(fastest, (timed[""].fastest, choice))
        self.arguments.choice = fastest[1]
        return tried


def count_lines(key: str) -> int:
    """Count the lines of code of a file of kernels/vendor, without declarations."""
    text = vendor.find_source(key).read_text()
    code = blank_comments(text.rpartition("/* cdef:")[2].partition("*/")[2])
    return sum(bool(line.strip()) for line in code.splitlines())


# ---- measurements --------------------------------------------------------------------


def _measure_product(name: str, n: int, place: Any) -> Row:
    """Check and time a product of (n,n) matrices."""
    way, target = WAYS.get(name), place.type
    on_host = way is not None and way.on_host
    home = "cpu" if on_host else str(place)
    generator = torch.Generator().manual_seed(n)
    a, b = (torch.randn(n, n, generator=generator).to(home) for _ in range(2))
    bias = torch.randn(n, generator=generator).to(home)
    if way is None:
        native.library("matmul", target)  # built before the first call is timed
        c = torch.full((n, n), torch.nan, device=home)
        call, facts = lambda: ops.matmul(a, b, out=c), {"lines": None}
    else:
        product = Product(name, a, b, bias if way.biased else None, target)
        call, c, facts = product.call, product.c, {"lines": count_lines(way.key)}
    first = _time_first(call, target)
    if way and way.choices > 1:
        facts["algorithms"] = product.choose(place)
        c.fill_(torch.nan)
        call()
        _wait(target)
    exact, bound = find_bound(*(x.to(str(place)) for x in (a, b)), tf32=on_tf32(way))
    if way and way.biased:
        exact = (exact + bias).relu()
        bound = bound + 2**-23 * (exact.abs() + bound)  # the addition rounds, too
    error = _check_result(name, c.to(str(place)), exact, bound)
    return _time(name, call, place) | facts | {"n": n, "first_us": first} | error


def on_tf32(way: Way | None) -> bool:
    """Return whether the way's factors are rounded to TF32."""
    return way is not None and way.tf32


def find_bound(
    a: torch.Tensor, b: torch.Tensor, tf32: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a @ b in float64, and the largest allowed error of each element.

    A sum of k products in float32 is off by at most 1.01 k 2^-24 (|a| @ |b|), in any
    order (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1). TF32
    has 10 bits after the point, so rounding both factors adds 2^-10 (|a| @ |b|) if they
    are rounded to nearest, and twice as much if they are truncated.
    """
    a, b = a.double(), b.double()
    relative = 1.01 * a.shape[1] * 2**-24 + (2**-9 if tf32 else 0)
    return a @ b, relative * (a.abs() @ b.abs())


def _check_result(
    name: str, got: torch.Tensor, exact: torch.Tensor, bound: torch.Tensor | float
) -> Row:
    """Return the largest error; raise RuntimeError if one exceeds its bound."""
    difference = (got.double() - exact).abs()
    if not bool((difference <= bound).all()):  # NaN is not within a bound
        count = int((~(difference <= bound)).sum())
        raise RuntimeError(
            f"{name}: {count} of {got.numel()} numbers are wrong, the largest error is "
            f"{difference.max().item():.3g}"
        )
    return {"error": difference.max().item()}


def _measure_numbers(name: str, place: Any) -> Row:
    """Time random numbers, and compare the first ones with Weft's own generator."""
    words, draw = prepare_numbers(name, NUMBERS, 2026, device=str(place))
    first = _time_first(draw, place.type)
    got = words[: 1 << 16].cpu()
    expected, draw_again = prepare_numbers(name, 1 << 16, 2026)
    draw_again()
    same = {"same_bits": bool(torch.equal(got, expected))}
    same |= {"first_numbers": [int(x) & 0xFFFFFFFF for x in got[:8]]}
    row = {"n": NUMBERS, "lines": count_lines("rand"), "first_us": first} | same
    return _time(name, draw, place) | row


def prepare_numbers(
    kind: str, count: int, seed: int, offset: int = 0, device: str = "cpu"
) -> tuple[torch.Tensor, Callable[[], None]]:
    """Return an array (count,) int32, and a function that fills it with cuRAND.

    kind: a key of GENERATORS. The function's first call writes the bits of the host
    functions' numbers from `offset` on, and each later call the next ones.
    """
    library = vendor.open_library("rand", torch.device(device).type)
    words = torch.zeros(count, dtype=torch.int32, device=device)
    plan = library.ffi.gc(
        library.ffi.new("void **"),
        lambda plan: plan[0] and library.C.curandDestroyGenerator(plan[0]),
    )
    out = library.ffi.cast("unsigned *", words.data_ptr())
    number = getattr(library.C, GENERATORS[kind])
    arguments = out, count, number, seed, offset, library.C.ORDER_DEFAULT

    def draw() -> None:
        library.call("rand_draw", plan, *arguments)

    return words, draw


def _measure_fft(name: str, place: Any) -> Row:
    """Transform 2^20 complex numbers; check against NumPy in float64."""
    target, library = place.type, vendor.open_library("fft", place.type)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(POINTS, generator=generator, dtype=torch.complex64).to(str(place))
    y, plan = torch.full_like(x, torch.nan), library.ffi.new("int *")
    arrays = (library.ffi.cast("float *", t.data_ptr()) for t in (y, x))
    arguments = (plan, *arrays, POINTS, 1, -1)

    def call() -> None:
        library.call("fft_rows", *arguments)

    first = _time_first(call, target)
    exact = np.fft.fft(x.cpu().numpy().astype(np.complex128))
    off = abs(y.cpu().numpy() - exact)
    # In the norm, the error is at most 6.7 log2(n) 2^-24 of the result (Higham, theorem
    # 24.2, for correctly rounded roots). The check allows each number three times that.
    bound = 20 * np.log2(POINTS) * 2**-24 * np.sqrt((abs(exact) ** 2).mean())
    if not (off <= bound).all():
        raise RuntimeError(f"{name}: the largest error is {off.max():.3g}")
    row = {"n": POINTS, "lines": count_lines("fft"), "first_us": first}
    return _time(name, call, place) | row | {"error": float(off.max())}


def _measure_cudnn(name: str, place: Any) -> Row:
    """Check and time the second convolution of the CNN with cuDNN's graph API."""
    library, size = vendor.open_library("dnn_graph", place.type), LAYER
    generator = torch.Generator().manual_seed(0)
    shapes = (
        (size["n"], size["ic"], size["h"], size["w"]),
        (size["oc"], size["ic"], 3, 3),
    )
    x, weight = (torch.randn(s, generator=generator).to(str(place)) for s in shapes)
    y = torch.full(
        (size["n"], size["oc"], *shapes[0][2:]), torch.nan, device=str(place)
    )
    workspace = torch.empty(8 * WORKSPACE, dtype=torch.uint8, device=str(place))
    point = [library.ffi.cast("float *", t.data_ptr()) for t in (y, x, weight)]
    scratch = library.ffi.cast("void *", workspace.data_ptr())
    values = (*point, *size.values(), scratch, workspace.numel())
    layer = library.ffi.new("struct convolution *", values)
    plan = library.ffi.new("void **")

    def call() -> None:
        library.call("dnn_convolve", plan, layer)

    first = _time_first(call, place.type)
    products = 9 * size["ic"]
    convolve = torch.nn.functional.conv2d
    exact = convolve(x.double(), weight.double(), padding=1)
    scale = convolve(x.double().abs(), weight.double().abs(), padding=1)
    # The heuristic may choose an engine that rounds to TF32.
    error = _check_result(name, y, exact, (1.01 * products * 2**-24 + 2**-9) * scale)
    row = {"n": size["n"], "lines": count_lines("dnn_graph"), "first_us": first}
    return _time(name, call, place) | row | error


def _measure_cub(name: str, place: Any) -> Row:
    """Check and time CUB's reduction with OPERATOR."""
    from cuda.pathfinder import find_nvidia_header_directory

    library = vendor.open_library("cub", place.type)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(SUMMED, generator=generator).to(str(place))
    out = torch.full((1,), torch.nan, device=str(place))
    workspace = torch.empty(WORKSPACE, dtype=torch.uint8, device=str(place))
    folder = library.path.parents[3] / "cccl" / "headers" / "include"
    ffi, flags = library.ffi, [f"-I{folder}"]
    flags += [f"-I{find_nvidia_header_directory('cudart')}"]
    texts = [ffi.new("char[]", text) for text in (OPERATOR, *map(str.encode, flags))]
    reduction = ffi.new("struct reduction *")
    reduction.out = ffi.cast("float *", out.data_ptr())
    reduction.__setattr__("in", ffi.cast("float *", x.data_ptr()))
    reduction.n, reduction.code, reduction.code_bytes = SUMMED, texts[0], len(OPERATOR)
    reduction.major, reduction.minor = compute_capability(place.index)
    reduction.cccl, reduction.toolkit = texts[1:]
    reduction.workspace = ffi.cast("void *", workspace.data_ptr())
    reduction.bytes, plan = WORKSPACE, ffi.new("void **")

    def call() -> None:
        library.call("cub_reduce", plan, reduction)

    first = _time_first(call, place.type)
    error = _check_result(name, out, x.abs().max().double(), 0.0)
    row = {"n": SUMMED, "lines": count_lines("cub"), "first_us": first}
    return _time(name, call, place) | row | error


def _measure_nccl(name: str, place: Any) -> Row:
    """Check and time NCCL's sum over the devices; here, there is only one."""
    library = vendor.open_library("nccl", place.type)
    x = torch.randn(SUMMED, device=str(place))
    out, plan = torch.full_like(x, torch.nan), library.ffi.new("void **")
    arrays = [library.ffi.cast("float *", t.data_ptr()) for t in (out, x)]

    def call() -> None:
        library.call("nccl_sum", plan, *arrays, SUMMED)

    first = _time_first(call, place.type)
    error = _check_result(name, out, x.double(), 0.0)
    row = {"n": SUMMED, "lines": count_lines("nccl"), "first_us": first}
    return _time(name, call, place) | row | error


OTHERS: dict[str, Callable[[str, Any], Row]] = {
    "philox": _measure_numbers,
    "xorwow": _measure_numbers,
    "fft": _measure_fft,
    "cudnn": _measure_cudnn,
    "cub": _measure_cub,
    "nccl": _measure_nccl,
}
NAMES = (*WAYS, *OTHERS, "ours")  # the last one may have to be built


def _time_first(call: Callable[[], None], target: str) -> float:
    """Return the microseconds of the first call, until its result exists."""
    _wait(target)
    start = time.perf_counter()
    call()
    _wait(target)
    return 1e6 * (time.perf_counter() - start)


def _wait(target: str) -> None:
    if target == "cuda":
        torch.cuda.synchronize()


def _time(name: str, call: Callable[[], None], place: Any) -> Row:
    contender = Contender(call=call, checked=True)
    return race({name: contender}, place, samples=50, seconds=0.5)[name].row()


# ---- the command ---------------------------------------------------------------------


def rows_of(args: argparse.Namespace) -> list[Row]:
    """Return the rows for the options of the command line."""
    sizes = [int(size) for size in args.sizes.split(",") if size]
    return rows(split_words(args.rungs) or NAMES, args.device, sizes)


def rows(
    names: Sequence[str] = NAMES, device: str = "cpu", sizes: Sequence[int] = ()
) -> list[Row]:
    """Measure the ways, and return a row for each way and size.

    Raises ArgumentError for an unknown name. If a library is missing, reports an
    error or computes a wrong result, its row contains the reason.
    """
    if unknown := [name for name in names if name not in NAMES]:
        raise ArgumentError(f"no way {unknown[0]!r}; there are {', '.join(NAMES)}")
    place = parse_device(device)
    sizes = sizes or SIZES[place.type]
    measured = []
    for name in names:
        say(f"calling {name}")
        apart = place.type == "cuda" and len(names) > 1
        measure = _measure_apart if apart else _measure_here
        measured += measure(name, place, sizes)
    return measured


def _measure_here(name: str, place: Any, sizes: Sequence[int]) -> list[Row]:
    measured = []
    common = {"op": "libraries", "impl": "weft" if name == "ours" else "vendor"}
    common |= {"rung": name, "target": place.type}
    common |= {"precision": "tf32" if on_tf32(WAYS.get(name)) else "fp32"}
    for n in [0] if name in OTHERS else sizes:
        try:
            measure = OTHERS.get(name)
            facts = (
                measure(name, place) if measure else _measure_product(name, n, place)
            )
            measured.append(common | {"device": device_name(place)} | facts)
        except (BuildError, RuntimeError) as error:  # a KernelError is a RuntimeError
            absent = {"device": None, "n": n or None, "us": None}
            measured.append(common | absent | {"absent": first_line(error)})
    return measured


def _measure_apart(name: str, place: Any, sizes: Sequence[int]) -> list[Row]:
    """Measure a way in a process of its own; return its rows."""
    with tempfile.TemporaryDirectory(prefix="weft_") as folder:
        path = Path(folder) / "rows.json"
        words = ["bench", "libraries", "--rungs", name, "--device", str(place)]
        words += ["--sizes", ",".join(map(str, sizes)), "--json", str(path)]
        command = [sys.executable, "-m", "weft", *words]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=LIMIT
            )
            if path.exists():
                return json.loads(path.read_text())["rows"]
            lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
            reason = lines[-1]
        except subprocess.TimeoutExpired:
            reason = f"it did not finish within {LIMIT} s"
    row = {"op": "libraries", "impl": "vendor", "rung": name, "precision": "fp32"}
    row |= {"target": place.type, "device": None, "n": None, "us": None}
    return [row | {"absent": reason}]


def note(rows: Sequence[Row]) -> str:
    """Return the text below the table."""
    return (
        "first_us: the first call, with the creation of handles and plans. error: the "
        "largest difference from float64. lines: code that calls the library"
    )
