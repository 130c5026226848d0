"""Mathematics, rounding and bits on the device, compared with the definitions."""

import math
from fractions import Fraction

import numpy as np
import pytest
import simt_device
import torch
from simt_device import pointer, poison

simt, ordered = simt_device.simt, simt_device.ordered


def functions(x: np.ndarray) -> np.ndarray:
    """Return the results of math.cu's doubles(), from NumPy and PyTorch: (n, 20)."""
    p = np.abs(x) - np.floor(np.abs(x))
    v, q = torch.from_numpy(x), torch.from_numpy(p)
    special = torch.special
    sinpi, cospi = np.sin(np.pi * np.fmod(x, 2)), np.cos(np.pi * np.fmod(x, 2))
    with np.errstate(divide="ignore"):
        columns = [
            1 / np.sqrt(np.abs(x)),
            1 / np.cbrt(x),
            sinpi,
            cospi,
            torch.erfinv(q),
            -special.ndtri(q) / math.sqrt(2),
            special.erfcx(v),
            special.ndtr(v),
            special.ndtri(q),
            special.i0(v),
            special.i1(v),
            special.bessel_j0(v),
            10 ** (x / 10),
            np.sqrt(x * x + 5),
            1 / np.sqrt(x * x + p * p + 5),
            1 / np.hypot(x, 3),
            sinpi + 2 * cospi,
            np.sin(x) + 2 * np.cos(x),
        ]
        exponent = np.floor(np.log2(np.abs(x)))
        columns.append(
            np.array([math.remainder(t, 1.5) for t in x])
            + np.copysign(3, x)
            + np.maximum(x - 1, 0)
        )
        columns.append(8 * x + 2 * exponent + np.rint(x))
    return np.stack([np.asarray(column) for column in columns], 1)


@pytest.mark.parametrize("kind", ["double", "float"])
def test_functions_of_mathematics(ordered, kind):
    rng = np.random.default_rng(9)
    x = np.clip(rng.normal(size=150) * 4, -8, 12)  # erfcx(-10) would overflow a float
    x = np.concatenate([x, [0.5, -0.25, 1e-4, 20.25, -5.5]])
    dtype = np.float64 if kind == "double" else np.float32
    x = x.astype(dtype)
    out = poison((len(x), 20), dtype)
    run = ordered.load("math")[f"run_{kind}s"]
    assert run(pointer(out), pointer(x), len(x)) == 0
    want = functions(x.astype(np.float64))
    for column in range(20):
        if column == 11:  # PyTorch's j0() has only seven digits
            np.testing.assert_allclose(out[:, 11], want[:, 11], atol=1e-6)
            continue
        # sin(pi x) has zeros, so there is also an absolute bound.
        np.testing.assert_allclose(
            out[:, column],
            want[:, column],
            rtol=2e-13 if kind == "double" else 2e-6,
            atol=1e-14 if kind == "double" else 5e-6,
            err_msg=str(column),
        )


def test_inverse_functions_at_their_ends(simt):
    """Test p = 0, where erfinv and its like are 0 or infinite, and p near 0."""
    x = np.array([1.0, 3 + 2.0**-40, 2 + 2.0**-50, 5 - 2.0**-48])
    out = poison((4, 20), np.float64)
    assert simt.load("math").run_doubles(pointer(out), pointer(x), 4) == 0
    assert out[0, 4] == 0 and out[0, 5] == np.inf and out[0, 8] == -np.inf
    assert out[0, 2] == 0 and out[0, 3] == -1  # sinpi(1) and cospi(1) are exact
    p = torch.from_numpy(x - np.floor(x))
    np.testing.assert_allclose(out[1:3, 4], torch.erfinv(p)[1:3], rtol=1e-14)
    np.testing.assert_allclose(out[1:, 8], torch.special.ndtri(p)[1:], rtol=1e-12)


MODES = ["nearest", "zero", "up", "down"]


def rounded(value: Fraction, dtype: type, mode: str) -> float:
    """Return an exact value as a floating-point number, rounded by `mode`."""
    near = dtype(float(value)) if dtype is np.float64 else nearest_float(value)
    exact = Fraction(float(near))
    if mode == "zero":
        mode = "down" if value > 0 else "up"
    if mode == "up" and exact < value:
        near = np.nextafter(near, dtype(np.inf))
    if mode == "down" and exact > value:
        near = np.nextafter(near, dtype(-np.inf))
    return float(near)


