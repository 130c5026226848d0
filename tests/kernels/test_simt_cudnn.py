"""cuDNN's legacy interface on the CPU, compared with PyTorch in float64."""

import ctypes
import itertools
from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tiers import only
from vendors import SINGLE, Vendor

BAD_PARAM, NOT_SUPPORTED, NOT_INITIALIZED = 2000, 3000, 1001
CONVOLUTION, CROSS_CORRELATION = 0, 1
NCHW, NHWC = 0, 1
FLOAT, HALF = 0, 2
ALPHA, BETA = 0.5, -1.5


@pytest.fixture(scope="module")
def cudnn():
    return Vendor("cudnn")


@pytest.fixture(scope="module")
def handle(cudnn):
    return cudnn.create("cudnnCreate")


def scale(value):
    """Return the address of a float, as alpha and beta are passed."""
    return ctypes.byref(ctypes.c_float(value))


def store(x, layout):
    """Return a copy of an array (n,c,h,w), stored in a layout."""
    return np.array(x if layout == NCHW else x.transpose(0, 2, 3, 1), order="C")


def load(memory, shape, layout):
    """Return the array (n,c,h,w) that memory contains."""
    n, c, h, w = shape
    if layout == NCHW:
        return memory.reshape(shape)
    return memory.reshape(n, h, w, c).transpose(0, 3, 1, 2)


def tensor(cudnn, shape, layout=NCHW, kind=FLOAT):
    descriptor = cudnn.create("cudnnCreateTensorDescriptor")
    cudnn.ok("cudnnSetTensor4dDescriptor", descriptor, layout, kind, *shape)
    return descriptor


def filters(cudnn, shape, layout=NCHW):
    descriptor = cudnn.create("cudnnCreateFilterDescriptor")
    cudnn.ok("cudnnSetFilter4dDescriptor", descriptor, FLOAT, layout, *shape)
    return descriptor


def normal(rng, shape):
    return rng.standard_normal(shape).astype(np.float32)


def wide(x):
    return torch.from_numpy(np.ascontiguousarray(x)).double()


def blended(value, before, beta):
    """Return what remains of the output if the result is `value`."""
    return ALPHA * value + (beta * wide(before) if beta else 0)


def near(got, expected, error):
    """Require |got - expected| <= error, element by element."""
    excess = (wide(got) - expected).abs() - error
    assert excess.max() <= 0, f"{excess.max().item()} above the bound"


# ---- convolution -------------------------------------------------------------


@dataclass
class Case:
    """The shapes of a convolution."""

    x: tuple
    w: tuple
    pad: tuple = (0, 0)
    step: tuple = (1, 1)
    dilation: tuple = (1, 1)
    groups: int = 1
    mode: int = CROSS_CORRELATION

    def descriptor(self, cudnn):
        descriptor = cudnn.create("cudnnCreateConvolutionDescriptor")
        numbers = (*self.pad, *self.step, *self.dilation, self.mode, FLOAT)
        cudnn.ok("cudnnSetConvolution2dDescriptor", descriptor, *numbers)
        cudnn.ok("cudnnSetConvolutionGroupCount", descriptor, self.groups)
        return descriptor

    def torch(self, x, w):
        w = w.flip(2, 3) if self.mode == CONVOLUTION else w
        return F.conv2d(x, w, None, self.step, self.pad, self.dilation, self.groups)


CASES = {
    "mnist": Case((5, 1, 28, 28), (8, 1, 3, 3), pad=(1, 1)),
    "strides": Case((2, 3, 11, 9), (4, 3, 3, 2), (1, 0), (2, 3)),
    "dilated": Case((2, 2, 12, 13), (3, 2, 3, 3), (2, 1), (1, 2), (2, 3)),
    "groups": Case((3, 6, 7, 7), (4, 3, 3, 3), (1, 1), groups=2),
    "turned": Case((2, 3, 6, 8), (5, 3, 2, 3), (1, 2), (2, 1), mode=CONVOLUTION),
    "one": Case((7, 16, 1, 1), (10, 16, 1, 1)),
    "chunks": Case((40, 8, 40, 40), (8, 8, 5, 5), (2, 2)),  # 2.6 CHUNKs
}
BLENDS = [0, BETA]


