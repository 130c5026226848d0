"""Define the front page's kernel, and collect the lab's reports without its guard.

The page's script repeats the kernel's arithmetic, since a visitor has no compiler. The
still picture, and each report, come from the lab itself.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import itertools
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from PIL import Image

from weft import KernelFault, last_report, load_cuda
from weft.lessons.widgets.paint import paint

WIDTH, HEIGHT, BLOCK = 320, 200, 16  # the last row of blocks is half outside
MOMENT = 0.9  # the time of the still picture, in seconds
CONSTANTS = ("0.7f", "1.4f", "0.35f")
COLOURS = (("0.7f", "1.6f"), ("2.1f", "4.2f"), ("0.2f", "0.4f"))
GUARD = "    if (col >= w || row >= h) return;\n"
SHADE = "__device__ float shade(float a) { return 0.5f + 0.5f * sinf(a); }\n"
KERNEL = (
    "__global__ void silk(float3 *image, int w, int h, float t) {\n"
    "    int col = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    int row = blockIdx.y * blockDim.y + threadIdx.y;\n"
    f"{GUARD}"
    "    float a = CONSTANT, x = 4.0f * col / w - 2, y = 4.0f * row / h - 2;\n"
    "    for (int i = 1; i < 8; i++)"
    " x += a/i * sinf(1.5f*i*y + t), y += a/i * cosf(1.5f*i*x + t);\n"
    "    image[row * w + col] = make_float3(shade(x), shade(x + GREEN),"
    " shade(x + BLUE));\n"
    "}\n"
)


@dataclass(frozen=True)
class Fault:
    """A report of the kernel without its guard. page: the report as HTML."""

    page: str
    block: tuple[int, ...]
    thread: tuple[int, ...]


def write_cell(constant: int = 0, colour: int = 0, guarded: bool = True) -> str:
    """Return the source of the cell. constant, colour: the numbers of the choices."""
    green, blue = COLOURS[colour]
    text = KERNEL if guarded else KERNEL.replace(GUARD, "")
    text = text.replace("CONSTANT", CONSTANTS[constant])
    return SHADE + text.replace("GREEN", green).replace("BLUE", blue)


def paint_frame(t: float, constant: int = 0, colour: int = 0) -> np.ndarray:
    """Return the kernel's picture at time t, as (HEIGHT, WIDTH, 4) bytes."""
    kernel = load_cuda(write_cell(constant, colour), target="cpu").silk
    return paint(kernel, WIDTH, HEIGHT, device="cpu").frame(t)


def draw_poster() -> bytes:
    """Return the still picture as a JPEG, for a page without its script."""
    file = io.BytesIO()
    Image.fromarray(paint_frame(MOMENT)[..., :3]).save(file, "jpeg", quality=80)
    return file.getvalue()


@cache
def record_faults() -> list[list[Fault]]:
    """Run each choice without the guard; return the faults by constant and colour."""
    faults = {
        choice: _record(*choice)
        for choice in itertools.product(range(len(CONSTANTS)), range(len(COLOURS)))
    }
    return [
        [faults[constant, colour] for colour in range(len(COLOURS))]
        for constant in range(len(CONSTANTS))
    ]


def _record(constant: int, colour: int) -> Fault:
    source = write_cell(constant, colour, guarded=False)
    kernel = load_cuda(source, target="cpu", watched=True).silk
    picture = torch.full((HEIGHT, WIDTH, 3), torch.nan)
    with contextlib.suppress(KernelFault):  # the report contains the fault
        kernel[count_blocks(), (BLOCK, BLOCK)](picture, WIDTH, HEIGHT, MOMENT)
    report = last_report()
    (finding,) = report.findings
    # The costs of a stopped launch depend on the progress of the other blocks.
    page = dataclasses.replace(report, counters=None)._repr_html_()
    return Fault(page, finding.block, finding.thread)


def count_blocks() -> tuple[int, int]:
    """Return the blocks of the grid along x and y."""
    return -(-WIDTH // BLOCK), -(-HEIGHT // BLOCK)
