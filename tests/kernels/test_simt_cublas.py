"""cuBLAS and cuBLASLt on the CPU, compared with float64.

Expected values are float64. With u = 2^-24 (2^-53 for doubles), a sum of k products
that is scaled by alpha, to which beta C is added, has an error of at most
(k + 3) u (|alpha| |A||B| + |beta C|), up to u^2 (Higham, Accuracy and Stability of
Numerical Algorithms, section 3.5). A result of 16 bits adds half a unit of its last
place. Arrays that the functions must not read, and the space between columns, are NaN.
"""

import ctypes
import re
import subprocess
import sys

import numpy as np
import pytest
from cffi import FFI
from tiers import only

from weft.base.paths import SIMT
from weft.toolchain import build, tools

F32, F64, F16, I8, I32, BF16 = 0, 1, 2, 3, 10, 14  # cudaDataType
DTYPES = {
    **{F32: np.float32, F64: np.float64, F16: np.float16, BF16: np.uint16},
    **{I8: np.int8, I32: np.int32},
}
ROUNDING = {F32: 2.0**-24, F64: 2.0**-53, F16: 2.0**-11, BF16: 2.0**-8, I32: 0.0}
COMPUTE = {F16: 64, F32: 68, F64: 70, I32: 72}  # cublasComputeType_t
N, T = 0, 1  # cublasOperation_t
SUCCESS, NOT_INITIALIZED, INVALID, EXECUTION, UNSUPPORTED = 0, 1, 7, 13, 15
COLUMNS, ROWS = 0, 1  # cublasLtOrder_t
RELU, BIAS, DRELU, BGRAD, GELU, DGELU, AUX = 2, 4, 8, 16, 32, 64, 128

VECTORS = """
int cublas{S}asum_v2(void *, int, const void *, int, void *);
int cublas{S}axpy_v2(void *, int, const void *, const void *, int, void *, int);
int cublas{S}copy_v2(void *, int, const void *, int, void *, int);
int cublas{S}dot_v2(void *, int, const void *, int, const void *, int, void *);
int cublas{S}nrm2_v2(void *, int, const void *, int, void *);
int cublas{S}rot_v2(void *, int, void *, int, void *, int, void *, void *);
int cublas{S}scal_v2(void *, int, const void *, void *, int);
int cublas{S}swap_v2(void *, int, void *, int, void *, int);
int cublas{S}gemv_v2(void *, int, int, int, const void *, const void *, int,
                     const void *, int, const void *, void *, int);
int cublas{S}ger_v2(void *, int, int, const void *, const void *, int, const void *,
                    int, void *, int);
int cublas{S}geam(void *, int, int, int, int, const void *, const void *, int,
                  const void *, const void *, int, void *, int);
int cublas{S}dgmm(void *, int, int, int, const void *, int, const void *, int, void *,
                  int);
int cublasI{s}amax_v2(void *, int, const void *, int, int *);
int cublasI{s}amin_v2(void *, int, const void *, int, int *);
"""
PRODUCTS = """
int cublas{S}(void *, int, int, int, int, int, const void *, const void *, int,
              const void *, int, const void *, void *, int);
"""
BATCHES = """
int cublas{S}gemmBatched(void *, int, int, int, int, int, const void *, void *, int,
                         void *, int, const void *, void *, int, int);
int cublas{S}gemmStridedBatched(void *, int, int, int, int, int, const void *,
    const void *, int, long long, const void *, int, long long, const void *, void *,
    int, long long, int);
"""
OTHERS = """
int cublasCreate_v2(void **);
int cublasDestroy_v2(void *);
int cublasSetPointerMode_v2(void *, int);
int cublasSetMathMode(void *, int);
int cublasSetStream_v2(void *, void *);
const char *cublasGetStatusName(int);
const char *cublasGetStatusString(int);
int cublasGemmEx(void *, int, int, int, int, int, const void *, const void *, int, int,
                 const void *, int, int, const void *, void *, int, int, int, int);
int cublasSetMatrix(int, int, int, const void *, int, void *, int);
int cublasGetVector(int, int, const void *, int, void *, int);
int cublasXtCreate(void **);
int cublasXtDestroy(void *);
int cublasXtDeviceSelect(void *, int, int *);
int cublasXtSgemm(void *, int, int, size_t, size_t, size_t, void *, void *, size_t,
                  void *, size_t, void *, void *, size_t);
int cublasLtCreate(void **);
int cublasLtMatmulDescCreate(void **, int, int);
int cublasLtMatmulDescSetAttribute(void *, int, const void *, size_t);
int cublasLtMatmulDescGetAttribute(void *, int, void *, size_t, size_t *);
int cublasLtMatrixLayoutCreate(void **, int, uint64_t, uint64_t, int64_t);
int cublasLtMatrixLayoutSetAttribute(void *, int, const void *, size_t);
int cublasLtMatmulPreferenceCreate(void **);
int cublasLtMatmulAlgoGetHeuristic(void *, void *, void *, void *, void *, void *,
                                   void *, int, void *, int *);
int cublasLtMatmul(void *, void *, const void *, const void *, void *, const void *,
                   void *, const void *, const void *, void *, void *, void *,
                   const void *, void *, size_t, void *);
int cublasLtMatrixTransformDescCreate(void **, int);
int cublasLtMatrixTransform(void *, void *, const void *, const void *, void *,
                            const void *, const void *, void *, void *, void *, void *);
"""


