"""A cell's variables in device memory: Python sets and reads them, kernels use them."""

import numpy as np
import pytest
import torch

from weft import inspect, load_cuda
from weft.base.errors import ArgumentError
from weft.cells import variables

SOURCE = """
#define K 3
__constant__ float filt[K * K];
__device__ int sum, many[4];
namespace m { __constant__ float inner[2][3] = {{1, 2, 3}, {4, 5, 6}}; }
__device__ unsigned long long big{3};
__device__ float4 quads[2];
struct Line { float slope; int at; };
__constant__ Line line;
__constant__ const float fixed[2] = {1, 2};
__device__ float table[] = {1, 2, 3};
__device__ float *where;
__global__ void k(float *x) {
    x[threadIdx.x] = filt[threadIdx.x] + line.slope;
    atomicAdd(&sum, 1);
}
template <class T> __global__ void t(T *x) {
    x[threadIdx.x] = filt[threadIdx.x] + fixed[0] + m::inner[1][2];
}
"""
TARGETS = ["cpu", *["cuda"] * torch.cuda.is_available()]


@pytest.fixture(params=TARGETS)
def device(request):
    return request.param


@pytest.fixture
def cell(device):
    return load_cuda(SOURCE, target=device)


def launch(kernel, device) -> list[float]:
    x = torch.full((9,), float("nan"), device=device)
    kernel[1, 9](x)
    return x.tolist()


@pytest.mark.parametrize("array", [np.arange(9, dtype=np.float32), torch.arange(9.0)])
def test_a_kernel_reads_values_that_python_has_set(cell, device, array):
    cell.filt = array
    assert launch(cell.k, device) == list(range(9))
    assert cell.filt.tolist() == list(range(9))
    assert cell.filt.dtype == np.float32


def test_values_that_a_kernel_writes_are_read_back(cell, device):
    assert cell.sum == 0
    launch(cell.k, device)
    assert cell.sum == 9
    cell.sum = -5
    launch(cell.k, device)
    assert cell.sum == 4


def test_every_build_of_the_source_gets_the_value(cell, device):
    before = launch(cell.t["float"], device)
    cell.filt = np.full(9, 2, np.float32)
    assert launch(cell.t["float"], device) == [9.0] * 9 != before
    assert launch(cell.t["float"], device) == [9.0] * 9
    x = np.zeros(9, np.float32)
    assert inspect(cell.k)[1, 9](x).ok
    assert x.tolist() == [2.0] * 9


def test_a_watched_cell_and_its_trial_have_the_value():
    cell = load_cuda(SOURCE, target="cpu", watched=True, check=True)
    cell.filt = np.full(9, 3, np.float32)
    assert launch(cell.k, "cpu") == [3.0] * 9
    assert cell.sum == 9


def test_values_stay_when_the_source_is_compiled_again():
    from weft.cells import headers

    headers.add("offset.h", "#define OFFSET 1\n")
    cell = load_cuda(
        '#include "offset.h"\n__constant__ float by;\n'
        "__global__ void k(float *x) { x[threadIdx.x] = by + OFFSET; }",
        target="cpu",
    )
    cell.by = 2
    assert launch(cell.k, "cpu") == [3.0] * 9
    headers.add("offset.h", "#define OFFSET 10\n")
    assert launch(cell.k, "cpu") == [12.0] * 9
    assert cell.by == 2


def test_numbers_vectors_structs_and_open_lengths(cell):
    assert cell.inner.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert cell.table.tolist() == [1, 2, 3]
    assert cell.big == 3
    cell.big, cell.many = 2**40, [1, 2, 3, 4]
    assert (cell.big, cell.many.tolist()) == (2**40, [1, 2, 3, 4])
    cell.quads = np.arange(8, dtype=np.float32).reshape(2, 4)
    assert cell.quads.shape == (2, 4) and cell.quads[1, 3] == 7


