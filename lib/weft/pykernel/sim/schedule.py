"""The schedule of a block's threads, and the watchdog that ends a late launch.

A kernel that never waits is called once per thread. If a kernel waits, each thread is a
generator. A turn lasts until the next yield, whose value describes the wait.

Stop ends a thread at a fault. The watchdog stops a launch that runs for too long.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import operator
import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable
from types import FrameType
from typing import TYPE_CHECKING, Any

from .layout import AccessPlace
from .rewrite_calls import BARRIERS
from .warp import FULL, WARP, exchange_values, shuffle_sources, write_lanes

if TYPE_CHECKING:
    from .launch import SimulatedLaunch


Threads = Iterable[tuple[int, int, int, int]]  # x, y, z and the linear number
Turns = Generator[Any, Any, None]
UNUSABLE = TypeError, ValueError, OverflowError, RuntimeError
IDLE = 30_000  # number of turns without change after which a loop is called endless


def run_plain(
    launch: SimulatedLaunch, block: int, body: Callable, args: tuple, order: Threads
) -> None:
    """Run a block whose threads never wait."""
    if launch.log is None:
        for x, y, z, number in order:
            body(x, y, z, number, *args)
        return
    entries = launch.log.entries
    start, turn = launch.log.starts.append, launch.log.threads.append
    for x, y, z, number in order:
        start(len(entries))
        turn(number)
        body(x, y, z, number, *args)
    launch.end_interval(block, 0, False)


def run_barriers(
    launch: SimulatedLaunch, block: int, body: Callable, args: tuple, order: Threads
) -> None:
    """Run a block whose threads wait only at syncthreads()."""
    live: list[Any] = [
        (number, body(x, y, z, number, *args)) for x, y, z, number in order
    ]
    if launch.log is None:
        turns = [one for _, one in live]
        while turns:
            turns = [one for one in turns if next(one, None) is not None]
        return
    entries = launch.log.entries
    start, turn = launch.log.starts.append, launch.log.threads.append
    interval = 0
    while live:
        waiting, places = [], []
        for pair in live:
            number, one = pair
            start(len(entries))
            turn(number)
            place = next(one, None)
            if place is not None:
                waiting.append(pair)
                places.append(place)
        launch.end_interval(block, interval, False, places[0] if places else -1)
        interval += 1
        same = places.count(places[0]) == len(places) if places else True
        # If all threads wait at one place, the barrier has no fault to report.
        if not same or launch.at_end or launch.left:
            at = {number: place for (number, _), place in zip(waiting, places)}
            launch.opens(block, at)
        live = waiting


def run_block(
    launch: SimulatedLaunch, block: int, body: Callable, args: tuple, order: Threads
) -> None:
    """Run a block whose threads may wait in any way."""
    Block(launch, block, body, args, order).run()


class Block:
    """The threads of a block, with the call at which each thread waits."""

    def __init__(
        self,
        launch: SimulatedLaunch,
        block: int,
        body: Callable,
        args: tuple,
        order: Threads,
    ) -> None:
        self.launch, self.block = launch, block
        self.turns: dict[int, Turns] = {
            number: body(x, y, z, number, *args) for x, y, z, number in order
        }
        self.every = list(self.turns)
        self.rank = {number: rank for rank, number in enumerate(self.every)}
        self.live = set(self.every)
        self.at_barrier: dict[int, tuple] = {}
        self.at_warp: dict[int, tuple] = {}
        self.spinning: dict[int, tuple] = {}
        self.phase = dict.fromkeys(self.every, 0)
        self.interval = self.idle = 0

    def run(self) -> None:
        """Run all threads to their end; raise Stop if they cannot reach it."""
        ready: list[tuple[int, Any]] = [(number, None) for number in self.every]
        by_rank: Callable[[tuple[int, Any]], int] = operator.itemgetter(0)
        if any(rank != number for number, rank in self.rank.items()):
            by_rank = lambda pair: self.rank[pair[0]]  # noqa: E731
        while self.live:
            before = len(self.live), len(self.at_barrier), len(self.at_warp)
            self.spinning.clear()
            self.take_turns(ready)
            released = self.meet()
            if not released and not self.spinning and self.live:
                released = self.all_wait()
            same = before == (len(self.live), len(self.at_barrier), len(self.at_warp))
            self.spin(bool(released) or not same)
            ready = [*released, *[(number, None) for number in self.spinning]]
            ready.sort(key=by_rank)
        self.launch.end_interval(self.block, self.interval, True)

    def take_turns(self, ready: list[tuple[int, Any]]) -> None:
        """Run each thread until it waits again or ends."""
        log, phase = self.launch.log, self.phase
        turns, at_warp = self.turns, self.at_warp
        if log is not None:
            entries, start = log.entries, log.starts.append
            log_thread, log_phase = log.threads.append, log.phases.append
        for number, value in ready:
            if log is not None:
                start(len(entries))
                log_thread(number)
                log_phase(phase[number])
            try:
                wait = turns[number].send(value)
            except StopIteration:
                self.live.discard(number)
                continue
            if type(wait) is int:
                self.at_barrier[number] = ("syncthreads", wait, None)
            elif wait[0] in BARRIERS:
                self.at_barrier[number] = wait
            elif wait[0] == "spin":
                self.spinning[number] = wait
            else:
                all_lanes = type(wait[2]) is int and wait[2] == FULL
                at_warp[number] = wait if all_lanes else self.named(number, wait)

    def named(self, number: int, wait: tuple) -> tuple:
        """Convert a wait's mask to an int; raise Stop if it lacks the thread's lane."""
        operation, place, mask, value, argument = wait
        if operation == "activemask":
            return wait
        try:
            mask = int(mask) & FULL
        except UNUSABLE as error:
            raise self.unusable(number, wait, error) from None
        if not mask >> (number % WARP) & 1:
            raise Stop(
                "deadlock",
                f"calls cuda.{operation} with the mask 0x{mask:08x}, in which its own "
                f"lane {number % WARP} is not named",
                self.launch.places[place],
            ).of(number)
        return operation, place, mask, value, argument

    # ---- warps ----

    def meet(self) -> list[tuple[int, Any]]:
        """Release lanes whose partners have arrived; return (thread, value) pairs."""
        groups: dict[tuple, list[int]] = {}
        for number, wait in self.at_warp.items():
            if wait[0] != "activemask":
                key = number // WARP, wait[0], wait[2]
                groups.setdefault(key, []).append(number)
        released: list[tuple[int, Any]] = []
        for (warp, _, mask), numbers in groups.items():
            if len(numbers) < WARP:
                present = {n for n in self.named_by(warp, mask) if n in self.live}
                if present != set(numbers):
                    continue
            released += self.exchanged(numbers)
        return released

    def named_by(self, warp: int, mask: int) -> list[int]:
        """Return the threads that a mask names."""
        return [warp * WARP + lane for lane in range(WARP) if mask >> lane & 1]

    def exchanged(self, numbers: list[int]) -> list[tuple[int, Any]]:
        """Release these lanes, each with its result of the exchange."""
        waits = {n: self.at_warp.pop(n) for n in sorted(numbers)}
        operation = next(iter(waits.values()))[0]
        if operation != "activemask":
            for number in numbers:
                self.phase[number] += 1
        values = {n % WARP: wait[3] for n, wait in waits.items()}
        arguments = {n % WARP: wait[4] for n, wait in waits.items()}
        try:
            result = exchange_values(operation, values, arguments)
        except UNUSABLE as error:
            first, wait = next(iter(waits.items()))
            raise self.unusable(first, wait, error) from None
        if len(waits) < WARP and operation != "activemask":
            sources = shuffle_sources(operation, arguments)
            self.launch.meet(self.block, waits, sources, len(self.every))
        return [(n, result[n % WARP]) for n in waits]

    # ---- no thread can continue ----

    def all_wait(self) -> list[tuple[int, Any]]:
        """Release threads when none can continue; raise Stop if that is impossible."""
        active = [n for n, wait in self.at_warp.items() if wait[0] == "activemask"]
        if active:
            # activemask returns the lanes of a warp that have reached the same place.
            places = {n: (n // WARP, self.at_warp[n][1]) for n in active}
            return self.exchanged([n for n in active if places[n] == places[active[0]]])
        if self.at_warp:
            raise self.deadlock()
        return self.open()

    def open(self) -> list[tuple[int, Any]]:
        """Open the barrier for all live threads; return (thread, value) pairs."""
        waits, self.at_barrier = self.at_barrier, {}
        at = {number: wait[1] for number, wait in waits.items()}
        first = next(iter(at.values()))
        self.launch.end_interval(self.block, self.interval, True, first)
        self.interval += 1
        self.phase = dict.fromkeys(self.every, 0)
        self.launch.opens(self.block, at)
        truths = []
        for number, wait in waits.items():
            try:
                truths.append(wait[0] in BARRIERS and bool(wait[2]))
            except UNUSABLE as error:
                raise self.unusable(number, wait, error) from None
        results = {
            "syncthreads": None,
            "syncthreads_count": sum(truths),
            "syncthreads_and": int(all(truths)),
            "syncthreads_or": int(any(truths)),
        }
        return [(number, results[wait[0]]) for number, wait in waits.items()]

    def unusable(self, number: int, wait: tuple, error: Exception) -> Stop:
        """Return the Stop for a thread whose argument is not a usable number."""
        text = f"calls cuda.{wait[0]} with an unusable argument: {error}"
        return Stop("exception", text, self.launch.places[wait[1]]).of(number)

    def deadlock(self) -> Stop:
        """Return the Stop that names a waiting thread and lanes that never arrive."""
        first = min(self.at_warp, key=lambda n: self.rank[n])
        operation, place, mask, *_ = self.at_warp[first]
        needed = [n for n in self.named_by(first // WARP, mask) if n in self.live]
        here = [n for n, w in self.at_warp.items() if (w[0], w[2]) == (operation, mask)]
        missing = [n for n in needed if n not in here]
        other = missing[0]
        where = self.at_warp.get(other) or self.at_barrier[other]
        other_mask = where[2] if other in self.at_warp else None
        with_mask = f" with the mask 0x{other_mask:08x}" if other_mask else ""
        return Stop(
            "deadlock",
            f"waits at cuda.{operation} with the mask 0x{mask:08x} for "
            f"{write_lanes(n % WARP for n in missing)} of its warp, which never "
            f"{'come' if len(missing) > 1 else 'comes'}: lane {other % WARP} waits at "
            f"cuda.{where[0]}{with_mask} in line {self.launch.places[where[1]].line}",
            self.launch.places[place],
        ).of(first)

    def spin(self, progress: bool) -> None:
        """Count the rounds without change; raise Stop if there are too many."""
        if progress or not self.spinning:
            self.idle = 0
            return
        self.idle += 1
        if self.idle < max(100, IDLE // len(self.spinning)):
            return
        number, (_, place, turns) = next(iter(self.spinning.items()))
        text = (
            f"has gone round its loop {turns} times: it waits for a change that no "
            f"thread makes"
        )
        if self.at_barrier:
            wait = next(iter(self.at_barrier.values()))
            line, count = self.launch.places[wait[1]].line, len(self.at_barrier)
            text += f" ({count} threads wait at the barrier of line {line})"
        if self.launch.blocks > 1:
            text += (
                "; in the simulator, blocks run one after another, so the change must "
                "come from its own block or an earlier one"
            )
        raise Stop("hang", text, self.launch.places[place]).of(number)


# ---- faults and late launches --------------------------------------------------------


class Stop(Exception):
    """Raised to end a thread.

    kind, text: the finding's kind, as in report/cures.py, and its message.
    place: place of the access, if known.
    array, index: the element that the thread was about to access.
    """

    def __init__(
        self,
        kind: str,
        text: str,
        place: AccessPlace | None = None,
        array: str | None = None,
        index: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__(text)
        self.kind, self.text, self.place = kind, text, place
        self.array, self.index = array, index
        # The thread's linear number; None if a frame of the traceback contains it.
        self.thread: int | None = None

    def of(self, thread: int) -> Stop:
        """Attribute the stop to a thread that is not running, and return the stop."""
        self.thread = thread
        return self


_DEBUGGERS = ("pdb.py", "bdb.py", "cmd.py", "debugger.py", "pydevd.py")
# This is a separate object, because ctypes.pythonapi's argtypes are process-wide.
_PROTOTYPE = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.py_object)
_raise = _PROTOTYPE(("PyThreadState_SetAsyncExc", ctypes.pythonapi))
# Seconds until the next attempt. In a weak reference's callback and in __del__, an
# attempt has no effect, since Python only prints exceptions there.
AGAIN = 5.0


class TooLong(Stop):
    """Raised by the watcher in the thread of a late launch."""

    def __init__(self) -> None:
        super().__init__("hang", "")


class Watchdog:
    """A context manager that limits the time of each block; begin() starts a block."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.began = time.monotonic()
        self._ident = threading.get_ident()
        self._over = False
        self._fired = 0
        self._lock = threading.Lock()

    def __enter__(self) -> Watchdog:
        self._launch: FrameType | None = sys._getframe(1)
        _watcher.add(self)
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        with self._lock:
            self._over = True
        _watcher.watches.discard(self)
        self._launch = None
        if self._fired > (kind is TooLong):
            # A TooLong may be pending, and then arrives during these sleeps. Cancelling
            # it would make the interpreter check for it in every turn of each loop.
            with contextlib.suppress(TooLong):
                for _ in range(50):
                    time.sleep(0.001)

    @property
    def due(self) -> float:
        """The time at which the running block exceeds its limit."""
        return self.began + self.seconds

    def begin(self) -> None:
        """Restart the clock when a block begins."""
        self.began = time.monotonic()

    def end_late_launch(self) -> bool:
        """End the launch if it is late; return False if it is already over."""
        if self.due > time.monotonic():
            return True
        with self._lock:
            if self._over:
                return False
            delay = self.seconds
            inside, debugged = self._inspect_thread()
            if not inside:  # TooLong was raised in __exit__(), and had no effect
                self._launch = None
                return False
            if not debugged:
                self._fired += 1
                _raise(self._ident, TooLong)
                delay = AGAIN
            self.began = time.monotonic() + delay - self.seconds
            return True

    def _inspect_thread(self) -> tuple[bool, bool]:
        """Return whether the thread is in the launch, and whether a debugger runs."""
        inside = debugged = False
        frame: FrameType | None = sys._current_frames().get(self._ident)
        while frame is not None:
            inside |= frame is self._launch
            debugged |= frame.f_code.co_filename.endswith(_DEBUGGERS)
            frame = frame.f_back
        return inside, debugged


