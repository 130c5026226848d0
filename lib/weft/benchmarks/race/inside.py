"""Show the inside of a training step: our arrays and longest kernel, PyTorch's kernels.

draw_inside(cnn, image, number)   after cnn has taken a step: Cnn.peek() as pictures
conv2_back(row, roof, launch_us)  the time of conv2's backward pass, and its floors
draw_conv2_back(times, device)    the data and work of conv2's backward pass

`python -m weft bench torch-kernels` times the kernels of PyTorch's step, an eager step
of the model's twin in fp32 and in tf32. torch.profiler reads each kernel's time from
CUPTI. On a machine without a GPU, lesson 07c shows committed rows. This command writes
them on a GPU:

    python -m weft bench torch-kernels --json notebooks/results/torch_kernels_CARD.json
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Patch

from ...base import style as kit
from ...base.style import INK, OURS, READ, SHARED, THREAD, WRITTEN
from ...mnist.trainer import Cnn
from ...mnist.twin import TwinTrainer, precision
from ...mnist.weights import initial_weights
from ...see.torch_kernels import torch_kernels
from ...see.view import draw_image, mosaic, sheet
from ..graphs import random_data
from .plot_batches import time_text
from .race import Row
from .work import StepPart, find_limits, sum_parts

# Colours for the pixel of a 2x2 window that has the largest value.
WINNERS = {
    "upper left": READ,
    "upper right": WRITTEN,
    "lower left": SHARED,
    "lower right": THREAD,
}


def draw_inside(cnn: Cnn, image: np.ndarray, number: int = 0) -> Figure:
    """Draw the last step's results for an image; cnn must use a fused rung.

    image (28,28) uint8: the image with index `number` in that step's batch.
    """
    with kit.style():
        figure = kit.new_figure(920, 900)
        axes = figure.subplots(3, 3, height_ratios=(4, 8, 5))
        draw_image(axes[0, 0], image / 255, "the image: 784 bytes")
        for ax, name in (axes[0, 1], "p1"), (axes[1, 0], "c2"), (axes[1, 1], "m2"):
            draw_image(ax, mosaic(maps_of(cnn, name, number)), _make_title(cnn, name))
        for ax, name in (axes[0, 2], "code1"), (axes[1, 2], "code2"):
            _draw_codes(ax, maps_of(cnn, name, number), _make_title(cnn, name))
        hidden = cnn.peek("h")[number]
        shades = hidden.reshape(8, -1) / (hidden.max() or 1.0)
        draw_image(axes[2, 0], shades, f"h: {hidden.size} numbers")
        _draw_logits(axes[2, 1], cnn.peek("logits")[number])
        gradient = maps_of(cnn, "dp2", number)
        grey = 0.5 + 0.5 * gradient / (np.abs(gradient).max() or 1.0)
        draw_image(axes[2, 2], mosaic(grey, scaled=False), _make_title(cnn, "dp2"))
        return figure


def maps_of(cnn: Cnn, name: str, number: int = 0) -> np.ndarray:
    """Return the last step's array (batch,pixels,channels) as (channels,side,side)."""
    pixels = cnn.peek(name)[number]
    side = int(len(pixels) ** 0.5)
    return pixels.reshape(side, side, -1).transpose(2, 0, 1)


def _make_title(cnn: Cnn, name: str) -> str:
    channels, side, _ = maps_of(cnn, name).shape
    return f"{name}: {channels} of {side}x{side}"


def _draw_codes(ax: Axes, codes: np.ndarray, title: str) -> None:
    """Draw each window's winner in its colour, or nothing if it has no gradient."""
    picture = mosaic(codes, scaled=False)
    has_winner = np.nan_to_num(picture, nan=4) < 4
    colours = np.array([to_rgb(colour) for colour in WINNERS.values()])
    rgba = np.zeros((*picture.shape, 4))
    rgba[has_winner, :3] = colours[picture[has_winner].astype(int)]
    rgba[has_winner, 3] = 1
    ax.imshow(rgba, interpolation="nearest")
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set(visible=True, color=INK)
    ax.grid(visible=False)
    ax.set_title(title, size=11)
    marks = [Patch(color=colour, label=name) for name, colour in WINNERS.items()]
    look = {"ncols": 2, "fontsize": 9, "handlelength": 1, "borderaxespad": 0.2}
    ax.legend(handles=marks, loc="upper center", bbox_to_anchor=(0.5, 0), **look)


