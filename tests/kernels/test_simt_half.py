"""half and bfloat16 on the CPU, against NumPy, PyTorch and the definitions."""

import math
from fractions import Fraction

import numpy as np
import pytest
import simt_device
import torch
from simt_device import pointer, poison

simt, ordered = simt_device.simt, simt_device.ordered


BITS = np.arange(1 << 16).astype(np.uint16)
FORMATS = {"half": (11, -24, 65504.0), "bfloat16": (8, -133, 3.3895313892515355e38)}


def widened(bits: np.ndarray, name: str) -> np.ndarray:
    """Return the floats with these bits, as NumPy or PyTorch reads them."""
    if name == "half":
        return bits.view(np.float16).astype(np.float32)
    return torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16).float().numpy()


def nearest(x: np.ndarray, name: str) -> np.ndarray:
    """Return the bits of the floats x, rounded; every NaN is 0x7fff."""
    if name == "half":
        with np.errstate(over="ignore"):
            bits = x.astype(np.float16).view(np.uint16)
    else:
        bits = torch.from_numpy(x).bfloat16().view(torch.int16).numpy().view(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FFF), bits)


def exactly(value: Fraction, name: str, direction: str = "nearest") -> float:
    """Return a finite number rounded to the format, by the definition."""
    digits, lowest, most = FORMATS[name]
    if value == 0:
        return 0.0
    exponent = math.floor(math.log2(abs(value))) - digits + 1
    while abs(value) >= Fraction(2) ** (exponent + digits):
        exponent += 1
    while abs(value) < Fraction(2) ** (exponent + digits - 1):
        exponent -= 1
    step = Fraction(2) ** max(exponent, lowest)
    how = {"nearest": round, "zero": int, "up": math.ceil, "down": math.floor}
    rounded = how[direction](value / step) * step
    if abs(rounded) <= Fraction(most):
        return float(rounded)
    inwards = {"nearest": False, "zero": True, "up": value < 0, "down": value > 0}
    return math.copysign(most if inwards[direction] else math.inf, value)


def same_bits(got: np.ndarray, want: np.ndarray, name: str, what: str = "") -> None:
    """Check for the same numbers with the same signs; all NaNs are equal."""
    nan = np.isnan(widened(want, name))
    np.testing.assert_array_equal(np.isnan(widened(got, name)), nan, what)
    np.testing.assert_array_equal(got[~nan], want[~nan], what)


@pytest.mark.parametrize("name", FORMATS)
def test_all_numbers_of_16_bits_become_floats(simt, name):
    out, bits = poison(1 << 16, np.float32), BITS.copy()
    run = simt.load("half")[f"run_widened_{name}"]
    assert run(pointer(out), pointer(bits)) == 0
    want = widened(bits, name)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.isnan(out), ~number)
    # Compare bits, not values: 0 and -0 are different.
    np.testing.assert_array_equal(
        out.view(np.uint32)[number], want.view(np.uint32)[number]
    )


@pytest.mark.parametrize("name", FORMATS)
def test_floats_are_rounded_to_16_bits(simt, name):
    """Test every number, the midpoints between two, and the floats next to these."""
    each = widened(BITS, name)
    with np.errstate(invalid="ignore", over="ignore"):
        middle = (each[:-1].astype(np.float64) + each[1:]).astype(np.float32) / 2
    up, down = np.float32(np.inf), np.float32(-np.inf)
    around = [np.nextafter(middle, up), np.nextafter(middle, down)]
    rng = np.random.default_rng(4)
    any_bits = rng.integers(0, 1 << 32, 1 << 17, dtype=np.uint32).view(np.float32)
    more = np.array([65519.99, 65520, 1e-8], np.float32)
    x = np.concatenate([each, middle, *around, any_bits, more])
    out = poison(len(x), np.uint16)
    run = simt.load("half")[f"run_narrowed_{name}"]
    assert run(pointer(out), pointer(x), len(x)) == 0
    same_bits(out, nearest(x, name), name)


@pytest.mark.parametrize("name", FORMATS)
def test_arithmetic_of_16_bits_rounds_once(simt, name):
    rng = np.random.default_rng(5)
    a, b, c = rng.integers(0, 1 << 16, (3, 3000)).astype(np.uint16)
    bits_of_1 = nearest(np.ones(1, np.float32), name)[0]
    for i in range(1000):  # near 1, so that each term affects a sum
        a[i], b[i], c[i] = bits_of_1 + rng.integers(-40, 40, 3)
        c[i] ^= 0x8000 * (i % 2)
    out = poison((3000, 11), np.uint16)
    run = simt.load("half")[f"run_arithmetic_{name}"]
    assert run(*map(pointer, (out, a, b, c)), 3000) == 0
    with np.errstate(all="ignore"):
        # Multiply by 1: C's fmax() gives NaN for a number and a signalling NaN.
        x, y, z = (widened(v, name) * np.float32(1) for v in (a, b, c))
        total, zero = x + y, np.float32(0)
        columns = {0: total, 1: x - y, 2: x * y, 3: x / y, 5: np.sqrt(abs(x))}
        columns |= {6: np.fmax(x, y), 7: np.fmin(x, y), 10: -x}
        columns[9] = np.where(total > 0, np.fmin(total, 1), zero)
    for column, values in columns.items():
        want = nearest(values.astype(np.float32), name)
        if column == 10:
            want = a ^ 0x8000
        same_bits(out[:, column].copy(), want, name, str(column))
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
    for i in np.flatnonzero(finite)[:1500]:
        exact = Fraction(float(x[i])) * Fraction(float(y[i])) + Fraction(float(z[i]))
        got = widened(out[i : i + 1, 4], name)[0]
        assert got == exactly(exact, name), (hex(a[i]), hex(b[i]), hex(c[i]))
        relu = widened(out[i : i + 1, 8], name)[0]
        assert relu == max(got, 0)


