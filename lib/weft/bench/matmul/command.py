"""The matmul ladder beside cuBLAS and torch.mm: `python -m weft bench matmul`.

For each size and precision all contenders take turns, each checked against float64
first, and a rung that has not passed its check (checked.py) is not timed. Then the
table of goals. With tensor cores in the race each burst of 2 ms is followed by a pause
of 60 ms: back to back the card's power limit is measured, and noise. Products too
small for that go without.

--sizes 1024,5120x256x5120,64of256 (m x k x n; 64 products of 256 cubes), or --set
goals|ladder|odd|awkward|peaks|all; --rungs NAME,NAME; --precisions
fp32,3xtf32,tf32,bf16,fp16; --timer; --cold; --numba. A file at --json keeps the rows
that were not measured anew, if they are of this device: a run can be made in parts. On
a CPU the rungs in plain C race NumPy and torch, all with the same threads.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ... import bench, native
from ...guarded import Mismatch
from ...mnist.row import stamp
from ...mnist.twin import precision
from ...native import ArgumentError
from .. import checked, clocks, peaks, timers
from .calls import (
    LAYOUTS,
    PEER_LAYOUTS,
    TYPES,
    Entry,
    Operands,
    Product,
    Size,
    entry,
    of_cublas,
    of_numba,
    of_numpy,
    of_rung,
    of_torch,
)
from .goals import beside_fastest, goals
from .plan import PRECISIONS, SETS, Race, races

Row = dict[str, Any]

TITLE = "of matmul, besides --precisions (3xtf32 too) and --rounds"
SHOWN = ["impl", "rung", "precision", "layout", "batch", "m", "k", "n", "us", "us_low"]
SHOWN += ["us_high", "tflops", "gbs", "vs_cublas", "vs_torch", "error_rms", "error_max"]
SHOWN += ["cache", "spread", "clock_median", "throttled"]
KEY = ("op", "impl", "rung", "precision", "layout", "m", "k", "n", "target", "timer")
KEY += ("cache", "race", "batch")
TIMER = {"cuda": "graph", "cpu": "wall"}
LONGEST = {"cuda": 0.5, "cpu": 2.5}  # seconds of one call: slower ones are left out
PROBE = {"cuda": "512", "cpu": "128"}  # the size at which a speed is first seen
SECONDS = {"cuda": 0.8, "cpu": 0.6}  # that a contender is timed in one race
# Who takes longer than so many times the fastest, and so long, is timed thrice: the
# longer a call, the less it varies.
SLOW, SLOW_SECONDS, THRICE = 5, 8e-3, 3
COOL_FROM = 2.0 * 1000**3  # flop of a product: smaller ones do not heat the card
# Of one contender: the others race without it.
FAILURES = (Mismatch, native.KernelError, torch.OutOfMemoryError)
WRONG = "wrong"  # of a row: why its kernel was not timed


@dataclass(frozen=True)
class Options:
    """What is asked of every race."""

    device: torch.device
    timer: str = ""
    cold: bool = False
    numba: bool = False
    rounds: int = 25
    seconds: float = 0.0  # 0: as usual there


@dataclass
class Speeds:
    """TFLOP/s of each contender where it was seen last: who is too slow is left out."""

    seen: dict[str, float] = field(default_factory=dict)

    def seconds(self, one: Entry, size: Size) -> float | None:
        """How long a call will take, about; None if nothing is known."""
        speed = self.seen.get(one.name)
        return None if speed is None else size.flop / speed / 1e12


def add_arguments(parser: argparse._ArgumentGroup) -> None:
    """The options that only this benchmark has."""
    add = parser.add_argument
    add("--set", default="", help=f"of sizes: {', '.join(SETS)}")
    add("--timer", default="", help=f"of {', '.join(clocks.TIMERS)}")
    add("--cold", action="store_true", help="inputs that are in no cache")
    add("--numba", action="store_true", help="Numba's kernels too")


def rows_of(args: argparse.Namespace) -> list[Row]:
    """The rows for the options of the command line; --json is written part by part."""
    where = _device(args.device)
    if args.rounds < 1:
        raise ArgumentError(f"--rounds {args.rounds}: want at least 1")
    options = Options(where, args.timer, args.cold, args.numba, args.rounds)
    plan = races(
        *(where, args.set, _words(args.sizes), _words(args.rungs)),
        _words(args.precisions),
    )
    found: list[Row] = []
    if args.set in ("peaks", "all"):
        _say("peaks")
        found += peaks.peaks(args.device, again=True)
    speeds = Speeds()
    try:
        for race in plan:
            found += race_rows(race, options, speeds)
            beside_fastest(found)
            if args.json:
                bench.write_json(args.json, merged(args.json, found), args.device)
    except KeyboardInterrupt:
        if not found:
            raise
        _say("stopped: here is what was measured")
    if not found:
        raise ArgumentError("nothing could be measured")
    return found


def rows(
    device: str = "cpu",
    sizes: Sequence[str] = (),
    rungs: Sequence[str] = (),
    precisions: Sequence[str] = ("fp32",),
    **more: Any,
) -> list[Row]:
    """The rows of these sizes ("1024", "5120x256x5120"); more: fields of Options.

    rungs: () takes all that run on `device`, on a CPU those in plain C.
    """
    where, speeds = _device(device), Speeds()
    options = Options(where, **more)
    plan = races(where, "", sizes, rungs, precisions)
    return [row for race in plan for row in race_rows(race, options, speeds)]


def mine(
    call: Product,
    size: int | str = 1024,
    name: str = "mine",
    kind: str = "fp32",
    device: str | None = None,
    **more: Any,
) -> list[Row]:
    """The reader's own product beside cuBLAS and torch.mm: rows for the pictures.

    call(c, a, b) writes c (m,n) float32 = a (m,k) @ b (k,n), torch tensors. more: as
    of rows(). Raises Mismatch if it is wrong; it is not timed then.
    """
    where = _device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if kind not in PRECISIONS:
        raise ArgumentError(f"kind={kind!r}: want one of {', '.join(PRECISIONS)}")
    race, options = Race(Size.of(str(size)), kind, ()), Options(where, **more)
    operands = Operands.random(race.size, kind, where, options.cold)
    own = entry("mine", name, kind, operands, call)
    return race_rows(race, options, Speeds(), (own,), operands)


def merged(path: str | Path, rows: list[Row]) -> list[Row]:
    """`rows`, and before them those of the file at `path` that they do not replace.

    None of it if it was measured on another device, or by an older form of this.
    """
    if not Path(path).exists():
        return rows
    new, devices = {_key(row) for row in rows}, {row["device"] for row in rows}
    kept = [
        row
        for row in bench.read_json(path)["rows"]
        if (row["op"] == "peak" or "race" in row)
        and row["device"] in devices
        and _key(row) not in new
    ]
    return sorted([*kept, *rows], key=_place)


def note(rows: list[Row]) -> str:
    """What stands under the table: the goals, met or missed, and how it was timed."""
    lines = goals(rows)
    said = ["", bench.table(lines, [*lines[0]])] if lines else [""]
    first = next((row for row in rows if row["timer"]), rows[0])
    pause = max(row.get("pause_ms") or 0 for row in rows)
    said.append(
        f"{first['device']}; timer {first['timer']}; cache {first['cache']}; pauses of "
        f"up to {pause:.0f} ms between bursts; vs: the other's time over this one"
    )
    why = {row["throttled"] for row in rows if row.get("throttled")}
    said += [f"throttled: {', '.join(sorted(why))}"] * bool(why)
    return "\n".join(said)


def status(rows: list[Row]) -> int:
    """1 if a kernel was not timed since it is wrong."""
    return int(any(row.get(WRONG) for row in rows))


# ---- a race ----------------------------------------------------------------------


def race_rows(
    race: Race,
    options: Options,
    speeds: Speeds,
    others: Sequence[Entry] = (),
    operands: Operands | None = None,
) -> list[Row]:
    """Check, then time all contenders of a race in turn; a row for each."""
    where = options.device
    _say(f"{race.size}, {race.precision}")
    with precision(race.precision):
        operands = operands or Operands.random(
            race.size, race.precision, where, options.cold
        )
        there, wrong = _ready(race, options, speeds, operands)
        for one in others:
            there.append((one, operands.errors(one.contender.run, one.precision)))
        timed = _timed(race, options, speeds, [one for one, _ in there])
    made = [_row(one, race.size, where, timed[one.name], err) for one, err in there]
    for row in (*made, *wrong):
        row["race"] = race.precision
    beside_fastest(made)
    return [*made, *wrong]


def _timed(
    race: Race, options: Options, speeds: Speeds, there: Sequence[Entry]
) -> dict[str, timers.Timed]:
    """All of them in turn; those that are far slower than the others apart, thrice."""
    where = options.device
    seconds = {one.name: speeds.seconds(one, race.size) or 0.0 for one in there}
    limit = max(SLOW_SECONDS, SLOW * min(filter(None, seconds.values()), default=0.0))
    slow = [one for one in there if seconds[one.name] > limit]
    fast = [one for one in there if one not in slow]
    cool = race.precision != "fp32" and race.size.flop >= COOL_FROM
    found = {}
    for those, rounds in ((fast, min(options.rounds, race.rounds)), (slow, THRICE)):
        if those:
            found |= timers.side_by_side(
                {one.name: one.contender for one in those},
                *(str(where), options.timer or TIMER[where.type]),
                cold=options.cold,
                seconds=options.seconds or SECONDS[where.type],
                samples=min(options.rounds, rounds),
                cool=cool and where.type == "cuda",
            )
    return found


def _ready(
    race: Race, options: Options, speeds: Speeds, operands: Operands
) -> tuple[list[tuple[Entry, dict[str, float]]], list[Row]]:
    """Those that may be timed, with their errors; rows of those that are wrong."""
    there, wrong = [], []
    for one in _entries(race, options, operands, wrong):
        run = one.contender.run
        try:
            if _too_slow(one, race, options, speeds):
                continue
            err = {} if "out" in one.more else operands.errors(run, one.precision)
            there.append((one, err))
        except FAILURES as error:
            wrong.append(_wrong(one, race.size, options.device, error))
    return there, wrong


def _entries(
    race: Race, options: Options, operands: Operands, wrong: list[Row]
) -> Iterator[Entry]:
    """Every contender; a rung that fails its check becomes a row of `wrong`."""
    where = operands.device
    lib = native.library("matmul", where.type)
    layouts = LAYOUTS.get(race.precision, ("nn",)) if race.layouts else ("nn",)
    for rung in race.rungs:
        for layout in layouts if rung is race.rungs[-1] else ("nn",):
            try:
                checked.require(lib, rung)
                one = of_rung(lib, rung, operands, layout)
            except FAILURES as error:
                none = Entry("weft", rung.name, rung.precision, clocks.Contender(print))
                wrong.append(_wrong(none, race.size, where, error))
                break
            else:
                yield one
    single = race.size.batch == 1
    if options.numba and race.precision == "fp32" and where.type == "cuda" and single:
        yield from of_numba(operands)
    if where.type == "cuda":
        if single:  # batches race torch.bmm, which is cuBLAS's
            kinds = PEER_LAYOUTS.get(race.precision, ("nn",))
            yield from of_cublas(operands, kinds if race.layouts else ("nn",))
    elif race.precision not in TYPES:  # NumPy has no bf16, and adds fp16 in fp16
        yield of_numpy(operands)
    yield of_torch(operands)


def _too_slow(one: Entry, race: Race, options: Options, speeds: Speeds) -> bool:
    """Whether one call would take too long; seen at small sizes first."""
    where, longest = options.device, LONGEST[options.device.type]
    side = int(PROBE[where.type])
    seconds = speeds.seconds(one, race.size)
    while seconds is None or seconds > longest:
        # A small product may have taken long to begin: a larger one tells more.
        probe = Size(side, side, side)
        if race.size.flop <= 8 * probe.flop or one.impl != "weft":
            break
        small = Operands.random(probe, race.precision, where, False)
        lib = native.library("matmul", where.type)
        small_one = of_rung(lib, lib.rung(one.rung), small, one.layout)
        _see(small_one, probe, where, speeds)
        if speeds.seconds(one, probe) > longest / 8:
            break
        seconds, side = speeds.seconds(one, race.size), 2 * side
    seconds = speeds.seconds(one, race.size)
    if seconds and seconds > longest:
        _say(f"{one.name}: left out at {race.size}, would take about {seconds:.1f} s")
        return True
    _see(one, race.size, where, speeds)
    return False


def _see(one: Entry, size: Size, where: torch.device, speeds: Speeds) -> None:
    """Note how fast its fastest call is, of five at most."""
    times: list[float] = []
    while len(times) < 5 and sum(times) < 1e6 * LONGEST[where.type]:
        timing = bench.time_call(lambda: one.contender.run(0), str(where), 1, warmup=0)
        times.append(timing.median)
    speeds.seen[one.name] = size.flop / min(times) / 1e6


def _row(
    one: Entry,
    size: Size,
    where: torch.device,
    timed: timers.Timed,
    errors: dict[str, float],
) -> Row:
    us, moved = timed.us, size.bytes(one.precision)
    return {
        **_head(one, size, where),
        **timed.row(),
        **{"tflops": size.flop / us / 1e6, "gbs": moved / us / 1e3},
        **{"bytes": moved, "error_rms": None, "error_max": None, **errors},
        "threads": torch.get_num_threads() if where.type == "cpu" else None,
        **one.more,
        **stamp(),
    }


def _wrong(one: Entry, size: Size, where: torch.device, error: Exception) -> Row:
    """The row of a kernel that was not timed: it says why.

    A kernel that took the GPU with it ends the run.
    """
    if isinstance(error, native.DeviceLost):
        raise error
    told = str(error).splitlines()[0]
    _say(f"{one.name}: {told}")
    none = dict.fromkeys(
        ("us", "us_low", "us_high", "tflops", "gbs", "vs_cublas", "vs_torch")
    )
    row = _head(one, size, where) | none
    return row | {"timer": None, "cache": None, WRONG: told, **stamp()}


def _head(one: Entry, size: Size, where: torch.device) -> Row:
    return {
        **{"op": "matmul", "impl": one.impl, "rung": one.rung},
        **{"precision": one.precision, "layout": one.layout, "target": where.type},
        **{"device": bench.device_name(str(where))},
        **{"batch": size.batch, "m": size.m, "k": size.k, "n": size.n},
    }


# ---- details ---------------------------------------------------------------------


def _device(name: str) -> torch.device:
    where = torch.device(name)
    if where.type == "cuda" and where.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return where


def _key(row: Row) -> tuple:
    return tuple(
        row.get(name) for name in KEY if row["op"] != "peak" or name != "batch"
    )


def _place(row: Row) -> tuple:
    """Where a row stands in the file: peaks, then by size, then by precision."""
    work = math.prod(row.get(name) or 0 for name in ("batch", "m", "k", "n"))
    return row["op"] != "peak", work, PRECISIONS.index(row["precision"])


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _say(line: str) -> None:
    print(f"weft: {line}", file=sys.stderr, flush=True)
