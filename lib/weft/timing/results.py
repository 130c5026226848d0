"""The JSON format of all the lab's measurements, and tables of them.

    {"machine": {device, cpu, cores, driver, toolkit, torch, date, commit},
     "rows": [{op, impl, rung, precision, target, device, timer, us, us_low,
               us_high, us_mean, ...}]}

us is the median over samples; us_low and us_high are the 20th and 80th percentiles.
waited is the share of the time in which a thread waited for a core (CPU; see CoreWait).
vs_<peer> is the peer's time divided by ours in the same run; above 1, ours is faster.
Values that cannot be measured are null.

Other programs may use the machine at the same time. CoreWait measures the time for
which threads waited for a core.

    wait = CoreWait(device)
    ...                     work that is timed
    wait.share()            0.38: a thread waited 38 % of its time for a core

For each thread, Linux counts the nanoseconds in which it ran, and those in which it was
ready but other threads had the cores. Sleep counts as neither. Source:
/proc/self/task/THREAD/schedstat, https://docs.kernel.org/scheduler/sched-stats.html

Such times depend on other programs, so pictures show a sentence instead of the times.
If WEFT_SHARED=draw is set in the environment, the times are drawn anyway.
"""

from __future__ import annotations

import datetime
import functools
import json
import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import device as devices
from ..base import store
from ..base import style as kit
from ..base.device import count_cores, cpu_name, driver_version
from ..base.errors import ArgumentError
from ..base.paths import ROOT
from ..toolchain.tools import toolkit_version

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..toolchain.native import AnyDevice


Row = dict[str, Any]  # one of the "rows" above
ResultFile = dict[str, Any]  # the result of read_json(): "machine" and "rows"

BAND = (20, 80)  # the percentiles of us_low and us_high
STATISTIC = f"median, band {BAND[0]}th to {BAND[1]}th percentile"


@dataclass(frozen=True)
class Timing:
    """The time of one call in microseconds, the timer and the number of samples.

    waited: the share of the time in which a thread waited for a core; see CoreWait.
    """

    median: float
    low: float
    high: float
    mean: float
    timer: str
    samples: int
    waited: float | None = None

    def __str__(self) -> str:
        """Format the fields; add a sentence on long waits for a core."""
        return "; ".join(filter(None, [repr(self), describe_wait(self.waited)]))

    def scaled(self, factor: float) -> Timing:
        """Return the timing of `factor` times the work."""
        names = ("median", "low", "high", "mean")
        return replace(self, **{name: getattr(self, name) * factor for name in names})

    def row(self) -> dict[str, Any]:
        """Return the keys of a row of results."""
        return {
            **{"timer": self.timer, "us": self.median},
            **{"us_low": self.low, "us_high": self.high, "us_mean": self.mean},
            **({} if self.waited is None else {"waited": self.waited}),
        }


def summarize(
    samples: Iterable[float], timer: str, waited: float | None = None
) -> Timing:
    """Return the Timing of samples in microseconds; raise ValueError without any."""
    values = np.asarray(list(samples), dtype=float)
    if not values.size:
        raise ValueError("no samples to summarize")
    low, high = np.percentile(values, BAND)
    numbers = map(float, (np.median(values), low, high, values.mean()))
    return Timing(*numbers, timer, values.size, waited)


def device_name(device: AnyDevice | str = "cpu") -> str:
    """Return the full name of the GPU, or of the CPU."""
    device = devices.parse_device(device)
    return devices.name(device.index) if device.type == "cuda" else cpu_name()


def machine(device: AnyDevice | str = "cpu") -> dict[str, Any]:
    """Return the value of "machine" in a JSON file; missing values are null."""
    import torch

    return {
        "device": device_name(device),
        "cpu": cpu_name(),
        "cores": count_cores(),
        "driver": _none_if_unknown(driver_version()),
        "toolkit": _none_if_unknown(toolkit_version()),
        "torch": torch.__version__,
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
    }


def commit() -> str | None:
    """Return the checkout's commit, with "+" if files differ; None outside git.

    WEFT_COMMIT overrides the commit, for measurements of a copy without git.
    """
    if name := os.environ.get("WEFT_COMMIT"):
        return name
    try:
        process = subprocess.run(
            ["git", "describe", "--always", "--exclude=*", "--dirty=+"],
            **{"cwd": ROOT, "text": True, "capture_output": True},
        )
    except OSError:
        return None
    return process.stdout.strip() or None


