"""NVRTC compiles the sources that nvcc accepts, for any GPU, on any machine."""

import subprocess

import pytest

from weft.base import store
from weft.cells import stored
from weft.cells.gpu import loader as gpu
from weft.cells.gpu import nvrtc
from weft.cells.headers import _INTEGERS, HEADERS, MACROS
from weft.csource.diagnostics import CompileError

pytestmark = pytest.mark.skipif(
    bool(nvrtc.explain_missing()), reason=f"NVRTC: {nvrtc.explain_missing()}"
)

SAXPY = """
__global__ void saxpy(float *y, const float *x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
template <typename T, int N> __global__ void fill(T *out) {
    __shared__ T part[N];
    part[threadIdx.x] = N;
    __syncthreads();
    out[threadIdx.x] = part[N - 1 - threadIdx.x];
}
"""
TOOLKIT = len(nvrtc.include_folders()) > 0 if not nvrtc.explain_missing() else False


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a", "sm_100a"])
def test_kernels_and_templates_become_machine_code(arch):
    if arch.rstrip("a") not in nvrtc.list_architectures():
        pytest.skip(f"NVRTC {nvrtc.nvrtc_version()} is older than {arch}")
    names = ["saxpy", "fill<float, 16>", "fill<unsigned char, 32>"]
    program = nvrtc.compile(SAXPY, arch=arch, expressions=names)
    assert program.cubin[:4] == b"\x7fELF" and f".target {arch}" in program.ptx
    assert program.lowered["saxpy"] == "_Z5saxpyPfPKffi"
    assert len(set(program.lowered.values())) == 3
    assert all(name.encode() in program.cubin for name in program.lowered.values())
    fill = program.usage[program.lowered["fill<float, 16>"]]
    assert fill.registers > 0 and (fill.shared, fill.spill_stores) == (64, 0)
    assert program.log == ""


def test_ptxas_reports_registers_again_for_a_second_compilation():
    """On a machine with a GPU, NVRTC's own cache would suppress the report."""
    programs = [nvrtc.compile(SAXPY, expressions=["saxpy"]) for _ in range(2)]
    assert programs[0].usage == programs[1].usage and programs[1].usage


@pytest.mark.parametrize("version, count", [((12, 8), 0), ((12, 9), 1), ((13, 0), 1)])
def test_nvrtcs_own_cache_is_off_where_it_has_one(monkeypatch, version, count):
    monkeypatch.setattr(nvrtc, "nvrtc_version", lambda: version)
    assert nvrtc.default_options("sm_80", []).count("--no-cache") == count


def test_kernels_of_every_linkage_are_found():
    source = """
    extern "C" __global__ void plain(int *o) { o[0] = 1; }
    static __global__ void hidden(int *o) { o[0] = 2; }
    namespace outer { __global__ void inner(int *o) { o[0] = 3; } }
    namespace { __global__ void nameless(int *o) { o[0] = 4; } }
    """
    names = ["plain", "hidden", "outer::inner", "nameless"]
    program = nvrtc.compile(source, expressions=names)
    assert list(program.lowered) == names and program.lowered["plain"] == "plain"
    for name in program.lowered.values():
        assert f".entry {name}(" in program.ptx and name.encode() in program.cubin


def test_spills_are_reported():
    source = """
    __global__ void __launch_bounds__(1024, 2) k(float *x, int n) {
        float v[64]; // all alive at once, in at most 32 registers
    #pragma unroll
        for (int i = 0; i < 64; i++) v[i] = x[i * 32 + threadIdx.x];
        for (int round = 0; round < n; round++) {
            float sum = 0;
    #pragma unroll
            for (int i = 0; i < 64; i++) sum += v[i];
    #pragma unroll
            for (int i = 0; i < 64; i++) v[i] = v[i] * sum + x[round];
        }
    #pragma unroll
        for (int i = 0; i < 64; i++) x[i * 32 + threadIdx.x] = v[i];
    }"""
    (usage,) = nvrtc.compile(source).usage.values()
    assert usage.spill_stores > 0 and usage.spill_loads > 0 and usage.stack > 0
    assert usage.registers == 32


