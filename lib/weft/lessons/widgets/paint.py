"""Paint with threads: a kernel gives every pixel its colour, and a slider the time.

    %%cuda
    __global__ void fade(float3 *image, int width, int height, float t) {
        int col = blockIdx.x * blockDim.x + threadIdx.x;
        int row = blockIdx.y * blockDim.y + threadIdx.y;
        if (col < width && row < height)
            image[row * width + col] = make_float3(1.0f * col / width, 0, t / 10);
    }

    paint(fade)                       in a notebook: the picture, live
    paint(fade).frame(2.5)            one moment of it, as an array
    paint(fade).strip()               some moments of it, as a figure
    paint(fade).timing()              how long a picture takes

paint.js is the front end's half. It asks for a picture, and for the next one only
when it has drawn the last: a slow kernel never has more than one to work on.
"""

from __future__ import annotations

import base64
import io
import math
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from ...base.errors import ArgumentError
from ...base.style import INK, style
from ...base.tracebacks import running_shell
from ...timing import Timing, summarize
from ...toolchain.native import convert_int

try:
    import anywidget
    import traitlets
except ImportError:  # then nothing moves, but the strip is there
    anywidget = None

LARGEST = 4096  # pixels of a side
BLOCK = 1024  # threads at most
MOMENTS = 5  # of the strip

_latest: dict[str, Painting] = {}  # by the kernel's name


