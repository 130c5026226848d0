"""Arguments for each op of torch.ops.weft, as its Python function takes them."""

from __future__ import annotations

import torch


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(shape, requires_grad=True)


def fixed(*shape: int) -> torch.Tensor:
    return torch.randn(shape)


def whole(below: int, *shape: int, dtype=torch.int32) -> torch.Tensor:
    return torch.randint(below, shape, dtype=dtype)


def make_samples() -> dict[str, list[tuple]]:
    """Return arguments by the op's name: small arrays, with every optional one."""
    torch.manual_seed(0)
    x, image = draw(2, 3, 5), draw(2, 3, 6, 5)
    return {
        "batchnorm2d": [(image, draw(3), draw(3))],
        "bincount": [(whole(7, 50), 7)],
        "compact": [(fixed(30), 0.0)],
        "conv2d": [
            (image, draw(4, 3, 3, 3), draw(4), 1),
            (fixed(2, 3, 6, 5), draw(4, 3, 2, 2)),
        ],
        "copy": [(x,)],
        "cross_entropy": [(draw(6, 10), whole(10, 6, dtype=torch.int64))],
        "histogram": [(whole(256, 50, dtype=torch.uint8),)],
        "layernorm": [
            (x,),
            (x, draw(5), draw(5)),
            (x, draw(5), draw(5), draw(2, 3, 5)),
        ],
        "linear": [(x, draw(4, 5), draw(4)), (fixed(3, 5), draw(4, 5))],
        "maxpool2d": [(image, [2, 2])],
        "polynomial": [(x,), (x, 1.0, 2.0, 3.0, 4.0)],
        "reduce": [(x,)],
        "relu": [(x,)],
        "rmsnorm": [(x, draw(5)), (x, draw(5), draw(2, 3, 5))],
        "scan": [(draw(9),), (draw(9), True, True)],
        "sgd": [(fixed(3, 4), fixed(3, 4), 0.1)],
        "softmax": [(x,)],
        "sort": [
            (fixed(20),),
            (fixed(20), whole(20, 20)),
            (whole(9, 20), None, True),
        ],
        "argsort": [(fixed(20), True)],
        "topk": [(draw(2, 3, 20), 4)],
        "transpose": [(draw(3, 4),)],
        "matmul": [(draw(3, 4), draw(4, 5)), (draw(2, 3, 4), draw(4, 5))],
    }
