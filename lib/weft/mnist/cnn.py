"""The CNN trainer of kernels/mnist/ as a Python object.

conv3x3, batch norm, ReLU, max pool 2; the same again; linear, ReLU, linear,
cross entropy; plain SGD. Batch norm has no running statistics: in training and
in evaluation alike it uses those of the batch, so what the model says about an
image depends a little on the images beside it. Evaluation takes batches of
1000, here and in the PyTorch twin.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import native
from ..native import ArgumentError
from . import weights as weights_of
from .data import MEAN, STD, Split

SETS = ("train", "test")
EVALUATION_BATCH = 1000
MAX_SECTIONS = 256
PAUSE = 0.2  # seconds of training between two looks at Ctrl-C


class Cnn:
    """A model with its weights, gradients and data sets on one device.

    rung:      an implementation ("reference", "naive", ...; weft.rungs("mnist")),
               None: the fastest in fp32 that runs there
    device:    "cpu", "cuda" or "cuda:1"
    channels:  outputs of the two convolutions
    hidden, classes: outputs of the two linear layers
    max_batch: the largest batch it will ever be given
    mean, std: a pixel p (uint8) is read as (p / 255 - mean) / std

    Weights and gradients are zero at first. Bad input raises ArgumentError (a
    ValueError), too little memory OutOfMemory, both with the numbers; the model
    is as it was before. One thread at a time may use it. Work on a GPU follows
    torch's current stream.
    """

    def __init__(
        self,
        rung: str | None = None,
        device: str | torch.device = "cpu",
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
        self.device = _device(device)
        if np.shape(channels) != (2,):
            raise ArgumentError(f"channels={channels}: two numbers are needed")
        self._lib = native.library("mnist", self.device.type)
        self._ffi = self._lib.ffi  # weft.reload() gives new models another one
        with native.on_device(self.device):
            self.rung = self._lib.rung(rung)
        self.config = {
            **{"height": height, "width": width},
            **{"channels1": channels[0], "channels2": channels[1]},
            **{"hidden": hidden, "classes": classes, "max_batch": max_batch},
        }
        for name, value in self.config.items():
            self.config[name] = native.whole(name, value)
        self.shapes = weights_of.shapes(self.config)
        config = self._ffi.new("struct weft_cnn_config *", self.config)
        config.eps, config.mean, config.std = eps, mean, std
        out = self._ffi.new("weft_cnn **")
        self._cnn = None
        self._call("weft_cnn_create", out, self.rung.index, config, owned=False)
        self._cnn = out[0]
        self._labels: dict[str, np.ndarray] = {}
        self._counts: dict[str, int] = {}
        self.close = weakref.finalize(self, self._lib.C.weft_cnn_destroy, self._cnn)
        """Free the model's memory; further use raises ArgumentError."""

    def __enter__(self) -> Cnn:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        c = self.config
        size = f"{c['channels1']}-{c['channels2']}-{c['hidden']}-{c['classes']}"
        return f"Cnn({self.rung.name!r}, {str(self.device)!r}, {size})"

    # ---- weights ----------------------------------------------------------------

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """Copies of the parameters, named and shaped as in PyTorch, float32."""
        return self._get(self._lib.C.WEFT_CNN_WEIGHT)

    @property
    def gradients(self) -> dict[str, np.ndarray]:
        """Copies of the last step's gradients, named and shaped as the weights."""
        return self._get(self._lib.C.WEFT_CNN_GRADIENT)

    def set_weights(self, weights: Mapping[str, Any]) -> None:
        """Copy parameters in: NumPy arrays or tensors, float32, all of them."""
        arrays = weights_of.checked(weights, self.shapes, "set_weights")
        for index, array in enumerate(arrays.values()):
            data = self._ffi.from_buffer("float[]", array)
            self._call("weft_cnn_set", index, data, array.size)

    def save(self, path: str | Path) -> None:
        """Write the weights to `path`, an .npz with one array per parameter."""
        weights_of.save(path, self.weights)

    def load(self, path: str | Path) -> None:
        """Take the weights from an .npz; ArgumentError if they do not fit."""
        self.set_weights(weights_of.load(path, self.shapes))

    # ---- data -------------------------------------------------------------------

    def data(self, train: Split | None = None, test: Split | None = None) -> None:
        """Copy data sets to the device, each replacing the one before.

        images (count,height,width) and labels (count), both uint8; labels may be
        None where only forward() will read the set.
        """
        for name, split in zip(SETS, (train, test)):
            if split is not None:
                self._put(name, split.images, split.labels)

    def _put(self, name: str, images: np.ndarray, labels: np.ndarray | None) -> None:
        size = (self.config["height"], self.config["width"])
        images = _uint8(f"{name} images", images)
        if images.ndim != 3 or images.shape[1:] != size or not len(images):
            raise ArgumentError(
                f"{name} images have shape {images.shape}; "
                f"the model takes (count,{size[0]},{size[1]}), count at least 1"
            )
        pointer = self._ffi.NULL
        if labels is not None:
            labels = _uint8(f"{name} labels", labels)
            if labels.shape != (len(images),):
                raise ArgumentError(
                    f"{name} labels have shape {labels.shape}; "
                    f"{len(images)} images need ({len(images)},)"
                )
            pointer = self._ffi.from_buffer("uint8_t[]", labels)
        number = SETS.index(name)
        data = self._ffi.from_buffer("uint8_t[]", images)
        self._call("weft_cnn_data", number, data, pointer, len(images))
        self._counts[name] = len(images)
        self._labels[name] = labels

    # ---- steps ------------------------------------------------------------------

    def train(self, order: Any, batch: int, lr: float) -> None:
        """Train on the images `order` (indices) of the training set, once each.

        In batches of `batch`, the last maybe smaller. On a GPU the steps are
        queued, not waited for. Ctrl-C ends it between two steps on the CPU: the
        weights are those of the last whole step.
        """
        order = self._order("train", order)
        self._call("weft_cnn_train", *self._steps(order, batch, lr))

    def chunks(self, order: Any, batch: int, lr: float) -> Iterator[np.ndarray]:
        """train(), handing out the losses every fifth of a second or so.

        The work is done as the iterator is consumed; Ctrl-C ends it in time on a
        GPU, too. Yields arrays (steps) float32: the loss of each step before its
        update.
        """
        order, batch = self._order("train", order), native.whole("batch", batch)
        steps, first = 1, 0
        while first < len(order):
            start = time.perf_counter()
            part = order[first : first + steps * batch]
            self._call("weft_cnn_train", *self._steps(part, batch, lr))
            yield self.losses()
            first += len(part)
            seconds = time.perf_counter() - start
            steps = min(4 * steps, max(1, int(steps * PAUSE / seconds)))

    def losses(self) -> np.ndarray:
        """The losses of the steps since the last call of this, float32.

        Oldest first; waits for the steps. The last 65536 are kept.
        """
        room = 65536
        out = np.empty(room, np.float32)
        count = self._ffi.new("int *")
        data = self._ffi.from_buffer("float[]", out)
        self._call("weft_cnn_losses", data, room, count)
        return out[: count[0]].copy()

    def forward(self, split: str, order: Any) -> np.ndarray:
        """logits (count,classes) of images `order` of the "train" or "test" set.

        They are one batch, so at most max_batch of them.
        """
        order = self._order(split, order)
        logits = np.empty((len(order), self.config["classes"]), np.float32)
        self._call(
            "weft_cnn_forward",
            SETS.index(split),
            self._ffi.from_buffer("int32_t[]", order),
            len(order),
            self._ffi.from_buffer("float[]", logits),
        )
        return logits

    def predict(self, split: str = "test", batch: int = EVALUATION_BATCH) -> np.ndarray:
        """The class (count) of every image of a set, in batches of `batch`.

        Batch norm takes the statistics of each of these batches.
        """
        if native.whole("batch", batch) < 1:
            raise ArgumentError(f"batch={batch}: want at least 1")
        count = self._count(split)
        parts = [
            self.forward(split, np.arange(first, min(first + batch, count)))
            for first in range(0, count, batch)
        ]
        return np.concatenate(parts).argmax(axis=1)

    def evaluate(self, split: str = "test", batch: int = EVALUATION_BATCH) -> float:
        """The share of a set that predict() gets right, 0 to 1."""
        guesses = self.predict(split, batch)
        if self._labels[split] is None:
            raise ArgumentError(f"the {split} set was given without labels")
        return float((guesses == self._labels[split]).mean())

    def profile(self, order: Any, lr: float) -> dict[str, float]:
        """One training step on `order` as one batch; microseconds per section.

        Sections, in the order they ran: "batch", "forward.LAYER",
        "backward.LAYER", "update", "zero"; fused layers are joined by '+'.
        """
        order = self._order("train", order)
        sections = self._ffi.new("struct weft_section[]", MAX_SECTIONS)
        count = self._ffi.new("int *")
        data = self._ffi.from_buffer("int32_t[]", order)
        self._call(
            *["weft_cnn_profile", data, len(order), lr, sections, MAX_SECTIONS, count]
        )
        times: dict[str, float] = {}
        for section in sections[0 : count[0]]:
            name = self._ffi.string(section.name).decode()
            times[name] = times.get(name, 0.0) + section.us
        return times

    @property
    def bytes(self) -> int:
        """Bytes of memory that the model holds on its device, data included."""
        self._alive()
        return self._lib.C.weft_cnn_bytes(self._cnn)

    def synchronize(self) -> None:
        """Wait until the queued steps are done."""
        self._call("weft_sync", owned=False)

    # ---- the border to C ----------------------------------------------------------

    def _call(self, function: str, *args: Any, owned: bool = True) -> None:
        """Call a C function on the model, with torch's current stream."""
        self._alive()
        first = [self._cnn] if owned else []
        with native.on_device(self.device):
            self._lib.call(function, *first, *args, self._stream())

    def _alive(self) -> None:
        if self._cnn is not None and not self.close.alive:
            raise ArgumentError("this Cnn is closed: its memory is free")

    def _stream(self) -> Any:
        if self.device.type == "cpu":
            return self._ffi.NULL
        stream = torch.cuda.current_stream(self.device).cuda_stream
        return self._ffi.cast("weft_stream", stream)

    def _get(self, kind: int) -> dict[str, np.ndarray]:
        arrays = {}
        for index, (name, shape) in enumerate(self.shapes.items()):
            array = arrays[name] = np.empty(shape, np.float32)
            data = self._ffi.from_buffer("float[]", array)
            self._call("weft_cnn_get", kind, index, data, array.size)
        return arrays

    def _steps(self, order: np.ndarray, batch: int, lr: float) -> tuple[Any, ...]:
        data = self._ffi.from_buffer("int32_t[]", order)
        return data, len(order), native.whole("batch", batch), float(lr)

    def _count(self, split: str) -> int:
        if split not in SETS:
            raise ArgumentError(f"no set '{split}'; there are {', '.join(SETS)}")
        if split not in self._counts:
            raise ArgumentError(f"there is no {split} set yet: data() takes it")
        return self._counts[split]

    def _order(self, split: str, order: Any) -> np.ndarray:
        """`order` as contiguous int32, every index inside the set."""
        count = self._count(split)
        array = np.asarray(order)
        if array.ndim != 1 or not array.size or array.dtype.kind not in "iu":
            raise ArgumentError(
                f"order has shape {array.shape} and dtype {array.dtype}; "
                f"want integers, one dimension, at least one"
            )
        low, high = int(array.min()), int(array.max())
        if low < 0 or high >= count:
            wrong = low if low < 0 else high
            raise ArgumentError(f"image {wrong}: the {split} set has 0 to {count - 1}")
        return np.ascontiguousarray(array, np.int32)


def _device(device: str | torch.device) -> torch.device:
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        raise ArgumentError(f"device {device!r}: want cpu, cuda or cuda:N") from None
    if found.type == "cpu":
        return torch.device("cpu")
    if found.type != "cuda":
        raise ArgumentError(f"device {device!r}: want cpu, cuda or cuda:N")
    here = torch.cuda.device_count() if torch.cuda.is_available() else 0
    index = found.index
    if index is None:
        index = torch.cuda.current_device() if here else 0
    if index >= here:
        raise ArgumentError(f"device cuda:{index}: this machine has {here} CUDA GPUs")
    return torch.device("cuda", index)


def _uint8(name: str, array: Any) -> np.ndarray:
    array = np.asarray(array)
    if array.dtype != np.uint8:
        raise ArgumentError(f"{name} are {array.dtype}; want uint8")
    return np.ascontiguousarray(array)