def convolve(cudnn, handle, case, layout, beta, which):
    """Run one of the three functions; return its output, float64 and the bound."""
    rng = np.random.default_rng(0)
    x, w = normal(rng, case.x), normal(rng, case.w)
    wx, ww = wide(x).requires_grad_(), wide(w).requires_grad_()
    exact = case.torch(wx, ww)
    dy = normal(rng, exact.shape)
    absolute = [wide(abs(v)).requires_grad_() for v in (x, w)]
    sums = case.torch(*absolute)
    exact.backward(wide(dy))
    sums.backward(wide(abs(dy)))
    out, size, weights, terms = {
        "Forward": (exact, sums, case.w, 1),
        "BackwardData": (wx.grad, absolute[0].grad, case.w, case.w[0]),
        "BackwardFilter": (ww.grad, absolute[1].grad, exact.shape, case.x[0]),
    }[which]
    count = weights[2] * weights[3] * (case.w[1] if which == "Forward" else terms)
    before = normal(rng, out.shape)
    memory = store(before, layout) if beta else np.full(out.numel(), np.nan, "f4")
    memory = memory.ravel()
    conv = case.descriptor(cudnn)
    dx, dw = tensor(cudnn, case.x, layout), filters(cudnn, case.w, layout)
    dyd = tensor(cudnn, exact.shape, layout)
    arrays = {
        "Forward": (dx, store(x, layout), dw, store(w, layout), dyd),
        "BackwardData": (dw, store(w, layout), dyd, store(dy, layout), dx),
        "BackwardFilter": (dx, store(x, layout), dyd, store(dy, layout), dw),
    }[which]
    words = (*arrays[:4], conv, 1, None, ctypes.c_size_t(0), scale(beta), arrays[4])
    cudnn.ok(f"cudnnConvolution{which}", handle, scale(ALPHA), *words, memory)
    error = ALPHA * size + abs(beta) * wide(abs(before))
    return (
        load(memory, out.shape, layout),
        blended(out.detach(), before, beta),
        (count + 6) * SINGLE * error.detach(),
    )


DIRECTIONS = ["Forward", "BackwardData", "BackwardFilter"]
LAYOUTS = [NCHW, NHWC]
CALLS = list(itertools.product(CASES, LAYOUTS, BLENDS, DIRECTIONS))
# "chunks" takes seconds. Both layouts and both values of beta run in turns.
QUICK = [call for call in CALLS[::5] if call[0] != "chunks"]


@pytest.mark.parametrize("name, layout, beta, which", only(QUICK, CALLS, names=4))
def test_convolutions(cudnn, handle, name, layout, beta, which):
    near(*convolve(cudnn, handle, CASES[name], layout, beta, which))


def test_the_output_has_the_shape_that_cudnn_documents(cudnn):
    for case in CASES.values():
        sizes = [ctypes.c_int() for _ in range(4)]
        conv, x = case.descriptor(cudnn), tensor(cudnn, case.x)
        words = (conv, x, filters(cudnn, case.w), *map(ctypes.byref, sizes))
        cudnn.ok("cudnnGetConvolution2dForwardOutputDim", *words)
        shape = case.torch(torch.zeros(case.x), torch.zeros(case.w)).shape
        assert [size.value for size in sizes] == list(shape)


@pytest.mark.parametrize("layout", [NCHW, NHWC], ids=["nchw", "nhwc"])
def test_the_gradient_of_a_bias(cudnn, handle, layout):
    dy = normal(np.random.default_rng(1), (6, 5, 7, 8))
    db, before = np.full(5, np.nan, np.float32), np.zeros(5, np.float32)
    words = (tensor(cudnn, dy.shape, layout), store(dy, layout), scale(0))
    words = (scale(ALPHA), *words, tensor(cudnn, (1, 5, 1, 1)), db)
    cudnn.ok("cudnnConvolutionBackwardBias", handle, *words)
    exact = wide(dy).sum((0, 2, 3))
    near(db, blended(exact, before, 0), 3 * SINGLE * ALPHA * exact.abs() + 1e-12)


