"""How long things take: timers, and the rows and tables that every benchmark makes.

It can be called, as weft.bench(f, x): see timers.py.

timers             how long a call takes, and how sure that is
clocks             by which clock; the GPU's own clock, temperature, power
results            the JSON of every measurement, and tables
peaks              what this machine can do at best, cuBLAS included
marks              when the sections of a step end
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
