"""Bridges from PyTorch to a kernel, and a small network, for lessons 13a and 13b.

train_digits(activation)          the accuracy of a small network on MNIST
draw_graphs(function, x)          the graphs of torch.compile, and their breaks
draw_table(list_bridges())        the costs of each bridge, and its features
play_sizes(list_bridges())        a slider for the size: call and kernel
list_triton_times()               our kernels and those in Triton, on a GPU
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from ..base import style as kit
from ..base.errors import ArgumentError
from ..base.progress import PATIENCE, Progress
from ..base.style import DIM, FAULT, OPPONENT, READ, REFERENCE, SHARED, WIDTH
from ..base.text import count_things
from ..benchmarks import bridges
from ..benchmarks import ops as bench_ops
from ..benchmarks.plot_bodies import load_elsewhere
from ..mnist import epoch_order, load_tensors
from ..report.html import Table, table
from ..see.pictures import svg
from ..see.pictures.panels import EDGE
from ..see.pictures.svg import Drawing, Slider, box, label, remark
from ..timing.results import Row, is_drawn

Call = Callable[[torch.Tensor], torch.Tensor]

# ---- a small network -----------------------------------------------------------------


def train_digits(activation: Call, seed: int = 0, count: int = 60_000) -> float:
    """Train a network for an epoch of MNIST; return its accuracy on the test set in %.

    activation: the function after both hidden layers of 32 units. seed: determines the
    initial weights and the order. count: how many training images are used.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = [torch.nn.Linear(*size) for size in ((784, 32), (32, 32), (32, 10))]
        weights = [weight for layer in layers for weight in layer.parameters()]
        optimizer = torch.optim.SGD(weights, lr=0.02)

        def predict(x: torch.Tensor) -> torch.Tensor:
            x = activation(layers[0](x.flatten(1)))
            return layers[2](activation(layers[1](x)))

        x, y = load_tensors("train", count)
        for batch in torch.from_numpy(epoch_order(seed, 0, count, 100)).split(100):
            optimizer.zero_grad()
            F.cross_entropy(predict(x[batch]), y[batch]).backward()
            optimizer.step()
        x, y = load_tensors("test")
        with torch.no_grad():
            return 100 * (predict(x).argmax(1) == y).double().mean().item()


# ---- the graphs of torch.compile -----------------------------------------------------

NODE, GAP = 30.0, 54.0  # pixels: a node's height, and that of a break


def draw_graphs(function: Callable, *args: Any) -> Drawing:
    """Draw the graphs into which torch.compile divides a function, from top to bottom.

    Each graph is a frame with its calls, and each break is a dashed line with its
    reason. Raises whatever the function raises for these arguments.
    """
    function(*args)  # attributes that are read once are not reasons for a break
    torch._dynamo.reset()
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        found = torch._dynamo.explain(function)(*args)
    graphs = [_list_calls(graph) for graph in found.graphs]
    reasons = [_describe_break(reason) for reason in found.break_reasons]
    title = f"{count_things(len(graphs), 'graph')}, "
    title += f"{count_things(max(0, len(graphs) - 1), 'break')}"
    out, top = [label(EDGE, 24, title, 16, bold=True)], 44.0
    for turn, calls in enumerate(graphs):
        if turn:
            reason = reasons[min(turn, len(reasons)) - 1] if reasons else "a break"
            out.append(_draw_break(reason, top))
            top += GAP
        wide = sum(svg.width_of(name, 13, mono=True) + 40 for name in calls) + 6
        out.append(box(EDGE, top, wide, NODE + 22, strength=DIM, radius=8))
        x = EDGE + 14
        for place, name in enumerate(calls):
            width = svg.width_of(name, 13, mono=True) + 18
            colour = SHARED if "polynomial" in name else READ
            if place:
                out.append(_draw_link(x - 22, top + 11 + NODE / 2))
            out.append(box(x, top + 11, width, NODE, colour=colour, fill=svg.FILL))
            out.append(label(x + 9, top + 31, name, 13, mono=True))
            x += width + 22
        top += NODE + 22
    texts = [", ".join(calls) or "no call" for calls in graphs]
    account = f"{title}. " + "; ".join(f"graph: {text}" for text in texts)
    account += "".join(f"; break: {reason}" for reason in dict.fromkeys(reasons))
    return Drawing(title, WIDTH, top + EDGE, "".join(out), [], {(): []}, (), account)


