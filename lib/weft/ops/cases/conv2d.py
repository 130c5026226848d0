"""conv2d in PyTorch, with the cases and sizes for its checks and timings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch.nn.functional as F

from ..op import Bench, Op
from . import Answer, Case, absolute, autograd, random, sum_bound


def conv2d(x, weight, bias=None, padding=0):
    """Return the cross-correlation of x (n,ic,h,w) with weight (oc,ic,kh,kw), stride 1.

    bias is (oc). The result is (n, oc, h + 2 padding - kh + 1, w + 2 padding - kw + 1).
    """
    return F.conv2d(x, weight, bias, padding=padding)


OP = Op(
    conv2d,
    {
        "x": "n, ic, h, w",
        "weight": "oc, ic, kh, kw",
        "bias": "oc",
        "y": "n, oc, h + 2 * padding - kh + 1, w + 2 * padding - kw + 1",
    },
    skipped=("dx", "dweight", "dbias"),
    only={"stride": 1, "dilation": 1, "groups": 1},
)
BENCH = Bench(  # the sizes of the CNN's second convolution
    *("n", (64, 256)),
    {"ic": 32, "h": 14, "w": 14, "oc": 64, "kh": 3, "kw": 3, "padding": 1},
    flop=lambda sizes: 2.0 * sizes["n"] * 64 * 196 * 288,
)

SIZES = [  # n, ic, h, w, oc, kh, kw, padding
    *[(1, 1, 1, 1, 1, 1, 1, 0), (1, 1, 3, 3, 1, 3, 3, 0), (2, 3, 5, 7, 2, 3, 3, 1)],
    *[(3, 2, 4, 4, 5, 2, 3, 2), (1, 5, 7, 3, 3, 5, 1, 2), (2, 1, 28, 28, 4, 3, 3, 1)],
    *[(1, 17, 6, 5, 19, 3, 3, 1), (5, 3, 11, 13, 7, 1, 1, 0)],
    *[(2, 4, 6, 6, 3, 6, 6, 0), (1, 2, 3, 3, 2, 1, 1, 3), (3, 32, 7, 7, 33, 3, 3, 1)],
]


def cases(generator) -> Iterator[Case]:
    for index, (n, ic, h, w, oc, kh, kw, padding) in enumerate(SIZES):
        x = random(generator, n, ic, h, w)
        weight = random(generator, oc, ic, kh, kw)
        bias = random(generator, oc) if index % 3 != 2 else None
        height, width = h + 2 * padding - kh + 1, w + 2 * padding - kw + 1
        dy = random(generator, n, oc, height, width)
        title = f"n={n} ic={ic} h={h} w={w} oc={oc} kh={kh} kw={kw} padding={padding}"
        conv = partial(conv2d, padding=padding)
        forward, backward = autograd(conv, [x, weight, bias], dy)
        size, sizes = autograd(conv, absolute(x, weight, bias), dy.abs())
        yield _forward_case(title, x, weight, bias, padding, forward, size)
        yield _backward_case(title, x, weight, dy, padding, backward, sizes, index)


def _forward_case(title, x, weight, bias, padding, want, size) -> Case:
    answers = {"y": Answer(want, sum_bound(weight[0].numel() + 1, size))}
    inputs = {"x": x, "weight": weight, "bias": bias}
    return OP.case(title, inputs, answers, padding=padding)


def _backward_case(title, x, weight, dy, padding, want, size, index) -> Case:
    taps = weight.shape[0] * weight.shape[2] * weight.shape[3]
    pixels = dy.numel() // dy.shape[1]
    terms = {"dx": taps, "dweight": pixels, "dbias": pixels}
    gradients = [("dx", "dweight", "dbias"), ("dweight",), ("dx", "dbias")][index % 3]
    answers = {
        name: Answer(w, sum_bound(k, s))
        for (name, k), w, s in zip(terms.items(), want, size)
        if name in gradients and w is not None
    }
    if "dbias" in gradients and "dbias" not in answers:
        want_bias, size = (x.sum((0, 2, 3)) for x in (dy.double(), dy.double().abs()))
        answers["dbias"] = Answer(want_bias, sum_bound(pixels, size))
    inputs = {"dy": dy, "x": x, "weight": weight}
    return OP.case(title, inputs, answers, padding=padding)
