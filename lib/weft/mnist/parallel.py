"""Data-parallel training: each worker computes the gradients of its part of a batch.

    torchrun --nproc-per-node 2 -m weft mnist --batch 64        run(Config(batch=64))

All workers have the same weights and the whole training set. A step computes the sum of
the gradients over the worker's images, divided by the size of the whole batch. Adding
these sums over the workers gives the gradient of the mean loss, however uneven the
parts are. All workers get the same bits of the sum, so they stay equal without ever
comparing their weights; Training.check_equal() verifies this.

The gradients become final in the order of the backward pass: first those of the linear
layers, which are 95 % of them. Exchange sends them while the convolutions' gradients
are computed. gloo adds each part of an array in the order of a ring, which depends only
on the number of workers and on the size. So does NCCL, for a given version, topology
and number of channels (not measured).
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..base import device as devices
from ..base.errors import ArgumentError, BuildError, KernelError
from ..timing.results import add_torch_ratios
from ..toolchain import keys, native
from . import data
from .rungs import LADDER, Config
from .train import Result
from .weights import (
    Checkpoint,
    check_weights,
    hash_arrays,
    list_checkpoints,
    read_checkpoints,
    write_checkpoint,
)
from .workers import (
    LOST,
    PeerLost,
    Place,
    WorkerError,
    Workers,
    is_worker,
    join,
    read_place,
    refuse,
)
from .workers_race import Exchange, WorkerRace

# Options that may differ between the workers, since each has its own files and cores.
OWN_OPTIONS = {"device", "threads", "load", "save", "checkpoint", "progress"}
# Options with which a run may continue from another run's checkpoint.
LASTING = ("batch", "lr", "seed", "batchnorm")


def run(config: Config) -> Result | None:
    """Time and train with all workers; return the result in rank 0, None in others.

    config.batch is the whole batch. Each worker first checks what it was given, and all
    must agree; otherwise rank 0 raises ArgumentError. If another worker ends or hangs,
    this process ends, too. After Ctrl-C, the weights are in config.save.
    """
    place, training, problem, facts = read_place(), None, "", {}
    config = replace(config, progress=config.progress and place.rank == 0)
    is_gpu = str(config.device).startswith("cuda")
    with contextlib.ExitStack() as stack:
        stack.callback(native.set_threads, native.set_threads(config.threads))
        if is_worker():  # the agent ends workers by SIGTERM, at a restart for example
            signal.signal(signal.SIGTERM, _end)
        try:
            training = Training(_own_config(config, place), place)
            facts = training.list_facts(config) if is_worker() else {}
        except (ArgumentError, data.DataError, BuildError, KernelError) as error:
            problem = str(error)
        backend = "nccl" if is_gpu else "gloo"
        try:
            with join(place, facts, problem, config.timeout, backend) as workers:
                assert training
                with native.on_device(training.device):
                    result = training.run_with(workers)
            return result if place.rank == 0 else None
        except PeerLost:
            # The launcher reports the worker that has ended; this one is not at fault.
            _exit_at_once(LOST)
        except WorkerError as error:
            if not is_worker():
                raise
            print(f"weft mnist: {error}", file=sys.stderr)
            _exit_at_once(1)
        except Terminated:
            _exit_at_once(128 + signal.SIGTERM)
        except KeyboardInterrupt as stop:
            if not is_worker():
                raise
            if place.rank == 0 and str(stop):  # the agent reports the rest
                print(f"weft mnist: {stop}", file=sys.stderr)
            _exit_at_once(128 + signal.SIGINT)


class Terminated(BaseException):
    """The agent has ended this worker."""


def _end(*_: object) -> None:
    raise Terminated


def _exit_at_once(status: int) -> None:
    """End this worker without waiting for collectives that nobody will complete."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _own_config(config: Config, place: Place) -> Config:
    """Return the options of one worker; raise ArgumentError if they do not fit."""
    check_config(config, place.size, place.local_size)
    threads = config.threads
    if place.local_size > 1:
        threads = choose_threads(config, place.local_size)
    native.set_threads(threads)
    device = config.device
    if place.local_size > 1 and str(device) == "cuda":
        device = f"cuda:{place.local_rank}"
    if config.compare or place.size > 1:
        import torch  # imported lazily: a single worker needs no PyTorch

        torch.set_num_threads(threads or devices.count_threads())
        if str(device).startswith("cuda"):
            torch.cuda.set_device(torch.device(device))
    return replace(config, device=device, threads=threads)


