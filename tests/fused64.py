"""Each kernel of the fused step in float64, from that kernel's own inputs.

A test takes a step and reads all arrays between its kernels (Cnn.peek). Then it
compares each kernel's outputs with a float64 computation from the same inputs, which
are the outputs of the earlier kernels. So errors do not add up from kernel to kernel,
and a failure names the wrong kernel.

Bounds. T is the rung's type for factors. EPS[T] is half a unit in its last place, and
ULP is that of fp32. A short sum has the worst-case bound: the terms' magnitudes times
ULP times its length. A sum of k products has LAMBDA ULP sqrt(k) ||terms||_2 (Higham and
Mary, SIAM J. Sci. Comput. 42(5), 2020), and LAMBDA times the root of the sum of its
factors' squared errors. Tensor cores truncate, so their bound is MMA times as large.

Winograd's form has other terms (kernels/mnist/reference/cnn_winograd.h). Its products
are those of transformed factors, so the terms are those of |B'| |x| |B|, |G| |g| |G'|
and |A| |dy| |A'|. Each rounding of a transform, of which a term has at most ten, counts
as an addition. So a sum of k/9 or k/4 products has fewer roundings than k, the number
of direct products. Its bound is computed from k.

Like terms. Both roots assume that roundings are independent, but if two places of a
batch are alike, their roundings are equal. Most of a black image's 196 pixels have the
same c2, and so the same rounding error. If m places are alike, their errors add up to m
times one of them. So the square of one error counts m^2 times or, equivalently, the
square of each of them m times:

    |sum of errors| <= LAMBDA sqrt(sum of m_i e_i^2)

with m_i the number of places like place i, itself included. (For like errors times
unlike factors this is an upper bound, by Cauchy and Schwarz.) No rounding can exceed
the sum of all e_i, so the bound is the smaller of the two (`added`). If no places are
alike, all m are 1, and the first bound is the root from above.

The roundings inside a sum are also alike: between two powers of two, adding the same
number rounds off the same amount. Then only the worst-case bound holds: a term takes
part in at most as many additions as its chain has, and each addition rounds by at most
ULP of the partial sum (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed.,
4.2). A tensor core adds 8 products or more together and truncates by MMA = 8 ULP, which
amounts to the same. So terms with m > 1 add ULP chain |term| to the root.

The following are alike: places of conv2's output whose 3 x 3 pixels of p1 are equal in
all channels; those places of dy that also get the same dp2; windows of BN2's output
with four such places each, at the same pixel of two images; images with the same dh, if
dh has the error. Equal numbers at unlike places (16 bits have few) do not count as
alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
import torch.nn.functional as F
from float64 import LAMBDA, ULP, normalise

from weft.mnist import Cnn

EPS = {"fp32": 0.0, "tf32": 2.0**-11, "bf16": 2.0**-8, "fp16": 2.0**-11}
LEAST = {"fp32": 0.0, "tf32": 0.0, "bf16": 0.0, "fp16": 2.0**-24}  # step of subnormals
MMA = 8.0
CHAIN = 64 * ULP  # sums have parts, so no chain of additions is longer
C1, C2, HIDDEN, CLASSES = 32, 64, 128, 10

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Look:
    """One step: its inputs, the arrays between its kernels, and its outputs."""

    precision: str
    eps_bn: float
    lr: float
    x: torch.Tensor  # images (n,1,28,28), normalised
    labels: torch.Tensor
    before: Tensors  # the weights before the step
    after: Tensors
    gradients: Tensors
    loss: float
    seen: Tensors  # the arrays between kernels
    winograd: bool = False  # whether conv2 has Winograd's form

    def changed(self, **arrays: torch.Tensor) -> Look:
        return replace(self, seen=self.seen | arrays)

    @cached_property
    def places(self) -> torch.Tensor:
        """The input of each of conv2's outputs, hashed to a number: (n,14,14)."""
        pixels = F.pad(planes(self.seen["p1"], 14), (1, 1, 1, 1)).movedim(1, 3)
        return mixed(mixed(pixels).unfold(1, 3, 1).unfold(2, 3, 1).flatten(3))

    @cached_property
    def like_windows(self) -> torch.Tensor:
        """Number of images in which each of BN2's outputs is the same: (n,3136)."""
        four = mixed(windows(self.places[:, None]))[..., 0]  # (n,49)
        pixel = torch.arange(49, device=four.device).expand_as(four)
        return alike(torch.stack([four, pixel], -1)).repeat(1, C2)

    @cached_property
    def like_images(self) -> torch.Tensor:
        """Number of images with the same dh: (n)."""
        return alike(self.seen["dh"])

    @property
    def batch(self) -> int:
        return len(self.labels)

    @property
    def eps(self) -> float:
        return EPS[self.precision]

    @property
    def stored(self) -> float:
        """Relative error of stored values, which are fp32 unless T has 16 bits."""
        return 0.0 if self.precision == "tf32" else self.eps

    def product(self, terms: int) -> float:
        """Return the bound of a sum of products, relative to its terms' 2-norm."""
        unit = ULP if self.precision == "fp32" else MMA * ULP
        return LAMBDA * unit * terms**0.5

    def narrow(self, name: str) -> torch.Tensor:
        """Return the weight of this name in T."""
        w = self.before[name].float()
        if self.precision == "tf32":
            w = ((w.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)
        types = {"bf16": torch.bfloat16, "fp16": torch.float16}
        return w.to(types.get(self.precision, torch.float32)).double()


PEEKS = ("p1", "code1", "c2", "m2", "code2", "sum2", "hidden", "logits", "h", "dh")
PEEKS += ("head", "dp2", "sum4", "winners", "dw2")


def look(
    cnn: Cnn, precision: str, order: np.ndarray, split, lr: float, winograd=False
) -> Look:
    """Take a step on `order` of the split that the model has as "train"."""

    def tensor(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(cnn.device).double()

    before = {n: tensor(w) for n, w in cnn.weights.items()}
    cnn.losses()
    cnn.train(order, len(order), lr)
    return Look(
        precision=precision,
        eps_bn=float(np.float32(1e-5)),
        lr=float(np.float32(lr)),
        x=normalise(split.images[order]).to(cnn.device),
        labels=tensor(split.labels[order]).long(),
        before=before,
        after={n: tensor(w) for n, w in cnn.weights.items()},
        gradients={n: tensor(g) for n, g in cnn.gradients.items()},
        loss=float(cnn.losses()[0]),
        seen={name: tensor(cnn.peek(name)) for name in PEEKS},
        winograd=winograd,
    )


def agree(name: str, got: torch.Tensor, want: torch.Tensor, bound) -> None:
    """Raise AssertionError at the worst place unless |got - want| <= bound."""
    assert got.shape == want.shape, (name, got.shape, want.shape)
    error = (got - want).abs()
    over = torch.where(error <= bound, 0.0, error / (bound + 1e-300))
    over = torch.where(torch.isnan(over), torch.inf, over)
    at = int(over.argmax())
    assert over.max() == 0, (
        f"{name}: {int((over > 0).sum())} of {got.numel()} off, the worst is number "
        f"{at}: {got.flatten()[at]:.9g}, want {want.flatten()[at]:.9g}: "
        f"{over.flatten()[at]:.3g} times the bound"
    )


# ---- like terms ------------------------------------------------------------------


def mixed(x: torch.Tensor) -> torch.Tensor:
    """Hash (...,k) to integers (...): equal if all k numbers are; for unequal numbers
    with probability 2^-64."""
    of = torch.Generator().manual_seed(x.shape[-1])
    factors = torch.randint(2**62, x.shape[-1:], generator=of) * 2 + 1
    return (x.unique(return_inverse=True)[1] * factors.to(x.device)).sum(-1)


def alike(x: torch.Tensor) -> torch.Tensor:
    """Return the number of occurrences (...) of each row of k numbers in x (...,k)."""
    _, number, counts = mixed(x).unique(return_inverse=True, return_counts=True)
    return counts[number].double()


def added(squares: torch.Tensor, most: torch.Tensor) -> torch.Tensor:
    """Return the bound of a sum of errors. squares: sum of m e^2; most: sum of e."""
    return torch.minimum(LAMBDA * squares.sqrt(), most)


# ---- layouts -------------------------------------------------------------------


def planes(x: torch.Tensor, side: int) -> torch.Tensor:
    """Convert (n,pixels,c) to (n,c,side,side)."""
    return x.transpose(1, 2).unflatten(2, (side, side))


def windows(x: torch.Tensor) -> torch.Tensor:
    """Convert (n,c,h,w) to (n,pooled pixels,c,4)."""
    return x.unfold(2, 2, 2).unfold(3, 2, 2).flatten(4).flatten(2, 3).transpose(1, 2)


def spread(x: torch.Tensor, code: torch.Tensor) -> torch.Tensor:
    """Move each of (n,pooled pixels,c) to its window's winner: (n,c,h,w)."""
    n, pixels, c = x.shape
    side = round(pixels**0.5)
    hot = torch.stack([(code == q) * x for q in range(4)], -1)
    hot = hot.transpose(1, 2).reshape(n, c, side, side, 2, 2).transpose(3, 4)
    return hot.reshape(n, c, 2 * side, 2 * side)


def features(x: torch.Tensor) -> torch.Tensor:
    """Convert (n,49,64) to (n,3136) in PyTorch's order."""
    return x.transpose(1, 2).flatten(1)


def patches(x: torch.Tensor) -> torch.Tensor:
    """Convert images (n,1,28,28) to (n,9,28,28)."""
    return F.unfold(x, 3, padding=1).unflatten(2, (28, 28))


def conv(x, w):
    return F.conv2d(x, w, padding=1)


# ---- Winograd's form ---------------------------------------------------------------

BT = ((1, 0, 1, 0), (0, 1, 1, 0), (0, 1, 1, 0), (0, 1, 0, 1))  # |B'|
G = ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), (0, 0, 1))  # |G|
AT = ((1, 1, 1, 0), (0, 1, 1, 1))  # |A'|