def _draw_logits(ax: Axes, logits: np.ndarray) -> None:
    digits = range(len(logits))
    ax.bar(digits, logits, **kit.outlined(OURS))
    ax.set(xticks=digits)
    ax.set_title(f"logits: {len(logits)} numbers", size=11)
    ax.grid(axis="x", visible=False)


# ---- conv2's backward pass ----------------------------------------------------------

# For each array: name, contents, colour of its memory, (left, top, width, height).
BACK_BOXES = (
    ("c2", "196 x 64, raw", READ, (0, 3, 17, 4.6)),
    ("dp2, code2", "49 x 64; the winners", READ, (0, 9.5, 17, 4.6)),
    ("sums", "of the whole batch", READ, (0, 16, 17, 4.6)),
    ("dy", "196 x 64, never stored:\npool 2, batch norm 2",
     SHARED, (21, 8.4, 23, 6.8)),
    ("weights", "9 x 64 x 32, turned", READ, (50, 1, 17, 4.6)),
    ("dp1", "196 x 32: convolved", SHARED, (50, 7.2, 17, 4.6)),
    ("code1, image", "196 x 32; 784 bytes", READ, (72, -1.4, 21, 4.6)),
    ("9 sums of d p, 1 of d", "ReLU 1, pool 1,\nbatch norm 1, conv 1",
     THREAD, (72, 5, 21, 6.8)),
    ("winners", "10 x 32", WRITTEN, (98.5, 6.1, 14, 4.6)),
    ("p1", "196 x 32", READ, (50, 18, 17, 4.6)),
    ("9 taps, 8 channels", "72 sums a thread", THREAD, (72, 16, 21, 4.6)),
    ("dw2", "9 x 64 x 32", WRITTEN, (98.5, 16, 14, 4.6)),
)  # fmt: skip
BACK_ROLES = (  # a block's role, the position of its name, and its frame
    ("dx: two blocks an image", (49.3, -2.8), (48.5, -4.2, 46, 17)),
    ("dw: two blocks an image", (75, 22.2), (48.5, 13.8, 46, 9.8)),
)
BACK_ARROWS = (  # (start, end) of each arrow
    *(((17, 5.3), (21, 10)), ((17, 11.8), (21, 11.8)), ((17, 18.3), (21, 13.6))),
    *(((44, 10.4), (50, 9.5)), ((58.5, 5.6), (58.5, 7.2)), ((67, 9), (72, 8.4))),
    *(((82.5, 3.2), (82.5, 5)), ((93, 8.4), (98.5, 8.4))),
    *(((44, 13), (72, 17.4)), ((67, 20), (72, 19)), ((93, 18.3), (98.5, 18.3))),
)


def conv2_back(row: Row, roof: Row, launch_us: float) -> StepPart:
    """Sum the sections of conv2's backward pass, scaled to 64 images.

    row, roof, launch_us: the parameters of find_limits().
    """
    sections = find_limits(row, roof, launch_us)
    back = sum_parts([
        part for part in sections
        if part.section.startswith("backward.") and "conv2" in part.section
    ])  # fmt: skip
    times = (back.us, back.products, back.bytes, back.launch)
    return StepPart("conv2's backward", *(64 / row["batch"] * us for us in times))


def draw_conv2_back(
    times: Mapping[str, StepPart], device: str = "", here: bool = False
) -> Figure:
    """Draw the fused parts of conv2's backward kernel, with bars of times below them.

    times: times on `device`, by the label of each bar. here: whether they were measured
    on this machine; if not, the bars are hollow.
    """
    with kit.style():
        figure = kit.new_figure(920, 350 + 30 * len(times))
        heights = (270, 80 + 30 * len(times))
        flow, bars = figure.subfigures(2, 1, height_ratios=heights)
        _draw_flow(flow.subplots())
        _draw_bars(bars.subplots(), times, device, here)
        return figure


