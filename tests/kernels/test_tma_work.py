"""The division of c among blocks in rung tma: every step of every tile once."""

import ctypes

import numpy as np
import pytest
import simt_device
from simt_device import pointer

from weft import ops
from weft.toolchain import build

simt = simt_device.simt


@pytest.fixture(scope="module")
def run(simt):
    sources = [simt_device.FOLDER / "tma_work.cu", build.KERNELS / "common/common.cu"]
    path = build.library_of("test_tma_work", sources, simt.flavour)
    return ctypes.CDLL(str(path)).run_pieces


def divided(run, tiles, steps, blocks, worth=1):
    counts, block = (
        np.zeros((tiles, steps), np.int32),
        np.zeros((tiles, steps), np.int32),
    )
    expected, uncut = np.ones(tiles, np.int32), ctypes.c_int()
    arrays = [pointer(x) for x in (counts, block, expected)]
    sizes = (tiles, steps, blocks, ctypes.c_double(worth))
    assert run(*arrays, ctypes.byref(uncut), *sizes) == 0
    return counts, block, expected, uncut.value


@pytest.mark.parametrize("steps", [1, 4, 7, 64, 128])
@pytest.mark.parametrize("tiles, blocks", [(1, 8), (8, 132), (131, 132), (512, 132)])
def test_every_step_is_made_once_and_every_piece_is_waited_for(
    run, tiles, blocks, steps
):
    counts, block, expected, _ = divided(run, tiles, steps, blocks)
    assert (counts == 1).all()
    pieces = [len(np.unique(of_tile)) for of_tile in block]
    # Otherwise, the last piece never arrives.
    np.testing.assert_array_equal(expected, pieces)
    assert max(pieces) <= 5


def test_a_last_round_that_is_not_full_is_shared_evenly(run):
    _, block, _, uncut = divided(run, 512, 128, 132)
    assert uncut == 396
    work = np.bincount(block.ravel(), minlength=132)
    assert work.max() - work.min() <= 1


def test_tiles_stay_whole_where_cutting_them_saves_too_little(run):
    assert divided(run, 131, 64, 132, worth=3)[3] == 131
    assert divided(run, 264, 64, 132)[3] == 264


def test_the_pieces_of_a_tile_add_up():
    a, b = (np.random.default_rng(i).normal(size=(300, 230)) for i in (0, 1))
    a, b = a[:256].astype(np.float32), np.ascontiguousarray(b.T, np.float32)
    got = ops.matmul(a, b, rung="tma")
    np.testing.assert_allclose(got, a.astype(float) @ b, rtol=0, atol=1e-3)
