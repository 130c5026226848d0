"""What CUDA C may say on the device, on the CPU: groups, small floats, random
numbers and mathematics, in three orders of the threads' turns."""

import ctypes
import json
import math
import os
import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

from weft import build

FOLDER = Path(__file__).parent / "simt"
ORDERS = {"forward": 0, "reverse": 1, "shuffled": 7}


class Simt:
    """The kernels of tests/simt/ and the runtime."""

    def __init__(self, fibers: str) -> None:
        self.flavour = build.Flavour("cpu", fibers=fibers)
        self.runtime = ctypes.CDLL(str(build.simt_runtime(self.flavour)))
        self.libraries: dict[str, ctypes.CDLL] = {}

    def load(self, name: str) -> ctypes.CDLL:
        if name not in self.libraries:
            source = FOLDER / f"{name}.cu"
            path = build.library_of(f"test_simt_{name}", [source], self.flavour)
            self.libraries[name] = ctypes.CDLL(str(path))
        return self.libraries[name]


@pytest.fixture(scope="module")
def simt():
    simt = Simt("asm" if os.uname().machine == "x86_64" else "ucontext")
    yield simt
    simt.runtime.simt_set_order(0)


@pytest.fixture(params=ORDERS)
def ordered(simt, request):
    """`simt` with the turns in each order."""
    simt.runtime.simt_set_order(ORDERS[request.param])
    yield simt
    simt.runtime.simt_set_order(0)


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def poison(shape, dtype=np.int32) -> np.ndarray:
    """An array that no kernel is expected to write like this."""
    return np.full(shape, -777 if np.dtype(dtype).kind in "if" else 777, dtype)


def ints(seed: int, size: int, low: int = -1000, high: int = 1000) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, size).astype(np.int32)


# ---- cooperative groups ------------------------------------------------------


