"""Random numbers on the device, compared with cuRAND's and known answers."""

import ctypes
import json
import math

import numpy as np
import pytest
import simt_device
from simt_device import FOLDER, pointer, poison

simt, ordered = simt_device.simt, simt_device.ordered


# The numbers of cuRAND 10.4: generator, seed, sequence, offset, then the numbers.
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
    for column in (*range(9), 17):  # bits, and numbers computed from the bits exactly
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
    """Compare with kat_vectors of Random123: a counter and a key of zeros."""
    out, start = np.zeros((1, 16)), np.zeros((1, 3), np.uint64)
    assert simt.load("curand").run_fours(pointer(out), pointer(start), 1) == 0
    expected = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert out[0, :4].tolist() == expected


def xorwow(seed: int, count: int) -> list[int]:
    """Run Marsaglia's generator step by step, from cuRAND's initial state."""
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
