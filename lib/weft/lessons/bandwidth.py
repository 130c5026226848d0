"""Count and time rungs relative to their floor, for lessons 09a to 09d.

    rows = count_rungs("transpose", ["naive", "tiled"], 256)
    draw_ruler(rows)                                    a bar per rung; the floor is 1
    mine = copy_rung("transpose", "padded", "mine.cu")  a copy for the reader to edit
    mine.check(); rows.append(mine.count(256))
    draw_ruler(time_ops(4096))                          the ops on this processor
    count_histograms(["shared"], {"noise": noise})      rungs and bytes of your own
    count_owners(["online", "warp_a_row"])              softmax, several row lengths
    draw_sums(sums, exact, bounds)                      distances from the exact sum

The floor of an op is the number of bytes that it moves if it reads each input once and
writes each output once. The floor of its time is that number, divided by the rate of
this machine's fastest copy.

The copy of a rung keeps the names of the rung's functions. It replaces the rung's file
when the op's files are compiled into a separate library.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes

from ..base import style as kit
from ..base.errors import ArgumentError
from ..base.paths import KERNELS
from ..base.style import OPPONENT, READ, SHARED, WRITTEN
from ..benchmarks import counted
from ..benchmarks import ops as bench_ops
from ..benchmarks import transpose as bench_transpose
from ..benchmarks.counted import count_rung
from ..benchmarks.plot_bodies import load_elsewhere
from ..ops.cases import find_op
from ..ops.check import RungVerdict, require
from ..see.view import figure
from ..see.watched_runs import load_watched_library, watch_flavour
from ..timing import hide_times
from ..timing.results import Row
from ..timing.timers import bench
from ..toolchain import build, native

COLOURS = {"copy": READ, "transpose": WRITTEN, "reduce": SHARED}
COLOURS |= {"softmax": WRITTEN, "layernorm": SHARED, "rmsnorm": SHARED}
COLOURS |= {"cross_entropy": READ, "scan": WRITTEN, "compact": SHARED}
COLOURS |= {"histogram": READ, "sort": WRITTEN, "topk": SHARED}
GPU_SIDE = 8192  # side of the matrices on a GPU
LONGEST = 100  # bars up to this multiple of the floor are drawn whole
SECONDS = 0.4  # time limit of a measurement

Calls = dict[tuple[str, str], Callable[[], object]]  # key: op, implementation


def count_rungs(op: str, rungs: Sequence[str], size: int) -> list[Row]:
    """Count the traffic of an op's rungs without a GPU, in the order of `rungs`.

    size: the op's varying size: the count of numbers, or a transpose's side.
    """
    rows = {row["rung"]: row for row in counted.rows(op, [size], rungs)}
    return [rows[name] for name in rungs]


def count_histograms(rungs: Sequence[str], data: Mapping[str, np.ndarray]) -> list[Row]:
    """Count the traffic of the histogram's rungs on the given data, without a GPU.

    data: arrays (n) of uint8 by name, not empty. Each row also has "data", the name,
    and "conflicts", the bank conflicts per byte. Raises ArgumentError for other arrays.
    """
    spec, lib = find_op("histogram"), native.library("histogram", "cpu")
    watched, rows = load_watched_library("histogram"), []
    for rung in map(lib.rung, rungs):
        require(lib, rung)
        for name, x in data.items():
            if x.dtype != np.uint8 or x.ndim != 1 or not x.size:
                raise ArgumentError(
                    f"count_histograms: {name} is {x.dtype} {x.shape}, not uint8 (n)"
                )
            given, sizes = {"x": torch.from_numpy(x.copy())}, {"count": x.size}
            row = counted.count_rung(spec, watched, rung, sizes, given)
            rows.append(
                row | {"data": name, "conflicts": row["bank_conflicts"] / x.size}
            )
    return rows


def time_ops(side: int) -> list[Row]:
    """Time a copy, a transpose and a sum of side x side floats on this processor.

    Each row has op, impl, us (the median), waited (the time without a core, as a share
    of the work), bytes, gbs (10^9 bytes per second) and over_floor. Raises
    ArgumentError for a side below 1.
    """
    if side < 1:
        raise ArgumentError(f"time_ops({side}): the side must be at least 1")
    x = np.random.default_rng(0).random((side, side), np.float32)
    y, total = np.empty_like(x), np.empty(1, np.float32)
    xt, yt, sum_t = map(torch.from_numpy, (x, y, total))
    return time_calls(
        x.nbytes,
        list_copies(xt, yt)
        | {
            ("transpose", "NumPy"): lambda: np.copyto(y, x.T),
            ("transpose", "PyTorch"): lambda: yt.copy_(xt.t()),
            ("transpose", "Weft"): call_op("transpose", yt, xt, side, side),
            ("reduce", "NumPy"): lambda: np.sum(x),
            ("reduce", "PyTorch"): lambda: torch.sum(xt),
            ("reduce", "Weft"): call_op("reduce", sum_t, xt, x.size, native.NULL),
        },
    )


def list_copies(x: torch.Tensor, y: torch.Tensor) -> Calls:
    """Return calls that copy x into y, for time_calls().

    They write into existing memory, since new pages would take longer than the copy.
    """
    numbers, target = x.numpy(), y.numpy()
    return {
        ("copy", "NumPy"): lambda: np.copyto(target, numbers),
        ("copy", "PyTorch"): lambda: y.copy_(x),
        ("copy", "Weft"): call_op("copy", y, x, x.numel()),
    }


def time_calls(nbytes: int, calls: Calls) -> list[Row]:
    """Time calls of ops by (op, implementation); one op must be "copy".

    nbytes: bytes of the input; all ops but reduce write as much. Returns rows like
    those of time_ops().
    """
    rows = [_time_op(*names, call, nbytes) for names, call in calls.items()]
    fastest = max(row["gbs"] for row in rows if row["op"] == "copy")
    return [row | {"over_floor": fastest / row["gbs"]} for row in rows]


def list_gpu_rungs(op: str, size: int = 0) -> list[Row]:
    """List copies and the rungs of an op, timed on a GPU.

    op: one of GPU_RUNS. size: the op's varying size (the Bench of its Op); 0 selects
    the largest one with rows. If there is no GPU, the rows are committed results. Their
    key "elsewhere" contains the cards and the dates. The keys are those of time_ops(),
    with "rung" instead of "waited". Raises ArgumentError for another op.
    """
    if op not in GPU_RUNS:
        raise ArgumentError(f"list_gpu_rungs: {op!r} is not one of {[*GPU_RUNS]}")
    measure, files = GPU_RUNS[op]
    if torch.cuda.is_available():
        rows, elsewhere = measure(size), ""
    else:
        results = [result for name in files for result in load_elsewhere(name)]
        rows = [row for each in results for row in _select(each["rows"], op, size)]
        elsewhere = kit.list_machines(results)
    rows = [row for row in rows if row["op"] in ("copy", op)]
    fastest = max(row["gbs"] for row in rows if row["op"] == "copy")
    more = {"elsewhere": elsewhere}
    return [row | more | {"over_floor": fastest / row["gbs"]} for row in rows]


def _time_transposes(size: int) -> list[Row]:
    return bench_transpose.rows("cuda", [size or GPU_SIDE])


def _time_beside_copies(op: str, size: int) -> list[Row]:
    size = size or min(GPU_SIDE**2, find_op(op).bench.usual[-1])
    return [
        row
        for name, its_size in (("copy", GPU_SIDE**2), (op, size))
        # PyTorch's compiler would take longer than all measurements.
        for row in bench_ops.rows(name, "cuda", [its_size], compiled=False)
    ]


# For each op: the function that times it on a GPU, and the names of committed results.
GPU_RUNS: dict[str, tuple[Callable[[int], list[Row]], Sequence[str]]] = {
    "transpose": (_time_transposes, ["transpose"]),
} | {
    op: (partial(_time_beside_copies, op), ["copy", op])
    for op in ("reduce", "softmax", "scan", "histogram", "sort", "topk")
}


def _select(rows: Sequence[Row], op: str, size: int) -> list[Row]:
    """Return the rows of copies and of the op for `size`, or for the largest size.

    The largest arrays do not fit into any cache.
    """
    name = "rows" if op == "transpose" else find_op(op).bench.size
    sizes = [row.get(name, row.get("count", 0)) for row in rows]
    want = size if size in sizes else max(sizes)
    return [row for row, its_size in zip(rows, sizes) if its_size == want]


def call_op(op: str, *arguments: Any) -> Callable[[], object]:
    """Return a call of an op's fastest rung on the CPU, with these arguments."""
    lib = native.library(op, "cpu")
    values = [
        native.pointer(a) if isinstance(a, torch.Tensor) else a for a in arguments
    ]
    index = lib.rung().index
    return lambda: lib.call(f"weft_{op}", index, *values, native.NULL)