@pytest.mark.parametrize(
    "source, line, words",
    [
        ("__global__ void k(float *o) {\n    o[0] = y;\n}", 2, '"y" is undefined'),
        (
            "float f(float x) { return x; }\n__global__ void k() {}",
            1,
            "__host__ function",
        ),
        ("\n\n#include <nowhere.h>\n", 3, "nowhere.h"),
    ],
)
def test_an_error_names_the_cell_and_the_line(source, line, words):
    with pytest.raises(nvrtc.Rejected) as error:
        nvrtc.compile(source, name="cell 7")
    assert f"cell 7({line}): " in error.value.log and words in error.value.log
    assert "ptxas" not in error.value.log


def test_a_constexpr_function_needs_no_device_as_with_nvcc():
    good = """
    constexpr int cdiv(int a, int b) { return (a + b - 1) / b; }
    __global__ void k(float *o) { __shared__ float s[cdiv(100, 32)]; o[0] = s[0]; }
    """
    assert nvrtc.compile(good).cubin
    with pytest.raises(nvrtc.Rejected, match="__host__ function"):
        nvrtc.compile(good + "float twice(float x) { return 2 * x; }")


def test_the_log_contains_only_warnings():
    log = nvrtc.compile("__global__ void k() {\n    int unused;\n}").log
    assert "cell(2): warning" in log and "unused" in log
    assert "Remark" not in log and "ptxas" not in log


def test_nvccs_implicit_includes_are_available():
    types = "".join(f"a[{i}] = sizeof({t});" for i, t in enumerate(_INTEGERS))
    program = nvrtc.compile(f"""
    __global__ void k(float *o, size_t *a, const char *text) {{
        {types}
        o[0] = INFINITY + NAN + HUGE_VAL + FLT_MAX + FLT_EPSILON + DBL_MAX + M_PI;
        o[1] = (float)(SIZE_MAX & UINT64_MAX & UINT_MAX) + INT_MIN + LLONG_MIN;
        o[2] = (o == NULL) + fmaxf(o[0], sqrtf(o[1])) + max(3, 4) + abs(-1);
        printf("%f %s\\n", o[0], text);
        assert(o[0] > 0);
        memset(o, 0, 4);
    }}""")
    assert program.log == ""


def test_macros_of_the_prelude_have_the_values_of_c():
    """g++ compares the macros with those of the system's headers."""

    # These macros call functions of CUDA.
    excluded = {"HUGE_VALF", "HUGE_VAL", "NAN", "INFINITY"}
    checks = "".join(
        f"static_assert({name} == ({value}), {name!r});\n".replace("'", '"')
        for name, value in MACROS.items()
        if name not in excluded
    )
    heads = (
        "#include <cfloat>\n#include <climits>\n#include <cmath>\n#include <cstdint>"
    )
    result = subprocess.run(
        ["g++", "-x", "c++", "-std=c++17", "-fsyntax-only", "-"],
        **{"input": f"{heads}\n{checks}", "text": True, "capture_output": True},
    )
    assert result.returncode == 0, result.stderr


def test_the_headers_that_teaching_programs_include_are_empty():
    names = [n for n, text in HEADERS.items() if not text]
    assert {"stdio.h", "math.h", "cuda_runtime.h", "cstdint"} <= set(names)
    includes = "".join(f"#include <{name}>\n" for name in names)
    assert nvrtc.compile(includes + SAXPY, expressions=["saxpy"]).log == ""


def test_a_cells_own_headers_come_first():
    headers = {"mine.cuh": '#pragma once\n#include "deep/er.cuh"\n', "deep/er.cuh": ""}
    headers["deep/er.cuh"] = "__device__ float one() { return 1; }"
    source = '#include "mine.cuh"\n__global__ void k(float *o) { o[0] = one(); }'
    assert nvrtc.compile(source, headers=headers).cubin
    headers["deep/er.cuh"] = "nonsense"
    with pytest.raises(nvrtc.Rejected, match=r"deep/er.cuh.?\(1\): error"):
        nvrtc.compile(source, headers=headers)


