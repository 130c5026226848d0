"""The CNN in PyTorch, in each precision and in float64, as a reference for ours.

precision() and check_precision() define the precisions and their devices:

fp32    strict: no product is rounded before it is added
tf32    products of fp32 numbers cut to 10 bits of mantissa (GPUs from sm_80)
bf16    forward pass under torch.autocast, parameters and update in float32
fp16    like bf16, with a scaled loss, so that small gradients are not lost

A TwinTrainer has a memory layout for images, and a rung, which is a way to run a step:

    eager          one kernel after another, as PyTorch dispatches them
    compile        forward and backward pass through torch.compile
    graph          the eager step captured in one CUDA graph     (GPU only)
    compile+graph  the compiled step captured in one CUDA graph  (GPU only)

exact_step() is one training step in float64; TrainingStep.errors() compares with it.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from ..base.errors import ArgumentError
from ..timing.clocks import Marks
from .data import MEAN, STD, Split
from .rungs import PRECISIONS
from .trainer import EVALUATION_BATCH

HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}  # autocast's type
LEAST_SM = {"tf32": 80, "bf16": 80, "fp16": 70}  # compute capability times 10


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


def check_precision(name: str, device: torch.device) -> None:
    """Raise ArgumentError if PyTorch does not train in `name` on that device."""
    if name not in PRECISIONS:
        names = ", ".join(PRECISIONS)
        raise ArgumentError(f"no PyTorch twin in {name}; there are {names}")
    if device.type == "cpu":
        if name == "tf32":
            raise ArgumentError("PyTorch has no tf32 on a CPU: it would train in fp32")
        return
    major, minor = torch.cuda.get_device_capability(device)
    minimum = LEAST_SM.get(name, 0)
    if 10 * major + minor < minimum:
        raise ArgumentError(
            f"{name} requires at least sm_{minimum}; "
            f"{torch.cuda.get_device_name(device)} is sm_{major}{minor}"
        )


def use_half(name: str, device: torch.device) -> contextlib.AbstractContextManager:
    """Return the context of a forward pass: autocast for 16-bit types, else none."""
    if name not in HALVES:
        return contextlib.nullcontext()
    # A step uses each weight once, so a cache of converted weights would save nothing,
    # and in a captured step it would be wrong.
    options = {"dtype": HALVES[name], "cache_enabled": False}
    return torch.autocast(device.type, **options)


RUNGS = {
    "cpu": ("eager", "compile"),
    "cuda": ("eager", "compile", "graph", "compile+graph"),
}
LAYOUTS = {"nchw": torch.contiguous_format, "channels_last": torch.channels_last}
LAYERS = (
    *("conv1", "bn1", "relu1", "pool1"),
    *("conv2", "bn2", "relu2", "pool2"),
    *("fc1", "relu3", "fc2"),
)


class Twin(nn.Module):
    """The model: x (n,1,h,w) -> logits (n,classes)."""

    def __init__(
        self,
        channels: tuple[int, int] = (32, 64),
        hidden: int = 128,
        classes: int = 10,
        height: int = 28,
        width: int = 28,
        eps: float = 1e-5,
    ):
        super().__init__()
        c1, c2 = channels
        self.conv1 = nn.Conv2d(1, c1, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(c1, eps=eps, track_running_stats=False)
        self.conv2 = nn.Conv2d(c1, c2, 3, padding=1)
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


class TwinTrainer:
    """A Twin with its data set on the device and one way to run a step.

    train.images (count,h,w) and labels are uint8; the step gathers and normalises its
    batch on the device, as ours does. Construction compiles and captures, so it may
    take a minute. step() must be called inside mode(), which other methods enter
    themselves. peak_bytes: the peak memory of a step on a GPU, including data, weights
    and the captured graph; None on a CPU.
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
        **model: Any,
    ):
        self.device = torch.device(device)
        if rung not in RUNGS[self.device.type] or layout not in LAYOUTS:
            raise ArgumentError(f"no twin {rung}, {layout} on {self.device.type}")
        check_precision(precision, self.device)
        self.rung, self.layout, self.precision = rung, layout, precision
        self.batch = batch
        allocated = self._allocated()
        self.images = torch.from_numpy(_make_writable(train.images)).to(self.device)
        self.labels = torch.from_numpy(_make_writable(train.labels)).to(self.device)
        self.model = Twin(**model).to(self.device)
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
        self._loss = self._forward
        if "compile" in rung:
            self._loss = torch.compile(self._forward, dynamic=False)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._own = self._allocated() - allocated  # bytes in use between two steps
        with self.mode():
            self._prepare()
        self.set_weights(weights)

    def mode(self) -> Any:
        """Return the context in which to call step()."""
        return precision(self.precision)

    def without_graph(self) -> TwinTrainer:
        """Return a twin with the same weights and compiled code, without the graph."""
        twin = copy.copy(self)
        twin.rung = self.rung.replace("+graph", "").replace("graph", "eager")
        twin._graph = None
        with self.mode():
            twin._measure(lambda: twin._step(twin._some()))
        return twin

    def set_lr(self, lr: float) -> None:
        """Use this learning rate from the next step on, also in a captured step."""
        if lr != self.lr:
            self.lr = lr
            self._lr.fill_(lr / self._scale)

    def gradients(self, index: torch.Tensor) -> tuple[float, dict[str, np.ndarray]]:
        """Return loss and float64 gradients of images `index`, without an update."""
        with self.mode():
            loss = self._loss_of(index)
            loss.backward(gradient=self._seed)
        gradients = {
            name: parameter.grad.double().cpu().numpy() / self._scale
            for name, parameter in self.model.named_parameters()
        }
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item(), gradients

    def set_weights(self, weights: Mapping[str, np.ndarray]) -> None:
        """Copy parameters into the model, in place."""
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.copy_(torch.from_numpy(weights[name]))

    def train(self, order: torch.Tensor) -> list[torch.Tensor]:
        """Queue training on the images `order` (int64, on the device) in batches.

        Returns each step's loss before its update, on the device.
        """
        parts = order.split(self.batch)
        with self.mode():
            if self._graph is None:
                return [self._step(index) for index in parts]
            return [self.step(index).clone() for index in parts]

    def step(self, index: torch.Tensor) -> torch.Tensor:
        """Run one step on the images `index`; return the loss, on the device.

        The next captured step overwrites the loss of a captured step.
        """
        if self._graph is None or len(index) != self.batch:
            return self._step(index)
        self._index.copy_(index)
        self._graph.replay()
        return self._captured

    def order(self, order: np.ndarray) -> torch.Tensor:
        """Convert an order of images to a tensor for step() and train()."""
        return torch.from_numpy(order.astype(np.int64)).to(self.device)

    @torch.no_grad()
    def predict(self, test: Split) -> np.ndarray:
        """Return the class of every image, in batches of 1000.

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

        "forward.loss" and "backward.loss" are cross entropy's. The marks between the
        sections take time, so the sum exceeds the time of a step.
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

    def _normalise(self, images: torch.Tensor) -> torch.Tensor:
        x = images.unsqueeze(1).float()
        return x.mul_(1 / (255 * STD)).sub_(MEAN / STD)

    def _input(self, images: torch.Tensor) -> torch.Tensor:
        x = self._normalise(images)
        return x.contiguous(memory_format=LAYOUTS[self.layout])

    def _batch(self, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self._input(self.images[index]), self.labels[index].long()

    def _forward(self, index: torch.Tensor) -> torch.Tensor:
        with use_half(self.precision, self.device):
            x, target = self._batch(index)
            return F.cross_entropy(self.model(x), target)

    def _loss_of(self, index: torch.Tensor) -> torch.Tensor:
        # A partial batch uses the eager step, since its size would be compiled again.
        return (self._loss if len(index) == self.batch else self._forward)(index)

    def _step(self, index: torch.Tensor) -> torch.Tensor:
        loss = self._loss_of(index)
        loss.backward(gradient=self._seed)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def _some(self) -> torch.Tensor:
        return torch.arange(self.batch, device=self.device) % len(self.images)

    def _prepare(self) -> None:
        """Run a few steps to compile everything; capture one for a graph."""
        index = self._some()
        if "graph" not in self.rung:
            for _ in range(3):
                self._step(index)
            return self._measure(lambda: self._step(index))
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            for _ in range(5):
                self._step(index)
        torch.cuda.current_stream(self.device).wait_stream(stream)
        self._index = index
        self._measure(self._capture)

    def _capture(self) -> None:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._captured = self._step(self._index)
        self._graph = graph

    # ---- memory ---------------------------------------------------------------

    def _allocated(self) -> int:
        on_gpu = self.device.type == "cuda"
        return torch.cuda.memory_allocated(self.device) if on_gpu else 0

    def _measure(self, call: Callable[[], object]) -> None:
        """Store the peak memory of `call` in peak_bytes; kernels are already chosen."""
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


# Batch norm cancels a convolution's bias. The bias's gradient consists of rounding
# errors only, so a relative error is meaningless.
MOVELESS = ("conv1.bias", "conv2.bias")

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class TrainingStep:
    """The mean loss over a batch, and the loss's gradients by parameter name."""

    loss: float
    gradients: Arrays

    def errors(self, loss: float, gradients: Mapping[str, np.ndarray]) -> dict:
        """Return the relative errors of another step's loss and gradients.

        loss_error: the error of the loss. gradient_errors: by parameter, the Frobenius
        norm of the difference divided by the norm of the gradient. gradient_error: the
        largest of these. An error is NaN if the other step's value is NaN.
        """
        errors = {}
        for name, want in self.gradients.items():
            if name in MOVELESS:
                continue
            distance = np.linalg.norm(np.asarray(gradients[name], np.float64) - want)
            errors[name] = float(distance / max(np.linalg.norm(want), 1e-300))
        return {
            "loss_error": abs(loss - self.loss) / max(abs(self.loss), 1e-300),
            "gradient_error": float(np.max([*errors.values()])),
            "gradient_errors": errors,
        }