def _time_op(op: str, impl: str, call: Callable[[], object], nbytes: int) -> Row:
    """Time one call. nbytes: bytes of the input; all ops but the sum write as much."""
    moved = nbytes if op == "reduce" else 2 * nbytes
    timing = bench(call, device="cpu", seconds=SECONDS).timing
    us = timing.median
    names = {"op": op, "impl": impl, "us": us, "waited": timing.waited}
    return names | {"bytes": moved, "gbs": moved / us / 1e3}


def draw_ruler(rows: Sequence[Row]) -> None:
    """Draw a bar for each row, counted or timed, on an axis on which the floor is 1.

    rows: counted (count_rungs(), OwnRung.count()) or timed (time_ops(),
    list_gpu_rungs()), and drawn in this order. Raises ArgumentError if there are none.
    """
    if not rows:
        raise ArgumentError("draw_ruler: no rows")
    with figure(9, 0.9 + 0.3 * len(rows)) as ax:
        if not hide_times(ax, [row for row in rows if "us" in row]):
            _draw_bars(ax, rows)


def _draw_bars(ax: Axes, rows: Sequence[Row]) -> None:
    what = "time" if "us" in rows[0] else "bytes"
    end = _find_end([row["over_floor"] for row in rows])
    for place, row in enumerate(rows):
        value, colour = min(row["over_floor"], end), COLOURS[row["op"]]
        look = kit.bar_look(colour, here=not row.get("elsewhere"))
        ax.barh(place, value, height=0.62, **look)
        # If a bar is below the floor, its text is to the right of the floor's line.
        kit.label_beside(ax, _write_value(row, end), (max(value, 1), place))
    kit.name_lines(ax, [f"{row['op']}, {_name_row(row)}" for row in rows])
    ax.axvline(1, label="the floor", **kit.reference_line())
    ax.text(1, -0.62, " the floor", size=9, va="bottom", color=kit.INK)
    ax.set_xlim(0, 1.3 * min(end, max(row["over_floor"] for row in rows)))
    where = rows[0].get("elsewhere")
    hollow = f"; hollow: {where}" if where else ""
    ax.set_xlabel(f"{what} over the floor's (left is better){hollow}")
    kit.hide_lines(ax)


