"""Which races `weft bench matmul` runs: sizes, precisions, rungs, and sets of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ...base.errors import ArgumentError
from ...timing import timers
from ...toolchain import native
from .calls import Size
from .goals import BETTER, PRECISIONS

ODD = ("1000", "1023", "2047", "3000", "4095", "4097", "6000", "8191")
TALL = "50000x784x10"
NARROW = ("10x784x50000", "64x65536x64", "50000x784x32")
AWKWARD = (TALL, *NARROW, "256x16384x256", "1x4096x4096", "4096x4096x1", "4096x1x4096")
AWKWARD += ("100", "512", "768", "1025", "33x8191x257", "333x777x1111", "4097x17x4097")
BATCHES = ("64of256", "1000of32")
USUAL = {"cuda": ("1024", "4096"), "cpu": ("256", "512", "1024", "2048")}

# Who takes part, and how: all rungs; the best; the best, few rounds, and so with a or b
# transposed; the best, few rounds, with inputs that are in no cache.
EVERY, BEST, QUICK, TRANSPOSED, COLD = "every", "best", "quick", "transposed", "cold"
FEW = timers.LEAST
CUBES = ("1024", "2048", "5120x256x5120")
# By name: (size, precisions, who and how). A race that is there twice runs once, as it
# stands first.
SETS: dict[str, Sequence[tuple[str, Sequence[str], str]]] = {
    "ladder": [(size, PRECISIONS, EVERY) for size in USUAL["cuda"]],
    "goals": [
        *((size, ("fp32",), BEST) for size in (*CUBES, *ODD)),
        *((size, PRECISIONS[:4], BEST) for size in ("4096", "8192")),
        (TALL, PRECISIONS, BEST),
        *((size, ("fp32",), BEST) for size in NARROW),
    ],
    "odd": [(size, PRECISIONS, QUICK) for size in ODD],
    "awkward": [
        *((size, PRECISIONS, QUICK) for size in AWKWARD),
        *((size, ("fp32",), QUICK) for size in BATCHES),
    ],
    "layouts": [
        ("1023", PRECISIONS, TRANSPOSED),
        *((size, ("fp32", "bf16", "fp16"), TRANSPOSED) for size in USUAL["cuda"]),
        (BATCHES[0], PRECISIONS, QUICK),
    ],
    # Not 8192: no cache holds enough of it for the next call.
    "cold": [
        *((size, ("fp32",), COLD) for size in CUBES),
        ("4096", PRECISIONS[:4], COLD),
        (TALL, PRECISIONS, COLD),
    ],
    "peaks": [],
}
SETS["all"] = [race for name in [*SETS] if name != "peaks" for race in SETS[name]]


@dataclass(frozen=True)
class Race:
    """One size and precision, and which of our rungs take part.

    layouts: of a and b, of the last rung and of cuBLAS; the others have the first.
    """

    size: Size
    precision: str
    rungs: tuple[native.Rung, ...]
    layouts: tuple[str, ...] = ("nn",)
    rounds: int = 1000  # at most
    cold: bool = False


def race_of(
    size: Size, kind: str, rungs: tuple[native.Rung, ...] = (), part: str = EVERY
) -> Race:
    """The race of a size and precision; part: who takes part, and how."""
    # Of cubes, as the goals ask: what is tall or wide stands beside the same.
    counts = kind in BETTER and size.m == size.k == size.n
    better = ("nn", "nt", "tn") if counts else ("nn",)
    layouts = {QUICK: ("nn",), TRANSPOSED: ("nt", "tn")}.get(part, better)
    few = part in (TRANSPOSED, COLD) or (part is QUICK and kind != "fp32")
    rounds = FEW if few else Race.rounds
    return Race(size, kind, rungs, layouts, rounds, part is COLD)


def plan_races(
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
            raise ArgumentError(f"--precisions {kind}: want some of {known}")
    here = _rungs_here(where, rungs)
    if not name or sizes:
        kinds = precisions or (PRECISIONS if where.type == "cuda" else ("fp32",))
        if rungs and not precisions:
            named = {rung.precision for rung in here}
            kinds = [kind for kind in PRECISIONS if kind in named]
        plan = [(size, kinds, EVERY) for size in sizes or USUAL[where.type]]
    else:
        plan = SETS[name]
    found: dict[tuple, Race] = {}
    for text, kinds, part in plan:
        size = Size.of(text)
        for kind in (k for k in kinds if not precisions or k in precisions):
            those = here if part is EVERY or rungs else _best_rung(here, kind)
            those = tuple(rung for rung in those if rung.precision == kind)
            # Rungs were named: where none has this precision there is no race.
            if those or not rungs:
                race = race_of(size, kind, those, part)
                same = size, kind, race.cold, "nn" in race.layouts
                found.setdefault(same, race)  # that of more rungs is first
    return [*found.values()]


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


def _best_rung(rungs: Sequence[native.Rung], kind: str) -> list[native.Rung]:
    """The one that who asks for this precision gets: the last."""
    return [rung for rung in rungs if rung.precision == kind][-1:]