class Blas:
    """The library and a handle. Methods return the status of a call."""

    def __init__(self):
        self.ffi = FFI()
        for S in "SD":
            self.ffi.cdef(VECTORS.replace("{S}", S).replace("{s}", S.lower()))
        for S in "SDH":
            name = f"{S}gemm" + "_v2" * (S != "H")
            self.ffi.cdef(PRODUCTS.replace("{S}", name) + BATCHES.replace("{S}", S))
        self.ffi.cdef(OTHERS)
        path = build.vendor_library("cublas", build.Flavour.here("cpu"))
        self.C = self.ffi.dlopen(str(path))
        self.handle = self.create("cublasCreate_v2")

    def create(self, name, *arguments):
        """Return the pointer that a function stores in its first argument."""
        address = self.ffi.new("void **")
        assert getattr(self.C, name)(address, *arguments) == SUCCESS
        return address[0]

    def pointer(self, value):
        """Return an argument: an array's address, or the value itself."""
        if isinstance(value, np.ndarray):
            return self.ffi.cast("void *", value.ctypes.data)
        return self.ffi.NULL if value is None else value

    def call(self, name, *arguments):
        arguments = [self.pointer(value) for value in arguments]
        return getattr(self.C, f"cublas{name}")(self.handle, *arguments)


@pytest.fixture(scope="module")
def blas():
    return Blas()


def scalar(value, kind):
    return np.array([value], DTYPES[kind])


def encode(values, kind):
    """Return float64 values as an array of the type; values must be exact in it."""
    if kind == BF16:
        return (np.float32(values).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(DTYPES[kind])


def decode(array, kind):
    if kind == BF16:
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64)


def draw(rng, shape, kind):
    """Return random float64 values that the type can hold."""
    if kind in (I8, I32):
        return rng.integers(-128, 128, shape).astype(np.float64)
    values = rng.standard_normal(shape)
    if kind == BF16:
        values = np.float32(values).view(np.uint32) & 0xFFFF0000
        return values.view(np.float32).astype(np.float64)
    return values.astype(DTYPES[kind]).astype(np.float64)


def store(values, kind, ld=None, by_rows=False):
    """Return a matrix in memory, with NaN (or 77) between its columns or rows."""
    values = values if by_rows else values.T
    ld = ld or values.shape[1]
    poison = 77.0 if kind in (I8, I32) else np.nan
    memory = np.full((values.shape[0], ld), poison)
    memory[:, : values.shape[1]] = values
    return encode(memory, kind)


def load(memory, kind, rows, columns, by_rows=False):
    """Return a matrix from memory; fail if the space between columns has changed."""
    used = columns if by_rows else rows
    values = decode(memory, kind)
    rest = values[:, used:]
    assert (rest == 77).all() if kind in (I8, I32) else np.isnan(rest).all()
    return values[:, :used] if by_rows else values[:, :used].T


def bound_product(a, b, alpha, beta, c, kind):
    """Return the bound on the error of each element of alpha a b + beta c."""
    u = {F64: 2.0**-53, I32: 0.0}.get(kind, 2.0**-24)
    size = abs(alpha) * (abs(a) @ abs(b)) + (abs(beta * c) if beta else 0)
    sums = 1.01 * (a.shape[1] + 3) * u * size
    exact = alpha * (a @ b) + (beta * c if beta else 0)
    return sums + ROUNDING[kind] * (abs(exact) + sums) + (2.0**-25) * (kind == F16)


SHAPES = [(17, 13, 29), (1, 1, 1), (130, 61, 40), (200, 180, 160), (6, 7, 0)]
TYPES = [(F32, F32), (F64, F64), (F16, F16), (BF16, F32), (F16, F32), (BF16, BF16)]
TYPES += [(I8, I32)]


