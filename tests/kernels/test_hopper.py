"""TMA, mbarriers and related features, by their twins on the CPU target."""

import ctypes

import numpy as np
import pytest
import simt_device
from simt_device import pointer

from weft.toolchain import build

simt, ordered = simt_device.simt, simt_device.ordered

FLOAT, TF32, BF16 = 0, 1, 2
ROWS = 16


@pytest.fixture
def hopper(ordered) -> ctypes.CDLL:
    sources = [simt_device.FOLDER / "hopper.cu", build.KERNELS / "common/common.cu"]
    path = build.library_of("test_hopper", sources, ordered.flavour)
    library = ctypes.CDLL(str(path))
    library.last_error.restype = ctypes.c_char_p
    return library


def aligned(array: np.ndarray) -> np.ndarray:
    """Return a copy that starts at a multiple of 16 bytes."""
    room = np.zeros(array.nbytes + 16, np.uint8)
    start = -room.ctypes.data % 16
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def boxed(library, x, kind, cols, box_cols, swizzle, col, row, z, step):
    """Return the contents of shared memory after one load from x (batch,rows,pitch)."""
    out = np.full((ROWS, box_cols), 77, x.dtype)
    batch, rows, pitch = x.shape
    sizes = (cols, rows, pitch, batch, step, box_cols, swizzle, col, row, z)
    assert library.run_one_box(pointer(out), pointer(x), kind, *sizes) == 0
    return out


def window(x, cols, box_cols, col, row):
    """Return the box of one matrix, with zeros beyond its edges."""
    out = np.zeros((ROWS, box_cols), x.dtype)
    part = x[row : row + ROWS, col : min(col + box_cols, cols)]
    out[: part.shape[0], : part.shape[1]] = part
    return out


def unswizzled(box):
    """Return rows of 128 bytes with their chunks of 16 bytes in the original order."""
    chunks = box.view(np.uint8).reshape(ROWS, 8, 16)
    order = np.arange(8)[None] ^ (np.arange(ROWS) % 8)[:, None]
    back = np.take_along_axis(chunks, order[..., None], axis=1)
    return np.ascontiguousarray(back).view(box.dtype).reshape(box.shape)


@pytest.mark.parametrize("place", [(0, 0, 0), (8, 5, 1), (28, 30, 2), (400, 3, 0)])
def test_a_box_comes_with_zeros_beyond_its_matrix(hopper, place):
    col, row, z = place
    x = aligned(np.random.default_rng(0).normal(size=(3, 37, 52)).astype(np.float32))
    got = boxed(hopper, x, FLOAT, 50, 64, 0, col, row, z, 37 * 52)
    np.testing.assert_array_equal(got, window(x[z], 50, 64, col, row))


@pytest.mark.parametrize("kind, dtype, box", [(FLOAT, "f4", 32), (BF16, "u2", 64)])
def test_swizzled_boxes_have_their_chunks_in_the_hardwares_order(
    hopper, kind, dtype, box
):
    x = aligned(np.arange(40 * 96).reshape(1, 40, 96).astype(dtype))
    got = boxed(hopper, x, kind, 93, box, 1, 64, 30, 0, 0)
    np.testing.assert_array_equal(unswizzled(got), window(x[0], 93, box, 64, 30))


def test_tf32_is_rounded_as_it_is_loaded(hopper):
    x = aligned(np.random.default_rng(1).normal(size=(1, 16, 32)).astype(np.float32))
    got = boxed(hopper, x, TF32, 32, 32, 0, 0, 0, 0, 0)
    assert not (got.view(np.uint32) & 0x1FFF).any()
    np.testing.assert_allclose(got, x[0], rtol=2.0**-11)
    # The numbers are rounded to the nearest, not truncated.
    assert (np.abs(got) > np.abs(x[0])).any()


def test_tf32_takes_the_even_one_of_two_as_near_as_the_hardware_does(hopper):
    x = (np.arange(512, dtype=np.uint32) << 12 | 0x3F800000).view(np.float32)
    x = aligned(x.reshape(1, 16, 32))
    bits = boxed(hopper, x, TF32, 32, 32, 0, 0, 0, 0, 0).view(np.uint32) >> 13
    bits_of_x = x[0].view(np.uint32)
    ties = bits_of_x & 0x1FFF == 0x1000
    assert ties.sum() == 256 and not (bits[ties] & 1).any()
    np.testing.assert_array_equal(bits[~ties], bits_of_x[~ties] >> 13)


@pytest.mark.parametrize("rows, cols", [(16, 32), (16, 320), (9, 204), (16, 4)])
def test_a_ring_hands_boxes_from_one_thread_to_many_and_back(hopper, rows, cols):
    x = aligned(np.random.default_rng(2).normal(size=(rows, cols)).astype(np.float32))
    out = aligned(np.full((rows, cols), np.nan, np.float32))
    assert hopper.run_doubled(pointer(out), pointer(x), rows, cols) == 0
    np.testing.assert_array_equal(out, 2 * x)


@pytest.mark.parametrize("first, count", [(0, 4), (4, 100), (8, 4096)])
def test_a_piece_comes_and_goes_and_nothing_else(hopper, first, count):
    x = aligned(np.arange(4200, dtype=np.float32))
    out = aligned(np.full(4200, np.nan, np.float32))
    args = pointer(out[first:]), pointer(x[first:]), 4 * count
    assert hopper.run_one_piece(*args) == 0
    copied = slice(first, first + count)
    np.testing.assert_array_equal(out[copied], x[copied])
    out[copied] = np.nan
    assert np.isnan(out).all()


def test_what_tma_cannot_do_is_refused_with_the_numbers(hopper):
    x = aligned(np.zeros((1, 16, 34), np.float32))
    sizes = (34, 16, 34, 1, 0, 32, 1, 0, 0, 0)
    assert hopper.run_one_box(pointer(x), pointer(x), FLOAT, *sizes) < 0
    assert b"pitch of 136 bytes" in hopper.last_error()
    sizes = (32, 16, 36, 1, 0, 64, 1, 0, 0, 0)
    assert hopper.run_one_box(pointer(x), pointer(x), FLOAT, *sizes) < 0
    assert b"16 rows of 64 elements of 4 bytes, swizzled" in hopper.last_error()
