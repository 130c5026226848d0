"""Cells on a GPU: arguments, streams, graphs and faults. Most tests need a GPU."""

import re
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
import torch
from tiers import only

from weft import cells as jit
from weft.base import store
from weft.base.errors import ArgumentError, BuildError, DeviceLost, KernelFault
from weft.cells import arguments
from weft.cells.gpu import driver, nvrtc
from weft.cells.gpu import loader as gpu
from weft.toolchain import native, tools

HERE = torch.cuda.is_available()
on_gpu = pytest.mark.skipif(not HERE, reason="no CUDA GPU here")

SAXPY = """
__global__ void saxpy(float *y, const float *x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
"""


@pytest.mark.skipif(HERE, reason="there is a GPU")
def test_without_a_gpu_the_error_names_the_cause():
    with pytest.raises(BuildError, match="no CUDA GPU"):
        gpu.compile(SAXPY, expressions=["saxpy"])


def test_after_a_fault_nothing_is_compiled_for_the_gpu(monkeypatch):
    monkeypatch.setattr(native, "_lost", "restart the kernel")
    with pytest.raises(DeviceLost, match="restart the kernel"):
        gpu.compile(SAXPY, expressions=["saxpy"])
    assert gpu.find_fault() == "restart the kernel"


@pytest.mark.skipif(bool(nvrtc.explain_missing()), reason="no NVRTC")
def test_ptx_needs_no_gpu():
    assert "fma.rn.f32" in gpu.compile_only(SAXPY, "sm_90a", ["saxpy"]).program.ptx
    assert ".target sm_75" in gpu.compile_only(SAXPY, "sm_75", ["saxpy"]).program.ptx


@pytest.mark.skipif(bool(nvrtc.explain_missing()), reason="no NVRTC")
def test_a_cell_has_ptx_cuh_on_the_gpu_too():
    text = SAXPY.replace("a * x[i]", "round_tf32(a * x[i])")
    text = f'#include "ptx.cuh"\n{text}'
    assert "cvt.rna.tf32" in gpu.compile_only(text, "sm_80", ["saxpy"]).program.ptx


@pytest.mark.skipif(bool(nvrtc.explain_missing()), reason="no NVRTC")
@pytest.mark.parametrize("sm", only(["sm_90a"], ["sm_80", "sm_90a"]))
def test_machine_code_can_be_read(sm):
    cubin = gpu.compile_only(SAXPY, sm, ["saxpy"]).program.cubin
    try:
        text = tools.disassemble(cubin)
    except BuildError as error:
        assert "pip install nvidia-cuda-nvdisasm" in str(error)
        pytest.skip(str(error))
    assert "FFMA" in text and "saxpy" in text and sm in text


@pytest.mark.skipif(bool(nvrtc.explain_missing()), reason="no NVRTC")
def test_without_a_disassembler_the_cure_is_named(monkeypatch):
    monkeypatch.setattr(tools, "TOOLS", ("no-such-tool",))
    tools.find_disassembler.cache_clear()
    try:
        with pytest.raises(BuildError, match="pip install nvidia-cuda-nvdisasm"):
            tools.disassemble(b"")
    finally:
        tools.find_disassembler.cache_clear()


