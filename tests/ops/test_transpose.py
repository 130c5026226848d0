"""transpose: alignments, tall and wide matrices, large ones in plain C, gradients."""

import numpy as np
import pytest
import torch
from conftest import want_memory
from tiers import only

import weft
from weft.base.errors import ArgumentError
from weft.toolchain import native

RUNGS = [rung.name for rung in native.rungs("transpose")]
KERNELS = [name for name in RUNGS if name != "reference"]
MOST = 65535  # maximum number of blocks of a grid in y


def count_up(rows: int, cols: int) -> torch.Tensor:
    return torch.arange(rows * cols, dtype=torch.float32).view(rows, cols)


@pytest.mark.parametrize("rung", RUNGS)
def test_numbers_next_to_powers_of_two(rung):
    for rows in (15, 16, 17, 63, 64, 65):
        for cols in (31, 32, 33, 128):
            x = count_up(rows, cols)
            y = weft.transpose(x, rung=rung)
            assert torch.equal(y, x.T) and y.is_contiguous(), (rows, cols)


@pytest.mark.parametrize("shift", [1, 2, 3])
@pytest.mark.parametrize("rung", RUNGS)
def test_a_matrix_that_begins_at_an_odd_address(rung, shift):
    x = count_up(1, 68 * 36 + 4)[0, shift : shift + 68 * 36].view(68, 36)
    assert torch.equal(weft.transpose(x, rung=rung), x.T)


@pytest.mark.parametrize("extra", only([1], [0, 1, 40]))
@pytest.mark.slow
def test_a_matrix_higher_than_a_grid_is_cut_into_slabs(extra):
    x = count_up(MOST * 32 + extra, 1)
    assert torch.equal(weft.transpose(x, rung="strips"), x.T)


@pytest.mark.slow
@pytest.mark.parametrize("rung", KERNELS)
def test_every_kernel_accepts_matrices_of_several_slabs(rung):
    for rows in (2 * MOST * 64 + 4, MOST * 32 + 7):
        x = count_up(rows, 4)
        assert torch.equal(weft.transpose(x, rung=rung), x.T)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("rows, cols", [(1024, 4104), (1031, 4099), (4112, 1021)])
def test_plain_c_transposes_large_matrices(rows, cols, threads):
    x = count_up(rows, cols)
    library = native.library("transpose", "cpu")
    library.call("weft_set_threads", threads)
    try:
        assert torch.equal(weft.transpose(x), x.T)
    finally:
        library.call("weft_set_threads", 0)


@pytest.mark.parametrize("rung", RUNGS)
def test_the_gradient_is_transposed_back(rung):
    x, dy = torch.randn(33, 20, requires_grad=True), torch.randn(20, 33)
    weft.transpose(x, rung=rung).backward(dy)
    assert torch.equal(x.grad, dy.T)


def test_an_empty_matrix_and_a_numpy_one():
    assert weft.transpose(torch.empty(0, 3)).shape == (3, 0)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(weft.transpose(x), x.T)


def test_what_is_no_matrix_or_too_large_is_refused_with_the_numbers():
    with pytest.raises(ArgumentError, match=r"x is \(2, 3, 4\)"):
        weft.transpose(torch.zeros(2, 3, 4))
    lib = native.library("transpose", "cpu")
    pointer = native.pointer(torch.zeros(1), "float *")
    sizes = 2**31 - 1, 257
    with pytest.raises(ArgumentError, match="x would have 551903297279 elements"):
        lib.call("weft_transpose", 1, pointer, pointer, *sizes, native.NULL)


@pytest.mark.slow
def test_more_than_2_to_the_31_numbers():
    want_memory(10)
    x = torch.empty(2**16 + 1, 2**15 + 1)  # untouched pages take no memory
    x[-1, -1], x[-1, 0], x[0, -1] = 5.0, 7.0, 9.0
    y = weft.transpose(x)
    assert y[-1, -1] == 5 and y[0, -1] == 7 and y[-1, 0] == 9
