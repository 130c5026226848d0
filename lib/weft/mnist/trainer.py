"""The base class of all the CNN's trainers, and the trainer of kernels/mnist/.

The model has two blocks of conv3x3, batch norm, ReLU and max pool 2. Linear, ReLU,
linear and cross entropy follow. Plain SGD trains it. Batch norm has no running
statistics. In training and in evaluation, it uses the batch's statistics, so the result
for an image depends a little on the other images. Evaluation uses batches of 1000, here
and in the PyTorch twin.
"""

from __future__ import annotations

import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import device as devices
from ..base.device import Device, checked_device
from ..base.errors import ArgumentError
from ..toolchain import native
from . import weights as weights_of
from .data import MEAN, STD, Split, check_arrays

if TYPE_CHECKING:
    import torch


SETS = ("train", "test")
EVALUATION_BATCH = 1000
MAX_SECTIONS = 256  # of a step that profile() times
PAUSE = 0.2  # seconds of training between two checks for Ctrl-C
PER_THREAD = 2  # cudaStreamPerThread; the default stream cannot capture a step


class Trainer(ABC):
    """A model with its weights, gradients and data sets on one device.

    Weights and gradients are zero at first. Invalid input raises ArgumentError (a
    ValueError), and a lack of memory raises OutOfMemory. Both messages contain the
    numbers, and the model stays unchanged. Only one thread at a time may use a model.
    Work on a GPU goes to torch's current stream, or to the default stream if torch is
    not imported.
    """

    rung: native.Rung
    device: Device
    config: dict[str, int]  # height, width, channels1, ..., max_batch
    shapes: dict[str, tuple[int, ...]]  # the shapes of the parameters, by name
    close: Callable[[], Any]
    """Free the model's memory; further use raises ArgumentError."""

    def __init__(
        self,
        device: str | torch.device,
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
        """Store the device and the sizes; raise ArgumentError if they are invalid."""
        self.device = checked_device(device)
        if np.shape(channels) != (2,):
            raise ArgumentError(f"channels={channels}: expected two numbers")
        sizes = {"channels1": channels[0], "channels2": channels[1], "height": height}
        sizes |= {"width": width, "hidden": hidden, "classes": classes}
        sizes["max_batch"] = max_batch
        self.config = {n: native.convert_int(n, size) for n, size in sizes.items()}
        self.eps, self.scale = eps, (mean, std)
        self.shapes = weights_of.parameter_shapes(self.config)
        self._labels: dict[str, np.ndarray | None] = {}
        self._counts: dict[str, int] = {}

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        keys = ("channels1", "channels2", "hidden", "classes")
        size = "-".join(str(self.config[key]) for key in keys)
        name = type(self).__name__
        return f"{name}({self.rung.name!r}, {str(self.device)!r}, {size})"

    # ---- weights ----------------------------------------------------------------

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """Copies of the parameters in float32, with PyTorch's names and shapes."""
        return self._get("weights")

    @property
    def gradients(self) -> dict[str, np.ndarray]:
        """Copies of the last step's gradients, with the weights' names and shapes."""
        return self._get("gradients")

    @abstractmethod
    def _get(self, kind: str) -> dict[str, np.ndarray]:
        """Copy the "weights" or the "gradients" from the model."""

    @abstractmethod
    def _set(self, weights: dict[str, np.ndarray]) -> None:
        """Copy all parameters into the model."""

    def set_weights(self, weights: Mapping[str, Any]) -> None:
        """Copy all parameters, float32 arrays or tensors by name, into the model."""
        self._set(weights_of.check_weights(weights, self.shapes, "set_weights"))

    def save(self, path: str | Path) -> None:
        """Write the weights to `path`, an .npz file with one array per parameter."""
        weights_of.save(path, self.weights)

    def load(self, path: str | Path) -> None:
        """Read the weights from an .npz file; raise ArgumentError if invalid."""
        self.set_weights(weights_of.load(path, self.shapes))

    # ---- data -------------------------------------------------------------------

    def data(self, train: Split | None = None, test: Split | None = None) -> None:
        """Copy data sets to the device; each replaces its predecessor.

        Images are (count,height,width) and labels (count), both uint8. Labels may be
        None if only forward() reads the set.
        """
        size = self.config["height"], self.config["width"]
        for name, split in zip(SETS, (train, test)):
            if split is None:
                continue
            images, labels = check_arrays(name, split, size)
            self._put(name, images, labels)
            self._counts[name], self._labels[name] = len(images), labels

    @abstractmethod
    def _put(self, name: str, images: np.ndarray, labels: np.ndarray | None) -> None:
        """Copy a data set to the device."""

    # ---- steps ------------------------------------------------------------------

    def train(self, order: Any, batch: int, lr: float) -> None:
        """Train on the images `order` (indices) of the training set, once each.

        Batches have `batch` images; the last one may have fewer. On a GPU, train()
        queues the steps and does not wait. On the CPU, Ctrl-C stops between two steps:
        the weights are those of the last full step.
        """
        order = self._order("train", order)
        self._train(order, native.convert_int("batch", batch), float(lr))

    @abstractmethod
    def _train(self, order: np.ndarray, batch: int, lr: float) -> None:
        """Train as train() does, with an order that has been checked."""

    def chunks(self, order: Any, batch: int, lr: float) -> Iterator[np.ndarray]:
        """Train as train() does; yield the losses about five times a second.

        The iterator trains while it is consumed, so Ctrl-C soon stops it on a GPU, too.
        It yields arrays (steps) float32: the loss of each step before its update.
        """
        order, batch = self._order("train", order), native.convert_int("batch", batch)
        steps, first = 1, 0
        while first < len(order):
            start = time.perf_counter()
            part = order[first : first + steps * batch]
            self._train(part, batch, float(lr))
            yield self.losses()
            first += len(part)
            seconds = time.perf_counter() - start
            steps = min(4 * steps, max(1, int(steps * PAUSE / seconds)))

    @abstractmethod
    def losses(self) -> np.ndarray:
        """Return the losses of the steps since the previous call, float32.

        The oldest loss is first. The call waits for the steps. Only the last 65536
        losses are kept.
        """

    @abstractmethod
    def forward(self, split: str, order: Any) -> np.ndarray:
        """Return logits (count,classes) of images `order` of the "train" or "test" set.

        The images are one batch, so their number is at most max_batch.
        """

    def predict(
        self,
        split: str = "test",
        batch: int = EVALUATION_BATCH,
        progress: Callable[[int], object] | None = None,
    ) -> np.ndarray:
        """Classify the images of a set in batches of `batch`; return classes (count).

        Batch norm uses the statistics of each batch. progress: called after each batch
        with its number of images.
        """
        if native.convert_int("batch", batch) < 1:
            raise ArgumentError(f"batch={batch}: expected at least 1")
        count, parts = self._count(split), []
        for first in range(0, count, batch):
            order = np.arange(first, min(first + batch, count))
            parts.append(self.forward(split, order))
            if progress:
                progress(len(order))
        return np.concatenate(parts).argmax(axis=1)

    def evaluate(
        self,
        split: str = "test",
        batch: int = EVALUATION_BATCH,
        progress: Callable[[int], object] | None = None,
    ) -> float:
        """Return the fraction of a set that predict() classifies correctly, 0 to 1."""
        guesses = self.predict(split, batch, progress)
        if self._labels[split] is None:
            raise ArgumentError(f"the {split} set has no labels")
        return float((guesses == self._labels[split]).mean())

    @abstractmethod
    def profile(self, order: Any, lr: float) -> dict[str, float]:
        """Run one training step on `order` as one batch; return µs per section.

        The sections are "batch", "forward.LAYER", "backward.LAYER", "update" and
        "zero", in the order in which they ran; '+' joins fused layers.
        """

    @property
    @abstractmethod
    def bytes(self) -> int:
        """Number of bytes that the model uses on its device, including data sets."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for the queued steps."""

    # ---- checks of arguments ------------------------------------------------------

    def _count(self, split: str) -> int:
        if split not in SETS:
            raise ArgumentError(f"no set '{split}'; there are {', '.join(SETS)}")
        if split not in self._counts:
            raise ArgumentError(f"there is no {split} set yet: pass it to data()")
        return self._counts[split]

    def _order(self, split: str, order: Any) -> np.ndarray:
        """Return `order` as contiguous int32; raise ArgumentError for a bad index."""
        count = self._count(split)
        array = np.asarray(order)
        if array.ndim != 1 or not array.size or array.dtype.kind not in "iu":
            raise ArgumentError(
                f"order has shape {array.shape} and dtype {array.dtype}; "
                f"expected a non-empty one-dimensional array of integers"
            )
        low, high = int(array.min()), int(array.max())
        if low < 0 or high >= count:
            wrong = low if low < 0 else high
            raise ArgumentError(f"image {wrong}: the {split} set has 0 to {count - 1}")
        return np.ascontiguousarray(array, np.int32)


# ---- the trainer in CUDA C -----------------------------------------------------------


class Cnn(Trainer):
    """A model that a rung in C or CUDA C trains.

    rung:      "reference", "naive", ...; weft.rungs("mnist") lists them;
               None: the fastest in fp32 that runs on the device
    device:    "cpu", "cuda" or "cuda:1"
    channels:  numbers of outputs of the two convolutions; default (32, 64)
    hidden, classes: numbers of outputs of the two linear layers; default 128 and 10
    height, width: the size of an image; default 28 and 28
    max_batch: the largest batch that the model accepts; default 1000
    eps:       added to the variances of batch norm; default 1e-5
    mean, std: a pixel p (uint8) is read as (p / 255 - mean) / std; default data.MEAN
               and data.STD
    """

    def __init__(
        self, rung: str | None = None, device: str | torch.device = "cpu", **model: Any
    ):
        super().__init__(device, **model)
        self._cnn = None
        self._lib = native.library("mnist", self.device.type)
        self._ffi = self._lib.ffi  # a later weft.reload() does not affect this model
        config = self._ffi.new("struct weft_cnn_config *", self.config)
        config.eps, (config.mean, config.std) = self.eps, self.scale
        self._cnn = self._create(rung, config)
        self.close = weakref.finalize(self, self._lib.C.weft_cnn_destroy, self._cnn)

    def losses(self) -> np.ndarray:
        losses, count = np.empty(65536, np.float32), self._ffi.new("int *")
        data = self._ffi.from_buffer("float[]", losses)
        self._call("weft_cnn_losses", data, len(losses), count)
        return losses[: count[0]].copy()

    def forward(self, split: str, order: Any) -> np.ndarray:
        order = self._order(split, order)
        logits = np.empty((len(order), self.config["classes"]), np.float32)
        data = self._ffi.from_buffer("float[]", logits)
        self._call("weft_cnn_forward", SETS.index(split), *self._images(order), data)
        return logits

    def profile(self, order: Any, lr: float) -> dict[str, float]:
        order = self._order("train", order)
        sections = self._ffi.new("struct weft_section[]", MAX_SECTIONS)
        count = self._ffi.new("int *")
        step = *self._images(order), lr
        self._call("weft_cnn_profile", *step, sections, MAX_SECTIONS, count)
        times: dict[str, float] = {}
        for section in sections[0 : count[0]]:
            name = self._ffi.string(section.name).decode()
            times[name] = times.get(name, 0.0) + section.us
        return times

    @property
    def bytes(self) -> int:
        self._alive()
        return self._lib.C.weft_cnn_bytes(self._cnn)

    def synchronize(self) -> None:
        self._call("weft_sync", owned=False)

    def peek(self, name: str) -> np.ndarray:
        """Return a float32 copy of an array that the last step's kernels passed on.

        Only fused rungs have such arrays: "p1" (batch,196,32), "c2" (batch,196,64),
        "m2", "dp2" and others, which kernels/mnist/fused/fused.h lists. The shape is
        (parts,...) if blocks store parts of a sum. Raises ArgumentError, with all
        names, for an unknown array.
        """
        shape = self._ffi.new("int[4]")
        data = self._ffi.NULL
        self._call("weft_cnn_peek", name.encode(), shape, data, 0)
        array = np.empty([size for size in shape if size], np.float32)
        data = self._ffi.from_buffer("float[]", array)
        self._call("weft_cnn_peek", name.encode(), shape, data, array.size)
        return array

    # ---- a step in parts ------------------------------------------------------------

    def begin(
        self, order: Any, *, total: int | None = None, sync_batchnorm: bool = False
    ) -> None:
        """Begin a step that this model takes together with others, the workers.

        order: this worker's images, a share of a batch of `total` images (default: the
               whole batch); with `total` it may be empty
        sync_batchnorm: batch norm uses the statistics of all `total` images; False:
               those of this worker's images, as in DistributedDataParallel

        The loss and the gradients are sums over this worker's images divided by
        `total`. Call next() until it returns None, then update(). Until update() or
        abandon(), calls that train, classify, or change weights or data are errors.
        """
        empty = total is not None and not np.size(order)
        order = np.empty(0, np.int32) if empty else self._order("train", order)
        total = len(order) if total is None else native.convert_int("total", total)
        self._call("weft_cnn_begin", *self._images(order), total, bool(sync_batchnorm))

    def next(self) -> np.ndarray | torch.Tensor | None:
        """Run the step up to the next exchange; return what all workers add up.

        The result is a view of the model's memory, an array or on a GPU a tensor, whose
        values the caller replaces by their sums over the workers. float64: sums of
        batch norm, to be replaced before the next call. float32: a part of
        gradient_buffer, to be replaced before update(); later calls do not touch it, so
        it can be sent while they compute. None: the step is complete.
        """
        ready = self._ffi.new("struct weft_cnn_ready *")
        self._call("weft_cnn_next", ready)
        if ready.kind == self._lib.C.WEFT_CNN_DONE:
            return None
        is_sum = ready.kind == self._lib.C.WEFT_CNN_SUMS
        dtype = np.float64 if is_sum else np.float32
        return native.view(ready.data, ready.count, dtype, self)

    def update(self, lr: float) -> None:
        """Subtract lr * gradient_buffer from the weights, and end the step."""
        self._call("weft_cnn_update", float(lr))

    def abandon(self) -> None:
        """End a step, if one has begun, without an update and without a loss.

        A recorded step is freed, too. NCCL's process group needs this before its end.
        """
        self._call("weft_cnn_abandon")

    def record(
        self, count: int, *, total: int | None = None, sync_batchnorm: bool = False
    ) -> None:
        """Begin a step on `count` images that becomes a CUDA graph, for replay().

        Options are those of begin(); next() and update() follow, but nothing runs: the
        current stream captures the work, sums included. It must not be a GPU's default
        stream. Only fused rungs can be recorded; others raise ArgumentError.
        """
        total = count if total is None else native.convert_int("total", total)
        count = native.convert_int("count", count)
        self._call("weft_cnn_record", count, total, bool(sync_batchnorm))

    def replay(self, order: Any) -> None:
        """Take the recorded step on the images `order`, `count` images at a time.

        The learning rate is the recorded one.
        """
        order = self._order("train", order)
        self._call("weft_cnn_replay", *self._images(order))

    @property
    def gradient_buffer(self) -> np.ndarray | torch.Tensor:
        """All gradients, padding included: a view of the model's memory, float32."""
        data, count, _ = self._gradients()
        return native.view(data, count, np.float32, self)

    @property
    def layout(self) -> str:
        """The layout of gradient_buffer, which must be the same for all workers.

        It depends on the sizes, the rung and the width of the processor's vectors.
        """
        return f"{self.rung.name}: %d floats, blocks of %d" % self._gradients()[1:]

    def _gradients(self) -> tuple[Any, int, int]:
        """Return the buffer's address, its number of floats, and its block."""
        out = [self._ffi.new(kind) for kind in ("float **", "size_t *", "int *")]
        self._alive()
        self._lib.call("weft_cnn_gradients", self._cnn, *out)
        return tuple(pointer[0] for pointer in out)

    # ---- the C interface ----------------------------------------------------------

    def _create(self, rung: str | None, config: Any) -> Any:
        """Create the model in C, on the first rung that supports its sizes."""
        with native.on_device(self.device):
            rungs = [self._lib.rung(rung)] if rung else self._lib.fastest()
        out = self._ffi.new("weft_cnn **")
        for self.rung in rungs:
            try:
                self._call("weft_cnn_create", out, self.rung.index, config, owned=False)
                return out[0]
            except ArgumentError:
                if self.rung is rungs[-1]:
                    raise
        raise AssertionError("a target has at least one rung")

    def _call(self, function: str, *args: Any, owned: bool = True) -> None:
        """Call a C function on the model, on the current stream."""
        self._alive()
        first = [self._cnn] if owned else []
        with native.on_device(self.device):
            self._lib.call(function, *first, *args, self._stream())

    def _alive(self) -> None:
        if self._cnn is not None and not self.close.alive:
            raise ArgumentError("this Cnn is closed: its memory is free")

    def _stream(self) -> Any:
        is_cpu, index = self.device.type == "cpu", self.device.index
        number = PER_THREAD if is_cpu else devices.current_stream(index)
        return self._ffi.cast("weft_stream", number)

    def _set(self, weights: dict[str, np.ndarray]) -> None:
        for index, array in enumerate(weights.values()):
            data = self._ffi.from_buffer("float[]", array)
            self._call("weft_cnn_set", index, data, array.size)

    def _get(self, kind: str) -> dict[str, np.ndarray]:
        names = {"weights": "WEFT_CNN_WEIGHT", "gradients": "WEFT_CNN_GRADIENT"}
        number, arrays = getattr(self._lib.C, names[kind]), {}
        for index, (name, shape) in enumerate(self.shapes.items()):
            array = arrays[name] = np.empty(shape, np.float32)
            data = self._ffi.from_buffer("float[]", array)
            self._call("weft_cnn_get", number, index, data, array.size)
        return arrays

    def _put(self, name: str, images: np.ndarray, labels: np.ndarray | None) -> None:
        pointer = self._ffi.NULL
        if labels is not None:
            pointer = self._ffi.from_buffer("uint8_t[]", labels)
        data = self._ffi.from_buffer("uint8_t[]", images)
        self._call("weft_cnn_data", SETS.index(name), data, pointer, len(images))

    def _train(self, order: np.ndarray, batch: int, lr: float) -> None:
        self._call("weft_cnn_train", *self._images(order), batch, lr)

    def _images(self, order: np.ndarray) -> tuple[Any, int]:
        """Return the arguments of a C function for an order of images."""
        return self._ffi.from_buffer("int32_t[]", order), len(order)
