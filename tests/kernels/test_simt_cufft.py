"""cuFFT on the CPU, compared with NumPy's transforms in float64."""

import ctypes
import math

import numpy as np
import pytest
from vendors import DOUBLE, SINGLE, Vendor

C2C, R2C, C2R, Z2Z, D2Z, Z2D = 0x29, 0x2A, 0x2C, 0x69, 0x6A, 0x6C
FORWARD, INVERSE = -1, 1
INVALID_PLAN, INVALID_TYPE, INVALID_VALUE, INVALID_SIZE = 1, 3, 4, 8
NAMES = {C2C: "C2C", R2C: "R2C", C2R: "C2R", Z2Z: "Z2Z", D2Z: "D2Z", Z2D: "Z2D"}
SHAPES = [(12,), (7,), (256,), (8, 6), (5, 9), (4, 6, 10), (3, 5, 7)]


@pytest.fixture(scope="module")
def cufft():
    return Vendor("cufft")


def plan(cufft, shape, kind, *many):
    """Plan transforms; many: batch, or layouts and batch of cufftPlanMany()."""
    handle = ctypes.c_int(-1)
    if len(many) > 1:
        arrays = [(ctypes.c_int * len(shape))(*v) for v in (shape, many[0], many[3])]
        inputs, outputs = (arrays[1], *many[1:3]), (arrays[2], *many[4:6])
        words = (len(shape), arrays[0], *inputs, *outputs, kind, many[6])
        cufft.ok("cufftPlanMany", ctypes.byref(handle), *words)
    elif len(shape) == 1:
        cufft.ok("cufftPlan1d", ctypes.byref(handle), *shape, kind, *(many or (1,)))
    else:
        cufft.ok(f"cufftPlan{len(shape)}d", ctypes.byref(handle), *shape, kind)
    return handle.value


def execute(cufft, handle, kind, x, y, *direction):
    cufft.ok(f"cufftExec{NAMES[kind]}", handle, x, y, *direction)
    cufft.ok("cufftDestroy", handle)


def numbers(rng, shape, kind):
    """Return random numbers for the input of a transform of this kind."""
    is_double = kind in (Z2Z, D2Z, Z2D)
    x = rng.standard_normal(shape)
    if kind in (R2C, D2Z):
        return x.astype(np.float64 if is_double else np.float32)
    x = x + 1j * rng.standard_normal(shape)
    return x.astype(np.complex128 if is_double else np.complex64)


def factors(n):
    """List the factors of a length as the passes use them; [] for Bluestein."""
    powers = []
    for r in (4, 2, *range(3, 62, 2)):
        while n % r == 0:
            powers.append(r)
            n //= r
    return powers if n == 1 else []


def bound(shape, dtype):
    """Bound the error relative to the norm of the transform; see cufft_passes.h."""
    unit = SINGLE if np.finfo(dtype).bits == 32 else DOUBLE
    total = 2.0  # rounding the input's copy and the output
    for n in shape:
        passes = factors(n)
        # Bluestein: two transforms in double of the larger length, then a rounding.
        double = 4 * (4 + 4) * 2 * math.log(4 * n, 4) * DOUBLE / unit
        total += sum(2 * (r + 4) * r**0.5 for r in passes) if passes else double + 2
    return total * unit


def check(y, expected, shape):
    error = np.linalg.norm(y - expected) / np.linalg.norm(expected)
    assert error <= bound(shape, y.dtype), (shape, error)


LENGTHS = [*range(1, 34), 61, 64, 67, 121, 134, 1000, 1009, 1024, 3**7, 4099, 2**16]


@pytest.mark.parametrize("kind", [C2C, Z2Z])
@pytest.mark.parametrize("direction", [FORWARD, INVERSE])
def test_every_length_in_both_directions(cufft, kind, direction):
    rng = np.random.default_rng(0)
    for n in LENGTHS:
        x = numbers(rng, (3, n), kind)
        y = np.full_like(x, np.nan)
        execute(cufft, plan(cufft, (n,), kind, 3), kind, x, y, direction)
        wide = x.astype(np.complex128)
        numpy = np.fft.fft(wide) if direction == FORWARD else np.fft.ifft(wide) * n
        check(y, numpy, (n,))
        execute(cufft, plan(cufft, (n,), kind, 3), kind, x, x, direction)
        np.testing.assert_array_equal(x, y)  # in place


