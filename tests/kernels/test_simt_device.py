"""Cooperative groups, memory and headers: device code in CUDA C."""

import ctypes
import subprocess

import numpy as np
import pytest
import simt_device
from simt_device import ints, pointer, poison
from tiers import only

from weft.toolchain import build, tools

simt, ordered = simt_device.simt, simt_device.ordered


# ---- cooperative groups ------------------------------------------------------


def test_who_a_thread_is_in_its_groups(ordered):
    out = poison((3, 6, 20, 12))
    assert ordered.load("cooperative").run_ranks(pointer(out), 3, 20, 6) == 0
    block, y, x = np.indices((3, 6, 20))
    rank = x + 20 * y
    want = [rank, 120, block, y, rank % 8, 8, rank // 8, 15]
    want += [rank % 4, rank % 8 // 4, 2, 360]
    for column, values in enumerate(want):
        np.testing.assert_array_equal(
            out[..., column], np.broadcast_to(values, y.shape)
        )


def test_one_function_for_blocks_and_tiles(ordered):
    x, out = ints(0, 256), poison(65)
    assert ordered.load("cooperative").run_group_sums(pointer(out), pointer(x)) == 0
    assert out[0] == x.sum()
    np.testing.assert_array_equal(out[1:], x.reshape(64, 4).sum(1))


@pytest.mark.parametrize("size", [4, 16, 32])
def test_tiles_on_two_sides_of_a_branch(ordered, size):
    out, wide = poison((128, 10)), np.zeros((128, 3))
    lib = ordered.load("cooperative")
    assert lib.run_tiles(pointer(out), pointer(wide), size, 128) == 0
    t = np.arange(128).reshape(-1, size)
    rank, first = t % size, t[:, :1]
    turned = np.where((t // size) % 2, first + (rank + 5) % size, t.sum(1)[:, None])
    votes = 2 * (first == 0) + 0 * t + (first == size)
    columns = [
        turned,
        np.where(rank, t - 1, t),
        np.where(rank < size - 1, t + 1, t),
        t ^ (size // 2),
        0 * t + (0xAAAAAAAA & (2**size - 1)),
        votes,
        3 << (rank // 2 * 2),
        0 * t + 3,
        np.cumsum(t, 1),
        np.cumsum(t, 1) - t,
    ]
    for column, values in enumerate(columns):
        got = out[:, column].astype(np.uint32)
        np.testing.assert_array_equal(
            got, values.astype(np.uint32).ravel(), str(column)
        )
    last = np.repeat(t[:, -1], size)
    want = np.stack([1.5 * last, 0.25 - last, 1e300 * last], 1)
    np.testing.assert_array_equal(wide, want)


def test_reductions_of_a_warp(ordered):
    x = ints(1, 96)
    x[64:] = 300 - 3 * np.arange(32)
    out, f = poison((96, 12), np.int32), poison(96, np.float32)
    lib = ordered.load("cooperative")
    assert lib.run_reductions(pointer(out), pointer(f), pointer(x), 96) == 0
    for warp in range(3):
        part = x[32 * warp :][:32]
        remainders = np.fmod(part, 3)
        match = [
            sum(1 << i for i in range(32) if remainders[i] == r) for r in remainders
        ]
        row = [part.min(), part.max(), np.bitwise_and.reduce(part)]
        row += [np.bitwise_or.reduce(part), np.bitwise_xor.reduce(part), part.sum()]
        row += [part.min(), part.astype(np.uint32).max(), np.bitwise_xor.reduce(part)]
        same = len(set(remainders)) == 1
        for lane in range(32):
            want = [*row, match[lane], 0xFFFFFFFF if same else 0, same]
            want = np.array(want, np.int64).astype(np.int32)
            np.testing.assert_array_equal(out[32 * warp + lane], want)
        assert (f[32 * warp :][:32] == f[32 * warp]).all()
        np.testing.assert_allclose(f[32 * warp], 0.1 * part.sum(), atol=1e-3)
    assert out[64, 11] == 1 and out[0, 11] == 0


@pytest.mark.parametrize("limit", [-2000, 0, 990])
def test_coalesced_threads_share_an_atomic(ordered, limit):
    x, out, count = ints(2, 96 * 20), poison(96 * 20), np.zeros(1, np.int32)
    lib = ordered.load("cooperative")
    status = lib.run_keep(pointer(out), pointer(count), pointer(x), limit, 20)
    selected = np.sort(x[x > limit])
    assert (status, count[0]) == (0, len(selected))
    np.testing.assert_array_equal(np.sort(out[: len(selected)]), selected)
    assert (out[len(selected) :] == -777).all()


def test_parts_of_a_coalesced_group(ordered):
    out = poison((32, 12))
    assert ordered.load("cooperative").run_coalesced(pointer(out)) == 0
    members = list(range(0, 32, 3))
    labels = sorted({t % 4: t for t in reversed(members)}.values())
    for rank, t in enumerate(members):
        odd = [m for m in members if m % 2 == t % 2]
        label = [m for m in members if m % 4 == t % 4]
        want = [
            11,
            rank,
            members[min(rank + 1, 10)],
            sum(1 << r for r, m in enumerate(members) if m % 2),
            sum(members),
            sum(members[:rank]),
            len(odd) + 100 * (t % 2),
            max(odd),
            label.index(t) + 100 * labels.index(label[0]) + 10000 * 4,
            members[rank // 2 * 2],
            rank // 2,
            0,
        ]
        np.testing.assert_array_equal(out[t], want, str(t))
    assert (np.delete(out, members, 0) == -777).all()


@pytest.mark.parametrize("n", [1, 63, 1000])
def test_a_group_copies_together(ordered, n):
    x, out = ints(3, 5 * n), poison(5 * n)
    lib = ordered.load("cooperative")
    assert lib.run_reversed(pointer(out), pointer(x), n, 5) == 0
    np.testing.assert_array_equal(out.reshape(5, n), x.reshape(5, n)[:, ::-1])


@pytest.mark.parametrize("blocks", [1, 3, 8])
def test_a_grid_meets(ordered, blocks):
    out = poison(3 * blocks * 64)
    lib = ordered.load("cooperative")
    assert lib.run_rounds(pointer(out), blocks) == 0
    t = np.arange(blocks * 64)
    for round_ in range(3):  # each thread reads its neighbour's number
        t = np.roll(t, -1) + 1
        np.testing.assert_array_equal(out[round_ * len(t) :][: len(t)], t)


def test_a_grid_of_an_ordinary_launch_is_not_valid(simt):
    out = poison(1)
    assert simt.load("cooperative").run_grid_is_valid(pointer(out)) == 0
    assert out[0] == 0


# ---- overloads and memory ----------------------------------------------------


def test_overloads(simt):
    out = poison(13, np.float64)
    assert simt.load("math").run_overloads(pointer(out)) == 0
    want = [2, 2, -2.5, 9, -3, -1.5, 1.5, 2.5, 3, 4, 1 + 4 + 8]
    assert out.tolist() == [*want, 8 + 2.25 + 2 - 2 + 0.75, 3 + 3 + 5]


def test_what_device_code_does_with_memory(ordered, capfd):
    x, out, flags = ints(12, 64), np.zeros(66, np.int32), np.zeros(2, np.uint16)
    arrays = map(pointer, (out, x, flags))
    assert ordered.load("math").run_memory(*arrays) == 0
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr().out == "thread 5 of 64: 0.25\n"
    np.testing.assert_array_equal(out, [*range(64), 64, 63])
    assert flags.tolist() == [32, 32]


# ---- headers -----------------------------------------------------------------

HEADERS = [
    "cooperative_groups.h",
    "cooperative_groups/memcpy_async.h",
    "cooperative_groups/reduce.h",
    "cooperative_groups/scan.h",
    "cuda_bf16.h",
    "cuda_fp16.h",
    "cuda_pipeline.h",
    "curand_kernel.h",
    "math_constants.h",
    "mma.h",
    "nvToolsExt.h",
    "nvtx3/nvToolsExt.h",
]
STANDARD = ["algorithm", "cmath", "complex", "cstdio", "cstdlib", "ctime", "iostream"]
STANDARD += ["numeric", "vector", "math.h", "stdlib.h"]
USES = """
using namespace std;
float use(float x, double d, int i, unsigned u, size_t z) {
    x = min(x, 2.0f) + max(i, 3) + max(u, 2u) + max(z, z) + abs(x) + abs(i);
    d = min(d, 2.0) + pow(x, 2) + pow(d, 2) + pow(x, x) + sqrt(x) + sin(d);
    i = isnan(x) + isinf(d) + isfinite(x) + signbit(d) + (int)floor(x);
    sincos(d, &d, &d);
    return x + d + i + fma(x, x, x) + hypot(d, d) + exp2(x) + fmod(x, 2.0f);
}
"""


def compiled(text: str, more: tuple[str, ...] = ()) -> str:
    """Return g++'s messages about the text."""
    command = [tools.gxx(), "-x", "c++", "-std=c++17", "-O1", "-Wall", "-Wextra"]
    command += ["-Werror", *(f"-I{folder}" for folder in build.SIMT), *more, "-"]
    result = subprocess.run(command, input=text, text=True, capture_output=True)
    return result.stderr


@pytest.mark.parametrize("first", only(["simt"], ["simt", "standard"]))
def test_headers_go_with_those_of_the_standard_library(first):
    simulated = ["cuda_runtime.h", *HEADERS]
    order = [*simulated, *STANDARD] if first == "simt" else [*STANDARD, *simulated]
    text = "".join(f"#include <{name}>\n" for name in order) + USES
    assert compiled(text, ("-fsyntax-only",)) == ""


NOT_HERE = {
    "#include <cuda_fp8.h>": "numbers of 8 bits are not simulated",
    "float f(float x) { return __shfl_down(x, 1); }": "write __shfl_down_sync(mask,",
    "int f(int x) { return __any(x); }": "write __any_sync(mask, predicate)",
    "void __cluster_dims__(2, 1, 1) f() {}": "clusters are not simulated",
    "void f() { cooperative_groups::this_multi_grid(); }": "several devices",
    "void f(cooperative_groups::thread_block b) {"
    " cooperative_groups::tiled_partition<2048>(b); }": "at most 1024 threads",
}


@pytest.mark.parametrize("line", NOT_HERE)
def test_what_is_not_simulated_says_so(line):
    messages = compiled(f"#include <cooperative_groups.h>\n{line}\n", ("-S", "-o-"))
    assert NOT_HERE[line] in messages


def test_atomics_of_libcu(ordered):
    counters, plain, out = np.zeros(3, np.int32), np.zeros(1), poison((5, 3))
    arrays = map(pointer, (counters, out, plain))
    assert ordered.load("atomic").run_counters(*arrays, 5) == 0
    assert counters[0] == 320 and counters[2] == 5 and plain[0] == 320
    assert counters[1:2].view(np.float32)[0] == 160
    assert (out == [63, 0, 100]).all()