@pytest.mark.parametrize("name", FORMATS)
def test_comparisons_of_16_bits(simt, name):
    special = [0, 0x8000, 0x7FFF, 0xFFFF, 0x3C00, 0x3F80, 0xBC00, 0x7C00, 0x7F80]
    a, b = (v.ravel() for v in np.meshgrid(special, special))
    a, b = a.astype(np.uint16), b.astype(np.uint16)
    out = poison(len(a))
    run = simt.load("half")[f"run_comparisons_{name}"]
    assert run(*map(pointer, (out, a, b)), len(a)) == 0
    x, y = widened(a, name), widened(b, name)
    nan = np.isnan(x) | np.isnan(y)
    tests = [x == y, x != y, x < y, x > y, x <= y, x >= y]
    tests += [(x == y) | nan, (x < y) | nan, (x >= y) | nan, np.isnan(x)]
    want = sum(test.astype(np.int32) << i for i, test in enumerate(tests))
    np.testing.assert_array_equal(out, want)


def test_directed_rounding_to_16_bits(simt):
    rng = np.random.default_rng(6)
    x = rng.normal(size=600) * 10.0 ** rng.integers(-9, 6, 600)
    # A float cannot represent these.
    ties = 1 + np.arange(40) / 4096 + np.tile([0, 1e-12], 20)
    x = np.concatenate([x, ties, -ties, [0, 65504, 65519, 65521, 3.39e38, -1e38]])
    out = poison((len(x), 8), np.uint16)
    assert simt.load("half").run_directed(pointer(out), pointer(x), len(x)) == 0
    for column in range(8):
        name = list(FORMATS)[column // 4]
        direction = ["zero", "up", "down", "nearest"][column % 4]
        source = x if direction == "nearest" else x.astype(np.float32)
        want = [exactly(Fraction(float(v)), name, direction) for v in source]
        np.testing.assert_array_equal(widened(out[:, column].copy(), name), want)


def test_integers_and_16_bits(simt):
    x = np.array([0, 0.5, 1.5, -2.5, 2.75, -2.25, 1e-7, 40000, -40000])
    x = np.concatenate([x, [np.inf, -np.inf, np.nan]]).astype(np.float16)
    n = [0, 1, 2049, 2051, -4097, 65504, 70000, -(1 << 40) - 3, (1 << 62) + 1]
    n += [(1 << 62) + (1 << 54) + 1, (1 << 62) + (1 << 54), 123456789]
    n = np.array(n, np.int64)
    out, bits = poison((12, 8)), poison((12, 4), np.uint16)
    arrays = map(pointer, (out, bits, x, n))
    assert simt.load("half").run_integers(*arrays, 12) == 0
    wide = np.nan_to_num(x.astype(np.float64), nan=0, posinf=1e18, neginf=-1e18)
    for column, how in enumerate([np.rint, np.trunc, np.ceil, np.floor]):
        want = np.clip(how(wide), -(2**31), 2**31 - 1)
        np.testing.assert_array_equal(out[:, column], want)
    np.testing.assert_array_equal(out[:, 4], np.clip(np.rint(wide), -32768, 32767))
    np.testing.assert_array_equal(out[:, 5], np.clip(np.rint(wide), 0, 65535))
    np.testing.assert_array_equal(out[:, 6], out[:, 1])
    np.testing.assert_array_equal(out[:, 7], x != 0)
    for i, value in enumerate(n.tolist()):
        truncated = (value + (1 << 31)) % (1 << 32) - (1 << 31)
        unsigned = value % (1 << 64)
        want = [(value, "half", "nearest"), (truncated, "half", "zero")]
        want += [(v, "bfloat16", "nearest") for v in (value, unsigned)]
        for column, (exact, name, direction) in enumerate(want):
            got = widened(bits[i : i + 1, column], name)[0]
            assert got == exactly(Fraction(exact), name, direction), (value, column)


def test_pairs_of_halves(ordered):
    rng = np.random.default_rng(7)
    a, b = rng.integers(-3, 4, (2, 128)).astype(np.float16)
    total, pair = np.zeros(1, np.float16), np.zeros(2, np.float16)
    out = poison(10, np.float32)
    arrays = map(pointer, (total, pair, out, a, b))
    assert ordered.load("half").run_pairs(*arrays) == 0
    assert total[0] == (a * b).sum() and pair.tolist() == [2, 1]
    e = float(np.float16(np.exp(np.float32(1))))
    h = 3.5
    root = np.float32(np.float16(np.exp(np.float32(h)))) + np.sqrt(np.float32(h))
    want = [e, -1, 5, 1, 0, 3 * 3 - 2 * 2 - 1, 1.5, h * h, root, 101]
    np.testing.assert_array_equal(out, np.array(want, np.float32))
