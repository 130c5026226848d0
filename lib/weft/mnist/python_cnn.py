"""The CNN trainer in Python: kernels from pykernel/bodies, memory from torch.

A runner makes each body run: numba_jit on a GPU; sim or cuda_c to look at a step on
a machine without one.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from ..base.errors import ArgumentError, OutOfMemory
from ..see.traces.timeline import nvtx_range
from ..timing.marks import Marks
from ..toolchain import native
from .data import MEAN, STD
from .python_step import KEPT, Launch, PythonStep, Runner
from .rungs import NUMBA
from .trainer import EVALUATION_BATCH, Trainer, checked_device

LEAST = {"height": 4, "width": 4, "classes": 2}  # of the other sizes 1


class PythonCnn(Trainer):
    """A model that the bodies train.

    runner: what makes a kernel of a body, numba_jit (None), sim, cuda_c
    device: "cpu", "cuda" or "cuda:1"; the runner must take tensors that are there
    The others as for Cnn.
    """

    rung = NUMBA

    def __init__(
        self,
        runner: Runner | None = None,
        device: str | torch.device = "cuda",
        *,
        channels: tuple[int, int] = (32, 64),
        hidden: int = 128,
        classes: int = 10,
        height: int = 28,
        width: int = 28,
        max_batch: int = EVALUATION_BATCH,
        eps: float = 1e-5,
        mean: float = MEAN,
        std: float = STD,
    ):
        self.device = torch.device(checked_device(device))
        if runner is None:
            # It imports Numba, which is slow.
            from ..pykernel.numba import numba_jit as runner
        sizes = {"height": height, "width": width, "hidden": hidden}
        self.configure(channels, **sizes, classes=classes, max_batch=max_batch)
        for name, value in self.config.items():
            least = LEAST.get(name, 1)
            if value < least:
                raise ArgumentError(f"{name} = {value}, want at least {least}")
        self._scale = np.float32(mean), np.float32(std)
        self._plans: dict[tuple[str, int], list[Launch]] = {}
        self._sets: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        self._given = self._done = 0  # losses handed out, steps done
        with self._room():
            self._step: PythonStep | None = PythonStep(
                runner, self.device, self.config, self.shapes, eps
            )

    def close(self) -> None:
        """Free the model's memory; further use raises ArgumentError."""
        self._step = None
        self._sets.clear()
        self._plans.clear()

    # ---- weights and data ---------------------------------------------------------

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """Copies of the parameters, named and shaped as in PyTorch, float32."""
        return self._get(self._alive().p)

    @property
    def gradients(self) -> dict[str, np.ndarray]:
        """Copies of the last step's gradients, named and shaped as the weights."""
        return self._get(self._alive().g)

    def _get(self, parts: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
        return {
            name: part.to("cpu", copy=True).reshape(self.shapes[name]).numpy()
            for name, part in parts.items()
        }

    def _set(self, weights: dict[str, np.ndarray]) -> None:
        flat = np.concatenate([array.ravel() for array in weights.values()])
        self._alive().memory["params"].copy_(torch.from_numpy(flat))

    def _put(self, name: str, images: np.ndarray, labels: np.ndarray | None) -> None:
        self._alive()
        classes = self.config["classes"]
        if labels is not None and labels.max() >= classes:
            first = int(np.argmax(labels >= classes))
            raise ArgumentError(
                f"{name} labels[{first}] = {labels[first]}, the model has {classes} "
                f"classes"
            )
        answers = np.zeros(len(images), np.uint8) if labels is None else labels
        with self._room():
            self._sets[name] = tuple(
                torch.from_numpy(array.copy()).flatten().to(self.device)
                for array in (images, answers)
            )
        self._plans.clear()  # they hold the old set

    # ---- steps ----------------------------------------------------------------------

    def _train(self, order: np.ndarray, batch: int, lr: float) -> None:
        self._check_batch(batch)
        if not 0 <= lr < math.inf:
            raise ArgumentError(f"lr = {lr:g}, want 0 or more")
        if self._labels["train"] is None:
            raise ArgumentError(
                f"the training set's {self._counts['train']} images have no labels"
            )
        with native.on_device(self.device):
            for part in torch.tensor(order, device=self.device).split(batch):
                with nvtx_range("step"):
                    self._run(part, lr)

    def _run(
        self, order: torch.Tensor, lr: float, note: Callable[[str], Any] = str
    ) -> None:
        """Queue a step; note(section) is called once all of a section is queued."""
        step, batch = self._alive(), len(order)
        step.memory["order"][:batch].copy_(order)
        launches = self._plan("train", batch) + self._plan("step", batch)
        launches.append(step.update(lr))
        for section, group in itertools.groupby(launches, lambda launch: launch[0]):
            with nvtx_range(section):
                for _, launch in group:
                    launch()
            note(section)
        step.memory["losses"][self._done % KEPT].copy_(step.memory["loss"][0])
        self._done += 1

    def _plan(self, name: str, batch: int) -> list[Launch]:
        """Forward of a batch of the set `name`, or the rest of a "step".

        Made once for each size of a batch: a step then does nothing but launch.
        """
        if (name, batch) not in self._plans:
            step = self._alive()
            if name == "step":
                launches = [*step.loss(batch), *step.backward(batch)]
            else:
                batch_of = step.load(*self._sets[name], batch, *self._scale)
                launches = [*batch_of, *step.forward(batch)]
            self._plans[name, batch] = launches
        return self._plans[name, batch]

    def losses(self) -> np.ndarray:
        """The losses of the steps since the last call of this; see Trainer."""
        kept = self._alive().memory["losses"].cpu().numpy()
        first, self._given = max(self._given, self._done - KEPT), self._done
        return kept[np.arange(first, self._done) % KEPT]

    def forward(self, split: str, order: Any) -> np.ndarray:
        """logits (count,classes) of images `order`, as one batch; see Trainer."""
        order = self._order(split, order)
        self._check_batch(len(order))
        memory = self._alive().memory
        with native.on_device(self.device):
            memory["order"][: len(order)].copy_(torch.tensor(order))
            for _, launch in self._plan(split, len(order)):
                launch()
            logits = memory["logits"].cpu().numpy()
        classes = self.config["classes"]
        return logits[: len(order) * classes].reshape(-1, classes).copy()

    def profile(self, order: Any, lr: float) -> dict[str, float]:
        """One training step; microseconds per section, see Trainer."""
        order = self._order("train", order)
        self._check_batch(len(order))
        with native.on_device(self.device):
            marks = Marks(self.device)
            self._run(torch.tensor(order, device=self.device), lr, marks.note)
            return marks.read()

    @property
    def bytes(self) -> int:
        """Bytes of memory that the model holds on its device, data included."""
        held = [self._alive().memory.values(), *self._sets.values()]
        return sum(tensor.nbytes for tensor in itertools.chain(*held))

    def synchronize(self) -> None:
        """Wait until the queued steps are done."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    # ---- what was asked for -------------------------------------------------------

    def _alive(self) -> PythonStep:
        if self._step is None:
            raise ArgumentError("this PythonCnn is closed: its memory is free")
        return self._step

    def _check_batch(self, batch: int) -> None:
        most = self.config["max_batch"]
        if not 1 <= batch <= most:
            raise ArgumentError(f"a batch of {batch}: the model takes 1 to {most}")

    @contextlib.contextmanager
    def _room(self) -> Iterator[None]:
        """Memory that the device does not have is OutOfMemory, in one line."""
        try:
            yield
        except torch.OutOfMemoryError as error:
            raise OutOfMemory(str(error).splitlines()[0]) from None