@pytest.mark.parametrize("m, n, k", only([SHAPES[0], SHAPES[3]], SHAPES, 3))
@pytest.mark.parametrize("kind, result", only(TYPES[:2], TYPES, 2))
def test_products_equal_float64(blas, kind, result, m, n, k):
    rng = np.random.default_rng(m)
    compute = {F64: F64, I32: I32}.get(result, F32)
    for ta, tb in [(N, N), (T, N), (N, T), (T, T)]:
        for alpha, beta in [(1, 0), (-2, 3)]:
            a, b = draw(rng, (m, k), kind), draw(rng, (k, n), kind)
            c = draw(rng, (m, n), result) if beta else np.full((m, n), np.nan)
            c = np.nan_to_num(c, nan=77.0) if result == I32 else c
            A = store(a.T if ta else a, kind, (k if ta else m) + 3)
            B = store(b.T if tb else b, kind, (n if tb else k) + 1)
            C = store(c, result, m + 2)
            status = blas.call(
                *("GemmEx", ta, tb, m, n, k, scalar(alpha, compute)),
                *(A, kind, A.shape[1] or 1, B, kind, B.shape[1]),
                *(scalar(beta, compute), C, result, m + 2, COMPUTE[compute], -1),
            )
            assert status == SUCCESS
            got = load(C, result, m, n)
            want = alpha * (a @ b) + (beta * c if beta else 0)
            assert (
                abs(got - want) <= bound_product(a, b, alpha, beta, c, result)
            ).all()


@pytest.mark.parametrize("name, kind", [("S", F32), ("D", F64), ("H", F16)])
def test_batches_equal_float64(blas, name, kind):
    """Three products: alone, at addresses in an array, and at equal distances."""
    rng, m, n, k, count = np.random.default_rng(1), 5, 4, 9, 3
    a, b = draw(rng, (count, m, k), kind), draw(rng, (count, k, n), kind)
    A = np.concatenate([store(one, kind, m + 1) for one in a])
    B = np.concatenate([store(one, kind) for one in b])
    one, zero = scalar(1, kind), scalar(0, kind)

    def check(C):
        for i in range(count):
            got = load(C[i * n : (i + 1) * n], kind, m, n)
            bound = bound_product(a[i], b[i], 1, 0, 0, kind)
            assert (abs(got - a[i] @ b[i]) <= bound).all()

    def places(X, rows):
        return np.array([X[i * rows :].ctypes.data for i in range(count)])

    C = encode(np.full((count * n, m + 2), np.nan), kind)
    version = "" if name == "H" else "_v2"
    for i in range(count):
        operands = (one, A[i * k :], m + 1, B[i * n :], k, zero, C[i * n :], m + 2)
        assert blas.call(f"{name}gemm{version}", N, N, m, n, k, *operands) == SUCCESS
    check(C)
    C = encode(np.full((count * n, m + 2), np.nan), kind)
    status = blas.call(
        *(f"{name}gemmBatched", N, N, m, n, k, one, places(A, k), m + 1),
        *(places(B, n), k, zero, places(C, n), m + 2, count),
    )
    assert status == SUCCESS
    check(C)
    C = encode(np.full((count * n, m + 2), np.nan), kind)
    status = blas.call(
        *(f"{name}gemmStridedBatched", N, N, m, n, k, one, A, m + 1, (m + 1) * k),
        *(B, k, k * n, zero, C, m + 2, (m + 2) * n, count),
    )
    assert status == SUCCESS
    check(C)


def strided(values, kind, step):
    """Return a vector in memory with this increment, and NaN between its elements."""
    memory = np.full(max(1 + (len(values) - 1) * abs(step), 0), np.nan)
    memory[:: abs(step)] = values if step > 0 else values[::-1]
    return memory.astype(DTYPES[kind])


def unstrided(memory, step):
    values = memory[:: abs(step)].astype(np.float64)
    return values if step > 0 else values[::-1]


@pytest.mark.parametrize("S, kind", [("S", F32), ("D", F64)])
@pytest.mark.parametrize("incx, incy", [(1, 1), (3, -2)])
def test_functions_of_vectors_equal_float64(blas, S, kind, incx, incy):
    rng, n, u = np.random.default_rng(2), 41, ROUNDING[kind]
    x, y = draw(rng, n, kind), draw(rng, n, kind)
    X, Y = strided(x, kind, incx), strided(y, kind, incy)
    out, index = np.full(1, np.nan, DTYPES[kind]), np.full(1, -1, np.int32)

    def run(name, *arguments):
        assert blas.call(f"{S}{name}_v2", n, *arguments) == SUCCESS

    run("dot", X, incx, Y, incy, out)
    # Sums are double, also for floats, so only the result is rounded.
    slack = 1.01 * n * 2.0**-53
    assert abs(out[0] - x @ y) <= u * abs(x @ y) + slack * (abs(x) @ abs(y))
    run("asum", X, incx, out)
    assert abs(out[0] - abs(x).sum()) <= (u + slack) * abs(x).sum()
    run("nrm2", X, incx, out)
    assert abs(out[0] - np.sqrt(x @ x)) <= 2 * (u + slack) * np.sqrt(x @ x)
    pointer = blas.ffi.cast("int *", index.ctypes.data)
    for name, want in [("amax", abs(x).argmax()), ("amin", abs(x).argmin())]:
        name = f"cublasI{S.lower()}{name}_v2"
        status = getattr(blas.C, name)(blas.handle, n, blas.pointer(X), incx, pointer)
        assert (status, index[0]) == (SUCCESS, want + 1)  # counted from 1

    run("axpy", scalar(-2, kind), X, incx, Y, incy)
    z = unstrided(Y, incy)
    assert (abs(z - (y - 2 * x)) <= u * abs(y - 2 * x)).all()
    run("scal", scalar(3, kind), X, incx)
    assert (abs(unstrided(X, incx) - 3 * x) <= u * abs(3 * x)).all()
    x = unstrided(X, incx).copy()
    run("swap", X, incx, Y, incy)
    assert (unstrided(X, incx) == z).all() and (unstrided(Y, incy) == x).all()
    run("rot", X, incx, Y, incy, scalar(0, kind), scalar(1, kind))
    assert (unstrided(X, incx) == x).all() and (unstrided(Y, incy) == -z).all()
    run("copy", X, incx, Y, incy)
    assert (unstrided(Y, incy) == x).all()
    assert np.isnan(X).sum() == len(X) - n and np.isnan(Y).sum() == len(Y) - n