def nearest_float(value: Fraction) -> np.float32:
    near = np.float32(float(value))  # this is at most one step off
    steps = [np.nextafter(near, np.float32(s)) for s in (-np.inf, np.inf)]
    ordered = [near, *steps]
    return min(ordered, key=lambda f: abs(Fraction(float(f)) - value))


def root_up_to(value: Fraction, digits: int) -> Fraction:
    """Return the square root, truncated far past the last relevant digit. A nonzero
    tail remains nonzero."""
    scale = 1 << digits
    root = math.isqrt(int(value * scale * scale))
    tail = Fraction(root, scale)
    return tail if tail * tail == value else tail + Fraction(1, 2 * scale)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arithmetic_rounds_as_asked(ordered, dtype):
    rng = np.random.default_rng(10)
    a = rng.normal(size=(2, 40)) * 10.0 ** rng.integers(-6, 6, (2, 40))
    f, d = a.astype(np.float32), a.copy()
    out_f, out_d = poison((40, 4, 7), np.float32), poison((40, 4, 7), np.float64)
    arrays = [out_f, out_d, f[0], f[1], d[0], d[1]]
    assert ordered.load("math").run_rounded(*map(pointer, arrays), 40) == 0
    out, numbers = (out_f, f) if dtype is np.float32 else (out_d, d)
    for i in range(40):
        x, y = (Fraction(float(v)) for v in numbers[:, i])
        exact = [x + y, x - y, x * y, x / y, x * y + x, 1 / x]
        exact.append(root_up_to(abs(x), 200))
        for m, mode in enumerate(MODES):
            want = [rounded(value, dtype, mode) for value in exact]
            np.testing.assert_array_equal(out[i, m], want, f"{mode} {x} {y}")


def test_conversions_saturate(simt):
    x = [0.5, -0.5, 1.5, 2.5, -2.25, 3e9, -3e9, 5e9, 1e19, -1e19, 2e19, 1e-30]
    x = np.array([*x, 16777217.0, np.nan, np.inf, -np.inf])
    n = [0, 1, -1, 1 << 24 | 1, -(1 << 24) - 1, (1 << 62) + 1, -(1 << 62) - 1]
    n = np.array([*n, 123456789, -123456789, *range(7)], np.int64)
    out, back = poison((16, 12), np.int64), poison((16, 8), np.float32)
    arrays = map(pointer, (out, back, x, n))
    assert simt.load("math").run_conversions(*arrays, 16) == 0
    f = x.astype(np.float32)
    hows = {"n": np.rint, "z": np.trunc, "u": np.ceil, "d": np.floor}
    # By column: conversion from a float or a double, its rounding, bits, and sign.
    columns = ["fn32s", "fz32s", "fu32s", "fd32s", "dn32s", "dz32u", "fn32u"]
    columns += ["dd64s", "du64u", "fn64s"]
    for column, name in enumerate(columns):
        bits, signed = int(name[2:4]), name[4] == "s"
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, 0)
        high = high or (1 << bits) - 1
        for i, value in enumerate((f if name[0] == "f" else x).astype(float)):
            if math.isnan(value):
                top = low or 1 << bits - 1
                want = top if bits == 64 or name[0] == "d" else 0
            elif math.isinf(value):
                want = high if value > 0 else low
            else:
                want = min(max(int(hows[name[1]](value)), low), high)
            assert (int(out[i, column]) - want) % (1 << 64) == 0, (name, value)
    words = x.view(np.int64)
    finite = ~np.isnan(x)
    np.testing.assert_array_equal(out[finite, 10], (words >> 32)[finite])
    low_words = words.astype(np.int32)
    np.testing.assert_array_equal(out[finite, 11], low_words[finite])
    for i, value in enumerate(n.tolist()):
        unsigned, small = value % (1 << 64), (value + (1 << 31)) % (1 << 32)
        cases = [(value, mode) for mode in MODES]
        cases += [(unsigned, "zero"), (unsigned, "up"), (small - (1 << 31), "down")]
        for column, (exact, mode) in enumerate(cases):
            want = rounded(Fraction(exact), np.float32, mode)
            assert back[i, column] == want, (exact, mode)
    for got, value in zip(back[finite, 7], x[finite], strict=True):
        above = np.nextafter(np.float32(value), np.float32(np.inf))
        exact = float(np.float32(value))
        assert got == (exact if exact >= value else above)