def _list_calls(graph: torch.fx.GraphModule) -> list[str]:
    """Return the names of the functions that a graph calls."""
    names = []
    for node in graph.graph.nodes:
        if node.op.startswith("call"):
            names.append(getattr(node.target, "__name__", str(node.target)))
    return [name.removesuffix(".default") for name in names]


def _describe_break(reason: Any) -> str:
    """Return the reason for a break in one line, with the line of the source."""
    text = " ".join(str(reason.reason).split())
    inner = re.search(r"how to trace the builtin `([\w.]+?)\.?`", text)
    what = f"{inner[1]}() is not Python" if inner else text.partition(" Explanation")[0]
    what = "the rest of that call" if what == "step_unsupported" else what
    places = [
        frame for frame in reason.user_stack if "site-packages" not in frame.filename
    ]
    if not places:
        return what
    return f"{what}: {Path(places[-1].filename).name}, line {places[-1].lineno}"


def _draw_break(reason: str, top: float) -> str:
    middle = top + GAP / 2
    line = f'<path d="M{EDGE} {middle}H{WIDTH - EDGE}" stroke="{FAULT}" '
    line += f'stroke-width="1.5" {REFERENCE}/>'
    text = svg.clipped(f"break: {reason}", WIDTH - 2 * EDGE, 12)
    return line + label(EDGE, middle - 7, text, 12, colour=FAULT)


def _draw_link(x: float, y: float) -> str:
    return (
        f'<path d="M{x:.1f} {y:.1f}h16m-5 -3.5l5 3.5l-5 3.5" fill="none" {kit.PALE}/>'
    )


# ---- the costs of a bridge -----------------------------------------------------------

QUICK = ("cffi", "function", "library")  # bridges that gcc builds in a blink
NAMES = {
    "cffi": "cffi",
    "function": "autograd.Function",
    "library": "torch.library",
    "stable_abi": "stable ABI",
    "load_inline": "load_inline",
    "triton": "Triton",
    "torch": "PyTorch itself",
    "kernel": "the loop in C",
}


def list_bridges() -> list[Row]:
    """Return the rows of `python -m weft bench bridges`; time the quick bridges here.

    Rows with the key "elsewhere" are committed results, with the machine and the date.
    Under WEFT_SITE=1, all times are committed, so that every machine builds the same
    pages.
    """
    rows: dict[str, Row] = {}
    for result in load_elsewhere("bridges"):
        where = kit.list_machines([result])
        for row in result["rows"]:
            # A GPU's results contain the times of Triton, which a CPU's lack.
            is_missing = row["rung"] not in rows or rows[row["rung"]]["us"] is None
            if is_missing:
                rows[row["rung"]] = row | {"elsewhere": where}
    for name in bridges.PARTS:
        rows[name]["lines"] = bridges.count_lines(name)
    if os.environ.get("WEFT_SITE") != "1":
        with Progress("timing three bridges", delay=PATIENCE):
            measured = bridges.rows(QUICK, supported=False)
        for row in measured:
            works = {key: rows[row["rung"]][key] for key in bridges.WORKS}
            rows[row["rung"]] = row | works
    return list(rows.values())


def draw_table(rows: Sequence[Row]) -> Table:
    """Return the bridges as a table of their costs and features."""
    lines = []
    for row in rows:
        if row["rung"] == "kernel":
            continue
        costs = [row["lines"], _write(row["build_s"]), _write(row["us"])]
        works = [
            {True: "yes", False: "no", None: "not measured"}[row[key]]
            for key in bridges.WORKS
        ]
        place = "here" if "elsewhere" not in row else "elsewhere"
        place = "not here" if row["us"] is None else place
        place += "" if is_drawn(row.get("waited")) else ", while busy"
        lines.append((NAMES[row["rung"]], *costs, *works, place))
    heads = ["bridge", "lines", "build, s", "call, µs", "gradient", "compile"]
    return table(lines, *heads, "export", "vmap", "timed")


def _write(number: float | None) -> str:
    return "not measured" if number is None else f"{number:.2g}"


SIZES = [2**power for power in range(4, 25, 2)]
BAR, FIRST, LEFT = 34.0, 92.0, 170.0  # pixels: row height, first row's y, bars' x