class _Watcher:
    """The thread that ends late launches.

    All launches share it, because starting a thread takes longer than a small launch.
    It sleeps until the earliest launch is due, so most launches begin and end without
    waking it.
    """

    def __init__(self) -> None:
        self.watches: set[Watchdog] = set()
        # The time at which the thread wakes; infinity if only a launch wakes it.
        self.alarm = math.inf
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, watch: Watchdog) -> None:
        """Watch a launch until it ends."""
        self.watches.add(watch)
        if self._thread is None or not self._thread.is_alive():
            with self._lock:
                if self._thread is None or not self._thread.is_alive():
                    self._thread = threading.Thread(target=self._run, daemon=True)
                    self._thread.start()
        if watch.due < self.alarm:
            self._wake.set()

    def _run(self) -> None:
        while True:
            self.alarm = math.inf
            self._wake.clear()
            for watch in list(self.watches):
                if not watch.end_late_launch():
                    self.watches.discard(watch)
            due = min((watch.due for watch in list(self.watches)), default=math.inf)
            self.alarm = due
            remaining = due - time.monotonic()
            self._wake.wait(None if remaining == math.inf else max(remaining, 0))


def _start_anew() -> None:
    """Replace the watcher in a forked child, which has only the forking thread."""
    global _watcher
    _watcher = _Watcher()


_watcher = _Watcher()
os.register_at_fork(after_in_child=_start_anew)
