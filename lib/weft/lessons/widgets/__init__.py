"""Live pictures in a notebook.

paint    a kernel computes the color of every pixel
canvas   the reader draws a digit, and the lab's kernels read it
predict  the reader guesses first, and then sees the measurement
"""

import base64
import io
from typing import Any


def make_bundle(widget: Any, figure: Any, dpi: int, text: str) -> tuple[dict, dict]:
    """Return the data and metadata of a display: a widget (or None), PNG and text.

    A front end shows the best form that it supports.
    """
    bundle, metadata = widget._repr_mimebundle_() if widget is not None else ({}, {})
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=dpi)
    image = base64.b64encode(picture.getvalue()).decode()
    return {**bundle, "image/png": image, "text/plain": text}, metadata
