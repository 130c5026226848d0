"""One training step in float64, and how far another one is from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from .data import MEAN, STD
from .twin import Twin

# Batch norm takes a convolution's bias away again: its gradient is zero but for
# rounding, which has no relative error.
MOVELESS = ("conv1.bias", "conv2.bias")

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Step:
    """loss, the mean over the batch, and its gradients by the parameters' names."""

    loss: float
    gradients: Arrays

    def errors(self, loss: float, gradients: Mapping[str, np.ndarray]) -> dict:
        """The relative errors of another step's loss and gradients.

        loss_error; gradient_errors: of each parameter the Frobenius norm of the
        difference over that of the gradient; gradient_error: the largest of them.
        NaN where the other one has any.
        """
        errors = {}
        for name, want in self.gradients.items():
            if name in MOVELESS:
                continue
            off = np.linalg.norm(np.asarray(gradients[name], np.float64) - want)
            errors[name] = float(off / max(np.linalg.norm(want), 1e-300))
        return {
            "loss_error": abs(loss - self.loss) / max(abs(self.loss), 1e-300),
            "gradient_error": float(np.max([*errors.values()])),
            "gradient_errors": errors,
        }


def exact_step(
    weights: Mapping[str, np.ndarray],
    images: np.ndarray,
    labels: np.ndarray,
    device: str | torch.device = "cpu",
) -> Step:
    """Forward and backward in float64 on the images (n,h,w) and labels (n), uint8.

    The model's sizes are those of the weights, which are as Cnn.weights has them.
    """
    sizes: dict[str, Any] = {
        "channels": (len(weights["conv1.weight"]), len(weights["conv2.weight"])),
        **{"hidden": len(weights["fc1.weight"]), "classes": len(weights["fc2.weight"])},
        **{"height": images.shape[1], "width": images.shape[2]},
    }
    model = Twin(**sizes).double().to(device)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(np.asarray(weights[name], np.float64)))
    # The scale is fp32's, as all sides read it.
    mean, std = float(np.float32(MEAN)), float(np.float32(STD))
    pixels = torch.from_numpy(images.copy()).to(device)
    x = (pixels[:, None].double() / 255 - mean) / std
    target = torch.from_numpy(labels.astype(np.int64)).to(device)
    loss = F.cross_entropy(model(x), target)
    loss.backward()
    gradients = {n: p.grad.cpu().numpy() for n, p in model.named_parameters()}
    return Step(loss.item(), gradients)
