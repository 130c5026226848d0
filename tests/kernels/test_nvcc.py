"""nvcc accepts each source, and kernels for compute capability 7.5 fit its limits."""

import functools
import re
import subprocess
from pathlib import Path

import pytest
from tiers import only

from weft.toolchain import build

# Limits of a block, a thread, and static shared memory.
REGISTERS, PER_THREAD, SHARED = 1 << 16, 255, 48 << 10
NEWER = re.compile(  # the files whose rungs need a later capability
    r"04_bulk|\d\d_tma|12_k_groups|\d\d_(wmma|mma)_(bf16|tf32|3xtf32)|3\d_wgmma|_mma$|conv2_mma"
)
needs_nvcc = pytest.mark.skipif(not build.nvcc(), reason="needs nvcc")
# cutlass.cu needs CUTLASS's headers, from a wheel that the lab does not require.
CU = sorted({*build.KERNELS.rglob("*.cu")} - {build.KERNELS / "vendor" / "cutlass.cu"})
# One op, and the sources with code of their own for some architectures. The rungs of
# matmul compile slowly.
VARIED = sorted(build.KERNELS.glob("reduce/*.cu"))
VARIED += [
    path
    for path in CU
    if path.parent.name != "matmul"
    and (NEWER.search(path.stem) or "cluster" in path.stem)
]
# These sources define functions or constants that headers of other sources declare.
APART = {
    "common",
    "micrograd",
    "mnist",
    "fused.cu",
    "matmul.cu",
    "pack.cu",
    "partials.cu",
}
APART |= {path.name for path in build.KERNELS.glob("matmul/[14]*.cu")}
APART |= {"01_sort.cu", "03_radix_select.cu"}
# These launches have a constant number of threads, which ptxas does not receive.
LAUNCHED = {
    "conv2d_tiled": 128,
    "linear_tiled": 128,
    "linear_tiled_few": 256,
}
LARGEST = 1024  # threads of a block, if the kernel states no maximum


def group_sources(paths: list[Path]) -> dict[str, list[Path]]:
    """Return lists of the sources that nvcc can compile as one, by name."""
    groups: dict[str, list[Path]] = {}
    for path in paths:
        alone = {path.name, path.parent.name} & APART
        name = str((path if alone else path.parent).relative_to(build.ROOT))
        if family := re.search("wgmma|wmma|mma", path.stem):
            name += f"/{family[0]}"
        name += "/newer" * bool(NEWER.search(path.stem))
        groups.setdefault(name, []).append(path)
    return groups


def join_sources(paths: list[Path]) -> str:
    """Return one source with each of the sources in a namespace of its own.

    nvcc reads 40,000 lines of headers for a source, which takes longer than the rest of
    most sources. The headers are included first, so that their guards keep them out of
    the namespaces. g++ compiles each source alone, which finds a missing header.
    """
    if len(paths) == 1:
        return f'#include "{paths[0]}"\n'
    headers, sources = {}, []
    for number, path in enumerate(paths):
        text = path.read_text()
        for name in re.findall(r'^#include ([<"].*[>"])$', text, re.M):
            beside = path.parent / name.strip('"')
            headers[f'"{beside}"' if beside.exists() else name] = None
        sources.append(f'namespace source_{number}_ {{\n#include "{path}"\n}}')
        macros = dict.fromkeys(re.findall(r"^ *# *define (\w+)", text, re.M))
        sources += [f"#undef {name}" for name in macros]
    return "\n".join([*(f"#include {name}" for name in headers), *sources]) + "\n"


def read_usage(log: str) -> dict[str, tuple[int, int]]:
    """Return each kernel's registers per thread and bytes of static shared memory."""
    usage = {}
    parts = re.split(r"Compiling entry function '(\w+)' for 'sm_75'", log)
    for name, text in zip(parts[1::2], parts[2::2]):
        shared = re.search(r"(\d+) bytes smem", text)
        registers = int(re.search(r"Used (\d+) registers", text)[1])
        usage[name] = registers, int(shared[1]) if shared else 0
    return usage


