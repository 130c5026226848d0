"""Draw a digit, which the lab's own kernels read, layer by layer.

    Canvas()                     in a notebook: a sheet to draw on
    Canvas(cnn)                  a sheet that a model of your own reads
    Reader(cnn).read(image)      a Reading, without a front end
    draw([reading, ...])         readings as a figure
    contact_sheet(images, 10)    many images as a figure

The model has batch norm without running statistics, so it reads an image only within a
batch. The reader puts the image into a batch of test digits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ... import ops
from ...base.errors import ArgumentError
from ...base.style import OURS, outlined, style
from ...mnist import data
from ...mnist.numpy_cnn import softmax
from ...mnist.trainer import Cnn
from ...mnist.weights import load_trained
from ...see.view import choose_grid, draw_image, mosaic
from . import make_bundle

try:
    import anywidget
    import traitlets
except ImportError:  # without these packages, a figure replaces the sheet
    anywidget = None

SIZE, BOX = 28, 20  # side of an MNIST image, and of the box around its digit
SHEET = 140  # side of the drawing that the front end sends
COMPANIONS = 199  # test digits that share the batch with the drawing
LAYERS = ("conv1", "pool1", "conv2", "pool2")


@dataclass(frozen=True)
class Reading:
    """The model's result for one digit.

    image:         (28,28) uint8, the model's input
    probabilities: (10) float32, whose sum is 1
    layers:        name -> (channels,height,width) float32, the outputs of LAYERS
    truth:         the true digit, if it is known
    """

    image: np.ndarray
    probabilities: np.ndarray
    layers: Mapping[str, np.ndarray]
    truth: int | None = None

    @property
    def digit(self) -> int:
        """Return the most probable class."""
        return int(self.probabilities.argmax())


class Reader:
    """A reader of single digits, with the ops of weft.ops and a model's weights.

    cnn: the model; None: a model with the lab's trained weights. companions:
    (count,28,28) uint8, the other digits of the batch; None: the first of the test set.
    The ops run on the device of `cnn`, or on a GPU if there is one.
    """

    def __init__(self, cnn: Cnn | None = None, companions: np.ndarray | None = None):
        if companions is None:
            companions = data.load("test").images[:COMPANIONS]
        self.companions = companions
        self.device = cnn.device if cnn else _choose_device()
        weights = cnn.weights if cnn else load_trained()
        arrays = weights.items()
        self.weights = {n: torch.from_numpy(w).to(self.device) for n, w in arrays}

    def read(self, image: np.ndarray, truth: int | None = None) -> Reading:
        """Read image (28,28) uint8, in a batch with the companions."""
        if image.shape != (SIZE, SIZE) or image.dtype != np.uint8:
            actual = f"{image.dtype} {image.shape}"
            raise ArgumentError(f"the digit is {actual}, expected uint8 (28, 28)")
        batch = torch.from_numpy(np.concatenate([image[None], self.companions]))
        outputs = self.forward(batch.to(self.device))
        first = {name: x[0].cpu().numpy() for name, x in outputs.items()}
        layers = {name: first[name] for name in LAYERS}
        return Reading(image, softmax(first["fc2"][None])[0], layers, truth)

    def forward(self, images: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the output of every layer for images (n,28,28) uint8."""
        x = ((images.float() / 255 - data.MEAN) / data.STD)[:, None].contiguous()
        outputs = {}
        for number in "12":
            x = ops.conv2d(x, *self._of(f"conv{number}"), padding=1)
            outputs[f"conv{number}"] = x
            x = ops.batchnorm2d(x, *self._of(f"bn{number}"))
            x = outputs[f"pool{number}"] = ops.maxpool2d(ops.relu(x), 2)
        x = outputs["fc1"] = ops.linear(x.flatten(1), *self._of("fc1"))
        outputs["fc2"] = ops.linear(ops.relu(x), *self._of("fc2"))
        return outputs

    def _of(self, layer: str) -> tuple[torch.Tensor, torch.Tensor]:
        return self.weights[f"{layer}.weight"], self.weights[f"{layer}.bias"]


def _choose_device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


# ---- from strokes to a digit in MNIST's format -------------------------------------


def centre(strokes: np.ndarray) -> np.ndarray | None:
    """Convert strokes (height,width) uint8 to a digit (28,28) uint8; None if blank.

    MNIST's digits were made in the same way: scaled in proportion to fit 20x20, then
    placed with the center of mass on pixel (14, 14).
    """
    ink = np.argwhere(strokes > 0)
    if not len(ink):
        return None
    (top, left), (bottom, right) = ink.min(axis=0), ink.max(axis=0) + 1
    cut = strokes[top:bottom, left:right] / 255
    scale = BOX / max(cut.shape)
    height, width = (max(1, round(side * scale)) for side in cut.shape)
    rows, cols = map(_build_resampling, (height, width), cut.shape)
    small = rows @ cut @ cols.T
    row, col = _find_start(small.sum(axis=1)), _find_start(small.sum(axis=0))
    digit = np.zeros((SIZE, SIZE), np.uint8)
    digit[row : row + height, col : col + width] = np.round(255 * small)
    return digit