def _find_end(values: Sequence[float]) -> float:
    """Return the value at which longer bars are cut; they would dwarf the others."""
    return 1.4 * max((value for value in values if value <= LONGEST), default=LONGEST)


def _write_value(row: Row, end: float) -> str:
    """Write a bar's value and, if it was timed, its rate."""
    value = row["over_floor"]
    text = f"{value:,.0f} (cut off)" if value > end else f"{value:.2f}"
    if "us" not in row:
        return text
    digits = 0 if row["gbs"] >= 100 else 1
    return f"{text}, {row['gbs']:,.{digits}f} GB/s"


def _name_row(row: Row) -> str:
    """Return the name of the row's rung or implementation."""
    if row.get("impl") in ("cub", "triton"):
        return {"cub": "CUB", "triton": "Triton"}[row["impl"]]
    if row.get("impl") != "torch":
        return row.get("rung") or row["impl"]
    return "PyTorch, compiled" if row["rung"] == "compile" else "PyTorch"


# ---- rows ----------------------------------------------------------------------------

LENGTHS = (32, 128, 1024, 4096, 16_384, 65_536, 262_144)  # numbers of columns


def time_softmax(rows: int, cols: int) -> list[Row]:
    """Time a copy and a softmax of rows x cols floats on this machine's processor.

    Returns rows like those of time_ops(), for NumPy's softmax in three passes,
    PyTorch's, and Weft's in plain C. Raises ArgumentError for sizes below 1.
    """
    if rows < 1 or cols < 1:
        raise ArgumentError(f"time_softmax({rows}, {cols}): both must be at least 1")
    x = torch.from_numpy(
        np.random.default_rng(0).standard_normal((rows, cols), np.float32)
    )
    y = torch.empty_like(x)
    numbers, target = x.numpy(), y.numpy()

    def soften() -> None:
        np.subtract(numbers, numbers.max(axis=1, keepdims=True), out=target)
        np.exp(target, out=target)
        np.divide(target, target.sum(axis=1, keepdims=True), out=target)

    softmaxes = {
        ("softmax", "NumPy"): soften,
        ("softmax", "PyTorch"): lambda: torch.softmax(x, 1, out=y),
        ("softmax", "Weft"): call_op("softmax", y, x, rows, cols),
    }
    return time_calls(4 * rows * cols, list_copies(x, y) | softmaxes)