@on_gpu
@pytest.mark.parametrize("n", [1, 2, 3, 255, 256, 257, 100_003])
def test_a_kernel_computes(n):
    k = jit.load_cuda(SAXPY)
    y, x = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
    expected = y.double() + 2.5 * x.double()
    k[-(-n // 256), 256](y, x, 2.5, n)
    torch.testing.assert_close(y.double(), expected, atol=1e-5, rtol=1e-6)


@on_gpu
def test_scalars_of_every_type_arrive():
    source = """
    #include <cuda_bf16.h>
    #include <cuda_fp16.h>
    struct Point { float x; double y; int n; };
    __global__ void all(double *out, bool b, char c, unsigned char u, short s,
                        unsigned short v, int i, unsigned w, long l, long long q,
                        size_t z, uint64_t t, float f, double d) {
        double values[] = {(double)b, (double)c, (double)u, (double)s, (double)v,
                           (double)i, (double)w, (double)l, (double)q, (double)z,
                           (double)t, (double)f, d};
        for (int j = 0; j < 13; j++) out[j] = values[j];
    }
    __global__ void more(double *out, half h, __nv_bfloat16 g, float2 f, float4 q,
                         int3 i, Point p) {
        double values[] = {(double)__half2float(h), (double)__bfloat162float(g),
                           f.x, f.y, q.x, q.y, q.z, q.w,
                           (double)i.x, (double)i.y, (double)i.z,
                           p.x, p.y, (double)p.n};
        for (int j = 0; j < 14; j++) out[j] = values[j];
    }
    """
    k = jit.load_cuda(source)
    out = torch.full((14,), torch.nan, dtype=torch.float64, device="cuda")
    values = [True, -128, 255, -32768, 65535, -(2**31), 2**32 - 1, -(2**62), 2**62]
    values += [2**63, 2**40, 0.5, 0.1]
    for _ in range(3):  # the careful path once, then the quick path twice
        out.fill_(torch.nan)
        k.all[1, 1](out, *values)
        assert out[:13].tolist() == [float(v) for v in values]
    point = np.zeros((), np.dtype([("x", "f4"), ("y", "f8"), ("n", "i4")], align=True))
    point["x"], point["y"], point["n"] = 7.5, 8.25, -9
    args = (0.5, 1.5, (1.0, 2.0), (3.0, 4.0, 5.0, 6.0), (7, 8, 9), point)
    for _ in range(2):
        out.fill_(torch.nan)
        k.more[1, 1](out, *args)
        expected = [0.5, 1.5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 7.5, 8.25, -9]
        assert out.tolist() == expected
    with pytest.raises(ArgumentError, match=r"Point p has 24 bytes, but 4 are given"):
        k.more[1, 1](out, *args[:-1], b"1234")


DTYPES = {
    **{"float": torch.float32, "double": torch.float64, "half": torch.float16},
    **{"__nv_bfloat16": torch.bfloat16, "int": torch.int32, "long": torch.int64},
    **{"short": torch.int16, "signed char": torch.int8, "unsigned char": torch.uint8},
    "bool": torch.bool,
}


@on_gpu
def test_arrays_of_every_dtype_through_a_template():
    k = jit.load_cuda("""
    #include <cuda_bf16.h>
    #include <cuda_fp16.h>
    template <typename T> __global__ void copy(T *out, const T *in, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) out[i] = in[i];
    }
    """)
    for ctype, dtype in DTYPES.items():
        source = torch.arange(300, device="cuda").remainder(2).to(dtype)
        out = torch.zeros_like(source)
        k.copy[ctype][2, 256](out, source, 300)
        assert torch.equal(out, source), ctype
        k.copy[dtype][2, 256](out.zero_(), source, 300)
        assert torch.equal(out, source), dtype


class Interface:
    """An array with __cuda_array_interface__ alone."""

    def __init__(self, tensor, **more):
        self.tensor = tensor
        self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, **more}


class Dlpack:
    def __init__(self, tensor):
        self.tensor = tensor
        self.__dlpack__ = tensor.__dlpack__
        self.__dlpack_device__ = tensor.__dlpack_device__


@on_gpu
def test_arrays_of_every_kind():
    k, n = jit.load_cuda(SAXPY), 1000
    stream = torch.cuda.Stream()
    kinds = {
        "interface": Interface,
        "its own stream": lambda t: Interface(t, stream=stream.cuda_stream, version=3),
        "dlpack": Dlpack,
        "parameter": lambda t: torch.nn.Parameter(t, requires_grad=False),
    }
    for name, module in (("cupy", "cupy"), ("numba", "numba.cuda")):
        try:
            __import__(module)
        except Exception:
            continue
        library = sys.modules[module]
        kinds[name] = library.asarray if name == "cupy" else library.as_cuda_array
    for name, make in kinds.items():
        y, x = torch.zeros(n, device="cuda"), torch.randn(n, device="cuda")
        k[4, 256](make(y), make(x), 2.0, n)
        assert torch.equal(y, 2 * x), name


@on_gpu
def test_an_argument_that_does_not_fit_is_named():
    k, x = jit.load_cuda(SAXPY, target="cuda"), torch.zeros(8, device="cuda")
    for _ in range(2):
        for argument in (x.double(), x[::2], x.cpu(), np.zeros(8, np.float32), 3.0):
            with pytest.raises(ArgumentError, match="saxpy"):
                k[1, 8](x, argument, 1.0, 8)
        with pytest.raises(ArgumentError, match="int n"):
            k[1, 8](x, x, 1.0, 8.0)
        k[1, 8](x, x, 1.0, 8)


@on_gpu
def test_an_impossible_launch_is_refused_and_later_ones_work():
    k = jit.load_cuda("""
    __global__ void __launch_bounds__(128) small(float *o) { o[threadIdx.x] = 1; }
    extern __shared__ float s[];
    __global__ void shared(float *o, int n) {
        for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = i;
        __syncthreads();
        if (threadIdx.x == 0) o[0] = s[n - 1];
    }
    """)
    out = torch.zeros(256, device="cuda")
    with pytest.raises(ArgumentError, match=r"256 threads.*at most 128"):
        k.small[1, 256](out)
    with pytest.raises(ArgumentError, match="2000"):
        k.small[1, 2000](out)
    with pytest.raises(ArgumentError, match="65535"):
        k.small[(1, 70_000), 1](out)
    limit = torch.cuda.get_device_properties(0).shared_memory_per_block_optin
    if limit < 227 << 10:
        with pytest.raises(ArgumentError, match=str(limit)):
            k.shared[1, 64, limit + 4](out, 1)
    for kb in (4, 48, 60, limit >> 10, 4):  # a kernel must request more than 48 KB
        k.shared[1, 64, kb << 10](out, kb << 8)
        assert out[0].item() == (kb << 8) - 1
    k.small[1, 128](out)
    assert out[:128].sum().item() >= 127


@on_gpu
def test_printf_comes_out_in_the_cell_and_in_order(capfd):
    k = jit.load_cuda("""
    __global__ void hello(int n) { printf("thread %d of %d\\n", threadIdx.x, n); }
    """)
    print("before")
    k[1, 2](2)
    print("after")
    out = capfd.readouterr().out
    assert out == "before\nthread 0 of 2\nthread 1 of 2\nafter\n"


@on_gpu
def test_launches_use_torchs_current_stream_or_their_argument():
    k, n = jit.load_cuda(SAXPY), 1000
    y, x = torch.zeros(n, device="cuda"), torch.ones(n, device="cuda")
    k[4, 256](y, x, 0.0, n)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    protocol = type("S", (), {"__cuda_stream__": lambda self: (0, side.cuda_stream)})
    for stream in (None, side, side.cuda_stream, protocol()):
        y.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(200_000_000)  # the stream is busy for about 0.1 s
            if stream is None:
                k[4, 256](y, x, 2.0, n)
        if stream is not None:
            k[4, 256, 0, stream](y, x, 2.0, n)
        snapshot = y.clone()  # the default stream does not wait
        assert snapshot.sum().item() == 0
        side.synchronize()
        assert y.sum().item() == 2 * n


@on_gpu
def test_memory_that_another_stream_still_uses_is_not_reused():
    k, n = jit.load_cuda(SAXPY), 1 << 20
    side, out = torch.cuda.Stream(), torch.zeros(n, device="cuda")
    x = torch.ones(n, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(100_000_000)
    k[n // 256, 256, 0, side](out, x, 3.0, n)
    del x
    torch.full((n,), torch.nan, device="cuda")  # this would instantly reuse x's memory
    side.synchronize()
    assert out.sum().item() == 3 * n


@on_gpu
def test_launches_are_captured_in_a_graph():
    k, n = jit.load_cuda(SAXPY), 1000
    talks = jit.load_cuda("""
    __global__ void talks(float *y) { if (y[0] < 0) printf("never\\n"); y[0] += 1; }
    """)
    y, x = torch.zeros(n, device="cuda"), torch.ones(n, device="cuda")
    k[4, 256](y, x, 0.0, n)
    talks[1, 1](y)
    y.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        k[4, 256](y, x, 2.0, n)
        k[4, 256](y, x, 1.0, n)
        talks[1, 1](y)
    assert y.sum().item() == 0
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert y[1:].eq(9).all() and y[0].item() == 12


@on_gpu
def test_blocks_wait_for_each_other_in_a_cooperative_launch():
    k = jit.load_cuda("""
    #include <cooperative_groups.h>
    namespace cg = cooperative_groups;
    __global__ void shift(float *out, float *part) {
        auto grid = cg::this_grid();
        part[grid.thread_rank()] = grid.thread_rank();
        grid.sync();
        out[grid.thread_rank()] = part[grid.size() - 1 - grid.thread_rank()];
    }
    """)
    out, part = torch.zeros(2, 64 * 256, device="cuda")
    for _ in range(3):
        part.zero_()
        k[64, 256](out, part)
        assert torch.equal(out, torch.arange(64 * 256, device="cuda").flip(0).float())


@on_gpu
def test_a_thread_that_never_saw_cuda_may_launch():
    k, n, failures = jit.load_cuda(SAXPY), 1000, []
    y, x = torch.zeros(n, device="cuda"), torch.ones(n, device="cuda")
    k[4, 256](y, x, 1.0, n)

    def work():
        try:
            for _ in range(100):
                k[4, 256](y, x, 1.0, n)
            torch.cuda.synchronize()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    assert not failures
    # The threads share a stream, so their launches follow each other, and none is lost.
    assert y.eq(401).all()


@on_gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_the_arrays_choose_the_gpu():
    k, n = jit.load_cuda(SAXPY), 1000
    for _ in range(3):
        for device in ("cuda:1", "cuda:0"):
            y, x = torch.zeros(n, device=device), torch.ones(n, device=device)
            k[4, 256](y, x, 2.0, n)
            assert y.eq(2).all() and torch.cuda.current_device() == 0
    with pytest.raises(ArgumentError, match="two devices.*cuda:0.*cuda:1"):
        k[4, 256](x, torch.zeros(n, device="cuda:1"), 1.0, n)


@on_gpu
def test_a_cell_comes_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_root", tmp_path)
    first = gpu.compile(SAXPY, expressions=["saxpy"])
    second = gpu.compile(SAXPY, "cell [8]", expressions=["saxpy"])
    assert (first.cached, second.cached) == (False, True)
    assert second.report == first.report and second.program.ptx == first.program.ptx
    for change in (
        {"flags": ["-DX"]},
        {"headers": {"a.h": ""}},
        {"expressions": []},
    ):
        assert not gpu.compile(SAXPY, **{"expressions": ["saxpy"], **change}).cached
    files = list((tmp_path / "cells").iterdir())
    assert len(files) == 4 and all(f.suffix == ".cubin" for f in files)


@on_gpu
def test_globals_begin_afresh_with_each_compilation():
    source = """__device__ int calls = 0;
    __global__ void count(int *out) { out[0] = ++calls; }"""
    out = torch.zeros(1, dtype=torch.int32, device="cuda")
    first, second = jit.load_cuda(source), jit.load_cuda(source)
    for k, expected in [(first, 1), (first, 2), (second, 1), (first, 3)]:
        k[1, 1](out)
        assert out.item() == expected


@on_gpu
def test_the_report_names_a_kernels_resources():
    source = """__global__ void __launch_bounds__(1024, 2) k(float *x, int n) {
        __shared__ float s[1024];
        s[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        x[threadIdx.x] = s[n];
    }"""
    compiled = gpu.compile(source, expressions=["k"])
    assert re.fullmatch(
        r"k · \d+ registers · 4 KB shared · \d+% occupancy at \d+ threads a block"
        r" · sm_\d+a?",
        compiled.report,
    ), compiled.report
    function, device = compiled.function("k", compiled.device), compiled.device
    with driver.use_device(device):
        best = driver.count_occupancy(function, driver.best_block(function), 0, device)
        assert 0 < driver.count_occupancy(function, 32, 0, device) < best <= 1
        assert driver.count_occupancy(function, 256, 40 << 10, device) < 1


@on_gpu
def test_an_error_is_shown_on_the_readers_line():
    with pytest.raises(jit.CompileError) as error:
        gpu.compile("__global__ void k(float *o) {\n    o[0] = y;\n}", name="cell [7]")
    assert "cell [7], line 2" in str(error.value) and "o[0] = y;" in str(error.value)


@on_gpu
def test_later_launches_take_the_quick_way():
    """The test does not measure speed, only that later launches bind nothing."""
    k, n = jit.load_cuda(SAXPY), 1000
    y, x = torch.zeros(n, device="cuda"), torch.ones(n, device="cuda")
    k[4, 256](y, x, 1.0, n)
    bound = []
    with pytest.MonkeyPatch.context() as patch:
        original = arguments.Binder.bind
        patch.setattr(
            arguments.Binder, "bind", lambda *a: bound.append(a) or original(*a)
        )
        for _ in range(10):
            k[4, 256](y, x, 1.0, n)
    torch.cuda.synchronize()
    assert not bound and y.eq(11).all()


FAULTS = {
    "an illegal address": "o[1ull << 40] = 1;",
    "a misaligned address": "*(double *)((char *)o + 4) = 1;",
    "a failed assert": "assert(o[0] > 5);",
    "an illegal instruction|an unspecified launch failure": "__trap();",
}


@on_gpu
def test_a_fault_is_reported_once_and_then_every_launch_is_refused():
    """Each fault has a separate process, which must end alone; all run in parallel."""
    script = """
    import sys, torch
    from weft import cells as jit, ops; from weft.toolchain import native
    from weft.cells.gpu import loader as gpu
    k = jit.load_cuda("__global__ void bad(float *o) { BODY }", target="cuda")
    fine = jit.load_cuda("__global__ void fine(float *o) { o[0] = 1; }", target="cuda")
    x = torch.zeros(8, device="cuda")
    fine[1, 1](x)
    try:
        k[1, 1](x)
        if NOTICED_BY_TORCH:
            torch.cuda.synchronize()
        gpu.wait_for_device()
        print("no fault")
    except native.DeviceLost as lost:
        print("LOST", lost)
    except RuntimeError as error:
        print("TORCH", str(error).splitlines()[0])
        print("LOST", gpu.find_fault())
    for call in (lambda: fine[1, 1](x), gpu.wait_for_device, lambda: k[1, 1](x),
                 lambda: jit.load_cuda("__global__ void z() {}", target="cuda")):
        try:
            call()
            print("went on")
        except native.DeviceLost as lost:
            print("REFUSED", "restart the kernel" in str(lost))
    y = torch.zeros(4)
    jit.load_cuda("__global__ void c(float *o) { o[0] = 1; }", target="cpu")[1, 1](y)
    print("CPU", y[0].item())
    """
    script = textwrap.dedent(script)
    runs = {}
    for cause, body in FAULTS.items():
        noticed = str("misaligned" in cause)
        text = script.replace("BODY", body).replace("NOTICED_BY_TORCH", noticed)
        runs[cause] = subprocess.Popen(
            [sys.executable, "-c", text],
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True},
        )
    for cause, process in runs.items():
        out, err = process.communicate(timeout=300)
        lines = out.splitlines()
        assert re.search(f"LOST .*({cause}).*restart the kernel", out), out + err
        assert lines.count("REFUSED True") == 4 and "went on" not in out, out + err
        assert "CPU 1.0" in lines and process.returncode == 0, out + err
        assert ("TORCH" in out) == ("misaligned" in cause), out + err
        if "assert" in cause:
            assert "Assertion `o[0] > 5` failed" in out + err, out + err


@on_gpu
def test_a_fault_of_an_isolated_cell_costs_its_process_only():
    source = """
__global__ void bad(float *o) { o[1ull << 40] = 1; }
__global__ void loop(volatile float *o) { while (o[0] < 1e9f) {} }
__global__ void good(float *o) { o[threadIdx.x] = 5; }
"""
    k = jit.load_cuda(source, target="cuda", isolated=True, timeout=2)
    o = torch.zeros(4, device="cuda")
    with pytest.raises(KernelFault, match=r"bad.*illegal address.*goes on"):
        k.bad[1, 1](o)
    with pytest.raises(KernelFault, match=r"loop: it ran longer than 2 s"):
        k.loop[1, 1](o)
    k.good[1, 4](o)
    assert o.eq(5).all()
