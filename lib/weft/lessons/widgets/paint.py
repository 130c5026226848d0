"""Paint with threads: a kernel computes each pixel's color, and a slider sets the time.

    %%cuda
    __global__ void fade(float3 *image, int width, int height, float t) {
        int col = blockIdx.x * blockDim.x + threadIdx.x;
        int row = blockIdx.y * blockDim.y + threadIdx.y;
        if (col < width && row < height)
            image[row * width + col] = make_float3(1.0f * col / width, 0, t / 10);
    }

    paint(fade)                       the live picture, in a notebook
    paint(fade).frame(2.5)            one moment, as an array
    paint(fade).strip()               several moments, as a figure
    paint(fade).timing()              the time that a picture takes

paint.js is the half that runs in the front end. It requests the next picture only after
it has drawn the previous one, so a slow kernel never has more than one request.
"""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from ...base.errors import ArgumentError, running_shell
from ...base.style import INK, style
from ...cells.module import Kernel, Launch
from ...cells.trial_launches import rehearse
from ...timing import CoreWait, Timing, summarize
from ...timing.results import describe_wait, is_drawn
from ...toolchain.native import convert_int
from . import make_bundle

try:
    import anywidget
    import traitlets
except ImportError:  # without these packages, the strip replaces the live picture
    anywidget = None

LARGEST = 4096  # maximum side, in pixels
BLOCK = 1024  # maximum number of threads per block
MOMENTS = 5  # number of pictures in a strip
PERIOD = 1.0  # minimum seconds between two measurements of waiting for a core

_latest: dict[str, Painting] = {}  # the latest picture of each kernel, by name