def count_owners(rungs: Sequence[str], lengths: Sequence[int] = LENGTHS) -> list[Row]:
    """Count the traffic of softmax's rungs for rows of several lengths.

    For each length, the matrix has about 65,536 numbers, or it is a single longer row.
    The results are in the order of `lengths` and, within each, of `rungs`.
    """
    rows = counted.rows("softmax", lengths, rungs)
    row_of = {(row["cols"], row["rung"]): row for row in rows}
    return [row_of[cols, rung] for cols in lengths for rung in rungs]


# ---- sums ----------------------------------------------------------------------------

SUM_COLOURS = (OPPONENT, SHARED)


def draw_sums(
    sums: Mapping[str, Sequence[float]], exact: float, bounds: Mapping[str, float]
) -> None:
    """Draw how far each sum is from the exact one, and the bound of each order.

    sums: by order, the float32 sums of the same numbers. exact: their sum without
    rounding. bounds: by order, the largest error that theory allows, above 0. Raises
    ArgumentError if sums and bounds have different orders.
    """
    if sums.keys() != bounds.keys() or not sums:
        names = f"{', '.join(sums)} and bounds of {', '.join(bounds)}"
        raise ArgumentError(f"draw_sums: sums of {names}")
    errors = {name: [abs(float(s) - exact) for s in sums[name]] for name in sums}
    # A logarithmic axis cannot show an error of 0.
    least = min((e for row in errors.values() for e in row if e), default=1.0) / 4
    with figure(9, 1.1 + 0.75 * len(sums)) as ax:
        for place, (name, row) in enumerate(errors.items()):
            _draw_errors(ax, place, [max(e, least) for e in row], bounds[name])
        kit.name_lines(ax, list(sums))
        ax.set_xscale("log")
        ax.set_xlim(least / 2, 30 * max(bounds.values()))
        ax.set_xlabel(f"distance from the exact sum, {exact:,.6f} (left is better)")
        kit.hide_lines(ax)


def _draw_errors(ax: Axes, place: int, errors: Sequence[float], bound: float) -> None:
    """Draw a row of errors, one dot per sum, and the bound as a dashed line."""
    colour = SUM_COLOURS[place % len(SUM_COLOURS)]
    for number, error in enumerate(errors):
        height = place + 0.05 * (number - len(errors) / 2)  # separates equal errors
        kit.draw_dot(ax, (error, height), colour, here=True, size=6)
    ax.plot([bound, bound], [place - 0.35, place + 0.35], **kit.reference_line())
    kit.label_beside(ax, f"bound: {_write_number(bound)}", (bound, place))


