"""Who takes part in `weft bench matmul`: rungs, cuBLAS, PyTorch, NumPy, Numba.

Every one of them computes c (m,n) float32 = a (m,k) @ b (k,n) of the same random
numbers, and its c is compared with a product in float64 before it is timed.
"""

from __future__ import annotations

import contextlib
import functools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from . import clocks, native, timers
from .guarded import Mismatch
from .native import ArgumentError

Product = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]

# What the others compute in a race of that precision: fp32 is what 3xtf32 replaces.
OPPONENTS = {"3xtf32": "fp32"}  # else the same
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}  # of a and b, else float32
# cuBLAS may be faster with operands that lie otherwise: the best counts.
LAYOUTS = {"tf32": ("nn", "nt", "tn")}


@dataclass(frozen=True)
class Size:
    """c (m,n) = a (m,k) @ b (k,n)."""

    m: int
    k: int
    n: int

    @staticmethod
    def of(text: str) -> Size:
        """ "1024" is a cube, "5120x256x5120" m x k x n; ArgumentError for others."""
        found = re.fullmatch(r"(\d{1,9})(?:x(\d{1,9})x(\d{1,9}))?", text.strip())
        numbers = [int(x) for x in found.groups() if x] if found else [0]
        if not all(numbers):
            raise ArgumentError(
                f"size '{text}': want 1024, or 5120x256x5120: m x k x n"
            )
        return Size(*numbers) if len(numbers) == 3 else Size(*numbers * 3)

    def __str__(self) -> str:
        if self.m == self.k == self.n:
            return str(self.m)
        return f"{self.m}x{self.k}x{self.n}"

    @property
    def flop(self) -> float:
        return 2.0 * self.m * self.k * self.n

    def bytes(self, precision: str) -> float:
        """That must move: a and b read once, c written once."""
        element = 2 if precision in TYPES else 4
        return element * (self.m * self.k + self.k * self.n) + 4.0 * self.m * self.n


@dataclass
class Operands:
    """a, b and c in one or several copies, and what c has to be.

    precision: of the race.
    """

    size: Size
    precision: str
    device: torch.device
    sets: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]

    @staticmethod
    def random(
        size: Size, precision: str, device: torch.device, cold: bool
    ) -> Operands:
        """Signed random numbers; cold: as many copies as do not fit the cache."""
        needed = int(size.bytes(precision))
        copies = timers.copies_for(needed, device) if cold else 1
        generator = torch.Generator(device).manual_seed(0)
        kind = TYPES.get(precision, torch.float32)

        def made(rows: int, cols: int) -> torch.Tensor:
            x = torch.randn(rows, cols, generator=generator, device=device)
            return x.to(kind)

        a, b = made(size.m, size.k), made(size.k, size.n)
        sets = [
            (torch.empty(size.m, size.n, device=device), *((a, b) if i == 0 else
             (a.clone(), b.clone()))) for i in range(copies)
        ]  # fmt: skip
        return Operands(size, precision, device, sets)

    @functools.cached_property
    def want(self) -> torch.Tensor:
        """The product in float64."""
        _, a, b = self.sets[0]
        return a.double() @ b.double()

    @property
    def opponents(self) -> str:
        """The precision in which the others compute."""
        return OPPONENTS.get(self.precision, self.precision)

    def errors(self, call: Callable[[int], object], precision: str) -> dict[str, float]:
        """What call(0) leaves in c, compared: relative root mean square and maximum.

        Mismatch if it is not a product in that precision.
        """
        c = self.sets[0][0]
        c.fill_(torch.nan)
        call(0)
        off = c.double() - self.want
        rms = float(off.square().mean().sqrt() / self.want.square().mean().sqrt())
        worst = float(off.abs().max() / self.want.abs().max())
        limit = error_limit(precision, self.size.k)
        if not rms <= limit:  # NaN is not
            raise Mismatch(
                f"not timed, since it is wrong: at {self.size} its error is {rms:.2g} "
                f"of c (root mean square), at most {limit:.2g} is {precision}"
            )
        return {"error_rms": rms, "error_max": worst}


@dataclass
class Entry:
    """One contender of one race. speed: its TFLOP/s, once that is known."""

    impl: str
    rung: str
    precision: str
    contender: clocks.Contender
    layout: str = "nn"
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.impl} {self.rung} {self.precision} {self.layout}"