@pytest.mark.parametrize("S, kind", [("S", F32), ("D", F64)])
def test_functions_of_matrices_equal_float64(blas, S, kind):
    rng, m, n, u = np.random.default_rng(3), 11, 7, ROUNDING[kind]
    a, x, y = draw(rng, (m, n), kind), draw(rng, n, kind), draw(rng, m, kind)
    A = store(a, kind, m + 2)
    two, zero, three = scalar(2, kind), scalar(0, kind), scalar(3, kind)
    for trans, from_, to in [(N, x, y), (T, y, x)]:
        matrix = a.T if trans else a
        for beta in (0, 3):
            old = to if beta else np.full(len(to), np.nan)
            X, Y = strided(from_, kind, -2), strided(old, kind, 3)
            status = blas.call(
                *(f"{S}gemv_v2", trans, m, n, two, A, m + 2, X, -2),
                *(three if beta else zero, Y, 3),
            )
            assert status == SUCCESS
            want = 2 * matrix @ from_ + (3 * old if beta else 0)
            size = 2 * abs(matrix) @ abs(from_) + (3 * abs(old) if beta else 0)
            bound = u * abs(want) + 1.01 * (len(from_) + 3) * 2.0**-53 * size
            assert (abs(unstrided(Y, 3) - want) <= bound).all()
    G = A.copy()
    X, Y = strided(y, kind, 1), strided(x, kind, 2)
    assert blas.call(f"{S}ger_v2", m, n, two, X, 1, Y, 2, G, m + 2) == SUCCESS
    outer = 2 * np.outer(y, x)
    bound = 3.1 * u * (abs(a) + abs(outer))
    assert (abs(load(G, kind, m, n) - (a + outer)) <= bound).all()
    b = draw(rng, (n, m), kind)
    B, C = store(b, kind), store(np.full((m, n), np.nan), kind, m + 1)
    status = blas.call(f"{S}geam", N, T, m, n, two, A, m + 2, three, B, n, C, m + 1)
    assert status == SUCCESS
    bound = 2.1 * u * (abs(2 * a) + abs(3 * b.T))
    assert (abs(load(C, kind, m, n) - (2 * a + 3 * b.T)) <= bound).all()
    # A matrix whose factor is 0 is not read.
    status = blas.call(
        f"{S}geam", N, T, m, n, zero, None, m, scalar(1, kind), B, n, C, m + 1
    )
    assert status == SUCCESS and (load(C, kind, m, n) == b.T).all()
    for side, diagonal in [(0, y), (1, x)]:
        D = store(np.full((m, n), np.nan), kind, m + 1)
        X = strided(diagonal, kind, 2)
        assert blas.call(f"{S}dgmm", side, m, n, A, m + 2, X, 2, D, m + 1) == SUCCESS
        want = a * (diagonal if side else diagonal[:, None])
        assert (abs(load(D, kind, m, n) - want) <= u * abs(want)).all()


def test_scalars_may_be_in_device_memory(blas):
    x, out = np.arange(5, dtype=np.float32), np.full(1, np.nan, np.float32)
    assert blas.call("SetPointerMode_v2", 1) == SUCCESS
    try:
        assert blas.call("Sscal_v2", 5, scalar(2, F32), x, 1) == SUCCESS
        assert blas.call("Sasum_v2", 5, x, 1, out) == SUCCESS
        assert out[0] == 20
        assert blas.call("Sgemm_v2", N, N, 1, 1, 5, *(scalar(1, F32), x, 1, x, 5),
                         scalar(0, F32), out, 1) == SUCCESS  # fmt: skip
        assert out[0] == 120
    finally:
        blas.call("SetPointerMode_v2", 0)


