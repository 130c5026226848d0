"""load_cuda() on the CPU: the arguments of kernels, faults, options and the cache."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from weft.base import store
from weft.base.errors import KernelFault
from weft.cells import CompileError, OrderDependence, headers, load_cuda
from weft.cells.arguments import ArgumentError
from weft.csource import signature
from weft.timing.results import CoreWait

SOURCE = """
#include <math.h>
#include <stdio.h>
struct Body { float x; int n; float3 v; };
using real = float;
namespace outer { __global__ void inside(int *x) { x[0] = 7; } }

__global__ void add(float *out, const float *a, const float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}
__global__ void unguarded(float *out, const float *a, int from) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i + from] = a[i];
}
__global__ void scalars(double *out, char c, unsigned char uc, short s, unsigned u,
                        long long l, size_t z, bool b, float f, double d, float4 v,
                        int2 w) {
    double all[] = {(double)c, (double)uc, (double)s, (double)u, (double)l, (double)z,
                    (double)b, (double)f, d, (double)v.w, (double)w.y};
    for (int i = 0; i < 11; i++) out[i] = all[i];
}
__global__ void bodies(Body *out, Body b, const real *unused) {
    out[threadIdx.x] = b;
    out[threadIdx.x].n += threadIdx.x;
}
__global__ void vectors(float4 *out, const float2 *a) {
    out[threadIdx.x] = make_float4(a->x, a->y, threadIdx.x, 0);
}
__global__ void reversed(float *x, int n) {
    extern __shared__ float copy[];
    copy[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = copy[n - 1 - threadIdx.x];
}
template <class T, int N = 3> __global__ void fill(T *x, T value) {
    x[threadIdx.x] = value + (T)N;
}
__device__ int counter;
__global__ void count(int *out) { atomicAdd(&counter, 1); *out = counter; }
__global__ void where(unsigned *out) {
    out[0] = gridDim.x, out[1] = gridDim.y, out[2] = gridDim.z;
    out[3] = blockDim.x, out[4] = blockDim.y, out[5] = blockDim.z;
}
__global__ void far(float *x, long long i) { x[i] = 1; }
__global__ void divide(int *x, int n) { x[0] = 7 / n; }
__device__ int sink(volatile int *x, int n) {
    volatile int a[64];
    a[n % 64] = n;
    return n ? sink(x, n - 1) + a[n % 64] : a[0];
}
__global__ void deep(int *x, int n) { x[0] = sink(x, n); }
__global__ void large(int *x, int n) {
    volatile char array[1 << 20];
    array[n] = 1;
    x[0] = array[n];
}
__global__ void greedy(int **x, size_t n) { x[0] = new int[n]; x[0][0] = 1; }
__global__ void wants(int *x, int n) { assert(n == 3); }
__global__ void forever(int *x) { while (*(volatile int *)x == 0) {} }
__global__ void races(float *x) { x[0] = threadIdx.x; }
__global__ void sums(float *x) { atomicAdd(x, 0.1f * threadIdx.x); }
__global__ void neighbours(float *x) {
    __shared__ float copy[64];
    copy[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = copy[63 - threadIdx.x];
}
"""


@pytest.fixture(scope="module")
def k():
    return load_cuda(SOURCE, target="cpu")


def floats(n: int) -> torch.Tensor:
    return torch.arange(float(n))


# ---- arguments -----------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 31, 1001, 1024])
def test_numpy_torch_and_dlpack_arrays_are_worked_on_in_place(k, n):
    class Speaker:
        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack__(self, **kwargs):
            return self.tensor.__dlpack__(**kwargs)

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

    out, b = torch.full((n,), torch.nan), np.full(n, 2, np.float32)
    k.add[-(-n // 128), 128](Speaker(out), floats(n), b, n)
    assert torch.equal(out, floats(n) + 2)


def test_every_kind_of_number_arrives_as_its_type(k):
    out = np.zeros(11)
    values = (-3, 255, -300, 2**32 - 1, -(2**40), 2**63, True, 0.1, 0.1)
    k.scalars[1, 1](out, *values, (1, 2, 3, 4.5), np.array([5, 6], np.int32))
    expected = [*values[:7], np.float32(0.1), 0.1, 4.5, 6]
    assert out.tolist() == [float(value) for value in expected]


def test_structs_come_from_structured_arrays(k):
    kind = np.dtype([("x", "f4"), ("n", "i4"), ("v", "3f4")], align=True)
    one, out = np.zeros((), kind), np.zeros(4, kind)
    one["x"], one["n"], one["v"] = 1.5, 10, (1, 2, 3)
    k.bodies[1, 4](out, one, None)
    assert out["n"].tolist() == [10, 11, 12, 13] and out["v"][3].tolist() == [1, 2, 3]
    with pytest.raises(ArgumentError, match=r"Body b has 20 bytes, but 8 are given"):
        k.bodies[1, 1](out, bytes(8), None)


def test_vector_types_take_arrays_of_their_components(k):
    out = torch.zeros(2, 4)
    k.vectors[1, 2](out, torch.tensor([5 + 6j]))
    assert out.tolist() == [[5, 6, 0, 0], [5, 6, 1, 0]]


def test_a_sum_in_volatile_memory_runs_in_lockstep_with_any_spacing():
    """Harris's last warp contains `s[t] +=s[t + 2]`, which once did not compile."""
    halves = "s[t] +=s[t + 16]; s[t]+=s[t+8]; s[t] += s[t + 4]; s[t]+=s[t+2];"
    cell = load_cuda(
        f"__device__ void add(volatile float *s, int t) {{ {halves} s[t]+=s[t+1]; }}"
        """
        __global__ void sum(float *out, const float *x) {
            __shared__ float s[64];
            const int t = threadIdx.x;
            s[t] = x[t], s[t + 32] = 0;
            __syncwarp();
            add(s, t);
            if (t == 0) *out = s[0];
        }"""
    )
    out = np.zeros(1, np.float32)
    cell.sum[1, 32](out, np.arange(32, dtype=np.float32))
    assert out == 496


def test_dynamic_shared_memory_beyond_48_kb(k):
    x = floats(64)
    k.reversed[1, 64, 100_000](x, 64)
    assert torch.equal(x, floats(64).flip(0))


def test_templates_take_types_and_values(k):
    doubles, ints = np.zeros(2), torch.zeros(2, dtype=torch.int32)
    k.fill["double"][1, 2](doubles, 1.5)
    k.fill[torch.int32, 5][1, 2](ints, 2)
    assert doubles.tolist() == [4.5, 4.5] and ints.tolist() == [7, 7]
    with pytest.raises(ArgumentError, match="T is a type, but 1 is not"):
        k.fill[1, 32]


def test_a_grid_is_an_int_a_tuple_or_a_dim3(k):
    class Dim3:
        x, y, z = 2, 3, 4

    out = np.zeros(6, np.uint32)
    k.where[Dim3(), (np.int64(8), 4)](out)
    assert out.tolist() == [2, 3, 4, 8, 4, 1]
    k.where[7, [1, 2, 3]](out)
    assert out.tolist() == [7, 1, 1, 1, 2, 3]


def test_empty_and_zero_dimensional_arrays(k):
    k.add[1, 32](torch.empty(0), np.empty(0, np.float32), torch.empty(0), 0)
    out = torch.zeros((), dtype=torch.int32)
    k.inside[1, 1](out)
    assert out.item() == 7


def test_overlapping_arrays_stay_one_memory(k):
    x = torch.ones(11)
    k.add[1, 1024](x[1:], x[:-1], x[:-1], 10)  # the threads run one after another
    assert x.tolist() == [2.0**i for i in range(11)]


def test_device_variables_begin_afresh_in_every_module(k):
    out = torch.zeros(1, dtype=torch.int32)
    for _ in range(2):
        cell = load_cuda(SOURCE, target="cpu")
        cell.count[1, 1](out)
        cell.count[1, 1](out)
        assert out.item() == 2


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((0, 1), r"add takes 4 arguments, but 2 are given: add\(float \*out, const"),
        ((torch.zeros(2, dtype=torch.float64), 1, 1, 1), r"expects float32, .*float64"),
        ((torch.zeros(4, 4).T, 1, 1, 1), r"not contiguous .*\.contiguous\(\)"),
        ((torch.zeros(2, requires_grad=True), 1, 1, 1), r"\.detach\(\)"),
        ((1.0, 1, 1, 1), r"float \*out: expects an array, but got 1.0 \(float\)"),
        ((floats(2), floats(2), floats(2), 2.5), r"int n: .*whole number.*n // 2"),
        (
            (floats(2), floats(2), floats(2), 2**31),
            r"ranges from -2147483648 to 2147483647",
        ),
        ((floats(2), floats(2), floats(2), None), r"int n: .*but got None"),
    ],
)
def test_arguments_that_do_not_fit_are_named(k, args, words):
    with pytest.raises(ArgumentError, match=words):
        k.add[1, 1](*args)


