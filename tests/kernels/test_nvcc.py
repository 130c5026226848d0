"""nvcc accepts each source, and kernels for compute capability 7.5 fit its limits."""

import functools
import re
import subprocess
from pathlib import Path

import pytest

from weft.toolchain import build

# Limits of a block, a thread, and static shared memory.
REGISTERS, PER_THREAD, SHARED = 1 << 16, 255, 48 << 10
NEWER = re.compile(  # the files whose rungs need a later capability
    r"04_bulk|\d\d_tma|12_k_groups|\d\d_(wmma|mma)_(bf16|tf32|3xtf32)|3\d_wgmma|_mma$|conv2_mma"
)
needs_nvcc = pytest.mark.skipif(not build.nvcc(), reason="needs nvcc")
# cutlass.cu needs CUTLASS's headers, from a wheel that the lab does not require.
CU = sorted({*build.KERNELS.rglob("*.cu")} - {build.KERNELS / "vendor" / "cutlass.cu"})
SOURCES = [path for path in CU if not NEWER.search(path.stem)]
# The sources with code of their own for some architectures, and one op.
VARIED = [
    path
    for path in CU
    if path not in SOURCES or "cluster" in path.stem or path.parent.name == "reduce"
]
# These launches have a constant number of threads, which ptxas does not receive.
LAUNCHED = {
    "conv2d_tiled": 128,
    "linear_tiled": 128,
    "linear_tiled_few": 256,
    "add_in_order": 256,
}
LARGEST = 1024  # threads of a block, if the kernel states no maximum


def read_usage(log: str) -> dict[str, tuple[int, int]]:
    """Return each kernel's registers per thread and bytes of static shared memory."""
    usage = {}
    parts = re.split(r"Compiling entry function '(\w+)' for '(\w+)'", log)
    for name, arch, text in zip(parts[1::3], parts[2::3], parts[3::3]):
        if arch == "sm_75":
            shared = re.search(r"(\d+) bytes smem", text)
            registers = int(re.search(r"Used (\d+) registers", text)[1])
            usage[name] = registers, int(shared[1]) if shared else 0
    return usage


def find_threads(name: str, ptx: str) -> int:
    """Return the maximum number of threads of a block of the kernel."""
    entry = re.search(rf"\.entry {name}\([^{{]*", ptx)[0]
    if stated := re.search(r"\.maxntid (\d+)", entry):
        return int(stated[1])
    plain = re.match(r"_Z(\d+)(\w+)", name)
    return LAUNCHED.get(plain[2][: int(plain[1])], LARGEST) if plain else LARGEST


def find_warnings(log: str) -> list[str]:
    """Return the lines that are not part of ptxas's report on registers."""
    report = r"ptxas info +: |    \d+ bytes stack frame, "
    return [line for line in log.splitlines() if not re.match(report, line)]


@functools.cache
def fast_nvcc() -> list[str]:
    """Return options that make nvcc five times as fast, if it supports them."""
    flag = "--Ofast-compile"
    help_text = subprocess.run([build.nvcc(), "--help"], text=True, capture_output=True)
    return [f"{flag}=max"] if flag in help_text.stdout else []


def accept_device_code(path: Path, sm: str, out: Path) -> None:
    """Compile a source to unoptimized machine code, without a warning.

    nvcc only parses the host's code.
    """
    command = build._make_command(path, build.Flavour("cuda", sm=sm))
    command[command.index("-c")] = "-cubin"
    # nvcc accepts only one of these levels.
    if not any("ptxas" in word for word in command):
        command += fast_nvcc()
    proc = subprocess.run([*command, "-o", out, path], text=True, capture_output=True)
    assert (proc.returncode, proc.stdout + proc.stderr) == (0, "")


@needs_nvcc
@pytest.mark.parametrize("path", [build.KERNELS / "relu.cu"], ids=lambda p: p.stem)
def test_nvcc_accepts_a_cu_without_a_warning(path, tmp_path):
    """This test compiles one source; slow tests compile all of them."""
    accept_device_code(path, "90a", tmp_path / "k.cubin")


@needs_nvcc
@pytest.mark.slow
@pytest.mark.parametrize("path", VARIED, ids=lambda p: p.stem)
def test_nvcc_accepts_sources_with_code_for_some_architectures(path, tmp_path):
    """The rungs of matmul, which compile slowly, are compiled only for the oldest
    architecture."""
    oldest, *others = (sm for sm in build.CHECK_SMS if sm != "90a")
    for sm in [oldest] if path.parent.name == "matmul" else [oldest, *others]:
        accept_device_code(path, sm, tmp_path / f"{sm}.cubin")


@needs_nvcc
@pytest.mark.slow
@pytest.mark.parametrize("path", CU, ids=lambda p: p.stem)
def test_nvcc_accepts_a_source_and_its_kernels_fit_compute_capability_7_5(
    path, tmp_path
):
    """One command compiles the host's code, and the kernels for 7.5 and 9.0a."""
    command = build._make_command(path, build.Flavour("cuda", sm="90a"))
    # Without -O3, g++ does not optimize the host's code, but ptxas still optimizes the
    # kernels.
    command.remove("-O3")
    if path in SOURCES:
        command += ["-gencode=arch=compute_75,code=sm_75", "-Xptxas=-v"]
        command += ["--keep", "--keep-dir", str(tmp_path)]
    process = subprocess.run(
        [*command, "-o", str(tmp_path / "out.o"), str(path)],
        text=True,
        capture_output=True,
    )
    log = process.stdout + process.stderr
    assert (process.returncode, find_warnings(log)) == (0, [])
    ptx = "".join(file.read_text() for file in tmp_path.glob("*compute_75*.ptx"))
    assert bool(ptx) == (path in SOURCES)
    for name, (registers, shared) in read_usage(log).items():
        threads = find_threads(name, ptx)
        assert registers <= PER_THREAD and shared <= SHARED, name
        room = -(-registers // 8) * 8 * threads  # registers come in groups of eight
        assert room <= REGISTERS, f"{name}: {registers} registers, {threads} threads"


def test_a_warning_is_not_part_of_the_report_on_registers():
    log = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'add' for 'sm_75'
ptxas info    : Function properties for add
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, 8 bytes smem, 376 bytes cmem[0]
ptxas info    : Compiling entry function 'add' for 'sm_90a'
ptxas info    : Used 14 registers, used 0 barriers
"""
    assert find_warnings(log) == [] and read_usage(log) == {"add": (12, 8)}
    warning = "add.cu(3): warning #177-D: variable was declared but never referenced"
    assert find_warnings(log + warning) == [warning]


@pytest.mark.parametrize(("name", "threads"), LAUNCHED.items())
def test_the_launches_of_large_kernels_have_that_many_threads(name, threads):
    constants = {256: "THREADS", 128: "TILE_THREADS"}
    text = "".join(path.read_text() for path in SOURCES)
    launches = re.findall(rf"\b{name}<<<([^;]*?)>>>", text)
    named = rf", {constants[threads]}(,|$)"
    assert launches and all(re.search(named, one) for one in launches)
    headers = "".join(path.read_text() for path in build.KERNELS.glob("common/*.cuh"))
    sides = [int(re.search(rf"TILE_{side} = (\d+)", headers)[1])
             for side in ("ROWS", "COLS")]  # fmt: skip
    assert "TILE_THREADS = TILE_ROWS * TILE_COLS / 16" in headers
    values = {"TILE_THREADS": sides[0] * sides[1] // 16}
    values["THREADS"] = int(re.search(r"enum { THREADS = (\d+)", headers)[1])
    assert values[constants[threads]] == threads
