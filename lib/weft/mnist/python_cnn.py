"""The CNN trainer in Python: kernels from pykernel/bodies, memory from torch.

Its launches correspond one to one to those of kernels/mnist/layers.cu. A runner turns
each body into a kernel: numba_jit on a GPU; sim or cuda_c to examine a step on a
machine without a GPU.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from ..base.errors import ArgumentError, OutOfMemory
from ..pykernel import bodies
from ..pykernel.bodies import THREADS, blocks_for
from ..see.timeline import nvtx_range
from ..timing.clocks import Marks
from ..toolchain import native
from .rungs import NUMBA
from .trainer import Trainer

KEPT = 65536  # number of the latest losses that losses() can return

Runner = Callable[[Callable[..., None]], Any]  # the type of sim, numba_jit and cuda_c
Launch = tuple[str, Callable[[], object]]  # a section's name, and the launch itself


class PythonStep:
    """The model's memory on one device, and the launches that use it.

    config: the sizes; see Trainer. shapes: the shapes of the parameters. Parameters and
    gradients start as zero. Every other float starts as NaN, which reveals a read of an
    unwritten value.
    """

    def __init__(
        self,
        runner: Runner,
        device: torch.device,
        config: dict[str, int],
        shapes: dict[str, tuple[int, ...]],
        eps: float,
    ):
        self.runner, self.device, self.config = runner, device, config
        self.shapes, self.eps = shapes, np.float32(eps)
        c1, c2 = config["channels1"], config["channels2"]
        h, w = config["height"], config["width"]
        self.convs = {"1": (1, c1, h, w), "2": (c1, c2, h // 2, w // 2)}  # ic, oc, h, w
        self.features = c2 * (h // 4) * (w // 4)
        self.kernels: dict[Callable[..., None], Any] = {}
        self.memory = self._take()
        self.p = self.split(self.memory["params"])
        self.g = self.split(self.memory["grads"])

    def split(self, flat: torch.Tensor) -> dict[str, torch.Tensor]:
        """Split consecutive parameters, or gradients, into tensors by name."""
        sizes = [math.prod(shape) for shape in self.shapes.values()]
        return dict(zip(self.shapes, flat.split(sizes)))

    def _take(self) -> dict[str, torch.Tensor]:
        config, count = self.config, sum(map(math.prod, self.shapes.values()))
        batch, hidden, classes = (config[k] for k in ("max_batch", "hidden", "classes"))
        floats = {"x": batch * config["height"] * config["width"]}
        argmax = {}
        for i, (_, oc, h, w) in self.convs.items():
            pooled = batch * oc * (h // 2) * (w // 2)
            for name in ("conv", "bn", "relu"):
                floats[f"{name}{i}"] = batch * oc * h * w
            floats |= {f"pool{i}": pooled, f"mean{i}": oc, f"rstd{i}": oc}
            argmax[f"argmax{i}"] = pooled
        floats |= {"fc1": batch * hidden, "relu3": batch * hidden}
        floats |= {"logits": batch * classes, "prob": batch * classes}
        # In the backward pass, a layer computes its dx from dy alone, without earlier
        # gradients. Two arrays, used alternately, are therefore enough for all layers.
        floats |= dict.fromkeys(("dy", "dx"), max(floats.values()))
        floats |= {"loss": 1, "losses": KEPT}
        on = {"device": self.device}
        memory = {name: torch.full((n,), math.nan, **on) for name, n in floats.items()}
        memory |= {name: torch.zeros(count, **on) for name in ("params", "grads")}
        integers = argmax | {"order": batch}
        for name, n in integers.items():
            memory[name] = torch.zeros(n, dtype=torch.int32, **on)
        memory["target"] = torch.zeros(batch, dtype=torch.int64, **on)
        memory["one"] = torch.ones(1, **on)
        return memory

    def launch(
        self, section: str, body: Callable[..., None], threads: int
    ) -> Callable[..., Launch]:
        """Return a function that turns the arguments of a body into its Launch."""
        if body not in self.kernels:
            self.kernels[body] = self.runner(body)
        kernel = self.kernels[body][blocks_for(threads), THREADS]
        return lambda *args: (section, partial(kernel, *args))

    # ---- forward ----------------------------------------------------------------

    def load(
        self, images: torch.Tensor, labels: torch.Tensor, batch: int, *scale: np.float32
    ) -> Iterator[Launch]:
        """Load the images memory["order"], normalised by `scale`: mean, deviation."""
        m, pixels = self.memory, self.config["height"] * self.config["width"]
        yield self.launch("batch", bodies.gather, batch * pixels)(
            m["x"], m["target"], images, labels, m["order"], batch, pixels, *scale
        )

    def forward(self, batch: int) -> Iterator[Launch]:
        """Compute logits (batch,classes) of the batch in memory["x"]."""
        launch, m, p = self.launch, self.memory, self.p
        hidden, classes = self.config["hidden"], self.config["classes"]
        yield from self._block_forward("1", m["x"], batch)
        yield from self._block_forward("2", m["pool1"], batch)
        count = batch * hidden
        yield launch("forward.fc1", bodies.linear, count)(
            *[m["fc1"], m["pool2"], p["fc1.weight"], p["fc1.bias"]],
            *[batch, self.features, hidden],
        )
        yield launch("forward.relu3", bodies.relu, count)(m["relu3"], m["fc1"], count)
        yield launch("forward.fc2", bodies.linear, batch * classes)(
            *[m["logits"], m["relu3"], p["fc2.weight"], p["fc2.bias"]],
            *[batch, hidden, classes],
        )

    def _block_forward(self, i: str, x: torch.Tensor, batch: int) -> Iterator[Launch]:
        """Run convolution, batch norm, ReLU and pool."""
        launch, m, p = self.launch, self.memory, self.p
        ic, oc, h, w = self.convs[i]
        count, plane = batch * oc * h * w, h * w
        pooled = batch * oc * (h // 2) * (w // 2)
        conv, bn, relu = m[f"conv{i}"], m[f"bn{i}"], m[f"relu{i}"]
        weight, bias = p[f"bn{i}.weight"], p[f"bn{i}.bias"]
        mean, rstd = m[f"mean{i}"], m[f"rstd{i}"]
        yield launch(f"forward.conv{i}", bodies.conv2d, count)(
            *[conv, x, p[f"conv{i}.weight"], p[f"conv{i}.bias"]],
            *[batch, ic, h, w, oc, 3, 3, 1, h, w],
        )
        yield launch(f"forward.bn{i}", bodies.batchnorm2d_stats, oc * THREADS)(
            *[mean, rstd, conv, batch, oc, plane, self.eps]
        )
        yield launch(f"forward.bn{i}", bodies.batchnorm2d, count)(
            *[bn, conv, weight, bias, mean, rstd, batch, oc, plane]
        )
        yield launch(f"forward.relu{i}", bodies.relu, count)(relu, bn, count)
        yield launch(f"forward.pool{i}", bodies.maxpool2d, pooled)(
            *[m[f"pool{i}"], m[f"argmax{i}"], relu],
            *[batch * oc, h, w, h // 2, w // 2, 2, 2],
        )

    def loss(self, batch: int) -> Iterator[Launch]:
        """Compute the loss and the softmax of memory["logits"]."""
        launch, m, classes = self.launch, self.memory, self.config["classes"]
        yield launch("forward.loss", bodies.cross_entropy, batch)(
            m["prob"], m["logits"], batch, classes
        )
        yield launch("forward.loss", bodies.cross_entropy_loss, THREADS)(
            m["loss"], m["logits"], m["target"], batch, classes
        )

    # ---- backward ---------------------------------------------------------------

    def backward(self, batch: int) -> Iterator[Launch]:
        """Compute all gradients from the softmax in memory["prob"]."""
        launch, m = self.launch, self.memory
        hidden, classes = self.config["hidden"], self.config["classes"]
        dy, dx, count = m["dy"], m["dx"], batch * hidden
        # The kernels need no zeros, but the step zeroes gradients as PyTorch does.
        yield "zero", m["grads"].zero_
        yield launch("backward.loss", bodies.cross_entropy_dlogits, batch * classes)(
            dy, m["one"], m["prob"], m["target"], batch, classes
        )
        yield from self._linear_backward("fc2", dx, dy, "relu3", batch, hidden, classes)
        yield launch("backward.relu3", bodies.relu_dx, count)(dy, dx, m["relu3"], count)
        yield from self._linear_backward(
            "fc1", dx, dy, "pool2", batch, self.features, hidden
        )
        yield from self._block_backward("2", dy, dx, m["pool1"], batch)
        yield from self._block_backward("1", dy, dx, m["x"], batch)

    def _linear_backward(
        self, layer: str, dx: torch.Tensor, dy: torch.Tensor, x: str, *sizes: int
    ) -> Iterator[Launch]:
        """Compute the three gradients of a linear layer. sizes: n, in, out."""
        section, (n, inputs, outputs), g = f"backward.{layer}", sizes, self.g
        yield self.launch(section, bodies.linear_dx, n * inputs)(
            dx, dy, self.p[f"{layer}.weight"], *sizes
        )
        yield self.launch(section, bodies.linear_dweight, outputs * inputs)(
            g[f"{layer}.weight"], dy, self.memory[x], *sizes
        )
        yield self.launch(section, bodies.linear_dbias, outputs)(
            g[f"{layer}.bias"], dy, n, outputs
        )

    def _block_backward(
        self, i: str, dx: torch.Tensor, dy: torch.Tensor, x: torch.Tensor, batch: int
    ) -> Iterator[Launch]:
        """Run the backward pass of pool, ReLU, batch norm and convolution.

        The gradient of the block's input ends up in the array `dy`; `dx` is scratch.
        The first convolution computes no such gradient, since the gradient of the
        images is not used.
        """
        launch, m, p, g = self.launch, self.memory, self.p, self.g
        ic, oc, h, w = self.convs[i]
        count, plane = batch * oc * h * w, h * w
        conv, mean, rstd = m[f"conv{i}"], m[f"mean{i}"], m[f"rstd{i}"]
        dweight, dbias = g[f"bn{i}.weight"], g[f"bn{i}.bias"]
        yield launch(f"backward.pool{i}", bodies.maxpool2d_dx, count)(
            *[dx, dy, m[f"argmax{i}"], batch * oc, h, w, h // 2, w // 2, 2, 2]
        )
        dx, dy = dy, dx
        yield launch(f"backward.relu{i}", bodies.relu_dx, count)(
            dx, dy, m[f"relu{i}"], count
        )
        dx, dy = dy, dx
        yield launch(f"backward.bn{i}", bodies.batchnorm2d_sums, oc * THREADS)(
            dweight, dbias, dy, conv, mean, rstd, batch, oc, plane
        )
        yield launch(f"backward.bn{i}", bodies.batchnorm2d_dx, count)(
            *[dx, dweight, dbias, dy, conv, p[f"bn{i}.weight"], mean, rstd],
            *[batch, oc, plane],
        )
        dx, dy = dy, dx
        section, sizes = f"backward.conv{i}", (ic, h, w, oc, 3, 3, 1, h, w)
        if i != "1":
            yield launch(section, bodies.conv2d_dx, batch * ic * h * w)(
                dx, dy, p[f"conv{i}.weight"], batch, *sizes
            )
        yield launch(section, bodies.conv2d_dweight, oc * ic * 9)(
            g[f"conv{i}.weight"], dy, x, batch, *sizes
        )
        yield launch(section, bodies.conv2d_dbias, oc)(
            g[f"conv{i}.bias"], dy, batch, oc, h, w
        )

    def update(self, lr: float) -> Launch:
        """Update all parameters in one launch, since they are in one array."""
        count = len(self.memory["params"])
        return self.launch("update", bodies.sgd, count)(
            self.memory["params"], self.memory["grads"], count, np.float32(lr)
        )


# The minimum of each of these sizes; all other sizes are at least 1.
LEAST = {"height": 4, "width": 4, "classes": 2}


class PythonCnn(Trainer):
    """A model that the Python bodies train.

    runner: turns a body into a kernel: numba_jit (None), sim or cuda_c
    device: "cpu", "cuda" or "cuda:1"; the runner must accept its tensors
    Cnn describes the other parameters.
    """

    rung = NUMBA

    def __init__(
        self,
        runner: Runner | None = None,
        device: str | torch.device = "cuda",
        **model: Any,
    ):
        super().__init__(device, **model)
        self.device = torch.device(self.device)
        if runner is None:
            # Imported lazily: Numba is slow to import.
            from ..pykernel.numba import numba_jit as runner
        for name, value in self.config.items():
            minimum = LEAST.get(name, 1)
            if value < minimum:
                raise ArgumentError(f"{name} = {value}, expected at least {minimum}")
        self._plans: dict[tuple[str, int], list[Launch]] = {}
        self._sets: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        # The number of losses returned so far, and of steps done so far.
        self._given = self._done = 0
        model = self.config, self.shapes, self.eps
        with self._room():
            self._step: PythonStep | None = PythonStep(runner, self.device, *model)

    def close(self) -> None:
        """Free the model's memory; further use raises ArgumentError."""
        self._step = None
        self._sets.clear()
        self._plans.clear()

    # ---- weights and data ---------------------------------------------------------

    def _get(self, kind: str) -> dict[str, np.ndarray]:
        step = self._alive()
        parts = step.p if kind == "weights" else step.g
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
            wrong = f"{name} labels[{first}] = {labels[first]}"
            raise ArgumentError(f"{wrong}, the model has {classes} classes")
        targets = np.zeros(len(images), np.uint8) if labels is None else labels
        with self._room():
            self._sets[name] = tuple(
                torch.from_numpy(array.copy()).flatten().to(self.device)
                for array in (images, targets)
            )
        self._plans.clear()  # the stored launches use the old set

    # ---- steps ----------------------------------------------------------------------

    def _train(self, order: np.ndarray, batch: int, lr: float) -> None:
        self._check_batch(batch)
        if not 0 <= lr < math.inf:
            raise ArgumentError(f"lr = {lr:g}, expected 0 or more")
        if self._labels["train"] is None:
            count = self._counts["train"]
            raise ArgumentError(f"the training set's {count} images have no labels")
        with native.on_device(self.device):
            for part in torch.tensor(order, device=self.device).split(batch):
                with nvtx_range("step"):
                    self._run(part, lr)

    def _run(
        self, order: torch.Tensor, lr: float, note: Callable[[str], Any] = str
    ) -> None:
        """Queue a step; call note(section) after each section is queued."""
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
        """Return the launches of a forward pass on a set, or of the rest of a "step".

        The launches are created only once per batch size, which saves time in a step.
        """
        if (name, batch) not in self._plans:
            step = self._alive()
            if name == "step":
                launches = [*step.loss(batch), *step.backward(batch)]
            else:
                scale = map(np.float32, self.scale)
                loads = step.load(*self._sets[name], batch, *scale)
                launches = [*loads, *step.forward(batch)]
            self._plans[name, batch] = launches
        return self._plans[name, batch]

    def losses(self) -> np.ndarray:
        recent = self._alive().memory["losses"].cpu().numpy()
        first, self._given = max(self._given, self._done - KEPT), self._done
        return recent[np.arange(first, self._done) % KEPT]

    def forward(self, split: str, order: Any) -> np.ndarray:
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
        order = self._order("train", order)
        self._check_batch(len(order))
        with native.on_device(self.device):
            marks = Marks(self.device)
            self._run(torch.tensor(order, device=self.device), lr, marks.note)
            return marks.read()

    @property
    def bytes(self) -> int:
        tensors = [self._alive().memory.values(), *self._sets.values()]
        return sum(tensor.nbytes for tensor in itertools.chain(*tensors))

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    # ---- checks of arguments and state --------------------------------------------

    def _alive(self) -> PythonStep:
        if self._step is None:
            raise ArgumentError("this PythonCnn is closed: its memory is free")
        return self._step

    def _check_batch(self, batch: int) -> None:
        largest = self.config["max_batch"]
        if not 1 <= batch <= largest:
            raise ArgumentError(f"a batch of {batch}: the model takes 1 to {largest}")

    @contextlib.contextmanager
    def _room(self) -> Iterator[None]:
        """Raise OutOfMemory, with a one-line message, if there is not enough memory."""
        try:
            yield
        except torch.OutOfMemoryError as error:
            raise OutOfMemory(str(error).splitlines()[0]) from None