def write_json(
    path: str | Path,
    rows: list[dict[str, Any]],
    device: AnyDevice | str = "cpu",
    **more: Any,
) -> None:
    """Write the machine, the rows and `more` to `path`, completely or not at all."""
    path = Path(path)
    contents = {"machine": machine(device), "rows": rows, **more}
    text = json.dumps(contents, default=_convert_plain)
    with store.replace_file(path) as part:
        part.write_text(_one_row_per_line(json.loads(text)))
        os.chmod(part, 0o644)


def read_json(path: str | Path) -> dict[str, Any]:
    """Read a file from write_json(); raise ValueError, with the path, if invalid."""
    try:
        results = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} contains no results: {error}") from None
    if not isinstance(results, dict) or not {"machine", "rows"} <= results.keys():
        raise ValueError(f"{path} contains no results: no 'machine' or no 'rows'")
    return results


def merge_rows(
    path: str | Path,
    rows: list[Row],
    key: Callable[[Row], Any],
    place: Callable[[Row], Any],
) -> list[Row]:
    """Return the rows of the file at `path` that `rows` do not replace, then `rows`.

    key: returns the values that identify a row; place: returns a row's sort key. The
    file's rows of other devices are dropped.
    """
    if not Path(path).exists():
        return rows
    new_keys, devices = {key(row) for row in rows}, {row["device"] for row in rows}
    remaining = [r for r in read_json(path)["rows"] if r["device"] in devices]
    remaining = [row for row in remaining if key(row) not in new_keys]
    return sorted([*remaining, *rows], key=place)


def table(rows: list[dict[str, Any]], columns: list[str]) -> str:
    """Format the rows' columns as aligned text; a missing value is a dash."""
    cells = [[_write_cell(row.get(column)) for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells)]
    words = [all(isinstance(r.get(c), str | None) for r in rows) for c in columns]
    lines = []
    for line in [columns, *cells]:
        # Words are aligned to the left, numbers to the right.
        aligned = [
            cell.ljust(width) if word else cell.rjust(width)
            for cell, width, word in zip(line, widths, words)
        ]
        lines.append("  ".join(aligned).rstrip())
    return "\n".join(lines)


def _none_if_unknown(text: str) -> str | None:
    return None if text == "none" else text


