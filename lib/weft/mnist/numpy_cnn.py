"""The CNN of notebook 15a in NumPy: one function per layer and per gradient.

The code is written to be read; notebook 10 derives the gradients. All arrays have the
type of the input: float32 as in our kernels, or float64.
"""

from __future__ import annotations

import numpy as np

from .data import MEAN, STD

Params = Outputs = dict[str, np.ndarray]
EPS = 1e-5
LAMBDA = 8.0  # with K = 10^6, 2 K exp(-LAMBDA^2 / 2) is below 1e-7; see bounds()


def normalise(images: np.ndarray) -> np.ndarray:
    """Normalise images (n,28,28) uint8 by MEAN and STD: x (n,1,28,28) float32."""
    return ((images[:, None] / np.float32(255) - MEAN) / STD).astype(np.float32)


# ---- layers ------------------------------------------------------------------


def patches(x: np.ndarray) -> np.ndarray:
    """Return the 3x3 patch around every pixel: x (n,c,h,w) -> (n,c,h,w,3,3)."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))


def conv3x3(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Convolve x (n,ic,h,w) with weight (oc,ic,3,3), bias (oc) -> (n,oc,h,w)."""
    y = np.tensordot(patches(x), weight, axes=((1, 4, 5), (1, 2, 3)))
    return np.moveaxis(y + bias, -1, 1)


