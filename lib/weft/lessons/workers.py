"""Runs, pictures and checks of lesson 16a: several workers train one model.

rows = measure(config)              two workers, timed, and their waits for a core
play_owners()                       the worker that owns each image of a batch
check_owners(images, batch, parts)  draws a wrong answer
draw_parts(model)                   the bytes of each layer, in the order of sending
play_timeline([rows])               a step of both workers, with and without overlap
explain_step(rows)                  where a step's time goes
compare(rows)                       our workers next to PyTorch's DDP
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import mnist
from ..base.errors import ArgumentError
from ..base.style import DIM, FAULT, OURS, REFERENCE, SHARED, WIDTH, WRITTEN
from ..base.text import count_things
from ..benchmarks.plot_bodies import load_elsewhere
from ..mnist import Cnn, Config, Job, Place, WorkerError
from ..mnist.rungs import PRECISIONS
from ..report.html import Table, table
from ..see.pictures import svg
from ..see.pictures.panels import EDGE
from ..see.pictures.svg import Drawing, Slider, box, label, num, remark
from ..timing.results import Row, describe_rows, is_drawn, read_threads
from .widgets.predict import Guess

# ---- runs ----------------------------------------------------------------------------

TIMED = ("timing steps", "epoch 1/")  # texts in the lines that begin and end the timing


def watch(job: Job) -> Iterator[str]:
    """Yield the lines of a job, and print those about its progress."""
    for line in job:
        text = line.removeprefix("weft: ")
        if text != line:
            print(text)
        yield text


def measure(config: Config, workers: int = 2) -> list[Row]:
    """Train with several workers; return the rows, ours first.

    Each row has "waited", the share of the timing in which the workers waited for a
    core that another program had.
    """
    before: dict[int, tuple[float, ...]] = {}
    waited = 0.0
    with Job(config, workers) as job:
        for line in watch(job):
            if line.startswith(TIMED[0]) and not before:
                before = _read_clocks(job)
            elif TIMED[1] in line and before:
                waited, before = _find_wait(before, _read_clocks(job)), {}
        return [row | {"waited": waited} for row in job.rows()]


def _read_clocks(job: Job) -> dict[int, tuple[float, float, float]]:
    """Return the seconds in which each worker's main thread ran and waited for a core,
    and in which its other threads ran, by rank.
    """
    clocks = {}
    for rank, pid in job.pids.items():
        threads = read_threads(Path(f"/proc/{pid}/task"))
        if main := threads.pop(str(pid), None):
            clocks[rank] = *main, sum(ran for ran, _ in threads.values())
    return clocks


def _find_wait(
    before: Mapping[int, tuple[float, ...]], after: Mapping[int, tuple[float, ...]]
) -> float:
    """Return the main threads' share of time in which other programs had their core.

    The workers' own threads, such as gloo's, also take cores, so their time is no wait.
    """
    spans = [np.subtract(after[r], before[r]) for r in before.keys() & after.keys()]
    ran, waited, others = np.sum(spans, axis=0) if spans else (0.0, 0.0, 0.0)
    return float(max(0.0, waited - others) / max(ran + waited, 1e-9))


def train_here(config: Config, workers: int = 2) -> list[dict[str, np.ndarray]]:
    """Train as several workers do, with one model per worker in this process.

    Returns the weights of each. With two workers, the bits are those of two processes,
    since a sum of two numbers does not depend on their order.
    """
    train, batch = mnist.load("train").first(config.limit), config.batch
    shares = [Place(rank, workers).share(batch) for rank in range(workers)]
    models = [Cnn(max_batch=batch) for _ in shares]
    for model in models:
        model.data(train)
        model.set_weights(mnist.initial_weights(config.seed))
    for epoch in range(config.epochs):
        order = mnist.epoch_order(config.seed, epoch, len(train), batch)
        for images in order.reshape(-1, batch):
            for model, share in zip(models, shares):
                model.begin(images[share], total=batch)
            while (parts := [model.next() for model in models])[0] is not None:
                total = np.sum(parts, axis=0)
                for part in parts:
                    part[:] = total
            for model in models:
                model.update(config.lr)
    return [model.weights for model in models]


def wait_for_checkpoint(folder: str | Path, seconds: float = 120) -> Path:
    """Wait until a run has written a checkpoint; return its path."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if paths := sorted(Path(folder).glob("*.npz")):
            return paths[-1]
        time.sleep(0.005)
    raise WorkerError(f"no checkpoint in {folder} after {seconds:g} s")