def test_a_read_only_array_is_for_const_parameters(k):
    a, out = np.ones(3, np.float32), torch.zeros(3)
    a.flags.writeable = False
    k.add[1, 4](out, a, a, 3)
    assert out.tolist() == [2, 2, 2]
    with pytest.raises(ArgumentError, match="read-only"):
        k.add[1, 4](a, out, out, 3)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ((1, 2048), r"x is at most 1024"),
        ((1, (32, 64)), r"2048 threads, but at most 1024"),
        ((0, 1), r"grid \(0, 1, 1\) is empty"),
        ((1, (1, 1, 65)), r"z is at most 64"),
        ((1.5, 1), r"whole numbers, but got 1.5"),
        ((1, 1, 300_000), r"0 to 232448"),
        (((1, 1, 1, 1), 1), r"4 dimensions"),
        (1, r"; got 1"),
    ],
)
def test_a_launch_outside_the_limits_names_the_limit(k, key, words):
    with pytest.raises(ArgumentError, match=words):
        k.where[key]


@pytest.mark.parametrize(
    ("ints", "floats_"),
    [
        ((4, 256), (4.0, 256)),
        ((4, 256), (4, np.float64(256))),
        ((4, 256, 64), (4, 256, 64.0)),
        (((2, 2), 256), ((2, 2.0), 256)),
    ],
)
def test_a_float_is_refused_after_an_equal_int_was_accepted(k, ints, floats_):
    assert k.where[ints] is k.where[ints]
    with pytest.raises(ArgumentError, match=r"whole numbers, but got .*\.0"):
        k.where[floats_]
    assert k.where[ints] is k.where[tuple(ints)]