@dataclass(eq=False)
class Painting:
    """The picture of a kernel, from paint().

    A notebook shows it with a slider for the time. A saved page, a notebook run by a
    program, or a Python without anywidget shows the strip.
    """

    kernel: Any
    width: int
    height: int
    seconds: float
    block: tuple[int, int]
    device: torch.device
    t: float = 0.0
    playing: bool = False
    widget: Any = None
    rehearsed: Any = None  # the last kernel whose watched run had no fault

    def __post_init__(self) -> None:
        (x, y), width, height = self.block, self.width, self.height
        self.grid = (-(-width // x), -(-height // y))

    def frame(self, t: float) -> np.ndarray:
        """Return the picture at time t: (height, width, 4) uint8, RGB and opacity.

        A pixel that is NaN, or that no thread wrote, is transparent. Raises the errors
        of the launch.
        """
        shape = (self.height, self.width, 3)
        if self.device.type == "cuda" and self.rehearsed is not self.kernel:
            self._rehearse(shape, t)
        image = torch.full(shape, math.nan, device=self.device)
        self.kernel[self.grid, self.block](image, self.width, self.height, float(t))
        return _convert_to_rgba(image).cpu().numpy()

    def _rehearse(self, shape: tuple[int, int, int], t: float) -> None:
        """Run a new kernel watched on the CPU, since a fault on a GPU ends the process.

        Raises KernelFault; the next picture then tries again.
        """
        if isinstance(self.kernel, Kernel):
            args = torch.full(shape, math.nan), self.width, self.height, float(t)
            launch = self.kernel.at((self.grid, self.block))
            if isinstance(launch, Launch):
                rehearse(launch, args)
        self.rehearsed = self.kernel

    def moments(self, count: int = MOMENTS) -> list[float]:
        """Return `count` evenly spaced times, beginning with 0 and without the end."""
        return [self.seconds * i / count for i in range(count)]

    def strip(self, count: int = MOMENTS) -> Figure:
        """Draw `count` moments side by side."""
        with style():
            height = 9.5 / count * self.height / self.width + 0.3
            figure = Figure(figsize=(9.5, height), layout="constrained")
            columns = figure.subplots(1, count, squeeze=False)[0]
            for ax, t in zip(columns, self.moments(count)):
                ax.imshow(self.frame(t), interpolation="nearest")
                ax.set_title(f"t = {t:.3g}", size=11, color=INK)
                ax.set_axis_off()
        return figure

    def timing(self, samples: int = 30) -> Timing:
        """Time a picture (its kernel and its transfer), without a front end."""
        times, wait = [], CoreWait(self.device)
        for i in range(samples + 3):
            start = time.perf_counter_ns()
            self.frame(self.seconds * i / samples)
            times.append((time.perf_counter_ns() - start) / 1e3)
        return summarize(times[3:], "wall", wait.share())

    def change(self, kernel: Any) -> None:
        """Replace the kernel; the time does not change."""
        self.kernel = kernel
        if self.widget is not None:
            self.widget.send({"kind": "changed"})

    def __repr__(self) -> str:
        return f"Painting: {self.width} x {self.height} pixels, one thread for each"

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return make_bundle(self.widget, self.strip(), 80, repr(self))


def paint(
    kernel: Any,
    width: int = 256,
    height: int = 256,
    seconds: float = 10.0,
    block: Sequence[int] = (16, 16),
    *,
    device: torch.device | str | None = None,
) -> Painting:
    """Paint with a kernel of a %%cuda cell, with one thread for each pixel.

    kernel: launched as kernel[grid, block](image, width, height, t). image is
    height * width `float3`: red, green and blue from 0 to 1, row 0 on top. t is in
    seconds, from 0 to `seconds`. block: threads of a block along x and y. The grid
    covers the picture, so some threads may be outside it. device: the device
    of the threads. None selects a GPU, unless none exists or the cell is compiled only
    for the CPU.

    In a notebook, the picture follows its kernel: a cell that assigns another kernel to
    the name repaints it. A new picture starts at the time of the last picture of that
    name. Raises ArgumentError for invalid sizes, and any error of the first launch.
    """
    width, height = _check_side("width", width), _check_side("height", height)
    if not (isinstance(seconds, int | float) and 0 < seconds < math.inf):
        raise ArgumentError(f"paint: seconds={seconds!r}, expected more than 0")
    if device is None:  # the device of %%cuda --cpu or --gpu, else a GPU
        device = getattr(getattr(kernel, "module", None), "target", None)
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if not hasattr(kernel, "__getitem__"):
        raise ArgumentError(
            f"paint: {kernel!r} cannot be launched; pass the name of a __global__ "
            "function of a %%cuda cell"
        )
    device, block = torch.device(device), _check_block(block)
    painting = Painting(kernel, width, height, float(seconds), block, device)
    name = _find_name(kernel)
    previous = _latest.get(name)
    if name and previous:
        painting.t = min(previous.t, painting.seconds)
        painting.playing = previous.playing
    first = painting.frame(painting.t)
    if anywidget:
        painting.widget = _Picture(painting, first)
    if name:
        _latest[name] = painting
        _follow_cell(painting, name)
    return painting


def _check_side(name: str, value: Any) -> int:
    value = convert_int(f"paint: {name}", value)
    if not 1 <= value <= LARGEST:
        raise ArgumentError(f"paint: {name}={value}, expected 1 to {LARGEST} pixels")
    return value


def _check_block(block: Sequence[int]) -> tuple[int, int]:
    if not isinstance(block, Sequence) or len(block) != 2:
        raise ArgumentError(f"paint: block={block!r}, expected two numbers: (16, 16)")
    x, y = (convert_int("paint: block", side) for side in block)
    if x >= 1 and y >= 1 and x * y <= BLOCK:
        return x, y
    threads = f"block={(x, y)} is {x * y} threads"
    raise ArgumentError(f"paint: {threads}, expected 1 to {BLOCK}")


def _convert_to_rgba(image: torch.Tensor) -> torch.Tensor:
    """Convert image (h,w,3) float32, 0 to 1 -> (h,w,4) uint8, with NaN transparent."""
    pixels = image.new_empty((*image.shape[:2], 4), dtype=torch.uint8)
    pixels[..., 3] = 255 * ~image.isnan().any(-1)
    pixels[..., :3] = image.nan_to_num_(0).clamp_(0, 1).mul_(255).round_()
    return pixels


# ---- in a notebook -----------------------------------------------------------------


def _find_name(kernel: Any) -> str:
    """Return the notebook's variable for the kernel; "" if there is none."""
    scope = running_shell().user_ns if running_shell() else {}
    names = (n for n, v in scope.items() if v is kernel and not n.startswith("_"))
    return next(names, "")


def _follow_cell(painting: Painting, name: str) -> None:
    """After each cell, paint with the kernel whose name is now `name`."""
    events, names = running_shell().events, running_shell().user_ns
    reference, kind = weakref.ref(painting), type(painting.kernel)

    def look(*_: Any) -> None:
        painting, kernel = reference(), names.get(name)
        if painting is None:
            events.unregister("post_run_cell", look)
        elif kernel is not painting.kernel and isinstance(kernel, kind):
            painting.change(kernel)

    events.register("post_run_cell", look)


if anywidget:

    class _Picture(anywidget.AnyWidget):
        """The link to the front end (paint.js): it receives times and sends pictures.

        in    {kind: "frame", view, t, playing}
        out   {kind: "frame", view, t, ms, shared, unwritten}, with the pixels as its
              buffer. shared: a sentence if other programs had the cores; ms is then
              null, unless WEFT_SHARED is "draw".
              {kind: "error", view, text}
              {kind: "changed"}, after a change of the kernel
        """

        _esm = Path(__file__).with_suffix(".js")
        width = traitlets.Int().tag(sync=True)
        height = traitlets.Int().tag(sync=True)
        seconds = traitlets.Float().tag(sync=True)
        block = traitlets.List().tag(sync=True)
        place = traitlets.Unicode().tag(sync=True)
        t = traitlets.Float().tag(sync=True)
        playing = traitlets.Bool().tag(sync=True)
        # Front ends show this picture while Python is busy.
        first = traitlets.Bytes().tag(sync=True)

        def __init__(self, painting: Painting, first: np.ndarray):
            super().__init__(
                **{k: getattr(painting, k) for k in ("width", "height", "seconds")},
                **{"block": list(painting.block), "t": painting.t},
                **{"playing": painting.playing, "first": first.tobytes()},
                place=painting.device.type,
            )
            self.painting = painting
            self._wait = CoreWait(painting.device, pauses=True)
            self._looked = time.monotonic()
            self._share: float | None = None
            self.on_msg(self._answer_message)

        def _answer_message(self, _: Any, message: dict[str, Any], __: Any) -> None:
            painting, view = self.painting, message["view"]
            painting.t, painting.playing = message["t"], message["playing"]
            start = time.perf_counter()
            try:
                pixels = painting.frame(painting.t)
            # The picture must survive any error of the kernel, and Ctrl-C.
            except (Exception, KeyboardInterrupt) as error:
                text = f"{type(error).__name__}: {error}".rstrip(": ")
                painting.playing = False
                self.send({"kind": "error", "view": view, "text": text})
                return
            ms = 1e3 * (time.perf_counter() - start)
            unwritten = int((pixels[..., 3] == 0).sum())
            share = self._measure_share()
            fields = {"view": view, "t": painting.t, "unwritten": unwritten}
            fields["ms"] = ms if is_drawn(share) else None
            fields["shared"] = describe_wait(share)
            self.send({"kind": "frame", **fields}, [memoryview(pixels)])

        def _measure_share(self) -> float | None:
            """Return the share of the last PERIOD that threads waited for a core."""
            if time.monotonic() - self._looked >= PERIOD:
                self._share = self._wait.share()
                self._wait = CoreWait(self.painting.device, pauses=True)
                self._looked = time.monotonic()
            return self._share
