"""The watch build's report: each kind of fault at its array, index and thread."""

import json
import os
import subprocess

import pytest

from weft.programs import program

HEAD = """
#include <stdio.h>
#include <string.h>
enum { N = 64 };
static int *filled(int n) {
    int *x;
    cudaMalloc(&x, n * sizeof *x);
    cudaMemset(x, 0, n * sizeof *x);
    return x;
}
static int *blank(int n) {
    int *x;
    cudaMalloc(&x, n * sizeof *x);
    return x;
}
"""
# name: the kernel k, its launch, and the kind, array, index and text of the expected
# finding (None: no finding).
CASES = {
    "past_the_end": (
        "__global__ void k(int *x, int n) { x[threadIdx.x * n] = 1; }",
        "k<<<1, 4>>>(filled(12), 4);",
        ("bounds", "x", 12, "thread 3 writes x[12]: x has 12 elements"),
    ),
    "before_the_start": (
        "__global__ void k(const int *x, int *y) { *y = x[(int)threadIdx.x - 1]; }",
        "k<<<2, 1>>>(filled(8), filled(1));",
        ("bounds", "x", -1, "thread 0 of block 0 reads x[-1]: x has 8 elements"),
    ),
    "vector_over_the_end": (
        "__global__ void k(float4 *x) { x[1].x = 1; x[2] = x[1]; }",
        "k<<<1, 1>>>((float4 *)filled(11));",
        ("bounds", "x", 2, "thread 0 writes x[2]: x has 44 bytes, elements of 16"),
    ),
    "dynamic_shared": (
        "__global__ void k() { extern __shared__ int s[]; s[threadIdx.x] = 1; }",
        "k<<<1, 32, 64>>>();",
        (
            *("bounds", "s", 16),
            "thread 16 writes s[16]: s has 16 elements, since the launch gave 64 "
            "bytes of shared memory",
        ),
    ),
    "static_shared_by_pointer": (
        "__global__ void k(int n) { __shared__ int a[8], b[8]; int *p = b;"
        " a[0] = 1; p[n] = 1; }",
        "k<<<1, 1>>>(8);",
        ("bounds", "b", 8, "thread 0 writes b[8]: b has 8 elements"),
    ),
    "local": (
        "__global__ void k(int *out, int n) { int a[4] = {}; a[n] = 1; *out = a[1]; }",
        "k<<<1, 1>>>(filled(1), 4);",
        (
            *("bounds", None, 4),
            "thread 0 uses the index 4 of an array that has 4 elements",
        ),
    ),
    "freed": (
        "__global__ void k(int *x) { x[threadIdx.x + 2] = 1; }",
        "int *x = filled(8); cudaFree(x); k<<<1, 1>>>(x);",
        ("use-after-free", None, None, "was freed before"),
    ),
    "freed_by_the_kernel": (
        "__global__ void k(int *y) { int *x = new int[4]; x[0] = 3; delete[] x;"
        " *y = x[1]; }",
        "k<<<1, 1>>>(filled(1));",
        ("use-after-free", None, None, "was freed before"),
    ),
    "shared_blank": (
        "__global__ void k(int *y) { __shared__ int s[N]; s[threadIdx.x] = 1;"
        " __syncthreads(); y[threadIdx.x] = s[threadIdx.x + 1]; }",
        "k<<<1, 32>>>(filled(32));",
        (
            *("uninitialised", "s", 32),
            "thread 31 reads s[32], which no thread of its block has written before",
        ),
    ),
    "global_blank": (
        "__global__ void k(int *sum) { atomicAdd(sum, 1); }",
        "k<<<1, 1>>>(blank(1));",
        (
            *("uninitialised", "sum", 0),
            "thread 0 updates sum[0], which nobody has written before",
        ),
    ),
    "copied_blank": (
        "__global__ void k(int *x, int *y) { *y = x[3]; }",
        "int *x = filled(8); cudaMemcpy(x, blank(4), 16, cudaMemcpyDeviceToDevice);"
        " k<<<1, 1>>>(x, filled(1));",
        ("uninitialised", "x", 3, "nobody has written"),
    ),
    "misaligned": (
        "__global__ void k(float *x) { *(float4 *)(x + 1) = float4{}; }",
        "k<<<1, 1>>>((float *)filled(16));",
        (
            *("misaligned", "x", 1),
            "thread 0 writes x[1] with an access of 16 bytes: its address is 4 bytes "
            "past a multiple of 16",
        ),
    ),
    "null": (
        "__global__ void k(int *x) { x[1] = 2; }",
        "k<<<1, 1>>>(nullptr);",
        ("bounds", None, None, "thread 0 writes 4 bytes past a null pointer"),
    ),
    "host_stack": (
        "__global__ void k(int *x) { *x = 2; }",
        "int x; k<<<1, 1>>>(&x);",
        ("host-pointer", None, None, "that is the host's memory"),
    ),
    "host_heap": (
        "__global__ void k(int *x) { *x = 2; }",
        "k<<<1, 1>>>((int *)malloc(64));",
        ("host-pointer", None, None, "that is the host's memory"),
    ),
    "host_variable": (
        "int h[4]; __global__ void k(int *x) { *x = 2; }",
        "k<<<1, 1>>>(h);",
        ("host-pointer", None, None, "that is the host's memory"),
    ),
    "stack": (
        "__global__ void k(int *x, int n) { int a[20000];"
        " for (int i = 0; i < n; i++) a[i] = i; *x = a[n / 2]; }",
        "k<<<1, 1>>>(filled(1), 7);",
        ("stack", None, None, "stack overflow"),
    ),
    "division": (
        "__global__ void k(int *x, int n) { *x = 7 / n; }",
        "k<<<1, 1>>>(filled(1), 0);",
        ("exception", None, None, "integer division by zero"),
    ),
    "barrier": (
        "__global__ void k() { if (threadIdx.x < 8) __syncthreads(); else"
        "\n __syncthreads(); }",
        "k<<<1, 32>>>();",
        (
            *("barrier", None, None),
            "24 threads (8, 9, 10 ...) of block 0 wait at the barrier, but 8 threads "
            "(0, 1, 2 ...) wait at another",
        ),
    ),
    "deadlock": (
        "__global__ void k() { if (threadIdx.x < 8) __syncthreads(); else"
        " __syncwarp(); }",
        "k<<<1, 32>>>();",
        (
            *("deadlock", None, None),
            "thread 8 waits at __syncwarp() with the mask 0xffffffff for lanes 0-7 of "
            "its warp, which never come: lane 0 waits at the block's barrier",
        ),
    ),
    "memcpy": (
        "__global__ void k(int *x, int *y, int n) { memcpy(x, y, n); }",
        "k<<<1, 1>>>(filled(8), filled(8), 36);",
        ("bounds", "y", 8, "thread 0 reads y[8]: y has 8 elements"),
    ),
    "guard": (
        "__global__ void k(int *x, int n) { if (threadIdx.x >= n) return;"
        " __syncthreads(); x[threadIdx.x] = 1; }",
        "k<<<1, 64>>>(filled(40), 40);",
        None,
    ),
    "padding": (
        "struct S { char c; double d; int i; };"
        "__global__ void k(S *x, S *y) { S s; s.c = 1; s.d = 2; s.i = 3;"
        " x[threadIdx.x] = s; y[threadIdx.x] = x[threadIdx.x]; }",
        "k<<<1, 4>>>((S *)blank(24), (S *)blank(24));",
        None,
    ),
    "variables": (
        "__device__ int sum, many[4]; __constant__ int table[2] = {1, 2};"
        "__managed__ int m; __global__ void k(int *p) { atomicAdd(&sum, table[1]);"
        " many[threadIdx.x & 3] = m; atomicMax(p, 3); }",
        "int *p; cudaGetSymbolAddress((void **)&p, sum); k<<<1, 1>>>(p);",
        None,
    ),
    "static": (
        "__global__ void k(int *x) { static int calls = 3; *x = calls++; }",
        "k<<<1, 1>>>(filled(1));",
        None,
    ),
    "pinned": (
        "__global__ void k(int *x, int *y) { *x = *y; }",
        "int *x, *y; cudaMallocHost(&x, 4); cudaMallocManaged(&y, 4); *y = 2;"
        " k<<<1, 1>>>(x, y);",
        None,
    ),
    "heap": (
        "__global__ void k(int *y) { int *x = (int *)malloc(16); memset(x, 0, 16);"
        " y[threadIdx.x] = x[3]; free(x); }",
        "k<<<2, 32>>>(filled(32));",
        None,
    ),
}


