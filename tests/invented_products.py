"""Rows like those of `weft bench matmul`, for a GPU that does not exist."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]

RUNGS = (
    *[("naive", "fp32", 0.6), ("tiled", "fp32", 8.0), ("tuned", "fp32", 54.0)],
    *[("wgmma_3xtf32", "3xtf32", 143.0), ("wgmma_tf32", "tf32", 410.0)],
    ("wgmma_bf16", "bf16", 800.0),
)
CUBLAS = {"fp32": 50.0, "tf32": 400.0, "bf16": 800.0}
PEAKS = (
    *[("copy", "fp32", 4000.0, None), ("ffma", "fp32", None, 65.0)],
    *[("mma", "tf32", None, 320.0), ("wgmma", "tf32", None, 480.0)],
    ("wgmma", "bf16", None, 960.0),
)


def row(impl: str, rung: str, precision: str, tflops: float, size, **more) -> Row:
    m, k, n = size
    us = 2 * m * k * n / tflops / 1e6
    element = 2 if precision == "bf16" else 4
    error = {"fp32": 1e-6, "3xtf32": 5e-7}.get(precision, 3e-4)
    return {
        **{"op": "matmul", "impl": impl, "rung": rung, "precision": precision},
        **{"layout": "nn", "target": "cuda", "device": "This GPU"},
        **{"m": m, "k": k, "n": n, "timer": "graph", "cache": "warm"},
        **{"us": us, "us_low": 0.99 * us, "us_high": 1.02 * us, "tflops": tflops},
        **{"bytes": element * (m * k + k * n) + 4 * m * n, "pause_ms": 60.0},
        **{"error_rms": error, "error_max": 3 * error, "idea": f"{rung}'s idea"},
        **{"race": precision, "date": "2026-01-02", "throttled": None, **more},
    }


def rows(sizes=((1024,) * 3, (4096,) * 3), **more) -> list[Row]:
    products = []
    for size in sizes:
        for rung, kind, tflops in RUNGS:
            peer = CUBLAS["fp32" if kind == "3xtf32" else kind]
            ratio = {"vs_cublas": tflops / peer, "vs_torch": tflops / peer}
            products.append(row("weft", rung, kind, tflops, size, **ratio, **more))
        for race in (*CUBLAS, "3xtf32"):
            kind = "fp32" if race == "3xtf32" else race
            common = {"vs_cublas": 1.0, "vs_torch": 1.0, "race": race, **more}
            for impl, rung in (("cublas", "gemm_ex"), ("torch", "mm")):
                products.append(row(impl, rung, kind, CUBLAS[kind], size, **common))
    return products


def peak_rows() -> list[Row]:
    common = {"op": "peak", "impl": "weft", "target": "cuda", "device": "This GPU"}
    names = ("rung", "precision", "gbs", "tflops")
    return [common | dict(zip(names, peak)) for peak in PEAKS]


def elsewhere() -> dict[str, Any]:
    """Return the same rows from another machine, in the format of bench.read_json()."""
    machine = {"device": "That GPU", "date": "2026-01-03", "torch": "2.11"}
    machine |= {"driver": "580", "toolkit": "13.0"}
    return {"machine": machine, "rows": [*peak_rows(), *rows(device="That GPU")]}
