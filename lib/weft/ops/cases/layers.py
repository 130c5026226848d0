"""What relu, maxpool2d, cross_entropy and sgd are checked with."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F

from .case import (
    Answer,
    Case,
    U,
    random,
)


def relu_cases(generator) -> Iterator[Case]:
    for count in (1, 2, 3, 31, 32, 33, 255, 257, 1009, 5000):
        x, dy = random(generator, count), random(generator, count)
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


def maxpool2d_cases(generator) -> Iterator[Case]:
    for sizes in _POOL_SIZES:
        n, c, h, w, kh, kw = sizes
        # A few values only, so that windows have ties: the first must win.
        x = torch.randint(-3, 4, (n, c, h, w), generator=generator).float()
        if h * w > 30:
            x[0, 0, 1, 1] = float("nan")
        y, flat = F.max_pool2d(x, (kh, kw), return_indices=True)
        rows, columns = flat // w, flat % w
        argmax = (rows % kh) * kw + columns % kw
        dy = random(generator, *y.shape)
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


def cross_entropy_cases(generator) -> Iterator[Case]:
    for n, classes, factor in _ENTROPY_SIZES:
        logits = factor * random(generator, n, classes)
        target = torch.randint(0, classes, (n,), generator=generator)
        dloss = random(generator, 1)
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


def sgd_cases(generator) -> Iterator[Case]:
    for count in (1, 2, 3, 32, 255, 257, 1009, 4096):
        param, grad = random(generator, count), random(generator, count)
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