def test_a_result_does_not_depend_on_the_number_of_threads(blas):
    a = np.random.default_rng(4).standard_normal((300, 300)).astype(np.float32)
    results = []
    blas.ffi.cdef("void simt_set_threads(int);")
    simt = blas.ffi.dlopen(str(build.simt_runtime(build.Flavour.here("cpu"))))
    for threads in (1, 3):
        simt.simt_set_threads(threads)
        c = np.full_like(a, np.nan)
        operands = (scalar(1, F32), a, 300, a, 300, scalar(0, F32), c, 300)
        assert blas.call("Sgemm_v2", N, N, 300, 300, 300, *operands) == SUCCESS
        results.append(c)
    simt.simt_set_threads(0)
    assert (results[0] == results[1]).all() and np.isfinite(results[0]).all()


def gemm_with(**changes):
    """Return the arguments of a valid cublasSgemm(), with some changed."""
    one, a = scalar(1, F32), np.ones(64, np.float32)
    valid = {
        **{"transa": N, "transb": N, "m": 4, "n": 3, "k": 2},
        **{"alpha": one, "A": a, "lda": 4, "B": a, "ldb": 2},
        **{"beta": one, "C": a.copy(), "ldc": 4},
    }
    assert changes.keys() <= valid.keys()
    return tuple((valid | changes).values())


@pytest.mark.parametrize(
    "changes",
    [
        {"m": -1},
        {"n": -1},
        {"k": -1},
        {"transa": 7},
        {"transb": -1},
        {"lda": 3},
        {"transa": T, "lda": 1},
        {"ldb": 1},
        {"ldc": 3},
        {"m": 0, "ldc": 0},
        {"alpha": None},
        {"beta": None},
    ],
)
def test_invalid_values_are_refused(blas, changes):
    arguments = gemm_with(**changes)
    assert blas.call("Sgemm_v2", *arguments) == INVALID
    assert (arguments[11] == 1).all()


def test_empty_products_and_scaling_by_beta_alone(blas):
    assert blas.call("Sgemm_v2", *gemm_with(m=0, A=None, C=None)) == SUCCESS
    unread = np.full(64, np.nan, np.float32)
    for changes in ({"k": 0}, {"alpha": scalar(0, F32)}):
        arguments = gemm_with(A=unread, B=unread, beta=scalar(2, F32), **changes)
        assert blas.call("Sgemm_v2", *arguments) == SUCCESS
        assert (arguments[11][:12] == 2).all() and (arguments[11][12:] == 1).all()


def test_an_invalid_handle_is_refused(blas):
    arguments = [blas.pointer(value) for value in gemm_with()]
    destroyed = blas.create("cublasCreate_v2")
    assert blas.C.cublasDestroy_v2(destroyed) == SUCCESS
    for handle in (blas.ffi.NULL, destroyed, blas.ffi.cast("void *", 8)):
        assert blas.C.cublasSgemm_v2(handle, *arguments) == NOT_INITIALIZED
        assert blas.C.cublasDestroy_v2(handle) == NOT_INITIALIZED
        assert blas.C.cublasSetPointerMode_v2(handle, 0) == NOT_INITIALIZED
    name = blas.ffi.string(blas.C.cublasGetStatusName(INVALID))
    assert name == b"CUBLAS_STATUS_INVALID_VALUE"


def test_an_invalid_stream_is_an_error_of_the_call(blas):
    handle = blas.create("cublasCreate_v2")
    assert blas.C.cublasSetStream_v2(handle, blas.ffi.cast("void *", 8)) == SUCCESS
    arguments = [blas.pointer(value) for value in gemm_with()]
    assert blas.C.cublasSgemm_v2(handle, *arguments) == EXECUTION
    # The runtime keeps the error until it is read. Later tests would read it.
    runtime = ctypes.CDLL(str(build.simt_runtime(build.Flavour.here("cpu"))))
    INVALID_RESOURCE_HANDLE = 400
    assert runtime._Z16cudaGetLastErrorv() == INVALID_RESOURCE_HANDLE


def test_combinations_of_types_that_cublas_lacks_are_not_supported(blas):
    a = np.zeros(64, np.float64)
    for kinds in [(F32, F16, F32, F32), (F64, F64, F64, F32), (F32, F32, F16, F32),
                  (I8, I8, I8, I32), (F16, F16, BF16, F32)]:  # fmt: skip
        ta, tb, tc, compute = kinds
        operands = (a, ta, 2, a, tb, 2, a, a, tc, 2, COMPUTE[compute], -1)
        assert blas.call("GemmEx", N, N, 2, 2, 2, a, *operands) == UNSUPPORTED


