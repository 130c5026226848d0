"""The ops as Python functions: gradients, kinds of arrays, and bad input."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import weft
from weft.ops.cases import sum_bound
from weft.ops.check import check_rung
from weft.toolchain import native


def random(*shape, seed=0, **kwargs):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator, **kwargs)


CALLS = {
    "matmul": (weft.matmul, torch.matmul, [(5, 7), (7, 3)], 7),
    "conv2d": (
        lambda x, w, b, rung: weft.conv2d(x, w, b, 1, rung=rung),
        lambda x, w, b: F.conv2d(x, w, b, padding=1),
        [(2, 3, 6, 5), (4, 3, 3, 3), (4,)],
        60,
    ),
    "linear": (weft.linear, F.linear, [(5, 7), (3, 7), (3,)], 7),
    "relu": (weft.relu, F.relu, [(3, 5, 2)], 1),
    "maxpool2d": (
        lambda x, rung: weft.maxpool2d(x, (2, 3), rung=rung),
        lambda x: F.max_pool2d(x, (2, 3)),
        [(2, 3, 6, 7)],
        1,
    ),
}
RUNGS = ["reference", "naive"]


def rung_on(target, rung):
    if target == "cuda" and rung == "reference":
        pytest.skip("the plain C rung runs on the CPU")
    return rung


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("op", CALLS)
def test_gradients_agree_with_autograd_in_float64(op, rung, device):
    ours, theirs, shapes, terms = CALLS[op]
    inputs = [random(*shape, seed=i) for i, shape in enumerate(shapes)]
    dy = random(*theirs(*inputs).shape)
    got = [t.clone().to(device).requires_grad_() for t in inputs]
    y = ours(*got, rung=rung_on(device.type, rung))
    y.backward(dy.to(device))
    want = [t.double().requires_grad_() for t in inputs]
    theirs(*want).backward(dy.double())
    size = [t.double().abs().requires_grad_() for t in inputs]
    theirs(*size).backward(dy.double().abs())
    for g, w, s in zip(got, want, size):
        error = (g.grad.cpu().double() - w.grad).abs()
        assert bool((error <= sum_bound(terms, s.grad)).all())


@pytest.mark.parametrize("rung", RUNGS)
def test_a_small_net_learns_as_torch_in_float64_does(rung, device):
    """Chain conv, norm, relu, pool, linear and cross entropy for one gradient step."""
    rung = rung_on(device.type, rung)
    shapes = [(4, 1, 3, 3), (4,), (4,), (4,), (5, 36), (5,)]
    params = [0.5 * random(*shape, seed=9 + i) for i, shape in enumerate(shapes)]
    x, target = random(3, 1, 6, 6), torch.tensor([0, 4, 2])

    def loss_of(x, target, p, o):
        y = o["conv2d"](x, p[0], p[1], 1)
        y = o["pool"](o["relu"](o["norm"](y, p[2], p[3])))
        return o["loss"](o["linear"](y.flatten(1), p[4], p[5]), target)

    ours = {
        "conv2d": lambda *a: weft.conv2d(*a, rung=rung),
        "norm": lambda *a: weft.batchnorm2d(*a, rung=rung),
        "relu": lambda a: weft.relu(a, rung=rung),
        "pool": lambda a: weft.maxpool2d(a, 2, rung=rung),
        "linear": lambda *a: weft.linear(*a, rung=rung),
        "loss": lambda *a: weft.cross_entropy(*a, rung=rung),
    }
    theirs = {
        "conv2d": lambda x, w, b, p: F.conv2d(x, w, b, padding=p),
        "norm": lambda x, w, b: F.batch_norm(x, None, None, w, b, True, 0, 1e-5),
        "relu": F.relu,
        "pool": lambda a: F.max_pool2d(a, 2),
        "linear": F.linear,
        "loss": F.cross_entropy,
    }
    got = [p.clone().to(device).requires_grad_() for p in params]
    loss = loss_of(x.to(device), target.to(device), got, ours)
    loss.backward()
    want = [p.double().requires_grad_() for p in params]
    loss64 = loss_of(x.double(), target, want, theirs)
    loss64.backward()
    # Any path through this net has fewer than 200 roundings, and batch norm amplifies
    # none of them by more than a factor of 30 on these inputs.
    tolerance = 200 * 30 * 2.0**-24
    assert abs(loss.item() - loss64.item()) <= tolerance * abs(loss64.item())
    largest = max(w.grad.abs().max() for w in want)
    for g, w in zip(got, want):
        assert (g.grad.cpu().double() - w.grad).abs().max() <= tolerance * largest


def test_only_wanted_gradients_are_computed(device):
    x, weight = random(2, 3, device="cpu").to(device), random(4, 3).to(device)
    weight.requires_grad_()
    weft.linear(x, weight).sum().backward()
    assert x.grad is None
    assert weight.grad.shape == (4, 3)


def test_gradients_of_gradients_are_refused_not_left_out(device):
    x = random(3, 3).to(device).requires_grad_()
    y = weft.matmul(x, x).sum()
    with pytest.raises(weft.ArgumentError, match="create_graph=True"):
        torch.autograd.grad(y, x, create_graph=True)
    (dx,) = torch.autograd.grad(y, x)
    assert not dx.requires_grad


def test_a_gradient_may_arrive_in_any_layout(device):
    x = random(2, 3, 4, 4).to(device).requires_grad_()
    dy = random(4, 4, 3, 2).to(device).permute(3, 2, 0, 1)
    weft.relu(x).backward(dy)
    assert torch.equal(x.grad, dy * (x > 0))


def test_a_reload_may_come_between_forward_and_backward():
    x = random(3, 3).requires_grad_()
    old = native.library("matmul", "cpu")
    y = weft.matmul(x, x)
    weft.reload()
    y.sum().backward()
    assert x.grad.isfinite().all()
    assert native.library("matmul", "cpu") is not old
    # The old library still works.
    assert check_rung(old, old.rung("reference")).worst <= 1


def test_a_window_is_given_as_torch_takes_it():
    x = random(1, 1, 4, 6)
    for window in (2, [2], (2, 2), [2, 3], torch.Size([2, 3])):
        assert torch.equal(weft.maxpool2d(x, window), F.max_pool2d(x, window))


def test_numpy_beside_a_parameter_gives_numpy():
    a, weight = random(2, 3).numpy(), random(4, 3).requires_grad_()
    assert isinstance(weft.linear(a, weight), np.ndarray)


def test_numbers_without_dimensions_are_fine():
    assert weft.relu(torch.tensor(-1.0)).shape == ()
    assert weft.relu(np.array(2.0, np.float32)) == 2


def test_numpy_in_gives_numpy_out():
    a, b = random(3, 4).numpy(), random(4, 5).numpy()
    c = weft.matmul(a, b)
    assert isinstance(c, np.ndarray)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, atol=1e-5)


def test_a_read_only_numpy_array_is_fine():
    a = random(3, 4).numpy()
    a.flags.writeable = False
    assert weft.relu(a).shape == (3, 4)


class OnlyDLPack:
    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **kwargs):
        return self.tensor.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def test_anything_with_dlpack_gives_a_tensor(device):
    x = random(3, 4).to(device)
    y = weft.relu(OnlyDLPack(x))
    assert isinstance(y, torch.Tensor)
    assert torch.equal(y, x.relu())


class OnlyCudaArrayInterface:
    def __init__(self, tensor):
        self.tensor = tensor
        self.__cuda_array_interface__ = tensor.__cuda_array_interface__


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_anything_with_cuda_array_interface_gives_a_tensor():
    x = random(3, 4).cuda()
    assert torch.equal(weft.relu(OnlyCudaArrayInterface(x)), x.relu())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_ops_follow_torchs_current_stream():
    a = random(512, 512).cuda()
    weft.relu(a)  # the first call builds and loads the library
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)  # later calls wait in the queue
        b = a * 2
        c = weft.relu(b)
    assert not stream.query()
    stream.synchronize()
    assert torch.equal(c, (a * 2).relu())


f32 = random
BAD = {
    r"a is \(3, 4\) and b is \(5, 2\): 4 columns do not match 5 rows": lambda: (
        weft.matmul(f32(3, 4), f32(5, 2))
    ),
    r"a is torch.float64, expected torch.float32": lambda: weft.matmul(
        f32(3, 4).double(), f32(4, 2)
    ),
    r"strides \(1, 3\), expected a contiguous": lambda: weft.relu(f32(4, 3).T),
    "x is a list": lambda: weft.relu([1.0, 2.0]),
    r"weight is \(4, 3, 3, 3\), expected \(oc, 2, kh, kw\), since x is": lambda: (
        weft.conv2d(f32(1, 2, 5, 5), f32(4, 3, 3, 3))
    ),
    r"bias is \(3,\), expected \(4,\)": lambda: weft.conv2d(
        f32(1, 3, 5, 5), f32(4, 3, 3, 3), f32(3)
    ),
    "padding = -1": lambda: weft.conv2d(f32(1, 3, 5, 5), f32(4, 3, 3, 3), padding=-1),
    "9 x 3.*5 x 5": lambda: weft.conv2d(f32(1, 3, 5, 5), f32(4, 3, 9, 3)),
    "more than 1": lambda: weft.batchnorm2d(f32(1, 3, 1, 1), f32(3), f32(3)),
    "eps": lambda: weft.batchnorm2d(f32(2, 3, 1, 1), f32(3), f32(3), eps=-1.0),
    r"weight is \(2,\), expected \(3,\)": lambda: weft.batchnorm2d(
        f32(2, 3, 2, 2), f32(2), f32(3)
    ),
    "padding=2147483648: expected a whole": lambda: weft.conv2d(
        f32(1, 3, 5, 5), f32(4, 3, 3, 3), padding=2**31
    ),
    r"320000169969992 bytes for a result of shape \(1, 2, 6324557,": lambda: (
        weft.conv2d(f32(1, 3, 5, 5), f32(2, 3, 3, 3), padding=3162277)
    ),
    "kh = 0": lambda: weft.maxpool2d(f32(1, 1, 4, 4), 0),
    r"kernel_size=\[2, 2, 2\]": lambda: weft.maxpool2d(f32(1, 1, 4, 4), [2, 2, 2]),
    "kernel_size=inf": lambda: weft.maxpool2d(f32(1, 1, 4, 4), float("inf")),
    "x is a NoneType": lambda: weft.relu(None),
    "x is torch.bool, expected": lambda: weft.relu(f32(3) > 0),
    "x is torch.sparse_coo": lambda: weft.relu(f32(3, 3).to_sparse()),
    "x is >f4.*byte order": lambda: weft.relu(np.ones(3, ">f4")),
    r"strides \(5,\) bytes": lambda: weft.relu(np.zeros(3, "f4, u1")["f0"]),
    "target is object.*expected torch.int64": lambda: weft.cross_entropy(
        np.ones((1, 2), np.float32), np.array([None])
    ),
    r"weight is \(3, 5\), expected \(out, 4\), since x is \(2, 4\)": lambda: (
        weft.linear(f32(2, 4), f32(3, 5))
    ),
    r"target is torch.int32, expected torch.int64": lambda: weft.cross_entropy(
        f32(2, 3), torch.zeros(2, dtype=torch.int32)
    ),
    r"target\[1\] = 3": lambda: weft.cross_entropy(f32(2, 3), torch.tensor([0, 3])),
    r"no rung 'fastest' on cpu; it has reference, naive": lambda: weft.relu(
        f32(3), rung="fastest"
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_one_error_with_its_numbers(message):
    with pytest.raises((weft.ArgumentError, weft.OutOfMemory), match=message):
        BAD[message]()
    x = f32(3)
    assert torch.equal(weft.relu(x), x.relu())  # the session continues


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_arrays_on_different_devices_are_refused():
    with pytest.raises(weft.ArgumentError, match="a is on cpu, b is on cuda:0"):
        weft.matmul(f32(2, 2), f32(2, 2).cuda())


def test_a_gpu_only_device_type_is_refused():
    with pytest.raises(weft.ArgumentError, match="x is on meta"):
        weft.relu(torch.empty(3, device="meta"))
