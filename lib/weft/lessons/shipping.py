"""Pictures and commands of lesson 13b: a kernel's way to somebody else.

run("python -m weft package curve.cu")     run a command and print its output
draw_wheel("curve-1.0-py3-none-any.whl")   the files of a wheel as areas
play_cards(["75", "90a"])                  which card takes which cubin
play_counts()                              wheels to build, for each kind of library
play_programs(10)                          programs, lanes and the mask
draw_lanes(error)                          the lanes of an OutOfArray
list_triton_times()                        our kernels and those in Triton, on a GPU
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..base import style as kit
from ..base.errors import ArgumentError, KernelError
from ..base.style import DIM, FAULT, OPPONENT, READ, REFERENCE, SHARED, WIDTH
from ..base.text import count_things
from ..benchmarks import ops as bench_ops
from ..benchmarks.plot_bodies import load_elsewhere
from ..ops.in_triton import OutOfArray
from ..see.pictures import svg
from ..see.pictures.panels import EDGE
from ..see.pictures.svg import Drawing, Slider, box, label, remark
from ..timing.results import Row

# ---- commands ------------------------------------------------------------------------


def run(command: str, folder: str | Path | None = None) -> None:
    """Run a command and print its output; `python` is this process's Python.

    folder: where it runs, without this checkout on Python's path; by default here, with
    it. Raises KernelError with the output if the command fails.
    """
    words = shlex.split(command)
    words[0] = sys.executable if words[0] == "python" else words[0]
    environment = dict(os.environ)
    if folder is not None:
        environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        *(words,),
        **{"cwd": folder, "env": environment, "text": True},
        **{"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT},
    )
    if done.returncode:
        raise KernelError(f"{command}: exit status {done.returncode}\n{done.stdout}")
    print(done.stdout.rstrip())


# ---- the files of a wheel ------------------------------------------------------------

KINDS = (  # the kind of a file, its colour, and the ends of its name
    ("machine code for a card", SHARED, (".cubin", ".fatbin")),
    ("machine code for a processor", READ, (".so", ".dylib", ".dll")),
    ("text", "currentColor", ("",)),
)
HIGH, TOP = 250.0, 96.0  # pixels: the areas' height, and their upper edge


@dataclass(frozen=True)
class WheelFile:
    """A file of a wheel. size: its bytes inside the wheel, which are compressed."""

    name: str
    size: int

    @property
    def kind(self) -> int:
        """The index of its kind in KINDS."""
        ends = (ends for _, _, ends in KINDS)
        return next(i for i, end in enumerate(ends) if self.name.endswith(end))


def list_files(wheel: str | Path) -> list[WheelFile]:
    """Return the files of a wheel, largest first."""
    with zipfile.ZipFile(wheel) as archive:
        found = [
            WheelFile(one.filename, one.compress_size)
            for one in archive.infolist()
            if not one.is_dir()
        ]
    return sorted(found, key=lambda file: -file.size)


def draw_wheel(wheel: str | Path) -> Drawing:
    """Draw the files of a wheel as areas, in a column for each kind of file."""
    files = list_files(wheel)
    total = sum(file.size for file in files)
    title = f"{Path(wheel).name}: {Path(wheel).stat().st_size / 1000:,.0f} kB"
    out = label(EDGE, 24, svg.clipped(title, WIDTH - 2 * EDGE, 16), 16, bold=True)
    x, accounts = EDGE, []
    marks = [(svg.square(colour=c, fill=svg.FILL), name) for name, c, _ in KINDS]
    out += remark(EDGE, 48, "Each area is a file's compressed size.")
    out += svg.legend(EDGE, 76, marks)[0]
    for kind, (name, colour, _) in enumerate(KINDS):
        column = [file for file in files if file.kind == kind]
        size = sum(file.size for file in column)
        if not column:
            continue
        wide = (WIDTH - 2 * EDGE) * size / total
        out += _draw_column(column, size, x, wide, colour)
        x += wide
        accounts.append(f"{name}: {count_things(len(column), 'file')}, {size:,} bytes")
    account = f"{title}. {'; '.join(accounts)}"
    height = TOP + HIGH + EDGE
    return Drawing(title, WIDTH, height, out, [], {(): []}, (), account)


def _draw_column(
    files: Sequence[WheelFile], size: int, x: float, wide: float, colour: str
) -> str:
    """Draw files one below the other, and the name of each that is high enough."""
    out, y = "", TOP
    for file in files:
        tall = HIGH * file.size / size
        out += box(x, y, wide, tall, colour=colour, fill=svg.FILL, radius=0)
        text = f"{Path(file.name).name}, {file.size / 1000:,.1f} kB"
        if tall >= 15:
            middle = y + tall / 2 + 4
            out += label(x + 6, middle, svg.clipped(text, wide - 10, 11), 11)
        y += tall
    return out


# ---- which card takes which cubin ----------------------------------------------------

# NVIDIA's list of compute capabilities: https://developer.nvidia.com/cuda/gpus
CARDS = {
    **{"V100": (7, 0), "T4": (7, 5), "A100": (8, 0), "RTX 3090": (8, 6)},
    **{"RTX 4090": (8, 9), "H200": (9, 0), "B200": (10, 0), "RTX 5090": (12, 0)},
}


def explain_cubin(card: tuple[int, int], cubin: str) -> tuple[bool, str]:
    """Return whether a card runs a cubin, and why.

    card: its compute capability. cubin: its target, such as "80" or "90a". A cubin runs
    on cards with the same major number and at least its minor number; with the letter
    "a", only on cards with exactly its numbers. Source: CUDA C++ Programming Guide,
    sections "Binary Compatibility" and "Architecture-Specific Features".
    """
    major, minor = divmod(int(cubin.rstrip("a")), 10)
    if cubin.endswith("a") and (major, minor) != card:
        return False, f"only on {major}.{minor}"
    if major != card[0]:
        return False, f"{major} is not {card[0]}"
    if minor > card[1]:
        return False, f".{minor} is above .{card[1]}"
    return True, "runs"


def play_cards(
    cubins: Sequence[str], cards: Mapping[str, tuple[int, int]] = CARDS
) -> Drawing:
    """Draw which cubins a card runs; a slider selects the card.

    cubins: their targets. cards: compute capabilities by name.
    """
    title = "Which cubin runs on this card?"
    frames, told = {}, []
    for at, (name, card) in enumerate(cards.items()):
        frames[at,] = _draw_choice(name, card, cubins)
        runs = [cubin for cubin in cubins if explain_cubin(card, cubin)[0]]
        told.append(f"{name} ({card[0]}.{card[1]}): {', '.join(runs) or 'none'}")
    stops = tuple(f"{name}, {a}.{b}" for name, (a, b) in cards.items())
    base = label(EDGE, 24, title, 16, bold=True)
    account = f"{title} {'; '.join(told)}"
    start = (min(1, len(cards) - 1),)
    sliders = [Slider("card", stops)]
    return Drawing(title, WIDTH, 190, base, sliders, frames, start, account)


def draw_choice(
    card: tuple[int, int], cubins: Sequence[str], chosen: str | None
) -> Drawing:
    """Draw a choice for one card, which may be wrong."""
    title = f"A card of {card[0]}.{card[1]}, and the chosen cubin: {chosen}"
    base = label(EDGE, 24, title, 16, bold=True)
    frame = _draw_choice("the card", card, cubins, chosen)
    return Drawing(title, WIDTH, 190, base, [], {(): frame}, (), title)


def _draw_choice(
    name: str, card: tuple[int, int], cubins: Sequence[str], chosen: str | None = ""
) -> list[str]:
    """Draw a card and the cubins; chosen: one to mark, None for none, "" unknown."""
    head = f"{name}: compute capability {card[0]}.{card[1]}"
    out = [label(EDGE, 54, head, 14)]
    room = min(150.0, (WIDTH - 2 * EDGE) / max(1, len(cubins)))
    fitting = 0
    for turn, cubin in enumerate(cubins):
        runs, reason = explain_cubin(card, cubin)
        fitting += runs
        x, colour = EDGE + turn * room, SHARED if runs else "currentColor"
        if runs:
            frame = box(x, 72, room - 14, 56, colour=SHARED, fill=svg.FILL, stroke=2)
        else:
            path = f"M{x} 72h{room - 14}v56h{14 - room}z"
            frame = f'<path d="{path}" fill="none" {kit.PALE} {REFERENCE}/>'
        out.append(frame)
        out.append(label(x + 10, 95, f"sm_{cubin}", 14, mono=True))
        out.append(label(x + 10, 116, reason, 12, colour=colour if runs else ""))
        if chosen and chosen == cubin:
            mark = box(x - 4, 68, room - 6, 64, colour=FAULT, stroke=2)
            out.append(mark + label(x, 150, "chosen", 12, colour=FAULT))
    names = ", ".join(f"sm_{cubin}" for cubin in cubins)
    text = f"{count_things(fitting, 'cubin')} of {len(cubins)} can run here"
    if not fitting:
        text = f"error: this card is {card[0]}.{card[1]}; the wheel has {names}"
    out.append(label(EDGE, 176, text, 13, colour="" if fitting else FAULT))
    return out


# ---- how many wheels -----------------------------------------------------------------

PYTHONS, TOOLKITS = 4, 2  # versions that a project supports at a time: an assumption
RELEASES = 10  # the slider's largest number of versions of PyTorch


def play_counts() -> Drawing:
    """Draw how many wheels each kind of library needs; a slider sets the versions.

    A library in C++ that includes all of PyTorch is built for each version of PyTorch,
    of Python and of CUDA. With the stable ABI, one per CUDA serves, and a library in C
    without PyTorch's symbols needs one.
    """
    title = "How many wheels?"
    base = label(EDGE, 24, title, 16, bold=True)
    text = f"for {PYTHONS} versions of Python, {TOOLKITS} of CUDA and one kind of "
    base += remark(EDGE, 46, f"{text}processor; left is better")
    frames, told = {}, []
    most = PYTHONS * TOOLKITS * RELEASES
    for releases in range(1, RELEASES + 1):
        counts = {
            "C++ with PyTorch's headers": PYTHONS * TOOLKITS * releases,
            "C++ with the stable ABI": TOOLKITS,
            "C, loaded by Python": 1,
        }
        frames[releases - 1,] = [
            _draw_count(turn, name, count, most, own=turn == 2)
            for turn, (name, count) in enumerate(counts.items())
        ]
        told.append(f"{releases}: {', '.join(map(str, counts.values()))}")
    stops = tuple(
        count_things(n, "version") + " of PyTorch" for n in range(1, RELEASES + 1)
    )
    account = f"{title} By versions of PyTorch: {'; '.join(told)}"
    sliders = [Slider("PyTorch", stops)]
    return Drawing(title, WIDTH, 172, base, sliders, frames, (3,), account)


def _draw_count(turn: int, name: str, count: int, most: int, own: bool) -> str:
    top, left = 64 + 34.0 * turn, 220.0
    wide = (WIDTH - left - EDGE - 60) * count / most
    colour = READ if own else OPPONENT
    bar = box(left, top, wide, 24, colour=colour, fill=svg.FILL, radius=0)
    return label(EDGE, top + 17, name, 13) + bar + label(left + wide + 8, top + 17,
                                                         str(count), 13)  # fmt: skip


# ---- programs and masks --------------------------------------------------------------

CELL = 30.0  # pixels: the side of an element or a lane
BLOCKS = (2, 4, 8, 16)


def play_programs(count: int) -> Drawing:
    """Draw an array of `count` elements and the programs that cover it.

    A slider sets the block. Dashed lanes are past the end, so the mask excludes them.
    """
    if not 1 <= count <= 24:
        raise ArgumentError(f"play_programs({count}): the picture has room for 1 to 24")
    title = f"Programs that cover {count_things(count, 'element')}"
    base = label(EDGE, 24, title, 16, bold=True)
    frames, told = {}, []
    for at, block in enumerate(BLOCKS):
        lanes = list(range(-(-count // block) * block))
        used = [lane < count for lane in lanes]
        frames[at,] = [_draw_lanes("x", count, lanes, used, block)]
        text = f"{count_things(len(lanes) // block, 'program')} of {block} lanes; "
        text += f"the mask excludes {count_things(len(lanes) - count, 'lane')}"
        frames[at,].append(label(EDGE, 190, text, 13))
        told.append(text)
    stops = tuple(f"BLOCK = {block}" for block in BLOCKS)
    account = f"{title}. {'. '.join(told)}"
    sliders = [Slider("block", stops)]
    return Drawing(title, WIDTH, 206, base, sliders, frames, (1,), account)


def draw_lanes(error: OutOfArray) -> Drawing:
    """Draw the program of an OutOfArray: its lanes, and the array's end."""
    at, used = error.at.tolist(), error.used.tolist()
    program = ", ".join(map(str, error.program[: error.axes]))
    title = f"{error.verb} of {error.array}, program {program}"
    base = label(EDGE, 24, title, 16, bold=True)
    first = max(0, min(at[0], error.count - 4))
    body = _draw_lanes(error.array, error.count, at, used, len(at), first)
    outside = sum(u and not 0 <= i < error.count for i, u in zip(at, used))
    text = f"{outside} of {len(at)} lanes use an element past the end"
    body += label(EDGE, 190, text, 13, colour=FAULT)
    return Drawing(title, WIDTH, 206, base, [], {(): [body]}, (), f"{title}: {text}")


