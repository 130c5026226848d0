"""Count an op's memory traffic without a GPU: `python -m weft bench OP --counted`.

The watch build runs each CUDA rung on the CPU and counts sectors, requests and bank
conflicts by Nsight Compute's definitions. The counts depend only on the kernel and the
sizes, so every machine gives the same table. A good memory-bound kernel moves hardly
more bytes than the floor: each input read once, each output written once.
"""

from __future__ import annotations

import functools
import linecache
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..base.errors import ArgumentError, Mismatch
from ..base.progress import PATIENCE, Progress
from ..cells.cpu.launch import open_runtime
from ..ops.cases import find_op
from ..ops.check import check_rung
from ..ops.op import Op
from ..report.costs import CostPlace, Sums
from ..see.watched_runs import WatchedTensor, load_watched_library, report_watched
from ..toolchain import native
from .ops import PROBLEMS

COUNTS = ["kernels", "bytes", "floor", "over_floor", "sectors_per_request"]
COUNTS += ["bank_conflicts", "requests", "atomics", "barriers"]
NOTE = (
    "bytes: 32 per sector of global memory, between the L1 caches and the rest; "
    "floor: each input read and each output written once;\ncounted on the CPU by "
    "Nsight Compute's definitions, without copies by cudaMemcpy and cudaMemset, and\n"
    "without volatile reads: their number depends on how long a block waits"
)


def rows(
    op: str, sizes: Sequence[int] = (), rungs: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Count the traffic of `op`'s CUDA rungs; return the rows, least traffic first.

    sizes: one number per problem; () selects the smallest usual one. rungs: names; ()
    selects all that run on the CPU target. Raises ArgumentError for a rung that does
    not run there or an op without counts, and Mismatch for a wrong result or a fault.
    """
    if op not in PROBLEMS:
        raise ArgumentError(f"--counted: {op} is not one of {', '.join(PROBLEMS)}")
    spec = find_op(op)
    plain, watched = native.library(op, "cpu"), load_watched_library(op)
    selection = [plain.rung(name) for name in rungs] or _list_simulated(plain)
    for rung in selection:
        if rung not in _list_simulated(plain):
            raise ArgumentError(
                f"--counted: {op} '{rung.name}' is not CUDA C that runs on the CPU"
            )
    results = []
    problems = [
        spec.bench.sizes_for(size, True) for size in sizes or spec.bench.usual[:1]
    ]
    steps = len(selection) * len(problems)
    with Progress(f"counting {op}", steps, "rungs", delay=PATIENCE) as job:
        for problem in problems:
            group = []
            for rung in selection:
                _check_once(plain, rung)
                group.append(count_rung(spec, watched, rung, problem))
                job.update()
            results += sorted(group, key=lambda row: row["bytes"])
    return results


@functools.cache
def _check_once(lib: native.Library, rung: native.Rung) -> None:
    """Check a rung once; the cases of the check do not depend on the counted size."""
    check_rung(lib, rung)


def _list_simulated(lib: native.Library) -> list[native.Rung]:
    """Return the rungs whose threads the CPU simulates."""
    return [rung for rung in lib.rungs if rung.targets == ("cpu", "cuda")]


def count_rung(
    spec: Op,
    lib: native.Library,
    rung: native.Rung,
    sizes: Mapping[str, int],
    given: Mapping[str, torch.Tensor] | None = None,
) -> dict[str, Any]:
    """Return the row of one rung of a watched library.

    given: inputs by name that replace the random ones. Their shapes must have these
    sizes. lanes: the mean number of active threads per request. Requests and atomic
    updates are those of global memory; shared_atomics are updates of shared memory.
    Barriers are those of all blocks. Raises Mismatch if the launch has a fault.
    """
    launcher, drawn = spec.plan.launcher, spec.draw(sizes)
    inputs = dict(zip(spec.parameters, drawn)) | dict(given or {})
    tensors = {n: x for n, x in inputs.items() if isinstance(x, torch.Tensor)}
    numbers = {**sizes, **{n: x for n, x in inputs.items() if n not in tensors}}
    arrays = {n: WatchedTensor(x, n, True) for n, x in tensors.items()}
    for name in launcher.outputs:
        if name not in arrays and name not in spec.omitted:
            shape, dtype = spec.shape_of(name, sizes), launcher.dtypes[name]
            arrays[name] = WatchedTensor(
                torch.empty(tuple(shape), dtype=dtype), name, False
            )
    title = f"{spec.name} '{rung.name}'"
    open_runtime().simt_check_begin()
    try:
        pointers = [
            arrays[name].pointer if name in arrays else native.NULL
            for name in launcher.dtypes
        ]
        values = launcher.values(numbers)
        lib.call(launcher.function, rung.index, *pointers, *values, native.NULL)
        report = report_watched(title)
    finally:
        for array in arrays.values():
            array.release()
    if report.findings:
        raise Mismatch(f"{title}: {report.findings[0].text}")
    total = Sums()
    places = report.counters.places
    for place in places:
        if place.space == "global" and not _is_poll(place):
            total.add(place)
    conflicts = sum(report.counters.bank_conflicts.values())
    moved, floor = 32 * total.sectors, spec.count_bytes(sizes)
    return {
        **{"op": spec.name, "rung": rung.name, "precision": rung.precision},
        **{"target": "cpu", "device": "", **sizes},
        "kernels": sum(kernel.launches for kernel in report.kernels),
        **{"bytes": moved, "floor": floor, "over_floor": moved / floor},
        "sectors_per_request": total.sectors_per_request,
        "bank_conflicts": conflicts,
        "requests": total.requests,
        "lanes": total.lanes,
        "atomics": _count_atomics(places, "global"),
        "shared_atomics": _count_atomics(places, "shared"),
        "barriers": sum(kernel.counters.barriers for kernel in report.kernels),
    }


def _count_atomics(places: Sequence[CostPlace], space: str) -> int:
    atomics = (p for p in places if p.kind == "atomic" and p.space == space)
    return sum(place.accesses for place in atomics)


def _is_poll(place: CostPlace) -> bool:
    """Return whether the place is a volatile read, with which a block awaits others.

    The number of such reads depends on timing, not only on the kernel and its sizes.
    """
    is_read = place.kind == "read"
    return is_read and "volatile" in linecache.getline(place.file, place.line)