def test_only_kernels_are_attributes(k):
    assert "sink" not in dir(k)
    with pytest.raises(AttributeError, match=r"no kernel 'sink'; it has .*add"):
        k.sink  # noqa: B018
    with pytest.raises(ArgumentError, match=r"add\[grid, block\]"):
        k.add(1)


def test_a_kernel_may_have_any_name():
    names = ["report", "div", "index", "time", "check", "k", "exit", "kernel"]
    names += ["c", "a", "o", "n", "out", "room", "shared", "only", "sizes", "Any"]
    text = "\n".join(
        f"__global__ void {name}(int *x) {{ x[0] = {i}; }}"
        for i, name in enumerate(names)
    )
    k, x = load_cuda(text, target="cpu"), np.zeros(1, np.int32)
    for i, name in enumerate(names):
        getattr(k, name)[1, 1](x)
        assert x[0] == i


def test_a_cell_may_define_any_macro():
    short = [a + b for a in "abcdknopTPN" for b in ("", "1")]
    defines = "\n".join(f"#define {name} 3" for name in [*short, "size", "kernel"])
    source = f"{defines}\n__global__ void add3(float *v) {{ v[threadIdx.y] += k; }}"
    v = np.zeros(2, np.float32)
    load_cuda(source, target="cpu")[1, (1, 2)](v)
    assert v.tolist() == [3, 3]


