"""Arguments and launch shapes of every kind in Python, from a random source.

Each function takes a random.Random: a plain one, or that of hypothesis, which shrinks
its choices.
"""

import array
import ctypes
import decimal
import fractions
import math
import types

import numpy as np
import torch

NUMPY = [
    *("f4", "f4", "f4", "i4", "i4", "f8", "i1", "u1", "i2", "u2", "u4", "i8", "u8"),
    *("f2", "?", "c8", "c16", "g", ">f4", ">i4", "S1", "S4", "U1", "M8[s]", "m8[s]"),
    *("O", "V4", "V12", [("x", "f4"), ("y", "i4")]),
]
TORCH = [
    *(torch.float32, torch.float32, torch.int32, torch.float64, torch.int64),
    *(torch.float16, torch.bfloat16, torch.bool, torch.uint8, torch.int8, torch.int16),
    *(torch.complex64, torch.uint16, torch.uint32, torch.uint64, torch.float8_e5m2),
]
NUMBERS = [
    *(0, 1, -1, 2, 7, 64, 127, 128, 255, 256, 2**31 - 1, 2**31, -(2**31) - 1, 2**32),
    *(2**63 - 1, 2**63, 2**64, -(2**64), 10**400, True, False, 0.0, 0.5, -2.0, 1e39),
    *(1e300, math.inf, -math.inf, math.nan, 1j, fractions.Fraction(1, 3)),
    *(decimal.Decimal("1.5"), decimal.Decimal("NaN"), np.float16(1), np.longdouble(2)),
    *(np.float32(math.nan), np.int8(-1), np.uint64(2**64 - 1), np.bool_(True)),
    *(np.complex64(1), np.datetime64("2026-01-01"), np.str_("x"), np.bytes_(b"x")),
]


def numpy_array(random, most=4000):
    """Return an array of any dtype, shape and strides of at most `most` elements."""
    dtype = np.dtype(random.choice(NUMPY))
    array = _filled(dtype, shape(random, most))
    change = random.choice(CHANGES)
    try:
        return change(array)
    except (IndexError, ValueError, TypeError):  # the change does not suit this array
        return array


def shape(random, most):
    """Return a shape of zero to three dimensions; some have size 0."""
    size = random.randint(1, most)
    side = max(1, math.isqrt(size))
    return random.choice(
        [(size,), (size,), (size,), (side, side), (3, side, 2), (0,), (0, 3), (1,), ()]
    )


def _filled(dtype, sides):
    if dtype.kind in "OUSMm" or dtype.fields:
        return np.zeros(sides, dtype)
    count = math.prod(sides) * dtype.itemsize
    return (
        np.resize(np.arange(1, 250, dtype=np.uint8), count).view(dtype).reshape(sides)
    )


def _at_odd_address(array):
    room = np.zeros(array.nbytes + 1, np.uint8)
    return room[1:].view(array.dtype).reshape(array.shape)


def _read_only(array):
    array.flags.writeable = False
    return array


CHANGES = [
    *[lambda x: x] * 8,
    *(lambda x: x[::2], lambda x: x[::-1], lambda x: x.T),
    *(lambda x: x[1:], lambda x: x[:, 1:], lambda x: x[..., 0]),
    lambda x: np.broadcast_to(x, (3, *x.shape)),
    *(np.asfortranarray, _at_odd_address, _read_only),
    lambda x: np.ma.masked_array(x, x == x),
    *(np.matrix, lambda x: x.view(np.recarray)),
    lambda x: np.ma.masked_array(x),
    *(memoryview, lambda x: x.tolist(), lambda x: list(x)),
    lambda x: types.SimpleNamespace(owner=x, __array_interface__=x.__array_interface__),
]


def tensor(random, most=4000):
    """Return a tensor of any dtype, layout and strides."""
    result = torch.zeros(shape(random, most), dtype=random.choice(TORCH))
    change = random.choice(TENSOR_CHANGES)
    try:
        return change(result)
    except (RuntimeError, IndexError, TypeError, NotImplementedError):
        return result


TENSOR_CHANGES = [
    *[lambda x: x] * 6,
    *(lambda x: x[::2], lambda x: x.t(), lambda x: x[1:]),
    lambda x: x.expand(3, *x.shape),
    *(lambda x: x.conj(), lambda x: x.to_sparse()),
    *(lambda x: x.to("meta"), torch.nn.Parameter, torch._neg_view),
    lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8),
    *(lambda x: x.numpy(), lambda x: x.tolist()),
    lambda x: x.requires_grad_() * 2,
]


