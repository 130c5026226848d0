"""What every op is checked with: sizes, inputs, float64 answers and bounds.

A bound says how far a correct float32 result may lie from the float64 one. It
is derived, not guessed: with u = 2^-24, a sum of k products computed in any
order and with or without fused multiply-adds differs from the exact one by at
most 1.01 k u times the same sum over absolute values (Higham, Accuracy and
Stability of Numerical Algorithms, 2nd ed., section 3.1; 1.01 covers the higher
orders for k u < 0.01). That is tight enough to catch TF32 left on.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F

from .. import native

U = 2.0**-24  # half the distance from 1 to the next float32
Tensors = dict[str, torch.Tensor]


@dataclass
class Answer:
    """What an output must be: float64 `want` (or integers), and how close."""

    want: torch.Tensor
    bound: torch.Tensor | float = 0.0
    dtype: torch.dtype = torch.float32


@dataclass
class Case:
    """One call of one launcher: `launch(lib, rung, pointers, stream)`.

    Beside those of the arrays, pointers["workspace"] is a function: of a number of
    bytes, it gives so much memory on the target, at a multiple of 256, for that call.
    """

    op: str
    title: str
    inputs: Tensors
    answers: dict[str, Answer]
    launch: Callable[[Any, int, dict[str, Any], Any], None]
    initial: Tensors = field(default_factory=dict)  # outputs not poisoned
    # By how many elements an array starts past an aligned address.
    shift: dict[str, int] = field(default_factory=dict)
    every_order: bool = True  # of threads; else one of them is enough


def cases(
    op: str, seed: int = 0, precision: str = "fp32", wide: int = 0
) -> Iterator[Case]:
    """The cases of `op` with random signed inputs from `seed`.

    precision: the rung's, which decides what it takes and how close it must come.
    wide: where there are such (matmul), so many random cases more, and large ones.
    """
    generator = torch.Generator().manual_seed(seed)
    if op == "matmul":
        from .cases_matmul import matmul_cases  # which imports this file

        yield from matmul_cases(generator, precision, wide)
    else:
        yield from _MAKERS[op](generator)


def sum_bound(terms: int, absolute_sum: Any) -> Any:
    """The bound of a float32 sum of `terms` products; see the top of the file.

    absolute_sum: the same sum over absolute values, a tensor or an array in float64.
    """
    return 1.01 * (terms + 1) * U * absolute_sum + 1e-38


# ---- linear ----------------------------------------------------------------------

_LINEAR_SIZES = [
    *[(1, 1, 1), (2, 3, 1), (1, 2, 3), (5, 7, 11), (16, 17, 15), (33, 31, 65)],
    *[(64, 128, 10), (70, 257, 33)],
]


def _linear(generator) -> Iterator[Case]:
    for (n, ins, outs), with_bias in itertools.product(_LINEAR_SIZES, (True, False)):
        x, weight = _random(generator, n, ins), _random(generator, outs, ins)
        bias = _random(generator, outs) if with_bias else None
        dy = _random(generator, n, outs)
        title = f"n={n} in={ins} out={outs} bias={with_bias}"
        forward, backward = _autograd(F.linear, [x, weight, bias], dy)
        size, sizes = _autograd(F.linear, _absolute(x, weight, bias), dy.abs())
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

_CONV_SIZES = [  # n ic h w oc kh kw padding
    *[(1, 1, 1, 1, 1, 1, 1, 0), (1, 1, 3, 3, 1, 3, 3, 0), (2, 3, 5, 7, 2, 3, 3, 1)],
    *[(3, 2, 4, 4, 5, 2, 3, 2), (1, 5, 7, 3, 3, 5, 1, 2), (2, 1, 28, 28, 4, 3, 3, 1)],
    *[(1, 17, 6, 5, 19, 3, 3, 1), (5, 3, 11, 13, 7, 1, 1, 0)],
    *[(2, 4, 6, 6, 3, 6, 6, 0), (1, 2, 3, 3, 2, 1, 1, 3), (3, 32, 7, 7, 33, 3, 3, 1)],
]


def _conv2d(generator) -> Iterator[Case]:
    for index, (n, ic, h, w, oc, kh, kw, padding) in enumerate(_CONV_SIZES):
        x = _random(generator, n, ic, h, w)
        weight = _random(generator, oc, ic, kh, kw)
        bias = _random(generator, oc) if index % 3 != 2 else None
        dy = _random(
            generator, n, oc, h + 2 * padding - kh + 1, w + 2 * padding - kw + 1
        )
        title = f"n={n} ic={ic} h={h} w={w} oc={oc} kh={kh} kw={kw} padding={padding}"

        def conv(x, weight, bias, padding=padding):
            return F.conv2d(x, weight, bias, padding=padding)

        forward, backward = _autograd(conv, [x, weight, bias], dy)
        size, sizes = _autograd(conv, _absolute(x, weight, bias), dy.abs())
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


# ---- batch norm ------------------------------------------------------------------

_BATCHNORM_SIZES = [  # n c h w, and an offset added to x
    *[(2, 1, 1, 1, 0.0), (1, 3, 1, 2, 0.0), (3, 2, 5, 7, 0.0), (5, 7, 3, 3, 0.0)],
    *[(2, 5, 16, 17, 0.0), (4, 3, 13, 29, 100.0), (1, 33, 4, 4, -3.0)],
]


def _batchnorm2d(generator) -> Iterator[Case]:
    for n, c, h, w, offset in _BATCHNORM_SIZES:
        x = _random(generator, n, c, h, w) + offset
        weight, bias = _random(generator, c), _random(generator, c)
        dy = _random(generator, n, c, h, w)
        title = f"n={n} c={c} h={h} w={w} offset={offset}"
        yield _batchnorm_forward(title, x, weight, bias, 1e-5)
        yield _batchnorm_backward(title, x, weight, bias, dy, 1e-5)


def _moments(x: torch.Tensor, eps: float) -> tuple[torch.Tensor, ...]:
    """mean, rstd (c, float64) and the error bounds of both in float32."""
    count = x.numel() // x.shape[1]
    x64 = x.double()
    mean, var = x64.mean((0, 2, 3)), x64.var((0, 2, 3), unbiased=False)
    mean_bound = 1.01 * (count + 2) * U * x64.abs().mean((0, 2, 3)) + 1e-38
    # Sum of (x - m)^2 about a mean that is off by d: the exact one plus count
    # d^2; each term has 3 roundings and the sum count more.
    var_bound = 1.01 * (count + 4) * U * var + mean_bound**2
    rstd = (var + eps).rsqrt()
    rstd_bound = rstd * (0.51 * var_bound / (var + eps) + 4 * U)
    return mean, rstd, mean_bound, rstd_bound


def _batchnorm_forward(title, x, weight, bias, eps) -> Case:
    mean, rstd, mean_bound, rstd_bound = _moments(x, eps)
    x64, weight64, bias64 = x.double(), _column(weight.double()), _column(bias.double())
    centred = x64 - _column(mean)
    scaled = centred * _column(rstd) * weight64
    want = F.batch_norm(x64, None, None, weight.double(), bias.double(), True, 0, eps)
    bound = (
        weight64.abs() * _column(rstd + rstd_bound) * _column(mean_bound)
        + scaled.abs() * (_column(rstd_bound / rstd) + 5 * U)
        # y may be computed as x * scale + (bias - mean * scale): cancellation
        + 4 * U * (_column(rstd * mean.abs()) * weight64.abs() + bias64.abs())
        + 4 * U * x64.abs() * _column(rstd) * weight64.abs()
    )

    def launch(lib, rung, p, stream):
        lib.call("weft_batchnorm2d", rung, p["y"], p["mean"], p["rstd"], p["x"],
                 p["weight"], p["bias"], *x.shape, eps, stream)  # fmt: skip

    answers = {
        "y": Answer(want, bound),
        "mean": Answer(mean, mean_bound),
        "rstd": Answer(rstd, rstd_bound),
    }
    inputs = {"x": x, "weight": weight, "bias": bias}
    return Case("batchnorm2d", title, inputs, answers, launch)


def _batchnorm_backward(title, x, weight, bias, dy, eps) -> Case:
    """The gradients by autograd; mean and rstd arrive rounded to float32."""
    count = x.numel() // x.shape[1]
    mean, rstd, _, _ = _moments(x, eps)

    def norm(x, weight, bias):
        return F.batch_norm(x, None, None, weight, bias, True, 0, eps)

    _, (dx, dweight, dbias) = _autograd(norm, [x, weight, bias], dy)
    size = dy.double().abs()
    xhat = (x.double() - _column(mean)) * _column(rstd)
    xhat_bound = 4 * U * xhat.abs() + 1.01 * U * _column(mean.abs() * rstd)
    dims = (0, 2, 3)
    dbias_bound = sum_bound(count, size.sum(dims))
    dweight_bound = sum_bound(count + 2, (size * xhat.abs()).sum(dims))
    dweight_bound += (size * xhat_bound).sum(dims)
    inner = (
        8 * U * (size + _column(dbias.abs() / count))
        + 8 * U * xhat.abs() * _column(dweight.abs() / count)
        + _column(dbias_bound / count)
        + xhat.abs() * _column(dweight_bound / count)
        + xhat_bound * _column(dweight.abs() / count)
    )
    bound = _column(weight.double().abs() * rstd) * inner + 1e-38

    def launch(lib, rung, p, stream):
        lib.call("weft_batchnorm2d_backward", rung, p["dx"], p["dweight"], p["dbias"],
                 p["dy"], p["x"], p["weight"], p["mean"], p["rstd"], *x.shape,
                 stream)  # fmt: skip

    answers = {
        "dx": Answer(dx, bound),
        "dweight": Answer(dweight, dweight_bound),
        "dbias": Answer(dbias, dbias_bound),
    }
    inputs = {"dy": dy, "x": x, "weight": weight}
    inputs |= {"mean": mean.float(), "rstd": rstd.float()}
    return Case("batchnorm2d", "backward " + title, inputs, answers, launch)


# ---- relu, max pool, cross entropy, sgd --------------------------------------------


def _relu(generator) -> Iterator[Case]:
    for count in (1, 2, 3, 31, 32, 33, 255, 257, 1009, 5000):
        x, dy = _random(generator, count), _random(generator, count)
        x[count // 2] = 0.0
        x[count // 3] = float("nan") if count % 2 else x[count // 3]
        y = x.relu()

        def forward(lib, rung, p, stream, count=count):
            lib.call("weft_relu", rung, p["y"], p["x"], count, stream)

        def backward(lib, rung, p, stream, count=count):
            lib.call(
                "weft_relu_backward", rung, p["dx"], p["dy"], p["y"], count, stream
            )

        title = f"count={count}"
        yield Case("relu", title, {"x": x}, {"y": Answer(y.double())}, forward)
        dx = torch.where(y > 0, dy, 0.0).double()
        answers = {"dx": Answer(dx)}
        yield Case("relu", "backward " + title, {"dy": dy, "y": y}, answers, backward)


_POOL_SIZES = [  # n c h w kh kw
    *[(1, 1, 1, 1, 1, 1), (1, 1, 2, 2, 2, 2), (2, 3, 5, 7, 2, 2), (3, 2, 7, 9, 3, 2)],
    *[(2, 1, 28, 28, 2, 2), (1, 5, 6, 6, 6, 5), (5, 7, 4, 11, 1, 3)],
]


def _maxpool2d(generator) -> Iterator[Case]:
    for sizes in _POOL_SIZES:
        n, c, h, w, kh, kw = sizes
        # A few values only, so that windows have ties: the first must win.
        x = torch.randint(-3, 4, (n, c, h, w), generator=generator).float()
        if h * w > 30:
            x[0, 0, 1, 1] = float("nan")
        y, flat = F.max_pool2d(x, (kh, kw), return_indices=True)
        rows, columns = flat // w, flat % w
        argmax = (rows % kh) * kw + columns % kw
        dy = _random(generator, *y.shape)
        dx = torch.zeros(n, c, h * w).scatter_(2, flat.flatten(2), dy.flatten(2))

        def forward(lib, rung, p, stream, sizes=sizes):
            lib.call(
                "weft_maxpool2d", rung, p["y"], p["argmax"], p["x"], *sizes, stream
            )

        def backward(lib, rung, p, stream, sizes=sizes):
            lib.call("weft_maxpool2d_backward", rung, p["dx"], p["dy"], p["argmax"],
                     *sizes, stream)  # fmt: skip

        title = "n={} c={} h={} w={} kh={} kw={}".format(*sizes)
        index = argmax.int()
        answers = {"y": Answer(y.double()), "argmax": Answer(index, 0.0, torch.int32)}
        yield Case("maxpool2d", title, {"x": x}, answers, forward)
        inputs = {"dy": dy, "argmax": index}
        answers = {"dx": Answer(dx.reshape(x.shape).double())}
        yield Case("maxpool2d", "backward " + title, inputs, answers, backward)


_ENTROPY_SIZES = [  # n classes, and a factor on the logits
    *[(1, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0), (3, 10, 30.0), (31, 10, 1.0)],
    *[(33, 7, 1.0), (64, 10, 1.0), (65, 101, 5.0), (257, 10, 1.0), (4, 5, 1000.0)],
]


def _cross_entropy(generator) -> Iterator[Case]:
    for n, classes, factor in _ENTROPY_SIZES:
        logits = factor * _random(generator, n, classes)
        target = torch.randint(0, classes, (n,), generator=generator)
        dloss = _random(generator, 1)
        title = f"n={n} classes={classes} factor={factor}"
        yield _entropy_forward(title, logits, target)
        yield _entropy_backward(title, logits, target, dloss)
        yield _entropy_backward(title, logits, target, None)


def _softmax(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """prob in float64 and the relative error of its float32 version, per element.

    x - max is rounded once, which exp() turns into a relative error of |x - max|
    u; exp itself is good to 2 units in the last place, 4 u.
    """
    logits64 = logits.double()
    depth = logits64.amax(1, keepdim=True) - logits64
    prob = logits64.softmax(1)
    relative = (1.01 * depth + 4.1) * U
    total = (prob * relative).sum(1, keepdim=True) + 1.01 * logits.shape[1] * U
    return prob, relative + total + 2 * U


def _entropy_forward(title, logits, target) -> Case:
    n, classes = logits.shape
    prob, relative = _softmax(logits)
    logits64 = logits.double()
    rows = F.cross_entropy(logits64, target, reduction="none")
    depth = logits64.amax(1) - logits64.gather(1, target[:, None])[:, 0]
    log_sum = (rows - depth).abs()
    row_bound = relative.amax(1) + 3 * U * log_sum + 2 * U * depth.abs() + 2 * U * rows
    bound = row_bound.mean() + 1.01 * (n + 1) * U * rows.mean()

    def launch(lib, rung, p, stream):
        lib.call("weft_cross_entropy", rung, p["loss"], p["prob"], p["logits"],
                 p["target"], n, classes, stream)  # fmt: skip

    answers = {
        "loss": Answer(rows.mean().reshape(1), bound.reshape(1)),
        # 2^-126: below it float32 loses digits, and may flush to zero
        "prob": Answer(prob, prob * relative + 2.0**-126),
    }
    return Case(
        *["cross_entropy", title, {"logits": logits, "target": target}],
        *[answers, launch],
    )


def _entropy_backward(title, logits, target, dloss) -> Case:
    n, classes = logits.shape
    prob = logits.double().softmax(1).float()
    factor = 1.0 if dloss is None else dloss.double().item()
    onehot = F.one_hot(target, classes).double()
    want = (prob.double() - onehot) * factor / n
    size = (prob.double() + onehot) * abs(factor) / n

    def launch(lib, rung, p, stream):
        lib.call("weft_cross_entropy_backward", rung, p["dlogits"], p["dloss"],
                 p["prob"], p["target"], n, classes, stream)  # fmt: skip

    inputs = {"dloss": dloss, "prob": prob, "target": target}
    answers = {"dlogits": Answer(want, 4 * U * size + 1e-38)}
    return Case("cross_entropy", "backward " + title, inputs, answers, launch)


def _sgd(generator) -> Iterator[Case]:
    for count in (1, 2, 3, 32, 255, 257, 1009, 4096):
        param, grad = _random(generator, count), _random(generator, count)
        lr = 0.1

        def launch(lib, rung, p, stream, count=count, lr=lr):
            lib.call("weft_sgd", rung, p["param"], p["grad"], count, lr, stream)

        lr64 = torch.tensor(lr).double()  # the float32 that C receives
        want = param.double() - lr64 * grad.double()
        bound = 1.01 * U * (want.abs() + (lr64 * grad.double()).abs())
        yield Case(
            *["sgd", f"count={count}", {"grad": grad}, {"param": Answer(want, bound)}],
            *[launch, {"param": param}],
        )


# ---- helpers -------------------------------------------------------------------------


def _random(generator, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=generator)


def _absolute(*tensors: torch.Tensor | None) -> list[torch.Tensor | None]:
    return [None if t is None else t.abs() for t in tensors]


def _column(vector: torch.Tensor) -> torch.Tensor:
    """(c) as (1,c,1,1), to meet an image."""
    return vector[None, :, None, None]


def _autograd(function, inputs, dy):
    """function(*inputs) and its gradients for dy, by torch in float64."""
    inputs = [None if t is None else t.double().requires_grad_() for t in inputs]
    y = function(*inputs)
    y.backward(dy.double())
    return y.detach(), [None if t is None else t.grad for t in inputs]


_MAKERS: dict[str, Callable[..., Iterator[Case]]] = {
    "batchnorm2d": _batchnorm2d,
    "conv2d": _conv2d,
    "cross_entropy": _cross_entropy,
    "linear": _linear,
    "maxpool2d": _maxpool2d,
    "relu": _relu,
    "sgd": _sgd,
}
OPS = tuple(sorted([*_MAKERS, "matmul"]))