def transform(matrix, x: torch.Tensor, power: int = 1, back: bool = False):
    """Return m x m' for (...,k,k), with the elements of m to that power."""
    m = torch.tensor(matrix, dtype=x.dtype, device=x.device) ** power
    m = m.T if back else m
    return m @ x @ m.T


def tiles(x: torch.Tensor) -> torch.Tensor:
    """Convert the input (n,c,14,14) of a convolution to (n,c,7,7,4,4)."""
    return F.pad(x, (1, 1, 1, 1)).unfold(2, 4, 2).unfold(3, 4, 2)


def winograd_conv(x: torch.Tensor, w: torch.Tensor, power: int) -> torch.Tensor:
    """Return, for each output of conv(x, w), the sum of the terms to that power."""
    v, u = transform(BT, tiles(x.abs())) ** power, transform(G, w.abs()) ** power
    y = transform(AT, torch.einsum("nchwij,ocij->nohwij", v, u), power)
    return y.transpose(3, 4).flatten(4, 5).flatten(2, 3)


def winograd_weight(x: torch.Tensor, dy: torch.Tensor, power: int) -> torch.Tensor:
    """Return, for each weight's gradient, the sum of the terms to that power."""
    v = transform(BT, tiles(x.abs())) ** power
    d = dy.abs().unfold(2, 2, 2).unfold(3, 2, 2)
    d = transform(AT, d, back=True) ** power
    return transform(G, torch.einsum("nchwij,nohwij->ocij", v, d), power, back=True)


