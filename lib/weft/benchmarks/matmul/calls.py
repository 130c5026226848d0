"""The contenders of `bench matmul`: rungs, cuBLAS, PyTorch, NumPy, Numba, Triton.

Each contender computes c (m,n) float32 = a (m,k) @ b (k,n) from the same random
numbers. Its c is compared with a product in float64 before it is timed.
"""

from __future__ import annotations

import contextlib
import functools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ...base.errors import ArgumentError, KernelError, Mismatch, OutOfMemory
from ...ops import in_triton
from ...ops.products import place_workspace
from ...pykernel import bodies
from ...pykernel.numba import numba_jit
from ...timing import peaks, timers
from ...timing.race import Contender
from ...toolchain import native

Product = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]

# The opponents' precision where it differs from the race's: fp32 in races of 3xtf32.
OPPONENTS = {"3xtf32": "fp32"}
# The largest allowed error of an element of c, in units of the root mean square error
# allowed at the element's scale (Operands.scale). Errors are sums of k small ones and
# nearly normal, so only one in 10^15 exceeds 8 standard deviations. Correct kernels of
# all precisions reached at most 2.6 on an H200, at sizes up to 8192^3.
FARTHEST = 8
# Seconds for which OpenBLAS's threads spin while they wait for work. On two cores,
# PyTorch's product took 45 ms if it began 60 ms after NumPy's, and 17 ms if it began
# 100 ms after.
OPENBLAS_SPINS = 0.1
# The dtype of a and b; float32 for other precisions.
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Size:
    """c (m,n) = a (m,k) @ b (k,n), for each matrix of a batch."""

    m: int
    k: int
    n: int
    batch: int = 1

    @staticmethod
    def of(text: str) -> Size:
        """Parse "1024" (a cube), "5120x256x5120" (m x k x n), "64of256" (64 cubes).

        Raises ArgumentError for other texts.
        """
        pattern = r"([1-9]\d{0,8})"
        form = rf"(?:{pattern}of)?{pattern}(?:x{pattern}x{pattern})?"
        match = re.fullmatch(form, text.strip())
        if not match:
            raise ArgumentError(
                f"size '{text}': expected 1024, 5120x256x5120 (m x k x n) or "
                "64of256 (64 products of size 256), each number from 1 to 999999999"
            )
        batch, m, k, n = (int(x) if x else None for x in match.groups())
        return Size(m, k or m, n or m, batch or 1)

    def __str__(self) -> str:
        many = f"{self.batch}of" if self.batch > 1 else ""
        if self.m == self.k == self.n:
            return f"{many}{self.m}"
        return f"{many}{self.m}x{self.k}x{self.n}"

    @property
    def flop(self) -> float:
        return 2.0 * self.batch * self.m * self.k * self.n

    def bytes(self, precision: str) -> float:
        """Return the bytes that must move: a and b read once, c written once."""
        element = 2 if precision in TYPES else 4
        operands = element * (self.m * self.k + self.k * self.n)
        return self.batch * (operands + 4.0 * self.m * self.n)

    @property
    def stack(self) -> tuple[int, ...]:
        """The batch dimension as a tuple, empty without a batch."""
        return (self.batch,) if self.batch > 1 else ()