def parts(word: int, count: int, signed: bool) -> list[int]:
    width = 32 // count
    out = [word >> width * i & (1 << width) - 1 for i in range(count)]
    return [v - (1 << width) if signed and v >> width - 1 else v for v in out]


def joined(values: list[int]) -> int:
    width = 32 // len(values)
    return sum((v & (1 << width) - 1) << width * i for i, v in enumerate(values))


def of_pairs(x: int, y: int, count: int, signed: bool, function) -> int:
    pairs = zip(parts(x, count, signed), parts(y, count, signed), strict=True)
    return joined([function(a, b) for a, b in pairs])


def bit_functions(x: int, y: int) -> list[int]:
    """Return the results of math.cu's bits(), by the definitions."""
    pair, mask = x << 32 | y, (1 << 64) - 1
    sx, sy = (v - (1 << 32) if v >> 31 else v for v in (x, y))

    def clamp(v: int, bits: int, signed: bool) -> int:
        low = -(1 << bits - 1) if signed else 0
        return min(max(v, low), low + (1 << bits) - 1)

    def perm(selector: int) -> int:
        bytes_ = []
        for i in range(4):
            pick = selector >> 4 * i & 15
            byte = (y << 32 | x) >> 8 * (pick & 7) & 255
            bytes_.append(255 * (byte >> 7) if pick & 8 else byte)
        return joined(bytes_)

    def low24(v: int) -> int:
        v &= 0xFFFFFF
        return v - (1 << 24) if v >> 23 else v

    wide = y << 32 | x
    bits_from_3 = [i for i in range(3, 32) if x >> i & 1]
    ux, uy = parts(x, 4, False), parts(y, 4, False)
    signed = zip(parts(x, 4, True), parts(y, 4, True), strict=True)
    return [
        x.bit_count(),
        32 - x.bit_length(),
        (x & -x).bit_length(),
        int(f"{x:032b}"[::-1], 2),
        pair.bit_count(),
        64 - x.bit_length(),
        (x & -x).bit_length() + 32 if x else 0,
        int(f"{pair:064b}"[::-1], 2) >> 32,
        perm(0x5270),
        perm(y),
        (wide << 4 & mask) >> 32,
        wide >> 7,
        x,
        wide >> 9,
        sx * sy >> 32,
        x * y >> 32,
        sx * sy,
        low24(x) * low24(y),
        (x & 0xFFFFFF) * (y & 0xFFFFFF),
        abs(sx - sy) + 5,
        abs(x - y) + 5,
        (sx + sy) >> 1,
        (x + y + 1) >> 1,
        3 + sum(a * b for a, b in zip(ux, uy, strict=True)),
        3 + sum(a * b for a, b in signed),
        of_pairs(x, y, 4, False, lambda a, b: a + b),
        of_pairs(x, y, 2, True, lambda a, b: clamp(a - b, 16, True)),
        of_pairs(x, y, 4, True, max),
        of_pairs(x, y, 4, False, lambda a, b: (a + b + 1) >> 1),
        of_pairs(x, y, 4, False, lambda a, b: -(a > b)),
        of_pairs(x, y, 2, True, lambda a, b: int(a <= b)),
        sum(abs(a - b) for a, b in zip(ux, uy, strict=True)),
        of_pairs(x, y, 2, True, lambda a, b: abs(a - b)),
        of_pairs(x, 0, 4, True, lambda a, b: clamp(-a, 8, True)),
        of_pairs(x, y, 2, False, lambda a, b: clamp(a + b, 16, False)),
        bits_from_3[1] if len(bits_from_3) > 1 else -1,
    ]


def test_bits_and_words_of_several_numbers(ordered):
    rng = np.random.default_rng(11)
    special = [0, 1, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 0x80808080, 0x00FF8001]
    a = np.concatenate([special, rng.integers(0, 1 << 32, 60)]).astype(np.uint32)
    b = np.concatenate([special[::-1], rng.integers(0, 1 << 32, 60)])
    b = b.astype(np.uint32)
    out = poison((len(a), 36), np.uint32)
    arrays = map(pointer, (out, a, b))
    assert ordered.load("math").run_bits(*arrays, len(a)) == 0
    for row, x, y in zip(out, a.tolist(), b.tolist(), strict=True):
        want = [v % (1 << 32) for v in bit_functions(x, y)]
        assert row.tolist() == want, (hex(x), hex(y))
