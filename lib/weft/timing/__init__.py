"""Timers, and the rows and tables that every benchmark produces.

The package can be called as weft.bench(f, x); see timers.py.

timers   times one call, with the uncertainty of the result
race     describes work to time, and times several contenders in turn
clocks   measures durations; reads a GPU's clock, temperature and power
results  writes and reads the JSON of all measurements, and formats tables; measures
         the time that threads wait for a core, and hides such times in pictures
peaks    measures the highest rates of this machine, and calls cuBLAS
"""

from ..base.lazy import callable_as
from .results import (
    BAND,
    STATISTIC,
    CoreWait,
    Timing,
    commit,
    device_name,
    hide_times,
    machine,
    read_json,
    summarize,
    table,
    write_json,
)
from .timers import time_call

__all__ = [
    "BAND",
    "STATISTIC",
    "CoreWait",
    "Timing",
    "commit",
    "device_name",
    "hide_times",
    "machine",
    "read_json",
    "summarize",
    "table",
    "time_call",
    "write_json",
]

callable_as(__name__, "bench", "timers")
