"""How tensor cores add, for `weft bench tensor`: what they cut off, and its cure.

sums.cu has the kernel, in wmma, so that any GPU from sm_70 on can run it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ... import ops
from ...cells import load_cuda
from ...timing import device_name
from ...timing.cublas import KINDS, Gemm
from ...toolchain import native

if TYPE_CHECKING:
    from ...toolchain.native import AnyDevice

SOURCE = Path(__file__).with_name("sums.cu")
EVERY = (16, 32, 64, 128, 512, 0)
STEPS = 9  # of the staircase, quarters of the last bit of 1
SIZES = {  # by target: sides of c, and k
    "cuda": (256, (256, 1024, 4096, 16384)),
    "cpu": (32, (64, 256)),
}
PRECISIONS = ("fp32", "3xtf32", "tf32", "fp16", "bf16")
TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}  # else float32

Row = dict[str, Any]


def multiply_promoted(a: torch.Tensor, b: torch.Tensor, every: int) -> torch.Tensor:
    """a (m,k) @ b (k,n) in half, (m,n) float32; sums begin anew every `every` of k.

    m, k, n and `every` are multiples of 16; every 0: never.
    """
    m, k = a.shape
    n = b.shape[1]
    c = torch.full((m, n), torch.nan, device=a.device)
    kernel = load_cuda(SOURCE.read_text(), target=a.device.type).promoted
    kernel[(n // 16, m // 16), 32](c, a, b, n, k, every or k)
    return c


def measure_staircase(device: AnyDevice | str = "cpu") -> list[tuple[float, float]]:
    """For x in quarters: what a tensor core makes of 1 + x / 2^23, less 1, in 2^-23.

    1 comes with the first 16 of k, x with the second: a sum of two instructions.
    """
    steps = torch.arange(STEPS) / 4
    a = torch.zeros(16, 32, dtype=torch.float16)
    a[:STEPS, 0], a[:STEPS, 16] = 1.0, (steps * 2.0**-11).half()
    b = torch.zeros(32, 16, dtype=torch.float16)
    b[0], b[16] = 1.0, 2.0**-12
    c = multiply_promoted(a.to(device), b.to(device), 0)[:STEPS, 0].double().cpu()
    return list(zip(steps.tolist(), ((c - 1) * 2**23).tolist()))


def _staircase_rows(where: AnyDevice) -> Iterator[Row]:
    for x, added in measure_staircase(where):
        yield head_of(where, "staircase", "promoted", "fp16") | {"x": x, "added": added}


def _promotion_rows(where: AnyDevice) -> Iterator[Row]:
    side, depths = SIZES[where.type]
    for signs in ("both", "positive"):
        for k in depths:
            a, b = numbers_of(side, k, where)
            if signs == "positive":
                a, b = a.abs(), b.abs()
            a, b = a.half(), b.half()
            want = a.double() @ b.double()
            for every in (e for e in EVERY if e < k):
                lost = _measure_errors(multiply_promoted(a, b, every), want)
                head = head_of(where, "promotion", "promoted", "fp16")
                yield head | {"k": k, "every": every, "signs": signs, **lost}


def _error_rows(where: AnyDevice) -> Iterator[Row]:
    """Of products of float32 numbers, which each precision first has to round."""
    side, depths = SIZES[where.type]
    for k in depths:
        a, b = numbers_of(side, k, where)
        want = a.double() @ b.double()
        for kind in PRECISIONS:
            for impl, multiply in products_of(kind, where):
                given = [x.to(TYPES.get(kind, torch.float32)) for x in (a, b)]
                lost = _measure_errors(multiply(*given), want)
                yield head_of(where, "error", impl, kind) | {"k": k, **lost}


def products_of(
    kind: str, where: AnyDevice
) -> Iterator[tuple[str, Callable[..., torch.Tensor]]]:
    """Our fastest rung of a precision, and cuBLAS.

    None of the rungs that pick one: they may take fp32 where that is as fast.
    """
    lib = native.library("matmul", where.type)
    rung = next(r for r in lib.fastest(kind) if not r.name.startswith("tuned_"))
    yield rung.name, functools.partial(ops.matmul, rung=rung.name)
    if where.type == "cuda" and kind in KINDS:

        def by_cublas(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            c = torch.empty(a.shape[0], b.shape[1], device=a.device)
            Gemm(kind)(c, a, b)
            return c

        yield "cublas", by_cublas


# ---- details ---------------------------------------------------------------------


def numbers_of(
    side: int, k: int, where: AnyDevice
) -> tuple[torch.Tensor, torch.Tensor]:
    """Random a (side,k) and b (k,side), the same everywhere."""
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(side, k, generator=generator).to(where)
    return a, torch.randn(k, side, generator=generator).to(where)


def _measure_errors(got: torch.Tensor, want: torch.Tensor) -> dict[str, float]:
    """How wrong c is, relative to its own size; NaN if any of it is."""
    off, size = got.double() - want, float(want.square().mean().sqrt())
    rms = float(off.square().mean().sqrt()) / size
    return {"error_rms": rms, "bias": float(off.mean()) / size}


def head_of(where: AnyDevice, op: str, rung: str, kind: str) -> Row:
    impl = "cublas" if rung == "cublas" else "weft"
    return {
        **{"op": op, "impl": impl, "rung": rung, "precision": kind},
        **{"target": where.type, "device": device_name(where)},
    }


OPS: dict[str, Callable[[AnyDevice], Iterator[Row]]] = {
    "staircase": _staircase_rows,
    "promotion": _promotion_rows,
    "error": _error_rows,
}