@pytest.mark.parametrize(
    "flags",
    ["-DA=2 -DT -D B=", "-O3 -DA=2 -DT", "-O0 -DA=2 -DT", "-std=c++20 -DA=2 -DT=1"],
)
def test_flags_reach_the_cell_and_not_our_headers(flags):
    source = "__global__ void k(float *v) { v[0] = A + T; }"
    v = np.zeros(1, np.float32)
    load_cuda(source, target="cpu", flags=flags)[1, 1](v)
    assert v[0] == 3


# ---- faults ----------------------------------------------------------------------


@pytest.mark.parametrize("n", [256, 250])  # only 256 floats are a multiple of 16 bytes
def test_an_overrun_names_its_element_and_changes_no_array(k, n):
    out = torch.zeros(n)
    with pytest.raises(
        KernelFault,
        match=rf"unguarded: thread \({n - 250},0,0\) of block \(0,0,0\) wrote "
        rf"out\[{n}\], just past the end of its {n}",
    ):
        k.unguarded[1, 512](out, torch.ones(512), 250)
    assert not out.any()


def test_an_underrun_and_a_read_past_the_end(k):
    # Some bytes of slack may precede an array, so this write may cause no page fault.
    with pytest.raises(KernelFault, match=r"wrote out\[-1\], 1 element before"):
        k.unguarded[1, 1](torch.zeros(1000), torch.ones(1), -1)
    with pytest.raises(KernelFault, match=r"read a\[3\], just past the end of its 3"):
        k.unguarded[1, 4](torch.zeros(4), torch.ones(3), 0)


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("far", (floats(4), 1 << 20), r"wrote x\[1048576\], 1048572 elements past"),
        ("far", (floats(4), 1 << 40), r"in none of its arrays"),
        ("far", (None, 0), r"null pointer .*None was passed for float \*x"),
        ("divide", (np.zeros(1, np.int32), 0), r"divided an integer by zero"),
        ("deep", (np.zeros(1, np.int32), 10**6), r"used up its stack"),
        ("large", (np.zeros(1, np.int32), 5), r"used up its stack"),
        ("wants", (np.zeros(1, np.int32), 2), r"`n == 3` failed \(line \d+\)"),
        ("greedy", (np.zeros(1, np.uint64), 1 << 50), r"greedy: .*(null|alloc)"),
    ],
)
def test_a_fault_is_an_exception_and_the_next_launch_works(k, name, args, words):
    with pytest.raises(KernelFault, match=words):
        getattr(k, name)[1, 1](*args)
    out = torch.zeros(3)
    k.add[1, 4](out, floats(3), floats(3), 3)
    assert out.tolist() == [0, 2, 4]


WRITABLE = """
import sys
sys.path[:0] = [sys.argv[1], f"{sys.argv[1]}/.."]
from test_jit import SOURCE, floats, load_cuda, torch
from weft import inspect

checked = load_cuda(SOURCE, target="cpu", watched=True)
inspect(checked.add, quiet=True)[1, 4](torch.zeros(4), floats(4), floats(4), 4)
for line in open("/proc/self/maps"):
    span, access, *rest = line.split()
    low, high = (int(text, 16) for text in span.split("-"))
    if access == "rw-p" and len(rest) < 4:
        print(high - low)
"""


@pytest.mark.slow
def test_wild_stores_fault_beside_the_watch_builds_memory(k):
    """Shadow memory spans terabytes of addresses; no stray write may go unnoticed.

    The test needs a separate process, since memory opened for large arrays stays open.
    """
    program = [sys.executable, "-c", WRITABLE, str(Path(__file__).parent)]
    result = subprocess.run(program, text=True, capture_output=True, check=True)
    writable = [int(size) for size in result.stdout.split()]
    if not torch.cuda.is_available():  # the CUDA driver has such mappings, too
        # Stacks take less than a terabyte, too: 2048 workers have 64 MB each.
        assert sum(size for size in writable if size > 128 << 30) == 0
    with pytest.raises(KernelFault, match=r"in none of its arrays"):
        k.far[1, 1](floats(4), 1 << 40)