def error_limit(precision: str, k: int) -> float:
    """What a relative root mean square error may be at most.

    Sums of k random products that are rounded one after another are off by about
    2^-24 sqrt(k) / 2; a tensor core cuts instead, with a drift. Products of numbers
    cut to tf32 are off by 2.9e-4 to 7.8e-4, however long the sum is.
    """
    if precision == "tf32":
        return 1e-3
    drift = 1e-4 if precision in TYPES else 0.0
    return 1e-6 + 1e-7 * math.sqrt(k) + drift


def entry(
    impl: str, rung: str, precision: str, operands: Operands, call: Product, **more: Any
) -> Entry:
    """A contender that calls call(c, a, b)."""
    sets = operands.sets
    count = len(sets)

    def run(i: int) -> None:
        call(*sets[i % count])

    layout = more.pop("layout", "nn")
    contender = clocks.Contender(run, count)
    return Entry(impl, rung, precision, contender, layout, more)


# ---- ours ------------------------------------------------------------------------


def of_rung(lib: native.Library, rung: native.Rung, operands: Operands) -> Entry:
    """A rung of the ladder, called as C calls it, with its workspace at hand."""
    size, where = operands.size, operands.device
    sizes = size.m, size.n, size.k
    bytes_ = native.ffi.new("size_t *")
    options = native.ffi.new("struct weft_matmul_options *", {"alpha": 1.0})
    most = 0
    for _, a, b in operands.sets:
        given = (native.pointer(a, "void *"), native.pointer(b, "void *"))
        lib.call("weft_matmul_workspace", rung.index, bytes_, *given, *sizes, options)
        most = max(most, bytes_[0])
    room = torch.empty(most, dtype=torch.uint8, device=where)
    if most:
        options.workspace = native.pointer(room, "void *")
        options.workspace_bytes = most

    def call(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, held: Any = room):
        lib.call(
            *("weft_matmul", rung.index, native.pointer(c)),
            *(native.pointer(a, "void *"), native.pointer(b, "void *")),
            *(*sizes, options, native.stream_of(where)),
        )

    made = entry("weft", rung.name, rung.precision, operands, call)
    made.more = {"idea": rung.idea, "workspace": most}
    return made


def of_numba(operands: Operands) -> Iterator[Entry]:
    """The Python bodies of lessons 01 and 02, compiled by Numba."""
    from .bodies import lessons
    from .numba_jit import numba_jit

    size, tile = operands.size, lessons.TILE
    grid = -(-size.n // tile), -(-size.m // tile)
    for name in ("matmul", "matmul_tiled"):
        launch = numba_jit(getattr(lessons, name))[grid, (tile, tile)]

        def call(c, a, b, launch=launch):
            flat = (x.view(-1) for x in (c, a, b))
            launch(*flat, size.m, size.n, size.k)

        yield entry("numba", name, "fp32", operands, call)


# ---- the others ------------------------------------------------------------------


def of_cublas(operands: Operands) -> Iterator[Entry]:
    """cuBLAS itself, in each layout that counts; nothing where it is not there."""
    from . import cublas

    with contextlib.suppress(native.KernelError):
        kind = operands.opponents
        gemm = cublas.Gemm(kind, operands.device.index)
        for layout in LAYOUTS.get(kind, ("nn",)):
            given = [
                (c, *(x.t().contiguous() if flip == "t" else x for x, flip in
                      zip((a, b), layout))) for c, a, b in operands.sets
            ]  # fmt: skip
            lying = Operands(operands.size, kind, operands.device, given)
            call = functools.partial(gemm, layout=layout)
            yield entry("cublas", "gemm_ex", kind, lying, call, layout=layout)


def of_torch(operands: Operands) -> Entry:
    """torch.mm; of 16-bit numbers into float32 where this PyTorch can."""
    precision = operands.opponents
    if precision not in TYPES:
        return entry("torch", "mm", precision, operands, _torch_mm)
    c, a, b = operands.sets[0]
    try:
        _torch_mm_wide(c, a, b)
        return entry("torch", "mm", precision, operands, _torch_mm_wide)
    except (TypeError, RuntimeError):
        narrow = torch.empty_like(c, dtype=TYPES[precision])

        def call(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
            torch.mm(a, b, out=narrow)

        made = entry("torch", "mm", precision, operands, call)
        made.more = {"out": precision}  # it writes half of the bytes
        return made


def of_numpy(operands: Operands) -> Entry:
    """NumPy's product, on the host."""
    import numpy as np

    def call(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
        np.matmul(a.numpy(), b.numpy(), out=c.numpy())

    return entry("numpy", "matmul", "fp32", operands, call)


def _torch_mm(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    torch.mm(a, b, out=c)


def _torch_mm_wide(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    torch.mm(a, b, out_dtype=torch.float32, out=c)