class Painting:
    """What a kernel paints; paint() makes one.

    A notebook shows it with a slider for the time. Where nothing can move (a page
    that was saved, a notebook run by a program), or anywidget is missing, one
    sees the strip.
    """

    def __init__(
        self,
        kernel: Any,
        width: int,
        height: int,
        seconds: float,
        block: tuple[int, int],
        device: torch.device,
    ):
        self.kernel, self.device = kernel, device
        self.width, self.height, self.seconds = width, height, seconds
        self.block = block
        self.grid = (-(-width // block[0]), -(-height // block[1]))
        self.t, self.playing = 0.0, False
        self.widget: Any = None

    def frame(self, t: float) -> np.ndarray:
        """The picture at time t: (height, width, 4) uint8, red green blue opacity.

        A pixel that no thread wrote, or that is no number, is transparent.
        Raises what the launch raises.
        """
        shape = (self.height, self.width, 3)
        image = torch.full(shape, math.nan, device=self.device)
        self.kernel[self.grid, self.block](image, self.width, self.height, float(t))
        return _convert_to_rgba(image).cpu().numpy()

    def moments(self, count: int = MOMENTS) -> list[float]:
        """`count` times from 0 on, evenly spread; the end would be as far again."""
        return [self.seconds * i / count for i in range(count)]

    def strip(self, count: int = MOMENTS) -> Figure:
        """`count` moments side by side, as a figure."""
        with style():
            height = 9.5 / count * self.height / self.width + 0.3
            made = Figure(figsize=(9.5, height), layout="constrained")
            columns = made.subplots(1, count, squeeze=False)[0]
            for ax, t in zip(columns, self.moments(count)):
                ax.imshow(self.frame(t), interpolation="nearest")
                ax.set_title(f"t = {t:.3g}", size=11, color=INK)
                ax.set_axis_off()
        return made

    def timing(self, samples: int = 30) -> Timing:
        """How long a picture takes, kernel and transfer, without a front end."""
        times = []
        for i in range(samples + 3):
            start = time.perf_counter_ns()
            self.frame(self.seconds * i / samples)
            times.append((time.perf_counter_ns() - start) / 1e3)
        return summarize(times[3:], "wall")

    def change(self, kernel: Any) -> None:
        """Paint with another kernel from now on; the time stays."""
        self.kernel = kernel
        if self.widget is not None:
            self.widget.send({"kind": "changed"})

    def __repr__(self) -> str:
        size = f"{self.width} x {self.height}"
        return f"Painting: {size} pixels, one thread for each"

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        # A front end shows the richest form it knows: the widget, or the picture.
        bundle, metadata = {}, {}
        if self.widget is not None:
            bundle, metadata = self.widget._repr_mimebundle_()
        picture = io.BytesIO()
        self.strip().savefig(picture, format="png", dpi=80)
        bundle["image/png"] = base64.b64encode(picture.getvalue()).decode()
        bundle["text/plain"] = repr(self)
        return bundle, metadata


def paint(
    kernel: Any,
    width: int = 256,
    height: int = 256,
    seconds: float = 10.0,
    block: Sequence[int] = (16, 16),
    *,
    device: torch.device | str | None = None,
) -> Painting:
    """Paint with a kernel that a %%cuda cell made, one thread for each pixel.

    kernel: launched as kernel[grid, block](image, width, height, t). image is
    height * width `float3`: red, green and blue from 0 to 1, row 0 on top. t is in
    seconds, from 0 to `seconds`. block: threads of a block along x and y; the grid
    has as many blocks as it takes, so some threads may lie outside of the picture.
    device: where the threads run; None: on the GPU, if there is one and the cell is
    not compiled for the CPU alone.

    In a notebook the picture follows its kernel: a cell that gives the kernel's
    name to another one repaints it. Painted anew, it starts at the time where the
    last picture of that name was. Raises ArgumentError for sizes that make no
    sense, and what the first launch raises.
    """
    width, height = (
        _check_side(n, v) for n, v in [("width", width), ("height", height)]
    )
    if not (isinstance(seconds, int | float) and 0 < seconds < math.inf):
        raise ArgumentError(f"paint: seconds={seconds!r}, want more than 0")
    if device is None:  # where %%cuda --cpu or --gpu says, or where there is a GPU
        device = getattr(getattr(kernel, "module", None), "target", None)
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if not hasattr(kernel, "__getitem__"):
        raise ArgumentError(
            f"paint: {kernel!r} cannot be launched; want the name of a __global__ "
            "function of a %%cuda cell"
        )
    made = Painting(
        *[
            kernel,
            width,
            height,
            float(seconds),
            _check_block(block),
            torch.device(device),
        ]
    )
    name = _find_name(kernel)
    before = _latest.get(name)
    if name and before:
        made.t, made.playing = min(before.t, made.seconds), before.playing
    first = made.frame(made.t)
    if anywidget:
        made.widget = _Picture(made, first)
    if name:
        _latest[name] = made
        _follow_cell(made, name)
    return made


def _check_side(name: str, value: Any) -> int:
    value = convert_int(f"paint: {name}", value)
    if not 1 <= value <= LARGEST:
        raise ArgumentError(f"paint: {name}={value}, want 1 to {LARGEST} pixels")
    return value


def _check_block(block: Sequence[int]) -> tuple[int, int]:
    if not isinstance(block, Sequence) or len(block) != 2:
        raise ArgumentError(f"paint: block={block!r}, want two numbers: (16, 16)")
    x, y = (convert_int("paint: block", side) for side in block)
    if x < 1 or y < 1 or x * y > BLOCK:
        raise ArgumentError(
            f"paint: block={(x, y)} is {x * y} threads, want 1 to {BLOCK}"
        )
    return x, y


def _convert_to_rgba(image: torch.Tensor) -> torch.Tensor:
    """image (h,w,3) float32, 0 to 1 -> (h,w,4) uint8; a NaN becomes transparent."""
    out = image.new_empty((*image.shape[:2], 4), dtype=torch.uint8)
    out[..., 3] = 255 * ~image.isnan().any(-1)
    out[..., :3] = image.nan_to_num_(0).clamp_(0, 1).mul_(255).round_()
    return out


# ---- in a notebook -----------------------------------------------------------------


def _find_name(kernel: Any) -> str:
    """The variable that holds the kernel in the notebook; "" if there is none."""
    names = running_shell().user_ns if running_shell() else {}
    return next(
        (n for n, v in names.items() if v is kernel and not n.startswith("_")), ""
    )


def _follow_cell(painting: Painting, name: str) -> None:
    """After every cell: if `name` is another kernel now, paint with that one."""
    events, names = running_shell().events, running_shell().user_ns
    there, kind = weakref.ref(painting), type(painting.kernel)

    def look(*_: Any) -> None:
        painting, kernel = there(), names.get(name)
        if painting is None:
            events.unregister("post_run_cell", look)
        elif kernel is not painting.kernel and isinstance(kernel, kind):
            painting.change(kernel)

    events.register("post_run_cell", look)


if anywidget:

    class _Picture(anywidget.AnyWidget):
        """Times from the front end in, pictures out; paint.js has the rest.

        in    {kind: "frame", view, t, playing}
        out   {kind: "frame", view, t, ms, unwritten}, the pixels as its buffer
              {kind: "error", view, text}
              {kind: "changed"}: there is another kernel
        """

        _esm = Path(__file__).with_suffix(".js")
        width = traitlets.Int().tag(sync=True)
        height = traitlets.Int().tag(sync=True)
        seconds = traitlets.Float().tag(sync=True)
        block = traitlets.List().tag(sync=True)
        place = traitlets.Unicode().tag(sync=True)
        t = traitlets.Float().tag(sync=True)
        playing = traitlets.Bool().tag(sync=True)
        first = traitlets.Bytes().tag(sync=True)  # seen before Python is idle again

        def __init__(self, painting: Painting, first: np.ndarray):
            super().__init__(
                **{k: getattr(painting, k) for k in ("width", "height", "seconds")},
                **{"block": list(painting.block), "t": painting.t},
                **{"playing": painting.playing, "first": first.tobytes()},
                place=painting.device.type,
            )
            self.painting = painting
            self.on_msg(self._answer_message)

        def _answer_message(self, _: Any, message: dict[str, Any], __: Any) -> None:
            painting, view = self.painting, message["view"]
            painting.t, painting.playing = message["t"], message["playing"]
            start = time.perf_counter()
            try:
                pixels = painting.frame(painting.t)
            # Whatever the kernel does, Ctrl-C too: the picture lives on.
            except (Exception, KeyboardInterrupt) as error:
                text = f"{type(error).__name__}: {error}".rstrip(": ")
                painting.playing = False
                self.send({"kind": "error", "view": view, "text": text})
                return
            ms = 1e3 * (time.perf_counter() - start)
            unwritten = int((pixels[..., 3] == 0).sum())
            about = {"view": view, "t": painting.t, "ms": ms, "unwritten": unwritten}
            self.send({"kind": "frame", **about}, [memoryview(pixels)])
