"""README's picture: a watched cell, its result, and the fault of a changed line.

python tests/watched_cell.py runs both cells and writes docs/watched_cell.svg.
"""

from __future__ import annotations

import contextlib
import html
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "lib"), str(ROOT)]

import numpy as np  # noqa: E402

from weft import KernelFault, last_report, load_cuda  # noqa: E402

COMMAND = "python tests/watched_cell.py"
PICTURE = ROOT / "docs" / "watched_cell.svg"
CELL = """\
__global__ void saxpy(float *y, const float *x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
"""
LAUNCH = "saxpy[4, 256](y, x, 2.0, 1000)"
ACCOUNT = "A cell, its result, and the fault that a changed line causes"
LINE, MARGIN, WIDE = 19, 16, 830  # lengths in SVG units
STYLE = """\
<style>
text { font: 13px ui-monospace, Menlo, monospace; fill: #333; white-space: pre }
.title { font: 600 14px system-ui, sans-serif; fill: #0072B2 }
.changed { fill: #A84A00; font-weight: 600 }
.fault { fill: #A84A00 }
rect { fill: #f6f6f6; stroke: #ccc }
@media (prefers-color-scheme: dark) {
  text { fill: #ddd }
  .title { fill: #56B4E9 }
  .changed, .fault { fill: #E69F00 }
  rect { fill: #1c1c1c; stroke: #444 }
}
</style>"""


def run_cell(source: str) -> tuple[str, list[str]]:
    """Run the cell watched; return the first elements of y, and the report's lines."""
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    kernel = load_cuda(source, target="cpu", watched=True).saxpy
    with contextlib.suppress(KernelFault):  # the report contains the fault
        kernel[4, 256](y, x, 2.0, 1000)
    report = str(last_report()).splitlines()
    head, *causes = report[0].split("; ")
    return str(y[:4]), [head, *(f"  {part}" for part in causes), *report[1:]]


def draw() -> str:
    """Return the SVG: both cells, each above its output."""
    changed = CELL.replace("i < n", "i <= n")
    height, parts = 0, []
    for title, source, mark in (
        ("Edit, run: the result, and what each line cost", CELL, ""),
        ("Change a line, run: the fault, its thread, and a cure", changed, "i <= n"),
    ):
        result, report = run_cell(source)
        lines = [(line, "changed" if mark and mark in line else "") for line in
                 ["%%cuda", *source.splitlines(), LAUNCH]]  # fmt: skip
        below = [(f"y[:4] = {result}", ""), *((line, "") for line in report)]
        if mark:
            below = [(line, "fault") for line in report]
        height += 26
        parts.append(f'<text class="title" x="{MARGIN}" y="{height}">{title}</text>')
        box = LINE * len(lines) + 14
        parts.append(
            f'<rect x="{MARGIN}" y="{height + 10}" width="{WIDE - 2 * MARGIN}" '
            f'height="{box}" rx="4"/>'
        )
        parts += _write(lines, height + 30)
        height += 10 + box
        parts += _write(below, height + 22)
        height += LINE * len(below) + 22
    size = f'viewBox="0 0 {WIDE} {height + 4}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" '
    head += f'aria-label="{ACCOUNT}">'
    return "\n".join([head, STYLE, *parts, "</svg>", ""])


def _write(lines: list[tuple[str, str]], top: int) -> list[str]:
    return [
        f'<text class="{kind}" x="{MARGIN + 12}" y="{top + LINE * number}">'
        f"{html.escape(line)}</text>"
        for number, (line, kind) in enumerate(lines)
    ]


if __name__ == "__main__":
    PICTURE.write_text(draw())
