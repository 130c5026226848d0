"""Train the CNN with our kernels and, on request, race PyTorch.

    result = run(Config(compare=True))
    result.rows            one row per contender, as in a file of results

Every contender starts from the same weights and uses the images in the same order.
First, all contenders are timed in turn. Then our models and the fastest eager twin are
trained for all epochs, one after another. A rung races against the twins of its own
precision.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.device import checked_device, count_threads
from ..base.errors import ArgumentError
from ..base.progress import PATIENCE, Progress, remark
from ..timing import Timing, device_name
from ..timing.race import Contender, race
from ..timing.results import add_torch_ratios, first_line
from ..timing.timers import SLOWEST, STEPS, count_steps
from ..toolchain import native
from . import data
from .data import epoch_order
from .rungs import LADDER, NUMBA, TWINS, Config, impl_of, list_ladder, trainer
from .trainer import EVALUATION_BATCH, Trainer
from .weights import initial_weights

if TYPE_CHECKING:
    import torch

    from .twin import TwinTrainer

PARTS = ("batch", "forward", "backward", "update", "zero")
BLOCK = 5  # steps in a sample on a CPU
SLOW = " (it may compile for a minute)"
SYNC_STEPS = 64  # steps between two reads of a twin's losses, when Ctrl-C also works


@dataclass
class Result:
    """The result of run(). rows: one per contender, as in a file of results.

    cnn: the trained model of the first requested rung. absent: by name, the reason why
    a contender is missing.
    """

    config: Config
    cnn: Trainer
    rows: list[dict[str, Any]]
    absent: dict[str, str] = field(default_factory=dict)


def run(config: Config) -> Result:
    """Time and train the contenders. After Ctrl-C, the weights are in config.save."""
    train, test = data.load("train").first(config.limit), data.load("test")
    with contextlib.ExitStack() as stack:
        stack.callback(native.set_threads, native.set_threads(config.threads))
        if config.compare:
            import torch  # imported lazily: the import takes seconds

            stack.callback(torch.set_num_threads, torch.get_num_threads())
            torch.set_num_threads(_count_threads(config))
        race = Race(config, train, test)
        with native.on_device(race.device):
            return race.run()


class Race:
    """One run: our model, the twins, and their measurements."""

    def __init__(self, config: Config, train: data.Split, test: data.Split):
        if config.batch > len(train):
            raise ArgumentError(
                f"batch={config.batch}: expected at most {len(train)}, the training "
                "images"
            )
        self.config, self.train, self.test = config, train, test
        names = config.rungs
        if names == [LADDER]:
            names = list_ladder(checked_device(config.device), config.batch)
        self.cnns = [self.make_ours(rung) for rung in names]
        self.cnn = self.cnns[0]
        self.device = self.cnn.device
        self.start = self.cnn.weights
        self.absent: dict[str, str] = {}

    def run(self) -> Result:
        twins = self.make_twins() if self.config.compare else {}
        rows = self.time(twins)
        for cnn in self.cnns:
            rows[_name(cnn)] |= self.train_ours(cnn)
        for name in _fastest_eager(rows, twins):
            rows[name] |= self.train_twin(twins[name])
        add_torch_ratios([*rows.values()])
        return Result(self.config, self.cnn, list(rows.values()), self.absent)

    def make_ours(self, rung: str) -> Trainer:
        """Create one of our models, with its data sets and initial weights."""
        config = self.config
        largest = max(config.batch, EVALUATION_BATCH)
        cnn = trainer(rung, config.device, max_batch=largest)
        if cnn.rung is NUMBA:
            self.remark(f"the kernels of rung {rung} are compiled at its first step")
        cnn.data(self.train, self.test)
        if config.load:
            cnn.load(config.load)
        else:
            cnn.set_weights(initial_weights(config.seed))
        return cnn

    # ---- twins ------------------------------------------------------------------

    def make_twins(self) -> dict[str, TwinTrainer]:
        """Create all twins that run here; record in `absent` why others are missing."""
        import torch

        from .twin import LAYOUTS, TwinTrainer  # this module imports PyTorch, too

        torch.compiler.reset()  # this drops the code that an earlier run compiled
        options = {"device": self.device, "batch": self.config.batch}
        options["lr"] = self.config.lr
        twins = {}
        precisions = dict.fromkeys(cnn.rung.precision for cnn in self.cnns)
        every = itertools.product(TWINS[self.device.type], LAYOUTS)
        names = self.config.twins or [" ".join(pair) for pair in every]
        for precision, name in itertools.product(precisions, names):
            rung, _, layout = name.partition(" ")
            name += "" if precision == "fp32" else f" {precision}"
            slow = SLOW if "compile" in rung else ""
            kind = {"rung": rung, "layout": layout, "precision": precision}
            with self.bar(f"preparing PyTorch {name}{slow}"):
                try:
                    twins[name] = TwinTrainer(self.start, self.train, **kind, **options)
                except Exception as error:  # torch.compile fails in many ways
                    self.absent[f"torch {name}"] = first_line(error)
        return twins

    # ---- time -------------------------------------------------------------------

    def time(self, twins: dict[str, TwinTrainer]) -> dict[str, dict[str, Any]]:
        """Return a row for each of our models and each twin, with the time per step."""
        order = self.order(self.config.epochs)  # training ends before this epoch
        blocks = {_name(cnn): self.our_block(cnn, order) for cnn in self.cnns}
        blocks |= {n: _twin_block(twin, twin.order(order)) for n, twin in twins.items()}
        rounds = -(-self.config.iterations // BLOCK)
        sizes = {name: self.block_of(run) for name, run in blocks.items()}
        for name, twin in twins.items():
            sizes[name] = twin.kind.fill_launch(sizes[name])
        contenders = {
            name: Contender(block=run, calls=sizes[name], limit=SLOWEST)
            for name, run in blocks.items()
        }
        with self.bar("timing steps", len(sizes) * rounds, "samples") as bar:
            results = race(contenders, self.device, rounds=rounds, tick=bar.update)
        timings = {name: timed.timing for name, timed in results.items()}
        rows = {}
        for cnn in self.cnns:
            name, rung = _name(cnn), cnn.rung
            impl = impl_of(rung.name)
            row = self.row(impl, rung.name, rung.precision, timings[name])
            rows[name] = row
            row |= {"layout": "nchw", "steps": sizes[name], "peak_bytes": cnn.bytes}
            profile = functools.partial(cnn.profile, lr=self.config.lr)
            row |= self.sections(profile, order, name)
            cnn.losses()  # this discards the losses of the timed steps
            cnn.set_weights(self.start)
        for name, twin in twins.items():
            row = self.row("torch", twin.rung, twin.precision, timings[name])
            rows[name] = row
            row |= {"layout": twin.layout, "steps": sizes[name]}
            row["peak_bytes"] = twin.peak_bytes
            # The sections of a compiled or captured step cannot be separated.
            row |= {"parts_us": None, "parts_mean_us": None, "layers_us": None}
            if _is_eager(twin):
                profile, indices = twin.profile, twin.order(order)
                row |= self.sections(profile, indices, f"PyTorch {name}")
        return rows

    def our_block(self, cnn: Trainer, order: np.ndarray) -> Callable[[int], None]:
        """Return a function that trains on the first n batches of `order`."""
        batch, lr = self.config.batch, self.config.lr
        longest = np.resize(order, STEPS[1] * batch)

        def run(steps: int) -> None:
            cnn.train(longest[: steps * batch], batch, lr)

        return run

    def block_of(self, run: Callable[[int], object]) -> int:
        """Return the number of steps in a sample: on a GPU, enough to hide queueing."""
        if self.device.type == "cuda":
            return count_steps(run, self.device)
        return BLOCK

    def sections(
        self, profile: Callable[[Any], dict[str, float]], order: Any, title: str
    ) -> dict[str, Any]:
        """Profile many steps; return parts_us (medians), parts_mean_us, layers_us."""
        batch, steps, warmup = self.config.batch, [], 3
        total = self.config.iterations + warmup
        with self.bar(f"timing sections, {title}", total, "steps") as bar:
            start = time.perf_counter()
            for number in range(total):
                if number > warmup and time.perf_counter() - start > SLOWEST / 2:
                    break
                first = number % (len(order) // batch) * batch
                steps.append(profile(order[first : first + batch]))
                bar.update()
        steps = steps[warmup:]
        parts = [_sum_parts(step) for step in steps]
        medians, passes = _summarize_steps(np.median, steps), ("forward.", "backward.")
        return {
            "parts_us": _summarize_steps(np.median, parts),
            "parts_mean_us": _summarize_steps(np.mean, parts),
            "layers_us": {n: us for n, us in medians.items() if n.startswith(passes)},
        }

    def row(self, impl: str, rung: str, precision: str, timing: Timing) -> dict:
        """Return a row; the values that training determines are still None."""
        trained = ("epoch_s", "epochs_s", "losses", "test_accuracy", "test_accuracies")
        return {
            **{"op": "mnist", "impl": impl, "rung": rung, "precision": precision},
            **{"target": self.device.type, "device": device_name(self.device)},
            # Each sample covers row["steps"] steps.
            **{**timing.row(), "samples": timing.samples},
            **{k: getattr(self.config, k) for k in ("batch", "epochs", "lr", "seed")},
            **{"threads": _count_threads(self.config), "images": len(self.train)},
            **dict.fromkeys(trained),
        }

    # ---- train ------------------------------------------------------------------

    def train_ours(self, cnn: Trainer) -> dict[str, Any]:
        def epoch(order: np.ndarray) -> Iterator[np.ndarray]:
            return cnn.chunks(order, self.config.batch, self.config.lr)

        def evaluate() -> float:
            # On a simulated rung, this takes minutes.
            title = f"{_name(cnn)}, evaluation"
            with self.bar(title, len(self.test), "images", delay=PATIENCE) as bar:
                return cnn.evaluate(progress=bar.update)

        save = self.config.save if cnn is self.cnn else None
        try:
            return self.train_epochs(_name(cnn), epoch, evaluate)
        except KeyboardInterrupt as stop:
            note = save and f"The weights are in {save}."
            raise KeyboardInterrupt(f"{stop} {note or ''}".strip()) from None
        finally:  # after Ctrl-C, these are the weights of the last full step
            if save:
                cnn.save(save)

    def train_twin(self, twin: TwinTrainer) -> dict[str, Any]:
        import torch

        twin.set_weights(self.start)

        def epoch(order: np.ndarray) -> Iterator[np.ndarray]:
            for part in twin.order(order).split(SYNC_STEPS * twin.batch):
                yield torch.stack(twin.train(part)).cpu().numpy()

        name = f"PyTorch {twin.rung} {twin.layout}"
        return self.train_epochs(name, epoch, lambda: twin.evaluate(self.test))

    def train_epochs(
        self,
        name: str,
        epoch: Callable[[np.ndarray], Iterator[np.ndarray]],
        evaluate: Callable[[], float],
    ) -> dict[str, Any]:
        """Train for all epochs and show the progress; return the results for a row."""
        losses: list[np.ndarray] = []
        seconds, accuracies = [], []
        for number in range(self.config.epochs):
            order = self.order(number)
            title = f"{name}, epoch {number + 1}/{self.config.epochs}"
            with self.bar(title, len(order), "images") as bar:
                start = time.perf_counter()
                for part in epoch(order):
                    losses.append(part)
                    bar.update(len(part) * self.config.batch, f"loss {part.mean():.3f}")
                seconds.append(time.perf_counter() - start)
                accuracies.append(evaluate())
                right = f"{100 * accuracies[-1]:.2f} % correct on the test set"
                bar.update(0, f"{bar.note}, {right}")
        return {
            "epoch_s": float(np.mean(seconds)) if seconds else None,
            "epochs_s": seconds,
            "test_accuracy": accuracies[-1] if accuracies else evaluate(),
            "test_accuracies": accuracies,
            "losses": np.concatenate(losses).tolist() if losses else [],
        }

    def order(self, epoch: int) -> np.ndarray:
        config = self.config
        return epoch_order(config.seed, epoch, len(self.train), config.batch)

    def bar(
        self, title: str, total: int = 0, unit: str = "", delay: float = 0
    ) -> Progress:
        quiet = not self.config.progress
        return Progress(title, total, unit, delay=delay, quiet=quiet)

    def remark(self, text: str) -> None:
        """Show a remark, unless progress is hidden."""
        if self.config.progress:
            remark(text)


def _name(cnn: Trainer) -> str:
    return f"weft {cnn.rung.name}"


def _twin_block(twin: TwinTrainer, order: torch.Tensor) -> Callable[[int], None]:
    """Return a function that runs n steps and discards their results."""
    longest = order.repeat(-(-STEPS[1] * twin.batch // len(order)))

    def run(steps: int) -> None:
        with twin.mode():
            twin.queue(longest[: steps * twin.batch])

    return run


def _is_eager(twin: TwinTrainer) -> bool:
    return not twin.kind.compiled and not twin.kind.graph


def _fastest_eager(rows: dict[str, Any], twins: dict[str, TwinTrainer]) -> list[str]:
    """Return the name of the fastest eager twin of each precision."""
    fastest: dict[str, str] = {}
    for name in sorted(twins, key=lambda name: rows[name]["us"]):
        if _is_eager(twins[name]):
            fastest.setdefault(twins[name].precision, name)
    return [*fastest.values()]


def _sum_parts(sections: dict[str, float]) -> dict[str, float | None]:
    """Sum the sections of each part in PARTS; a part without sections is None."""
    parts: dict[str, float | None] = dict.fromkeys(PARTS)
    for name, us in sections.items():
        part = name.partition(".")[0]
        parts[part] = (parts[part] or 0.0) + us
    return parts


def _summarize_steps(statistic: Callable[[Any], Any], steps: list[dict]) -> dict:
    """Return the statistic of each key over the steps; None stays None."""
    columns = {name: [step[name] for step in steps] for name in steps[0]}
    return {
        n: None if c[0] is None else float(statistic(c)) for n, c in columns.items()
    }


def _count_threads(config: Config) -> int:
    """Return the number of CPU threads for our kernels and for PyTorch."""
    return config.threads or count_threads()
