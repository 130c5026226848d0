"""How long threads waited for a core, since others use the machine at the same time.

    wait = CoreWait(device)
    ...                     work that is timed
    wait.share()            0.38: a thread waited 38 % of its time for a core

Linux counts for each thread the nanoseconds in which it ran, and those in which it was
ready but others had the cores. Sleep counts as neither. Source:
/proc/self/task/THREAD/schedstat, https://docs.kernel.org/scheduler/sched-stats.html

Such times depend on the neighbours' work, so pictures show a sentence in their place.
WEFT_SHARED=draw in the environment draws them all the same.
"""

from __future__ import annotations

import functools
import os
import resource
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base import style as kit
from ..base.errors import ArgumentError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..toolchain.native import AnyDevice

TASKS = Path("/proc/self/task")
# Products of 512 x 512 on 2 cores of an H100's host, in spans of 0.3 s: a thread waited
# at most 0.1 % of its time on the idle machine, and 42 to 51 % beside two programs that
# never pause. On the host's 16 idle cores, with 16 threads, one span had 1.6 %.
SHARED = 0.1  # least share of the time
# Spans of 20 ms with 16 threads waited up to 12 ms, since Linux takes a while to give
# each thread a core. Such short waits are few turns of its scheduler, of 4 ms each, and
# hardly move a median.
LEAST = 20e-3  # least seconds
OPTION = "WEFT_SHARED"


class CoreWait:
    """The time that this process's threads wait for a core, from now on.

    device: where the timed work runs; on a GPU nothing is measured. pauses: whether
    there are pauses between samples.
    """

    def __init__(self, device: AnyDevice, pauses: bool = False) -> None:
        self._on_cpu, self._pauses = device.type == "cpu", pauses
        self._threads = read_threads() if self._on_cpu else {}
        self._clocks = _read_clocks()

    def share(self) -> float | None:
        """Return the wait as a share of the time in which the busiest thread ran or
        waited; 0 for less than LEAST seconds.

        The thread that waited longest counts, since a team waits for it. Where the
        kernel keeps no counts, a single thread's CPU time is compared with the clock.
        None: unknown, because of a GPU, other threads, pauses or sleep.
        """
        if not self._on_cpu:
            return None
        if not self._threads:
            return None if self._pauses else _compare_clocks(self._clocks)
        spans = [
            (ran - before[0], waited - before[1])
            for name, (ran, waited) in read_threads().items()
            for before in [self._threads.get(name, (0.0, 0.0))]
        ]
        longest = max(waited for _, waited in spans)
        return _find_share(longest, max(map(sum, spans)))


def read_threads(tasks: Path = TASKS) -> dict[str, tuple[float, float]]:
    """Return the seconds in which each thread ran and waited; {} if not counted."""
    counts = {}
    for task in tasks.glob("*/schedstat"):
        try:
            ran, waited, _ = map(int, task.read_text().split())
        except (OSError, ValueError):  # the thread has ended
            continue
        counts[task.parent.name] = 1e-9 * ran, 1e-9 * waited
    return counts


def is_drawn(share: float | None) -> bool:
    """Return whether pictures show times with this share of waiting.

    Raises ArgumentError if WEFT_SHARED is neither empty nor "draw".
    """
    option = os.environ.get(OPTION, "")
    if option not in ("", "draw"):
        raise ArgumentError(f"{OPTION} is {option!r}, expected draw or nothing")
    return option == "draw" or (share or 0.0) < SHARED


def describe_wait(share: float | None) -> str:
    """Return a sentence if others had the cores for too long; "" otherwise."""
    if share is None or share < SHARED:
        return ""
    drawn = "" if is_drawn(share) else ": times are not drawn"
    waited = f"a thread waited {100 * share:.0f} % of its time for a core"
    return f"this machine is shared{drawn} ({waited})"


def describe_rows(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return describe_wait() of the row that waited longest."""
    return describe_wait(_find_longest(rows))


def hide_times(axes: Any, rows: Iterable[Mapping[str, Any]]) -> bool:
    """Replace a picture by describe_rows() if its rows' times are not drawn.

    axes: one or several, drawn or not. rows: those of the picture. Returns whether it
    has replaced the picture.
    """
    longest = _find_longest(rows)
    if is_drawn(longest):
        return False
    panels = list(axes) if isinstance(axes, Iterable) else [axes]
    for panel in panels:
        panel.clear()
        panel.set_axis_off()
    sentence = describe_wait(longest).replace(" (", "\n(")
    kit.write_instead(panels[0], f"{sentence}.\n{HOW}")
    return True


def _find_longest(rows: Iterable[Mapping[str, Any]]) -> float:
    return max((row.get("waited") or 0.0 for row in rows), default=0.0)


HOW = "Measure again when the machine is idle,\nor set WEFT_SHARED=draw."


def guard_figure(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    """Decorate draw(rows, ...): its figure is a sentence if times are not drawn."""

    @functools.wraps(draw)
    def guarded(rows: Any, *args: Any, **options: Any) -> Figure:
        if is_drawn(_find_longest(rows)):
            return draw(rows, *args, **options)
        with kit.style():
            figure = kit.new_figure(620, 90)
            hide_times(figure.subplots(), rows)
        return figure

    return guarded


# ---- without the kernel's counts --------------------------------------------------


@dataclass(frozen=True)
class _Clocks:
    """Seconds of the clock, and of this thread's and this process's CPU time.

    sleeps: how often this thread has given up its core of its own accord.
    """

    wall: float
    thread: float
    process: float
    sleeps: int


def _read_clocks() -> _Clocks | None:
    """Return this moment's clocks, or None if the system lacks one of them."""
    if not hasattr(resource, "RUSAGE_THREAD"):
        return None
    # Not perf_counter(), whose readings the site replays.
    wall = time.clock_gettime(time.CLOCK_MONOTONIC)
    sleeps = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    return _Clocks(wall, time.thread_time(), time.process_time(), sleeps)


def _compare_clocks(begin: _Clocks | None) -> float | None:
    """Return the share of waiting of a single thread that did not sleep, or None."""
    now = _read_clocks()
    if begin is None or now is None or now.sleeps > begin.sleeps:
        return None
    wall, ran = now.wall - begin.wall, now.thread - begin.thread
    others = now.process - begin.process - ran
    return _find_share(wall - ran, wall) if others < 0.05 * wall else None


def _find_share(waited: float, whole: float) -> float:
    return waited / whole if waited >= LEAST else 0.0
