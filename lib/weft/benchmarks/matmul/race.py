"""Plan and run the races of `weft bench matmul`.

plan_races() lists the races. race_rows() first checks each contender against float64; a
rung that fails its check is not timed. A contender is left out if its speed at smaller
sizes predicts a time above the limit.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from ...base.errors import ArgumentError, DeviceLost, KernelError, Mismatch
from ...mnist.twin import precision
from ...ops import check
from ...timing import device_name, time_call
from ...timing.race import LEAST, Contender, Timed, race
from ...timing.results import Row, stamp_row
from ...timing.timers import time_sustained
from ...toolchain import native
from .. import say
from .calls import (
    TYPES,
    Operands,
    Size,
    of_cublas,
    of_numba,
    of_numpy,
    of_rung,
    of_torch,
    of_triton,
)
from .comparison import BETTER, PRECISIONS, beside_fastest

ODD = ("1000", "1023", "2047", "3000", "4095", "4097", "6000", "8191")
TALL = "50000x784x10"
NARROW = ("10x784x50000", "64x65536x64", "50000x784x32")
AWKWARD = (TALL, *NARROW, "256x16384x256", "1x4096x4096", "4096x4096x1", "4096x1x4096")
AWKWARD += ("100", "512", "768", "1025", "33x8191x257", "333x777x1111", "4097x17x4097")
BATCHES = ("64of256", "1000of32")
USUAL = {"cuda": ("1024", "4096"), "cpu": ("256", "512", "1024", "2048")}

# Parts of a race: all rungs, or the best one. The last three use the best rung: with
# plain operands, with a or b transposed, and with inputs that are in no cache. They use
# few rounds, except QUICK in fp32.
EVERY, BEST, QUICK, TRANSPOSED, COLD = "every", "best", "quick", "transposed", "cold"
FEW = LEAST
CUBES = ("1024", "2048", "5120x256x5120")
# The races of each set: (size, precisions, part of a race). A race that two lists
# contain runs once, as the first list defines it.
SETS: dict[str, Sequence[tuple[str, Sequence[str], str]]] = {
    "ladder": [(size, PRECISIONS, EVERY) for size in USUAL["cuda"]],
    "summary": [
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
    # 8192 is omitted, since caches keep too little of its operands for the next call.
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
    """A race at one size and precision, with our rungs that take part.

    layouts: layouts of a and b for the last rung and cuBLAS; others use the first.
    """

    size: Size
    precision: str
    rungs: tuple[native.Rung, ...]
    layouts: tuple[str, ...] = ("nn",)
    rounds: int = 1000  # the maximum number of rounds
    cold: bool = False


def race_of(
    size: Size, kind: str, rungs: tuple[native.Rung, ...] = (), part: str = EVERY
) -> Race:
    """Make the race of a size and precision; part: EVERY, BEST, QUICK, ..."""
    # Races of cubes in the precisions of BETTER try every layout, and others only "nn",
    # unless `part` determines the layouts.
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
    """Return the races of a set or of sizes; empty arguments select the usual ones.

    Raises ArgumentError for an unknown name.
    """
    if name and name not in SETS:
        raise ArgumentError(f"--set {name}: expected one of {', '.join(SETS)}")
    for kind in precisions:
        if kind not in PRECISIONS:
            names = ", ".join(PRECISIONS)
            raise ArgumentError(f"--precisions {kind}: expected some of {names}")
    usable = _list_rungs(where, rungs)
    if not name or sizes:
        kinds = precisions or (PRECISIONS if where.type == "cuda" else ("fp32",))
        if rungs and not precisions:
            named = {rung.precision for rung in usable}
            kinds = [kind for kind in PRECISIONS if kind in named]
        plan = [(size, kinds, EVERY) for size in sizes or USUAL[where.type]]
    else:
        plan = SETS[name]
    races: dict[tuple, Race] = {}
    for text, kinds, part in plan:
        size = Size.of(text)
        for kind in (k for k in kinds if not precisions or k in precisions):
            runners = tuple(rung for rung in usable if rung.precision == kind)
            if part is not EVERY and not rungs:
                runners = runners[-1:]  # the last rung is the default
            # Precisions without any of the named rungs have no race.
            if runners or not rungs:
                race = race_of(size, kind, runners, part)
                key = size, kind, race.cold, "nn" in race.layouts
                races.setdefault(key, race)  # the first race has the most rungs
    return [*races.values()]


def _list_rungs(where: torch.device, names: Sequence[str]) -> list[native.Rung]:
    """Return the named rungs, or all for the device (on a CPU, those in plain C)."""
    lib = native.library("matmul", where.type)
    if names:
        return [lib.rung(name) for name in names]
    if where.type == "cpu":
        return [r for r in lib.rungs if r.targets == ("cpu",)]
    major, minor = torch.cuda.get_device_capability(where)
    sm = 10 * major + minor
    return [r for r in lib.rungs if "cuda" in r.targets and r.sm <= sm]


TIMER = {"cuda": "graph", "cpu": "wall"}
LONGEST = {"cuda": 0.5, "cpu": 2.5}  # time limit in seconds for one call
PROBE = {"cuda": "512", "cpu": "128"}  # the size at which a speed is first measured
SECONDS = {"cuda": 0.8, "cpu": 2.0}  # seconds of timing per contender and race
COOL_SECONDS = 5.0  # replaces SECONDS if pauses take most of the time
# A contender SLOW times slower than the fastest, with calls of SLOW_SECONDS or more, is
# timed only three times, since long calls vary less.
SLOW, SLOW_SECONDS, THRICE = 5, 8e-3, 3
COOL_FROM = 2.0 * 1000**3  # flops; smaller products do not heat the card
# Errors that exclude only the contender that raised them.
FAILURES = (Mismatch, KernelError, torch.OutOfMemoryError)
WRONG = "wrong"  # the key of a row whose kernel was not timed; its value is the reason


def _current_time() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class RaceOptions:
    """Options for every race."""

    device: torch.device
    timer: str = ""
    cold: bool = False
    numba: bool = False
    rounds: int = 25
    seconds: float = 0.0  # timing per contender; 0: the usual time
    sustain: float = 0.0  # seconds of a load without pauses, timed in addition; 0: none
    run: str = field(default_factory=_current_time)  # start of the run, in each row


@dataclass
class Speeds:
    """Each contender's last TFLOP/s, from which its next time is estimated."""

    tflops: dict[str, float] = field(default_factory=dict)

    def seconds(self, contender: Contender, size: Size) -> float | None:
        """Estimate the seconds of a call; None if no speed was measured."""
        speed = self.tflops.get(contender.name)
        return None if speed is None else size.flop / speed / 1e12