def test_convolution_with_bias_and_activation(cudnn, handle):
    case, rng = CASES["groups"], np.random.default_rng(2)
    x, w, bias = normal(rng, case.x), normal(rng, case.w), normal(rng, 4)
    exact = case.torch(wide(x), wide(w))
    z, y = normal(rng, exact.shape), np.full(exact.shape, np.nan, np.float32)
    relu = activation(cudnn, RELU)
    dy = tensor(cudnn, exact.shape)
    words = (tensor(cudnn, case.x), x, filters(cudnn, case.w), w)
    words += (case.descriptor(cudnn), 0, None, ctypes.c_size_t(0), scale(BETA), dy, z)
    words += (tensor(cudnn, (1, 4, 1, 1)), bias, relu, dy, y)
    name = "cudnnConvolutionBiasActivationForward"
    cudnn.ok(name, handle, scale(ALPHA), *words)
    b = wide(bias)[:, None, None]
    sums = case.torch(wide(abs(x)), wide(abs(w))) + 1.5 * wide(abs(z)) + b.abs()
    expected = F.relu(ALPHA * exact + BETA * wide(z) + b)
    near(y, expected, (27 + 8) * SINGLE * sums)


# ---- layers --------------------------------------------------------------------

SIGMOID, RELU, TANH, CLIPPED, ELU, IDENTITY, SWISH = range(7)
FUNCTIONS = {
    SIGMOID: torch.sigmoid,
    RELU: F.relu,
    TANH: torch.tanh,
    CLIPPED: lambda x: x.clamp(0, 0.75),
    ELU: lambda x: F.elu(x, 0.75),
    SWISH: lambda x: x * torch.sigmoid(0.75 * x),
}


def activation(cudnn, mode, coef=0.75):
    descriptor = cudnn.create("cudnnCreateActivationDescriptor")
    cudnn.ok("cudnnSetActivationDescriptor", descriptor, mode, 1, coef)
    return descriptor


@pytest.mark.parametrize("mode", FUNCTIONS)
@pytest.mark.parametrize("beta", BLENDS)
def test_activations_and_their_gradients(cudnn, handle, mode, beta):
    rng, shape = np.random.default_rng(3), (3, 4, 5, 6)
    x, dy, before = (normal(rng, shape) for _ in range(3))
    wx = wide(x).requires_grad_()
    exact = FUNCTIONS[mode](wx)
    exact.backward(wide(dy))
    y = exact.detach().float().numpy()
    f, t = activation(cudnn, mode), tensor(cudnn, shape)
    for which, arrays, result in (
        ("Forward", (t, x), exact.detach()),
        ("Backward", (t, y, t, dy, t, x), wx.grad),
    ):
        out = before.copy() if beta else np.full(shape, np.nan, np.float32)
        words = (scale(ALPHA), *arrays, scale(beta), t, out)
        cudnn.ok(f"cudnnActivation{which}", handle, f, *words)
        # A few roundings of numbers up to 1, and of the result.
        size = 1 + result.abs() + wide(abs(dy)) + abs(beta) * wide(abs(before))
        near(out, blended(result, before, beta), 8 * SINGLE * size)


POOLS = {
    "mnist": ((4, 3, 28, 28), (2, 2), (0, 0), (2, 2)),
    "overlapping": ((2, 3, 9, 11), (3, 2), (1, 1), (2, 1)),
}


@pytest.mark.parametrize("mode", range(4))
@pytest.mark.parametrize("layout", [NCHW, NHWC], ids=["nchw", "nhwc"])
@pytest.mark.parametrize("name", POOLS)
def test_pooling_and_its_gradient(cudnn, handle, name, layout, mode):
    shape, window, pad, step = POOLS[name]
    rng = np.random.default_rng(4)
    x = normal(rng, shape)
    pool = cudnn.create("cudnnCreatePoolingDescriptor")
    words = (mode, 1, *window, *pad, *step)
    cudnn.ok("cudnnSetPooling2dDescriptor", pool, *words)
    wx = wide(x).requires_grad_()
    if mode in (0, 3):
        exact = F.max_pool2d(wx, window, step, pad)
    else:
        exact = F.avg_pool2d(wx, window, step, pad, count_include_pad=mode == 1)
    dy = normal(rng, exact.shape)
    exact.backward(wide(dy))
    sizes = [ctypes.c_int() for _ in range(4)]
    tx, ty = tensor(cudnn, shape, layout), tensor(cudnn, exact.shape, layout)
    get = "cudnnGetPooling2dForwardOutputDim"
    cudnn.ok(get, pool, tx, *map(ctypes.byref, sizes))
    assert [size.value for size in sizes] == list(exact.shape)
    y = np.full(exact.numel(), np.nan, np.float32)
    words = (scale(ALPHA), tx, store(x, layout), scale(0), ty, y)
    cudnn.ok("cudnnPoolingForward", handle, pool, *words)
    size = 1 + exact.abs().detach()
    near(load(y, exact.shape, layout), ALPHA * exact.detach(), 4 * SINGLE * size)
    before = normal(rng, shape)
    dx = store(before, layout).ravel()
    plain = store(exact.detach().float().numpy(), layout)
    words = (scale(ALPHA), ty, plain, ty, store(dy, layout), tx, store(x, layout))
    cudnn.ok("cudnnPoolingBackward", handle, pool, *words, scale(BETA), tx, dx)
    error = 16 * SINGLE * (1 + wide(abs(before)) + 4 * abs(dy).max())
    near(load(dx, shape, layout), blended(wx.grad, before, BETA), error)


