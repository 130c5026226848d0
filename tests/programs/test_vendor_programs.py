"""python -m weft run: programs that call cuRAND, cuFFT and cuDNN."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_cublas_programs import PROGRAMS, weft
from test_run import start
from tiers import only

from weft.base.errors import BuildError
from weft.base.paths import SIMT
from weft.csource.rewrite import RewriteError
from weft.programs import program, run
from weft.toolchain import build, tools

PRINTS = {
    "random.cu": """\
pi is about 3.1363
mean 10.01, variance 4.01
546353992 3665621163 1140953199 3419031310
""",
    "fft_filter.cu": "right\n",
    "conv_layer.cu": "2 x 4 x 8 x 8, right\n",
}
FLAGS = ["-O1", "-lcurand", "-lcufft", "-lcudnn", "-arch=sm_80"]


# Their numbers are checked by tests/kernels, so the quick tier runs one program.
@pytest.mark.parametrize("name", only(["random.cu"], PRINTS))
@pytest.mark.parametrize("command", only(["run"], ["run", "inspect"]))
def test_a_program_prints_the_expected_lines(name, command):
    result = weft(command, name, *FLAGS, cwd=PROGRAMS)
    assert (result.stdout, result.returncode) == (PRINTS[name], 0), result.stderr


GRAPH = """
#include <cufft.h>
#include <curand.h>
#include <stdio.h>
int main() {
    float *x, *y, at[2];
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t run;
    curandGenerator_t g;
    cufftHandle plan;
    cudaMalloc(&x, 8 * sizeof(float));
    cudaMalloc(&y, 10 * sizeof(float));
    cudaStreamCreate(&stream);
    curandCreateGenerator(&g, CURAND_RNG_PSEUDO_PHILOX4_32_10);
    curandSetStream(g, stream);
    cufftPlan1d(&plan, 8, CUFFT_R2C, 1);
    cufftSetStream(plan, stream);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    int bad = curandGenerateUniform(g, x, 8);
    bad |= cufftExecR2C(plan, x, (cufftComplex *)y);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&run, graph, 0);
    // The graph keeps both, and each launch continues the sequence.
    curandDestroyGenerator(g);
    cufftDestroy(plan);
    float sums[2] = {};
    for (int i = 0; i < 2; i++) {
        float host[8];
        bad |= cudaGraphLaunch(run, stream);
        cudaMemcpyAsync(host, x, sizeof host, cudaMemcpyDeviceToHost, stream);
        cudaMemcpyAsync(at, y, sizeof at, cudaMemcpyDeviceToHost, stream);
        cudaStreamSynchronize(stream);
        for (float v : host) sums[i] += v;
        float difference = sums[i] - at[0];
        bad |= difference * difference > 1e-8f || at[1] != 0;
    }
    printf("%d %d\\n", bad, sums[0] != sums[1]);
}
"""


def test_a_graph_repeats_the_calls_that_a_stream_captured(tmp_path):
    (tmp_path / "a.cu").write_text(GRAPH)
    result = weft("run", "a.cu", "-O0", cwd=tmp_path)
    assert (result.stdout, result.stderr) == ("0 1\n", "")


@pytest.mark.slow
def test_a_file_without_cuda_c_may_call_the_libraries(tmp_path):
    (tmp_path / "a.cpp").write_text("""
