"""Wall-clock times: an epoch, the time to 99 % accuracy, five seeds, a cold start.

    rows = train_sides(["epoch"], "fp32", "cuda")
    rows = time_cold_starts("fp32", "cuda")

    epoch    one epoch at batch 64, with shuffling and evaluation
    target   the shortest known schedule that reaches 99 %
    seeds    three epochs, for the accuracy over five seeds
    cold     from the start of a process to the end of its first epoch

Both sides take turns with the same weights, image orders, batches and learning rates.
us is the median over whole trainings: shuffling, all steps and the final evaluation.
The first training compiles and captures, so only time_cold_starts() times it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ...base.device import checked_device
from ...base.errors import DeviceLost
from ...mnist import data
from ...mnist.data import epoch_order
from ...mnist.rungs import VENDOR, impl_of, parse_twin, rungs_of, trainer
from ...mnist.rungs import rungs as list_rungs
from ...mnist.trainer import EVALUATION_BATCH
from ...mnist.twin import TwinTrainer
from ...mnist.weights import initial_weights
from ...timing import device_name, summarize
from ...timing.clocks import WallTimer
from ...timing.race import Contender, race
from ...timing.results import add_torch_ratios, first_line, stamp_row
from ...toolchain import native
from .race import Row, Say, child_environment, twins_of

PIECE = 64  # number of steps between changes of the learning rate


@dataclass(frozen=True)
class Schedule:
    """A schedule, which both sides use. peak: the highest learning rate; see rate()."""

    epochs: int
    batch: int
    peak: float
    one_cycle: bool = False

    def rate(self, done: float) -> float:
        """Return the learning rate after `done`, a share (0 to 1) of all steps.

        The rate is constant or follows one cycle. In a cycle, it rises linearly from
        peak / 5 in the first quarter, then falls to 0 (Smith and Topin, arXiv
        1708.07120).
        """
        if not self.one_cycle:
            return self.peak
        rise = 0.25
        if done < rise:
            return self.peak * (0.2 + 0.8 * done / rise)
        return self.peak * (1 - done) / (1 - rise)

    def pieces(self, count: int) -> Iterator[tuple[int, int, int, float]]:
        """Yield (epoch, first image, end, learning rate) of `count` images in order."""
        steps = count // self.batch
        length = PIECE if self.one_cycle else steps
        for epoch in range(self.epochs):
            for first in range(0, steps, length):
                end = min(first + length, steps)
                share = (epoch * steps + (first + end) / 2) / (self.epochs * steps)
                yield epoch, first * self.batch, end * self.batch, self.rate(share)


EPOCH = Schedule(epochs=1, batch=64, peak=0.1)
# The shortest schedule that reached 99 % for every seed, in a search on an H200.
TARGET = Schedule(epochs=2, batch=64, peak=0.2, one_cycle=True)
SEEDS = Schedule(epochs=3, batch=64, peak=0.1)
SCHEDULES = {"epoch": EPOCH, "target": TARGET, "seeds": SEEDS}


# ---- training ------------------------------------------------------------------


class Ours:
    """One of our rungs, ready for training from given weights."""

    def __init__(
        self, rung: str, schedule: Schedule, device: torch.device,
        train: data.Split, test: data.Split,
    ):  # fmt: skip
        max_batch = max(schedule.batch, EVALUATION_BATCH)
        self.cnn = trainer(rung, device, max_batch=max_batch)
        self.cnn.data(train, test)
        self.batch = schedule.batch
        self.row = {"impl": impl_of(rung), "rung": rung, "layout": "nchw"}

    def start(self, weights: dict[str, np.ndarray]) -> None:
        self.cnn.set_weights(weights)

    def shuffle(self, order: np.ndarray) -> np.ndarray:
        return order

    def train(self, order: np.ndarray, lr: float) -> None:
        self.cnn.train(order, self.batch, lr)

    def accuracy(self) -> float:
        return self.cnn.evaluate()

    def close(self) -> None:
        self.cnn.close()


class Theirs:
    """A PyTorch twin, ready for training. For speed, it keeps no losses."""

    def __init__(
        self, name: str, precision: str, schedule: Schedule, device: torch.device,
        train: data.Split, test: data.Split,
    ):  # fmt: skip
        rung, _, layout = name.partition(" ")
        options = {"rung": rung, "layout": layout or "nchw", "precision": precision}
        options |= {"device": device, "batch": schedule.batch}
        self.twin = TwinTrainer(initial_weights(0), train, **options)
        arrays = test.images, test.labels
        self.images, self.labels = (torch.tensor(x, device=device) for x in arrays)
        self.row = {"impl": "torch", "rung": rung, "layout": self.twin.layout}

    def start(self, weights: dict[str, np.ndarray]) -> None:
        self.twin.set_weights(weights)

    def shuffle(self, order: np.ndarray) -> torch.Tensor:
        return self.twin.order(order)

    def train(self, order: torch.Tensor, lr: float) -> None:
        self.twin.set_lr(lr)
        with self.twin.mode():
            self.twin.queue(order)

    def accuracy(self) -> float:
        return float((self.twin.classes(self.images) == self.labels).float().mean())

    def close(self) -> None:
        pass


Side = Ours | Theirs


def train_sides(
    measures: Sequence[str],
    precision: str,
    device: str,
    *,
    rungs: Sequence[str] | None = None,
    twins: Sequence[str] | None = None,
    count: int = 5,
    train: data.Split | None = None,
    test: data.Split | None = None,
    say: Say = print,
) -> list[Row]:
    """Train every side with the seeds 0 to count-1, on each schedule in `measures`.

    rungs: names of our rungs; None: the fastest for `precision`. twins: names of
    PyTorch's twins; None: all that can be the fastest. Returns a row for each schedule
    and side, ours first. test_accuracies has one value per seed; test_accuracy is their
    mean.
    """
    where = checked_device(device)
    train, test = train or data.load("train"), test or data.load("test")
    torch.compiler.reset()
    rows = []
    with native.on_device(where), contextlib.ExitStack() as stack:
        # Schedules with the same batch size share their sides.
        sides: dict[int, list[Side]] = {}
        for measure in measures:
            schedule = SCHEDULES[measure]
            if schedule.batch not in sides:
                shared = precision, schedule, where, train, test
                makers = _list_makers(*shared, rungs, twins)
                sides[schedule.batch] = _make_sides(makers, schedule, train, stack, say)
            current = sides[schedule.batch]
            say(f"{measure}: {precision}, {count} times on {len(current)} sides")
            if current:
                rows += _race_sides(measure, precision, where, current, train, count)
    return rows


def _make_sides(
    makers: Iterable[tuple[str, Callable[[], Side]]],
    schedule: Schedule,
    train: data.Split,
    stack: contextlib.ExitStack,
    say: Say,
) -> list[Side]:
    """Make every side that this machine supports; train each for an untimed epoch."""
    sides: list[Side] = []
    for name, make in makers:
        try:
            say(f"making {name}")
            side = make()
            stack.callback(side.close)
            side.start(initial_weights(0))
            _train(side, replace(schedule, epochs=1), train, 0)
            sides.append(side)
        except DeviceLost:
            raise
        except Exception as error:
            say(f"absent: {name}: {first_line(error)}")
    return sides


def _list_makers(
    precision: str, schedule: Schedule, where: torch.device,
    train: data.Split, test: data.Split,
    rungs: Sequence[str] | None, twins: Sequence[str] | None,
) -> Iterator[tuple[str, Callable[[], Side]]]:  # fmt: skip
    shared = schedule, where, train, test
    for name in _select_rungs(rungs, precision, where, schedule.batch):
        yield f"weft {name}", functools.partial(Ours, name, *shared)
    if twins is None:
        kinds = {name: parse_twin(name.partition(" ")[0]) for name in twins_of(where)}
        # At this batch PyTorch's compiled rungs win on a GPU, its eager ones on a CPU.
        on_gpu = where.type == "cuda"
        twins = [name for name, kind in kinds.items() if bool(kind.compiled) == on_gpu]
    for name in twins:
        yield f"PyTorch {name}", functools.partial(Theirs, name, precision, *shared)


def _select_rungs(
    names: Sequence[str] | None, precision: str, where: torch.device, batch: int
) -> list[str]:
    """Return the named rungs that train in the precision; None: the fastest rung."""
    if names is None:
        usual = rungs_of(precision, where, batch)
        return [name for name in usual if name != VENDOR][-1:]
    precisions = {rung.name: rung.precision for rung in list_rungs(where.type)}
    return [name for name in names if precisions.get(name, precision) == precision]


def _train(side: Side, schedule: Schedule, train: data.Split, seed: int) -> float:
    """Run one training from the current weights; return its accuracy."""
    shuffled: dict[int, Any] = {}
    for epoch, first, end, lr in schedule.pieces(len(train)):
        if epoch not in shuffled:
            order = epoch_order(seed, epoch, len(train), schedule.batch)
            shuffled = {epoch: side.shuffle(order)}
        side.train(shuffled[epoch][first:end], lr)
    return side.accuracy()  # this call waits for all steps


def _race_sides(
    measure: str, precision: str, where: torch.device,
    sides: list[Side], train: data.Split, count: int,
) -> list[Row]:  # fmt: skip
    """Train every side with each seed; return a row for each side."""
    schedule = SCHEDULES[measure]
    accuracies: list[list[float]] = [[] for _ in sides]

    # Every side starts with the weights of this training's seed.
    def begin(number: int) -> None:
        sides[number].start(initial_weights(len(accuracies[number])))

    def finish(number: int, seed: int) -> None:
        accuracies[number].append(_train(sides[number], schedule, train, seed))

    contenders = {
        str(number): Contender(
            functools.partial(finish, number),
            **{"before": functools.partial(begin, number), "calls": 1, "lead": False},
        )
        for number in range(len(sides))
    }
    timed = race(contenders, where, WallTimer(where), rounds=count)
    rows = []
    for side, results, timed_side in zip(sides, accuracies, timed.values()):
        timing = replace(timed_side.timing, timer="perf_counter")
        row = {"op": "mnist", "measure": measure, **side.row, "precision": precision}
        row |= {"target": where.type, "device": device_name(where), **timing.row()}
        row |= {"batch": schedule.batch, "epochs": schedule.epochs}
        row |= {"lr": schedule.peak, "one_cycle": schedule.one_cycle}
        row |= {"samples": count, "test_accuracies": results}
        row |= {"test_accuracy": float(np.mean(results))}
        rows.append(row | {"threads": torch.get_num_threads(), **stamp_row()})
    add_torch_ratios(rows)
    return rows


# ---- a cold start ----------------------------------------------------------------

_COLD = """
import sys, time
at = [time.perf_counter()]
from weft.mnist import Cnn, epoch_order, initial_weights, load
at.append(time.perf_counter())
count = int(sys.argv[3])
train, test = load("train").first(count), load("test")
at.append(time.perf_counter())
cnn = Cnn(sys.argv[1] or None, sys.argv[2])
cnn.data(train, test)
cnn.set_weights(initial_weights(0))
cnn.train(epoch_order(0, 0, len(train), 64)[:64], 64, 0.1)
cnn.synchronize()
at.append(time.perf_counter())
cnn.train(epoch_order(0, 0, len(train), 64), 64, 0.1)
accuracy = cnn.evaluate()
at.append(time.perf_counter())
import json
print(json.dumps({"accuracy": accuracy, "at": at, "torch": "torch" in sys.modules}))
"""
COLD_PARTS = ("start", "import", "data", "open", "epoch", "end")


def time_cold_starts(
    precision: str,
    device: str,
    *,
    rungs: Sequence[str] | None = None,
    count: int = 60_000,
    runs: int = 3,
    say: Say = print,
    **_: Any,
) -> list[Row]:
    """Time new processes that train and evaluate one epoch; return a row per rung.

    count: number of images; runs: number of timed processes, run in sequence. us is the
    time of a whole process. An untimed run first builds the library into the cache.
    parts_s, in seconds: the interpreter's start; the imports; the data; opening the
    library and the CUDA context, with the first step, which captures the graph; the
    epoch with its evaluation; and the process's end. imports_torch: whether the process
    imported PyTorch.
    """
    where = checked_device(device)
    rows = []
    for rung in _select_rungs(rungs, precision, where, EPOCH.batch):
        say(f"cold: weft {rung}")
        program = [sys.executable, "-c", _COLD, rung, device, str(count)]
        outputs = []
        for _ in range(1 + runs):
            start = time.perf_counter()  # every process reads this same clock
            how = {"capture_output": True, "text": True, "env": child_environment()}
            process = subprocess.run(program, **how)
            end = time.perf_counter()
            if process.returncode:
                say(f"absent: weft {rung}: {process.stderr.strip().splitlines()[-1]}")
                break
            report = json.loads(process.stdout.splitlines()[-1])
            outputs.append(report | {"spans": np.diff([start, *report["at"], end])})
        if len(outputs) <= runs:
            continue
        timed_runs = outputs[1:]
        us = [1e6 * run["spans"].sum() for run in timed_runs]
        timing = summarize(us, "perf_counter")
        spans = np.median([run["spans"] for run in timed_runs], axis=0)
        row = {"op": "mnist", "measure": "cold", "impl": impl_of(rung), "rung": rung}
        row |= {"layout": "nchw", "precision": precision, "target": where.type}
        row |= {"device": device_name(where), **timing.row()}
        row |= {"batch": EPOCH.batch, "samples": runs}
        row |= {"parts_s": dict(zip(COLD_PARTS, spans.tolist()))}
        row |= {"imports_torch": timed_runs[0]["torch"]}
        row |= {"test_accuracy": timed_runs[0]["accuracy"], **stamp_row()}
        rows.append(row)
    return rows