# ---- batch norm ------------------------------------------------------------------


@dataclass(frozen=True)
class Bn2:
    """Statistics from the sums of conv2: (64) each."""

    count: int
    mean: torch.Tensor
    rstd: torch.Tensor
    scale: torch.Tensor
    shift: torch.Tensor


def bn2(s: Look) -> Bn2:
    count = s.batch * 196
    sums, squares = s.seen["sum2"].sum(0) / count
    rstd = 1 / ((squares - sums**2).clamp(min=0) + s.eps_bn).sqrt()
    scale = s.before["bn2.weight"] * rstd
    return Bn2(count, sums, rstd, scale, s.before["bn2.bias"] - sums * scale)


def activation(s: Look) -> tuple[torch.Tensor, torch.Tensor]:
    """Return BN2's output at m2 (n,49,64), and its error bound in fp32."""
    bn, m2 = bn2(s), s.seen["m2"]
    y = m2 * bn.scale + bn.shift
    return y, 4 * ULP * ((m2 * bn.scale).abs() + bn.shift.abs())


def bn2_gradients(s: Look) -> Tensors:
    bn = bn2(s)
    dbeta, dp2_m2 = s.seen["sum4"].sum(0)
    return {"weight": bn.rstd * (dp2_m2 - bn.mean * dbeta), "bias": dbeta}