#include <cudnn.h>
#include <cufft.h>
#include <curand.h>
#include <stdio.h>
#if !defined(CURAND_H_) || !defined(_CUFFT_H_) || !defined(CUDNN_H_)
#error "helper_cuda.h of NVIDIA's samples tests for these guards"
#endif
int main() {
    cufftComplex a = make_cuComplex(3, 4), *p;
    cufftHandle plan;
    curandGenerator_t g;
    cudnnHandle_t handle;
    cudaMalloc((void **)&p, 16 * sizeof *p);
    cudaMemset(p, 0, 16 * sizeof *p);
    int bad = cufftPlan1d(&plan, 16, CUFFT_C2C, 1);
    bad |= cufftExecC2C(plan, p, p, CUFFT_FORWARD);
    bad |= curandCreateGenerator(&g, CURAND_RNG_PSEUDO_XORWOW);
    bad |= curandGenerateUniform(g, (float *)p, 32);
    bad |= cudnnCreate(&handle);
    printf("%d %g\\n", bad, cuCabsf(a));
}
""")
    result = weft("run", "a.cpp", cwd=tmp_path)
    assert (result.stdout, result.returncode) == ("0 5\n", 0), result.stderr


FAULTS = """
#include <cudnn.h>
#include <cufft.h>
#include <curand.h>
#include <stdio.h>
#include <stdlib.h>
int main(int, char **arguments) {
    const int fault = atoi(arguments[1]);
    float *x, host[16];
    cudaMalloc(&x, 16 * sizeof(float));
    cudaMemset(x, 0, 64);
    int status = 0;
    if (fault < 2) {
        curandGenerator_t g;
        curandCreateGenerator(&g, CURAND_RNG_PSEUDO_DEFAULT);
        status = curandGenerateUniform(g, fault ? host : x, fault ? 16 : 17);
    } else if (fault < 4) {
        cufftHandle plan;
        cufftPlan1d(&plan, fault == 2 ? 8 : 9, CUFFT_C2C, 1);
        cufftComplex *c = (cufftComplex *)x;
        status = cufftExecC2C(plan, fault == 2 ? (cufftComplex *)host : c, c, -1);
    } else {
        cudnnHandle_t handle;
        cudnnTensorDescriptor_t t;
        cudnnCreate(&handle);
        cudnnCreateTensorDescriptor(&t);
        cudnnSetTensor4dDescriptor(t, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 4, 5);
        const float value = 1;
        status = cudnnSetTensor(handle, t, x, &value);
    }
    printf("%d %d\\n", status, cudaDeviceSynchronize());
}
"""


@pytest.fixture(scope="module")
def faults(tmp_path_factory):
    """Return the folder of the program with faults; the first test builds it."""
    folder = tmp_path_factory.mktemp("faults")
    (folder / "a.cu").write_text(FAULTS)
    return folder


@pytest.mark.parametrize(
    "fault, status, message",
    [
        (0, 201, "curandGenerateUniform: illegal address: writes outputPtr: 68 bytes, "
         "4 bytes past the end of allocation 1 (cudaMalloc, 64 bytes"),
        (1, 201, "which is host memory"),
        (2, 6, "cufftExecC2C: illegal address: reads idata at "),
        (3, 6, "reads idata: 72 bytes, 8 bytes past the end of allocation 1"),
        (4, 5000, "cudnnSetTensor: illegal address: writes y: 80 bytes, 16 bytes past"),
    ],
)  # fmt: skip
def test_memory_that_a_gpu_could_not_access_is_one_error(
    faults, fault, status, message
):
    result = start("a.cu", "-O0", "--", str(fault), cwd=faults)
    assert result.stdout == f"{status} 700\n"
    assert message in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.slow
def test_the_watch_build_knows_what_the_libraries_have_written(tmp_path):
    """A kernel reads the 5 numbers of a transform, but not the memory behind it."""
    (tmp_path / "a.cu").write_text("""