def _draw_lanes(
    name: str,
    count: int,
    at: Sequence[int],
    used: Sequence[bool],
    block: int,
    first: int = 0,
) -> str:
    """Draw elements from `first` on, and below each the lane that uses it."""
    left = EDGE + 70
    shown = int((WIDTH - left - EDGE) // CELL)
    out = label(EDGE, 72, name, 14, mono=True)
    out += label(EDGE, 142, "lanes", 13)
    for i in range(first, min(count, first + shown)):
        x = left + (i - first) * CELL
        out += box(x, 52, CELL, CELL, colour=READ, fill=svg.FILL, radius=0)
        out += label(x + CELL / 2, 71, str(i), 11, anchor="middle")
    for turn, (i, does) in enumerate(zip(at, used)):
        x = left + (i - first) * CELL
        if not 0 <= i - first < shown:
            continue
        outside = not 0 <= i < count
        if does and outside:
            out += box(x, 52, CELL, CELL, colour=FAULT, fill=svg.FILL, stroke=2)
            out += label(x + CELL / 2, 71, str(i), 11, anchor="middle", colour=FAULT)
        centre = x + CELL / 2, 137.0
        circle = svg.thread(*centre, 12, runs=does)
        if not does:
            circle = circle.replace("<circle", f"<circle {REFERENCE}")
        out += svg.rule(f"M{centre[0]} 86V122", opacity=str(DIM)) if does else ""
        out += circle + label(centre[0], 141, str(turn % block), 11, anchor="middle")
    for start in range(0, len(at), block):
        x = left + (at[start] - first) * CELL + 2
        wide = block * CELL - 4
        if x - left >= 0 and x + wide <= WIDTH:
            out += box(x, 120, wide, 50, radius=8, strength=DIM)
            out += remark(x + 6, 165, f"program {start // block}" * (len(at) > block))
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