def find_sharing(rows: Sequence[Row]) -> str:
    """Return why the rows' times are not shown; "" if they are."""
    is_shown = all(is_drawn(row.get("waited")) for row in rows)
    return "" if is_shown else describe_rows(rows)


def reveal(guess: Guess, rows: Sequence[Row], value: float) -> Any:
    """Return guess.measured(value), or a sentence if the machine was shared."""
    if text := find_sharing(rows):
        return print(f"{guess.question} Not shown: {text}.")
    return guess.measured(value)


# ---- who owns which image ------------------------------------------------------------

CELL, TALL = 28.0, 26.0  # pixels: a cell's largest width; a worker row's height


def share_batches(images: int, batch: int, size: int) -> list[list[list[int]]]:
    """Return the images of each worker in each batch, as Place.share() divides them."""
    firsts = range(0, images, batch)
    batches = [[*range(first, min(first + batch, images))] for first in firsts]
    places = [Place(rank, size) for rank in range(size)]
    return [[part[place.share(len(part))] for part in batches] for place in places]


def play_owners(images: int = 23, batch: int = 10, most: int = 4) -> Drawing:
    """Draw who owns which image of an epoch; the slider is the number of workers.

    The last batch has the images that remain.
    """
    title = f"{images} images, batches of {batch}: who owns which?"
    frames, lines = {}, []
    for size in range(1, most + 1):
        parts = share_batches(images, batch, size)
        frames[size - 1,] = _draw_owners(range(images), batch, parts)
        counts = [[len(part) for part in own] for own in parts]
        lines.append(f"{count_things(size, 'worker')}: {counts}")
    account = f"{title} Images of each worker in each batch. {'; '.join(lines)}"
    stops = tuple(count_things(n, "worker") for n in range(1, most + 1))
    base = label(EDGE, 24, title, 16, bold=True)
    base += svg.legend(EDGE, 48, [(svg.square(colour=OURS, fill=svg.FILL), "owned")])[0]
    height = 92 + TALL * most
    sliders = [Slider("workers", stops)]
    return Drawing(title, WIDTH, height, base, sliders, frames, (2,), account)


def check_owners(images: Sequence[int], batch: int, parts: Sequence[Any]) -> None:
    """Check which images each worker owns; draw a wrong one and raise AssertionError.

    parts: for each worker, its images of each batch. In each batch, each image must
    belong to one worker, and the numbers of images must differ by at most one.
    """
    firsts = range(0, len(images), batch)
    case = f"{len(images)} images, batch {batch}, {count_things(len(parts), 'worker')}"
    problem = ""
    for rank, own in enumerate(parts):
        if len(own) != len(firsts):
            problem = problem or (
                f"rank {rank}: the number of batches is {len(own)}, not {len(firsts)}"
            )
    for number, first in enumerate(firsts):
        wanted = [*images[first : first + batch]]
        owned = [[*own[number]] if number < len(own) else [] for own in parts]
        found = [image for part in owned for image in part]
        sizes = [len(part) for part in owned]
        if problem:
            break
        if sorted(found) != sorted(wanted):
            wrong = {n for n in {*found, *wanted} if found.count(n) != (n in wanted)}
            image = min(wrong)
            owners = count_things(found.count(image), "owner")
            here = "" if image in wanted else ", but belongs to another batch"
            problem = f"batch {number}: image {image} has {owners}{here}"
        elif max(sizes) - min(sizes) > 1:
            problem = f"batch {number}: the workers have {sizes} images"
    if problem:
        if len(images) <= 30:
            _draw_answer(case, images, batch, parts).show()
        raise AssertionError(f"{case}: {problem}")


