"""The CUDA runtime API on the CPU. The checks of simt/api_*.cu are calls with known
answers; other tests observe a process from outside."""

import ctypes
import re
import subprocess
import sys
from pathlib import Path

import pytest

from weft.toolchain import build, tools

FOLDER = Path(__file__).parent / "simt"
FILES = sorted(FOLDER.glob("api_*.cu"))
CHECKS = [
    (path.name, name)
    for path in FILES
    for name in re.findall(r"^CHECK\((\w+)\)", path.read_text(), re.M)
]


@pytest.fixture(scope="module")
def path():
    """Build the library of all checks; the runtime is found through it."""
    return build.library_of("test_simt_api", FILES, build.Flavour.here("cpu"))


@pytest.fixture(scope="module")
def lib(path):
    lib = ctypes.CDLL(str(path))
    lib.simt_set_threads(2)
    yield lib
    lib.simt_set_threads(0)


@pytest.fixture(scope="module")
def lines(path):
    """Return for each check the line at which it failed, or 0. The checks run in a
    separate process, since the watch build may change allocations in this one."""
    body = "lib.simt_set_threads(2)\nfor name in sys.argv[1:]:\n"
    body += "    print(name, getattr(lib, 'check_' + name)(), flush=True)\n"
    result = run(path, body, *(name for _, name in CHECKS))
    pairs = (line.split() for line in result.stdout.splitlines())
    return {name: int(line) for name, line in pairs}, result.stderr


@pytest.mark.parametrize("file, name", CHECKS)
def test_check(lines, file, name):
    results, output = lines
    assert name in results, f"{name} did not come to its end: {output}"
    assert results[name] == 0, f"tests/kernels/simt/{file}:{results[name]}"


def run(path: Path, body: str, *words: str) -> subprocess.CompletedProcess:
    """Run a Python program with `lib`; return its output and status."""
    head = f"import ctypes, sys\nlib = ctypes.CDLL({str(path)!r})\n"
    command = [sys.executable, "-c", head + body, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    "call, message",
    [
        (
            "overrun_and_exit",
            "1 to 96 bytes after the end of allocation 1 (cudaMalloc, 4000 bytes",
        ),
        (
            "underrun_and_free",
            "5 to 12 bytes before the start of allocation 1 (cudaMalloc, 64 bytes",
        ),
        (
            "write_after_free",
            "use after free: byte 8 of allocation 16385 (cudaMalloc, 64 bytes",
        ),
    ],
)
def test_damage_is_told_in_one_line(path, call, message):
    result = run(path, f"lib.{call}()")
    assert result.returncode == 0
    assert message in result.stderr and result.stderr.count("\n") == 1


def test_a_program_that_behaves_says_nothing(path):
    result = run(path, "assert lib.check_copies_of_boxes() == 0")
    assert (result.returncode, result.stderr) == (0, "")


def test_errors_stick_in_whole_programs(path):
    result = run(path, "lib.simt_set_sticky(1); sys.exit(lib.sticky_errors())")
    assert result.returncode == 0, (
        f"tests/kernels/simt/api_stream.cu:{result.returncode}"
    )


def test_host_memory_is_no_device_memory_in_whole_programs(path):
    body = "lib.simt_set_strict({}); print(lib.copy_to_a_host_pointer())"
    assert run(path, body.format(0)).stdout == "0\n"
    assert run(path, body.format(1)).stdout == "10000\n"


def test_a_graph_drawn(lib, tmp_path):
    drawing = tmp_path / "graph.dot"
    assert lib.draw(str(drawing).encode()) == 0
    text = drawing.read_text()
    assert text.startswith("digraph") and text.count("->") == 2
    assert 'node_0 [label="0 memset"]' in text and 'node_2 [label="2 add"]' in text


@pytest.mark.parametrize(
    "call, message",
    [
        ("cudaArray_t a; cudaMallocArray(&a, 0, 4);", "arrays and textures are not"),
        ("cudaIpcGetMemHandle(0, 0);", "between processes is not simulated"),
        ("cuModuleLoad(0, 0);", "the driver API is not simulated"),
        ("cudaIpcMemHandle_t handle;", "between processes is not simulated"),
        ("CUmemAllocationProp prop;", "the driver API is not simulated"),
    ],
)
def test_what_is_not_simulated_says_so_at_its_line(call, message):
    source = f"#include <cuda.h>\nint main() {{\n    {call}\n}}\n"
    include = [f"-I{folder}" for folder in build.SIMT]
    command = [tools.gxx(), "-x", "c++", "-std=c++17", *include, "-S", "-o-", "-"]
    result = subprocess.run(command, input=source, capture_output=True, text=True)
    errors = [line for line in result.stderr.splitlines() if "error:" in line]
    assert message in errors[0] and all(":3:" in error for error in errors)


def test_a_cell_sees_nothing_of_the_host_side():
    include = [f"-I{folder}" for folder in build.SIMT]
    for define, visible in [("-DSIMT_CELL", False), ("-DWHOLE", True)]:
        command = [tools.gxx(), "-x", "c++", "-std=c++17", *include, define, "-E", "-"]
        source = '#include "cuda_runtime.h"\n'
        result = subprocess.run(command, input=source, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        assert ("cudaGraphLaunch" in result.stdout) is visible
        assert "cudaGetLastError" in result.stdout