@pytest.fixture(scope="module")
def run_case(tmp_path_factory):
    """Return a function that runs one case and returns its findings."""
    folder = tmp_path_factory.mktemp("check")
    parts, calls = [HEAD], []
    for name, (kernel, launch, _) in CASES.items():
        parts.append(
            f"namespace in_{name} {{\n{kernel}\nvoid run() {{ {launch} }}\n}}\n"
        )
        calls.append(f'if (!strcmp(v[1], "{name}")) in_{name}::run();')
    body = "\n".join(calls)
    parts.append(f"int main(int, char **v) {{\n{body}\ncudaDeviceSynchronize(); }}\n")
    source = folder / "cases.cu"
    source.write_text("".join(parts))
    options = program.Program([str(source)], optimise="1", check=True)
    executable = program.build_executable(options)

    def run(name: str, order: int) -> list[dict]:
        report = folder / f"{name}{order}.json"
        variables = {"WEFT_CHECK_REPORT": str(report), "WEFT_RUN_ORDER": str(order)}
        subprocess.run([executable, name], env=os.environ | variables, check=True)
        return json.loads(report.read_text())["findings"]

    return run


@pytest.mark.parametrize("name", CASES)
def test_a_fault_is_found_with_its_array_and_index(run_case, name):
    expected = CASES[name][2]
    findings = run_case(name, 0)
    if expected is None:
        assert not findings
        return
    kind, array, index, text = expected
    assert [(f["kind"], f["array"], f["index"]) for f in findings] == [
        (kind, array, index)
    ]
    assert text in findings[0]["text"]
    assert findings[0]["site"] is not None


@pytest.mark.parametrize("name", ["past_the_end", "shared_blank", "guard", "padding"])
@pytest.mark.parametrize("order", [1, 7])
def test_the_verdict_does_not_depend_on_the_order(run_case, name, order):
    first, other = run_case(name, 0), run_case(name, order)
    for key in ("kind", "array", "index", "text", "thread"):
        assert [f[key] for f in first] == [f[key] for f in other]
