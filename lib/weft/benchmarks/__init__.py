"""Benchmarks, one per module, and charts of their rows: `python -m weft bench WHAT`.

ops, counted           an op's rungs against PyTorch, NumPy, CUB; bytes that they move
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

This module formats numbers, times, devices and lists for these blocks.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..base.progress import remark, step

if TYPE_CHECKING:
    from ..mnist.rungs import TwinRung
    from ..timing.results import Row


def say(line: str) -> None:
    """Show the current step of a benchmark. Lines about absent rows stay on screen."""
    (remark if line.startswith("absent: ") else step)(line)


def split_words(text: str) -> list[str]:
    """Return the words of an option such as "tiled, naive"."""
    return [word.strip() for word in text.split(",") if word.strip()]


# ---- phrases for README ------------------------------------------------------------

Results = dict[str, Any]  # the result of read_json(): "machine" and "rows"
WIDTH = 120  # maximum length of README's lines
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")


def write_digits(value: float, digits: int = 3) -> str:
    """Write a value with `digits` significant digits: 1.20, 73.0, 108."""
    if value >= 10**digits:
        return f"{value:.0f}"
    return f"{value:#.{digits}g}".rstrip(".")


def write_duration(us: float, digits: int = 3) -> str:
    """Write a time, passed in microseconds, in a suitable unit."""
    for unit, size in (("µs", 1.0), ("ms", 1e3)):
        if us < 999.5 * size:
            return f"{write_digits(us / size, digits)} {unit}"
    return f"{write_digits(us / 1e6, digits)} s"


def write_times(rows: Sequence[Row]) -> str:
    """Write the rows' times, with a shared unit if possible: 69.5, 42.1 and 35.2 µs."""
    texts = [write_duration(row["us"]) for row in rows]
    units = {text.split()[1] for text in texts}
    if len(units) > 1:
        return join_words(texts)
    return f"{join_words(text.split()[0] for text in texts)} {units.pop()}"


def write_band(row: Row) -> str:
    """Write a median with its band: 6.63 ms (5.87 to 7.14)."""
    low, high = (write_duration(row[end]).split()[0] for end in ("us_low", "us_high"))
    return f"{write_duration(row['us'])} ({low} to {high})"


def write_range(values: Sequence[float]) -> str:
    low, high = write_duration(min(values)), write_duration(max(values))
    one_unit = low.split()[1] == high.split()[1]
    return f"{low.split()[0] if one_unit else low} to {high}"


def write_accuracies(rows: Sequence[Row]) -> str:
    return f"{write_factors(100 * row['test_accuracy'] for row in rows)} %"


def write_factors(values: Iterable[float]) -> str:
    """Write factors with two decimals each: 4.09, 5.49 and 6.07."""
    return join_words(f"{value:.2f}" for value in values)


def write_twins(kinds: Sequence[TwinRung], our_graph: int) -> str:
    """Describe PyTorch's steps, and the work that both sides skip.

    our_graph: the number of steps in each of our graphs.
    """
    ways = {"compile": "of forward and backward", "compile-step": "of the whole step"}
    used = {kind.compiled for kind in kinds}
    functions = " or ".join(words for way, words in ways.items() if way in used)
    autotunes = any(kind.autotune for kind in kinds)
    graphs = []
    for compiled, words in ((False, "the uncompiled step"), (True, "the compiled one")):
        sizes = {k.graph for k in kinds if k.graph and bool(k.compiled) == compiled}
        if sizes:
            graphs.append(f"{words} in graphs of {join_words(map(str, sorted(sizes)))}")
    count = spell_count(sum(not kind.biases for kind in kinds))
    return (
        "Its step runs eagerly and compiled: `torch.compile` makes one function "
        f"{functions}{', also with `max-autotune`' * autotunes}. CUDA graphs capture "
        f"{join_words(graphs)}; ours are of {our_graph} steps. All of these "
        "run in both memory layouts, with `cudnn.benchmark`. The fused optimizer "
        "updates the weights, unless the compiled function does. Batch norm cancels "
        "the biases before it: our fused rungs skip them, and so do "
        f"{count} of PyTorch's."
    )


def write_days(rows: Sequence[Row], machine: Row | None = None) -> str:
    """Write the day on which the rows were measured, or the first and last day."""
    days = sorted({row["date"] for row in rows if "date" in row})
    days = days or [machine["date"] if machine else "?"]
    return days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"


def cut_release(machine: Row) -> str:
    """Return PyTorch's release: 2.11 for version 2.11.0+cu130."""
    return ".".join(machine["torch"].partition("+")[0].split(".")[:2])


def write_machine(results: Results) -> str:
    machine = results["machine"]
    system = f"driver {machine['driver']}, CUDA {machine['toolkit']}"
    return f"{machine['device']}, {system}, PyTorch {cut_release(machine)}"


def write_cores(machine: Row) -> str:
    """Describe a machine's processor, such as two cores of an AMD EPYC."""
    count = machine["cores"]
    name = re.sub(r"\(R\)|\(TM\)| Processor| CPU.*", "", machine["device"])
    return f"{spell_count(count)} core{'s' * (count != 1)} of {add_article(name)}"


def add_article(name: str) -> str:
    # Names whose pronunciation begins with a vowel.
    vowel = name[0] in "AEIOU" or name.startswith("NV")
    return f"{'an' if vowel else 'a'} {name}"


def spell_count(count: int) -> str:
    return NUMBERS[count] if count < len(NUMBERS) else str(count)


def join_words(words: Iterable[str]) -> str:
    """Join words: a, b and c."""
    *first, last = [*words] or [""]
    return f"{', '.join(first)} and {last}" if first else last


def write_table(heads: Sequence[str], sides: str, rows: Iterable[Sequence]) -> str:
    """Return a Markdown table. sides: "l" or "r" for each column's alignment."""
    rule = "".join("|---:" if side == "r" else "|---" for side in sides)
    first, *lines = [f"| {' | '.join(map(str, cells))} |" for cells in (heads, *rows)]
    return "\n".join([first, f"{rule}|", *lines])


def fill_lines(text: str) -> str:
    """Wrap text to README's width; no line begins with a Markdown list marker."""
    options = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(" ".join(text.split()), WIDTH, **options)