def test_a_maximum_follows_the_option_for_nan(cudnn, handle):
    x = np.array([[[[np.nan, 1, 2, 3]]]], np.float32)
    for propagates, expected in ((1, [np.nan, 3]), (0, [1, 3])):
        pool = cudnn.create("cudnnCreatePoolingDescriptor")
        cudnn.ok("cudnnSetPooling2dDescriptor", pool, 0, propagates, 1, 2, 0, 0, 1, 2)
        y = np.zeros(2, np.float32)
        words = (tensor(cudnn, (1, 1, 1, 4)), x, scale(0), tensor(cudnn, (1, 1, 1, 2)))
        cudnn.ok("cudnnPoolingForward", handle, pool, scale(1), *words, y)
        np.testing.assert_array_equal(y, np.float32(expected))


@pytest.mark.parametrize("algorithm", range(3))
@pytest.mark.parametrize("mode", [0, 1], ids=["instance", "channel"])
@pytest.mark.parametrize("layout", [NCHW, NHWC], ids=["nchw", "nhwc"])
def test_softmax_and_its_gradient(cudnn, handle, algorithm, mode, layout):
    rng, shape = np.random.default_rng(5), (3, 10, 4, 2)
    x, dy, before = 5 * normal(rng, shape), normal(rng, shape), normal(rng, shape)
    function = torch.log_softmax if algorithm == 2 else torch.softmax
    wx = wide(x).requires_grad_()
    flat = wx if mode else wx.reshape(3, -1)
    exact = function(flat, 1).reshape(shape)
    exact.backward(wide(dy))
    t, y = tensor(cudnn, shape, layout), np.full(x.size, np.nan, np.float32)
    words = (algorithm, mode, scale(ALPHA), t, store(x, layout), scale(0), t, y)
    cudnn.ok("cudnnSoftmaxForward", handle, *words)
    result = load(y, shape, layout)
    near(result, ALPHA * exact.detach(), 2 * SINGLE * exact.abs().detach() + 1e-12)
    dx, plain = store(before, layout).ravel(), exact.detach().float().numpy()
    words = (algorithm, mode, scale(ALPHA), t, store(plain, layout), t)
    words += (store(dy, layout), scale(BETA), t, dx)
    cudnn.ok("cudnnSoftmaxBackward", handle, *words)
    # y is rounded, which changes the sum of y dy, or of exp(y) dy if y is a logarithm.
    count = 10 if mode else 80
    size = (2 + exact.abs().max().item()) * (1 + abs(dy).max() * count)
    error = SINGLE * (size + 3 * wide(abs(before)))
    near(load(dx, shape, layout), blended(wx.grad, before, BETA), error)


NORMS = {"per activation": 0, "spatial": 1, "persistent": 2}