class Unwilling:
    """An object that raises an error in every method."""

    def _refuse(self, *_):
        raise RuntimeError("unwilling")

    __index__ = __float__ = __int__ = __bool__ = __len__ = __iter__ = _refuse
    __array__ = __dlpack__ = __dlpack_device__ = __eq__ = __hash__ = _refuse


class Speechless:
    """An object that raises an error in repr()."""

    def __repr__(self):
        raise ValueError("speechless")


class Coy:
    """An object whose methods return values of the wrong types."""

    def __bool__(self):
        return None

    def __index__(self):
        return "one"

    def __float__(self):
        return "1.0"


def _on_a_gpu(**interface):
    defaults = {"shape": (4,), "typestr": "<f4", "data": (4096, False), "version": 3}
    return types.SimpleNamespace(__cuda_array_interface__={**defaults, **interface})


class Pair(ctypes.Structure):
    """Eight bytes."""

    _fields_ = (("x", ctypes.c_float), ("y", ctypes.c_int))


ODDITIES = [
    *(lambda: None, lambda: "abc", lambda: b"x", lambda: "", lambda: (1.0, 2.0)),
    *(lambda: (1, 2, 3), list, dict, lambda: [1.0], lambda: range(4), lambda: {1}),
    *(lambda: ..., lambda: int, lambda: np.float32, lambda: len, lambda: slice(1)),
    *(Unwilling, Speechless, Coy, object, Pair, lambda: bytearray(8)),
    *(lambda: np.ma.masked, lambda: np.array(b"abcd"), lambda: np.array("x")),
    *(lambda: np.array(None), lambda: np.array(1.5), lambda: torch.tensor(1.5)),
    *(lambda: bytes(8), lambda: array.array("f", [1.0]), lambda: ctypes.c_int(3)),
    *(_on_a_gpu, lambda: _on_a_gpu(typestr="?!"), lambda: _on_a_gpu(shape=None)),
    *(lambda: _on_a_gpu(data=None), lambda: _on_a_gpu(strides="abc")),
    lambda: types.SimpleNamespace(__cuda_array_interface__=3),
    lambda: types.SimpleNamespace(__array_interface__={}),
    lambda: types.SimpleNamespace(x=1, y=2, z=3),
    lambda: types.SimpleNamespace(x=1, y=None, z=3),
    lambda: np.zeros(1, [("x", "f4"), ("y", "i4")])[0],
    lambda: (np.zeros(3, np.float32), 1),
]


def number(random):
    """Return a number of any kind."""
    return random.choice(NUMBERS)


def oddity(random):
    """Return an object that is neither an array nor a number."""
    return random.choice(ODDITIES)()


def anything(random, most=4000):
    """Return one argument of any kind."""
    kind = random.choice("aaaattnno")
    if kind == "a":
        return numpy_array(random, most)
    if kind == "t":
        return tensor(random, most)
    return number(random) if kind == "n" else oddity(random)


def arguments(random, params, most=4000):
    """Return arguments for a CUDA C kernel's parameters. Half of the time all fit;
    otherwise one of them may be anything, or there are too few or too many."""
    values = [_fitting(random, param, most) for param in params]
    if random.randint(0, 1) == 0:
        return values
    at = random.randint(-1, len(values))
    values[max(at, 0) : at + 1] = [anything(random, most)] * (at >= 0)
    return values


FITTING = {
    **{"float": "f4", "int": "i4", "double": "f8", "unsigned char": "u1", "half": "f2"},
    "float *": "i8",
}
VALUES = {"float2": (0.5, 2), "Pair": bytes(8), "char": "c", "bool": True}


def _fitting(random, param, most):
    if not param.pointer:
        return VALUES.get(param.type, random.choice([1, 2, 17, 100]))
    dtype = FITTING.get(param.type, "f4")
    array = np.ones(4 * random.randint(20, most // 4), dtype)
    return torch.from_numpy(array) if random.randint(0, 2) == 0 else array


def brackets(random):
    """Return the contents of kernel[...]: any number of parts, of any kind."""
    parts = [dimension(random) for _ in range(random.choice([1, 2, 2, 2, 3, 4, 5]))]
    return random.choice([tuple(parts), tuple(parts), parts, parts[0]])


def dimension(random):
    """Return a valid or an invalid grid or block."""
    numbers = [0, 1, 2, 31, 32, 64, 1024, 1025, 65535, 65536, -1, 2**31, 2**40]
    few = [random.choice(numbers) for _ in range(random.randint(0, 4))]
    return random.choice(
        [
            *(
                random.choice(numbers),
                random.choice(numbers),
                tuple(few),
                tuple(few),
                few,
            ),
            *(number(random), oddity(random), np.array(few), torch.tensor(few)),
        ]
    )