@pytest.mark.skipif(not TOOLKIT, reason="the toolkit's headers are not installed")
def test_the_toolkits_headers_are_found():
    program = nvrtc.compile(
        """
        #include <cooperative_groups.h>
        #include <cooperative_groups/reduce.h>
        #include <cuda_bf16.h>
        #include <cuda_fp16.h>
        #include <cuda_runtime.h>
        #include <cuda/std/cstdint>
        #include <cuda/std/climits>
        #include <nv/target>
        #include <stdint.h>
        namespace cg = cooperative_groups;
        __global__ void k(half *h, __nv_bfloat16 *b, float *o, int64_t n) {
            auto warp = cg::tiled_partition<32>(cg::this_thread_block());
            h[0] = __float2half(1.0f) + h[1];
            b[0] = __float2bfloat16(1.0f);
            float part = o[cg::this_grid().thread_rank() % n];
            o[0] = warp.shfl_xor(part, 1) + cg::reduce(warp, part, cg::plus<float>());
            cg::this_grid().sync();
        }""",
        arch="sm_90a",
    )
    assert program.log == ""


def test_flags_are_taken_as_nvcc_spells_them():
    source = "__global__ void k(float *o) { o[0] = sinf(o[1]) * SCALE; }"
    slow = nvrtc.compile(source, flags=["-D", "SCALE=3", "-O3", "-Wall"])
    fast = nvrtc.compile(source, flags=["-DSCALE=3", "--use_fast_math", "-std=c++20"])
    assert "sin.approx" in fast.ptx and "sin.approx" not in slow.ptx
    flags = ["-Xptxas", "-O1", "-I", "/a b", "-march=native", "-maxrregcount=32"]
    flags += ["-fopenmp", "-arch", "sm_80", "-isystem", "/c", "-fmad=false"]
    assert nvrtc.translate(flags) == [
        *["-Xptxas=-O1", "-I/a b", "-maxrregcount=32", "-I/c", "-fmad=false"],
    ]
    with pytest.raises(nvrtc.BuildError, match="-no-such-option"):
        nvrtc.compile(source, flags=["-no-such-option"])


def test_an_architecture_that_is_not_known_is_one_sentence():
    with pytest.raises(nvrtc.BuildError, match=r"does not compile for sm_999.*sm_80"):
        nvrtc.compile(SAXPY, arch="sm_999")


def test_multiplications_and_additions_fuse_as_with_nvcc_and_math_is_exact():
    source = "__global__ void k(float *o) { o[0] = o[1] * o[2] + o[3] / o[4]; }"
    ptx = nvrtc.compile(source).ptx
    assert "fma.rn.f32" in ptx and "div.rn.f32" in ptx
    assert "fma.rn.f32" not in nvrtc.compile(source, flags=["--fmad=false"]).ptx


def test_lines_of_the_source_are_in_the_code():
    assert ".file" in nvrtc.compile(SAXPY, name="my cell", expressions=["saxpy"]).ptx


# ---- the cache ----------------------------------------------------------------


def load_saxpy(source=SAXPY, arch="sm_80", expressions=("saxpy",), **more):
    arguments = {"name": "cell", "flags": (), "headers": {}, **more}
    return stored.load_program(
        *(source, arguments["name"], arch, arguments["flags"], expressions),
        arguments["headers"],
    )


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_root", tmp_path)
    return tmp_path / "cells"


def test_a_program_is_compiled_once(empty_cache, monkeypatch):
    program, cached = load_saxpy()
    assert not cached
    monkeypatch.setattr(nvrtc, "compile", None)  # any call would fail
    second, cached = load_saxpy(
        name="cell [8]"
    )  # the same cell has another name when it runs again
    assert cached and second == program and second.usage == program.usage


