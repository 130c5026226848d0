"""Write widgets for a page, with recorded pictures, since a page has no kernel.

A page contains the widget's own script, the kernel's recorded answers as one image, and
theme/playback.js, which finds the answer to each request.
"""

from __future__ import annotations

import base64
import html
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

HERE = Path(__file__).parent
FRAMES, COLUMNS = 48, 8  # number of recorded pictures, and of pictures in a row
LARGEST = 92_000  # limit on the bytes of a widget's pictures
QUALITIES = range(80, 10, -10)  # qualities of WebP, the best first


def register(shell: Any) -> None:
    """Let a notebook's session show recorded widgets as HTML."""
    formatter = shell.display_formatter.formatters["text/html"]
    widgets = "weft.lessons.widgets"
    formatter.for_type_by_name(f"{widgets}.paint", "Painting", write_painting)
    formatter.for_type_by_name(f"{widgets}.canvas", "Canvas", write_canvas)


def write_painting(painting: Any) -> str:
    """Return a painting with recorded frames, from t = 0 to the end."""
    times = np.linspace(0, painting.seconds, FRAMES)
    pictures = [painting.frame(float(t)) for t in times]
    values = {
        **{"width": painting.width, "height": painting.height},
        **{"seconds": painting.seconds, "block": list(painting.block)},
        **{"place": painting.device.type, "t": painting.t, "playing": False},
        **{"frames": FRAMES, "columns": COLUMNS},
    }
    text = f"{painting!r}; {FRAMES} recorded pictures"
    return write_player("paint", values, join_tiles(pictures), text)


def write_canvas(canvas: Any) -> str:
    """Return a canvas with recorded readings, of one test digit of each class."""
    from weft.lessons.widgets.canvas import SHEET, _make_message
    from weft.mnist import data

    test = data.load("test")
    digits = [int(np.argmax(test.labels == digit)) for digit in range(10)]
    messages = [_make_message(canvas.reader.read(test.images[i])) for i in digits]
    rows = [join_maps(message) for message in messages]
    layers = [
        {k: v for k, v in layer.items() if k != "pixels"}
        for layer in messages[0]["layers"]
    ]
    chances = [[round(p, 4) for p in m["probabilities"]] for m in messages]
    values = {"side": SHEET, "layers": layers, "probabilities": chances}
    text = f"{canvas!r}: test digits, one of each class"
    return write_player("canvas", values, encode(np.concatenate(rows)), text)


def join_maps(message: dict[str, Any]) -> np.ndarray:
    """Return a reading's digit and maps, side by side in one image (height, width)."""
    parts = [np.frombuffer(message["digit"], np.uint8).reshape(28, 28)]
    for one in message["layers"]:
        height = one["rows"] * (one["height"] + 1) - 1
        parts.append(np.frombuffer(one["pixels"], np.uint8).reshape(height, -1))
    tallest = max(part.shape[0] for part in parts)
    padded = [np.pad(p, ((0, tallest - p.shape[0]), (0, 0))) for p in parts]
    return np.concatenate(padded, axis=1)


def join_tiles(pictures: list[np.ndarray]) -> bytes:
    """Return pictures of equal size in rows of COLUMNS, as one image file."""
    rows = [
        np.concatenate(pictures[first : first + COLUMNS], axis=1)
        for first in range(0, len(pictures), COLUMNS)
    ]
    return encode(np.concatenate(rows))


def encode(pixels: np.ndarray) -> bytes:
    """Return the best WebP of at most LARGEST bytes."""
    for quality in QUALITIES:
        out = io.BytesIO()
        Image.fromarray(pixels).save(out, "webp", quality=quality, method=6)
        if out.tell() <= LARGEST:
            break
    return out.getvalue()


def write_player(name: str, values: dict[str, Any], image: bytes, text: str) -> str:
    """Return the HTML of a widget, with the recorded answers of its kernel."""
    from weft.lessons import widgets

    script = (Path(widgets.__file__).parent / f"{name}.js").read_text()
    script = script.replace("export default", "const widget =")
    playback = (HERE / "theme" / "playback.js").read_text()
    data = json.dumps(values, separators=(",", ":"))
    source = f"data:image/webp;base64,{base64.b64encode(image).decode()}"
    return (
        f'<div class="playback" data-widget="{name}">'
        f'<img alt="{html.escape(text)}" src="{source}"></div>\n'
        f"<script>(() => {{\n{script}\n{playback}\n"
        f"play{name.title()}(widget, {data}, document.currentScript"
        f".previousElementSibling);\n}})();</script>"
    )