def _find_start(mass: np.ndarray) -> int:
    """Return the pixel where `mass` must start to have its mean near pixel 14."""
    mean = (mass * np.arange(len(mass))).sum() / mass.sum()
    return int(np.clip(round(SIZE / 2 - mean), 0, SIZE - len(mass)))


def _build_resampling(new: int, old: int) -> np.ndarray:
    """Return a matrix (new,old): the share of each old pixel in each new pixel."""
    edges = np.arange(new + 1) * old / new
    low = np.maximum(edges[:-1, None], np.arange(old))
    high = np.minimum(edges[1:, None], np.arange(old) + 1)
    return np.maximum(high - low, 0) * new / old


# ---- pictures ----------------------------------------------------------------------


def contact_sheet(
    images: np.ndarray, columns: int, titles: Sequence[str] = ()
) -> Figure:
    """Draw images (count,h,w) uint8 side by side in rows, with any titles above."""
    count, h, w = images.shape
    rows, gap = -(-count // columns), 11 if titles else 2
    sheet = np.full((rows * (h + gap), columns * (w + 2) - 2), np.nan)
    with style():
        height = 9.5 * sheet.shape[0] / sheet.shape[1]
        figure = Figure(figsize=(9.5, height), layout="constrained")
        ax = figure.subplots()
        for index, image in enumerate(images):
            top, left = index // columns * (h + gap) + gap, index % columns * (w + 2)
            sheet[top : top + h, left : left + w] = image / 255
            if titles:
                middle = {"ha": "center", "va": "bottom"}
                ax.text(left + w / 2, top - 1, titles[index], **middle)
        draw_image(ax, sheet)
        ax.set_axis_off()
        return figure


def draw(readings: Sequence[Reading]) -> Figure:
    """Draw a row per reading: the digit, the probabilities, the maps of each layer."""
    with style():
        figure = Figure(figsize=(12.7, 2.5 * len(readings)), layout="constrained")
        widths = {"width_ratios": [0.8, 0.9, 2, 2, 1, 1], "squeeze": False}
        for line, reading in zip(figure.subplots(len(readings), 6, **widths), readings):
            truth = "" if reading.truth is None else f", it is {reading.truth}"
            draw_image(line[0], reading.image / 255, f"read as {reading.digit}{truth}")
            _draw_bars(line[1], reading.probabilities)
            for ax, name in zip(line[2:], LAYERS):
                maps = reading.layers[name]
                title = "{}: {} of {}x{}".format(name, *maps.shape)
                draw_image(ax, mosaic(maps), title)
        return figure


def _draw_bars(ax: Axes, probabilities: np.ndarray) -> None:
    digits = range(len(probabilities))
    ax.barh(digits, probabilities, **outlined(OURS))
    ax.set(xlim=(0, 1.05), ylim=(9.6, -0.6), yticks=digits, xticks=[0, 1])
    ax.tick_params(length=0)
    ax.grid(axis="y", visible=False)
    ax.set_title("probability", size=11)


# ---- the sheet ---------------------------------------------------------------------


class Canvas:
    """A sheet to draw on in a notebook; `cnn` reads the drawing.

    Without `cnn`, a model with the lab's trained weights reads it.

    A notebook run by a program and a saved page have no front end for widgets. Both
    show figure() instead, as does a notebook without anywidget. `examples` are the
    indices of the test digits in this figure.
    """

    def __init__(self, cnn: Cnn | None = None, examples: Sequence[int] = (0, 8, 18)):
        self.reader, self.examples = Reader(cnn), examples
        self.widget = _Sheet(self.reader) if anywidget else None

    def figure(self) -> Figure:
        """Draw the readings of the examples."""
        test, read = data.load("test"), self.reader.read
        return draw([read(test.images[i], int(test.labels[i])) for i in self.examples])

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        text = "Canvas: the readings of test digits"
        return make_bundle(self.widget, self.figure(), 90, text)


if anywidget:

    class _Sheet(anywidget.AnyWidget):
        """The link to the front end (canvas.js): it receives strokes, and sends
        readings."""

        _esm = Path(__file__).with_suffix(".js")
        side = traitlets.Int(SHEET).tag(sync=True)
        strokes = traitlets.Any(b"").tag(sync=True)  # bytes or a memoryview
        reading = traitlets.Dict().tag(sync=True)

        def __init__(self, reader: Reader):
            super().__init__()
            self.reader = reader

        @traitlets.observe("strokes")
        def _read_strokes(self, change: Any) -> None:
            strokes = np.frombuffer(change["new"], np.uint8)
            digit = centre(strokes.reshape(self.side, self.side))
            read = digit is not None
            self.reading = _make_message(self.reader.read(digit)) if read else {}


def _make_message(reading: Reading) -> dict[str, Any]:
    """Return a reading in the form that canvas.js expects."""
    layers = []
    for name, maps in reading.layers.items():
        (channels, height, width), shades = maps.shape, np.nan_to_num(mosaic(maps))
        rows, columns = choose_grid(channels)
        layer = {"name": name, "rows": rows, "columns": columns, "height": height}
        pixels = np.round(255 * shades).astype(np.uint8).tobytes()
        layers.append(layer | {"width": width, "pixels": pixels})
    return {
        "digit": reading.image.tobytes(),
        "probabilities": [float(p) for p in reading.probabilities],
        "layers": layers,
    }
