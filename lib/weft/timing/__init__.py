"""How long things take: timing, and the rows and tables that every benchmark makes.

It can be called, bench(f, x): see timers.py.

timers, samples        how long a call takes, and how sure that is; in so many samples
clocks, gpu_state      by which clock; the GPU's own clock, temperature, power
results                the JSON of every measurement, and tables
command                python -m weft bench
checked                nothing is timed that has not passed its check
peaks, cublas          what a product is measured against
ops                    an op's rungs beside PyTorch's
matmul/, tensor/, graphs/, mnist, transpose, torch_kernels  what a GPU reaches
sectors, streams       what a count of sectors leaves out; copies on several streams
bodies, launch, edit   one body by every runner; a launch; from an edit to its result
sim, simt, check       what running kernels on a CPU costs
counters, excuses      is the count right; how far may Nsight Compute lie from it
plot_bodies, plot_transpose, crossing  charts; where two of their lines cross
readme, sentences      README.md's blocks, made from committed results
"""

from ..lazy import callable_as
from .results import commit, device_name, machine, read_json, table, write_json
from .samples import BAND, STATISTIC, Timing, in_rounds, summarize, time_call

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

callable_as(__name__, "bench.timers")