def choose_threads(config: Config, local_size: int) -> int:
    """Return a worker's threads: by default, its part of this machine's cores."""
    return config.threads or max(1, devices.count_cores() // local_size)


def check_config(config: Config, size: int, local_size: int) -> None:
    """Raise ArgumentError if `size` workers, local_size of them here, cannot train."""
    if size > config.batch:
        raise ArgumentError(
            f"batch={config.batch}: expected at least {size}, an image for each worker"
        )
    if len(config.rungs) > 1 or config.rungs == [LADDER]:
        raise ArgumentError(f"rung={config.rung}: workers train one rung")
    device = str(config.device)
    if device.startswith("cuda"):
        gpus = devices.count()
        if local_size > gpus:
            raise ArgumentError(f"{local_size} workers: this machine has {gpus} GPUs")
        if local_size > 1 and device != "cuda":
            raise ArgumentError(f"device={device}: with workers, expected cuda or cpu")
    if config.checkpoint and not config.resume and not is_worker():
        check_new(config)


def check_new(config: Config) -> None:
    """Raise ArgumentError if the folder of a new run contains checkpoints."""
    for path in list_checkpoints(Path(config.checkpoint or ""))[:1]:
        raise ArgumentError(
            f"checkpoint={config.checkpoint} contains {path.name}: "
            "add --resume to continue from it, or name another folder"
        )


class Training(WorkerRace):
    """One worker's part of a run: its model, the timing, the training."""

    def __init__(self, config: Config, place: Place):
        train, test = data.load("train").first(config.limit), data.load("test")
        super().__init__(config, train, test)
        self.place = place
        self.steps = len(train) // config.batch  # of an epoch
        if place.size > 1:
            if not hasattr(self.cnn, "begin"):
                raise ArgumentError(f"rung {self.cnn.rung.name} trains with one worker")
            # This raises the error of a rung without global batch norm.
            is_global = config.batchnorm == "global"
            self.cnn.begin([0], total=config.batch, sync_batchnorm=is_global)
            self.cnn.abandon()

    def list_facts(self, config: Config) -> dict[str, Any]:
        """Return what must be equal in all workers, by name."""
        import torch  # imported lazily: a single worker needs no PyTorch

        options = {n: v for n, v in vars(config).items() if n not in OWN_OPTIONS}
        images = {"training images": self.train, "test images": self.test}
        sets = {n: hash_arrays([s.images, s.labels]) for n, s in images.items()}
        sources = keys.hash_sources("mnist", "kernels/mnist", "kernels/weft.h")[:16]
        return {
            **{"PyTorch": torch.__version__, "sources of the CNN": sources},
            **{name.replace("_", "-"): str(value) for name, value in options.items()},
            **{"device": self.device.type, "workers": self.place.size},
            **{"layout of the gradients": getattr(self.cnn, "layout", "")},
            **sets,
            "initial weights": hash_arrays(self.start.values()),
        }

    def run_with(self, workers: Workers) -> Result:
        """Time and train with the workers."""
        self.workers = workers
        self.exchange = Exchange(self.cnn, workers, self.config)
        if workers.backend == "gloo" and (note := describe_crowd(self.place)):
            self.remark(note)
        first = self.order(0)[: self.config.batch][self.place.share(self.config.batch)]
        if problem := self.exchange.capture(first, self.config.batch):
            self.remark(f"each kernel of a step is launched alone: {problem}")
        checkpoint = self.resume()
        twins = self.make_ddp() if self.config.compare else {}
        rows = self.time_all(twins)
        rows["ours"] |= self.train_from(checkpoint)
        # All workers must select the same twin, but their times differ a little.
        times = {str(key): rows[key]["us"] for key in twins}
        times = workers.gather("times", times)[0]
        for key in sorted(twins, key=lambda key: times[str(key)])[:1]:
            rows[key] |= twins[key].train(self)
        self.exchange.close()
        add_torch_ratios([*rows.values()])
        return Result(self.config, self.cnn, [*rows.values()], self.absent)

    # ---- checkpoints ---------------------------------------------------------------

    @functools.cached_property
    def facts(self) -> dict[str, Any]:
        """What a continued run must have in common with this one."""
        facts = {name: getattr(self.config, name) for name in LASTING}
        training_set = hash_arrays([self.train.images, self.train.labels])
        return facts | {"training images": len(self.train), "data": training_set}

    def resume(self) -> Checkpoint:
        """Return the newest checkpoint, in all workers, or the start of a new run.

        The leader reads it, so only one machine needs the folder.
        """
        start = Checkpoint(0, self.start, self.facts, np.empty(0, np.float32), [], [])
        config, workers = self.config, self.workers
        if not config.checkpoint:
            return start
        problem, packed, step = "", b"", 0
        # Restarted workers continue from the checkpoints of their own run.
        continues = config.resume or workers.restarts
        if workers.leads:
            try:
                if continues:
                    packed, step = self._read_newest()
                else:
                    check_new(config)
            except ArgumentError as error:
                problem = str(error)
        problem = workers.gather("resume", problem)[0]
        if problem:
            refuse(self.place, problem)
        packed = workers.share_bytes("checkpoint", packed)
        again = "a worker ended: " * bool(workers.restarts)
        if not continues:
            return start
        if not packed:
            self.remark(f"{again}no checkpoint yet; training begins at step 0")
            return start
        self.remark(f"{again}training continues after step {step}")
        return Checkpoint.unpack(packed, "the shared checkpoint")

    def _read_newest(self) -> tuple[bytes, int]:
        """Return the newest intact checkpoint and its step; b"" if there is none."""
        for path, packed in read_checkpoints(Path(self.config.checkpoint)):
            try:
                checkpoint = Checkpoint.unpack(packed, str(path))
            except ArgumentError as error:
                self.remark(f"{error}; the previous one is used")
                continue
            check_weights(checkpoint.weights, self.cnn.shapes, str(path))
            checkpoint.check(self.facts, str(path))
            if checkpoint.step > self.steps * self.config.epochs:
                raise ArgumentError(
                    f"{path}: {self.config.epochs} epochs have "
                    f"{self.steps * self.config.epochs} steps; add --epochs"
                )
            return packed, checkpoint.step
        return b"", 0

    def write(self, state: Checkpoint) -> None:
        """Write a checkpoint, in the leader."""
        if self.config.checkpoint and self.workers.leads:
            folder = Path(self.config.checkpoint)
            folder.mkdir(parents=True, exist_ok=True)
            state.weights = self.cnn.weights
            write_checkpoint(folder, state)

    def check_equal(self) -> None:
        """Raise an error if the workers' weights differ."""
        own = hash_arrays(self.cnn.weights.values())
        hashes = self.workers.gather("weights", own)
        for rank, digest in enumerate(hashes):
            if digest != hashes[0]:
                refuse(self.place, f"the weights of ranks 0 and {rank} differ")

    # ---- training ------------------------------------------------------------------

    def train_from(self, state: Checkpoint) -> dict[str, Any]:
        """Train from a checkpoint to the last epoch; return the results for a row."""
        config, done = self.config, False
        self.cnn.set_weights(state.weights)
        try:
            for epoch in range(state.step // self.steps, config.epochs):
                self.evaluate_missing(state, epoch)
                self.train_epoch(state, epoch)
            self.evaluate_missing(state, config.epochs)
            done = True
        except KeyboardInterrupt as stop:
            note = config.save and f"The weights are in {config.save}."
            raise KeyboardInterrupt(f"{stop} {note or ''}".strip()) from None
        finally:
            if config.save and self.place.rank == 0:
                self.cnn.save(config.save)
        if done:
            self.check_equal()
        right = state.accuracies or [self.evaluate()]
        return {
            "epoch_s": float(np.mean(state.seconds)) if state.seconds else None,
            "epochs_s": state.seconds,
            **{"test_accuracy": right[-1], "test_accuracies": state.accuracies},
            "losses": state.losses.tolist(),
        }

    def evaluate_missing(self, state: Checkpoint, epochs: int) -> None:
        """Evaluate after the last complete epoch, unless the checkpoint has that."""
        if len(state.accuracies) < epochs:
            state.accuracies.append(self.evaluate())
            right = f"{100 * state.accuracies[-1]:.2f} % correct on the test set"
            self.remark(f"epoch {epochs}: {right}")

    def train_epoch(self, state: Checkpoint, epoch: int) -> None:
        """Train to the end of an epoch, and write the checkpoints that are due."""
        config, batch = self.config, self.config.batch
        order, first = self.order(epoch), state.step - epoch * self.steps
        if first == 0:
            state.seconds.append(0.0)
        title = f"{self.cnn.rung.name}, {self.place.size} workers, "
        title += f"epoch {epoch + 1}/{config.epochs}"
        with self.bar(title, len(order), "images") as bar:
            bar.update(first * batch)
            while first < self.steps:
                start = time.perf_counter()
                due = config.checkpoint_every - state.step % config.checkpoint_every
                count = min(self.chunk, self.steps - first, due)
                losses = self.train_steps(order[first * batch :], count)
                state.losses = np.concatenate([state.losses, losses])
                state.step, first = state.step + count, first + count
                state.seconds[-1] += time.perf_counter() - start
                is_last = first == self.steps and epoch + 1 == config.epochs
                if count == due or is_last:
                    self.write(state)
                bar.update(count * batch, f"loss {losses.mean():.3f}")

    def train_steps(self, order: np.ndarray, count: int) -> np.ndarray:
        """Train on the next `count` batches; return the losses of all workers."""
        batch = self.config.batch
        own = order[: count * batch].reshape(count, batch)[:, self.place.share(batch)]
        self.exchange.run(own, batch)
        losses = self.cnn.losses().astype(np.float64)
        return self.workers.sum(losses).astype(np.float32)


def describe_crowd(place: Place) -> str:
    """Return a warning if this machine has more workers than cores, else ""."""
    cores = devices.count_cores()
    if place.local_size <= cores:
        return ""
    return f"{place.local_size} workers share {cores} cores, so each is slower"