def test_who_a_thread_is_in_its_groups(ordered):
    out = poison((3, 6, 20, 12))
    assert ordered.load("cooperative").run_ranks(pointer(out), 3, 20, 6) == 0
    block, y, x = np.indices((3, 6, 20))
    rank = x + 20 * y
    want = [rank, 120, block, y, rank % 8, 8, rank // 8, 15]
    want += [rank % 4, rank % 8 // 4, 2, 360]
    for column, values in enumerate(want):
        np.testing.assert_array_equal(
            out[..., column], np.broadcast_to(values, y.shape)
        )


def test_one_function_for_blocks_and_tiles(ordered):
    x, out = ints(0, 256), poison(65)
    assert ordered.load("cooperative").run_group_sums(pointer(out), pointer(x)) == 0
    assert out[0] == x.sum()
    np.testing.assert_array_equal(out[1:], x.reshape(64, 4).sum(1))


@pytest.mark.parametrize("size", [4, 16, 32])
def test_tiles_on_two_sides_of_a_branch(ordered, size):
    out, wide = poison((128, 10)), np.zeros((128, 3))
    lib = ordered.load("cooperative")
    assert lib.run_tiles(pointer(out), pointer(wide), size, 128) == 0
    t = np.arange(128).reshape(-1, size)
    rank, first = t % size, t[:, :1]
    turned = np.where((t // size) % 2, first + (rank + 5) % size, t.sum(1)[:, None])
    votes = 2 * (first == 0) + 0 * t + (first == size)
    columns = [
        turned,
        np.where(rank, t - 1, t),
        np.where(rank < size - 1, t + 1, t),
        t ^ (size // 2),
        0 * t + (0xAAAAAAAA & (2**size - 1)),
        votes,
        3 << (rank // 2 * 2),
        0 * t + 3,
        np.cumsum(t, 1),
        np.cumsum(t, 1) - t,
    ]
    for column, values in enumerate(columns):
        got = out[:, column].astype(np.uint32)
        np.testing.assert_array_equal(
            got, values.astype(np.uint32).ravel(), str(column)
        )
    last = np.repeat(t[:, -1], size)
    want = np.stack([1.5 * last, 0.25 - last, 1e300 * last], 1)
    np.testing.assert_array_equal(wide, want)


def test_reductions_of_a_warp(ordered):
    x = ints(1, 96)
    x[64:] = 300 - 3 * np.arange(32)
    out, f = poison((96, 12), np.int32), poison(96, np.float32)
    lib = ordered.load("cooperative")
    assert lib.run_reductions(pointer(out), pointer(f), pointer(x), 96) == 0
    for warp in range(3):
        mine = x[32 * warp :][:32]
        rest = np.fmod(mine, 3)
        match = [sum(1 << i for i in range(32) if rest[i] == r) for r in rest]
        row = [mine.min(), mine.max(), np.bitwise_and.reduce(mine)]
        row += [np.bitwise_or.reduce(mine), np.bitwise_xor.reduce(mine), mine.sum()]
        row += [mine.min(), mine.astype(np.uint32).max(), np.bitwise_xor.reduce(mine)]
        same = len(set(rest)) == 1
        for lane in range(32):
            want = [*row, match[lane], 0xFFFFFFFF if same else 0, same]
            want = np.array(want, np.int64).astype(np.int32)
            np.testing.assert_array_equal(out[32 * warp + lane], want)
        assert (f[32 * warp :][:32] == f[32 * warp]).all()
        np.testing.assert_allclose(f[32 * warp], 0.1 * mine.sum(), atol=1e-3)
    assert out[64, 11] == 1 and out[0, 11] == 0


@pytest.mark.parametrize("limit", [-2000, 0, 990])
def test_coalesced_threads_share_an_atomic(ordered, limit):
    x, out, count = ints(2, 96 * 20), poison(96 * 20), np.zeros(1, np.int32)
    lib = ordered.load("cooperative")
    status = lib.run_keep(pointer(out), pointer(count), pointer(x), limit, 20)
    kept = np.sort(x[x > limit])
    assert (status, count[0]) == (0, len(kept))
    np.testing.assert_array_equal(np.sort(out[: len(kept)]), kept)
    assert (out[len(kept) :] == -777).all()


def test_parts_of_a_coalesced_group(ordered):
    out = poison((32, 12))
    assert ordered.load("cooperative").run_coalesced(pointer(out)) == 0
    members = list(range(0, 32, 3))
    labels = sorted({t % 4: t for t in reversed(members)}.values())
    for rank, t in enumerate(members):
        odd = [m for m in members if m % 2 == t % 2]
        label = [m for m in members if m % 4 == t % 4]
        want = [
            11,
            rank,
            members[min(rank + 1, 10)],
            sum(1 << r for r, m in enumerate(members) if m % 2),
            sum(members),
            sum(members[:rank]),
            len(odd) + 100 * (t % 2),
            max(odd),
            label.index(t) + 100 * labels.index(label[0]) + 10000 * 4,
            members[rank // 2 * 2],
            rank // 2,
            0,
        ]
        np.testing.assert_array_equal(out[t], want, str(t))
    assert (np.delete(out, members, 0) == -777).all()


@pytest.mark.parametrize("n", [1, 63, 1000])
def test_a_group_copies_together(ordered, n):
    x, out = ints(3, 5 * n), poison(5 * n)
    lib = ordered.load("cooperative")
    assert lib.run_reversed(pointer(out), pointer(x), n, 5) == 0
    np.testing.assert_array_equal(out.reshape(5, n), x.reshape(5, n)[:, ::-1])


# ---- half and bfloat16 -------------------------------------------------------

BITS = np.arange(1 << 16).astype(np.uint16)
FORMATS = {"half": (11, -24, 65504.0), "bfloat16": (8, -133, 3.3895313892515355e38)}


def widened(bits: np.ndarray, name: str) -> np.ndarray:
    """The floats with these bits, as NumPy or PyTorch sees them."""
    if name == "half":
        return bits.view(np.float16).astype(np.float32)
    return torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16).float().numpy()


def nearest(x: np.ndarray, name: str) -> np.ndarray:
    """The bits of the floats x, rounded; every NaN is 0x7fff."""
    if name == "half":
        with np.errstate(over="ignore"):
            bits = x.astype(np.float16).view(np.uint16)
    else:
        bits = torch.from_numpy(x).bfloat16().view(torch.int16).numpy().view(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FFF), bits)


def exactly(value: Fraction, name: str, direction: str = "nearest") -> float:
    """A finite number rounded to the format, by the definition."""
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
    """The same numbers with the same signs; a NaN is as good as another."""
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
    # Bits, not values: 0 and -0 are different.
    np.testing.assert_array_equal(
        out.view(np.uint32)[number], want.view(np.uint32)[number]
    )


@pytest.mark.parametrize("name", FORMATS)
def test_floats_are_rounded_to_16_bits(simt, name):
    """Each number there is, the middles between two, and what is next to these."""
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
    one = nearest(np.ones(1, np.float32), name)[0]
    for i in range(1000):  # near 1, where sums do not vanish in a term
        a[i], b[i], c[i] = one + rng.integers(-40, 40, 3)
        c[i] ^= 0x8000 * (i % 2)
    out = poison((3000, 11), np.uint16)
    run = simt.load("half")[f"run_arithmetic_{name}"]
    assert run(*map(pointer, (out, a, b, c)), 3000) == 0
    with np.errstate(all="ignore"):
        # Times 1: fmax() of C gives NaN for a number and a signalling NaN.
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
    ties = 1 + np.arange(40) / 4096 + np.tile([0, 1e-12], 20)  # not for a float
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


# ---- random numbers ----------------------------------------------------------

# What cuRAND 10.4 gives: generator, seed, sequence, offset, then the numbers.
CURAND = json.loads((FOLDER / "curand.json").read_text())


def starts(rows: list[list]) -> np.ndarray:
    return np.array([row[1:4] for row in rows], np.uint64)


@pytest.mark.parametrize("generator", ["xorwow", "philox"])
def test_random_numbers_are_those_of_curand(ordered, generator):
    rows = [row for row in CURAND if row[0] == generator]
    out, philox = np.zeros((len(rows), 18)), generator == "philox"
    lib = ordered.load("curand")
    status = lib.run_numbers(pointer(out), pointer(starts(rows)), len(rows), philox)
    assert status == 0
    want = np.array([row[4:] for row in rows])
    for column in (*range(9), 17):  # bits, and numbers made of them exactly
        np.testing.assert_allclose(out[:, column], want[:, column], rtol=1e-8)
        if column < 6 or column == 17:
            np.testing.assert_array_equal(out[:, column], want[:, column])
    np.testing.assert_allclose(out[:, 9:17], want[:, 9:17], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(out[:, 14:16], want[:, 14:16], rtol=1e-12, atol=1e-14)


def test_four_random_numbers_at_a_time(ordered):
    rows = [row for row in CURAND if row[0] == "philox4"]
    out = np.zeros((len(rows), 16))
    lib = ordered.load("curand")
    assert lib.run_fours(pointer(out), pointer(starts(rows)), len(rows)) == 0
    want = np.array([row[4:] for row in rows])
    np.testing.assert_array_equal(out[:, :4], want[:, :4])
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-6)


def test_philox_by_its_known_answers(simt):
    """kat_vectors of Random123: a counter and a key of zeros."""
    out, start = np.zeros((1, 16)), np.zeros((1, 3), np.uint64)
    assert simt.load("curand").run_fours(pointer(out), pointer(start), 1) == 0
    known = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert out[0, :4].tolist() == known


def xorwow(seed: int, count: int) -> list[int]:
    """Marsaglia's generator, step by step, started as cuRAND does."""
    mask = 0xFFFFFFFF
    low = ((seed & mask) ^ 0xAAD26B49) * 1099087573 & mask
    high = ((seed >> 32) ^ 0xF7DCEFDD) * 2591861531 & mask
    v = [123456789 + low, 362436069 ^ low, 521288629 + high, 88675123 ^ high]
    v = [x & mask for x in (*v, 5783321 + low)]
    d = (6615241 + high + low) & mask
    out = []
    for _ in range(count):
        t = v[0] ^ v[0] >> 2
        v = [*v[1:], (v[4] ^ v[4] << 4 ^ t ^ t << 1) & mask]
        d = (d + 362437) & mask
        out.append((v[4] + d) & mask)
    return out


@pytest.mark.parametrize("skip", [0, 1, 1000])
def test_states_live_in_global_memory(ordered, skip):
    out = poison((2, 96), np.uint32)
    run = ordered.load("curand").run_states
    u64 = ctypes.c_uint64
    assert run(pointer(out), 3, 32, u64(1 << 33 | 5), u64(skip)) == 0
    steps = xorwow(1 << 33 | 5, skip + 2)
    assert out[:, 0].tolist() == steps[skip : skip + 2]
    assert len(set(out.ravel().tolist())) == 192


@pytest.mark.parametrize("mean", [0.0, 3.5, 60.0, 5000.0])
def test_poisson_numbers_have_their_mean_and_variance(simt, mean):
    out = poison(20 * 128, np.uint32)
    run = simt.load("curand").run_poisson
    assert run(pointer(out), 20, ctypes.c_double(mean)) == 0
    error = math.sqrt(mean / len(out))
    assert abs(out.mean() - mean) <= 4 * error
    assert abs(out.var() - mean) <= 0.15 * mean


# ---- mathematics and intrinsics ----------------------------------------------


def functions(x: np.ndarray) -> np.ndarray:
    """What math.cu's doubles() computes, from NumPy and PyTorch; (n, 20)."""
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
        whole = np.floor(np.log2(np.abs(x)))
        columns.append(
            np.array([math.remainder(t, 1.5) for t in x])
            + np.copysign(3, x)
            + np.maximum(x - 1, 0)
        )
        columns.append(8 * x + 2 * whole + np.rint(x))
    return np.stack([np.asarray(column) for column in columns], 1)


@pytest.mark.parametrize("kind", ["double", "float"])
def test_functions_of_mathematics(ordered, kind):
    rng = np.random.default_rng(9)
    x = np.clip(rng.normal(size=150) * 4, -8, 12)  # erfcx(-10): not for a float
    x = np.concatenate([x, [0.5, -0.25, 1e-4, 20.25, -5.5]])
    dtype = np.float64 if kind == "double" else np.float32
    x = x.astype(dtype)
    out = poison((len(x), 20), dtype)
    run = ordered.load("math")[f"run_{kind}s"]
    assert run(pointer(out), pointer(x), len(x)) == 0
    want = functions(x.astype(np.float64))
    for column in range(20):
        if column == 11:  # PyTorch's j0() has seven digits
            np.testing.assert_allclose(out[:, 11], want[:, 11], atol=1e-6)
            continue
        # sin(pi x) vanishes: absolutely, too.
        np.testing.assert_allclose(
            out[:, column],
            want[:, column],
            rtol=2e-13 if kind == "double" else 2e-6,
            atol=1e-14 if kind == "double" else 5e-6,
            err_msg=str(column),
        )


def test_inverse_functions_at_their_ends(simt):
    """Where p is 0, erfinv and its like are 0 or infinite; near it, exact."""
    x = np.array([1.0, 3 + 2.0**-40, 2 + 2.0**-50, 5 - 2.0**-48])
    out = poison((4, 20), np.float64)
    assert simt.load("math").run_doubles(pointer(out), pointer(x), 4) == 0
    assert out[0, 4] == 0 and out[0, 5] == np.inf and out[0, 8] == -np.inf
    assert out[0, 2] == 0 and out[0, 3] == -1  # sinpi(1), cospi(1): exactly
    p = torch.from_numpy(x - np.floor(x))
    np.testing.assert_allclose(out[1:3, 4], torch.erfinv(p)[1:3], rtol=1e-14)
    np.testing.assert_allclose(out[1:, 8], torch.special.ndtri(p)[1:], rtol=1e-12)


MODES = ["nearest", "zero", "up", "down"]


def rounded(value: Fraction, dtype: type, mode: str) -> float:
    """An exact value as a floating-point number, rounded as `mode` says."""
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
    near = np.float32(float(value))  # at most one step away
    steps = [np.nextafter(near, np.float32(s)) for s in (-np.inf, np.inf)]
    ordered = [near, *steps]
    return min(ordered, key=lambda f: abs(Fraction(float(f)) - value))


def root_up_to(value: Fraction, digits: int) -> Fraction:
    """The square root, cut off far behind the last digit that matters; a tail
    that is not 0 stays one."""
    scale = 1 << digits
    whole = math.isqrt(int(value * scale * scale))
    tail = Fraction(whole, scale)
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
    # By column: of the float or the double, how rounded, bits, signed.
    columns = ["fn32s", "fz32s", "fu32s", "fd32s", "dn32s", "dz32u", "fn32u"]
    columns += ["dd64s", "du64u", "fn64s"]
    for column, what in enumerate(columns):
        bits, signed = int(what[2:4]), what[4] == "s"
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, 0)
        high = high or (1 << bits) - 1
        for i, value in enumerate((f if what[0] == "f" else x).astype(float)):
            if math.isnan(value):
                want = 0 if bits == 32 else 1 << 63
            elif math.isinf(value):
                want = high if value > 0 else low
            else:
                want = min(max(int(hows[what[1]](value)), low), high)
            assert (int(out[i, column]) - want) % (1 << 64) == 0, (what, value)
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


def of_pairs(x: int, y: int, count: int, signed: bool, what) -> int:
    pairs = zip(parts(x, count, signed), parts(y, count, signed), strict=True)
    return joined([what(a, b) for a, b in pairs])


def bit_functions(x: int, y: int) -> list[int]:
    """What math.cu's bits() computes, by the definitions."""
    both, mask = x << 32 | y, (1 << 64) - 1
    sx, sy = (v - (1 << 32) if v >> 31 else v for v in (x, y))

    def clamp(v: int, bits: int, signed: bool) -> int:
        low = -(1 << bits - 1) if signed else 0
        return min(max(v, low), low + (1 << bits) - 1)

    def perm(selector: int) -> int:
        chosen = []
        for i in range(4):
            pick = selector >> 4 * i & 15
            byte = (y << 32 | x) >> 8 * (pick & 7) & 255
            chosen.append(255 * (byte >> 7) if pick & 8 else byte)
        return joined(chosen)

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
        both.bit_count(),
        64 - x.bit_length(),
        (x & -x).bit_length() + 32 if x else 0,
        int(f"{both:064b}"[::-1], 2) >> 32,
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


def test_overloads(simt):
    out = poison(13, np.float64)
    assert simt.load("math").run_overloads(pointer(out)) == 0
    want = [2, 2, -2.5, 9, -3, -1.5, 1.5, 2.5, 3, 4, 1 + 4 + 8]
    assert out.tolist() == [*want, 8 + 2.25 + 2 - 2 + 0.75, 3 + 3 + 5]


def test_what_device_code_does_with_memory(ordered, capfd):
    x, out, flags = ints(12, 64), np.zeros(66, np.int32), np.zeros(2, np.uint16)
    arrays = map(pointer, (out, x, flags))
    assert ordered.load("math").run_memory(*arrays) == 0
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr().out == "thread 5 of 64: 0.25\n"
    np.testing.assert_array_equal(out, [*range(64), 64, 63])
    assert flags.tolist() == [32, 32]


# ---- headers -----------------------------------------------------------------

HEADERS = [
    "cooperative_groups.h",
    "cooperative_groups/memcpy_async.h",
    "cooperative_groups/reduce.h",
    "cooperative_groups/scan.h",
    "cuda_bf16.h",
    "cuda_fp16.h",
    "curand_kernel.h",
    "math_constants.h",
    "nvToolsExt.h",
    "nvtx3/nvToolsExt.h",
]
STANDARD = ["algorithm", "cmath", "complex", "cstdio", "cstdlib", "ctime", "iostream"]
STANDARD += ["numeric", "vector", "math.h", "stdlib.h"]
USES = """
using namespace std;
float use(float x, double d, int i, unsigned u, size_t z) {
    x = min(x, 2.0f) + max(i, 3) + max(u, 2u) + max(z, z) + abs(x) + abs(i);
    d = min(d, 2.0) + pow(x, 2) + pow(d, 2) + pow(x, x) + sqrt(x) + sin(d);
    i = isnan(x) + isinf(d) + isfinite(x) + signbit(d) + (int)floor(x);
    sincos(d, &d, &d);
    return x + d + i + fma(x, x, x) + hypot(d, d) + exp2(x) + fmod(x, 2.0f);
}
"""


def compiled(text: str, more: tuple[str, ...] = ()) -> str:
    """What g++ says about the text."""
    command = [build.gxx(), "-x", "c++", "-std=c++17", "-O1", "-Wall", "-Wextra"]
    command += ["-Werror", f"-I{build.KERNELS / 'simt'}", *more, "-"]
    done = subprocess.run(command, input=text, text=True, capture_output=True)
    return done.stderr


@pytest.mark.parametrize("first", ["simt", "standard"])
def test_headers_go_with_those_of_the_standard_library(first):
    ours = ["cuda_runtime.h", *HEADERS]
    order = [*ours, *STANDARD] if first == "simt" else [*STANDARD, *ours]
    text = "".join(f"#include <{name}>\n" for name in order) + USES
    assert compiled(text, ("-fsyntax-only",)) == ""


NOT_HERE = {
    "#include <mma.h>": "tensor cores are not simulated",
    "#include <cuda/barrier>": "cuda/barrier is not simulated",
    "float f(float x) { return __shfl_down(x, 1); }": "write __shfl_down_sync(mask,",
    "int f(int x) { return __any(x); }": "write __any_sync(mask, predicate)",
    "void __cluster_dims__(2, 1, 1) f() {}": "clusters are not simulated",
    "void f() { cooperative_groups::this_multi_grid(); }": "several devices",
    "void f(cooperative_groups::thread_block b) {"
    " cooperative_groups::tiled_partition<64>(b); }": "more than 32 threads",
}


@pytest.mark.parametrize("line", NOT_HERE)
def test_what_is_not_simulated_says_so(line):
    said = compiled(f"#include <cooperative_groups.h>\n{line}\n", ("-S", "-o-"))
    assert NOT_HERE[line] in said
