"""Kernels of rungs that claim compute capability 7.5 fit its registers and memory."""

import re
import subprocess

import pytest

from weft.toolchain import build

# Limits of a block, a thread, and static shared memory.
REGISTERS, PER_THREAD, SHARED = 1 << 16, 255, 48 << 10
NEWER = re.compile(  # the files whose rungs need a later capability
    r"04_bulk|\d\d_tma|12_k_groups|\d\d_(wmma|mma)_(bf16|tf32|3xtf32)|3\d_wgmma|_mma$|conv2_mma"
)
SOURCES = sorted(
    path
    for path in {p for op in build.list_ops() for p in build.list_sources(op, "cuda")}
    if not NEWER.search(path.stem)
)
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
    parts = re.split(r"Compiling entry function '(\w+)'", log)
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
    plain = re.match(r"_Z(\d+)(\w+)", name)
    return LAUNCHED.get(plain[2][: int(plain[1])], LARGEST) if plain else LARGEST


@pytest.mark.slow
@pytest.mark.skipif(not build.nvcc(), reason="needs nvcc")
@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.stem)
def test_a_kernel_fits_compute_capability_7_5(path, tmp_path):
    command = build._make_command(path, build.Flavour("cuda", sm="75"))
    command[command.index("-c")] = "-cubin"
    command += ["-Xptxas=-v", "--keep", "--keep-dir", str(tmp_path)]
    process = subprocess.run(
        [*command, "-o", str(tmp_path / "out.cubin"), str(path)],
        text=True,
        capture_output=True,
    )
    assert process.returncode == 0, process.stderr
    ptx = "".join(file.read_text() for file in tmp_path.glob("*.ptx"))
    for name, (registers, shared) in read_usage(process.stderr).items():
        threads = find_threads(name, ptx)
        assert registers <= PER_THREAD and shared <= SHARED, name
        room = -(-registers // 8) * 8 * threads  # registers come in groups of eight
        assert room <= REGISTERS, f"{name}: {registers} registers, {threads} threads"


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
