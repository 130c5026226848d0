"""Stores through a pointer whose const was cast away take effect, as on a GPU."""

import numpy as np
import pytest
import torch

from weft import inspect, load_cuda
from weft.base.errors import KernelFault

SOURCE = """
__global__ void twice(const float *x, float *y) {
    ((float *)x)[threadIdx.x] *= 2;
    y[threadIdx.x] = x[threadIdx.x];
}
__global__ void copied(const float *x, float *y) {
    y[threadIdx.x] = x[threadIdx.x];
}
struct Pair { const float *x; int n; };
__global__ void member(Pair p) { const_cast<float *>(p.x)[p.n] = 5; }
"""
WAYS = {"plain": {}, "watched": {"watched": True}, "isolated": {"isolated": True}}


@pytest.fixture(params=WAYS)
def cell(request):
    return load_cuda(SOURCE, target="cpu", **WAYS[request.param])


@pytest.mark.parametrize("make", [np.ones, torch.ones])
def test_the_store_is_in_the_array(cell, make):
    x, y = make(4), make(4)
    x, y = (a.astype("f4") if make is np.ones else a.float() for a in (x, y))
    cell.twice[1, 4](x, y)
    assert x.tolist() == y.tolist() == [2.0] * 4


def test_a_store_into_a_read_only_array_is_refused(cell):
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    x.flags.writeable = False
    with pytest.raises(
        KernelFault, match=r"const float \*x through a cast .*read-only"
    ):
        cell.twice[1, 4](x, y)
    assert x.tolist() == [1.0] * 4 and not y.any()
    cell.copied[1, 4](x, y)
    assert y.tolist() == [1.0] * 4


def test_a_read_only_view_of_an_output_is_no_store_through_a_cast(cell):
    base = np.arange(8, dtype=np.float32)
    x, y = base[:6], base[4:]
    x.flags.writeable = False
    cell.copied[1, 4](x, y)
    assert base.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]


def test_the_store_into_an_array_of_a_struct_takes_effect():
    x = np.zeros(3, np.float32)
    load_cuda(SOURCE, target="cpu").member[1, 1]((x, 1))
    assert x.tolist() == [0, 5, 0]


def test_inspect_shows_it_too():
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    assert inspect(load_cuda(SOURCE, target="cpu").twice)[1, 4](x, y).ok
    assert x.tolist() == [2.0] * 4


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")
@pytest.mark.parametrize("isolated", [False, True])
def test_a_gpu_stores_through_the_cast(isolated):
    x, y = torch.ones(4, device="cuda"), torch.zeros(4, device="cuda")
    load_cuda(SOURCE, target="cuda", isolated=isolated).twice[1, 4](x, y)
    assert x.tolist() == [2.0] * 4
