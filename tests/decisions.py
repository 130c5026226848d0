"""A training step in float64 that takes the decisions of another step.

ReLU and max pool decide. A value nearer to a kink than its rounding error may fall on
either side, in PyTorch as well as in a rung. Then a term of the gradient appears or
vanishes, which changes the gradient a thousand times as much as rounding does. Chance
decides whether and where this happens: at batch 64, one of a few fp32 steps has such a
value. Therefore the two effects are separated. Gradients are compared with a float64
step that takes the same decisions. Decisions are compared with those of float64: each
decision that differs has a gap, measured in batch norm's output, whose deviation is its
weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from fused64 import planes, windows

from weft.mnist import Cnn, Twin
from weft.mnist.data import MEAN, STD
from weft.mnist.twin import precision, use_half

NOISE = 1e-12  # bound of float64's rounding, by which equal values may differ


@dataclass(frozen=True)
class Decisions:
    """code1 (n,196,32), code2 (n,49,64): a window's winner 0..3, or 4 where the ReLU is
    zero; live (n,128): where the last ReLU is not zero."""

    code1: torch.Tensor
    code2: torch.Tensor
    live: torch.Tensor


@dataclass(frozen=True)
class Decided:
    """A step's result, and the gaps of decisions that float64 takes differently."""

    loss: float
    gradients: dict[str, np.ndarray]
    gaps: torch.Tensor


def pixels64(images: np.ndarray, device: torch.device) -> torch.Tensor:
    """Convert uint8 (n,28,28) to float64 (n,1,28,28) in fp32's scale."""
    mean, std = float(np.float32(MEAN)), float(np.float32(STD))
    pixels = torch.from_numpy(images.copy()).to(device)[:, None]
    return (pixels.double() / 255 - mean) / std


def of_cnn(cnn: Cnn, weights: Mapping[str, np.ndarray], device: Any) -> Decisions:
    """Return the decisions of a fused rung in its last step, which began with
    `weights`."""
    arrays = {
        name: torch.from_numpy(cnn.peek(name)).to(device).double()
        for name in ("code1", "code2", "m2", "sum2", "dp2", "h")
    }
    m2 = arrays["m2"]
    mean, squares = arrays["sum2"].sum(0) / (len(m2) * 196)
    gamma, beta = (
        torch.from_numpy(weights[f"bn2.{n}"]).to(device).double()
        for n in ("weight", "bias")
    )
    scale = gamma / (squares - mean**2 + 1e-5).sqrt()
    shift = beta - mean * scale
    # A zero gradient is significant only where the ReLU itself is not clear.
    clear = 1e-5 * ((m2 * scale).abs() + shift.abs())
    alive = (arrays["dp2"] != 0) | (m2 * scale + shift > clear)
    code2 = torch.where(alive, arrays["code2"], 4.0)
    return Decisions(arrays["code1"].long(), code2.long(), arrays["h"] > 0)


@torch.no_grad()
def of_twin(model: Twin, x: torch.Tensor, name: str) -> Decisions:
    """Return PyTorch's decisions in the named precision; x is normalised, in fp32."""
    codes = []
    with precision(name), use_half(name, x.device):
        for i in "12":
            y = F.relu(model.layer(f"bn{i}", model.layer(f"conv{i}", x)))
            side = y.shape[-1]
            x, at = F.max_pool2d(y, 2, return_indices=True)
            code = at // side % 2 * 2 + at % side % 2
            code = torch.where(x > 0, code, 4)
            codes.append(code.flatten(2).transpose(1, 2))
        live = model.layer("fc1", x) > 0
    return Decisions(*codes, live)


def step(
    weights: Mapping[str, np.ndarray],
    images: np.ndarray,
    labels: np.ndarray,
    decisions: Decisions,
    device: Any,
) -> Decided:
    """Run one float64 step on uint8 images (n,28,28) with given decisions."""
    model = Twin().double().to(device)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(weights[name]))
    gaps = []
    x = pixels64(images, device)
    for i, code in (("1", decisions.code1), ("2", decisions.code2)):
        y = windows(model.layer(f"bn{i}", model.layer(f"conv{i}", x)))
        picked = y.gather(-1, code.clamp(max=3)[..., None])[..., 0]
        picked = torch.where(code < 4, picked, 0.0)
        gaps.append((y.detach().amax(-1).clamp(min=0) - picked.detach()).abs())
        x = planes(picked, round(code.shape[1] ** 0.5))
    h = model.fc1(x.flatten(1))
    gaps.append(torch.where(decisions.live, -h, h).detach().clamp(min=0))
    logits = model.fc2(torch.where(decisions.live, h, 0.0))
    loss = F.cross_entropy(logits, torch.from_numpy(labels.astype(np.int64)).to(device))
    loss.backward()
    gap = torch.cat([g.flatten() for g in gaps])
    return Decided(
        loss.item(),
        {n: p.grad.cpu().numpy() for n, p in model.named_parameters()},
        gap[gap > NOISE],
    )
