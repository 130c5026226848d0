"""Without a wait, results of copies and products are missing on the CPU target, too."""

import ctypes

import numpy as np
import pytest
import simt_device
from simt_device import pointer

from weft.toolchain import build

simt, ordered = simt_device.simt, simt_device.ordered


@pytest.fixture
def unwaited(ordered) -> ctypes.CDLL:
    sources = [simt_device.FOLDER / "unwaited.cu", build.KERNELS / "common/common.cu"]
    return ctypes.CDLL(str(build.library_of("test_unwaited", sources, ordered.flavour)))


def test_a_copy_comes_when_its_group_is_waited_for(unwaited):
    x = np.arange(256, dtype=np.int32)
    arrived = []
    for groups in range(3):
        out = np.full(256, -7, np.int32)
        assert unwaited.run_copied(pointer(out), pointer(x), groups) == 0
        assert np.isin(out, [-1, *x]).all() and ((out == x) | (out == -1)).all()
        arrived.append((out == x).all())
    assert arrived == [True, True, False]


@pytest.mark.parametrize("waits, expected", [((1, 1), "x"), ((0, 1), -1), ((1, 0), -2)])
def test_a_box_goes_both_ways_when_it_is_waited_for(unwaited, waits, expected):
    # Each row starts at a multiple of 16 bytes.
    room = np.zeros((2, 16, 32 + 4), np.float32)
    start = -room.ctypes.data % 16 // 4
    x, out = (row.reshape(-1)[start : start + 512].reshape(16, 32) for row in room)
    x[...] = np.random.default_rng(0).normal(size=x.shape)
    assert unwaited.run_boxed(pointer(out), pointer(x), *waits) == 0
    np.testing.assert_array_equal(
        out, x if expected == "x" else np.full_like(x, expected)
    )


def test_sums_are_there_after_the_wait_and_not_before(unwaited):
    for wait, expected in ((0, 0), (1, 8)):
        out = np.full(128, 77, np.float32)
        assert unwaited.run_product(pointer(out), wait) == 0
        np.testing.assert_array_equal(out, np.full(128, expected))
