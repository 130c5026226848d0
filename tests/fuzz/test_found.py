"""The fuzzers' findings: the smallest input of each causes one of the lab's own
errors."""

import gzip
import hashlib
import types

import numpy as np
import pytest
import torch
from fuzz.launch_arguments import Speechless, Unwilling

from weft import cuda, cuda_c, load_cuda, numba_jit, sim, to_cuda
from weft.base.errors import ArgumentError, BuildError, KernelError
from weft.csource.rewrite import rewrite
from weft.csource.signature import parse
from weft.mnist import data

FLOATS = np.zeros(4, np.float32)
PAIRS = np.zeros(4, [("a", np.float32), ("b", np.int32)])


def huge_local(x):
    own = cuda.local.array(1 << 30, np.int32)
    own[0] = x[0]


def mask_of_an_array(x):
    cuda.syncwarp(x)


def asks_an_array(x):
    x[0] = cuda.shfl_sync(0xFFFFFFFF, x[0], x)


def counts_an_array(x):
    x[0] = cuda.syncthreads_count(x)


def calls_a_number(x):
    x[0] = cuda.laneid(1)


def stores_text(x):
    x[0] = "ab"


def third_side(x):
    x[0] = x.shape[2]


def adds_records(x):
    x[0] = x[0] + x[1]


def shifts_backwards(x):
    k = 0
    k <<= -1
    x[k] = 1


def compares_a_tuple(x):
    if cuda.threadIdx.x < x.shape:
        x[0] = 1


KERNELS = {
    huge_local: (FLOATS, r"4294967296 bytes: a thread has at most 524288 \(512 KB\)"),
    mask_of_an_array: (
        FLOATS,
        r"cuda.syncwarp with an unusable argument.*\(line \d+\)",
    ),
    asks_an_array: (FLOATS, r"cuda.shfl_sync with an unusable argument.*\(line \d+\)"),
    counts_an_array: (FLOATS, r"cuda.syncthreads_count with an unusable.*\(line \d+\)"),
    calls_a_number: (FLOATS, "cuda.laneid is not a function .leave out its parenth"),
    stores_text: (FLOATS, r"could not convert string to float: 'ab' \(line \d+\)"),
    third_side: (FLOATS, r"reads x.shape\[2\] at line \d+: tuple index out of"),
    shifts_backwards: (FLOATS, r"negative shift count \(line \d+\)"),
    compares_a_tuple: (FLOATS, r"ends with TypeError: '<' not .* \(line \d+\)"),
    adds_records: (PAIRS, r"ends with \w+TypeError: .* \(line \d+\)"),
}


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_sim_names_the_line_of_what_it_cannot_do(kernel):
    array, words = KERNELS[kernel]
    with pytest.raises(KernelError, match=words):
        sim(kernel, quiet=True)[1, 4](array.copy())


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_to_cuda_refuses_at_the_line_or_translates(kernel):
    array, _ = KERNELS[kernel]
    try:
        assert f"void {kernel.__name__}" in to_cuda(kernel, [array])
    except BuildError as error:
        assert "test_found.py, line" in str(error)
    except ArgumentError as error:
        assert str(error).startswith("x: ")


def divides(n):
    cuda.syncwarp()
    n = n // (n - n)


def test_an_error_after_a_meeting_of_a_kernel_without_arrays_is_told():
    with pytest.raises(ZeroDivisionError) as info:
        sim(divides, quiet=True)[1, 4](5)
    assert info.value.report.block == (4, 1, 1)


def speaks(**interface):
    defaults = {
        "shape": (4,),
        "typestr": "<f4",
        "data": (4096, False),
        "version": 3,
    }
    return types.SimpleNamespace(__cuda_array_interface__={**defaults, **interface})


ARGUMENTS = {
    "typestr": ("y", speaks(typestr="?!"), "has an invalid __cuda_array_interface__"),
    "shape": ("y", speaks(shape=None), "has an invalid __cuda_array_interface__"),
    "address": ("y", speaks(data=None), "has an invalid __cuda_array_interface__"),
    "bytes": ("a", np.array(b"abcd"), "float takes a number"),
    "a digit": ("a", np.array(b"1"), "float takes a number"),
    "a masked number": ("a", np.ma.masked, "float takes a number"),
    "a mask": ("y", np.ma.masked_less(FLOATS, 9), r"masked array: .* \.filled"),
    "no float": ("a", Unwilling(), "float takes a number"),
    "no index": ("n", Unwilling(), "int takes a whole number"),
    "no parts": ("p", Unwilling(), "float2 takes 2 numbers"),
    "no repr": ("n", Speechless(), r"Speechless obj\.\.\. "),
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_an_odd_argument_is_refused_with_its_parameter(case):
    source = "__global__ void k(float *y, float a, int n, float2 p) {}"
    args = {"y": FLOATS, "a": 1.0, "n": 4, "p": (1, 2)}
    name, value, words = ARGUMENTS[case]
    with pytest.raises(ArgumentError, match=rf"k: .*\b{name}: .*{words}"):
        load_cuda(source, target="cpu").k[1, 1](*{**args, name: value}.values())


def one(x):
    x[0] = 1


@pytest.mark.parametrize("runner", [sim, numba_jit])
def test_an_interface_that_is_none_is_refused_with_its_parameter(runner):
    for value in (speaks(typestr="?!"), types.SimpleNamespace(__array_interface__={})):
        with pytest.raises(ArgumentError, match=r"^one: x\b") as info:
            runner(one)[1, 4](value)
        assert str(info.value).count("one: x") == 1


@pytest.mark.parametrize("value", [Unwilling(), Speechless()], ids=["hash", "repr"])
def test_odd_brackets_are_refused(value):
    cell = load_cuda("__global__ void one(float *x) {}", target="cpu").one
    for kernel in (cell, sim(one), cuda_c(one), numba_jit(one)):
        with pytest.raises(ArgumentError, match="block takes whole numbers"):
            kernel[1, value]


@pytest.mark.parametrize("value", [np.zeros(3), torch.zeros(3), Speechless()], ids=type)
def test_an_odd_template_argument_is_refused(value):
    template = parse("template <int N> __global__ void k(int *y) {}")[0]
    with pytest.raises(ArgumentError, match=r"k: "):
        template.instantiate([value])


def test_a_kernel_without_brackets_is_left_to_the_compiler():
    assert "void k {" in rewrite("__global__ void k { return; }", "k.cu")


def test_a_file_that_ends_in_its_header_is_refused(tmp_path):
    sums = ""
    for name in ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"):
        content = b"\0\0\x08\x03\0\0"
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content))
        sums += f"{hashlib.sha256(content).hexdigest()}  {name}\n"
    (tmp_path / "SHA256SUMS.raw").write_text(sums)
    with pytest.raises(data.DataError, match="ends in its header, after 6 bytes"):
        data.load("test", tmp_path)