def test_in_place_nothing_is_copied():
    k = load_cuda(SOURCE, target="cpu", inplace=True)
    out = torch.zeros(4)
    with pytest.raises(KernelFault, match="worked in place"):
        k.far[1, 1](out, 1 << 45)
    k.add[1, 4](out, floats(4), floats(4), 4)
    assert torch.equal(out, 2 * floats(4))


def test_a_kernel_that_does_not_end_is_stopped():
    k = load_cuda(SOURCE, target="cpu", timeout=0.2)
    with pytest.raises(KernelFault, match=r"longer than 0.2 s .*--timeout"):
        k.forever[1, 1](np.zeros(1, np.int32))


def test_ctrl_c_ends_a_kernel(k):
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        k.forever[1, 1](np.zeros(1, np.int32))
    timer.join()


# ---- --check, --time, --isolated ---------------------------------------------------


@pytest.mark.parametrize("name", ["races", "neighbours"])
def test_check_finds_results_that_depend_on_the_order_of_threads(name):
    k, x = load_cuda(SOURCE, target="cpu", check=True), floats(64)
    with pytest.raises(
        OrderDependence, match=rf"{name}: x\[\d+\] depends on the order"
    ):
        getattr(k, name)[1, 64](x)
    assert torch.equal(x, floats(64))


def test_check_allows_the_rounding_of_atomics(capsys):
    k, x = load_cuda(SOURCE, target="cpu", check=True), torch.zeros(1)
    k.sums[4, 256](x)
    assert x.item() == pytest.approx(4 * 0.1 * 255 * 128, rel=1e-4)
    assert "checked in 3 orders" in capsys.readouterr().out


def test_time_launches_on_copies_and_marks_simulated_times(capsys):
    k, x = load_cuda(SOURCE, target="cpu", time=True), torch.zeros(1)
    k.sums[1, 2](x)
    assert x.item() == pytest.approx(0.1)
    out = capsys.readouterr().out
    assert "not a prediction for a GPU" in out and "unchecked (--check)" in out


def test_a_time_on_a_shared_machine_is_marked(capsys, monkeypatch):
    monkeypatch.setattr(CoreWait, "share", lambda self: 0.38)
    load_cuda(SOURCE, target="cpu", time=True).sums[1, 2](torch.zeros(1))
    assert "shared (a thread waited 38 % of its time" in capsys.readouterr().out


def test_a_time_after_a_check_is_not_marked_as_unchecked(capsys):
    k = load_cuda(SOURCE, target="cpu", time=True, check=True)
    k.sums[1, 2](torch.zeros(1))
    out = capsys.readouterr().out
    assert "a launch (" in out and "unchecked" not in out


def test_isolated_launches_and_their_faults(capsys):
    text = SOURCE + '__global__ void says(int n) { printf("n is %d\\n", n); }'
    k = load_cuda(text, target="cpu", isolated=True, timeout=0.5)
    x = torch.ones(11)
    k.add[1, 1024](x[1:], x[:-1], x[:-1], 10)
    assert x.tolist() == [2.0**i for i in range(11)]
    k.says[1, 1](5)
    assert capsys.readouterr().out == "n is 5\n"
    with pytest.raises(KernelFault, match="past the end of its 4"):
        k.far[1, 1](floats(4), 1 << 20)
    with pytest.raises(KernelFault, match=r"longer than 0.5 s"):
        k.forever[1, 1](np.zeros(1, np.int32))


# ---- the cache, headers, output ------------------------------------------------------


def test_the_second_time_comes_from_the_cache(k):
    assert "from the cache" in load_cuda(SOURCE, target="cpu").report


def test_a_library_whose_file_was_pruned_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_root", tmp_path)
    source = "__global__ void one(int *x) { x[0] = 1; }"
    for _ in range(2):
        x = np.zeros(1, np.int32)
        load_cuda(source, target="cpu")[1, 1](x)
        assert x[0] == 1
        for path in (tmp_path / "cells").glob("*.so"):
            path.unlink()