def race_rows(
    race: Race,
    options: RaceOptions,
    speeds: Speeds,
    others: Sequence[Contender] = (),
    operands: Operands | None = None,
) -> list[Row]:
    """Check all contenders of a race, then time them in turn; return a row for each."""
    where = options.device
    say(f"measuring {race.size}, {race.precision}")
    with precision(race.precision):
        kind, cold = race.precision, options.cold or race.cold
        operands = operands or Operands.random(race.size, kind, where, cold)
        ready, wrong = _select_ready(race, options, speeds, operands)
        for one in others:
            ready.append((one, operands.errors(one.run, one.row["precision"])))
        timed = _time_contenders(race, options, speeds, [one for one, _ in ready])
        results = [
            _make_row(c, race.size, where, timed[c.name], err) for c, err in ready
        ]
        if options.sustain:
            for (one, _), row in zip(ready, results):
                row |= _sustain(one, row, race.size, options)
    for row in (*results, *wrong):
        row |= {"race": race.precision, "run": options.run}
    beside_fastest(results)
    return [*results, *wrong]


def _time_contenders(
    plan: Race, options: RaceOptions, speeds: Speeds, contenders: Sequence[Contender]
) -> dict[str, Timed]:
    """Time all contenders in turn, but far slower ones alone and only three times."""
    where = options.device
    seconds = {one.name: speeds.seconds(one, plan.size) or 0.0 for one in contenders}
    limit = max(SLOW_SECONDS, SLOW * min(filter(None, seconds.values()), default=0.0))
    slow = [one for one in contenders if seconds[one.name] > limit]
    fast = [one for one in contenders if one not in slow]
    cool = plan.precision != "fp32" and plan.size.flop >= COOL_FROM
    cool = cool and where.type == "cuda"
    usual = COOL_SECONDS if cool else SECONDS[where.type]
    results = {}
    for group, rounds in ((fast, min(options.rounds, plan.rounds)), (slow, THRICE)):
        if group:
            results |= race(
                {one.name: one for one in group},
                *(str(where), options.timer or TIMER[where.type]),
                seconds=options.seconds or usual,
                samples=min(options.rounds, rounds),
                cool=cool,
            )
    return results


def _select_ready(
    race: Race, options: RaceOptions, speeds: Speeds, operands: Operands
) -> tuple[list[tuple[Contender, dict[str, float]]], list[Row]]:
    """Return the contenders to time, with their errors, and rows for wrong ones."""
    ready, wrong = [], []
    for one in _make_contenders(race, options, operands, wrong):
        run = one.run
        try:
            if _is_too_slow(one, race, options, speeds):
                continue
            is_checked = "out" not in one.facts
            errors = operands.errors(run, one.row["precision"]) if is_checked else {}
            ready.append((one, errors))
        except FAILURES as error:
            wrong.append(_make_wrong_row(one, race.size, options.device, error))
    return ready, wrong