def exact_step(
    weights: Mapping[str, np.ndarray],
    images: np.ndarray,
    labels: np.ndarray,
    device: str | torch.device = "cpu",
) -> TrainingStep:
    """Run forward and backward pass in float64 on images (n,h,w), labels (n), uint8.

    The shapes of the weights, a dictionary like Cnn.weights, set the model's sizes.
    """
    sizes: dict[str, Any] = {
        "channels": (len(weights["conv1.weight"]), len(weights["conv2.weight"])),
        **{"hidden": len(weights["fc1.weight"]), "classes": len(weights["fc2.weight"])},
        **{"height": images.shape[1], "width": images.shape[2]},
    }
    model = Twin(**sizes).double().to(device)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(np.asarray(weights[name], np.float64)))
    # All trainers round the scale to fp32.
    mean, std = float(np.float32(MEAN)), float(np.float32(STD))
    pixels = torch.from_numpy(images.copy()).to(device)
    x = (pixels[:, None].double() / 255 - mean) / std
    target = torch.from_numpy(labels.astype(np.int64)).to(device)
    loss = F.cross_entropy(model(x), target)
    loss.backward()
    gradients = {n: p.grad.cpu().numpy() for n, p in model.named_parameters()}
    return TrainingStep(loss.item(), gradients)