def test_printf_appears_where_print_does(capsys):
    k = load_cuda(
        '__global__ void hello() { printf("thread %d\\n", threadIdx.x); }', target="cpu"
    )
    print("before")
    k[1, 2]()
    print("after")
    assert capsys.readouterr().out == "before\nthread 0\nthread 1\nafter\n"


def test_every_kernel_of_a_cell_uses_a_changed_header():
    headers.add("ten.cuh", "#define TEN 9\n")
    cell = load_cuda(
        """
        #include "ten.cuh"
        __global__ void f(int *x) { *x = TEN; }
        __global__ void g(int *x) { *x = -TEN; }
        """,
        target="cpu",
    )
    f, g = cell.f, cell.g
    x = np.zeros(1, np.int32)
    headers.add("ten.cuh", "#define TEN 10\n")
    f[1, 1](x)
    assert x[0] == 10
    g[1, 1](x)
    assert x[0] == -10


def test_a_changed_header_recompiles_its_cells():
    headers.add("factor.cuh", "__device__ float f(float x) { return 2 * x; }\n")
    k = load_cuda(
        '#include "factor.cuh"\n__global__ void k(float *x) { x[0] = f(1); }',
        target="cpu",
    )
    x = torch.zeros(1)
    k.k[1, 1](x)
    assert x.item() == 2
    headers.add("factor.cuh", "__device__ float f(float x) { return 3 * x; }\n")
    k.k[1, 1](x)
    assert x.item() == 3
    for name in ("../a.cuh", "/tmp/a.cuh", "a", "a/../../b.cuh", "a b.cuh"):
        with pytest.raises(ArgumentError, match="is not a header name"):
            headers.add(name, "")


def test_flags_reach_the_compiler_and_no_shell(tmp_path):
    source = "__global__ void k(int *x) { x[0] = N; }"
    x = np.zeros(1, np.int32)
    k = load_cuda(source, target="cpu", flags="-DN='40 + 2' --use_fast_math -O1")
    k[1, 1](x)
    assert x[0] == 42
    marker = tmp_path / "touched"
    with pytest.raises(ArgumentError, match="is not a flag of cells"):
        load_cuda(source, target="cpu", flags=f"-DN=1 ; touch {marker}")
    assert not marker.exists()


def test_blocks_of_a_cooperative_kernel_wait_for_each_other():
    k = load_cuda(
        """
        #include <cooperative_groups.h>
        __global__ void k(int *x, int *y) {
            x[blockIdx.x] = blockIdx.x + 1;
            cooperative_groups::this_grid().sync();
            y[blockIdx.x] = x[gridDim.x - 1 - blockIdx.x];
        }""",
        target="cpu",
    )
    x, y = np.zeros((2, 4), np.int32)
    k[4, 1](x, y)
    assert y.tolist() == [4, 3, 2, 1]
    with pytest.raises(
        KernelFault, match=r"10000 blocks must run together; this CPU runs at most \d\d"
    ):
        k[10_000, 1](x, y)


# ---- signatures ----------------------------------------------------------------


def test_signatures_of_common_declarations():
    parsed = signature.parse(
        """
        // __global__ void no(int a) {}
        #define REAL float
        typedef unsigned int u32;
        #if 0
        __global__ void off(int n) {}
        #endif
        extern "C" __global__ void __launch_bounds__(256, 2)
        a(float *__restrict__ out, float const *in, const int n, REAL x[], u32 = 3) {}
        template <typename T, int N = (3 > 2)> static __global__ void b(T *const x) {}
        namespace m { __global__ void c(void) { if (1) {} } }
        __global__ void declared(int n);
        """
    )
    assert [s.name for s in parsed] == ["a", "b", "c"]
    kinds = [(p.type, p.pointer, p.const) for p in parsed[0].params]
    assert kinds == [
        ("float", True, False),
        ("float", True, True),
        ("int", False, False),
        ("float", True, False),
        ("unsigned int", False, False),
    ]
    assert parsed[1].instantiate([np.float16])[0] == "b<__half, (3 > 2)>"
    assert parsed[2].instantiate([])[0] == "m::c"
    assert parsed[0].line == 8


