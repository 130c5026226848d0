"""nvcuda::wmma on the CPU: products of a warp's matrices, and invalid arguments."""

import ctypes
import json
import os
import subprocess

import numpy as np
import pytest
import simt_device
import torch
from simt_device import pointer

from weft.programs import program

simt, ordered = simt_device.simt, simt_device.ordered

PRODUCTS = [
    *[("half", "16_16_16"), ("half", "32_8_16"), ("halves", "8_32_16")],
    *[("bf16", sizes) for sizes in ("16_16_16", "32_8_16", "8_32_16")],
    ("tf32", "16_16_8"),
]
LAYOUTS = ["row_major_col_major", "col_major_row_major"]
CASES = [(*product, layouts) for product in PRODUCTS for layouts in LAYOUTS]
CASES += [
    ("half", "16_16_16", f"{layout}_{layout}") for layout in ("row_major", "col_major")
]
WARPS = 2
DTYPES = {
    "half": torch.float16,
    "halves": torch.float16,
    "bf16": torch.bfloat16,
    "tf32": torch.float32,
    "float": torch.float32,
}


def aligned(size: int, dtype: torch.dtype) -> torch.Tensor:
    """Return `size` elements of -777 at an address that is valid for wmma."""
    memory = torch.full((size + 32,), -777, dtype=dtype)
    return memory[-memory.data_ptr() % 32 // memory.element_size() :][:size]


def stored(matrices: torch.Tensor, by_rows: bool, gap: int) -> tuple:
    """Return matrices as wmma reads them, `gap` between lines, and their stride."""
    lines = matrices if by_rows else matrices.mT
    wide = aligned(
        lines.shape[0] * lines.shape[1] * (lines.shape[2] + gap), lines.dtype
    )
    wide = wide.view(*lines.shape[:2], lines.shape[2] + gap)
    wide[:, :, : lines.shape[2]] = lines
    return wide, wide.shape[2]


def numbers(shape: tuple, kind: str, seed: int) -> torch.Tensor:
    """Return signed numbers that the kind represents exactly."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    if kind == "tf32":
        return (x.view(torch.int32) & ~0x1FFF).view(torch.float32)
    return x.to(DTYPES[kind])


@pytest.mark.parametrize("c_rows", [True, False])
@pytest.mark.parametrize(("name", "sizes", "layouts"), CASES)
def test_products_are_rounded_once(simt, name, sizes, layouts, c_rows):
    m, n, k = map(int, sizes.split("_"))
    a_rows, b_rows = layouts.startswith("row"), layouts.endswith("row_major")
    a, b = numbers((WARPS, m, k), name, 1), numbers((WARPS, k, n), name, 2)
    c = numbers((WARPS, m, n), "halves" if name == "halves" else "float", 3)
    (a_s, lda), (b_s, ldb) = stored(a, a_rows, 8), stored(b, b_rows, 16)
    c_s, ldc = stored(c, c_rows, 8)
    d_s, _ = stored(torch.zeros_like(c), c_rows, 8)
    run = simt.load("wmma")[f"run_{name}_{sizes}_{layouts}"]
    addresses = [ctypes.c_void_p(x.data_ptr()) for x in (d_s, a_s, b_s, c_s)]
    assert run(*addresses, lda, ldb, ldc, not c_rows) == 0
    got = d_s[:, :, :-8]
    halved = (0.5 * a.double()) @ b.double() + c.double()
    want = (2 * halved.to(c.dtype).double()).to(c.dtype)
    assert torch.equal(got if c_rows else got.mT, want)
    assert (d_s[:, :, -8:] == -777).all()


def test_lanes_may_take_their_turns_in_any_order(ordered):
    test_products_are_rounded_once(
        ordered, "half", "16_16_16", "row_major_row_major", True
    )


def test_infinity_and_nan_pass_through(simt):
    a = aligned(2 * 256, torch.bfloat16).fill_(1)
    b, c = a.clone(), aligned(2 * 256, torch.float32).fill_(0)
    a[16], a[32], b = np.inf, np.nan, aligned(2 * 256, torch.bfloat16).fill_(1)
    at = [ctypes.c_void_p(x.data_ptr()) for x in (c, a, b, c)]
    assert (
        simt.load("wmma").run_bf16_16_16_16_row_major_col_major(*at, 16, 16, 16, 0) == 0
    )
    rows = c.view(32, 16)[:, 0].tolist()
    assert rows[0] == 16 and rows[1] == np.inf and np.isnan(rows[2])


def test_float_to_tf32_rounds_to_the_nearest(simt):
    bits = np.array([0x3F800FFF, 0x3F801000, 0x3F803000, 0xBF801000, 0x7F800000])
    x = bits.astype(np.uint32).view(np.float32)
    out = np.zeros(5, np.float32)
    assert simt.load("wmma").run_rounded(pointer(out), pointer(x), 5) == 0
    want = [0x3F800000, 0x3F802000, 0x3F804000, 0xBF802000, 0x7F800000]
    assert out.view(np.uint32).tolist() == want


MISUSES = {
    "ldm": ((18, 0, 0, 0), 719, "ldm = 18 in wmma::load_matrix_sync(): want a multiple "
            "of 4 elements"),
    "address": ((16, 4, 0, 0), 716, "in wmma::load_matrix_sync(): want a multiple of "
                "32"),
    "own address": ((16, 0, 8, 0), 719, "the same address and ldm from all lanes of a "
                    "warp, but lane 5 differs from lane 0"),
    "lanes": ((16, 0, 0, 3), 719, "needs all 32 lanes of a warp, but 29 arrived"),
}  # fmt: skip


@pytest.mark.parametrize("misuse", MISUSES)
def test_misuse_is_told(simt, misuse):
    args, error, words = MISUSES[misuse]
    x = aligned(1024, torch.float32)
    run = simt.load("wmma").run_misused
    assert run(ctypes.c_void_p(x.data_ptr()), *args) == error
    fault = simt.runtime.simt_last_fault
    fault.restype = ctypes.c_char_p
    assert words in fault().decode()
    assert run(ctypes.c_void_p(x.data_ptr()), 16, 0, 0, 0) == 0


# ---- the watch build -----------------------------------------------------------

WATCHED = """
#include <mma.h>
using namespace nvcuda;
__global__ void k(float *c, const half *a, int barrier, int filled, int ldm) {
    __shared__ __align__(32) half s[256];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> z;
    wmma::fill_fragment(z, 0.0f);
    if (filled || threadIdx.x >= 64) s[threadIdx.x] = a[threadIdx.x];
    if (barrier) __syncthreads();
    wmma::load_matrix_sync(x, s, 16);
    wmma::load_matrix_sync(y, a, ldm);
    wmma::mma_sync(z, x, y, z);
    wmma::store_matrix_sync(c + threadIdx.x / 32 * 256, z, 16, wmma::mem_row_major);
}
int main(int, char **argv) {
    half *a;
    float *c;
    cudaMalloc(&a, 512);
    cudaMalloc(&c, 8192);
    cudaMemset(a, 0, 512);
    const char *how = argv[1];
    k<<<1, 256>>>(c, a, how[0] == '1', how[1] == '1', how[2] == '1' ? 16 : 24);
    cudaDeviceSynchronize();
}
"""
SEEN = {
    "111": [],
    "011": [("race", "s")],
    "101": [("uninitialised", "s")],
    "110": [("bounds", "a")],
}


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """Return a function that returns the watch build's findings for a mode."""
    folder = tmp_path_factory.mktemp("wmma")
    source = folder / "k.cu"
    source.write_text(WATCHED)
    executable = program.build_executable(
        program.Program([str(source)], optimise="1", check=True)
    )

    def run(how: str) -> list[dict]:
        report = folder / f"{how}.json"
        more = {"WEFT_CHECK_REPORT": str(report)}
        subprocess.run([executable, how], env=os.environ | more, check=True)
        return json.loads(report.read_text())["findings"]

    return run


@pytest.mark.parametrize("how", SEEN)
def test_the_check_build_sees_loads_and_stores(watched, how):
    assert [(f["kind"], f["array"]) for f in watched(how)] == SEEN[how]
