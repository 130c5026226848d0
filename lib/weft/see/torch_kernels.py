"""torch_kernels(fn, *args): the kernels that PyTorch ran inside fn, explained.

    torch_kernels(torch.matmul, a, b)       a table: name, work, calls, time
    torch_kernels(step).rows                the same as data, longest first

On a GPU, the rows are kernels with CUPTI's times (through torch.profiler). On the CPU,
they are the operators of ATen and the time spent in each. `python -m weft bench
torch-kernels --device cuda --json PATH` writes a file like those in notebooks/results/.
It lists the kernels in one training step of the MNIST model's PyTorch twin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from ..base.errors import ArgumentError
from ..base.paths import ROOT
from ..base.text import round_number
from ..report import html
from ..timing import device_name, read_json, table
from ..timing.clocks import is_named_range, start_profile
from .kernel_names import MARKS, Name, explain

FOLDER = "notebooks/results"
NUMBERS = {"µs", "share", "calls"}  # columns with right-aligned numbers
SHOWN = 16  # rows of a table, the last of which combines all the remaining kernels
CPU = {  # ATen's operators that take most of a network's time: work and library
    "mkldnn_convolution": ("convolution", "oneDNN"),
    "convolution_backward": ("convolution, backward", "oneDNN"),
    "addmm": ("matrix product plus bias", "BLAS"),
    "mm": ("matrix product", "BLAS"),
    "bmm": ("many matrix products", "BLAS"),
    "native_batch_norm": ("batch norm", ""),
    "native_batch_norm_backward": ("batch norm, backward", ""),
    "max_pool2d_with_indices": ("the largest of each window", ""),
    "max_pool2d_with_indices_backward": ("gradient of max pooling", ""),
    "threshold_backward": ("gradient of relu", ""),
    "clamp_min": ("relu: max(x, 0)", ""),
    "_log_softmax": ("(log-)softmax", ""),
    "_log_softmax_backward_data": ("gradient of (log-)softmax", ""),
    "nll_loss_forward": ("the loss of the correct class", ""),
    "nll_loss_backward": ("gradient of the loss", ""),
    "_fused_sgd_": ("the optimizer's step, all tensors in one call", ""),
    "copy_": ("copies, or changes the type", ""),
    "index": ("selects rows by index", ""),
    "sum": ("a reduction", ""),
    "fill_": ("stores one value in all elements", ""),
    "add_": ("a += b", ""),
    "mul": ("a * b", ""),
}


@dataclass(frozen=True)
class KernelRow:
    """One kernel in one run of fn. raw: its full name; us: µs of all its calls."""

    name: Name
    raw: str
    calls: float
    us: float


@dataclass
class TorchKernels:
    """The kernels, longest first. device: the device's name. target: "cuda" or "cpu".

    ghost: kernels measured elsewhere, to be shown below these; note: a description of
    the measurement.
    """

    rows: list[KernelRow]
    device: str
    target: str
    note: str = ""
    ghost: TorchKernels | None = field(default=None, repr=False)

    @property
    def us(self) -> float:
        """The time of all rows, in µs."""
        return sum(row.us for row in self.rows)

    @property
    def by_library(self) -> dict[str, float]:
        """Each library's share of the time, largest first."""
        times: dict[str, float] = {}
        for row in self.rows:
            key = row.name.library or "other"
            times[key] = times.get(key, 0.0) + row.us
        total = self.us or 1.0
        return {k: v / total for k, v in sorted(times.items(), key=lambda kv: -kv[1])}

    def __repr__(self) -> str:
        cells = table(self._write_cells(), list(self._list_columns()))
        lines = [self._write_sentence(), cells]
        lines += [f"  {mark}" for mark in self._list_marks()]
        if self.ghost:
            lines += ["", repr(self.ghost)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        sides = {c: "right" if c in NUMBERS else "left" for c in self._list_columns()}
        rows = [[html.make_cell(c, side, kind="th") for c, side in sides.items()]]
        for row, cells in zip(self._select_shown(), self._write_cells()):
            hints = {"kernel": row.raw}
            rows.append(
                [
                    html.make_cell(value, sides[name], hint=hints.get(name, ""))
                    for name, value in cells.items()
                ]
            )
        marks = "".join(f"<div>{escape(mark)}</div>" for mark in self._list_marks())
        parts = [escape(self._write_sentence()), html.make_table(rows)]
        parts += [f'<div style="{html.FAINT}">{marks}</div>'] * bool(marks)
        if self.ghost:
            title = escape(self.ghost._write_sentence())
            inner = self.ghost._repr_html_()
            parts.append(f"<details><summary>{title}</summary>{inner}</details>")
        return html.make_page(parts)

    def _write_sentence(self) -> str:
        what = "kernels" if self.target == "cuda" else "operators of ATen"
        calls = sum(row.calls for row in self.rows)
        shares = ", ".join(f"{k} {100 * v:.0f} %" for k, v in self.by_library.items())
        text = f"{calls:.0f} {what} ({len(self.rows)} different), "
        text += f"{round_number(self.us)} µs on {self.device}: {shares}"
        return f"{self.note}: {text}" if self.note else text

    def _select_shown(self) -> list[KernelRow]:
        """Return the first rows, combining all others in one row."""
        if len(self.rows) <= SHOWN:
            return self.rows
        tail = self.rows[SHOWN - 1 :]
        calls, us = sum(r.calls for r in tail), sum(r.us for r in tail)
        names = ", ".join(dict.fromkeys(row.name.short for row in tail))
        other = Name(f"{len(tail)} others", "", "")
        return [*self.rows[: SHOWN - 1], KernelRow(other, names, calls, us)]

    def _list_columns(self) -> Iterable[str]:
        return self._write_cells()[0] if self.rows else ("kernel",)

    def _write_cells(self) -> list[dict[str, Any]]:
        """Write the table's cells, omitting columns that are empty in all rows."""
        total = self.us or 1.0
        lines = []
        for row in self._select_shown():
            name, share = row.name, f"{100 * row.us / total:.0f} %"
            cells = {"µs": round_number(row.us), "share": share}
            cells |= {"calls": f"{row.calls:.3g}", "kernel": name.short}
            cells |= {"what it does": name.what, "library": name.library}
            cells |= {"precision": name.precision, "tile": name.tile}
            lines.append(cells | {"layout": name.layout, "made for": name.made_for})
        keys = [key for key in lines[0] if any(c[key] for c in lines)] if lines else []
        return [{key: cells[key] for key in keys} for cells in lines]

    def _list_marks(self) -> list[str]:
        names = [row.name for row in self.rows]
        layouts = {name.layout for name in names}
        marks = {
            "tn": layouts & {"tn", "nt", "nn", "tt"},
            "tile": any(name.tile for name in names),
            "nhwc": layouts & {"nhwc", "nchw"} or any("nhwc" in n.short for n in names),
            "tensor cores": any("tensor cores" in name.precision for name in names),
            "FMA": any("FMA" in name.precision for name in names),
        }
        return [MARKS[mark] for mark, used in marks.items() if used]


def torch_kernels(
    fn: Callable[..., Any], *args: Any, repeat: int = 3, ghost: bool = True
) -> TorchKernels:
    """Return PyTorch's work in fn(*args): kernels on a GPU, operators on the CPU.

    fn runs 1 + repeat times: first to warm up, then timed. A row's calls and time are
    averages per run. ghost: whether to add the committed kernels of the MNIST twin's
    step if there is no GPU. Raises ArgumentError if fn cannot be called or ran nothing.
    """
    import torch

    if not callable(fn):
        raise ArgumentError(f"torch_kernels({fn!r:.40}): expected a function to call")
    if repeat < 1:
        raise ArgumentError(f"repeat={repeat}: expected at least 1")
    on_gpu = torch.cuda.is_available()
    fn(*args)
    with start_profile(on_gpu) as profile:
        for _ in range(repeat):
            fn(*args)
        if on_gpu:
            torch.cuda.synchronize()
    rows = _read_gpu_rows(profile.events(), repeat) if on_gpu else []
    target = "cuda" if rows else "cpu"
    rows = rows or _read_cpu_rows(profile.key_averages(), repeat)
    if not rows:
        raise ArgumentError("fn called no operator of PyTorch")

    kernels = TorchKernels(rows, device_name(target), target)
    if target == "cpu":
        if not on_gpu:
            kernels.note = "No GPU here: the same on the CPU"
        kernels.ghost = committed() if ghost else None
    return kernels


def committed(path: str | Path | None = None) -> TorchKernels | None:
    """Return the kernels of PyTorch's MNIST step on a GPU; None if there is no file.

    path: a file of results; None: the first notebooks/results/torch_kernels_*.json.
    """
    files = sorted((ROOT / FOLDER).glob("torch_kernels_*.json"))
    if not (path or files):
        return None
    results = read_json(path or files[0])
    first = results["rows"][0]
    rows = [
        KernelRow(explain(row["kernel"]), row["kernel"], row["calls"], row["us"])
        for row in results["rows"]
        if (row["rung"], row["precision"]) == (first["rung"], first["precision"])
    ]
    date = results["machine"]["date"]
    note = f"A training step of the MNIST network in PyTorch, batch {first['batch']}, "
    note += f"{first['rung']}, {first['precision']}, measured {date}"
    return TorchKernels(rows, first["device"], "cuda", note)


def _read_gpu_rows(events: Iterable[Any], repeat: int) -> list[KernelRow]:
    """Return a row for each kind of kernel, copy or fill in a profile's events."""
    durations: dict[str, list[float]] = {}
    for event in events:
        if "CUDA" in str(event.device_type) and not is_named_range(event):
            us = event.time_range.elapsed_us()
            durations.setdefault(event.name, []).append(us)
    return _sort_rows(
        KernelRow(explain(name), name, len(times) / repeat, sum(times) / repeat)
        for name, times in durations.items()
    )


def _read_cpu_rows(averages: Iterable[Any], repeat: int) -> list[KernelRow]:
    """Return a row for each operator, without the time of operators that it called."""
    rows = []
    for op in averages:
        us = op.self_cpu_time_total
        if op.key.startswith("aten::") and us:
            short = op.key.removeprefix("aten::")
            what, library = CPU.get(short, ("", ""))
            name = Name(short, what, library or "ATen")
            rows.append(KernelRow(name, op.key, op.count / repeat, us / repeat))
    return _sort_rows(rows)


def _sort_rows(rows: Iterable[KernelRow]) -> list[KernelRow]:
    return sorted(rows, key=lambda row: -row.us)