def test_errors_name_both_devices_of_arrays(k):
    class OnGpu:
        device = type("Device", (), {"id": 0})()

        @property
        def __cuda_array_interface__(self):
            array = {"shape": (4,), "typestr": "<f4", "data": (256, False)}
            return {**array, "version": 3}

    with pytest.raises(
        ArgumentError, match=r"on two devices: .*the CPU.* and .*cuda:0"
    ):
        k.add[1, 4](floats(4), OnGpu(), floats(4), 4)


def test_a_failed_compilation_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_root", tmp_path)
    with pytest.raises(CompileError):
        load_cuda("__global__ void k(int n) { n = }", target="cpu")
    assert not list((tmp_path / "cells").glob("*.so"))


def test_a_pointer_that_is_cast_to_float4_stays_aligned():
    k = load_cuda(
        "__global__ void k(float *x) { *(float4 *)x = make_float4(1, 2, 3, 4); }",
        target="cpu",
    )
    x = torch.zeros(5)  # x has 20 bytes
    k[1, 1](x)
    assert x.tolist() == [1, 2, 3, 4, 0]


def test_an_unusable_array_is_named_with_its_parameter(k):
    a = floats(4)
    for array, words in {
        "byte order": (np.zeros(4, ">f4"), "byte order"),
        "meta": (torch.zeros(4, device="meta"), "a tensor on meta"),
        "sparse": (floats(4).to_sparse(), "no plain memory"),
    }.values():
        with pytest.raises(ArgumentError, match=rf"add: const float \*a: .*{words}"):
            k.add[1, 4](a, array, a, 4)


@pytest.mark.skipif(torch.cuda.is_available(), reason="the array would be on the GPU")
def test_host_memory_behind_the_interface_of_gpus_is_refused(k):
    class Claims:
        __cuda_array_interface__ = {  # noqa: RUF012
            **{"shape": (4,), "typestr": "<f4", "data": (4096, False), "version": 3}
        }

    with pytest.raises(ArgumentError, match="but there is no GPU"):
        k.add[1, 4](Claims(), floats(4), floats(4), 4)


def test_an_enum_is_passed_as_its_number():
    source = (
        "enum Op { PLUS, MINUS };\nenum class Wide : long long { A, B };\n"
        "__global__ void e(int *o, Op op, Wide w) { o[0] = op == MINUS; "
        "o[1] = w == Wide::B; }"
    )
    out = np.zeros(2, np.int32)
    load_cuda(source, target="cpu").e[1, 1](out, 1, 1)
    assert out.tolist() == [1, 1]


def test_isolated_launches_from_several_threads_take_turns():
    text = "__global__ void put(int *x, int n) { x[0] = n; }"
    k = load_cuda(text, target="cpu", isolated=True)
    failures = []

    def launch(n):
        for _ in range(10):
            x = np.zeros(1, np.int32)
            try:
                k.put[1, 1](x, n)
            except Exception as error:
                failures.append(error)
            failures.extend(x[x != n])

    threads = [threading.Thread(target=launch, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_source_that_is_not_text_is_refused():
    for character in ("\0", "\ud800"):
        with pytest.raises(ArgumentError, match="is not text"):
            load_cuda(f"__global__ void k(int *x) {{ *x = 1; }} // {character}")


@pytest.mark.parametrize("timeout", ["3", -1, float("nan"), 1e6])
def test_an_invalid_timeout_is_refused(timeout):
    with pytest.raises(ArgumentError, match=r"timeout=.*expected 0 \(none\) to 86400"):
        load_cuda("__global__ void k() {}", target="cpu", timeout=timeout)


def test_timing_a_launch_prints_its_output_once(capfd):
    text = '__global__ void p() { printf("once\\n"); }'
    load_cuda(text, target="cpu", time=True).p[1, 1]()
    out = capfd.readouterr().out
    assert out.count("once") == 1 and "a launch" in out


def test_an_older_language_is_refused():
    with pytest.raises(ArgumentError, match=r"-std=c\+\+11: .*C\+\+17"):
        load_cuda("__global__ void k() {}", target="cpu", flags="-std=c++11")