def find_threads(name: str, ptx: str) -> int:
    """Return the maximum number of threads of a block of the kernel."""
    entry = re.search(rf"\.entry {name}\([^{{]*", ptx)[0]
    if stated := re.search(r"\.maxntid (\d+)", entry):
        return int(stated[1])
    plain = re.match(r"_Z(?:N\d+source_\d+_)?(\d+)(\w+)", name)
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


def accept_device_code(paths: list[Path], sm: str, folder: Path) -> None:
    """Compile sources to machine code, without a warning.

    nvcc only parses the host's code.
    """
    source = folder / "all.cu"
    source.write_text(join_sources(paths))
    command = build._make_command(paths[0], build.Flavour("cuda", sm=sm))
    command[command.index("-c")] = "-cubin"
    # Only optimized code has warnings about wgmma. nvcc accepts only one of the levels.
    if "wgmma" not in paths[0].stem and not any("ptxas" in word for word in command):
        command += fast_nvcc()
    command += ["-o", folder / f"{sm}.cubin", source]
    proc = subprocess.run(command, text=True, capture_output=True)
    assert (proc.returncode, proc.stdout + proc.stderr) == (0, "")


@needs_nvcc
@pytest.mark.parametrize("name", only(["kernels"], group_sources(CU)))
def test_nvcc_accepts_device_code_without_a_warning(name, tmp_path):
    accept_device_code(group_sources(CU)[name], "90a", tmp_path)


@needs_nvcc
@pytest.mark.slow
@pytest.mark.parametrize("name", group_sources(VARIED))
def test_nvcc_accepts_sources_with_code_for_some_architectures(name, tmp_path):
    for sm in ("80", "100"):
        accept_device_code(group_sources(VARIED)[name], sm, tmp_path)


@needs_nvcc
@pytest.mark.slow
@pytest.mark.parametrize("name", group_sources(CU))
def test_nvcc_accepts_sources_and_their_kernels_fit_compute_capability_7_5(
    name, tmp_path
):
    paths = group_sources(CU)[name]
    (tmp_path / "all.cu").write_text(join_sources(paths))
    command = build._make_command(paths[0], build.Flavour("cuda", sm="75"))
    # Without -O3, g++ does not optimize the host's code, but ptxas optimizes kernels.
    command.remove("-O3")
    if not name.endswith("newer"):
        command.append("-Xptxas=-v")
    elif not any("ptxas" in word for word in command):
        command += fast_nvcc()
    command += ["--keep", "--keep-dir", tmp_path]
    command += ["-o", tmp_path / "out.o", tmp_path / "all.cu"]
    process = subprocess.run(command, text=True, capture_output=True)
    log = process.stdout + process.stderr
    assert (process.returncode, find_warnings(log)) == (0, [])
    assert ("ptxas info" in log) != name.endswith("newer")
    (ptx,) = (file.read_text() for file in tmp_path.glob("*.ptx"))
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
"""
    assert find_warnings(log) == [] and read_usage(log) == {"add": (12, 8)}
    warning = "add.cu(3): warning #177-D: variable was declared but never referenced"
    assert find_warnings(log + warning) == [warning]


def test_the_threads_of_a_kernel_in_a_namespace_are_found():
    name = "_ZN9source_3_12conv2d_tiledEPf"
    assert find_threads(name, f".visible .entry {name}(\n)\n{{") == 128
    assert find_threads(name, f".entry {name}()\n.maxntid 64\n{{") == 64


@pytest.mark.parametrize(("name", "threads"), LAUNCHED.items())
def test_the_launches_of_large_kernels_have_that_many_threads(name, threads):
    constants = {256: "THREADS", 128: "TILE_THREADS"}
    text = "".join(path.read_text() for path in CU)
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