#include <cufft.h>
__global__ void copy(float2 *to, const float2 *from) {
    to[threadIdx.x] = from[threadIdx.x];
}
int main(int argc, char **) {
    float *x;
    float2 *y, *z;
    cufftHandle plan;
    cudaMalloc(&x, 8 * sizeof(float));
    cudaMalloc(&y, 8 * sizeof(float2));
    cudaMalloc(&z, 8 * sizeof(float2));
    cudaMemset(x, 0, 32);
    cufftPlan1d(&plan, 8, CUFFT_R2C, 1);
    cufftExecR2C(plan, x, y);
    copy<<<1, argc > 1 ? 6 : 5>>>(z, y);
    return cudaDeviceSynchronize();
}
""")
    result = weft("inspect", "a.cu", cwd=tmp_path)
    assert "nothing wrong" in result.stderr and result.returncode == 0
    result = weft("inspect", "a.cu", "--", "more", cwd=tmp_path)
    assert "nothing wrong" not in result.stderr and result.returncode == 1


@pytest.mark.parametrize(
    "header, name, library",
    only(
        [("cudnn.h", "cudnnRNNForward", "cuDNN")],
        [
            ("curand.h", "curandGenerateBinomial", "cuRAND"),
            ("cufft.h", "cufftXtSetCallback", "cuFFT"),
            ("cudnn.h", "cudnnBackendCreateDescriptor", "cuDNN"),
            ("cudnn.h", "cudnnRNNForward", "cuDNN"),
        ],
        names=3,
    ),
)
def test_a_missing_function_is_one_error(header, name, library, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (
        f"#include <{header}>\nint main() {{\n    {name}(0, 1);\n    {name}(0);\n}}\n"
    )
    Path("a.cu").write_text(text)
    with pytest.raises(BuildError) as caught:
        program.build_executable(run.parse(["a.cu"]).program)
    lines = str(caught.value).split("\n")
    reason = f"{name} is not in the part of {library} that runs on the CPU"
    assert lines[0] == f"a.cu:3:5: error: {reason}" and len(lines) == 3


@pytest.mark.parametrize("header", ["cudnn_frontend.h", "cufftXt.h"])
def test_a_missing_header_is_one_error(header, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.cu").write_text(f"#include <{header}>\nint main() {{}}\n")
    with pytest.raises(RewriteError, match=r"a\.cu:1: .*needs a GPU, and has no CPU"):
        program.build_executable(run.parse(["a.cu"]).program)


def vendor_header(name: str) -> Path:
    """Return the path of NVIDIA's header in pip's wheels, or skip the test."""
    for folder in tools.vendor_headers(tuple(sys.path))[1::2]:
        if (path := Path(folder) / name).exists():
            return path
    pytest.skip(f"no wheel with NVIDIA's {name} is installed")


@pytest.mark.parametrize(
    "header, files",
    [
        ("curand.h", ["curand.h"]),
        ("cufft.h", ["cufft.h"]),
        ("cudnn.h", ["cudnn_graph.h", "cudnn_ops.h", "cudnn_cnn.h"]),
    ],
)
def test_constants_have_nvidias_values(header, files, tmp_path):
    theirs = "".join(vendor_header(file).read_text() for file in files)
    own = (SIMT / "include" / header).read_text()
    pattern = r"^\s*(CU\w+)(?: CUDNN_DEPRECATED\w*)?\s*=\s*(-?\w+)"
    shared = [
        (name, value)
        for name, value in re.findall(pattern, theirs, re.M)
        if re.search(rf"\b{name}\b", own)
    ]
    assert len(shared) > 20
    lines = [f"static_assert((int)({n}) == (int)({v}));" for n, v in shared]
    source = tmp_path / "a.cpp"
    source.write_text(f"#include <{header}>\n" + "\n".join(lines))
    command = [build.find_tool("g++"), "-std=c++17", "-fsyntax-only", "-w"]
    command += [f"-I{folder}" for folder in build.SIMT]
    result = subprocess.run([*command, source], capture_output=True, text=True)
    assert not result.returncode, result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, header",
    [
        ("random.cu", "curand.h"),
        ("fft_filter.cu", "cufft.h"),
        ("conv_layer.cu", "cudnn.h"),
    ],
)
def test_nvcc_accepts_the_programs(name, header, tmp_path):
    folder = vendor_header(header).parent
    if not tools.nvcc():
        pytest.skip("nvcc is not installed")
    command = [tools.nvcc(), "-c", "-std=c++17", "-isystem", str(folder)]
    result = tools.run([*command, str(PROGRAMS / name), "-o", str(tmp_path / "a.o")])
    assert not result.returncode, result.stderr
