"""Benchmarks, one per module, and charts of their rows: `python -m weft bench WHAT`.

ops, counted           an op's rungs against PyTorch, NumPy, CUB; bytes over the floor
matmul/, race/, transpose  the speed that a GPU reaches
tensor, graphs         errors and limits of tensor cores; the time between kernels
sectors, streams       effects that sector counts miss; copies on several streams
bodies, launch, edit   a body on every runner; launch cost; time from edit to result
bridges                ways from PyTorch to a kernel: lines, builds, calls
libraries              NVIDIA's libraries: first and later calls, errors
sim, simt, check       the cost of running kernels on a CPU
counters               our counts, Nsight Compute's, and the allowed differences
plot_bodies, plot_graphs, plot_tensor  charts of these rows
readme, sentences      blocks of results for README and docs/results.md
phrases                formatted numbers, times and devices for these sentences
"""

from __future__ import annotations

from ..base.progress import remark, step


def say(line: str) -> None:
    """Show the current step of a benchmark. Lines about absent rows stay on screen."""
    (remark if line.startswith("absent: ") else step)(line)


def split_words(text: str) -> list[str]:
    """Return the words of an option such as "tiled, naive"."""
    return [word.strip() for word in text.split(",") if word.strip()]
