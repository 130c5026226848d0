"""cuda_c(kernel)[grid, block](*args) translates, compiles and launches kernels."""

import importlib
import sys
from collections import defaultdict

import numpy as np
import pytest
import torch
from numpy import float32

from weft import (
    ArgumentError,
    CompileError,
    KernelFault,
    TranslationError,
    cuda,
    cuda_c,
    load_cuda,
    numba_jit,
    to_cuda,
)
from weft.ops.cases import sum_bound

SCALE = 2


def scaled(y, x, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = x[i] * SCALE


def product(c, a, b):
    m, n = c.shape
    k = a.shape[1]
    k = b.shape[0]
    col, row = cuda.grid(2)
    if row < m and col < n:
        acc = float32(0)
        for i in range(k):
            acc += a[row, i] * b[i, col]
        c[row, col] = acc


def reversed_(x):
    s = cuda.shared.array(0, float32)
    i = cuda.threadIdx.x
    s[i] = x[i]
    cuda.syncthreads()
    x[i] = s[cuda.blockDim.x - 1 - i]


def unguarded(out, x):
    i = cuda.grid(1)
    out[i] = x[i]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8])
def test_every_type_of_argument_has_its_own_translation(dtype):
    run = cuda_c(scaled)
    y, x = np.zeros(40, dtype), np.arange(40, dtype=dtype)
    run[2, 32](y, x, 40)
    np.testing.assert_array_equal(y, x * 2)
    assert len(run._made) == 1
    run[2, 32](y, x, -1)  # -1 is not a size, so // and % would differ
    run[2, 32](y, x, 39)
    assert len(run._made) == 2


def test_tensors_are_worked_on_in_place():
    y, x = torch.zeros(40), torch.arange(40.0)
    cuda_c(scaled)[2, 32](y, x, 40)
    assert torch.equal(y, x * 2)


def test_sides_of_arrays_are_passed_and_must_agree():
    rng = np.random.default_rng(1)
    a = rng.standard_normal((5, 3)).astype("f4")
    b = rng.standard_normal((3, 7)).astype("f4")
    c = np.zeros((5, 7), "f4")
    run = cuda_c(product)
    run[(1, 1), (8, 8)](c, a, b)
    bound = sum_bound(3, abs(a.astype(float)) @ abs(b))
    assert (abs(c - a.astype(float) @ b) <= bound).all()
    with pytest.raises(
        ArgumentError, match=r"k is a.shape\[1\] = 3 and b.shape\[0\] = 4"
    ):
        run[(1, 1), (8, 8)](c, a, np.zeros((4, 7), "f4"))


def test_dynamic_shared_memory_is_the_fourth_as_with_numba():
    x = np.arange(64, dtype="f4")
    cuda_c(reversed_)[1, 64, 0, 256](x)
    assert x.tolist() == list(range(63, -1, -1))


def test_a_changed_global_is_seen(monkeypatch):
    run = cuda_c(scaled)
    y, x = np.zeros(4, "f4"), np.ones(4, "f4")
    run[1, 4](y, x, 4)
    monkeypatch.setitem(globals(), "SCALE", 5)
    run[1, 4](y, x, 4)
    assert y.tolist() == [5] * 4 and "SCALE = 5" in run.source(y, x, 4)


def test_the_source_of_a_launch_is_shown():
    run = cuda_c(scaled)
    assert repr(run) == "<scaled as CUDA C, translated at its first launch>"
    with pytest.raises(ArgumentError, match=r"source\(y, x, n\)"):
        run.source()
    y = np.zeros(4, "f4")
    run[1, 4](y, y.copy(), 4)
    assert run.source() == repr(run) == run.source(y, y, 4)
    assert run.source().splitlines()[2].startswith("__global__ void scaled(")
    html = run._repr_html_()
    assert ">float</span>" in html and "&lt; n" in html


def test_a_fault_names_pythons_array():
    out, x = np.zeros(30, "f4"), np.zeros(32, "f4")
    with pytest.raises(
        KernelFault, match=r"unguarded: .*out\[30\], just past"
    ) as error:
        cuda_c(unguarded)[1, 32](out, x)
    assert error.value.thread == (30, 0, 0) and error.value.kernel == "unguarded"


