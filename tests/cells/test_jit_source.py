"""The sources that a cell accepts: the C++ of nvcc, and files instead of text."""

from pathlib import Path

import numpy as np
import pytest
from tiers import only

from weft.cells import CompileError, headers, load_cuda
from weft.cells.arguments import ArgumentError
from weft.cells.gpu import nvrtc

KERNEL = "__global__ void k(float *y) {{ int i = threadIdx.x; {} }}"

# Bodies of k(), and the number that each adds to y[i] = i; None: y[i] becomes 0.
BODIES = {
    "trailing": ("auto f = [](float x) -> float { return x + 1; }; y[i] = f(y[i]);", 1),
    "device": ("auto f = [=] __device__ (float x) { return x + i; }; y[i] = f(1);", 1),
    "mutable": ("auto f = [i]() mutable { i += 1; return i; }; y[i] = f();", 1),
    "noexcept": (
        "auto f = [](int i) noexcept -> int { return i + 1; }; y[i] = f(i);",
        1,
    ),
    "capture": ("auto f = [&] { return i + 1; }; y[i] = f();", 1),
    "functor": (
        "struct Add { float a; __device__ float operator()(float x) const { "
        "return a + x; } }; y[i] = Add{1}(y[i]);",
        1,
    ),
    "limits": ("y[i] = std::max(y[i], std::numeric_limits<float>::lowest());", 0),
    "move": ("float x = i; y[i] = std::move(x);", 0),
    "traits": ("static_assert(std::is_same_v<decltype(i), int>); y[i] = i;", 0),
    "conditional": (
        "std::conditional_t<true, float, char> x = 300; y[i] = x - 300;",
        None,
    ),
    "array": ("std::array<int, 2> a{1, 2}; y[i] = a[1] - 2;", None),
    "math": ("y[i] = std::sqrt(std::fabs(y[i] * y[i]));", 0),
}
INCLUDES = "".join(
    f"#include <{name}>\n" for name in ("type_traits", "limits", "utility", "array")
)


def expected(addend: int | None) -> list[int]:
    return [0] * 4 if addend is None else [i + addend for i in range(4)]


@pytest.mark.parametrize("case", BODIES)
@pytest.mark.parametrize("head", ["", INCLUDES], ids=["bare", "includes"])
def test_a_cell_accepts_the_c_plus_plus_of_nvcc(case, head):
    if head and "std::" not in BODIES[case][0]:
        pytest.skip("needs no header")
    body, addend = BODIES[case]
    y = np.arange(4, dtype=np.float32)
    load_cuda(head + KERNEL.format(body)).k[1, 4](y)
    assert y.tolist() == expected(addend)


@pytest.mark.skipif(bool(nvrtc.explain_missing()), reason="needs NVRTC")
@pytest.mark.parametrize("case", only(["array"], BODIES))
def test_nvrtc_accepts_the_same_source(case):
    assert nvrtc.compile(KERNEL.format(BODIES[case][0]), expressions=["k"]).cubin


def test_cuda_std_is_std_on_the_cpu():
    names = ["limits", "type_traits", "utility", "array", "tuple", "cstdint"]
    names += ["cassert", "cmath", "cstring"]
    head = "".join(f"#include <cuda/std/{name}>\n" for name in names)
    body = """
        cuda::std::array<cuda::std::uint8_t, 2> a{1, 2};
        auto most = cuda::std::numeric_limits<int>::max();
        auto [x, z] = cuda::std::make_tuple(a[0], most);
        static_assert(cuda::std::is_integral_v<decltype(x)>);
        assert(a[1] == 2);
        cuda::std::memset(&y[i], 0, 4);
        y[i] += x + cuda::std::fabs(-1.0f) * (z == 2147483647);"""
    y = np.zeros(4, np.float32)
    load_cuda(head + KERNEL.format(body)).k[1, 4](y)
    assert y.tolist() == [2] * 4


@pytest.mark.parametrize(
    ("body", "name"),
    [("std::vector<int> v;", "vector"), ('std::cout << "x";', "cout")],
)
def test_host_only_names_are_refused(body, name):
    with pytest.raises(CompileError, match=f"std::{name} runs on the host only"):
        load_cuda(KERNEL.format(body))


@pytest.mark.parametrize(
    "body",
    [
        "auto f = [](int x) -> int { return x; }; return f(i);",
        "struct S { int f() { return 1; } }; return 1;",
        "int a[2] = {1, 2}; if (a[0]) { return a[1]; }",
    ],
)
def test_a_kernel_that_returns_a_value_is_refused_beside_lambdas_and_classes(body):
    with pytest.raises(CompileError, match="a kernel returns nothing"):
        load_cuda(KERNEL.format(body))


# ---- templates whose arguments have defaults ------------------------------------

DEFAULTS = "template <int T = 16> __global__ void k(float *y) { y[threadIdx.x] = T; }"


def test_a_template_with_defaults_is_launched_without_arguments():
    k = load_cuda(DEFAULTS).k
    y = np.zeros(4, np.float32)
    for launch, value in ((k[1, 4], 16), (k[()][1, 4], 16), (k[7][1, 4], 7)):
        launch(y)
        assert y.tolist() == [value] * 4


def test_a_default_type_decides_how_arguments_are_passed():
    source = "template <class T = float> __global__ void k(T *y, T x) { y[0] = x; }"
    y = np.zeros(1, np.float32)
    load_cuda(source).k[1, 1](y, 2.5)
    assert y.tolist() == [2.5]


def test_a_template_without_a_default_requires_arguments():
    source = "template <class T, int N = 4> __global__ void k(T *y) { y[0] = N; }"
    with pytest.raises(ArgumentError, match="T is a type, but 1 is not"):
        load_cuda(source).k[1, 4]


# ---- files ----------------------------------------------------------------------

TWICE = "#pragma once\n__device__ float scaled(float x) {{ return {} * x; }}\n"


def write(folder: Path, factor: int) -> Path:
    (folder / "parts").mkdir(exist_ok=True)
    (folder / "parts" / "scale.cuh").write_text(TWICE.format(factor))
    body = KERNEL.format("y[i] = scaled(threadIdx.x);")
    (folder / "scale.cu").write_text(f'#include "parts/scale.cuh"\n{body}\n')
    return folder / "scale.cu"


@pytest.mark.parametrize("kind", [str, Path])
def test_a_file_is_loaded_with_headers_in_its_folder(tmp_path, kind):
    y = np.zeros(4, np.float32)
    for factor in (2, 3):  # the text of the header decides, not its name
        module = load_cuda(kind(write(tmp_path, factor)))
        module.k[1, 4](y)
        assert y.tolist() == [factor * i for i in range(4)]
    assert "scale.cu" in repr(module)


@pytest.mark.parametrize(
    ("path", "words"),
    [("nowhere.cu", "nowhere.cu: No such file"), (Path("/"), "/: Is a directory")],
)
def test_a_file_that_cannot_be_read_is_named(path, words):
    with pytest.raises(ArgumentError, match=words):
        load_cuda(path)


def test_a_file_that_is_not_text_is_named(tmp_path):
    (tmp_path / "x.cu").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ArgumentError, match=r"x\.cu: it is not UTF-8 text"):
        load_cuda(tmp_path / "x.cu")


@pytest.mark.parametrize("name", ["../mine.cuh", "/etc/mine.cuh"])
def test_only_headers_below_the_files_folder_are_included(tmp_path, name):
    (tmp_path / "mine.cuh").write_text("")
    folder = tmp_path / "below"
    folder.mkdir()
    assert headers.select_used(f'#include "{name}"\n', folder) == {}
