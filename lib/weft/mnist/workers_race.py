"""Run the steps of several workers, and time them against PyTorch's DDP.

Exchange runs a step in which the workers add their gradients. WorkerRace times it in
turns with one worker alone, and with DdpTwin: PyTorch's twin under
DistributedDataParallel, with the same backend and the same threads.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.errors import ArgumentError
from ..base.progress import PATIENCE
from ..timing.results import first_line, summarize
from ..timing.timers import SLOWEST
from . import data
from .rungs import Config
from .train import BLOCK, Race
from .trainer import EVALUATION_BATCH, Trainer
from .workers import Place, WorkerError, Workers

if TYPE_CHECKING:
    from .twin import TwinTrainer

CHUNK = 0.2  # seconds of training between two updates of the progress
EXCHANGES = 20  # exchanges that are timed alone
DDP = ("eager+nobias",)  # rungs of PyTorch's twin that DDP trains; config.twins: others


class Exchange:
    """Adds a model's gradients over all workers while the model computes them."""

    def __init__(self, model: Trainer, workers: Workers, config: Config):
        self.model, self.workers = model, workers
        self.is_global = config.batchnorm == "global"
        self.lr, self.is_wanted = config.lr, config.graph == "auto"
        self.is_graph = False  # whether run() launches a graph; see capture()
        self.waited = 0.0  # seconds in which this worker has only waited
        self.sizes: list[tuple[int, int]] = []  # of a step's parts: count and itemsize
        self.events: list[tuple[str, float, float]] | None = None  # of a traced step
        self.watchers: list[threading.Thread] = []  # one for each sum of that step

    def capture(self, images: np.ndarray, total: int) -> str:
        """Capture a step as a CUDA graph for run(); return why not, or "".

        Only NCCL's sums can be captured. Either all workers launch graphs or none does,
        as NCCL requires. images: this worker's, of `total` images, for a first step.
        """
        model, workers = self.model, self.workers
        if not self.is_wanted or workers.backend != "nccl" or workers.place.size == 1:
            return ""
        self.step(images, total)  # NCCL connects the workers in their first sums
        model.synchronize()
        problem = ""
        try:
            with open_stream(str(model.device)):
                options = {"total": total, "sync_batchnorm": self.is_global}
                model.record(len(images), **options)
                self._complete(time.perf_counter())
        except (RuntimeError, WorkerError) as error:
            problem = f"rank {workers.place.rank}: {first_line(error)}"
        problems = [text for text in workers.gather("graph", problem) if text]
        self.is_graph = not problems
        if problems:
            model.abandon()
        return "".join(problems[:1])

    def close(self) -> None:
        """Free the graph, which NCCL waits for at the end."""
        if self.is_graph:
            self.model.abandon()
            self.is_graph = False

    def run(self, parts: np.ndarray, total: int) -> None:
        """Run a step of all workers on each row of `parts`, which are this worker's."""
        if not self.is_graph:
            for images in parts:
                self.step(images, total)
            return
        self.model.replay(parts.ravel())
        if self.workers.pulse:
            self.workers.pulse.step += len(parts)

    def step(self, images: np.ndarray, total: int) -> None:
        """Run a step of all workers: `images` are this worker's, of `total` images."""
        if self.workers.place.size == 1:
            self.model.train(images, total, self.lr)
            return
        start = time.perf_counter()
        self.model.begin(images, total=total, sync_batchnorm=self.is_global)
        self._complete(start)
        if self.workers.pulse:
            self.workers.pulse.step += 1

    def _complete(self, start: float) -> None:
        """Run a step that began at the time `start` to its end, with its sums."""
        model, workers, clock = self.model, self.workers, time.perf_counter
        pending, sizes = [], []
        try:
            while (part := model.next()) is not None:
                start = self._note("compute", start)
                sizes.append((len(part), part.itemsize))
                work = workers.start_sum(part)
                if self.events is not None:
                    self._watch(work, f"send {len(part) * part.itemsize} bytes", start)
                if part.itemsize == 8:  # sums of batch norm, which next() requires
                    self._wait(work)
                else:
                    pending.append(work)
            start = self._note("compute", start)
            for work in pending:
                self._wait(work)
        except BaseException:
            model.abandon()
            raise
        start = clock()
        model.update(self.lr)
        self._note("update", start)
        self.sizes = sizes

    def _wait(self, work: Any) -> None:
        start = time.perf_counter()
        self.workers.wait(work)
        self.waited += time.perf_counter() - start
        self._note("wait", start)

    def _note(self, name: str, start: float) -> float:
        """Record an event of a traced step; return the time."""
        now = time.perf_counter()
        if self.events is not None:
            self.events.append((name, start, now))
        return now

    def _watch(self, work: Any, name: str, start: float) -> None:
        """Record when a sum is complete, or on a GPU queued, from another thread."""

        def wait() -> None:
            work.wait()
            self._note(name, start)

        self.watchers.append(threading.Thread(target=wait, daemon=True))
        self.watchers[-1].start()

    def trace(self, images: np.ndarray, total: int) -> list[tuple[str, float, float]]:
        """Run a step; return its events: name, start and end in perf_counter()'s s."""
        self.events, self.watchers = [], []
        self.step(images, total)
        self.model.synchronize()
        for watcher in self.watchers:  # step() has waited for their sums
            watcher.join()
        events, self.events = self.events, None
        return sorted(events, key=lambda event: event[1:])

    def time_alone(self) -> float:
        """Return the median time of a step's sums without computation, in µs."""
        import torch  # imported lazily: a single worker needs no PyTorch

        device, times = torch.device(str(self.model.device)), []
        dtypes = {4: torch.float32, 8: torch.float64}
        parts = [
            torch.zeros(count, device=device, dtype=dtypes[itemsize])
            for count, itemsize in self.sizes
        ]
        for _ in range(EXCHANGES):
            self.workers.barrier()
            start, pending = time.perf_counter(), []
            for part in parts:
                pending.append(self.workers.start_sum(part))
                if part.itemsize == 8:
                    self.workers.wait(pending.pop())
            for work in pending:
                self.workers.wait(work)
            self.model.synchronize()
            times.append(time.perf_counter() - start)
        return 1e6 * float(np.median(times))


