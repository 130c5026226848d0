"""The CNN trainer of kernels/mnist/ as a Python object."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import device as devices
from ..base.errors import ArgumentError
from ..toolchain import native
from .trainer import SETS, Trainer

if TYPE_CHECKING:
    import torch

MAX_SECTIONS = 256


class Cnn(Trainer):
    """A model that a rung in C or CUDA C trains.

    rung:      "reference", "naive", ...: weft.rungs("mnist") lists all;
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
        self,
        rung: str | None = None,
        device: str | torch.device = "cpu",
        **model: Any,
    ):
        super().__init__(device, **model)
        self._cnn = None
        self._lib = native.library("mnist", self.device.type)
        self._ffi = self._lib.ffi  # weft.reload() gives only new models the new library
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
        images = self._ffi.from_buffer("int32_t[]", order)
        data = self._ffi.from_buffer("float[]", logits)
        self._call("weft_cnn_forward", SETS.index(split), images, len(order), data)
        return logits

    def profile(self, order: Any, lr: float) -> dict[str, float]:
        order = self._order("train", order)
        sections = self._ffi.new("struct weft_section[]", MAX_SECTIONS)
        count = self._ffi.new("int *")
        data = self._ffi.from_buffer("int32_t[]", order)
        step = data, len(order), lr
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
        """Return a float32 copy of an array between two kernels of the last step.

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
        if self.device.type == "cpu":
            return self._ffi.NULL
        return self._ffi.cast("weft_stream", devices.current_stream(self.device.index))

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
        data = self._ffi.from_buffer("int32_t[]", order)
        self._call("weft_cnn_train", data, len(order), batch, lr)