def test_xt_multiplies_once_it_has_a_device(blas):
    rng, (m, n, k) = np.random.default_rng(9), (7, 5, 6)
    a, b = draw(rng, (m, k), F32), draw(rng, (k, n), F32)
    C = store(np.full((m, n), np.nan), F32, m + 1)
    handle = blas.create("cublasXtCreate")
    values = (scalar(1, F32), store(a.T, F32), k, store(b, F32), k, scalar(0, F32), C)
    values = [blas.pointer(value) for value in values]
    gemm = blas.C.cublasXtSgemm
    assert gemm(handle, T, N, m, n, k, *values, m + 1) == NOT_INITIALIZED
    select, devices = blas.C.cublasXtDeviceSelect, blas.ffi.new("int[]", [0, 1])
    assert select(handle, 2, devices) == INVALID  # there is one device
    assert select(handle, 1, devices) == SUCCESS
    assert gemm(handle, T, N, m, n, k, *values, m - 1) == INVALID
    assert gemm(handle, T, N, m, n, k, *values, m + 1) == SUCCESS
    bound = bound_product(a, b, 1, 0, 0, F32)
    assert (abs(load(C, F32, m, n) - a @ b) <= bound).all()
    assert blas.C.cublasXtDestroy(handle) == SUCCESS
    assert blas.C.cublasXtDestroy(handle) == NOT_INITIALIZED


# ---- cuBLASLt -------------------------------------------------------------------


class Lt:
    """One product of cuBLASLt: its description and layouts."""

    def __init__(self, blas, compute=68, scale=F32, kind=F32):
        self.blas, self.kind = blas, kind
        self.operation = blas.create("cublasLtMatmulDescCreate", compute, scale)

    def set(self, attribute, value, dtype):
        buffer = np.array([value], dtype)
        pointer, size = self.blas.pointer(buffer), buffer.nbytes
        set_attribute = self.blas.C.cublasLtMatmulDescSetAttribute
        return set_attribute(self.operation, attribute, pointer, size)

    def layout(self, rows, columns, ld, order=COLUMNS, kind=None):
        kind = self.kind if kind is None else kind
        name = "cublasLtMatrixLayoutCreate"
        layout = self.blas.create(name, kind, rows, columns, ld)
        buffer = np.array([order], np.int32)
        set_attribute = self.blas.C.cublasLtMatrixLayoutSetAttribute
        assert set_attribute(layout, 1, self.blas.pointer(buffer), 4) == SUCCESS
        return layout

    def run(self, alpha, A, la, B, lb, beta, C, lc, D, ld, algo=None):
        arguments = (self.operation, alpha, A, la, B, lb, beta, C, lc, D, ld, algo)
        return self.blas.call("LtMatmul", *arguments, None, 0, None)


@pytest.mark.parametrize("order", [COLUMNS, ROWS])
def test_lt_equals_float64_in_both_orders(blas, order):
    rng, (m, n, k) = np.random.default_rng(5), (9, 8, 7)
    by_rows = order == ROWS
    a, b, c = draw(rng, (m, k), F32), draw(rng, (k, n), F32), draw(rng, (m, n), F32)
    for ta, tb, beta in [(N, N, 0), (T, N, 2), (N, T, 0), (T, T, 2)]:
        lt = Lt(blas)
        assert lt.set(3, ta, np.int32) == lt.set(4, tb, np.int32) == SUCCESS
        places = []
        for values, pad in [(a.T if ta else a, 1), (b.T if tb else b, 2), (c, 3)]:
            ld = values.shape[by_rows] + pad
            memory = store(values if beta or pad < 3 else values * np.nan, F32, ld,
                           by_rows)  # fmt: skip
            places += [memory, lt.layout(*values.shape, ld, order)]
        D = store(np.full((m, n), np.nan), F32, None, by_rows)
        ld = lt.layout(m, n, D.shape[1], order)
        status = lt.run(scalar(3, F32), *places[:4], scalar(beta, F32), *places[4:],
                        D, ld)  # fmt: skip
        assert status == SUCCESS
        want = 3 * (a @ b) + beta * c
        bound = bound_product(a, b, 3, beta, c, F32)
        assert (abs(load(D, F32, m, n, by_rows) - want) <= bound).all()


def gelu(x):
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


FORWARD = [1, RELU, BIAS, RELU | BIAS, GELU, GELU | BIAS]
FORWARD += [RELU | AUX, RELU | AUX | BIAS, GELU | AUX, GELU | AUX | BIAS]