def test_what_the_compiler_says_is_told_at_pythons_line():
    run = cuda_c(scaled, flags="-Werror=sign-conversion")
    line = scaled.__code__.co_firstlineno + 1
    with pytest.raises(CompileError, match=rf"scaled, line {line}: error") as error:
        run[1, 1](np.zeros(1, "f4"), np.zeros(1, "f4"), 1)
    assert "    i = cuda.grid(1)" in str(error.value)
    # The message contains the C code.
    assert "__global__ void scaled" in str(error.value)


def test_what_is_said_of_a_later_compilation_is_told_at_pythons_line(monkeypatch):
    """With a GPU, only a launch of host arrays compiles the CPU target."""

    class Late:
        def __init__(self, text, **options):
            def launch(*args):
                load_cuda(text, target="cpu", **options)

            # This returns the same launch for any grid and block.
            self.scaled = defaultdict(lambda: launch)

    monkeypatch.setattr(sys.modules["weft.pykernel.to_cuda.cuda_c"], "load_cuda", Late)
    run = cuda_c(scaled, flags="-Werror=sign-conversion")
    line = scaled.__code__.co_firstlineno + 1
    with pytest.raises(CompileError, match=rf"scaled, line {line}: error"):
        run[1, 1](np.zeros(1, "f4"), np.zeros(1, "f4"), 1)


def test_a_stream_of_0_is_torchs_current_one(monkeypatch):
    """In Numba's brackets, a stream must precede the bytes of shared memory."""
    keys = []

    class Seen:
        def __init__(self, text, **options):
            self.scaled = self

        def __getitem__(self, key):
            keys.append(key)
            return lambda *args: None

    monkeypatch.setattr(sys.modules["weft.pykernel.to_cuda.cuda_c"], "load_cuda", Seen)
    run, x = cuda_c(scaled), np.zeros(1, "f4")
    for key in (1, 32), (1, 32, 0), (1, 32, 0, 64), (1, 32, 7, 64):
        run[key](x, x, 1)
    assert [(key[2], key[3]) for key in keys] == [(0, None), (0, None), (64, None),
                                                  (64, 7)]  # fmt: skip


@pytest.mark.parametrize(
    ("key", "args", "words"),
    [
        ((1, 2000), None, r"block \(2000, 1, 1\) is too large: x is at most 1024"),
        ((0, 32), None, r"grid \(0, 1, 1\) is empty"),
        ((1, 32), (1, 2), "scaled takes 3 arguments"),
        ((1, 32), ([1.0], [2.0], 1), "pass np.array"),
        ((1, 32), (np.zeros(2, "U1"), np.zeros(2, "f4"), 1), "contains <U1, which"),
        (
            (1, 32),
            (np.zeros((4, 4), "f4").T[0], np.zeros(4, "f4"), 1),
            "not contiguous",
        ),
    ],
)
def test_bad_launches_are_one_line(key, args, words):
    good = (np.zeros(2, "f4"), np.zeros(2, "f4"), 2)
    with pytest.raises(ArgumentError, match=words):
        cuda_c(scaled)[key](*(args or good))


def test_numbas_kernels_are_taken():
    assert cuda_c(numba_jit(scaled).kernel).kernel.name == "scaled"


@pytest.mark.parametrize(
    "name",
    [
        "half",
        "float4",
        "fminf",
        "power",
        "floor_div",
        "uint32_t",
        "make_float2",
        "cudaMalloc",
        "fma",
        "std",
    ],
)
def test_a_helper_may_be_called_as_something_of_cuda(name, tmp_path, monkeypatch):
    source = f"""\
from weft import cuda

def {name}(a, b):
    return a + 2 * b

def kernel(x):
    i = cuda.threadIdx.x
    x[i] = {name}(x[i], x[0]) ** 3 // x[1] if i > 1 else x[i]
"""
    module = f"helper_named_{name}"
    (tmp_path / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    x = np.array([1, 2, 3, 4], np.float32)
    cuda_c(importlib.import_module(module).kernel)[1, 4](x)
    assert x.tolist() == [1, 2, 62, 108]


def has_sides(x, n):
    x[0] = n.shape[0]


def has_size(x, n):
    x[0] = n.size


def has_length(x, n):
    x[0] = len(n)


@pytest.mark.parametrize("kernel", [has_sides, has_size, has_length])
def test_a_number_where_an_array_was_due_is_told_as_such(kernel):
    with pytest.raises(TranslationError, match="n is a number, not an array: it has"):
        to_cuda(kernel, ("float32[:]", "int"))