def dy(s: Look) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradient of conv2's output (n,64,14,14), its error due to T, and the
    number of equal places."""
    bn, d = bn2(s), bn2_gradients(s)
    scale = bn.scale[:, None, None]
    slope = (-bn.scale * bn.rstd * d["weight"] / bn.count)[:, None, None]
    mean = bn.mean[:, None, None]
    c2 = planes(s.seen["c2"], 14)
    g = spread(s.seen["dp2"], s.seen["code2"])
    constant = -scale * d["bias"][:, None, None] / bn.count
    value = scale * g + constant + slope * (c2 - mean)
    terms = (scale * g).abs() + constant.abs() + (slope * c2).abs()
    terms = terms + (slope * mean).abs()
    off = 8 * ULP * terms + s.eps * value.abs() + LEAST[s.precision]
    numbers = g.unique(return_inverse=True)[1]
    channel = torch.arange(C2, device=g.device)[:, None, None].expand_as(numbers)
    place = s.places[:, None].expand_as(numbers)
    return value, off, alike(torch.stack([place, channel, numbers], -1))


# ---- the kernels -----------------------------------------------------------------


def conv1(s: Look) -> None:
    """Check moments and conv1: p1, code1 from the images."""
    w, gamma = s.before["conv1.weight"], s.before["bn1.weight"]
    raw = conv(s.x, w)
    mean, var = raw.mean((0, 2, 3)), raw.var((0, 2, 3), correction=0)
    scale = gamma / (var + s.eps_bn).sqrt()
    shift = s.before["bn1.bias"] - mean * scale
    scale, shift = scale[:, None, None], shift[:, None, None]
    y = windows(raw * scale + shift)
    terms = conv(s.x.abs() + 1, w.abs()) * scale.abs()
    off = windows(16 * ULP * terms + 4 * ULP * shift.abs()).amax(-1)
    best, code = y.amax(-1), s.seen["code1"]
    agree(
        *("p1", s.seen["p1"], best.clamp(min=0)),
        off + s.eps * best.abs() + LEAST[s.precision],
    )
    assert ((code >= 0) & (code <= 4) & (code % 1 == 0)).all()
    chosen = y.gather(-1, code.long().clamp(max=3)[..., None])[..., 0]
    live = code < 4
    agree("code1", torch.where(live, chosen, best), best, 2 * off)
    assert not (live & (chosen < -off)).any(), "code1: lives where the ReLU is 0"
    assert not (~live & (best > off)).any(), "code1: dead where the ReLU is not"
    assert (code[..., gamma == 0] % 4 == 0).all(), "code1: of equals not the first"


def conv2(s: Look) -> None:
    """Check c2, m2, code2, sum2 from p1."""
    p1, w = planes(s.seen["p1"], 14), s.narrow("conv2.weight")
    want = conv(p1, w)
    squares = winograd_conv(p1, w, 2) if s.winograd else conv(p1**2, w**2)
    norm = squares.sqrt()
    c2 = planes(s.seen["c2"], 14)
    bound = s.product(288) * norm + s.stored * want.abs() + LEAST[s.precision]
    agree("c2", c2, want, bound)

    sign, code = s.before["bn2.weight"].sign(), s.seen["code2"]
    values = windows(c2)
    assert ((code >= 0) & (code <= 3) & (code % 1 == 0)).all()
    chosen = values.gather(-1, code.long()[..., None])[..., 0]
    agree("m2", s.seen["m2"], chosen, 0.0)
    best = (values * sign[:, None]).amax(-1)
    agree("code2", chosen * sign, best, 0.0)
    assert (code[..., sign == 0] == 0).all(), "code2: of equals not the first"

    like = alike(s.places[..., None])[:, None]
    for i, v in enumerate((want, want**2)):
        # The error of values that were rounded when stored, or the error before that.
        off = s.stored * (i + 1) * v.abs()
        off = added((like * off**2).sum((0, 2, 3)), off.sum((0, 2, 3)))
        sizes = v.abs().sum((0, 2, 3))
        growth = 64 / 9 if s.winograd else 1.0  # see cnn_winograd.h
        more = growth * LAMBDA * s.product(288) * (i + 1) * sizes
        off = off + CHAIN * sizes + more
        agree(f"sum2[{i}]", s.seen["sum2"].sum(0)[i], v.sum((0, 2, 3)), off)


def fc1(s: Look) -> None:
    """Check hidden, in parts, from m2 and sum2."""
    y, off = activation(s)
    a = features(y.clamp(min=0))
    off = features(off) + s.eps * a + LEAST[s.precision]
    w = s.narrow("fc1.weight")
    bound = LAMBDA * (off**2 @ w.T**2).sqrt()
    bound = bound + s.product(3136) * (a**2 @ w.T**2).sqrt()
    agree("hidden", s.seen["hidden"].sum(0), a @ w.T, bound)


def head(s: Look) -> None:
    """Check h, logits, dh and the parts of head from hidden."""
    arrays, w2 = s.seen, s.before["fc2.weight"]
    hidden, bias = arrays["hidden"], s.before["fc1.bias"]
    sizes = hidden.abs().sum(0) + bias.abs()
    agree("h", arrays["h"], (hidden.sum(0) + bias).clamp(min=0), 32 * ULP * sizes)
    h = arrays["h"]
    sizes = h @ w2.abs().T + s.before["fc2.bias"].abs()
    agree("logits", arrays["logits"], h @ w2.T + s.before["fc2.bias"], 32 * ULP * sizes)

    logits = arrays["logits"]
    onehot = F.one_hot(s.labels, CLASSES)
    p = logits.softmax(1)
    d = p - onehot
    off = ULP * (16 + 4 * (logits.amax(1, True) - logits)) * p + 4 * ULP * d.abs()
    off = off + 16 * ULP * p
    live = h > 0
    dh = (d @ w2) * live
    fine = (off @ w2.abs() + 16 * ULP * (d.abs() @ w2.abs())) * live
    agree("dh", arrays["dh"], dh, fine + s.eps * dh.abs() + LEAST[s.precision])

    sums = arrays["head"].sum(0)
    parts = sums.split([CLASSES * HIDDEN, CLASSES, HIDDEN, 1])
    loss = F.cross_entropy(logits, s.labels, reduction="none")
    wants = {
        "dfc2": (d.T @ h, off.T @ h + CHAIN * (d.abs().T @ h)),
        "dfc2 bias": (d.sum(0), off.sum(0) + CHAIN * d.abs().sum(0)),
        "dfc1 bias": (dh.sum(0), fine.sum(0) + CHAIN * dh.abs().sum(0)),
        "loss": (loss.sum()[None], CHAIN * (loss + logits.abs().amax(1) + 1).sum()),
    }
    for part, (name, (want, bound)) in zip(parts, wants.items()):
        agree(name, part.reshape(want.shape), want, bound)


def fc1_back(s: Look) -> None:
    """Check dp2, sum4 and fc1's gradient from dh, m2 and sum2."""
    w, dh = s.narrow("fc1.weight"), s.seen["dh"]
    y, off = activation(s)
    dp2 = (dh @ w).unflatten(1, (C2, 49)).transpose(1, 2)
    norm = (dh**2 @ w**2).sqrt().unflatten(1, (C2, 49)).transpose(1, 2)
    got, bound = s.seen["dp2"], s.product(128) * norm
    either = (y.abs() <= off) & (got == 0)
    want = torch.where((y > -off) & ~either, dp2, 0.0)
    agree("dp2", got, want, bound + s.eps * dp2.abs() + LEAST[s.precision])

    m2 = s.seen["m2"]
    for i, terms in enumerate((want, want * m2)):
        size = m2.abs() if i else torch.ones_like(m2)
        wrong = (bound + s.eps * dp2.abs() + LEAST[s.precision]) * size
        like = s.like_images[:, None, None]
        limit = added((like * wrong**2).sum((0, 1)), wrong.sum((0, 1)))
        limit = limit + CHAIN * terms.abs().sum((0, 1))
        agree(f"sum4[{i}]", s.seen["sum4"].sum(0)[i], terms.sum((0, 1)), limit)

    a = features(y.clamp(min=0))
    wrong = features(off) + s.eps * a + LEAST[s.precision]
    limit = added(dh.T**2 @ (s.like_windows * wrong**2), dh.T.abs() @ wrong)
    limit = limit + s.product(s.batch) * (dh.T**2 @ a**2).sqrt()
    both = (s.like_windows > 1) & (s.like_images > 1)[:, None]
    limit = limit + ULP * s.batch * (dh.T.abs() @ (a * both))
    want = dh.T @ a
    got = s.gradients["fc1.weight"] * s.batch
    agree("dfc1", got, want, limit + 4 * ULP * want.abs())