def _draw_flow(ax: Axes) -> None:
    sheet(ax, 113, 28)
    ax.set_ylim(28, -4.6)
    for name, text, colour, (left, top, width, height) in BACK_BOXES:
        look = {"fc": kit.fade_colour(colour), "ec": colour, "lw": 1.4}
        _draw_box(ax, (left, top, width, height), look)
        middle = {"ha": "center", "va": "center"}
        x = left + width / 2
        ax.text(x, top + 1.5, name, family="monospace", size=9.5, **middle)
        ax.text(x, top + 1.3 + height / 2, text, size=8.5, **middle)
    for role, position, place in BACK_ROLES:
        _draw_box(ax, place, {"fc": "none", "ec": INK, "lw": 0.8})
        ax.text(*position, role, size=8.5, va="center")
    for start, end in BACK_ARROWS:
        arrow = {"arrowstyle": "->", "color": INK, "shrinkA": 0, "shrinkB": 0}
        ax.annotate("", end, start, arrowprops=arrow)
    kinds = ("read", READ), ("shared memory", SHARED)
    kinds += ("registers", THREAD), ("written", WRITTEN)
    marks = [Patch(fc=kit.fade_colour(c), ec=c, label=name) for name, c in kinds]
    ax.legend(handles=marks, loc="lower left", bbox_to_anchor=(0, -0.03), ncols=4)


def _draw_box(ax: Axes, place: tuple[float, ...], look: dict) -> None:
    left, top, width, height = place
    corners = "round,pad=0,rounding_size=0.6"
    ax.add_artist(FancyBboxPatch((left, top), width, height, corners, **look))


def _draw_bars(
    ax: Axes, times: Mapping[str, StepPart], device: str, measured_here: bool
) -> None:
    if not times:
        return kit.draw_unmeasured(ax, "mnist")
    looks = {}
    for name, colour in ("products", SHARED), ("launch", WRITTEN), ("rest", INK):
        fill = kit.fade_colour(colour) if measured_here else "none"
        looks[name] = {"ec": colour, "lw": 1.2, "fc": fill}
    for place, part in enumerate(times.values()):
        remainder = max(0.0, part.us - part.products - part.launch)
        text = f"{time_text(part.us)}, its products {time_text(part.products)}"
        pieces = zip((part.products, part.launch, remainder), looks.values())
        kit.draw_stack(ax, place, pieces, text)
    marks = [Patch(label=name, **look) for name, look in looks.items()]
    ax.legend(handles=marks, loc="lower right", bbox_to_anchor=(1, 1), ncols=3)
    kit.name_lines(ax, list(times))
    kit.hide_lines(ax)
    ax.set_xlim(0, 1.6 * max(part.us for part in times.values()))
    ax.set_xlabel(f"µs for 64 images, {device} (left is better)")


# ---- the kernels of PyTorch's step ---------------------------------------------------

BATCH, REPEAT = 64, 20
PRECISIONS = ("fp32", "tf32")
SHOWN = ["precision", "us", "share", "calls", "short", "library", "tile", "layout"]


def rows_of(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return a row for each kernel, longest first; use the GPU if there is one."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kinds = PRECISIONS if device == "cuda" else PRECISIONS[:1]
    return [row for kind in kinds for row in rows(device, kind)]


def rows(device: str, kind: str, batch: int = BATCH) -> list[dict[str, Any]]:
    """Return the rows of one precision."""
    with precision(kind):
        split, weights = random_data(batch), initial_weights(0)
        trainer = TwinTrainer(weights, split, device=device, batch=batch)
        index = torch.arange(batch, device=device)
        profile = torch_kernels(trainer.step, index, repeat=REPEAT, ghost=False)
    total = profile.us
    return [
        {
            **{"op": "torch_kernels", "impl": "torch", "rung": "eager"},
            **{"precision": kind, "target": profile.target, "device": profile.device},
            **{"timer": "torch.profiler", "batch": batch, "us": row.us},
            **{"share": row.us / total, "calls": row.calls, "short": row.name.short},
            **{"library": row.name.library, "tile": row.name.tile},
            **{"layout": row.name.layout, "kernel": row.raw},
        }
        for row in profile.rows
    ]


def note(rows: list[dict[str, Any]]) -> str:
    """Return the text below the table."""
    steps: dict[str, float] = {}
    for row in rows:
        steps[row["precision"]] = steps.get(row["precision"], 0.0) + row["us"]
    times = ", ".join(f"{kind} {us:.0f} us" for kind, us in steps.items())
    first = rows[0]
    return f"one step at batch {first['batch']} on {first['device']}: {times}"