@pytest.mark.parametrize("epilogue", FORWARD)
def test_lt_epilogues_and_their_gradients(blas, epilogue):
    """The gradient reads what the AUX epilogue stores; BGRAD sums over columns."""
    rng, (m, n, k) = np.random.default_rng(6), (20, 6, 5)
    a, b, bias = draw(rng, (m, k), F32), draw(rng, (k, n), F32), draw(rng, m, F32)
    lt = Lt(blas)
    V = bias.astype(np.float32)
    is_mask = bool(epilogue & RELU)
    aux = np.full((n, 16), 0xA5, np.uint8) if is_mask else np.full((n, m + 1), np.nan)
    aux = aux if is_mask else aux.astype(np.float32)
    assert lt.set(7, epilogue, np.uint32) == SUCCESS
    assert lt.set(8, V.ctypes.data, np.uint64) == SUCCESS
    assert lt.set(11, aux.ctypes.data, np.uint64) == SUCCESS
    assert lt.set(12, 128 if is_mask else m + 1, np.int64) == SUCCESS
    A, B, D = store(a, F32), store(b, F32), store(np.full((m, n), np.nan), F32)
    la, lb, ld = lt.layout(m, k, m), lt.layout(k, n, k), lt.layout(m, n, m)
    one, zero = scalar(1, F32), scalar(0, F32)
    assert lt.run(one, A, la, B, lb, zero, D, ld, D, ld) == SUCCESS
    x = a @ b + (bias[:, None] if epilogue & BIAS else 0)
    slack = bound_product(a, b, 1, 1, bias[:, None], F32) * 1.2  # |gelu'| < 1.13
    want = np.maximum(x, 0) if is_mask else gelu(x) if epilogue & GELU else x
    assert (abs(load(D, F32, m, n) - want) <= slack + 2.0**-24 * abs(want)).all()
    if not epilogue & AUX:
        assert (aux == 0xA5).all() if is_mask else np.isnan(aux).all()
        return
    if is_mask:
        bits = np.unpackbits(aux, axis=1, bitorder="little")[:, :m].T
        clear = abs(x) > slack  # where rounding cannot change the sign
        assert (bits[clear] == (x > 0)[clear]).all() and clear.mean() > 0.9
        derivative = bits.astype(np.float64)
    else:
        assert (abs(load(aux, F32, m, n) - x) <= slack).all()
        h = 1e-5
        stored = load(aux, F32, m, n)
        derivative = (gelu(stored + h) - gelu(stored - h)) / (2 * h)
    backward = (DRELU if is_mask else DGELU) | AUX | BGRAD
    assert lt.set(7, backward, np.uint32) == SUCCESS
    assert lt.run(one, A, la, B, lb, zero, D, ld, D, ld) == SUCCESS
    want = (a @ b) * derivative
    slack = 1.2 * bound_product(a, b, 1, 0, 0, F32) + 1e-9 * abs(a @ b)
    got = load(D, F32, m, n)
    assert (abs(got - want) <= slack + 2.0**-24 * abs(want)).all()
    assert np.allclose(V, got.sum(1), rtol=2.0**-23, atol=1e-12)


@pytest.mark.parametrize("epilogue, sums", [(256, "a"), (512, "b")])
def test_lt_sums_an_operand_over_k(blas, epilogue, sums):
    rng, (m, n, k) = np.random.default_rng(7), (6, 5, 4)
    a, b = draw(rng, (m, k), F32), draw(rng, (k, n), F32)
    out = np.full(m if sums == "a" else n, np.nan, np.float32)
    lt = Lt(blas)
    assert lt.set(7, epilogue, np.uint32) == SUCCESS
    assert lt.set(8, out.ctypes.data, np.uint64) == SUCCESS
    D = store(np.full((m, n), np.nan), F32)
    la, lb, ld = lt.layout(m, k, m), lt.layout(k, n, k), lt.layout(m, n, m)
    one, zero = scalar(1, F32), scalar(0, F32)
    operands = (store(a, F32), la, store(b, F32), lb, zero, D, ld, D, ld)
    assert lt.run(one, *operands) == SUCCESS
    want, size = (a.sum(1), abs(a).sum(1)) if sums == "a" else (b.sum(0), abs(b).sum(0))
    assert (abs(out - want) <= 2.0**-24 * abs(want) + 2.0**-50 * size).all()