def test_whatever_makes_a_program_changes_its_name(empty_cache, monkeypatch):
    changes = [
        *({}, {"source": SAXPY + "//"}, {"arch": "sm_90a"}),
        *({"flags": ("-DX",)}, {"headers": {"a.h": ""}}, {"headers": {"a.h": "//"}}),
        {"expressions": ("saxpy", "fill<float, 8>")},
    ]
    assert not any(load_saxpy(**change)[1] for change in changes)
    assert all(load_saxpy(**change)[1] for change in changes)
    monkeypatch.setattr(nvrtc, "nvrtc_version", lambda: (99, 0))
    assert not load_saxpy()[1]
    assert len(list(empty_cache.iterdir())) == len(changes) + 1


def test_a_file_that_is_included_counts(empty_cache, tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "one.cuh").write_text('#include "deep/two.cuh"\n')
    (tmp_path / "deep/two.cuh").write_text("#include <three.cuh>\n")
    three = tmp_path / "deep/three.cuh"
    three.write_text("__device__ float f() { return 1; }")
    source = '#include "one.cuh"\n__global__ void k(float *o) { o[0] = f(); }'
    flags = ("-I", str(tmp_path), f"-I{tmp_path / 'deep'}")
    first, cached = load_saxpy(source, expressions=("k",), flags=flags)
    assert not cached and load_saxpy(source, expressions=("k",), flags=flags)[1]
    three.write_text("__device__ float f() { return 2; }")
    second, cached = load_saxpy(source, expressions=("k",), flags=flags)
    assert not cached and second.ptx != first.ptx


def test_a_damaged_file_is_made_again(empty_cache):
    program, _ = load_saxpy()
    (path,) = empty_cache.iterdir()
    content = path.read_bytes()
    for damaged in (b"", b"{}\n", content[: len(content) // 2], b"\xff" + content[1:]):
        path.write_bytes(damaged)
        second, cached = load_saxpy()
        assert not cached and second.cubin == program.cubin


def test_an_error_carries_the_readers_line_and_is_not_cached(empty_cache):
    with pytest.raises(CompileError) as error:
        load_saxpy("__global__ void k(float *o) {\n    o[0] = y;\n}", name="cell [3]")
    (one,) = error.value.diagnostics
    assert (one.line, one.column, one.severity, one.file) == (2, 12, "error", "")
    assert "cell [3], line 2" in str(error.value) and "o[0] = y;" in str(error.value)
    assert not list(empty_cache.glob("*"))


def test_an_invalid_template_argument_is_reported(empty_cache):
    with pytest.raises(CompileError) as error:
        load_saxpy(expressions=("fill<nonsense, 3>",))
    (one,) = error.value.diagnostics
    assert "nonsense" in one.message and (one.file, one.line) == ("", 0)


@pytest.mark.skipif(not TOOLKIT, reason="the toolkit's headers are not installed")
def test_only_a_kernel_that_waits_for_its_grid_is_launched_cooperatively():
    program = nvrtc.compile(
        """
        #include <cooperative_groups.h>
        using namespace cooperative_groups;
        __global__ void ranks(int *o) { o[this_grid().thread_rank()] = 1; }
        __global__ void waits(int *o) { o[0] = 1; this_grid().sync(); o[1] = o[0]; }
        __global__ void block(int *o) { this_thread_block().sync(); o[0] = 2; }
        """,
        expressions=["ranks", "waits", "block"],
    )
    lowered = program.lowered.items()
    waiting = [name for name, n in lowered if gpu.waits_for_its_grid(program.ptx, n)]
    assert waiting == ["waits"]


def test_kernels_may_have_the_names_of_cudas_own_functions():
    source = "__global__ void all(float *x, const int *__restrict__ n) { x[*n] = 1; }\n"
    source += "template <class T> __global__ void max(T *x) { *x = 1; }"
    lowered = nvrtc.compile(source, expressions=["all", "max<int>"]).lowered
    assert lowered == {"all": "_Z3allPfPKi", "max<int>": "_Z3maxIiEvPT_"}
