"""The CNN in PyTorch, in each precision and in float64, as a reference for ours.

precision() and rungs.check_precision() define the precisions, and the devices of each:

fp32    strict: no product is rounded before it is added
tf32    products of fp32 numbers cut to 10 bits of mantissa (GPUs from sm_80)
bf16    forward pass under torch.autocast, parameters and update in float32
fp16    like bf16, with a scaled loss, so that small gradients are not lost

A TwinTrainer has a memory layout for images, and a rung. A rung is a way to run a step,
such as "eager" or "compile-step+graph64+nobias" (rungs.py, TwinRung).
weights.exact_step() is one training step in float64.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..base.device import checked_device
from ..base.errors import ArgumentError
from ..timing.clocks import Marks
from .data import MEAN, STD, Split, load
from .numpy_cnn import normalise
from .rungs import PRECISIONS, check_precision, parse_twin
from .trainer import EVALUATION_BATCH
from .weights import MOVELESS

HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}  # the type that autocast uses


def load_tensors(split: str, count: int | None = None) -> tuple[Tensor, Tensor]:
    """Return the first images, normalized (n,1,28,28) float32, and labels (n) int64."""
    part = load(split).first(count)
    return torch.from_numpy(normalise(part.images)), torch.tensor(part.labels).long()


@contextlib.contextmanager
def precision(name: str) -> Iterator[None]:
    """Make torch multiply fp32 numbers as `name` requires, inside the block.

    "fp32", "3xtf32" and "fp16" forbid TF32; "tf32" and "bf16" allow it. Inside the
    block, cudnn.benchmark searches for the fastest convolution.
    """
    if name not in (*PRECISIONS, "3xtf32"):
        names = ", ".join(PRECISIONS)
        raise ArgumentError(f"no PyTorch twin in {name}; there are {names}")
    backends = (torch.backends.cuda.matmul, torch.backends.cudnn)
    previous = [backend.allow_tf32 for backend in backends]
    benchmark = torch.backends.cudnn.benchmark
    try:
        torch.backends.cudnn.benchmark = True
        for backend in backends:
            backend.allow_tf32 = name in ("tf32", "bf16")
        yield
    finally:
        torch.backends.cudnn.benchmark = benchmark
        for backend, value in zip(backends, previous):
            backend.allow_tf32 = value


def use_half(name: str, device: torch.device) -> contextlib.AbstractContextManager:
    """Return the context of a forward pass: autocast for 16-bit types, else none."""
    if name not in HALVES:
        return contextlib.nullcontext()
    # A step uses each weight once, so caching converted weights would save nothing. In
    # a captured step, the cache would contain old weights.
    options = {"dtype": HALVES[name], "cache_enabled": False}
    return torch.autocast(device.type, **options)


LAYOUTS = {"nchw": torch.contiguous_format, "channels_last": torch.channels_last}
LAYERS = (
    *("conv1", "bn1", "relu1", "pool1"),
    *("conv2", "bn2", "relu2", "pool2"),
    *("fc1", "relu3", "fc2"),
)


class Twin(nn.Module):
    """The model: x (n,1,h,w) -> logits (n,classes).

    biases: whether the convolutions have biases; batch norm cancels them.
    """

    def __init__(
        self,
        channels: tuple[int, int] = (32, 64),
        hidden: int = 128,
        classes: int = 10,
        height: int = 28,
        width: int = 28,
        eps: float = 1e-5,
        biases: bool = True,
    ):
        super().__init__()
        c1, c2 = channels
        self.conv1 = nn.Conv2d(1, c1, 3, padding=1, bias=biases)
        self.bn1 = nn.BatchNorm2d(c1, eps=eps, track_running_stats=False)
        self.conv2 = nn.Conv2d(c1, c2, 3, padding=1, bias=biases)
        self.bn2 = nn.BatchNorm2d(c2, eps=eps, track_running_stats=False)
        self.fc1 = nn.Linear(c2 * (height // 4) * (width // 4), hidden)
        self.fc2 = nn.Linear(hidden, classes)

    def layer(self, name: str, x: torch.Tensor) -> torch.Tensor:
        """Return the output of one of LAYERS."""
        if name.startswith("relu"):
            return F.relu(x)
        if name.startswith("pool"):
            return F.max_pool2d(x, 2)
        return getattr(self, name)(x.flatten(1) if name == "fc1" else x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for name in LAYERS:
            x = self.layer(name, x)
        return x


VERSIONS = 64  # maximum number of compiled versions of one function
# A learning rate so large that the weight disappears in rounding: the update is the
# gradient.
PROBE = 2.0**40


class TwinTrainer:
    """A Twin with its data set on the device and one way to run a step.

    train.images (count,h,w) and labels are uint8; the step gathers and normalises its
    batch on the device, as Cnn does. Construction compiles and captures, so it may
    take a minute. step() must be called inside mode(), which other methods enter
    themselves. peak_bytes: the peak memory of a step on a GPU, including data, weights
    and the captured graph; None on a CPU.

    Two smaller graphs run the steps that remain after graphs of 64 steps. A
    partial batch uses the eager step. capture=False runs a graph's steps without
    capturing them, so that tests can run on a CPU.
    """

    def __init__(
        self,
        weights: Mapping[str, np.ndarray],
        train: Split,
        *,
        rung: str = "eager",
        layout: str = "nchw",
        precision: str = "fp32",
        device: str | torch.device = "cpu",
        batch: int = 64,
        lr: float = 0.1,
        capture: bool = True,
        **model: Any,
    ):
        self.device, self.kind = torch.device(device), parse_twin(rung)
        graphless = self.device.type == "cpu" and self.kind.graph and capture
        if graphless or layout not in LAYOUTS:
            raise ArgumentError(f"no twin {rung}, {layout} on {self.device.type}")
        check_precision(precision, checked_device(self.device))
        self.rung, self.layout, self.precision = rung, layout, precision
        self.batch = batch
        allocated = self._allocated()
        self.images = torch.from_numpy(_make_writable(train.images)).to(self.device)
        self.labels = torch.from_numpy(_make_writable(train.labels)).to(self.device)
        self.model = Twin(**model, biases=self.kind.biases).to(self.device)
        self.model.to(memory_format=LAYOUTS[layout])
        self.set_weights(weights)
        # In fp16, gradients of the sum of the losses do not vanish, and the update
        # divides by the batch size. In other precisions the scale is one.
        self._scale = float(batch) if precision == "fp16" else 1.0
        self._seed = torch.tensor(self._scale, device=self.device)
        # A tensor on the device, so that set_lr() also changes a captured step.
        self._lr = torch.tensor(lr / self._scale, device=self.device)
        self.lr = lr
        # fused: one kernel for all parameters, the fastest variant in torch.
        parameters = self.model.parameters()
        self.optimizer = torch.optim.SGD(parameters, lr=self._lr, fused=True)
        # These values must not require gradients, since a step updates them in place.
        self._values = {n: p.detach() for n, p in self.model.named_parameters()}
        self._loss, self._whole = self._forward, self._step_by_parts
        compiler = contextlib.nullcontext()
        if self.kind.compiled:
            # Each layout, precision, mode and choice of biases needs its own version of
            # a function. After 8 versions, PyTorch would not compile any others.
            compiler = torch._dynamo.config.patch(recompile_limit=VERSIONS)
            mode = "max-autotune-no-cudagraphs" if self.kind.autotune else None
        if self.kind.compiled == "compile":
            self._loss = torch.compile(self._forward, dynamic=False, mode=mode)
        elif self.kind.compiled:
            options = {"dynamic": False, "fullgraph": True, "mode": mode}
            self._whole = torch.compile(self._step_at_once, **options)
        # Launches and their losses, by the number of steps, the largest first.
        self._launches: dict[int, Callable[[], object]] = {}
        self._losses: dict[int, list[torch.Tensor]] = {}
        self._own = self._allocated() - allocated  # the bytes in use between two steps
        with self.mode(), compiler:
            self._prepare(capture)
        self.set_weights(weights)

    def mode(self) -> Any:
        """Return the context in which to call step()."""
        return precision(self.precision)

    def without_graph(self) -> TwinTrainer:
        """Return a twin with the same weights and compiled code, without the graph."""
        twin = copy.copy(self)
        twin.kind = self.kind.without_graph()
        twin.rung, twin._launches = twin.kind.name, {}
        with self.mode():
            twin._measure(lambda: twin._step(twin._some()))
        return twin

    def set_lr(self, lr: float) -> None:
        """Set the learning rate of all later steps, including captured ones.

        Twins from without_graph() share this rate.
        """
        self.lr = lr
        self._lr.fill_(lr / self._scale)

    def gradients(self, index: torch.Tensor) -> tuple[float, dict[str, np.ndarray]]:
        """Return the loss and float64 gradients of images `index`, without an update.

        Biases that the model lacks have a gradient of zero.
        """
        if self.kind.compiled == "compile-step" and len(index) == self.batch:
            loss, gradients = self._probe(index)
        else:
            with self.mode():
                loss = self._loss_of(index)
                loss.backward(gradient=self._seed)
            gradients = {n: p.grad.double() for n, p in self.model.named_parameters()}
            self.optimizer.zero_grad(set_to_none=True)
        arrays = {n: g.cpu().numpy() / self._scale for n, g in gradients.items()}
        for name in MOVELESS if not self.kind.biases else ():
            weight = arrays[name.replace("bias", "weight")]
            arrays[name] = np.zeros(len(weight))
        return loss.item(), arrays

    def _probe(self, index: torch.Tensor) -> tuple[torch.Tensor, dict[str, Any]]:
        """Return the loss and gradients of a step that returns only its loss.

        w - lr g is rounded once, so each error is at most 2^-24 (|g| + |w| / lr).
        """
        original = {name: value.clone() for name, value in self._values.items()}
        self._lr.fill_(PROBE)
        with self.mode():
            loss = self._whole(index)
        gradients = {}
        for name, value in self._values.items():
            gradients[name] = (original[name].double() - value.double()) / PROBE
            value.copy_(original[name])
        self._lr.fill_(self.lr / self._scale)
        return loss, gradients

    def set_weights(self, weights: Mapping[str, np.ndarray]) -> None:
        """Copy parameters into the model, in place, except biases that it lacks."""
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.copy_(torch.from_numpy(weights[name]))

    def train(self, order: torch.Tensor) -> list[torch.Tensor]:
        """Queue training on the images `order` (int64, on the device) in batches.

        Returns each step's loss before its update, on the device.
        """
        losses: list[torch.Tensor] = []
        with self.mode():
            for part in self._run(order):
                # Copy the losses, since the next launch overwrites them.
                losses += torch.stack(part).unbind() if self._launches else part
        return losses

    def queue(self, order: torch.Tensor) -> None:
        """Queue the steps of train() without keeping losses.

        This is the fastest way to train. It must be called inside mode().
        """
        for _ in self._run(order):
            pass

    def step(self, index: torch.Tensor) -> torch.Tensor:
        """Run one step on the images `index`; return the loss, on the device.

        If the step was captured, the next captured step overwrites this loss.
        """
        if not self._launches or len(index) != self.batch:
            return self._step(index)
        return self._launch(index.unsqueeze(0))[0]

    def order(self, order: np.ndarray) -> torch.Tensor:
        """Convert the order of the images to a tensor for step() and train()."""
        return torch.from_numpy(order.astype(np.int64)).to(self.device)

    @torch.no_grad()
    def predict(self, test: Split) -> np.ndarray:
        """Return the class of every image, computed in batches of 1000.

        Batch norm uses the statistics of each batch.
        """
        images = torch.from_numpy(_make_writable(test.images)).to(self.device)
        return self.classes(images).cpu().numpy()

    @torch.no_grad()
    def classes(self, images: torch.Tensor) -> torch.Tensor:
        """Queue predict() for images (count,h,w) on the device; return the classes."""
        with self.mode(), use_half(self.precision, self.device):
            parts = [
                self.model(self._input(part)).argmax(dim=1)
                for part in images.split(EVALUATION_BATCH)
            ]
        return torch.cat(parts)

    def evaluate(self, test: Split) -> float:
        """Return the fraction of a set that predict() classifies correctly, 0 to 1."""
        return float((self.predict(test) == test.labels).mean())

    def profile(self, index: torch.Tensor) -> dict[str, float]:
        """Run one eager step by sections; return microseconds, named as in Cnn.profile.

        "forward.loss" and "backward.loss" belong to cross entropy. The marks between
        the sections take time, so the sum exceeds the time of a step.
        """
        with self.mode():
            return self._profile(index)

    def _profile(self, index: torch.Tensor) -> dict[str, float]:
        marks = Marks(self.device)
        with use_half(self.precision, self.device):
            x, target = self._batch(index)
            marks.note("batch")
            outputs: list[torch.Tensor] = []
            for name in LAYERS:
                x = self.model.layer(name, x)
                outputs.append(x)
                marks.note(f"forward.{name}")
            loss = F.cross_entropy(x, target)
        marks.note("forward.loss")
        # A layer's backward pass has ended when the gradient of its input exists.
        for output, behind in zip(outputs, (*LAYERS[1:], "loss")):
            output.register_hook(
                lambda _, behind=behind: marks.note(f"backward.{behind}")
            )
        loss.backward(gradient=self._seed)
        marks.note(f"backward.{LAYERS[0]}")
        self.optimizer.step()
        marks.note("update")
        self.optimizer.zero_grad(set_to_none=True)
        marks.note("zero")
        return marks.read()

    # ---- one step -------------------------------------------------------------

    def _input(self, images: torch.Tensor) -> torch.Tensor:
        x = images.unsqueeze(1).float().mul_(1 / (255 * STD)).sub_(MEAN / STD)
        return x.contiguous(memory_format=LAYOUTS[self.layout])

    def _batch(self, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self._input(self.images[index]), self.labels[index].long()

    def _forward(self, index: torch.Tensor) -> torch.Tensor:
        with use_half(self.precision, self.device):
            x, target = self._batch(index)
            return F.cross_entropy(self.model(x), target)

    def _loss_of(self, index: torch.Tensor) -> torch.Tensor:
        # A partial batch uses the eager step, since its size would need a compilation.
        return (self._loss if len(index) == self.batch else self._forward)(index)

    def _step(self, index: torch.Tensor) -> torch.Tensor:
        whole = len(index) == self.batch
        return (self._whole if whole else self._step_by_parts)(index)

    def _step_by_parts(self, index: torch.Tensor) -> torch.Tensor:
        loss = self._loss_of(index)
        loss.backward(gradient=self._seed)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def _step_at_once(self, index: torch.Tensor) -> torch.Tensor:
        """Run the same step as one function for torch.compile."""
        derive = torch.func.grad(self._scaled_loss, has_aux=True)
        gradients, loss = derive(self._values, index)
        for name, value in self._values.items():
            value.sub_(self._lr * gradients[name])
        return loss

    def _scaled_loss(
        self, values: dict[str, torch.Tensor], index: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the scaled loss, which is differentiated, and the loss itself."""
        with use_half(self.precision, self.device):
            x, target = self._batch(index)
            logits = torch.func.functional_call(self.model, values, (x,))
            loss = F.cross_entropy(logits, target)
        return self._scale * loss, loss

    def _some(self) -> torch.Tensor:
        return torch.arange(self.batch, device=self.device) % len(self.images)

    # ---- many steps -----------------------------------------------------------

    def _run(self, order: torch.Tensor) -> Iterator[list[torch.Tensor]]:
        """Queue a step for each batch; yield the losses of each launch."""
        whole = len(order) // self.batch
        parts = order[: whole * self.batch].view(whole, self.batch)
        first = 0
        for size in self._launches or (1,):
            while whole - first >= size:
                part = parts[first : first + size]
                yield self._launch(part) if self._launches else [self._step(part[0])]
                first += size
        if whole * self.batch < len(order):
            yield [self._step(order[whole * self.batch :])]

    def _launch(self, parts: torch.Tensor) -> list[torch.Tensor]:
        """Launch the graph of len(parts) steps on the images `parts` (steps,batch)."""
        self._indices[: len(parts)].copy_(parts)
        self._launches[len(parts)]()
        return self._losses[len(parts)]

    def _prepare(self, capture: bool) -> None:
        """Run a few steps to compile everything; capture the graphs."""
        index = self._some()
        if not self.kind.graph:
            for _ in range(3):
                self._step(index)
            return self._measure(lambda: self._step(index))
        self._indices = index.repeat(self.kind.graph, 1)
        if not capture:
            for steps in self.kind.sizes:
                self._launches[steps] = functools.partial(self._step_often, steps)
            return self._measure(lambda: self._step(index))
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            for _ in range(5):
                self._step(self._indices[0])
        torch.cuda.current_stream(self.device).wait_stream(stream)
        self._measure(self._capture)

    def _step_often(self, steps: int) -> None:
        """Run the steps of a launch; store their losses."""
        parts = self._indices[:steps].unbind()
        self._losses[steps] = [self._step(index) for index in parts]

    def _capture(self) -> None:
        """Capture a graph of each size.

        The graphs share their memory, since they never run at the same time. This
        memory contains the losses of a launch until the next launch.
        """
        pool = None
        for steps in self.kind.sizes:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                self._step_often(steps)
            self._launches[steps], pool = graph.replay, graph.pool()

    # ---- memory ---------------------------------------------------------------

    def _allocated(self) -> int:
        on_gpu = self.device.type == "cuda"
        return torch.cuda.memory_allocated(self.device) if on_gpu else 0

    def _measure(self, call: Callable[[], object]) -> None:
        """Store the peak memory of `call` in peak_bytes.

        PyTorch must have chosen its kernels beforehand, since that choice takes memory.
        """
        self.peak_bytes: int | None = None
        if self.device.type == "cpu":
            call()
            return
        torch.cuda.synchronize(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        allocated = self._allocated()
        call()
        torch.cuda.synchronize(self.device)
        peak = torch.cuda.max_memory_allocated(self.device)
        self.peak_bytes = self._own + peak - allocated


def _make_writable(array: np.ndarray) -> np.ndarray:
    """Return the array if torch can share it without a warning, else a copy."""
    return array if array.flags.writeable else array.copy()