def _write_number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


# ---- running sums --------------------------------------------------------------------


def time_scans(count: int) -> list[Row]:
    """Time a copy and running sums of `count` floats on this machine's processor.

    Returns rows like those of time_ops(), for NumPy, PyTorch and Weft's plain C. Raises
    ArgumentError for a count below 1.
    """
    if count < 1:
        raise ArgumentError(f"time_scans({count}): the count must be at least 1")
    x = torch.from_numpy(np.random.default_rng(0).random(count, np.float32))
    y = torch.empty_like(x)
    numbers, target = x.numpy(), y.numpy()
    scans = {
        ("scan", "NumPy"): lambda: np.cumsum(numbers, out=target),
        ("scan", "PyTorch"): lambda: torch.cumsum(x, 0, out=y),
        ("scan", "Weft"): call_op("scan", y, x, count, native.NULL),
    }
    return time_calls(x.nbytes, list_copies(x, y) | scans)


# ---- a reader's copy of a rung -------------------------------------------------------

ESSAY = re.compile(r"\A/\*.*?\*/\n", re.S)
INCLUDE = re.compile(r'#include "([\w.]+)"')  # a header in the same folder


def copy_rung(op: str, name: str, path: str | Path) -> OwnRung:
    """Copy the file of an op's rung to `path`, without the essay at its top.

    op: an op with a folder of rungs, such as "transpose". name: a rung, such as
    "padded". Overwrites an existing file. Raises ArgumentError if no such file
    exists, if `path` is a file of the lab, or if it does not end in .cu.
    """
    original, path = _find_file(op, name), Path(path)
    if path.suffix != ".cu":
        raise ArgumentError(f"{path}: a rung's file ends in .cu")
    if KERNELS in path.resolve().parents:
        raise ArgumentError(f"{path} is a file of the lab: choose another path")
    text = ESSAY.sub("", original.read_text())
    head = f"/* {path.name}: a copy of {original.name}, for you to change. */\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head + INCLUDE.sub(rf'#include "{op}/\1"', text))
    return OwnRung(op, name, path)


def _find_file(op: str, name: str) -> Path:
    """Return the file of a rung."""
    files = {path.stem[3:]: path for path in (KERNELS / op).glob("[0-9][0-9]_*.cu")}
    if name not in files:
        known = ", ".join(sorted(files)) or f"none in kernels/{op}"
        raise ArgumentError(
            f"no file of the rung {name!r} of {op!r}; there are {known}"
        )
    return files[name]


class OwnRung:
    """A copy of the rung `name` of `op`. path: the file of the copy."""

    def __init__(self, op: str, name: str, path: Path) -> None:
        self.op, self.name, self.path = op, name, path

    def library(self, check: bool = False) -> native.Library:
        """Return the op's library with the copy. check: whether it is a watch build.

        Raises BuildError with the compiler's messages.
        """
        flavour = watch_flavour() if check else build.Flavour.here("cpu")
        original = _find_file(self.op, self.name)
        files = [p for p in build.list_sources(self.op, "cpu") if p != original]
        name = f"{self.op}-{self.path.stem}"
        return _open_library(
            self.op, build.library_of(name, [*files, self.path], flavour)
        )

    def check(self) -> RungVerdict:
        """Check the copy with the op's cases; raise Mismatch if it is wrong."""
        lib = self.library()
        return require(lib, lib.rung(self.name))

    def count(self, size: int) -> Row:
        """Check the copy and count its traffic; see weft.benchmarks.counted.

        size: the op's varying size. The row's rung is the name of the copy's file.
        """
        self.check()
        lib, spec = self.library(check=True), find_op(self.op)
        sizes = spec.bench.sizes_for(size, True)
        row = count_rung(spec, lib, lib.rung(self.name), sizes)
        return row | {"rung": self.path.stem}

    def __repr__(self) -> str:
        return f"a copy of {self.op} '{self.name}' in {self.path.name}"


@functools.cache
def _open_library(op: str, path: Path) -> native.Library:
    return native.Library(op, "cpu", path)