def _convert_plain(value: Any) -> Any:
    """Convert NumPy's numbers and arrays to JSON types."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"JSON has no type for {type(value).__name__}")


def _one_row_per_line(results: dict[str, Any]) -> str:
    """Return JSON with one line per row and short numbers, for readable diffs."""
    results = _round_numbers(results)
    parts = []
    for key, value in results.items():
        if key == "rows":
            rows = ",\n  ".join(json.dumps(row) for row in value)
            parts.append(f'"rows": [\n  {rows}\n ]')
        else:
            parts.append(f"{json.dumps(key)}: {json.dumps(value)}")
    return "{" + ",\n ".join(parts) + "}\n"


def _round_numbers(value: Any) -> Any:
    if isinstance(value, float):
        # JSON supports neither NaN nor infinity.
        return float(f"{value:.6g}") if np.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _round_numbers(inner) for key, inner in value.items()}
    is_list = isinstance(value, list)
    return [_round_numbers(inner) for inner in value] if is_list else value


def _write_cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
    return str(value)


def add_torch_ratios(rows: Sequence[dict[str, Any]]) -> None:
    """Add vs_torch_eager and vs_torch_best to rows of a race.

    A peer is a row of PyTorch with the same precision and batch size. Without a peer,
    the values are null.
    """
    all_peers = [row for row in rows if row["impl"] == "torch"]
    for row in rows:
        race = row.get("precision"), row.get("batch")
        peers = [p for p in all_peers if (p.get("precision"), p.get("batch")) == race]
        eager = [p for p in peers if p["rung"].partition("+")[0] == "eager"]
        for key, candidates in (("vs_torch_eager", eager), ("vs_torch_best", peers)):
            times = [peer["us"] for peer in candidates]
            ours = row["impl"] != "torch" and times
            row[key] = min(times) / row["us"] if ours else None


def label_row(row: dict[str, Any]) -> str:
    """Return the label of a row in charts: "weft reference", "eager channels-last"."""
    if row["impl"] != "torch":
        return f"weft {row['rung']}"
    layout = row.get("layout") or ""
    name = f"{row['rung']} {'NCHW' if layout == 'nchw' else layout.replace('_', '-')}"
    precision = row.get("precision", "fp32")
    return name if precision == "fp32" else f"{name}, {precision}"


def stamp_row() -> dict[str, Any]:
    """Return the date and commit for a row; a file may have rows of several runs."""
    date = datetime.date.today().isoformat()
    return {"date": date, "commit": commit()}


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type if it has none."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


# ---- shared processors ---------------------------------------------------------------


TASKS = Path("/proc/self/task")
# Measured in spans of 0.3 s, with products of 512 x 512 on 2 cores of an H100's host:
# a thread waited at most 0.1 % of its time on the idle machine, and 42 to 51 % next to
# two programs that never paused. With 16 threads on 16 idle cores, one span had 1.6 %.
SHARED = 0.1  # minimum share of waiting at which times are not drawn
# In spans of 20 ms, 16 threads waited up to 12 ms, since Linux takes a while to give
# each thread a core. Such a wait lasts only a few of the scheduler's 4 ms turns,
# and hardly changes a median.
LEAST = 20e-3  # waits of fewer seconds count as 0
OPTION = "WEFT_SHARED"


class CoreWait:
    """The time that this process's threads wait for a core, after CoreWait() is called.

    device: the device of the timed work; on a GPU, nothing is measured. pauses: whether
    there are pauses between samples.
    """

    def __init__(self, device: AnyDevice, pauses: bool = False) -> None:
        self._on_cpu, self._pauses = device.type == "cpu", pauses
        self._threads = read_threads() if self._on_cpu else {}
        self._clocks = _read_clocks()

    def share(self) -> float | None:
        """Return the longest wait of a thread as a share of the longest time in which a
        thread ran or waited; 0 for a wait of less than LEAST seconds.

        The longest wait counts, since a team waits for its last thread. If Linux keeps
        no counts, a single thread's CPU time is compared with the clock.
        Returns None if a GPU, other threads, pauses or sleep make the share unknown.
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
    """Return a sentence if a thread waited too long for a core; "" otherwise."""
    if share is None or share < SHARED:
        return ""
    drawn = "" if is_drawn(share) else ": times are not drawn"
    waited = f"a thread waited {100 * share:.0f} % of its time for a core"
    return f"this machine is shared{drawn} ({waited})"


def describe_rows(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return describe_wait() for the row with the longest wait."""
    return describe_wait(_find_longest(rows))


def hide_times(axes: Any, rows: Iterable[Mapping[str, Any]]) -> bool:
    """Replace a picture with describe_rows() if its rows' times are not drawn.

    axes: one or several, drawn or not. rows: the rows of the picture. Returns whether
    the picture was replaced.
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
    """Decorate draw(rows, ...): a sentence replaces a figure whose times are hidden."""

    @functools.wraps(draw)
    def guarded(rows: Any, *args: Any, **options: Any) -> Figure:
        if is_drawn(_find_longest(rows)):
            return draw(rows, *args, **options)
        with kit.style():
            figure = kit.new_figure(620, 90)
            hide_times(figure.subplots(), rows)
        return figure

    return guarded


# ---- without Linux's counts -------------------------------------------------------


@dataclass(frozen=True)
class _Clocks:
    """Seconds of the clock, and of this thread's and this process's CPU time.

    sleeps: the number of times that this thread has given up its core voluntarily.
    """

    wall: float
    thread: float
    process: float
    sleeps: int


def _read_clocks() -> _Clocks | None:
    """Return this moment's clocks, or None if the system lacks one of them."""
    if not hasattr(resource, "RUSAGE_THREAD"):
        return None
    # The site replays the readings of perf_counter(), so that clock is unsuitable.
    wall = time.clock_gettime(time.CLOCK_MONOTONIC)
    sleeps = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    return _Clocks(wall, time.thread_time(), time.process_time(), sleeps)


def _compare_clocks(begin: _Clocks | None) -> float | None:
    """Return the share of waiting for a single thread that did not sleep, or None."""
    now = _read_clocks()
    if begin is None or now is None or now.sleeps > begin.sleeps:
        return None
    wall, ran = now.wall - begin.wall, now.thread - begin.thread
    others = now.process - begin.process - ran
    return _find_share(wall - ran, wall) if others < 0.05 * wall else None


def _find_share(waited: float, whole: float) -> float:
    return waited / whole if waited >= LEAST else 0.0