def test_a_struct_is_set_as_a_tuple_and_read_by_its_members(cell, device):
    cell.line = (1.5, 2)
    assert launch(cell.k, device) == [1.5] * 9
    assert (cell.line["slope"], cell.line["at"]) == (1.5, 2)
    cell.line = np.array((2.5, 3), [("slope", "f4"), ("at", "i4")])
    assert launch(cell.k, device) == [2.5] * 9


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("filt", np.zeros(8, np.float32), r"expects shape \(9,\), but got \(8,\)"),
        (
            "filt",
            np.zeros((3, 3), np.float32),
            r"expects shape \(9,\), but got \(3, 3\)",
        ),
        ("filt", np.zeros(9), "expects float32, but got float64"),
        ("filt", 3, r"expects an array of shape \(9,\).*got 3"),
        ("filt", [[1], [1, 2]], r"expects an array of shape \(9,\)"),
        ("filt", "nine", r"expects an array of shape \(9,\).*got 'nine'"),
        ("filt", None, r"expects an array of shape \(9,\).*got None"),
        ("sum", 2**40, "int ranges from -2147483648 to 2147483647, but got 1099511"),
        ("sum", 1.5, "takes a whole number"),
        ("sum", np.zeros(3, np.int32), r"expects shape \(\), but got \(3,\)"),
        ("fixed", [1, 2], "it is const, so only the source sets its value"),
        ("line", 3, r"pass Line as a tuple \(float slope, int at\)"),
        ("line", b"1234", "has 8 bytes, but 4 are given"),
        ("where", 1, "contains an address"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_in_one_sentence(
    cell, name, value, message
):
    before = cell.filt.tolist(), cell.sum, cell.line.tolist()
    with pytest.raises(ArgumentError, match=message):
        setattr(cell, name, value)
    assert (cell.filt.tolist(), cell.sum, cell.line.tolist()) == before


def test_an_unknown_name_is_an_attribute_error_with_the_known_names(cell):
    with pytest.raises(AttributeError, match=r"'flit' \(did you mean filt\?\); it has"):
        cell.flit = 1
    with pytest.raises(AttributeError, match="no kernel 'flit'"):
        _ = cell.flit
    with pytest.raises(AttributeError, match="k is a kernel"):
        cell.k = 1
    bare_cell = load_cuda("__global__ void k(int *x) { x[0] = 1; }", target="cpu")
    with pytest.raises(AttributeError, match="it has none"):
        bare_cell.x = 1
    assert {"filt", "sum", "k", "t"} <= set(dir(cell))


def test_a_build_finds_values_that_another_has_written(cell, device):
    launch(cell.k, device)
    assert inspect(cell.k)[1, 9](np.zeros(9, np.float32)).ok
    assert cell.sum == 18
    launch(cell.t["float"], device)
    assert cell.sum == 18


def test_an_isolated_cell_has_the_values_too():
    cell = load_cuda(SOURCE, target="cpu", isolated=True)
    cell.filt = np.full(9, 4, np.float32)
    assert launch(cell.k, "cpu") == [4.0] * 9
    assert cell.sum == 9


def test_a_kernel_gives_the_variables_of_its_cell(cell, device):
    kernel = cell.k
    kernel.filt = np.full(9, 5, np.float32)
    assert launch(kernel, device) == [5.0] * 9
    assert kernel.sum == 9


def test_a_variable_that_an_if_leaves_out_does_not_hinder_the_cell(device):
    source = """
    #ifdef NEVER
    __device__ int maybe;
    #endif
    __device__ int here;
    __global__ void k(float *x) { x[threadIdx.x] = 1; }
    """
    cell = load_cuda(source, target=device)
    assert launch(cell.k, device) == [1.0] * 9
    with pytest.raises(ArgumentError, match="maybe"):
        cell.maybe = 1


def test_only_global_variables_are_parsed():
    source = """
    __device__ float twice(float x) { __shared__ int s; return 2 * x; }
    #if 0
    __device__ int off;
    #endif
    extern __device__ int elsewhere;
    template <class T> __device__ T any;
    struct Q { static __device__ int inside; };
    __global__ void k(float *x) { x[0] = twice(x[0]); } // __device__ int comment;
    __device__ int here;
    """
    assert list(variables.parse([source])) == ["here"]
