"""Translate all bodies to CUDA C, as one source."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import torch

from weft import load_cuda
from weft.mnist import weights
from weft.mnist.python_cnn import PythonStep
from weft.pykernel import bandwidth, bodies, orders
from weft.pykernel.to_cuda.cuda_c import cuda_c

TINY = {"height": 4, "width": 4, "channels1": 1, "channels2": 1, "hidden": 1}
TINY |= {"classes": 2, "max_batch": 1}


@functools.cache
def arguments() -> dict[Any, tuple[Any, ...]]:
    """Return every body, with arguments of the types that a training step has."""
    cases: dict[Any, tuple[Any, ...]] = {}

    class Note:
        def __init__(self, body: Any) -> None:
            self.body = body

        def __getitem__(self, _: Any) -> Note:
            return self

        def __call__(self, *args: Any) -> None:
            cases[self.body] = args

    step = PythonStep(
        *(Note, torch.device("cpu"), TINY, weights.parameter_shapes(TINY)), eps=1e-5
    )
    images = torch.zeros(16, dtype=torch.uint8)
    parts = step.load(images, images, 1, step.eps, step.eps), step.forward(1)
    parts += step.loss(1), step.backward(1), [step.update(0.1)]
    for _, launch in (launch for part in parts for launch in part):
        launch()
    floats = torch.zeros(1)
    cases[bodies.grey] = floats, floats, 1
    cases[bandwidth.copy_words] = floats, floats, 1
    for body in bandwidth.transpose, bandwidth.transpose_tiled:
        cases[body] = floats, floats, 1, 1
    for body in bandwidth.add_each, bandwidth.add_tree, bandwidth.copy_to_each:
        cases[body] = floats, floats, 1
    cases[bandwidth.softmax] = floats, floats, 1, 1
    cases[bandwidth.softmax_dx] = floats, floats, floats, 1, 1
    count = torch.zeros(1, dtype=torch.int64)
    cases[bandwidth.keep_each] = floats, count, floats, 1, np.float32(1)
    for body in bandwidth.count_global, bandwidth.count_shared:
        cases[body] = count, images, 1
    ints = torch.zeros(1, dtype=torch.int32)
    cases[bandwidth.count_keys] = count, ints, 1, 1
    sizes = 1, 1, np.float32(1), 1
    cases[bandwidth.normalize_by_thread] = *[floats] * 8, *sizes
    cases[bandwidth.differentiate_by_thread] = *[floats] * 6, 1, 1, 1
    cases[bandwidth.add_rows] = *[floats] * 6, 1, 1
    cases[orders.sort_tiles] = count, ints, 1, 0, 0
    cases[orders.merge_tiles] = count, 1
    for body in orders.merge_mirrored, orders.merge_apart:
        cases[body] = count, 1, 1
    cases[orders.gather_keys] = *[ints] * 4, count, 1
    cases[orders.count_nibbles] = ints, ints, 1, 0, 0, 0
    cases[orders.scan_counts] = ints, 1
    cases[orders.scatter_nibbles] = *[ints] * 5, 1, 0, 0, 0
    cases[orders.number_places] = ints, 1, 1, 1
    cases[orders.exchange_pairs] = ints, floats, 1, 1, 1, 1, 1
    cases[orders.write_first] = floats, count, floats, ints, 1, 1, 1, 1
    cases[orders.scatter_values] = floats, floats, count, 1, 1, 1
    cases[orders.keep_largest] = floats, count, floats, 1, 1, 1
    cases[bandwidth.add_tiles] = floats, floats, 1, 0
    for body in bandwidth.scan_tiles, bandwidth.scan_tiles_brent_kung:
        cases[body] = floats, floats, floats, 1, 0, 0
    for product in bodies.matmul, bodies.matmul_tiled:
        cases[product] = floats, floats, floats, 1, 1, 1
    return cases


@functools.cache
def source() -> str:
    """Return the CUDA C of all bodies."""
    texts = [cuda_c(body).source(*args) for body, args in arguments().items()]
    # Several bodies share helpers and constants, which may occur only once.
    texts = [re.sub(r"(?m)^enum \{.*\};$", _part_constants, text) for text in texts]
    pieces = [p for text in texts for p in re.split(r"\n\n(?=\S)", text)]
    return "\n\n".join(dict.fromkeys(piece.strip() for piece in pieces)) + "\n"


def _part_constants(found: re.Match[str]) -> str:
    """Return a declaration for each constant of an enum."""
    constants = found[0].removeprefix("enum {").removesuffix("};").split(",")
    return "\n\n".join(f"enum {{ {one.strip()} }};" for one in constants)


def in_c(body: Any) -> Any:
    """Return a runner like cuda_c; all bodies are compiled together."""
    return getattr(_module(), body.__name__)


@functools.cache
def _module() -> Any:
    return load_cuda(source(), target="cpu", name="bodies")