def conv2_dx(s: Look) -> None:
    """Check winners from c2, code2, dp2, the sums and code1."""
    w, (value, off, like) = s.narrow("conv2.weight"), dy(s)
    images = s.like_images[:, None, None, None]

    def back(d, w):
        return F.conv_transpose2d(d, w, padding=1)

    dp1 = back(value, w)
    wrong = LAMBDA**2 * back(like * off**2, w**2)
    if s.winograd:
        squares = winograd_conv(value, w.flip(2, 3).transpose(0, 1), 2)
    else:
        squares = back(value**2, w**2)
    wrong = wrong + images * s.product(576) ** 2 * squares
    wrong = wrong + images * (s.eps * dp1) ** 2
    code, taps = s.seen["code1"], patches(s.x)
    d = spread(dp1.flatten(2).transpose(1, 2), code)
    wrong = spread(wrong.flatten(2).transpose(1, 2), code)
    got = s.seen["winners"].sum(0)
    inputs = torch.cat([taps, torch.ones_like(taps[:, :1])], 1)
    want = torch.einsum("nchw,nthw->tc", d, inputs)
    limit = torch.einsum("nchw,nthw->tc", wrong, inputs**2).sqrt()
    limit = limit + CHAIN * torch.einsum("nchw,nthw->tc", d.abs(), inputs.abs())
    agree("winners", got, want, limit)


