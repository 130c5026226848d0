"""The CNN's training step in float64, and bounds on the errors of fp32.

Rounding. A gradient is a sum of products, and each of its terms depends on the sums of
all earlier layers. Let K be the number of terms of all sums on that path. Independent
roundings cause an error of at most LAMBDA sqrt(K) 2^-24 times the sum of the terms'
magnitudes, except with a probability below 2 K exp(-LAMBDA^2 / 2) (Higham and Mary,
SIAM J. Sci. Comput. 41(5), 2019).

Decisions. ReLU and max pool have kinks: a value nearer to a kink than its own rounding
error may fall on either side. Then a whole term of the gradient appears or vanishes. At
batch 64 every step has such values. So the forward pass also computes an error bound
for each value: for an inner product of k terms t of mixed sign, LAMBDA 2^-24 sqrt(k)
||t||_2 (the same authors, SIAM J. Sci. Comput. 42(5), 2020), added in squares from
layer to layer. Where a decision is within its bound, it may change the gradient. This
change is propagated back through the layers, together with all such changes and with
random signs. The largest norm of SAMPLES draws, times SIGNS, is added to the bound:
sums of vectors with independent signs stay below that, and few of the changes occur.
The images must have no plain background: there, all values of a window are equal, and
any of them may win.

Bounds and errors are compared in the Frobenius norm, tensor by tensor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.grad import conv2d_weight

from weft.mnist.data import MEAN, STD
from weft.mnist.twin import LAYERS, Twin

LAMBDA = 8.0  # for the K here, 2 K exp(-32) is below 1e-8
ULP = 2.0**-24
UNIT = LAMBDA * ULP
SAMPLES, SIGNS = 3, 4.0
WINOGRAD = 4.0  # F(2x2, 3x3) adds up to 4 x 4 inputs before it multiplies


@dataclass
class Step:
    """One step in float64: its results and, under the same names, their bounds.

    clear: no decision is within its bound of a kink, so the bounds cover only rounding.
    """

    loss: float
    gradients: dict[str, torch.Tensor]
    bounds: dict[str, float]
    clear: bool

    def refuse(self, loss: float, gradients: dict[str, np.ndarray]) -> list[str]:
        """Return the errors that exceed their bounds or are NaN."""
        errors = {"loss": abs(loss - self.loss)}
        for name, want in self.gradients.items():
            got = torch.from_numpy(gradients[name]).double()
            errors[name] = float(torch.linalg.norm(got - want))
        return [
            f"{name}: off by {error:.3g}, bound {self.bounds[name]:.3g}"
            for name, error in errors.items()
            if not error <= self.bounds[name]
        ]


@dataclass
class Error:
    """A bound on each value's error, in two parts. One is independent for each value;
    the values of a channel share the other (batch norm's statistics)."""

    own: torch.Tensor
    common: torch.Tensor

    @property
    def total(self) -> torch.Tensor:
        return self.own + self.common


def normalise(images: np.ndarray) -> torch.Tensor:
    """Convert uint8 (n,h,w) to float64 (n,1,h,w), as the model reads them."""
    mean, std = float(np.float32(MEAN)), float(np.float32(STD))
    return (torch.tensor(images, dtype=torch.float64)[:, None] / 255 - mean) / std


@torch.no_grad()
def forward(model: Twin, images: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the logits of a float64 model and their error bounds."""
    x, into = normalise(images), {}
    for name in LAYERS:
        into[name] = x
        x = model.layer(name, x)
    return x, _forward_errors(model, into)[LAYERS[-1]].total


def step(model: Twin, images: np.ndarray, labels: np.ndarray) -> Step:
    """Run a float64 model forward and backward on one batch, with bounds."""
    loss, into, out = _run(model, images, labels)
    gradients = {n: p.grad.clone() for n, p in model.named_parameters()}
    with torch.no_grad():
        errors = _forward_errors(model, into)
    flips = _flips(model, out, errors)
    rounding = _roundings(model, images.shape, into, out)
    bounds = {n: bound + flips[n] for n, bound in rounding.items()}
    # Cross entropy changes by at most twice the largest error of a logit.
    logit = float(errors["fc2"].total.max())
    bounds["loss"] = 2 * logit + UNIT * (1 + loss.item())
    return Step(loss.item(), gradients, bounds, not any(flips.values()))


def roundings(model: Twin, images: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Return bounds on the gradients' errors if all decisions are those of float64."""
    _, into, out = _run(model, images, labels)
    return _roundings(model, images.shape, into, out)


def _run(model, images, labels):
    """Run a step; return the loss, and the inputs and outputs of the layers."""
    x = normalise(images)
    into, out = {}, {}
    for name in LAYERS:
        into[name] = x
        x = out[name] = model.layer(name, x)
        x.retain_grad()
    loss = F.cross_entropy(x, torch.tensor(labels.astype(np.int64)))
    model.zero_grad()
    loss.backward(retain_graph=True)
    return loss, into, out


# ---- forward -------------------------------------------------------------------


def _forward_errors(model, into) -> dict[str, Error]:
    """Return the Error of every layer's output."""
    x = into["conv1"]
    error = Error(4 * ULP * (x.abs() + MEAN / STD), torch.zeros_like(x))
    errors = {}
    for name in LAYERS:
        layer = getattr(model, name, None)
        if name.startswith(("conv", "fc")):
            error = _product_error(layer, name, into[name], error)
        elif name.startswith("bn"):
            error = _batchnorm_error(layer, into[name], error)
        elif name.startswith("pool"):
            error = Error(F.max_pool2d(error.own, 2), F.max_pool2d(error.common, 2))
        errors[name] = error
    return errors


def _product_error(layer, name: str, x, error: Error) -> Error:
    """Return the Error of a convolution or linear layer: sums of k products."""
    weight2 = layer.weight.square()

    def squares(values):
        if name.startswith("conv"):
            return F.conv2d(values.square(), weight2, padding=1)
        return F.linear(values.flatten(1).square(), weight2)

    terms = layer.weight[0].numel()
    # Values of one channel share s. By Cauchy and Schwarz, (sum of s)^2 <= s sum of
    # squares.
    same = 9 if name.startswith("conv") else x[0, 0].numel() if x.dim() == 4 else 1
    growth = WINOGRAD if name == "conv2" else 1.0
    size = squares(x) + _per_channel(layer.bias.square(), squares(x))
    fresh = UNIT * growth * math.sqrt(terms) * size.sqrt()
    return Error(
        squares(error.own).sqrt() + fresh, (same * squares(error.common)).sqrt()
    )


def _batchnorm_error(layer, x, error: Error) -> Error:
    mean = x.mean((0, 2, 3))
    rstd = 1 / (x.var((0, 2, 3), correction=0) + layer.eps).sqrt()
    xhat = (x - _per_channel(mean, x)) * _per_channel(rstd, x)
    weight, bias = (_per_channel(p.abs(), x) for p in (layer.weight, layer.bias))
    scale = weight * _per_channel(rstd, x)
    # The variance is a difference: the larger the mean, the more digits are lost.
    lost = 1 + _per_channel((mean * rstd).square(), x)
    fresh = 4 * UNIT * (weight * (1 + xhat.abs()) * lost + bias)
    return Error(scale * error.own, scale * error.common + fresh)


# ---- backward ------------------------------------------------------------------


@torch.no_grad()
def _roundings(model, shape, into, out) -> dict[str, float]:
    unit = UNIT * math.sqrt(_terms(model, shape))
    sizes = _magnitudes(model, into, out)
    return {n: unit * float(torch.linalg.norm(size)) for n, size in sizes.items()}


def _magnitudes(model, into, out) -> dict[str, torch.Tensor]:
    """Return for each gradient the sums of its terms' magnitudes."""
    sizes = {}
    for name in LAYERS:
        layer = getattr(model, name, None)
        if layer is not None:
            sizes |= _terms_of(layer, name, into[name], out[name].grad.abs())
    return sizes


def _terms_of(layer, name: str, x, dy) -> dict[str, torch.Tensor]:
    """Return dweight and dbias of a layer with all terms made positive."""
    if name.startswith("conv"):
        weight = conv2d_weight(x.abs(), layer.weight.shape, dy, padding=1)
        bias = dy.sum((0, 2, 3))
    elif name.startswith("bn"):
        weight, bias = (_xhat(layer, x).abs() * dy).sum((0, 2, 3)), dy.sum((0, 2, 3))
    else:
        weight, bias = dy.T @ x.flatten(1).abs(), dy.sum(0)
    return {f"{name}.weight": weight, f"{name}.bias": bias}


def _flips(model, out, errors) -> dict[str, float]:
    """Return, for each gradient, the largest change from uncertain decisions."""
    generator = torch.Generator().manual_seed(0)
    changes = {"fc1": _relu_changes(out, errors)}
    changes |= {f"bn{i}": _pool_changes(out, errors, i) for i in "12"}
    parameters = dict(model.named_parameters())
    norms = dict.fromkeys(parameters, 0.0)
    for _ in range(SAMPLES):
        # The gradient of sum(y * p) is the change that results if p is added to y's
        # gradient.
        added = 0.0
        for name, change in changes.items():
            coin = torch.randint(0, 2, change.shape, generator=generator)
            added = added + (out[name] * change * (2 * coin - 1)).sum()
        gradients = torch.autograd.grad(added, parameters.values(), **_MORE)
        for name, gradient in zip(parameters, gradients):
            if gradient is not None:
                norms[name] = max(norms[name], float(torch.linalg.norm(gradient)))
    return {name: SIGNS * norm for name, norm in norms.items()}


_MORE = {"retain_graph": True, "allow_unused": True}


def _relu_changes(out, errors) -> torch.Tensor:
    """Return the possible change in the gradient of the last ReLU's input."""
    near = out["fc1"].abs() <= errors["fc1"].total
    return (near * out["relu3"].grad).detach()


def _pool_changes(out, errors, i: str) -> torch.Tensor:
    """Return the possible change in the gradient of the input of ReLU and pool."""
    y = out[f"bn{i}"].detach()
    windows, off = _windows(y), _windows(errors[f"bn{i}"].total)
    best, at = windows.max(-1, keepdim=True)
    # An element may win if its upper bound reaches the best one's lower bound.
    near = (windows + off >= best - off.gather(-1, at)) & (windows + off >= 0)
    sure = (near.sum(-1) == 1) & (best > off.gather(-1, at)).squeeze(-1)
    change = torch.where(sure, 0.0, out[f"pool{i}"].grad)
    spread = near * change[..., None]
    n, c, h, w = y.shape
    spread = spread.reshape(n, c, h // 2, w // 2, 2, 2).transpose(3, 4)
    spread = spread.reshape(n, c, h // 2 * 2, w // 2 * 2)
    return F.pad(spread, (0, w % 2, 0, h % 2))


def _terms(model, images: tuple[int, ...]) -> int:
    """Count the terms of all sums on the path to a gradient, forward and backward."""
    batch, height, width = images
    pixels = batch * height * width
    inner = sum(
        getattr(model, name).weight[0].numel() + len(getattr(model, name).weight) * 9
        for name in ("conv1", "conv2")
    ) + sum(sum(getattr(model, name).weight.shape) for name in ("fc1", "fc2"))
    # Batch norm sums over pixels, twice forward and twice backward, the second layer
    # over a quarter of them; the gradient itself is one more sum over pixels.
    return inner + 4 * (pixels + pixels // 4) + pixels


def _xhat(layer, x) -> torch.Tensor:
    return F.batch_norm(x, None, None, training=True, eps=layer.eps)


def _windows(x) -> torch.Tensor:
    """Convert (n,c,h,w) to (n,c,h/2,w/2,4)."""
    return x.unfold(2, 2, 2).unfold(3, 2, 2).flatten(4)


def _per_channel(values, like) -> torch.Tensor:
    return values.reshape(1, -1, *[1] * (like.dim() - 2))