def test_lt_returns_an_algorithm_or_the_documented_status(blas):
    lt = Lt(blas)
    la, lb, ld = lt.layout(4, 3, 4), lt.layout(3, 2, 3), lt.layout(4, 2, 4)
    preference = blas.create("cublasLtMatmulPreferenceCreate")
    result, count = np.full(96, 0xFF, np.uint8), blas.ffi.new("int *", -1)

    def ask(*layouts, requested=1):
        layouts = (*layouts, preference, requested, result, count)
        return blas.call("LtMatmulAlgoGetHeuristic", lt.operation, *layouts)

    assert ask(la, lb, ld, ld) == SUCCESS and count[0] == 1
    assert result[72:76].view(np.int32)[0] == SUCCESS  # its member `state`
    a, one = np.ones(64, np.float32), scalar(1, F32)
    product = (one, a, la, a, lb, one, a.copy(), ld, a.copy(), ld)
    assert lt.run(*product, result) == SUCCESS
    assert lt.run(*product, np.zeros(8, np.uint64)) == INVALID
    assert ask(la, lb, ld, ld, requested=0) == INVALID
    assert ask(lb, la, ld, ld) == INVALID  # the shapes do not fit
    assert ask(lt.layout(4, 3, 3), lb, ld, ld) == INVALID  # ld < rows
    assert ask(la, lb, ld, lt.layout(4, 2, 4, kind=F64)) == UNSUPPORTED
    for order in (-1, 2):
        assert ask(la, lb, ld, lt.layout(4, 2, 4, order=order)) == UNSUPPORTED
    for operation in (-1, 7):
        assert lt.set(3, operation, np.int32) == SUCCESS
        assert ask(lt.layout(3, 4, 3), lb, ld, ld) == INVALID
    lt.set(3, N, np.int32)
    for attribute in (22, 26):  # types of the auxiliary matrix and of the bias
        assert lt.set(attribute, 28, np.int32) == SUCCESS  # 8-bit floats
        assert ask(la, lb, ld, ld) == UNSUPPORTED
        assert lt.set(attribute, F32, np.int32) == SUCCESS
    assert count[0] == 0
    lt.set(2, 2, np.int32)  # vectors of alphas
    assert ask(la, lb, ld, ld) == UNSUPPORTED


def test_lt_attributes_have_fixed_sizes(blas):
    lt, size = Lt(blas), blas.ffi.new("size_t *")
    assert lt.set(7, 2, np.uint64) == INVALID and lt.set(9, 2, np.uint32) == INVALID
    get = blas.C.cublasLtMatmulDescGetAttribute
    assert get(lt.operation, 7, blas.ffi.NULL, 0, size) == SUCCESS and size[0] == 4
    value = np.array([99], np.uint32)
    assert get(lt.operation, 7, blas.pointer(value), 4, size) == SUCCESS
    assert value[0] == 1  # the default epilogue
    assert get(lt.operation, 7, blas.pointer(value), 2, size) == INVALID


def test_lt_changes_the_order_of_a_matrix(blas):
    a = draw(np.random.default_rng(8), (5, 3), F32)
    lt = Lt(blas)
    operation = blas.create("cublasLtMatrixTransformDescCreate", F32)
    C = store(np.full((5, 3), np.nan), F32, 4, by_rows=True)
    la, lc = lt.layout(5, 3, 6), lt.layout(5, 3, 4, ROWS)
    operands = (scalar(2, F32), store(a, F32, 6), la, scalar(0, F32), None, None)
    assert blas.call("LtMatrixTransform", operation, *operands, C, lc, None) == SUCCESS
    assert (load(C, F32, 5, 3, by_rows=True) == 2 * a).all()
    # 8-bit integers are rounded, and limited to their range.
    a = np.arange(-75.0, 75, 10).reshape(5, 3)
    C = store(np.full((5, 3), 77.0), I8, 4, by_rows=True)
    la, lc = lt.layout(5, 3, 6, kind=I8), lt.layout(5, 3, 4, ROWS, kind=I8)
    operands = (scalar(2, F32), store(a, I8, 6), la, *operands[3:])
    assert blas.call("LtMatrixTransform", operation, *operands, C, lc, None) == SUCCESS
    assert (load(C, I8, 5, 3, by_rows=True) == np.clip(2 * a, -128, 127)).all()


# ---- the headers ----------------------------------------------------------------


def test_values_equal_those_of_nvidias_headers(tmp_path):
    """Every enumerator that both headers have has the same value."""
    flags = tools.vendor_headers(tuple(sys.path))
    if not flags:
        pytest.skip("the wheel nvidia-cublas, which has the headers, is not installed")
    own = "".join(
        (SIMT / "include" / f"cublas{x}.h").read_text() for x in ("_api", "Lt")
    )
    theirs = ""
    for folder in flags[1::2]:
        for name in ("cublas_api.h", "cublasLt.h"):
            theirs += (build.Path(folder) / name).read_text()
    pairs = re.findall(r"^\s*(CUBLAS\w+) = ([^,/}\n]+?),?\s*(?:/.*)?$", theirs, re.M)
    shared = [(name, value) for name, value in pairs if re.search(rf"\b{name}\b", own)]
    assert len(shared) > 150
    lines = [f"static_assert((int)({n}) == (int)({v}));" for n, v in shared]
    source = tmp_path / "a.cpp"
    source.write_text("#include <cublasLt.h>\n" + "\n".join(lines))
    command = [build.find_tool("g++"), "-std=c++17", "-fsyntax-only", "-w"]
    command += [f"-I{folder}" for folder in build.SIMT]
    result = subprocess.run([*command, source], capture_output=True, text=True)
    assert not result.returncode, result.stderr
