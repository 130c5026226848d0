"""Direct calls to cuBLAS pass the right operands in the right order."""

from __future__ import annotations

import ctypes

import pytest
import torch

from weft.base.errors import ArgumentError, KernelError
from weft.timing import peaks


def numbers(pointer, count):
    return torch.frombuffer((ctypes.c_float * count).from_address(pointer.value),
                            dtype=torch.float32)  # fmt: skip


class Columns:
    """cublasGemmEx by its documentation: matrices are stored by columns."""

    def __init__(self):
        self.status, self.workspace, self.kinds = 0, None, None

    def cublasSetStream_v2(self, handle, stream):
        self.workspace = None
        return 0

    def cublasSetWorkspace_v2(self, handle, address, size):
        self.workspace = size.value
        return 0

    def cublasGemmEx(
        self, handle, flip_a, flip_b, m, n, k, alpha, a, kind_a, lda, b, kind_b, ldb,
        beta, c, kind_c, ldc, adds, algorithm,
    ):  # fmt: skip
        assert (alpha._obj.value, beta._obj.value, algorithm) == (1, 0, -1)
        self.kinds = kind_a, kind_b, kind_c, adds
        (a_cols, a_rows), (b_cols, b_rows) = (
            (y, x) if not flip else (x, y)
            for x, y, flip in ((m, k, flip_a), (k, n, flip_b))
        )
        assert lda >= a_rows and ldb >= b_rows and ldc >= m
        wide_a = numbers(a, a_cols * lda).view(a_cols, lda)[:, :a_rows].T
        wide_b = numbers(b, b_cols * ldb).view(b_cols, ldb)[:, :b_rows].T
        product = (wide_a.T if flip_a else wide_a) @ (wide_b.T if flip_b else wide_b)
        numbers(c, n * ldc).view(n, ldc)[:, :m] = product.T
        return self.status


@pytest.fixture
def columns(monkeypatch):
    cublas, room = Columns(), torch.empty(1000, dtype=torch.uint8)
    monkeypatch.setattr(peaks, "open_cublas", lambda: cublas)
    monkeypatch.setattr(peaks, "_handle", lambda index: (ctypes.c_void_p(1), room))
    return cublas


@pytest.mark.parametrize("layout", peaks.LAYOUTS)
def test_rows_become_columns(columns, layout):
    a, b, c = torch.randn(3, 5), torch.randn(5, 4), torch.full((3, 4), torch.nan)
    pair = [x.T.contiguous() if flip == "t" else x for x, flip in zip((a, b), layout)]
    peaks.Gemm("fp32", 0)(c, *pair, layout)
    assert torch.allclose(c, a @ b, atol=1e-5)
    assert columns.workspace == 1000 and columns.kinds == (0, 0, 0, 68)
    peaks.Gemm("tf32", 0)(c, *pair, layout)
    assert columns.kinds == (0, 0, 0, 77)


def test_what_does_not_fit_is_refused(columns):
    a, b, c = torch.randn(3, 5), torch.randn(5, 4), torch.randn(3, 4)
    gemm = peaks.Gemm("fp32", 0)
    for arguments, message in (
        ((c, a, b, "nt"), r"nt: c, a and b are \[\(3, 4\), \(3, 5\), \(5, 4\)\]"),
        ((c, a, b, "nx"), "layout 'nx'"),
        ((c.T, b.T, a.T), "contiguous"),
        ((c, a.bfloat16(), b.bfloat16()), "'bfloat16', 'bfloat16'"),
    ):
        with pytest.raises(ArgumentError, match=message):
            gemm(*arguments)
    with pytest.raises(ArgumentError, match="fp64: there are fp32, tf32"):
        peaks.Gemm("fp64", 0)
    columns.status = 13
    with pytest.raises(KernelError, match="cublasGemmEx.*13, execution failed"):
        gemm(c, a, b)


def test_the_workspace_is_pytorchs(monkeypatch):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    assert peaks.workspace_bytes((9, 0)) == 32 << 20
    assert peaks.workspace_bytes((8, 0)) == (8 << 20) + (128 << 10)
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    assert peaks.workspace_bytes((9, 0)) == 128 << 10


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("layout", peaks.LAYOUTS)
@pytest.mark.parametrize("precision, bound", [("fp32", 1e-6), ("tf32", 1e-3)])
def test_the_real_one_multiplies(precision, bound, layout):
    a, b = (torch.randn(*size, device="cuda") for size in ((100, 37), (37, 51)))
    c = torch.full((100, 51), torch.nan, device="cuda")
    pair = [x.T.contiguous() if flip == "t" else x for x, flip in zip((a, b), layout)]
    peaks.Gemm(precision)(c, *pair, layout)
    want = a.double() @ b.double()
    assert ((c - want).norm() / want.norm()).item() < bound