def _draw_answer(
    case: str, images: Sequence[int], batch: int, parts: Sequence[Any]
) -> Drawing:
    base = label(EDGE, 24, case, 16, bold=True)
    marks = [(svg.square(colour=OURS, fill=svg.FILL), "owned")]
    marks += [(svg.square(colour=FAULT, fill=svg.FILL, stroke=2), "not exactly once")]
    base += svg.legend(EDGE, 48, marks)[0]
    frames = {(): _draw_owners(images, batch, parts)}
    return Drawing(case, WIDTH, 92 + TALL * len(parts), base, [], frames, (), case)


def _draw_owners(
    images: Sequence[int], batch: int, parts: Sequence[Sequence[Any]]
) -> list[str]:
    """Draw a row of cells for each worker, and a column for each image."""
    left, gap, firsts = 90.0, 18.0, range(0, len(images), batch)
    room = WIDTH - left - EDGE - gap * (len(firsts) - 1)
    wide = min(CELL, room / len(images))
    out, top = [], 84.0
    for rank in range(len(parts)):
        out.append(label(EDGE, top + rank * TALL + 17, f"rank {rank}", 13))
    for number, first in enumerate(firsts):
        wanted = [*images[first : first + batch]]
        owned = [[*own[number]] if number < len(own) else [] for own in parts]
        found = [image for part in owned for image in part]
        x0 = left + first * wide + number * gap
        for at, image in enumerate(wanted):
            x, right = x0 + at * wide, found.count(image) == 1
            colour = OURS if right else FAULT
            if wide >= 16:
                look = {"anchor": "middle"}
                out.append(remark(x + wide / 2, top - 6, str(image), **look))
            for rank, part in enumerate(owned):
                y = top + rank * TALL
                look = {"radius": 0, "colour": colour}
                if image in part:
                    look |= {"fill": svg.FILL, "stroke": 1 if right else 2}
                elif right:
                    look = {"radius": 0, "strength": DIM}
                out.append(box(x + 1, y + 1, wide - 2, TALL - 2, **look))
    return out


# ---- the gradients that a step sends -------------------------------------------------

GROUPS = {  # the layers whose gradients are ready together, in backward order
    "linear layers": ("fc2", "fc1"),
    "convolutions": ("bn2", "conv2", "bn1", "conv1"),
}


def count_bytes(model: Any) -> dict[str, int]:
    """Return the bytes of each layer's gradient, in the order of the backward pass."""
    sizes = {name: 0 for group in GROUPS.values() for name in group}
    for name, shape in model.shapes.items():
        sizes[name.partition(".")[0]] += 4 * math.prod(shape)
    return sizes


def draw_parts(model: Any) -> Drawing:
    """Draw a step's gradients as areas, in the order in which they are ready."""
    sizes = count_bytes(model)
    total = sum(sizes.values())
    title = f"The gradients of a step: {total / 1e6:.2f} MB"
    base = label(EDGE, 24, title, 16, bold=True)
    base += remark(EDGE, 46, "Areas show bytes, in backward order from the left.")
    x, top, high, out, edges = EDGE, 62.0, 60.0, "", []
    for group, names in GROUPS.items():
        start = x
        for name in names:
            wide = (WIDTH - 2 * EDGE) * sizes[name] / total
            out += box(x, top, wide, high, colour=WRITTEN, fill=svg.FILL, radius=0)
            if wide > 60:
                text = f"{name}: {sizes[name]:,} bytes"
                out += label(x + 10, top + 35, text, 13)
            x += wide
        edges.append((group, start, x, sum(sizes[name] for name in names)))
    y = top + high + 14
    for number, (group, start, end, size) in enumerate(edges):
        path = f"M{num(start + 1)} {num(y - 6)}v6H{num(end - 1)}v-6"
        out += f'<path d="{path}" fill="none" stroke="currentColor"/>'
        last = number == len(edges) - 1
        words = "sent last, when nothing is left to compute" if last else "sent first"
        text = f"{group}, {size / 1000:,.0f} kB: {words}"
        at = (end, "end") if last else (start, "start")
        out += label(at[0], y + 18, text, 13, anchor=at[1])
    lines = [f"{name}: {size:,} bytes" for name, size in sizes.items()]
    account = f"{title}. In the order of the backward pass: {', '.join(lines)}"
    return Drawing(title, WIDTH, y + 30, base + out, [], {(): []}, (), account)


# ---- the times of sending ------------------------------------------------------------

