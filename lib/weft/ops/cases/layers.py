"""Describe the layers, the loss and the training step of image networks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial

import torch
import torch.nn.functional as F

from ..op import Bench, Op
from . import Answer, Case, U, absolute, autograd, column, random, sum_bound
from .rows import bound_powers, bound_softmax

# ---- conv2d ------------------------------------------------------------------------


def conv2d(x, weight, bias=None, padding=0):
    """Return the cross-correlation of x (n,ic,h,w) with weight (oc,ic,kh,kw), stride 1.

    bias is (oc). The result is (n, oc, h + 2 padding - kh + 1, w + 2 padding - kw + 1).
    """
    return F.conv2d(x, weight, bias, padding=padding)


CONV2D = Op(
    conv2d,
    {
        "x": "n, ic, h, w",
        "weight": "oc, ic, kh, kw",
        "bias": "oc",
        "y": "n, oc, h + 2 * padding - kh + 1, w + 2 * padding - kw + 1",
    },
    skipped=("dx", "dweight", "dbias"),
    only={"stride": 1, "dilation": 1, "groups": 1},
    bench=Bench(  # the sizes of the CNN's second convolution
        *("n", (64, 256)),
        {"ic": 32, "h": 14, "w": 14, "oc": 64, "kh": 3, "kw": 3, "padding": 1},
        flop=lambda sizes: 2.0 * sizes["n"] * 64 * 196 * 288,
    ),
)

CONV_SIZES = [  # n, ic, h, w, oc, kh, kw, padding
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
        height, width = h + 2 * padding - kh + 1, w + 2 * padding - kw + 1
        dy = random(generator, n, oc, height, width)
        title = f"n={n} ic={ic} h={h} w={w} oc={oc} kh={kh} kw={kw} padding={padding}"
        conv = partial(conv2d, padding=padding)
        forward, backward = autograd(conv, [x, weight, bias], dy)
        size, sizes = autograd(conv, absolute(x, weight, bias), dy.abs())
        yield _make_conv_forward(title, x, weight, bias, padding, forward, size)
        yield _make_conv_backward(title, x, weight, dy, padding, backward, sizes, index)


def _make_conv_forward(title, x, weight, bias, padding, want, size) -> Case:
    answers = {"y": Answer(want, sum_bound(weight[0].numel() + 1, size))}
    inputs = {"x": x, "weight": weight, "bias": bias}
    return CONV2D.case(title, inputs, answers, padding=padding)


def _make_conv_backward(title, x, weight, dy, padding, want, size, index) -> Case:
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
    return CONV2D.case(title, inputs, answers, padding=padding)


# ---- maxpool2d ---------------------------------------------------------------------


def maxpool2d(x, kernel_size):
    """Return window maxima of x (n,c,h,w), stride = window -> (n, c, h//kh, w//kw).

    kernel_size: (kh, kw), or one number for both.
    """
    return F.max_pool2d(x, kernel_size, return_indices=True)[0]


MAXPOOL2D = Op(
    maxpool2d,
    {
        "x": "n, c, h, w",
        "kernel_size": "kh, kw",
        "y": "n, c, h // kh, w // kw",
        "argmax": "n, c, h // kh, w // kw",
    },
    only={"stride": "kernel_size", "padding": 0, "dilation": 1, "ceil_mode": False},
    bench=Bench("n", (64, 256), {"c": 32, "h": 28, "w": 28, "kh": 2, "kw": 2}),
)

_POOL_SIZES = [  # n, c, h, w, kh, kw
    *[(1, 1, 1, 1, 1, 1), (1, 1, 2, 2, 2, 2), (2, 3, 5, 7, 2, 2), (3, 2, 7, 9, 3, 2)],
    *[(2, 1, 28, 28, 2, 2), (1, 5, 6, 6, 6, 5), (5, 7, 4, 11, 1, 3)],
]


def maxpool2d_cases(generator) -> Iterator[Case]:
    for n, c, h, w, kh, kw in _POOL_SIZES:
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
        yield MAXPOOL2D.case(title, {"x": x}, answers, kh=kh, kw=kw)
        answers = {"dx": Answer(dx.reshape(x.shape).double())}
        yield MAXPOOL2D.case(title, {"dy": dy, "argmax": index}, answers, kh=kh, kw=kw)


# ---- relu --------------------------------------------------------------------------


def relu(x):
    """Return max(x, 0) for x of any shape; NaN stays NaN."""
    return F.relu(x)


RELU = Op(
    relu,
    {"x": "...", "y": "..."},
    bench=Bench("count", (2**10, 2**16, 2**22)),
)


def relu_cases(generator) -> Iterator[Case]:
    for count in (1, 2, 3, 31, 32, 33, 255, 257, 1009, 5000):
        x, dy = random(generator, count), random(generator, count)
        x[count // 2] = 0.0
        x[count // 3] = float("nan") if count % 2 else x[count // 3]
        y = x.relu()
        dx = torch.where(y > 0, dy, 0.0).double()
        title = f"count={count}"
        yield RELU.case(title, {"x": x}, {"y": Answer(y.double())})
        yield RELU.case(title, {"dy": dy, "y": y}, {"dx": Answer(dx)})


# ---- linear ------------------------------------------------------------------------


def linear(x, weight, bias=None):
    """Return x (n,in) @ weight (out,in)^T + bias (out) -> (n,out).

    x may have any number of dimensions before the last; the result keeps them.
    """
    return F.linear(x, weight, bias)


LINEAR = Op(
    linear,
    {"x": "*n, in", "weight": "out, in", "bias": "out", "y": "*n, out"},
    skipped=("dx", "dweight", "dbias"),
    bench=Bench(
        *("n", (64, 256), {"in": 3136, "out": 128}),
        flop=lambda sizes: 2.0 * sizes["n"] * sizes["in"] * sizes["out"],
    ),
)

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
        yield _make_linear_forward(title, x, weight, bias, forward, size)
        yield _make_linear_backward(title, x, weight, dy, with_bias, backward, sizes)


def _make_linear_forward(title, x, weight, bias, want, size) -> Case:
    answers = {"y": Answer(want, sum_bound(x.shape[1] + 1, size))}
    return LINEAR.case(title, {"x": x, "weight": weight, "bias": bias}, answers)


def _make_linear_backward(title, x, weight, dy, all_three, want, size) -> Case:
    n, outs = dy.shape
    terms = {"dx": outs, "dweight": n, "dbias": n}
    answers = {
        name: Answer(w, sum_bound(k, s))
        for (name, k), w, s in zip(terms.items(), want, size)
        if all_three or name == "dweight"
    }
    return LINEAR.case(title, {"dy": dy, "x": x, "weight": weight}, answers)


# ---- batchnorm2d -------------------------------------------------------------------

EPS = 1e-5


def batchnorm2d(x, weight, bias, eps=EPS):
    """Return (x - mean) / sqrt(var + eps) * weight + bias, per channel of x (n,c,h,w).

    mean and the biased variance are computed over this batch; there are no running
    statistics. weight and bias are (c). n*h*w must be more than 1.
    """
    return F.batch_norm(x, None, None, weight, bias, True, 0, eps)


BATCHNORM2D = Op(
    batchnorm2d,
    {
        **{"x": "n, c, h, w", "weight": "c", "bias": "c"},
        **{"y": "n, c, h, w", "mean": "c", "rstd": "c"},
    },
    bench=Bench("n", (64, 256), {"c": 32, "h": 28, "w": 28}),
)

_BATCHNORM_SIZES = [  # n, c, h, w, and an offset added to x
    *[(2, 1, 1, 1, 0.0), (1, 3, 1, 2, 0.0), (3, 2, 5, 7, 0.0), (5, 7, 3, 3, 0.0)],
    *[(2, 5, 16, 17, 0.0), (4, 3, 13, 29, 100.0), (1, 33, 4, 4, -3.0)],
]


def batchnorm2d_cases(generator) -> Iterator[Case]:
    for n, c, h, w, offset in _BATCHNORM_SIZES:
        x = random(generator, n, c, h, w) + offset
        weight, bias = random(generator, c), random(generator, c)
        dy = random(generator, n, c, h, w)
        title = f"n={n} c={c} h={h} w={w} offset={offset}"
        yield _make_batchnorm_forward(title, x, weight, bias)
        yield _make_batchnorm_backward(title, x, weight, bias, dy)


def _compute_moments(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return mean and rstd (c, float64), and the error bounds of both in float32."""
    count = x.numel() // x.shape[1]
    x64 = x.double()
    mean, var = x64.mean((0, 2, 3)), x64.var((0, 2, 3), unbiased=False)
    mean_bound = 1.01 * (count + 2) * U * x64.abs().mean((0, 2, 3)) + 1e-38
    # A sum of (x - m)^2 about a mean m with error d is the exact sum plus count d^2.
    # Each term has 3 roundings, and the sum adds `count` more.
    var_bound = 1.01 * (count + 4) * U * var + mean_bound**2
    rstd = (var + EPS).rsqrt()
    rstd_bound = rstd * (0.51 * var_bound / (var + EPS) + 4 * U)
    return mean, rstd, mean_bound, rstd_bound


def _make_batchnorm_forward(title, x, weight, bias) -> Case:
    mean, rstd, mean_bound, rstd_bound = _compute_moments(x)
    x64, weight64, bias64 = x.double(), column(weight.double()), column(bias.double())
    centered = x64 - column(mean)
    scaled = centered * column(rstd) * weight64
    want = batchnorm2d(x64, weight.double(), bias.double())
    bound = (
        weight64.abs() * column(rstd + rstd_bound) * column(mean_bound)
        + scaled.abs() * (column(rstd_bound / rstd) + 5 * U)
        # y may be computed as x * scale + (bias - mean * scale), with cancellation.
        + 4 * U * (column(rstd * mean.abs()) * weight64.abs() + bias64.abs())
        + 4 * U * x64.abs() * column(rstd) * weight64.abs()
    )
    answers = {
        "y": Answer(want, bound),
        "mean": Answer(mean, mean_bound),
        "rstd": Answer(rstd, rstd_bound),
    }
    inputs = {"x": x, "weight": weight, "bias": bias}
    return BATCHNORM2D.case(title, inputs, answers, eps=EPS)


def _make_batchnorm_backward(title, x, weight, bias, dy) -> Case:
    """Return a case for autograd's gradients, with mean and rstd rounded to float32."""
    count = x.numel() // x.shape[1]
    mean, rstd, _, _ = _compute_moments(x)
    _, (dx, dweight, dbias) = autograd(batchnorm2d, [x, weight, bias], dy)
    size = dy.double().abs()
    xhat = (x.double() - column(mean)) * column(rstd)
    xhat_bound = 4 * U * xhat.abs() + 1.01 * U * column(mean.abs() * rstd)
    dims = (0, 2, 3)
    dbias_bound = sum_bound(count, size.sum(dims))
    dweight_bound = sum_bound(count + 2, (size * xhat.abs()).sum(dims))
    dweight_bound += (size * xhat_bound).sum(dims)
    inner = (
        8 * U * (size + column(dbias.abs() / count))
        + 8 * U * xhat.abs() * column(dweight.abs() / count)
        + column(dbias_bound / count)
        + xhat.abs() * column(dweight_bound / count)
        + xhat_bound * column(dweight.abs() / count)
    )
    bound = column(weight.double().abs() * rstd) * inner + 1e-38
    answers = {
        "dx": Answer(dx, bound),
        "dweight": Answer(dweight, dweight_bound),
        "dbias": Answer(dbias, dbias_bound),
    }
    inputs = {"dy": dy, "x": x, "weight": weight}
    inputs |= {"mean": mean.float(), "rstd": rstd.float()}
    return BATCHNORM2D.case(title, inputs, answers)


# ---- cross_entropy -----------------------------------------------------------------


def cross_entropy(logits, target):
    """Return the batch mean of -log softmax(logits (n,classes))[target (n) int64].

    The result is one number, of shape (). On the host, a target outside [0, classes)
    raises an error. On a GPU the loss becomes NaN, since an error would require a
    synchronization.
    """
    return F.cross_entropy(logits, target)


CROSS_ENTROPY = Op(
    cross_entropy,
    {"logits": "n, classes", "target": "n", "loss": "", "prob": "n, classes"},
    below={"target": "classes"},
    bench=Bench(
        *("classes", (10, 1000, 50_257)),  # digits, photographs, a vocabulary
        {"n": lambda classes: max(512, min(4096, 2**22 // classes))},
        counted={"n": lambda classes: max(4, 2**16 // classes)},
        on_gpu={"n": lambda classes: max(4096, 2**26 // max(1024, classes))},
        beside_copy=True,
    ),
)

_ENTROPY_SIZES = [  # n, classes, and a factor applied to the logits
    *[(1, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0), (3, 10, 30.0), (31, 10, 1.0)],
    *[(33, 7, 1.0), (64, 10, 1.0), (65, 101, 5.0), (257, 10, 1.0), (4, 5, 1000.0)],
    *[(3, 1, 1.0), (9, 32, 1.0), (9, 33, 1.0), (2, 128, 3.0), (2, 1000, 1.0)],
    *[(2, 1024, 1.0), (2, 1025, 1.0), (2, 3001, 1.0), (1, 16_384, 1.0)],
    *[(1, 16_385, 1.0), (1, 26_003, 1.0), (1, 65_537, 1.0)],
]


def cross_entropy_cases(generator) -> Iterator[Case]:
    for n, classes, factor in _ENTROPY_SIZES:
        logits = factor * random(generator, n, classes)
        target = torch.randint(0, classes, (n,), generator=generator)
        dloss = random(generator, 1)
        title = f"n={n} classes={classes} factor={factor}"
        for case in (
            _make_entropy_forward(title, logits, target),
            _make_entropy_backward(title, logits, target, dloss),
            _make_entropy_backward(title, logits, target, None),
        ):
            case.every_order = classes < 4096
            yield case
    yield from _make_odd_entropies(random(generator, 5, 70))


def _make_odd_entropies(logits: torch.Tensor) -> Iterator[Case]:
    """Yield cases whose losses are infinite or NaN, and other odd ones."""
    target, infinity = torch.tensor([1, 0, 69, 33, 5]), float("inf")
    excluded = logits.clone()
    excluded[:, 2::4] = -infinity
    rows = {
        "equal logits": torch.full_like(logits, 7.0),
        "large logits": 1000 + 30 * logits,
        "excluded classes": excluded,
        "an excluded target": excluded.index_put(
            (torch.tensor(2), torch.tensor(69)), torch.tensor(-infinity)
        ),
    }
    for name, number in {"infinity": infinity, "NaN": float("nan")}.items():
        rows[f"a logit is {name}"] = logits.clone()
        rows[f"a logit is {name}"][3, 7] = number
    rows["all classes excluded"] = logits.clone()
    rows["all classes excluded"][2] = -infinity
    for title, odd in rows.items():
        yield _make_entropy_forward(title, odd, target)
    aligned = logits[:, :64].contiguous()
    case = _make_entropy_forward("shifted by 1", aligned, target % 64)
    case.shift = {"logits": 1}
    yield case
    case = _make_entropy_backward("shifted by 1", aligned, target % 64, None)
    case.shift = {"prob": 1}
    yield case


def _make_entropy_forward(title, logits, target) -> Case:
    """Return a case with bounds of the probabilities and of the loss.

    The logarithm turns the relative error of a row's sum into an absolute one. log()
    itself is off by 3 u, and the differences by u each.
    """
    n = len(target)
    prob, _, total = bound_powers(logits)
    rows = F.cross_entropy(logits.double(), target, reduction="none")
    logits64 = logits.double()
    depth = logits64.amax(1) - logits64.gather(1, target[:, None])[:, 0]
    log_sum = logits64.logsumexp(1) - logits64.amax(1)
    row_bound = 1.01 * total[:, 0] + U * (3 * log_sum.abs() + 2 * depth + 2 * rows)
    bound = row_bound.mean() + 1.01 * (n + 1) * U * rows.mean()

    answers = {
        "loss": Answer(rows.mean().reshape(1), bound.reshape(1)),
        # Below 2^-126, float32 loses digits and may flush to zero.
        "prob": Answer(prob, bound_softmax(logits) + 2.0**-126),
    }
    return CROSS_ENTROPY.case(title, {"logits": logits, "target": target}, answers)


def _make_entropy_backward(title, logits, target, dloss) -> Case:
    n, classes = logits.shape
    prob = logits.double().softmax(1).float()
    factor = 1.0 if dloss is None else dloss.double().item()
    onehot = F.one_hot(target, classes).double()
    want = (prob.double() - onehot) * factor / n
    size = (prob.double() + onehot) * abs(factor) / n

    inputs = {"dloss": dloss, "prob": prob, "target": target}
    answers = {"dlogits": Answer(want, 4 * U * size + 1e-38)}
    return CROSS_ENTROPY.case(title, inputs, answers)


# ---- sgd ---------------------------------------------------------------------------


def sgd(param, grad, lr):
    """Subtract lr * grad from param (any shape) in place, and return param."""
    return param.sub_(grad, alpha=lr)


SGD = Op(sgd, {"param": "...", "grad": "..."})


def sgd_cases(generator) -> Iterator[Case]:
    for count in (1, 2, 3, 32, 255, 257, 1009, 4096):
        param, grad = random(generator, count), random(generator, count)
        lr = 0.1
        # C receives a float32 number; this is its value in float64.
        lr64 = torch.tensor(lr).double()
        want = param.double() - lr64 * grad.double()
        bound = 1.01 * U * (want.abs() + (lr64 * grad.double()).abs())
        answers, initial = {"param": Answer(want, bound)}, {"param": param}
        yield SGD.case(f"count={count}", {"grad": grad}, answers, initial, lr=lr)
