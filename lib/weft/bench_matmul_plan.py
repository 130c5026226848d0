"""Which races `weft bench matmul` runs: sizes, precisions, rungs, and sets of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from . import native
from .bench_matmul_calls import Size
from .native import ArgumentError

PRECISIONS = ("fp32", "3xtf32", "tf32", "bf16", "fp16")
STANDARD = ("1024", "2048", "4096", "8192", "5120x256x5120")
ODD = ("1000", "1023", "2047", "3000", "4095", "4097", "6000", "8191")
AWKWARD = ("50000x784x10", "10x784x50000", "64x65536x64", "256x16384x256")
AWKWARD += ("1x4096x4096", "4096x4096x1", "4096x1x4096", "100x100x100", "33x8191x257")
USUAL = {"cuda": ("1024", "4096"), "cpu": ("256", "512", "1024", "2048")}


@dataclass(frozen=True)
class Race:
    """One size and precision, and which of our rungs take part."""

    size: Size
    precision: str
    rungs: tuple[native.Rung, ...]


def races(
    where: torch.device,
    name: str,
    sizes: Sequence[str],
    rungs: Sequence[str],
    precisions: Sequence[str],
) -> list[Race]:
    """Those of a set, or of sizes; empty ones are as usual there.

    ArgumentError for a name that there is not.
    """
    if name and name not in SETS:
        raise ArgumentError(f"--set {name}: want one of {', '.join(SETS)}")
    for kind in precisions:
        if kind not in PRECISIONS:
            known = ", ".join(PRECISIONS)
            raise ArgumentError(f"--precision {kind}: want some of {known}")
    here = _rungs_here(where, rungs)
    if not name or sizes:
        kinds = precisions or (PRECISIONS if where.type == "cuda" else ("fp32",))
        plan = [(size, kinds, False) for size in sizes or USUAL[where.type]]
    else:
        plan = list(SETS[name])
    found = []
    for text, kinds, best in plan:
        size = Size.of(text)
        kinds = [k for k in kinds if not precisions or k in precisions]
        for kind in kinds:
            those = _of(here, kind, best and not rungs)
            # Rungs were named: where none has this precision there is no race.
            if those or not rungs:
                found.append(Race(size, kind, tuple(those)))
    return found


def _standard(kinds: Sequence[str], best: bool) -> Iterator[tuple]:
    return ((size, kinds, best) for size in STANDARD)


# By name: (size, precisions, whether only the best rungs take part).
SETS: dict[str, Sequence[tuple[str, Sequence[str], bool]]] = {
    "goals": [
        *((size, ("fp32",), True) for size in ("1024", "2048", "5120x256x5120", *ODD)),
        *((size, PRECISIONS[:4], True) for size in ("4096", "8192")),
        *((size, ("fp32",), True) for size in AWKWARD[:3]),
    ],
    "ladder": [*_standard(PRECISIONS, False)],
    "odd": [(size, ("fp32",), True) for size in ODD],
    "awkward": [(size, ("fp32",), True) for size in AWKWARD],
    "peaks": [],
}
SETS["all"] = [*SETS["ladder"], *SETS["odd"], *SETS["awkward"]]


def _rungs_here(where: torch.device, names: Sequence[str]) -> list[native.Rung]:
    """Those that run here, or the named ones; on a CPU those in plain C."""
    lib = native.library("matmul", where.type)
    if names:
        return [lib.rung(name) for name in names]
    if where.type == "cpu":
        return [r for r in lib.rungs if r.targets == ("cpu",)]
    major, minor = torch.cuda.get_device_capability(where)
    sm = 10 * major + minor
    return [r for r in lib.rungs if "cuda" in r.targets and r.sm <= sm]


def _of(rungs: Sequence[native.Rung], kind: str, best: bool) -> list[native.Rung]:
    """Those of a precision; best: `tuned` where there is one, else the last three."""
    those = [rung for rung in rungs if rung.precision == kind]
    if best:
        those = [rung for rung in those if rung.name == "tuned"] or those[-3:]
    return those
