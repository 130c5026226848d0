"""What linear and conv2d are checked with, forwards and backwards."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch.nn.functional as F

from ... import native
from .case import (
    Answer,
    Case,
    absolute,
    autograd,
    random,
    sum_bound,
)

# ---- linear ----------------------------------------------------------------------

_LINEAR_SIZES = [
    *[(1, 1, 1), (2, 3, 1), (1, 2, 3), (5, 7, 11), (16, 17, 15), (33, 31, 65)],
    *[(64, 128, 10), (70, 257, 33)],
]


def linear_cases(generator) -> Iterator[Case]:
    for (n, ins, outs), with_bias in itertools.product(_LINEAR_SIZES, (True, False)):
        x, weight = random(generator, n, ins), random(generator, outs, ins)
        bias = random(generator, outs) if with_bias else None
        dy = random(generator, n, outs)
        title = f"n={n} in={ins} out={outs} bias={with_bias}"
        forward, backward = autograd(F.linear, [x, weight, bias], dy)
        size, sizes = autograd(F.linear, absolute(x, weight, bias), dy.abs())
        yield _linear_forward(title, x, weight, bias, forward, size)
        yield _linear_backward(title, x, weight, dy, with_bias, backward, sizes)


def _linear_forward(title, x, weight, bias, want, size) -> Case:
    (n, ins), outs = x.shape, weight.shape[0]

    def launch(lib, rung, p, stream):
        lib.call("weft_linear", rung, p["y"], p["x"], p["weight"], p["bias"],
                 n, ins, outs, stream)  # fmt: skip

    answers = {"y": Answer(want, sum_bound(ins + 1, size))}
    inputs = {"x": x, "weight": weight, "bias": bias}
    return Case("linear", title, inputs, answers, launch)


def _linear_backward(title, x, weight, dy, all_three, want, size) -> Case:
    (n, ins), outs = x.shape, weight.shape[0]
    terms = {"dx": outs, "dweight": n, "dbias": n}

    def launch(lib, rung, p, stream):
        lib.call("weft_linear_backward", rung, p.get("dx", native.NULL),
                 p["dweight"], p.get("dbias", native.NULL), p["dy"], p["x"],
                 p["weight"], n, ins, outs, stream)  # fmt: skip

    answers = {
        name: Answer(w, sum_bound(k, s))
        for (name, k), w, s in zip(terms.items(), want, size)
        if all_three or name == "dweight"
    }
    inputs = {"dy": dy, "x": x, "weight": weight}
    return Case("linear", "backward " + title, inputs, answers, launch)


# ---- conv2d --------------------------------------------------------------------

CONV_SIZES = [  # n ic h w oc kh kw padding
    *[(1, 1, 1, 1, 1, 1, 1, 0), (1, 1, 3, 3, 1, 3, 3, 0), (2, 3, 5, 7, 2, 3, 3, 1)],
    *[(3, 2, 4, 4, 5, 2, 3, 2), (1, 5, 7, 3, 3, 5, 1, 2), (2, 1, 28, 28, 4, 3, 3, 1)],
    *[(1, 17, 6, 5, 19, 3, 3, 1), (5, 3, 11, 13, 7, 1, 1, 0)],
    *[(2, 4, 6, 6, 3, 6, 6, 0), (1, 2, 3, 3, 2, 1, 1, 3), (3, 32, 7, 7, 33, 3, 3, 1)],
]


def conv2d_cases(generator) -> Iterator[Case]:
    for index, (n, ic, h, w, oc, kh, kw, padding) in enumerate(CONV_SIZES):
        x = random(generator, n, ic, h, w)
        weight = random(generator, oc, ic, kh, kw)
        bias = random(generator, oc) if index % 3 != 2 else None
        dy = random(
            generator, n, oc, h + 2 * padding - kh + 1, w + 2 * padding - kw + 1
        )
        title = f"n={n} ic={ic} h={h} w={w} oc={oc} kh={kh} kw={kw} padding={padding}"

        def conv(x, weight, bias, padding=padding):
            return F.conv2d(x, weight, bias, padding=padding)

        forward, backward = autograd(conv, [x, weight, bias], dy)
        size, sizes = autograd(conv, absolute(x, weight, bias), dy.abs())
        yield _conv_forward(title, x, weight, bias, padding, forward, size)
        yield _conv_backward(title, x, weight, dy, padding, backward, sizes, index)


def _conv_options(padding: int) -> Any:
    if padding == 0:
        return native.NULL
    return native.ffi.new("struct weft_conv2d_options *", {"padding": padding})


def _conv_forward(title, x, weight, bias, padding, want, size) -> Case:
    sizes = [*x.shape, weight.shape[0], *weight.shape[2:]]

    def launch(lib, rung, p, stream):
        lib.call("weft_conv2d", rung, p["y"], p["x"], p["weight"], p["bias"],
                 *sizes, _conv_options(padding), stream)  # fmt: skip

    answers = {"y": Answer(want, sum_bound(weight[0].numel() + 1, size))}
    inputs = {"x": x, "weight": weight, "bias": bias}
    return Case("conv2d", title, inputs, answers, launch)


def _conv_backward(title, x, weight, dy, padding, want, size, index) -> Case:
    sizes = [*x.shape, weight.shape[0], *weight.shape[2:]]
    taps = weight.shape[0] * weight.shape[2] * weight.shape[3]
    pixels = dy.numel() // dy.shape[1]
    terms = {"dx": taps, "dweight": pixels, "dbias": pixels}
    wanted = [("dx", "dweight", "dbias"), ("dweight",), ("dx", "dbias")][index % 3]

    def launch(lib, rung, p, stream):
        outputs = [p.get(name, native.NULL) for name in terms]
        lib.call("weft_conv2d_backward", rung, *outputs, p["dy"], p["x"], p["weight"],
                 *sizes, _conv_options(padding), stream)  # fmt: skip

    answers = {
        name: Answer(w, sum_bound(k, s))
        for (name, k), w, s in zip(terms.items(), want, size)
        if name in wanted and w is not None
    }
    if "dbias" in wanted and "dbias" not in answers:
        want_bias = dy.double().sum((0, 2, 3))
        answers["dbias"] = Answer(
            want_bias, sum_bound(pixels, dy.double().abs().sum((0, 2, 3)))
        )
    inputs = {"dy": dy, "x": x, "weight": weight}
    return Case("conv2d", "backward " + title, inputs, answers, launch)