@pytest.mark.parametrize("mode", NORMS.values(), ids=NORMS)
@pytest.mark.parametrize("layout", [NCHW, NHWC], ids=["nchw", "nhwc"])
def test_batch_norm_and_its_gradients(cudnn, handle, layout, mode):
    rng, shape, epsilon, factor = np.random.default_rng(7), (6, 3, 4, 5), 1e-3, 0.25
    many = (1, *shape[1:]) if mode == 0 else (1, 3, 1, 1)
    axes = (0,) if mode == 0 else (0, 2, 3)
    x, dy = 3 + normal(rng, shape), normal(rng, shape)
    weight, bias, mean, variance = (normal(rng, many) ** 2 for _ in range(4))
    wx, ww, wb = (wide(v).requires_grad_() for v in (x, weight, bias))
    center = wx - wx.mean(axes, keepdim=True)
    spread = (center**2).mean(axes, keepdim=True)
    exact = center / torch.sqrt(spread + epsilon) * ww + wb
    exact.backward(wide(dy))
    count = x.size / weight.size
    t, derived = tensor(cudnn, shape, layout), tensor(cudnn, (1, 1, 1, 1))
    cudnn.ok("cudnnDeriveBNTensorDescriptor", derived, t, mode)
    new_mean, new_variance = mean.copy(), variance.copy()
    saved_mean, saved_inverse = np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    y = np.full(x.size, np.nan, np.float32)
    words = (mode, scale(ALPHA), scale(0), t, store(x, layout), t, y, derived, weight)
    words += (bias, factor, new_mean, new_variance, epsilon, saved_mean, saved_inverse)
    cudnn.ok("cudnnBatchNormalizationForwardTraining", handle, *words)
    error = 4 * SINGLE
    near(load(y, shape, layout), ALPHA * exact.detach(), error * (1 + exact.abs()))
    statistics = wx.mean(axes, keepdim=True).detach(), spread.detach()
    unbiased = statistics[1] * count / (count - 1)
    for got, old, value in (
        (new_mean, mean, statistics[0]),
        (new_variance, variance, unbiased),
    ):
        expected = (1 - factor) * wide(old) + factor * value
        near(got, expected, error * expected.abs())
    near(saved_mean, statistics[0], error * statistics[0].abs())
    inverse = 1 / torch.sqrt(statistics[1] + epsilon)
    near(saved_inverse, inverse, error * inverse)

    before = normal(rng, shape)
    for statistic in ((saved_mean, saved_inverse), (None, None)):
        dx = store(before, layout).ravel()
        dweight, dbias = (np.full_like(weight, np.nan) for _ in range(2))
        words = (scale(ALPHA), scale(BETA), scale(1), scale(0), t, store(x, layout))
        words += (t, store(dy, layout), t, dx, derived, weight, dweight, dbias)
        words += (epsilon, *statistic)
        cudnn.ok("cudnnBatchNormalizationBackward", handle, mode, *words)
        # The saved statistics are rounded; x is 3 times as far from 0 as its spread.
        size = 1 + abs(dy).max() * (1 + ww.detach() * inverse * 8)
        loose = 16 * SINGLE * (size + 2 * wide(abs(before)))
        got = load(dx, shape, layout)
        near(got, blended(wx.grad, before, BETA), loose)
        near(dweight, ww.grad, 16 * SINGLE * inverse * count * 8)
        near(dbias, wb.grad, SINGLE * (1 + wb.grad.abs()))

    y = np.full(x.size, np.nan, np.float32)
    words = (mode, scale(1), scale(0), t, store(x, layout), t, y, derived, weight)
    words += (bias, mean, variance, epsilon)
    cudnn.ok("cudnnBatchNormalizationForwardInference", handle, *words)
    exact = (wide(x) - wide(mean)) / torch.sqrt(wide(variance) + epsilon)
    exact = exact * wide(weight) + wide(bias)
    near(load(y, shape, layout), exact, error * (1 + exact.abs()))


def test_tensors_are_added_scaled_set_and_reordered(cudnn, handle):
    rng, shape = np.random.default_rng(6), (2, 3, 4, 5)
    c, bias = normal(rng, shape), normal(rng, 3)
    t, b = tensor(cudnn, shape), tensor(cudnn, (1, 3, 1, 1))
    out = c.copy()
    cudnn.ok("cudnnAddTensor", handle, scale(ALPHA), b, bias, scale(BETA), t, out)
    exact = ALPHA * wide(bias)[:, None, None] + BETA * wide(c)
    near(out, exact, 3 * SINGLE * (1 + exact.abs() + wide(abs(c))))
    cudnn.ok("cudnnScaleTensor", handle, t, out, scale(0.5))
    near(out, exact / 2, 3 * SINGLE * (1 + exact.abs() + wide(abs(c))))
    turned = np.full(c.size, np.nan, np.float32)
    words = (scale(1), t, c, scale(0), tensor(cudnn, shape, NHWC), turned)
    cudnn.ok("cudnnTransformTensor", handle, *words)
    np.testing.assert_array_equal(load(turned, shape, NHWC), c)
    cudnn.ok("cudnnSetTensor", handle, t, out, scale(7))
    assert (out == 7).all()


