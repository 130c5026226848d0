"""cuRAND's host interface on the CPU, compared with cuRAND's own host generators."""

import ctypes
import json

import numpy as np
import pytest
import simt_device
from simt_device import FOLDER, pointer
from vendors import Vendor

simt, ordered = simt_device.simt, simt_device.ordered

XORWOW, PHILOX = 101, 161
NOT_INITIALIZED, TYPE_ERROR, OUT_OF_RANGE, LENGTH_NOT_MULTIPLE = 101, 103, 104, 105
KINDS = {
    "Generate": (np.uint32, ()),
    "GenerateUniform": (np.float32, ()),
    "GenerateUniformDouble": (np.float64, ()),
    "GenerateNormal": (np.float32, (0.5, 2.0)),
    "GenerateNormalDouble": (np.float64, (0.5, 2.0)),
    "GenerateLogNormal": (np.float32, (0.5, 0.25)),
    "GenerateLogNormalDouble": (np.float64, (0.5, 0.25)),
}

# The numbers of cuRAND 10.4.5's host generators: type, seed and offset of a generator,
# then its calls: kind, count, the first and the last three numbers, and the exclusive
# or of all words.
CURAND = json.loads((FOLDER / "curand_host.json").read_text())


@pytest.fixture(scope="module")
def curand():
    return Vendor("curand")


def generator(curand, kind, seed=0, offset=0, where="Host"):
    handle = curand.create(f"curandCreateGenerator{where}", kind)
    curand.ok("curandSetPseudoRandomGeneratorSeed", handle, ctypes.c_uint64(seed))
    curand.ok("curandSetGeneratorOffset", handle, ctypes.c_uint64(offset))
    return handle


def generate(curand, handle, kind, count):
    """Return `count` numbers, and require that no memory after them changed."""
    dtype, values = KINDS[kind]
    scalar = ctypes.c_double if dtype is np.float64 else ctypes.c_float
    out = np.full(8 * (count + 1), 0xA5, np.uint8).view(dtype)
    size = ctypes.c_size_t(count)
    curand.ok(f"curand{kind}", handle, out, size, *map(scalar, values))
    assert (out[count:].view(np.uint8) == 0xA5).all()
    return out[:count]


@pytest.mark.parametrize("where", ["Host", ""])
@pytest.mark.parametrize("row", CURAND, ids=lambda row: f"{row[0]}-{row[2]}")
def test_numbers_are_those_of_curand(curand, row, where):
    kind, seed, offset, calls = row
    handle = generator(curand, kind, seed, offset, where)
    for name, count, first, last, parity in calls:
        out = generate(curand, handle, name, count)
        for part, expected in ((out[:3], first), (out[-3:], last)):
            # sin() and log() of the C library may differ by a few units
            loose = np.finfo(out.dtype).eps * 16 if "Normal" in name else 0
            np.testing.assert_allclose(part, expected, rtol=loose, atol=loose)
        if "Normal" not in name:
            assert np.bitwise_xor.reduce(out.view(np.uint32)) == parity
    curand.ok("curandDestroyGenerator", handle)
    assert curand.status("curandDestroyGenerator", handle) == NOT_INITIALIZED


@pytest.mark.parametrize("kind", [XORWOW, PHILOX])
def test_each_subsequence_is_a_device_generator_of_a_kernel(curand, simt, kind):
    philox, sequences = kind == PHILOX, 65536 if kind == PHILOX else 4096
    each = 4 if philox else 1
    handle = generator(curand, kind, seed=42)
    all_numbers = generate(curand, handle, "Generate", 6 * each * sequences)
    turns = all_numbers.reshape(6, sequences, each)
    chosen = np.array([0, 1, 77, sequences - 1])
    starts = np.zeros((len(chosen), 3), np.uint64)
    starts[:, 0], starts[:, 1] = 42, chosen
    out = np.zeros((len(chosen), 18))
    run = simt.load("curand").run_numbers
    assert run(pointer(out), pointer(starts), len(chosen), int(philox)) == 0
    expected = turns[:, chosen].transpose(1, 0, 2).reshape(len(chosen), -1)
    np.testing.assert_array_equal(out[:, :6], expected[:, :6])


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("kind", [XORWOW, PHILOX])
def test_some_calls_give_the_numbers_of_one_call(curand, kind, name):
    counts = [2, 6, 4088, 10, 262144]
    parts = generator(curand, kind, 3, 4096)
    got = [generate(curand, parts, name, count) for count in counts]
    one = generate(curand, generator(curand, kind, 3, 4096), name, sum(counts))
    np.testing.assert_array_equal(np.concatenate(got), one)


@pytest.mark.parametrize("mean", [0.5, 20.0, 64.0, 3000.0])
@pytest.mark.parametrize("kind", [XORWOW, PHILOX])
def test_poisson_numbers_have_their_mean_and_variance(curand, kind, mean):
    count = 40001
    out = np.full(count, 0xFFFFFFFF, np.uint32)
    handle = generator(curand, kind, 5)
    for part in (out[:13], out[13:]):
        size = ctypes.c_size_t(len(part))
        curand.ok("curandGeneratePoisson", handle, part, size, mean)
    # Four standard deviations: of the mean, and of the variance (kurtosis 3 + 1 / mean)
    assert abs(out.mean() - mean) <= 4 * (mean / count) ** 0.5
    assert abs(out.var() - mean) <= 4 * mean * ((2 + 1 / mean) / count) ** 0.5


def test_invalid_calls_return_curands_statuses(curand, capfd):
    handle = generator(curand, XORWOW)
    nobody, out, size = ctypes.c_void_p(), np.zeros(8), ctypes.c_size_t
    odd = (handle, out, size(3), ctypes.c_float(0), ctypes.c_float(1))
    assert curand.status("curandGenerateNormal", *odd) == LENGTH_NOT_MULTIPLE
    assert curand.status("curandGenerate", nobody, out, size(4)) == NOT_INITIALIZED
    assert curand.status("curandGenerate", handle, None, size(0)) == 0
    for order, status in ((100, 0), (101, 0), (103, 0), (102, 104), (201, 104)):
        assert curand.status("curandSetGeneratorOrdering", handle, order) == status
    for where, status in (("Host", OUT_OF_RANGE), ("", 0)):
        other = generator(curand, XORWOW, where=where)
        assert curand.status("curandSetGeneratorOrdering", other, 104) == status
    poisson = (handle, out, size(4), 0.0)
    assert curand.status("curandGeneratePoisson", *poisson) == OUT_OF_RANGE
    create = "curandCreateGenerator"
    assert curand.status(create, ctypes.byref(nobody), 99) == TYPE_ERROR
    assert capfd.readouterr().err == ""  # cuRAND has no such generator either
    assert curand.status(create, ctypes.byref(nobody), 121) == TYPE_ERROR
    assert "generator type 121 is not simulated on the CPU" in capfd.readouterr().err
