"""Timers, and the rows and tables that every benchmark produces.

The package is callable, as weft.bench(f, x): see timers.py.

timers             times a call, with the uncertainty of the result
clocks             the clocks that time it; a GPU's clock, temperature, power
results            the JSON of every measurement, and tables
peaks              the best rates that this machine reaches, cuBLAS included
marks              records when the sections of a step end
"""

from ..base.lazy import callable_as
from .results import commit, device_name, machine, read_json, table, write_json
from .timers import BAND, STATISTIC, Timing, in_rounds, summarize, time_call

__all__ = [
    "BAND",
    "STATISTIC",
    "Timing",
    "commit",
    "device_name",
    "in_rounds",
    "machine",
    "read_json",
    "summarize",
    "table",
    "time_call",
    "write_json",
]

callable_as(__name__, "bench", "timers")