def open_stream(device: str) -> contextlib.AbstractContextManager[Any]:
    """Return a context in which a new stream of a GPU is the current one."""
    if device == "cpu":
        return contextlib.nullcontext()
    import torch  # imported lazily: a single worker needs no PyTorch

    return torch.cuda.stream(torch.cuda.Stream(device))


class WorkerRace(Race):
    """A race that all workers run together; each has the same contenders."""

    place: Place
    workers: Workers
    exchange: Exchange
    chunk = 1  # steps between two updates of the progress

    def evaluate(self, count_right: Callable[[np.ndarray], int] | None = None) -> float:
        """Return the test set's accuracy; the workers take turns with its batches."""
        right, count = 0, len(self.test)
        firsts = range(0, count, EVALUATION_BATCH)[self.place.rank :: self.place.size]
        with self.bar("evaluating", len(firsts), "batches", delay=PATIENCE) as bar:
            for first in firsts:
                at = np.arange(first, min(first + EVALUATION_BATCH, count))
                if count_right:
                    right += count_right(at)
                else:
                    guesses = self.cnn.forward("test", at).argmax(axis=1)
                    right += int((guesses == self.test.labels[at]).sum())
                bar.update()
        return int(self.workers.sum(np.array([right], np.int64))[0]) / count

    # ---- timing --------------------------------------------------------------------

    def time_all(self, twins: dict[tuple[str, str], DdpTwin]) -> dict[Any, dict]:
        """Time our model, "ours", and the twins in turns; return a row for each.

        The blocks of a contender: all workers together; the leader alone, with its part
        of the batch; and, for our model, each worker apart without any exchange.
        """
        ours, config = self.cnn, self.config
        order, batch = self.order(config.epochs), config.batch
        whole = np.resize(order, BLOCK * batch)
        parts = whole.reshape(BLOCK, batch)[:, self.place.share(batch)]
        own = np.ascontiguousarray(parts).ravel()

        def together() -> None:
            self.exchange.run(parts, batch)

        def apart() -> None:
            ours.train(own, parts.shape[1], config.lr)

        blocks: dict[Any, Callable[[], None]] = {"ours": together}
        if self.place.size > 1:
            blocks |= {("ours", "alone"): apart, ("ours", "apart"): apart}
        for key, twin in twins.items():
            blocks |= {key: twin.block(own, True)}
            if self.place.size > 1:
                blocks |= {(key, "alone"): twin.block(own, False)}
        samples = self.take_turns(blocks)
        median = {key: float(np.median(us)) for key, us in samples.items()}
        exchange = self.time_exchange(whole[:batch], BLOCK * len(samples["ours"]))
        ours.losses()  # this discards the losses of the timed steps
        ours.set_weights(self.start)
        rows: dict[Any, dict[str, Any]] = {}
        for key in ("ours", *twins):
            timing = summarize(samples[key], "wall")
            if key == "ours":
                row = self.row("weft", ours.rung.name, ours.rung.precision, timing)
                row |= {"layout": "nchw", "peak_bytes": ours.bytes, **exchange}
                row |= {"apart_us": median.get(("ours", "apart"))}
            else:
                precision = ours.rung.precision
                row = self.row("torch", f"{key[0]} DDP", precision, timing)
                row |= {"layout": key[1], "peak_bytes": None}
            row |= {"steps": BLOCK, "parts_us": None, "parts_mean_us": None}
            row |= {"layers_us": None, "alone_us": median.get((key, "alone"))}
            row |= {"graph": key == "ours" and self.exchange.is_graph}
            rows[key] = row | self.describe_workers(row)
        self.chunk = max(1, int(CHUNK * 1e6 / rows["ours"]["us"]))
        self.chunk = self.workers.gather("chunk", self.chunk)[0]
        return rows

    def describe_workers(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the keys of a row that several workers have, and their efficiency.

        speedup: images per second of all workers, over those of one worker with its
        part of the batch.
        """
        size, batch = self.place.size, self.config.batch
        first = len(range(batch)[self.place.share(batch, 0)])
        speedup = None
        if row["alone_us"]:
            speedup = (batch / row["us"]) / (first / row["alone_us"])
        return {
            **{"workers": size, "backend": self.workers.backend},
            **{"machines": size // self.place.local_size},
            "batchnorm": self.config.batchnorm,
            **{"speedup": speedup, "efficiency": speedup and speedup / size},
        }

    def take_turns(self, blocks: dict[Any, Callable[[], None]]) -> dict[Any, list]:
        """Run the blocks in turns; return the times per step in µs, by name.

        The first round is not counted. All workers end after the same round.
        """
        samples: dict[Any, list[float]] = {name: [] for name in blocks}
        rounds, begin = 1 + -(-self.config.iterations // BLOCK), time.perf_counter()
        self.exchange.waited = 0.0
        with self.bar("timing steps", rounds, "rounds") as bar:
            for number in range(rounds):
                for name, block in blocks.items():
                    self.workers.barrier()
                    start = time.perf_counter()
                    if self.place.rank == 0 or name[1] != "alone":
                        block()
                    self.cnn.synchronize()
                    us = 1e6 * (time.perf_counter() - start) / BLOCK
                    samples[name] += [us]
                if number == 0:
                    samples = {name: [] for name in blocks}
                    self.exchange.waited = 0.0
                bar.update()
                late = time.perf_counter() - begin > SLOWEST * len(blocks)
                if number and self.workers.mean(late)[0] > 0:
                    break
        return samples

    def time_exchange(self, batch: np.ndarray, steps: int) -> dict[str, Any]:
        """Return the keys on the sums of a step, with a timeline of one step.

        collective_us: the sums alone. waited_us: the time of a timed step in which the
        worker waits, the mean over the workers. hidden_us: the rest of collective_us,
        which passes while the worker computes. On a GPU, both are None. steps: the
        number of timed steps.
        """
        names = ("collective_us", "waited_us", "hidden_us", "sent_bytes", "timeline")
        if self.place.size == 1:
            return dict.fromkeys(names)
        exchange = self.exchange
        waited: float | None
        hidden: float | None
        waited = self.workers.mean(1e6 * exchange.waited / steps)[0]
        alone = self.workers.mean(exchange.time_alone())[0]
        own = batch[self.place.share(len(batch))]
        self.workers.barrier()
        events = self.workers.gather("timeline", exchange.trace(own, len(batch)))
        begin = min(event[1] for part in events for event in part)
        timeline = [
            {
                **{"rank": rank, "name": name},
                **{"start_us": 1e6 * (start - begin), "end_us": 1e6 * (end - begin)},
            }
            for rank, part in enumerate(events)
            for name, start, end in part
        ]
        size = sum(count * itemsize for count, itemsize in exchange.sizes)
        hidden = max(0.0, alone - waited)
        if self.device.type == "cuda":  # there, a stream waits, not this process
            waited = hidden = None
        return dict(zip(names, (alone, waited, hidden, size, timeline)))

    # ---- PyTorch ---------------------------------------------------------------------

    def make_ddp(self) -> dict[tuple[str, str], DdpTwin]:
        """Create the twins that PyTorch's DDP trains; record why others are missing."""
        from .twin import LAYOUTS  # this module imports PyTorch

        twins: dict[tuple[str, str], DdpTwin] = {}
        is_global = self.config.batchnorm == "global" and self.place.size > 1
        if is_global and self.device.type != "cuda":
            self.absent["torch DDP"] = "PyTorch's SyncBatchNorm needs GPUs"
            return twins
        names = self.config.twins or [
            f"{r} {layout}" for r in DDP for layout in LAYOUTS
        ]
        for name in names:
            rung, _, layout = name.partition(" ")
            try:
                twins[rung, layout] = DdpTwin(self, rung, layout)
            except ArgumentError as error:
                self.absent[f"torch DDP {name}"] = first_line(error)
        return twins


class DdpTwin:
    """PyTorch's twin under DistributedDataParallel, and a second one without it."""

    def __init__(self, race: WorkerRace, rung: str, layout: str):
        from torch.nn import SyncBatchNorm
        from torch.nn.parallel import DistributedDataParallel

        from .twin import TwinTrainer  # this module imports PyTorch

        config, place = race.config, race.place
        self.share = len(range(config.batch)[place.share(config.batch)])
        kind: dict[str, Any] = {"rung": rung, "layout": layout, "lr": config.lr}
        kind |= {"device": race.device, "batch": self.share}
        kind |= {"precision": race.cnn.rung.precision}
        make: Callable[[], TwinTrainer]
        make = lambda: TwinTrainer(race.start, race.train, **kind)  # noqa: E731
        self.alone, self.twin = make(), make()
        self.module = self.twin.model
        if place.size > 1:
            if config.batchnorm == "global":  # on GPUs; not measured yet
                self.module = SyncBatchNorm.convert_sync_batchnorm(self.module)
            # The module has no buffers, so DDP broadcasts none.
            options = {"gradient_as_bucket_view": True}
            self.twin.model = DistributedDataParallel(self.module, **options)

    def block(self, own: np.ndarray, together: bool) -> Callable[[], None]:
        """Return a function that runs the steps on the images `own` of this worker."""
        twin = self.twin if together else self.alone
        order = twin.order(own)

        def run() -> None:
            with twin.mode():
                twin.queue(order)

        return run

    def train(self, race: WorkerRace) -> dict[str, Any]:
        """Train for all epochs with DDP; return the results for a row."""
        import torch

        config, place = race.config, race.place
        batch, twin, wrapped = config.batch, self.twin, self.twin.model

        def set_model(model: Any) -> None:
            twin.model = model

        def epoch(order: np.ndarray) -> Iterator[np.ndarray]:
            own = order.reshape(-1, batch)[:, place.share(batch)].ravel()
            for part in twin.order(own).split(race.chunk * self.share):
                losses = torch.stack(twin.train(part)).cpu().numpy()
                losses = losses.astype(np.float64) * self.share / batch
                yield race.workers.sum(losses).astype(np.float32)

        def count_right(at: np.ndarray) -> int:
            part = data.Split(race.test.images[at], race.test.labels[at])
            return int((twin.predict(part) == part.labels).sum())

        def evaluate() -> float:
            # In this mode, SyncBatchNorm does not wait for the other workers, which
            # evaluate other batches. Without running statistics, it changes nothing
            # else.
            set_model(self.module.eval())
            try:
                return race.evaluate(count_right)
            finally:
                self.module.train()
                set_model(wrapped)

        set_model(self.module)
        twin.set_weights(race.start)
        set_model(wrapped)
        return race.train_epochs(f"PyTorch DDP {twin.rung}", epoch, evaluate)