def batch_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Scale every channel of x (n,c,h,w) to mean bias and deviation weight (c)."""
    return standardise(x) * weight[:, None, None] + bias[:, None, None]


def standardise(x: np.ndarray) -> np.ndarray:
    """Scale every channel of x (n,c,h,w) to mean 0 and deviation 1 over the batch."""
    mean = x.mean(axis=(0, 2, 3), keepdims=True)
    var = x.var(axis=(0, 2, 3), keepdims=True)
    return (x - mean) / np.sqrt(var + x.dtype.type(EPS))


def relu(x: np.ndarray) -> np.ndarray:
    """Return max(x, 0)."""
    return np.maximum(x, 0)


def windows(x: np.ndarray) -> np.ndarray:
    """Return the 2x2 windows of x: (n,c,h,w) -> (n,c,h//2,w//2,4)."""
    n, c, h, w = x.shape
    x = x.reshape(n, c, h // 2, 2, w // 2, 2)
    return x.transpose(0, 1, 2, 4, 3, 5).reshape(n, c, h // 2, w // 2, 4)


def from_windows(values: np.ndarray) -> np.ndarray:
    """Undo windows(): (n,c,h//2,w//2,4) -> (n,c,h,w)."""
    n, c, h, w, _ = values.shape
    x = values.reshape(n, c, h, w, 2, 2).transpose(0, 1, 2, 4, 3, 5)
    return x.reshape(n, c, 2 * h, 2 * w)


def max_pool(x: np.ndarray) -> np.ndarray:
    """Return the largest value of every 2x2 window: (n,c,h,w) -> (n,c,h//2,w//2)."""
    return windows(x).max(axis=-1)


def linear(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Multiply x (n,in) by weight (out,in), and add bias (out) -> (n,out)."""
    return x @ weight.T + bias


def softmax(logits: np.ndarray) -> np.ndarray:
    """Turn logits (n,classes) into probabilities; every row's sum is 1."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def cross_entropy(logits: np.ndarray, labels: np.ndarray) -> np.floating:
    """Return the mean over the batch of -log(probability of the label)."""
    return -np.log(softmax(logits)[np.arange(len(labels)), labels]).mean()


# ---- gradients: dy and a layer's input -> the gradients of its inputs ----------------


def conv3x3_backward(
    dy: np.ndarray, x: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return dx, dweight, dbias; dx is dy convolved with filters rotated by 180°."""
    dx = conv3x3(dy, weight.swapaxes(0, 1)[:, :, ::-1, ::-1], dy.dtype.type(0))
    dweight = np.tensordot(dy, patches(x), axes=((0, 2, 3), (0, 2, 3)))
    return dx, dweight, dy.sum(axis=(0, 2, 3))


def batch_norm_backward(
    dy: np.ndarray, x: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return dx, dweight, dbias; dx includes the effects of mean and deviation."""
    xhat, axes = standardise(x), (0, 2, 3)
    dweight, dbias = (dy * xhat).sum(axes), dy.sum(axes)
    count = dy.size // len(weight)
    correction = (dbias[:, None, None] + xhat * dweight[:, None, None]) / count
    rstd = 1 / np.sqrt(x.var(axes) + x.dtype.type(EPS))
    return (dy - correction) * (weight * rstd)[:, None, None], dweight, dbias


def relu_backward(dy: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return dx, which is 0 where the output was 0."""
    return dy * (y > 0)


def max_pool_backward(dy: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return dx: the first of each window's largest values receives the window's dy."""
    winner = windows(x).argmax(axis=-1)
    return from_windows((np.arange(4) == winner[..., None]) * dy[..., None])


def linear_backward(
    dy: np.ndarray, x: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return dx, dweight, dbias."""
    return dy @ weight, dy.T @ x, dy.sum(axis=0)


def cross_entropy_backward(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return dlogits: (probabilities - 1 at the label) / n."""
    onehot = np.arange(logits.shape[1]) == labels[:, None]
    return (softmax(logits) - onehot) / logits.dtype.type(len(labels))


# ---- the model ----------------------------------------------------------------


def forward(params: Params, x: np.ndarray) -> Outputs:
    """Return every layer's output by name, for x (n,1,h,w); "x" is x itself."""
    y = {"x": x}
    for i, input_name in (("1", "x"), ("2", "pool1")):
        y[f"conv{i}"] = conv3x3(y[input_name], *_of(params, f"conv{i}"))
        y[f"bn{i}"] = batch_norm(y[f"conv{i}"], *_of(params, f"bn{i}"))
        y[f"relu{i}"] = relu(y[f"bn{i}"])
        y[f"pool{i}"] = max_pool(y[f"relu{i}"])
    y["flat"] = y["pool2"].reshape(len(x), -1)
    y["fc1"] = linear(y["flat"], *_of(params, "fc1"))
    y["relu3"] = relu(y["fc1"])
    y["fc2"] = linear(y["relu3"], *_of(params, "fc2"))
    return y


def backward(params: Params, y: Outputs, labels: np.ndarray) -> tuple[Params, Outputs]:
    """Return two dictionaries: gradients of all parameters, and of layers' outputs.

    y: the outputs of forward(). The second dictionary omits layers without parameters.
    """
    grad: Params = {}
    output_gradients: Outputs = {}

    def back(function, dy: np.ndarray, layer: str, x: str) -> np.ndarray:
        """Store the gradients of a layer's parameters; return its input's gradient."""
        output_gradients[layer] = dy
        dx, *gradients = function(dy, y[x], params[f"{layer}.weight"])
        grad[f"{layer}.weight"], grad[f"{layer}.bias"] = gradients
        return dx

    dy = cross_entropy_backward(y["fc2"], labels)
    dy = back(linear_backward, dy, "fc2", "relu3")
    dy = relu_backward(dy, y["relu3"])
    dy = back(linear_backward, dy, "fc1", "flat").reshape(y["pool2"].shape)
    for i, input_name in (("2", "pool1"), ("1", "x")):
        dy = max_pool_backward(dy, y[f"relu{i}"])
        dy = relu_backward(dy, y[f"relu{i}"])
        dy = back(batch_norm_backward, dy, f"bn{i}", f"conv{i}")
        dy = back(conv3x3_backward, dy, f"conv{i}", input_name)
    return {name: grad[name] for name in params}, output_gradients


# ---- the allowed distance of float32 from float64 ---------------------------------


def margin(y: Outputs) -> float:
    """Return the smallest change in a value that would change a decision.

    A ReLU decides whether its input is above 0; a pool selects the largest of four
    values. Rounding can change a decision, and then a gradient flows along another
    path. Equal values, such as those of a blank background, are not a decision.
    """
    nearest = np.abs(y["fc1"]).min()
    for i in "12":
        values = np.maximum(np.sort(windows(y[f"bn{i}"]), axis=-1), 0)
        lead = values[..., 3] - values[..., 2]
        lead = np.where(values[..., 3] > 0, lead, -windows(y[f"bn{i}"]).max(axis=-1))
        nearest = min(nearest, lead[lead > 1e-12].min(initial=np.inf))
    return float(nearest)


def closest_window(y: Outputs, layer: str) -> tuple[tuple[int, ...], np.ndarray]:
    """Find the window of "bn1" or "bn2" whose largest value has the smallest lead.

    Returns its place (image, channel, row, column) and its four values. As in margin(),
    equal values are not a decision, nor are values that the ReLU sets to 0.
    """
    values = windows(y[layer])
    ranked = np.sort(values, axis=-1)
    lead = ranked[..., 3] - ranked[..., 2]
    decides = (lead > 1e-12) & (ranked[..., 3] > 0)
    position = np.unravel_index(np.where(decides, lead, np.inf).argmin(), lead.shape)
    place = tuple(map(int, position))
    return place, values[place]


def turn_window(y: Outputs, layer: str, place: tuple[int, ...]) -> Outputs:
    """Return the outputs with the window's two largest values exchanged."""
    name = layer.replace("bn", "relu")
    values = windows(y[name]).copy()
    second, first = np.argsort(windows(y[layer])[place])[-2:]
    values[place][[second, first]] = values[place][[first, second]]
    return {**y, name: from_windows(values)}


def bounds(params: Params, y: Outputs, labels: np.ndarray) -> dict[str, float]:
    """Return error bounds for float32: for the "loss", and for each gradient's norm.

    A gradient is a sum of products dy x, with K terms in all sums that lead to it.
    The error from independent roundings of 2^-24 is at most LAMBDA sqrt(K) 2^-24 times
    the sum of |dy x|. The probability of a larger error is 2 K exp(-LAMBDA^2 / 2)
    (Higham and Mary, SIAM J. Sci. Comput. 41(5), 2019). The loss changes by at most
    twice the change of a score.
    """
    inputs = {"conv1": "x", "conv2": "pool1", "fc1": "flat", "fc2": "relu3"}
    sizes: Params = {}
    for layer, dy in backward(params, y, labels)[1].items():
        dy = np.abs(dy)
        if layer in inputs:
            function = linear_backward if layer[0] == "f" else conv3x3_backward
            x, weight = np.abs(y[inputs[layer]]), params[f"{layer}.weight"]
            _, *both = function(dy, x, weight)
        else:
            xhat = np.abs(standardise(y[f"conv{layer[-1]}"]))
            both = (dy * xhat).sum(axis=(0, 2, 3)), dy.sum(axis=(0, 2, 3))
        sizes[f"{layer}.weight"], sizes[f"{layer}.bias"] = both
    unit = LAMBDA * np.sqrt(terms(params, y)) * 2.0**-24
    scores = linear(np.abs(y["relu3"]), *map(np.abs, _of(params, "fc2")))
    norms = {name: float(unit * np.linalg.norm(sizes[name])) for name in params}
    return {"loss": float(2 * unit * scores.max())} | norms


def terms(params: Params, y: Outputs) -> int:
    """Return K, the number of terms in all sums that lead to a gradient.

    The sums are over a filter and over a row and a column of each linear layer. Batch
    norm has sums over the pixels, two forward and two backward. The loss adds a sum
    over the batch, and the gradient itself is another sum.
    """
    filters = sum(params[f"conv{i}.weight"][0].size for i in "12")
    filters += params["conv2.weight"][:, 0].size
    linears = sum(sum(params[f"fc{i}.weight"].shape) for i in "12")
    pixels = [y[f"conv{i}"][:, 0].size for i in "12"]
    return filters + linears + len(y["x"]) + 4 * sum(pixels) + pixels[0]


def _of(params: Params, layer: str) -> tuple[np.ndarray, np.ndarray]:
    return params[f"{layer}.weight"], params[f"{layer}.bias"]