def _make_contenders(
    race: Race, options: RaceOptions, operands: Operands, wrong: list[Row]
) -> Iterator[Contender]:
    """Yield every contender; a rung that fails its check becomes a row of `wrong`."""
    where = operands.device
    lib = native.library("matmul", where.type)
    for rung in race.rungs:
        for layout in race.layouts if rung is race.rungs[-1] else race.layouts[:1]:
            try:
                check.require(lib, rung)
                one = of_rung(lib, rung, operands, layout)
            except FAILURES as error:
                row = {"impl": "weft", "rung": rung.name, "precision": rung.precision}
                placeholder = Contender(row=row | {"layout": "nn"})
                wrong.append(_make_wrong_row(placeholder, race.size, where, error))
                break
            else:
                yield one
    single, usual = race.size.batch == 1, "nn" in race.layouts
    if where.type == "cuda" and single:  # batches race torch.bmm, which calls cuBLAS
        if usual:
            yield from of_triton(operands)
        if options.numba and race.precision == "fp32" and usual and not race.cold:
            yield from of_numba(operands)
        yield from of_cublas(operands, race.layouts)
    if not usual:  # the race with "nn" has the other opponents
        return
    if where.type == "cpu" and race.precision not in TYPES:
        yield of_numpy(operands)  # NumPy has no bf16, and sums fp16 in fp16
    yield of_torch(operands)


def _is_too_slow(
    one: Contender, race: Race, options: RaceOptions, speeds: Speeds
) -> bool:
    """Return whether one call would take too long; measure small sizes first."""
    where, longest = options.device, LONGEST[options.device.type]
    side = int(PROBE[where.type])
    seconds = speeds.seconds(one, race.size)
    while seconds is None or seconds > longest:
        # The launch may dominate a small product's time, so probe a larger one.
        probe = Size(side, side, side)
        if race.size.flop <= 8 * probe.flop or one.row["impl"] != "weft":
            break
        small = Operands.random(probe, race.precision, where, False)
        lib = native.library("matmul", where.type)
        small_one = of_rung(lib, lib.rung(one.row["rung"]), small, one.row["layout"])
        _note_speed(small_one, probe, where, speeds)
        if speeds.seconds(one, probe) > longest / 8:
            break
        seconds, side = speeds.seconds(one, race.size), 2 * side
    seconds = speeds.seconds(one, race.size)
    if seconds and seconds > longest:
        say(f"absent: {one.name} at {race.size}: a call takes {seconds:.1f} s")
        return True
    _note_speed(one, race.size, where, speeds)
    return False


def _note_speed(
    one: Contender, size: Size, where: torch.device, speeds: Speeds
) -> None:
    """Store the speed of the contender's fastest call among at most five.

    The first call is not timed, because it compiles Numba code and loads libraries.
    """
    if one.name not in speeds.tflops:
        one.run(0)
    times: list[float] = []
    while len(times) < 5 and sum(times) < 1e6 * LONGEST[where.type]:
        timing = time_call(lambda: one.run(0), str(where), 1, warmup=0)
        times.append(timing.median)
    speeds.tflops[one.name] = size.flop / min(times) / 1e6


def _make_row(
    one: Contender, size: Size, where: torch.device, timed: Timed, errors: Row
) -> Row:
    us, moved = timed.us, size.bytes(one.row["precision"])
    return {
        **_make_row_head(one, size, where),
        **{**timed.row(), "checked": bool(errors)},
        **{"tflops": size.flop / us / 1e6, "gbs": moved / us / 1e3},
        **{"bytes": moved, "error_rms": None, "error_max": None, **errors},
        "threads": torch.get_num_threads() if where.type == "cpu" else None,
        **{**one.facts, **stamp_row()},
    }


def _sustain(one: Contender, row: Row, size: Size, options: RaceOptions) -> Row:
    """Time a contender under a load without pauses; return the keys for its row."""
    say(f"{one.name}: a load of {options.sustain:g} s, twice")
    keys = time_sustained(one, row["us"], options.device, options.sustain)
    return keys | {"sustained_tflops": size.flop / keys["sustained_us"] / 1e6}


def _make_wrong_row(
    one: Contender, size: Size, where: torch.device, error: Exception
) -> Row:
    """Make the row of a kernel that was not timed, with the reason.

    Raises DeviceLost, which ends the run, if the kernel made the GPU unusable.
    """
    if isinstance(error, DeviceLost):
        raise error
    reason = str(error).splitlines()[0]
    say(f"absent: {one.name}: {reason}")
    empty = "us", "us_low", "us_high", "tflops", "gbs", "vs_cublas", "vs_torch"
    row = _make_row_head(one, size, where) | dict.fromkeys(empty)
    return row | {"timer": None, "cache": None, WRONG: reason, **stamp_row()}


def _make_row_head(one: Contender, size: Size, where: torch.device) -> Row:
    row = {"op": "matmul", **one.row, "target": where.type}
    row |= {"device": device_name(str(where)), "batch": size.batch}
    return row | {"m": size.m, "k": size.k, "n": size.n}
