"""Timers, and the rows and tables that every benchmark produces.

The package is callable, as weft.bench(f, x): see timers.py.

timers             times one call, with the uncertainty of the result
race               describes work to time, and times several contenders in turn
clocks             the clocks that time it; a GPU's clock, temperature, power
results            the JSON of every measurement, and tables
peaks              the best rates that this machine reaches, cuBLAS included
"""

from ..base.lazy import callable_as
from .results import (
    BAND,
    STATISTIC,
    Timing,
    commit,
    device_name,
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
    "Timing",
    "commit",
    "device_name",
    "machine",
    "read_json",
    "summarize",
    "table",
    "time_call",
    "write_json",
]

callable_as(__name__, "bench", "timers")
