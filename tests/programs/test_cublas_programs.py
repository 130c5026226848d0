"""python -m weft run: programs that call cuBLAS and cuBLASLt."""

import subprocess
import sys
from pathlib import Path

import pytest
from test_run import start
from tiers import only

from weft.base.errors import BuildError
from weft.programs import program, run
from weft.toolchain import tools

PROGRAMS = Path(__file__).parent / "libraries"
PRINTS = {
    "sgemm.cu": "equal\nan invalid value was passed\n",
    "vectors.cu": "-10 2 14 26 38 50 62 74 \n1 2.2361 3600\n",
    "batches.cu": "-1 0 0 25\n",
    "lt.cu": "CUBLAS_STATUS_SUCCESS 0\n",
}
FLAGS = ["-O1", "-lcublas", "-lcublasLt", "-arch=sm_80"]


def weft(command: str, *words: str, **options) -> subprocess.CompletedProcess:
    """Run the command; its output is text."""
    line = [sys.executable, "-m", "weft", command, *words]
    return subprocess.run(line, text=True, capture_output=True, timeout=120, **options)


@pytest.mark.parametrize("name", only(["sgemm.cu"], PRINTS))
@pytest.mark.parametrize("command", only(["run"], ["run", "inspect"]))
def test_a_program_prints_the_expected_lines(name, command):
    result = weft(command, name, *FLAGS, cwd=PROGRAMS)
    assert (result.stdout, result.returncode) == (PRINTS[name], 0), result.stderr


@pytest.mark.slow
def test_a_file_without_cuda_c_may_call_cublas(tmp_path):
    text = (PROGRAMS / "vectors.cu").read_text()
    # nvcc, too, defines no min() in such a file.
    text += "template <class T> T min(T a, T b) { return a < b ? a : b; }\n"
    (tmp_path / "a.cpp").write_text(text)
    result = weft("run", "a.cpp", "-lcublas", cwd=tmp_path)
    assert (result.stdout, result.returncode) == (PRINTS["vectors.cu"], 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", PRINTS)
def test_nvcc_accepts_the_programs(name, tmp_path):
    headers = tools.vendor_headers(tuple(sys.path))
    if not tools.nvcc() or not headers:
        pytest.skip("nvcc or the headers of the wheel nvidia-cublas are missing")
    command = [tools.nvcc(), "-c", "-std=c++17", *headers, str(PROGRAMS / name)]
    result = tools.run([*command, "-o", str(tmp_path / "a.o")])
    assert not result.returncode, result.stderr


FAULTS = """
#include <cublas_v2.h>
#include <stdio.h>
#include <stdlib.h>
int main(int, char **arguments) {
    const int fault = atoi(arguments[1]);
    float *a, *c, *host = (float *)calloc(16, 4), one = 1, *alpha = &one;
    cudaMalloc(&a, 16 * sizeof(float));
    cudaMalloc(&c, 16 * sizeof(float));
    cudaMemset(a, 0, 64);
    cublasHandle_t handle;
    cublasCreate(&handle);
    if (fault == 1) a = host;
    if (fault == 2) alpha = a;
    if (fault == 3) cudaFree(c);
    if (fault == 4) c = 0;
    if (fault == 5) cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE);
    cublasStatus_t status =
        cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, alpha, a, 4,
                    fault == 6 ? a + 1 : a, 4, &one, c, fault == 7 ? 5 : 4);
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
    "fault, message",
    [
        (0, ""),
        (1, "reads A at 0x{}, which is host memory"),
        (2, "the host reads alpha, which is device memory: allocation 1 (cudaMalloc"),
        (3, "writes C at 0x{}, 0 bytes into allocation 2 (cudaMalloc, 64 bytes at 0x{})"
         ", which is freed"),
        (4, "writes C at (nil) (a null pointer)"),
        (5, "reads alpha at 0x{}, which is host memory"),
        (6, "reads B: 64 bytes, 4 bytes past the end of allocation 1 (cudaMalloc"),
        (7, "writes C: 76 bytes, 12 bytes past the end of allocation 2 (cudaMalloc"),
    ],
)  # fmt: skip
def test_memory_that_a_gpu_could_not_access_is_one_error(faults, fault, message):
    result = start("a.cu", "-O0", "--", str(fault), cwd=faults)
    assert result.stdout == ("13 700\n" if message else "0 0\n")
    assert result.returncode == bool(message)
    assert result.stderr.count("\n") == bool(message)
    if message:
        text = result.stderr.removeprefix("weft: cublasSgemm: illegal address: ")
        pieces = message.split("0x{}")
        assert text.startswith(pieces[0]) and all(piece in text for piece in pieces)


@pytest.mark.slow
def test_the_watch_build_knows_what_the_library_has_written(tmp_path):
    """A kernel reads the product, but not the unwritten memory behind it."""
    (tmp_path / "a.cu").write_text("""
#include <cublas_v2.h>
__global__ void copy(float *to, const float *from) {
    to[threadIdx.x] = from[threadIdx.x];
}
int main(int argc, char **) {
    float *a, *c, one = 1, zero = 0;
    cudaMalloc(&a, 16 * sizeof(float));
    cudaMalloc(&c, 32 * sizeof(float));
    cudaMemset(a, 0, 64);
    cublasHandle_t handle;
    cublasCreate(&handle);
    cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, a, 4, a, 4, &zero,
                c, 4);
    copy<<<1, argc == 2 ? 17 : 16>>>(a, c);
    if (argc == 3) cublasSscal(handle, 17, &one, a, 1);
    return cudaDeviceSynchronize() || cublasDestroy(handle);
}
""")
    result = weft("inspect", "a.cu", cwd=tmp_path)
    assert "nothing wrong" in result.stderr and result.returncode == 0
    result = weft("inspect", "a.cu", "--", "more", cwd=tmp_path)
    assert "nothing wrong" not in result.stderr and result.returncode == 1
    result = weft("inspect", "a.cu", "--", "one", "two", cwd=tmp_path)
    message = "cublasSscal: illegal address: writes x: 68 bytes, 4 bytes past the end"
    assert f"nothing wrong in its kernels, but in {message}" in result.stderr
    assert result.returncode == 1


@pytest.mark.parametrize(
    "include, call, message",
    [
        ("cublas_v2.h", "cublasStrsm(0, 1)", "cublasStrsm is not in the part of"),
        ("cublas_v2.h", "CUBLAS_NEW", "CUBLAS_NEW is not in the part of cuBLAS"),
        ("cuda.h", "cublasCreate(0)", "'cublasCreate' was not declared"),
    ],
)  # fmt: skip
def test_a_missing_name_is_one_error(include, call, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = f"#include <{include}>\nint main() {{\n    {call};\n    {call};\n}}\n"
    Path("a.cu").write_text(text)
    with pytest.raises(BuildError) as caught:
        program.build_executable(run.parse(["a.cu"]).program)
    lines = str(caught.value).split("\n")
    assert lines[0].startswith(f"a.cu:3:5: error: {message}")
    if include == "cublas_v2.h":
        assert len(lines) == 3  # the message, the line and the caret