def play_sizes(rows: Sequence[Row]) -> Drawing:
    """Draw the shares of call and kernel in each bridge's time, with a size slider.

    rows: those of list_bridges(). The kernel's time is that of the C loop, scaled. The
    slider selects the size. Raises ArgumentError if the row "kernel" is missing.
    """
    kernels = [row for row in rows if row["rung"] == "kernel"]
    if not kernels:
        raise ArgumentError("play_sizes: no row of the kernel alone")
    per_element = kernels[0]["us"] / kernels[0]["count"]
    calls = {
        row["rung"]: row["us"]
        for row in rows
        if row["us"] is not None and row["rung"] not in ("kernel", "torch", "triton")
    }
    title = "Where does the call stop mattering?"
    frames = {
        (at,): _draw_shares(calls, n * per_element, n) for at, n in enumerate(SIZES)
    }
    equal = {name: us / per_element for name, us in calls.items()}
    account = f"{title} " + "; ".join(
        f"{NAMES[name]}: call and kernel are equal at {n:,.0f} elements"
        for name, n in equal.items()
    )
    marks = [(svg.square(colour=OPPONENT, fill=svg.FILL), "the call")]
    marks += [(svg.square(colour=READ, fill=svg.FILL), "the kernel")]
    base = label(EDGE, 24, title, 16, bold=True) + svg.legend(EDGE, 76, marks)[0]
    stops = tuple(f"{n:,} elements" for n in SIZES)
    height = FIRST + BAR * len(calls) + 8
    return Drawing(
        *(title, WIDTH, height, base, [Slider("size", stops)], frames),
        *((SIZES.index(2**12),), account),
    )


def _draw_shares(calls: Mapping[str, float], kernel: float, n: int) -> list[str]:
    """Draw a bar for each bridge; kernel: the kernel's microseconds."""
    out = [label(EDGE, 50, f"{n:,} elements: the kernel takes {kernel:,.3g} µs", 13)]
    room = WIDTH - LEFT - EDGE - 150
    for place, (name, us) in enumerate(calls.items()):
        top, share = FIRST + place * BAR, us / (us + kernel)
        wide = room * share
        out.append(label(EDGE, top + 18, NAMES[name], 13))
        out.append(box(LEFT, top, wide, 24, colour=OPPONENT, fill=svg.FILL, radius=0))
        rest = box(
            LEFT + wide, top, room - wide, 24, colour=READ, fill=svg.FILL, radius=0
        )
        text = f"call: {100 * share:.0f} % of {us + kernel:,.3g} µs"
        out.append(rest + remark(LEFT + room + 8, top + 17, text))
    return out


# ---- our kernels and those in Triton -------------------------------------------------

RACES = {"polynomial": 2**26, "softmax": 4096}  # each op, and its size


def list_triton_times() -> list[Row]:
    """Return the fastest time of each kind of kernel for polynomial and softmax.

    The keys are op, kernel, us, of_copy (the share of a copy's speed) and timed (the
    card and the date). Without a GPU, the rows are committed results. A kernel that was
    not measured has None.
    """
    rows = []
    for op, size in RACES.items():
        if torch.cuda.is_available():
            found, where = bench_ops.rows(op, "cuda", [size]), "here"
        else:
            results = load_elsewhere(op)
            found = [row for result in results for row in result["rows"]]
            where = kit.list_machines(results)
        key = "count" if op == "polynomial" else "cols"
        found = [row for row in found if row.get(key) == size]
        for kernel, wanted in (
            ("ours", ("weft", None)),
            ("Triton", ("triton", None)),
            ("torch.compile", ("torch", "compile")),
        ):
            times = [
                (row["us"], row.get("of_copy"))
                for row in found
                if row["impl"] == wanted[0] and wanted[1] in (None, row["rung"])
            ]
            us, of_copy = min(times, default=(None, None))
            timed = where if times else "not measured"
            row = {"op": op, "kernel": kernel, "us": us, "of_copy": of_copy}
            rows.append(row | {"timed": timed})
    return rows


def write_times(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """Return the rows of list_triton_times() as cells of a table."""

    def write(number: float | None, digits: int) -> str:
        return "not measured" if number is None else f"{number:,.{digits}f}"

    return [
        (r["op"], r["kernel"], write(r["us"], 0), write(r["of_copy"], 2), r["timed"])
        for r in rows
    ]