@dataclass
class Operands:
    """a, b and c in one or several copies, and the expected c.

    precision: the race's precision. flush: a call that empties the cache. It is used
    for cold operands that are so small that they would need too many copies.
    """

    size: Size
    precision: str
    device: torch.device
    sets: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]
    flush: Callable[[], object] | None = None

    @staticmethod
    def random(
        size: Size, precision: str, device: torch.device, cold: bool
    ) -> Operands:
        """Make signed random operands.

        cold: make enough copies to exceed the cache or, if that needs too many copies,
        one copy and a function that empties the cache.
        """
        needed = int(size.bytes(precision))
        copies = timers.copies_for(needed, device) if cold else 1
        flush = timers.make_flusher(device) if cold and copies == 1 else None
        generator = torch.Generator(device).manual_seed(0)
        kind = TYPES.get(precision, torch.float32)

        def draw(rows: int, cols: int) -> torch.Tensor:
            shape = *size.stack, rows, cols
            try:
                return torch.randn(shape, generator=generator, device=device).to(kind)
            except RuntimeError as error:
                if "memory" not in str(error):
                    raise
                message = f"out of memory: {rows} x {cols} random floats"
                raise OutOfMemory(f"{size}: {message}") from None

        pair = draw(size.m, size.k), draw(size.k, size.n)
        pairs = [pair, *((x.clone() for x in pair) for _ in range(copies - 1))]
        shape = *size.stack, size.m, size.n
        sets = [(torch.empty(shape, device=device), *pair) for pair in pairs]
        return Operands(size, precision, device, sets, flush)

    def stored(self, layout: str) -> Operands:
        """Return these operands in another layout: "nt" stores b as (n,k)."""
        if layout == "nn":
            return self

        def lay_out(x: torch.Tensor, way: str) -> torch.Tensor:
            return x.mT.contiguous() if way == "t" else x

        sets = [(c, *map(lay_out, (a, b), layout)) for c, a, b in self.sets]
        return replace(self, sets=sets)

    @functools.cached_property
    def want(self) -> torch.Tensor:
        """The product in float64."""
        _, a, b = self.sets[0]
        return a.double() @ b.double()

    @functools.cached_property
    def scale(self) -> torch.Tensor:
        """The scale of c[i,j]: |row i of a| * |column j of b| / sqrt(k)."""
        _, a, b = self.sets[0]
        rows, cols = a.double().norm(dim=-1), b.double().norm(dim=-2)
        return rows[..., :, None] * cols[..., None, :] / math.sqrt(self.size.k)

    @property
    def opponents(self) -> str:
        """The precision in which the opponents compute."""
        return OPPONENTS.get(self.precision, self.precision)

    def errors(self, call: Callable[[int], object], precision: str) -> dict[str, float]:
        """Return the relative root mean square and maximum errors of call(0)'s c.

        Raises Mismatch if c as a whole or any of its elements has a larger error than
        `precision` allows.
        """
        c = self.sets[0][0]
        c.fill_(torch.nan)
        call(0)
        error = c.double() - self.want
        rms = float(error.square().mean().sqrt() / self.want.square().mean().sqrt())
        worst = float(error.abs().max() / self.want.abs().max())
        limit = error_limit(precision, self.size.k)
        if not rms <= limit:  # `not <=` is also true for NaN
            raise Mismatch(
                f"not timed, because it is wrong: at {self.size} the relative error of "
                f"c is {rms:.2g} (root mean square), above {precision}'s {limit:.2g}"
            )
        bound = FARTHEST * limit * self.scale
        bad = ~(error.abs_() <= bound)
        if bad.any():
            at = tuple(bad.nonzero()[0].tolist())
            raise Mismatch(
                f"not timed, because it is wrong: at {self.size} c{[*at]} is "
                f"{float(c[at]):.6g}, expected {float(self.want[at]):.6g} within "
                f"{float(bound[at]):.2g}; {int(bad.sum())} of {bad.numel()} elements "
                "are wrong"
            )
        return {"error_rms": rms, "error_max": worst}


def error_limit(precision: str, k: int) -> float:
    """Return the largest allowed relative root mean square error.

    Sums of k random products, rounded one after another, have errors of about 2^-24
    sqrt(k) / 2. A tensor core truncates, which causes a drift. Products of numbers cut
    to tf32 have errors of 2.9e-4 to 7.8e-4, regardless of k.
    """
    if precision == "tf32":
        return 1e-3
    drift = 1e-4 if precision in TYPES else 0.0
    return 1e-6 + 1e-7 * math.sqrt(k) + drift


def make_contender(
    impl: str,
    rung: str,
    precision: str,
    operands: Operands,
    call: Product,
    layout: str = "nn",
) -> Contender:
    """Make a contender that calls call(c, a, b)."""
    sets = operands.sets

    def run(i: int) -> None:
        call(*sets[i % len(sets)])

    row = {"impl": impl, "rung": rung, "precision": precision, "layout": layout}
    return Contender(run, len(sets), operands.flush, row=row)


# ---- ours ------------------------------------------------------------------------