LANE = 30.0  # pixels of a lane's height
Event = tuple[int, str, float, float]  # the rank, the name, its start and end in ms


def read_events(row: Row) -> list[Event]:
    """Return the events of a row's timeline, in ms."""
    if not row.get("timeline"):
        raise ArgumentError("this row has no timeline: it needs two workers or more")
    return [
        (e["rank"], e["name"], e["start_us"] / 1e3, e["end_us"] / 1e3)
        for e in row["timeline"]
    ]


def part_overlap(row: Row) -> list[Event]:
    """Model the same step with sums that begin only after the computation.

    The parts of the computation have their measured lengths. The sums have those that
    were measured without computation, in proportion to their bytes.
    """
    events, out = read_events(row), []
    ranks = sorted({rank for rank, *_ in events})
    ends = {}
    for rank in ranks:
        own = [event for event in events if event[0] == rank]
        now = min(start for _, _, start, _ in own)
        for _, name, start, end in own:
            if name == "compute":
                out.append((rank, name, now, now + end - start))
                now += end - start
        ends[rank] = now
    first = [e for e in events if e[0] == ranks[0] and e[1].startswith("send")]
    sizes = {name: int(name.split()[1]) for _, name, _, _ in first}
    now = max(ends.values())
    sends = []
    for name, size in sizes.items():
        took = row["collective_us"] / 1e3 * size / sum(sizes.values())
        sends.append((name, now, now + took))
        now += took
    for rank in ranks:
        out += [(rank, name, start, end) for name, start, end in sends]
        out.append((rank, "wait", ends[rank], now))
        for other, name, start, end in events:
            if other == rank and name == "update":
                out.append((rank, name, now, now + end - start))
    return out


def play_timeline(runs: Sequence[Sequence[Row]]) -> Drawing | None:
    """Draw a step of all workers; sliders: the batch, and when the sums begin.

    runs: the rows of measure(), for one or several batches. Prints a sentence instead
    if the machine was shared.
    """
    ours = [rows[0] for rows in runs]
    if text := find_sharing(ours):
        return print(f"No timeline: {text}.")
    ranks = sorted({event[0] for event in read_events(ours[0])})
    title = "A step of all workers"
    marks = [
        (svg.square(colour=OURS, fill=svg.FILL), "computes"),
        (svg.square(colour=SHARED, fill=svg.FILL), "a sum is on its way"),
        (_mark_wait, "waits"),
        (svg.square(colour=WRITTEN, fill=svg.FILL), "updates the weights"),
    ]
    base = label(EDGE, 24, title, 16, bold=True) + svg.legend(EDGE, 50, marks)[0]
    frames, lines = {}, []
    for at, row in enumerate(ours):
        ways = read_events(row), part_overlap(row)
        last = max(end for events in ways for *_, end in events)
        for way, events in enumerate(ways):
            frames[at, way] = _draw_events(events, ranks, last, dashed=way == 1)
        ends = [max(end for *_, end in events) for events in ways]
        lines.append(
            f"batch {row['batch']}: {ends[0]:.1f} ms, and {ends[1]:.1f} ms if the sums "
            f"begin after the computation (computed)"
        )
    account = f"{title}. {'; '.join(lines)}"
    batches = tuple(f"{row['batch']} images" for row in ours)
    ways = ("while computing (measured)", "afterwards (computed)")
    sliders = [Slider("batch", batches), Slider("sums begin", ways)]
    height = 110 + 2 * LANE * len(ranks) + 14 * len(ranks)
    return Drawing(title, WIDTH, height, base, sliders, frames, (0, 0), account)


def _mark_wait(x: float, y: float) -> str:
    return f'<rect x="{num(x)}" y="{num(y)}" width="13" height="13" fill="none" ' + (
        f'stroke="{FAULT}" {REFERENCE}/>'
    )


