"""copy: bits, alignments and sizes that the checks common to all ops do not cover."""

import numpy as np
import pytest
import torch
from conftest import want_memory

import weft
from weft.base.errors import ArgumentError
from weft.toolchain import native

RUNGS = [rung.name for rung in native.rungs("copy")]
CACHED = 1 << 22  # with this many floats or more, plain C bypasses the caches


def bits_of(x: torch.Tensor) -> torch.Tensor:
    return x.view(torch.int32)


def copy_into(rung: str, y: torch.Tensor, x: torch.Tensor) -> None:
    """Copy x to y by the launcher itself, so that y can have any address."""
    lib = native.library("copy", "cpu")
    pointers = [native.pointer(array, "float *") for array in (y, x)]
    lib.call("weft_copy", lib.rung(rung).index, *pointers, len(x), native.NULL)


@pytest.mark.parametrize("rung", RUNGS)
def test_the_bits_of_every_nan_and_zero_stay(rung):
    x = torch.tensor([0x7FC00001, 0x7F800001, -0x80000000, 1, 0xFF], dtype=torch.int64)
    x = x.to(torch.int32).view(torch.float32).repeat(9)
    assert torch.equal(bits_of(weft.copy(x, rung=rung)), bits_of(x))


@pytest.mark.parametrize("shift", range(4))
@pytest.mark.parametrize("rung", RUNGS)
def test_every_pair_of_alignments(rung, shift):
    room = torch.randn(4200, generator=torch.Generator().manual_seed(0))
    for from_ in range(4):
        for count in (1, 5, 4111):
            y = torch.full((4200,), torch.nan)
            copy_into(rung, y[shift : shift + count], room[from_ : from_ + count])
            assert torch.equal(y[shift : shift + count], room[from_ : from_ + count])
            assert y[:shift].isnan().all() and y[shift + count :].isnan().all()


@pytest.mark.parametrize("shift", [0, 3])
@pytest.mark.parametrize("threads", [1, 3])
def test_plain_c_streams_large_arrays_of_any_alignment(threads, shift):
    count = CACHED + 4097
    x = torch.arange(count, dtype=torch.float32)
    y = torch.full((count + shift + 1,), torch.nan)
    library = native.library("copy", "cpu")
    library.call("weft_set_threads", threads)
    try:
        copy_into("reference", y[shift : shift + count], x)
    finally:
        library.call("weft_set_threads", 0)
    assert torch.equal(y[shift : shift + count], x)
    assert y[:shift].isnan().all() and y[-1].isnan()


@pytest.mark.parametrize("rung", RUNGS)
def test_an_array_keeps_its_shape_and_an_empty_one_is_no_launch(rung):
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    y = weft.copy(x, rung=rung)
    assert y.shape == x.shape and np.array_equal(x, y) and not np.shares_memory(x, y)
    assert weft.copy(torch.empty(0, 3), rung=rung).shape == (0, 3)


@pytest.mark.parametrize("rung", RUNGS)
def test_the_gradient_is_a_copy(rung):
    x = torch.randn(6, 7, requires_grad=True)
    (3 * weft.copy(x, rung=rung)).sum().backward()
    assert torch.equal(x.grad, torch.full((6, 7), 3.0))


def test_too_many_bytes_for_a_grid_are_refused_with_their_number():
    lib = native.library("copy", "cpu")
    pointer = native.pointer(torch.zeros(1), "float *")

    def launch(rung, count):
        index = lib.rung(rung).index
        lib.call("weft_copy", index, pointer, pointer, count, native.NULL)

    with pytest.raises(ArgumentError, match="549755813632 bytes, not 549755813888"):
        launch("byte", 2**37)
    with pytest.raises(ArgumentError, match="x would have 549755813633 elements"):
        launch("word", 2**39 - 255)


@pytest.mark.slow
def test_more_than_2_to_the_31_numbers():
    want_memory(10)
    x = torch.empty(2**31 + 17)  # untouched pages take no memory
    x[-1], x[2**31] = 5.0, 7.0
    y = weft.copy(x)
    assert y[-1] == 5 and y[2**31] == 7