@pytest.mark.parametrize("kind", [R2C, D2Z])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_real_transforms_have_half_of_the_last_dimension(cufft, kind, shape):
    x = numbers(np.random.default_rng(1), shape, kind)
    half = (*shape[:-1], shape[-1] // 2 + 1)
    complex_type = np.result_type(x.dtype, np.complex64)
    y = np.full(half, np.nan, complex_type)
    execute(cufft, plan(cufft, shape, kind), kind, x, y)
    check(y, np.fft.rfftn(x.astype(np.float64)), shape)
    # In place, a row of the input has room for its transform.
    padded = np.full(half, np.nan, complex_type)
    padded.view(x.dtype)[..., : shape[-1]] = x
    execute(cufft, plan(cufft, shape, kind), kind, padded, padded)
    np.testing.assert_array_equal(padded, y)
    # The way back does not normalise.
    back, inverse = np.full_like(x, np.nan), {R2C: C2R, D2Z: Z2D}[kind]
    execute(cufft, plan(cufft, shape, inverse), inverse, y, back)
    exact = np.fft.irfftn(y.astype(np.complex128), shape, range(len(shape))) * x.size
    check(back, exact, shape)
    execute(cufft, plan(cufft, shape, inverse), inverse, padded, padded)
    np.testing.assert_array_equal(padded.view(x.dtype)[..., : shape[-1]], back)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_transforms_of_more_dimensions(cufft, shape):
    x = numbers(np.random.default_rng(2), shape, C2C)
    y = np.full_like(x, np.nan)
    execute(cufft, plan(cufft, shape, C2C), C2C, x, y, INVERSE)
    check(y, np.fft.ifftn(x.astype(np.complex128)) * x.size, shape)


@pytest.mark.parametrize("kind", [C2C, R2C])
@pytest.mark.parametrize("shape", [(10,), (4, 6), (2, 3, 8)], ids=str)
def test_layouts_with_gaps(cufft, kind, shape):
    """Read every second number of rows with a margin, and write every third one."""
    rng, batch, steps, last = np.random.default_rng(3), 3, (2, 3), shape[-1]
    embed = [
        (*shape[:-1], n + 2) for n in (last, last // 2 + 1 if kind == R2C else last)
    ]
    distances = [math.prod(e) * s + 5 for e, s in zip(embed, steps)]
    x = numbers(rng, batch * distances[0], kind)
    y = np.full(batch * distances[1], np.nan, np.complex64)
    layouts = [(e, s, d) for e, s, d in zip(embed, steps, distances)]
    handle = plan(cufft, shape, kind, *layouts[0], *layouts[1], batch)
    before = x.copy()
    execute(cufft, handle, kind, x, y, *[FORWARD][: kind == C2C])
    np.testing.assert_array_equal(x, before)

    def view(array, which, width):
        size = math.prod(embed[which])
        rows = array.reshape(batch, distances[which])[:, : size * steps[which]]
        rows = rows.reshape(batch, *embed[which], steps[which])
        return rows[..., :width, 0]

    transform = np.fft.rfftn if kind == R2C else np.fft.fftn
    axes = range(1, 1 + len(shape))
    expected = transform(
        view(x, 0, last).astype(np.complex128 if kind == C2C else float), axes=axes
    )
    result = view(y, 1, expected.shape[-1])
    check(result, expected, shape)
    assert np.isnan(y).sum() == y.size - result.size  # the gaps are unchanged


def test_invalid_calls_return_cuffts_statuses(cufft):
    handle, x = ctypes.c_int(), np.zeros(16, np.complex64)
    out = ctypes.byref(handle)
    assert cufft.status("cufftPlan1d", out, 0, C2C, 1) == INVALID_SIZE
    assert cufft.status("cufftPlan1d", out, 8, C2C, 0) == INVALID_SIZE
    assert cufft.status("cufftPlan2d", out, 8, 8, 0x11) == INVALID_TYPE
    four = (ctypes.c_int * 4)(2, 2, 2, 2)
    many = (None, 1, 0, None, 1, 0, C2C, 1)
    assert cufft.status("cufftPlanMany", out, 4, four, *many) == INVALID_VALUE
    assert cufft.status("cufftExecC2C", 12345, x, x, FORWARD) == INVALID_PLAN
    cufft.ok("cufftCreate", out)
    number = handle.value
    assert cufft.status("cufftExecC2C", number, x, x, FORWARD) == INVALID_PLAN
    size = ctypes.c_size_t(7)
    cufft.ok("cufftMakePlan1d", number, 16, C2C, 1, ctypes.byref(size))
    assert size.value == 0
    assert cufft.status("cufftExecC2C", number, x, x, 0) == INVALID_VALUE
    assert cufft.status("cufftExecC2C", number, None, x, FORWARD) == INVALID_VALUE
    assert cufft.status("cufftExecR2C", number, x, x) == INVALID_TYPE
    cufft.ok("cufftDestroy", number)
    assert cufft.status("cufftDestroy", number) == INVALID_PLAN


def test_a_batch_larger_than_the_buffers(cufft):
    """Transforms beyond CHUNK numbers run in parts, which must not mix."""
    rng, count = np.random.default_rng(4), (1 << 22) // 1024 + 3
    x = numbers(rng, (count, 1024), C2C)
    y = np.full_like(x, np.nan)
    execute(cufft, plan(cufft, (1024,), C2C, count), C2C, x, y, FORWARD)
    for i in (0, 1, count - 4, count - 3, count - 1):
        check(y[i], np.fft.fft(x[i].astype(np.complex128)), (1024,))
    assert not np.isnan(y).any()