def _draw_events(
    events: Sequence[Event], ranks: Sequence[int], last: float, dashed: bool
) -> list[str]:
    """Draw two lanes for each worker: its computation and waits, and its sums."""
    left, top = 150.0, 72.0
    room = WIDTH - left - EDGE
    out = []
    for rank in ranks:
        y = top + rank * (2 * LANE + 14)
        out.append(label(EDGE, y + 19, f"rank {rank}", 13))
        out.append(remark(EDGE, y + LANE + 19, "its sums"))
    for rank, name, start, end in events:
        is_sum = name.startswith("send")
        y = top + rank * (2 * LANE + 14) + LANE * is_sum
        x, wide = left + room * start / last, max(1.0, room * (end - start) / last)
        if name == "wait":
            out.append(
                f'<rect x="{num(x)}" y="{num(y + 2)}" width="{num(wide)}" '
                f'height="{num(LANE - 4)}" fill="none" stroke="{FAULT}" {REFERENCE}/>'
            )
            continue
        colour = {"compute": OURS, "update": WRITTEN}.get(name, SHARED)
        out.append(
            box(x, y + 2, wide, LANE - 4, colour=colour, fill=svg.FILL, radius=2)
        )
        text = f"{int(name.split()[1]) / 1000:,.0f} kB" if is_sum else name
        if svg.width_of(text, 12) < wide - 14:
            out.append(label(x + 6, y + 20, text, 12))
    y = top + len(ranks) * (2 * LANE + 14)
    for tick in svg.list_ticks(last):
        x = left + room * tick / last
        out.append(svg.rule(f"M{num(x)} {num(y - 8)}v6", opacity="0.5"))
        out.append(remark(x, y + 12, f"{tick} ms", anchor="middle"))
    if dashed:
        text = "computed from measured parts"
        out.append(remark(WIDTH - EDGE, 24, text, anchor="end"))
    return out


# ---- the parts of a step's time ------------------------------------------------------


def split_step(row: Row) -> dict[str, float]:
    """Return the parts of a step's time in ms, by name."""
    alone, apart, us = (row[name] / 1e3 for name in ("alone_us", "apart_us", "us"))
    return {
        "one worker's computation, alone": alone,
        "added while the other worker computes, too": apart - alone,
        "added by the sums": us - apart,
    }


def explain_step(rows: Sequence[Row]) -> Table | None:
    """Return a table of the parts of a step.

    Prints a sentence instead if the machine was shared.
    """
    if text := find_sharing(rows):
        return print(f"No times: {text}.")
    parts = split_step(rows[0])
    total = sum(parts.values())
    lines = [(name, ms, 100 * ms / total) for name, ms in parts.items()]
    return table(lines, "part of a step", "ms", "% of the step")


def compare(rows: Sequence[Row]) -> Table | None:
    """Return a table of our workers and DDP's, and of GPUs where they were measured.

    Prints a sentence instead of this machine's times if the machine was shared.
    """
    lines = []
    if text := find_sharing(rows):
        print(f"No times of these workers: {text}.")
    else:
        here = f"{rows[0]['device']}, {rows[0]['backend']}"
        lines += [_write_line(row, here) for row in rows]
    results = load_elsewhere("workers")
    for result in results:
        device, date = (result["machine"][name] for name in ("device", "date"))
        for row in select_best(result["rows"]):
            there = f"{row['workers']} x {device}, {row['backend']} ({date})"
            lines.append(_write_line(row, there))
    if not results:
        print("GPUs, with NCCL: not measured yet.")
    if not lines:
        return None
    names = "who", "images per step", "ms", "ms of one worker alone"
    return table(lines, *names, "times as fast as one", "efficiency, %", "device")


def select_best(rows: Sequence[Row]) -> list[Row]:
    """Return our row and DDP's fastest one for each precision and batch.

    The order is that of PRECISIONS, then of the batches; our row precedes DDP's.
    """
    slowest_first = sorted(rows, key=lambda row: -row["us"])
    best = {
        (PRECISIONS.index(row["precision"]), row["batch"], row["impl"] != "weft"): row
        for row in slowest_first
    }
    return [best[key] for key in sorted(best)]


def _write_line(row: Row, device: str) -> tuple[Any, ...]:
    who = "ours" if row["impl"] == "weft" else f"PyTorch's DDP, {row['layout']}"
    who += f", {row['precision']}" * (row["precision"] != "fp32")
    ms = row["us"] / 1e3, row["alone_us"] / 1e3
    return who, row["batch"], *ms, row["speedup"], 100 * row["efficiency"], device
