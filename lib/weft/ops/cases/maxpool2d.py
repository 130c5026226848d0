"""maxpool2d in PyTorch, with the cases and sizes for its checks and timings."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F

from ..op import Bench, Op
from . import Answer, Case, random


def maxpool2d(x, kernel_size):
    """Return maxima of windows of x (n,c,h,w), stride = window -> (n, c, h//kh, w//kw).

    kernel_size: (kh, kw), or one number for both.
    """
    return F.max_pool2d(x, kernel_size, return_indices=True)[0]


OP = Op(
    maxpool2d,
    {
        "x": "n, c, h, w",
        "kernel_size": "kh, kw",
        "y": "n, c, h // kh, w // kw",
        "argmax": "n, c, h // kh, w // kw",
    },
    only={"stride": "kernel_size", "padding": 0, "dilation": 1, "ceil_mode": False},
)
BENCH = Bench("n", (64, 256), {"c": 32, "h": 28, "w": 28, "kh": 2, "kw": 2})

_SIZES = [  # n, c, h, w, kh, kw
    *[(1, 1, 1, 1, 1, 1), (1, 1, 2, 2, 2, 2), (2, 3, 5, 7, 2, 2), (3, 2, 7, 9, 3, 2)],
    *[(2, 1, 28, 28, 2, 2), (1, 5, 6, 6, 6, 5), (5, 7, 4, 11, 1, 3)],
]


def cases(generator) -> Iterator[Case]:
    for n, c, h, w, kh, kw in _SIZES:
        # With few distinct values, windows have ties, and the first maximum must win.
        x = torch.randint(-3, 4, (n, c, h, w), generator=generator).float()
        if h * w > 30:
            x[0, 0, 1, 1] = float("nan")
        y, flat = F.max_pool2d(x, (kh, kw), return_indices=True)
        rows, columns = flat // w, flat % w
        index = ((rows % kh) * kw + columns % kw).int()
        dy = random(generator, *y.shape)
        dx = torch.zeros(n, c, h * w).scatter_(2, flat.flatten(2), dy.flatten(2))
        title = f"n={n} c={c} h={h} w={w} kh={kh} kw={kw}"
        answers = {"y": Answer(y.double()), "argmax": Answer(index, 0.0, torch.int32)}
        yield OP.case(title, {"x": x}, answers, kh=kh, kw=kw)
        answers = {"dx": Answer(dx.reshape(x.shape).double())}
        yield OP.case(title, {"dy": dy, "argmax": index}, answers, kh=kh, kw=kw)