# ---- errors ----------------------------------------------------------------------


def reason(cudnn):
    text = ctypes.create_string_buffer(300)
    cudnn.library.cudnnGetLastErrorString(text, ctypes.c_size_t(300))
    return text.value.decode()


def test_invalid_calls_return_cudnns_statuses_and_reasons(cudnn, handle):
    t, x = tensor(cudnn, (2, 3, 4, 5)), np.zeros((2, 3, 4, 5), np.float32)
    other, half = tensor(cudnn, (2, 3, 4, 6)), tensor(cudnn, (2, 3, 4, 5), NCHW, HALF)
    relu, unset = activation(cudnn, RELU), cudnn.create("cudnnCreateTensorDescriptor")

    def forward(at, f, xd, yd):
        words = (f, scale(1), xd, x, scale(0), yd, x)
        return cudnn.status("cudnnActivationForward", at, *words)

    assert forward(None, relu, t, t) == NOT_INITIALIZED
    assert forward(handle, relu, t, other) == BAD_PARAM
    assert reason(cudnn) == ("cudnnActivationForward: x and y have different shapes")
    assert forward(handle, relu, half, t) == NOT_SUPPORTED
    assert "x has type 2, and the CPU version has only" in reason(cudnn)
    assert forward(handle, relu, unset, t) == BAD_PARAM
    assert forward(handle, activation(cudnn, IDENTITY), t, t) == BAD_PARAM
    words = (scale(1), t, None, scale(0), t, x)
    assert cudnn.status("cudnnTransformTensor", handle, *words) == BAD_PARAM
    assert reason(cudnn) == "cudnnTransformTensor: x is NULL"
    words = (scale(1), tensor(cudnn, (1, 1, 1, 1)), x, scale(0), t, x)
    assert cudnn.status("cudnnTransformTensor", handle, *words) == BAD_PARAM
    assert cudnn.status("cudnnDestroyTensorDescriptor", None) == BAD_PARAM
    assert reason(cudnn) == "cudnnDestroyTensorDescriptor: invalid handle"
    words = (t, NCHW, FLOAT, 2, 0, 4, 5)
    assert cudnn.status("cudnnSetTensor4dDescriptor", *words) == BAD_PARAM
    assert "(2,0,4,5), expected at least 1" in reason(cudnn)
    case = CASES["mnist"]
    words = (scale(1), tensor(cudnn, case.x), x, filters(cudnn, case.w), x)
    words += (case.descriptor(cudnn), 0, None, ctypes.c_size_t(0), scale(0), t, x)
    assert cudnn.status("cudnnConvolutionForward", handle, *words) == BAD_PARAM
    assert "cudnnGetConvolution2dForwardOutputDim()" in reason(cudnn)
    cudnn.ok("cudnnDestroyTensorDescriptor", unset)
    assert cudnn.status("cudnnDestroyTensorDescriptor", unset) == BAD_PARAM


def test_an_algorithm_needs_no_workspace(cudnn, handle):
    case, size = CASES["mnist"], ctypes.c_size_t(9)
    y = tensor(cudnn, (5, 8, 28, 28))
    words = (tensor(cudnn, case.x), filters(cudnn, case.w), case.descriptor(cudnn), y)
    get = "cudnnGetConvolutionForwardWorkspaceSize"
    cudnn.ok(get, handle, *words, 6, ctypes.byref(size))
    assert size.value == 0
    results, count = np.full(12, -1, np.int32), ctypes.c_int()
    get = "cudnnGetConvolutionForwardAlgorithm_v7"
    cudnn.ok(get, handle, *words, 1, ctypes.byref(count), results)
    assert count.value == 1 and results[:2].tolist() == [0, 0]  # algo, status