def conv2_dw(s: Look) -> None:
    """Check conv2's weight gradient from p1 and the inputs of conv2_dx."""
    value, off, like = dy(s)
    p1 = planes(s.seen["p1"], 14)

    def product(x, d):
        return in_taps(torch.nn.grad.conv2d_weight(x, (C2, C1, 3, 3), d, padding=1))

    def in_taps(weight):
        return weight.permute(2, 3, 0, 1).flatten(0, 1)  # (9,64,32)

    def terms(d, power):
        if s.winograd:
            return in_taps(winograd_weight(p1, d, power))
        return product(p1**power, d.abs() ** power)

    limit = added(product(p1**2, like * off**2), product(p1, off))
    limit = limit + s.product(s.batch * 196) * terms(value, 2).sqrt()
    slots = s.seen["dw2"]
    chain = -(-s.batch // len(slots)) * 196
    limit = limit + ULP * chain * terms(value * (like > 1), 1)
    agree("dw2", slots.sum(0), product(p1, value), limit)


def update(s: Look) -> None:
    """Check the gradients of the mean loss from the parts, and the weights' step."""
    want, off = _conv1_gradients(s)
    bn, d = bn2(s), bn2_gradients(s)
    sizes = s.seen["sum4"].abs().sum(0)
    want |= {"bn2.weight": d["weight"], "bn2.bias": d["bias"]}
    off["bn2.weight"] = CHAIN * bn.rstd * (sizes[1] + bn.mean.abs() * sizes[0])
    off["bn2.bias"] = CHAIN * sizes[0]
    dw2 = s.seen["dw2"].unflatten(1, (3, 3)).permute(0, 3, 4, 1, 2)
    want["conv2.weight"] = dw2.sum(0)
    off["conv2.weight"] = CHAIN * dw2.abs().sum(0)
    sizes = [CLASSES * HIDDEN, CLASSES, HIDDEN, 1]
    names = ("fc2.weight", "fc2.bias", "fc1.bias", "loss")
    for name, parts in zip(names, s.seen["head"].split(sizes, 1)):
        shape = s.gradients[name].shape if name != "loss" else (1,)
        want[name] = parts.sum(0).reshape(shape)
        off[name] = CHAIN * parts.abs().sum(0).reshape(shape)
    for name in ("conv1", "conv2"):
        want[f"{name}.bias"] = off[f"{name}.bias"] = 0 * s.gradients[f"{name}.bias"]

    got = s.gradients | {"loss": torch.full_like(want["loss"], s.loss)}
    assert set(got) == {*want, "fc1.weight"}
    for name, right in want.items():
        right = right / s.batch
        agree(name, got[name], right, off[name] / s.batch + 4 * ULP * right.abs())
    for name, old in s.before.items():
        step = s.lr * s.gradients[name]
        limit = 4 * ULP * (old.abs() + step.abs())
        agree(f"new {name}", s.after[name], old - step, limit)


def _conv1_gradients(s: Look) -> tuple[Tensors, Tensors]:
    """Return gradients of the summed losses, from winners and the images' patches."""
    w = s.before["conv1.weight"].flatten(1)  # (32,9)
    gamma = s.before["bn1.weight"]
    taps = patches(s.x).transpose(0, 1).flatten(1)  # (9,n)
    mean_p, mean_pp = taps.mean(1), taps @ taps.T / taps.shape[1]
    mean = w @ mean_p
    var = ((w @ mean_pp) * w).sum(1) - mean**2
    rstd = 1 / (var.clamp(min=0) + s.eps_bn).sqrt()
    parts = s.seen["winners"]
    total, size = parts.sum(0).T, CHAIN * parts.abs().sum(0).T  # (32,10)
    sums, dbeta = total[:, :9], total[:, 9]
    dgamma = rstd * ((w * sums).sum(1) - mean * dbeta)
    xhat_p = rstd[:, None] * (w @ mean_pp - mean[:, None] * mean_p)
    scale = (gamma * rstd)[:, None]
    dw = scale * (sums - dbeta[:, None] * mean_p - dgamma[:, None] * xhat_p)

    off_gamma = rstd * ((w.abs() * size[:, :9]).sum(1) + mean.abs() * size[:, 9])
    off_gamma = off_gamma + 4 * ULP * dgamma.abs()
    off = size[:, :9] + size[:, 9:] * mean_p.abs() + off_gamma[:, None] * xhat_p.abs()
    # Sums of patches in fp32's scale and shift.
    spread_p = rstd[:, None] * (w.abs() @ mean_pp.abs() + mean[:, None].abs())
    off = off + 8 * ULP * dgamma.abs()[:, None] * spread_p
    off = scale.abs() * off + 4 * ULP * dw.abs()
    shape = s.before["conv1.weight"].shape
    want = {"conv1.weight": dw.reshape(shape), "bn1.weight": dgamma, "bn1.bias": dbeta}
    bounds = {"conv1.weight": off.reshape(shape), "bn1.weight": off_gamma}
    return want, bounds | {"bn1.bias": size[:, 9]}


KERNELS = (conv1, conv2, fc1, head, fc1_back, conv2_dx, conv2_dw, update)
# The outputs of each kernel among the arrays of Look.seen.
WRITES = {
    "conv1": ("p1", "code1"),
    "conv2": ("c2", "m2", "code2", "sum2"),
    "fc1": ("hidden",),
    "head": ("h", "logits", "dh", "head"),
    "fc1_back": ("dp2", "sum4"),
    "conv2_dx": ("winners",),
    "conv2_dw": ("dw2",),
}