def of_rung(
    lib: native.Library, rung: native.Rung, operands: Operands, layout: str = "nn"
) -> Contender:
    """Make a contender that calls a rung of the C library, with its own workspace."""
    operands = operands.stored(layout)
    size, where = operands.size, operands.device
    sizes = size.m, size.n, size.k
    bytes_ = native.ffi.new("size_t *")
    fields = {"alpha": 1.0, "trans_a": layout[0] == "t", "trans_b": layout[1] == "t"}
    if size.batch > 1:
        fields |= {"batch": size.batch, "stride_a": size.m * size.k}
        fields |= {"stride_b": size.k * size.n, "stride_c": size.m * size.n}
    options = native.ffi.new("struct weft_matmul_options *", fields)
    largest = 0
    for _, a, b in operands.sets:
        inputs = (native.pointer(a, "void *"), native.pointer(b, "void *"))
        lib.call("weft_matmul_workspace", rung.index, bytes_, *inputs, *sizes, options)
        largest = max(largest, bytes_[0])
    workspace = torch.empty(largest + 256, dtype=torch.uint8, device=where)
    if largest:
        place_workspace(options, workspace)

    def call(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, keep: Any = workspace):
        lib.call(
            *("weft_matmul", rung.index, native.pointer(c)),
            *(native.pointer(a, "void *"), native.pointer(b, "void *")),
            *(*sizes, options, native.stream_of(where)),
        )

    result = make_contender("weft", rung.name, rung.precision, operands, call, layout)
    result.facts = {"idea": rung.idea, "workspace": largest}
    return result


def of_numba(operands: Operands) -> Iterator[Contender]:
    """Yield the Python bodies of lessons 01b and 02a, compiled by Numba."""
    size, tile = operands.size, bodies.TILE
    grid = -(-size.n // tile), -(-size.m // tile)
    for name in ("matmul", "matmul_tiled"):
        launch = numba_jit(getattr(bodies, name))[grid, (tile, tile)]

        def call(c, a, b, launch=launch):
            flat = (x.view(-1) for x in (c, a, b))
            launch(*flat, size.m, size.n, size.k)

        yield make_contender("numba", name, "fp32", operands, call)


def of_triton(operands: Operands) -> Iterator[Contender]:
    """Yield kernels/matmul/in_triton.py, or nothing if Triton cannot compile here."""
    if in_triton.find_ways()["gpu"]:
        return
    size, kind = operands.size, operands.precision
    run = in_triton.load_programs("matmul", "gpu").matmul

    def call(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
        run(c, a, b, size.m, size.n, size.k, kind)

    yield make_contender("triton", "in_triton", kind, operands, call)


# ---- the opponents ---------------------------------------------------------------


def of_cublas(
    operands: Operands, layouts: Sequence[str] = ("nn",)
) -> Iterator[Contender]:
    """Yield direct calls to cuBLAS in each layout, or nothing if it is missing."""
    with contextlib.suppress(KernelError):
        kind = operands.opponents
        gemm = peaks.Gemm(kind, operands.device.index)
        for layout in layouts:
            call = functools.partial(gemm, layout=layout)
            laid_out = operands.stored(layout)
            yield make_contender("cublas", "gemm_ex", kind, laid_out, call, layout)


def of_torch(operands: Operands) -> Contender:
    """Make a contender of torch.mm or torch.bmm, with a float32 c if supported."""
    precision = operands.opponents
    name = "bmm" if operands.size.batch > 1 else "mm"
    product = getattr(torch, name)

    names = "torch", name, precision, operands
    if precision not in TYPES:
        return make_contender(*names, lambda c, a, b: product(a, b, out=c))
    c, a, b = operands.sets[0]
    try:
        wide = functools.partial(product, out_dtype=torch.float32)
        wide(a, b, out=c)
        return make_contender(*names, lambda c, a, b: wide(a, b, out=c))
    except (TypeError, RuntimeError):
        narrow = torch.empty_like(c, dtype=TYPES[precision])
        contender = make_contender(*names, lambda c, a, b: product(a, b, out=narrow))
        # Fp16 and bf16 outputs have half as many bytes.
        contender.facts = {"out": precision}
        return contender


def of_numpy(operands: Operands) -> Contender:
    """Make a contender that calls NumPy's product on the host."""
    import numpy as np

    def call(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
        np.matmul(a.numpy(), b.numpy(), out=c.numpy())

    contender = make_contender("numpy", "matmul", "fp32", operands, call)
    contender.spins = OPENBLAS_SPINS
    return contender
