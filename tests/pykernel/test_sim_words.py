"""Messages about a beginner's kernels; sim and cuda_c use the same words."""

import math

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from numpy import float32

from weft import ArgumentError, cuda, cuda_c, numba_jit, sim
from weft.pykernel import language
from weft.pykernel.sim.layout import WRITE, Site
from weft.pykernel.sim.log import Log
from weft.pykernel.to_cuda import TranslationError

WHOLE = "one thread handles one element"


def misspelt(out, x):
    out[cuda.threadidx.x] = x[0]


def singular(out, x):
    cuda.syncthread()


def not_called(out, x):
    cuda.syncthreads  # noqa: B018


def vector(out, x):
    i = cuda.blockIdx.x * cuda.blockDim + cuda.threadIdx.x
    out[i] = x[i]


def fourth(out, x):
    out[cuda.threadIdx.w] = x[0]


def c_like(out, x):
    cuda.atomicAdd(out, 0, x[0])


def two_arguments(out, x):
    cuda.atomic.add(out[0], 1)


def compares(out, x):
    out[0] == x[0]  # noqa: B015


def adds(out, x):
    out[0] + +x[0]


def bare(out, x):
    out[threadIdx.x] = x[0]  # noqa: F821


@pytest.mark.parametrize(
    "kernel, message",
    [
        (misspelt, r"cuda\.threadidx\.x.*did you mean cuda\.threadIdx\.x"),
        (singular, r"cuda\.syncthread\b.*did you mean cuda\.syncthreads"),
        (not_called, r"until it is called.*write cuda\.syncthreads\(\)"),
        (vector, r"cuda\.blockDim is three numbers.*cuda\.blockDim\.x"),
        (fourth, r"cuda\.threadIdx has no w"),
        (c_like, r"did you mean cuda\.atomic\.add"),
        (two_arguments, r"2 are given.*cuda\.atomic\.add\(array, index, value\)"),
        (compares, "does nothing.*= assigns, == compares"),
        (adds, "does nothing.*assign it"),
        (bare, r"threadIdx is not defined.* cuda\.threadIdx"),
    ],
)
@pytest.mark.parametrize("runner", [sim, cuda_c])
def test_the_error_says_what_was_probably_meant(kernel, message, runner):
    with pytest.raises(
        (ArgumentError, TranslationError, NameError), match=f"(?s){message}"
    ):
        runner(kernel)[1, 4](np.zeros(4, float32), np.ones(4, float32))


@pytest.mark.parametrize(
    "name, nearest",
    [
        ("blockId.x", "blockIdx.x"),
        ("shared.zeros", "shared.array"),
        ("warpSize", "warpsize"),
        ("synchronize", "syncthreads"),
        ("foo", ""),
    ],
)
def test_a_name_is_near_another(name, nearest):
    assert language.find_near_name(name) == nearest


def test_a_function_of_math_is_named():
    assert language.explain_unknown("sqrt")[1] == "did you mean math.sqrt?"


# ---- arrays taken for numbers, and numbers for arrays --------------------------


def doubles(out, x):
    out = x * 2  # noqa: F841


def asks(out, x):
    if x > 0:
        out[0] = 1


def adds_all(out, x):
    out += x


def sums(out, x):
    out[0] = x.sum()


def converts(out, x):
    out[0] = float32(x)


@pytest.mark.parametrize("kernel", [doubles, asks, adds_all, sums, converts])
def test_a_whole_array_is_no_number(kernel):
    with pytest.raises((TypeError, AttributeError), match=rf"\w+.*{WHOLE}"):
        sim(kernel)[1, 4](np.zeros(4, float32), np.ones(4, float32))


def reads_flat(out, x):
    i = cuda.threadIdx.x
    out[i] = x[i] * 2


def test_a_row_of_an_array_that_was_to_be_flat_is_told_as_one():
    with pytest.raises(TypeError, match=r"x has more dimensions .* x\.ravel\(\)"):
        sim(reads_flat)[1, 4](np.zeros(4, float32), np.ones((4, 2), float32))


def numpy_sums(out, x):
    out[0] = np.sum(x)


def numpy_makes(out, x):
    t = np.zeros(4)
    out[0] = t[0]


def numpy_draws(out, x):
    out[0] = np.random.random()


@pytest.mark.parametrize("kernel", [numpy_sums, numpy_makes, numpy_draws])
@pytest.mark.parametrize("runner", [sim, cuda_c])
def test_functions_of_whole_arrays_are_not_for_a_kernel(kernel, runner):
    with pytest.raises(
        (ArgumentError, TranslationError), match=r"(?s)np\.[\w.]+\(\) .*(loop|def)"
    ):
        runner(kernel)[1, 4](np.zeros(4, float32), np.ones(4, float32))


def numpy_of_one(out, x):
    i = cuda.grid(1)
    out[i] = np.sqrt(np.maximum(x[i], np.float32(4)))


def test_numpys_functions_of_numbers_are():
    out = np.zeros(4, float32)
    assert sim(numpy_of_one)[1, 4](out, np.ones(4, float32)).ok
    assert (out == 2).all()


def reads(out, x):
    out[0] = x[0]


def looks(out, x):
    out[0] = x.shape[0]


def test_a_tuple_is_only_read():
    with pytest.raises(TypeError, match=r"out is a tuple, .*read-only: out\[0\]"):
        sim(reads)[1, 1]((1, 2), np.ones(4, float32))


@pytest.mark.parametrize("kernel", [reads, looks])
def test_a_number_is_no_array(kernel):
    with pytest.raises((TypeError, AttributeError), match="x is a number, 7"):
        sim(kernel)[1, 1](np.zeros(4, float32), 7)


def pairs(out, x):
    i = cuda.grid(2)
    out[i] = x[i]


def halves(out, x):
    for i in range(len(x) / 2):
        out[i] = x[i]


@pytest.mark.parametrize(
    "kernel, message", [(pairs, r"x, y = cuda\.grid\(2\)"), (halves, "n // 2")]
)
def test_what_is_no_whole_number(kernel, message):
    with pytest.raises(TypeError, match=message):
        sim(kernel)[1, 4](np.zeros(4, float32), np.ones(4, float32))


# ---- numbers ---------------------------------------------------------------------


def cuts(out, x):
    i = cuda.grid(1)
    out[i] = math.trunc(x[i])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8])
def test_trunc_takes_every_type(dtype):
    x = np.array([1.75, 2.5, 3.25, 4], dtype)
    out = np.zeros(4, np.int32)
    assert sim(cuts)[1, 4](out, x).ok
    assert out.tolist() == [1, 2, 3, 4]


def hashes(u, i, x):
    t = cuda.threadIdx.x
    u[t] = np.uint32(t * 2654435761 + 1)
    u[t] = np.uint32(u[t] * np.uint32(1664525) + np.uint32(1013904223))
    u[t] ^= np.uint32(-1)
    i[t] = np.int8(t * 100) + np.int32(x[t])


def test_conversions_to_whole_numbers_wrap():
    # NumPy's own uint32() raises an error for a Python int that does not fit.
    t = np.arange(4, dtype=np.uint64)
    expected = (t * 2654435761 + 1) * 1664525 + 1013904223
    u, i = np.zeros(4, np.uint32), np.zeros(4, np.int32)
    assert sim(hashes)[1, 4](u, i, np.array([1.5, -1.5, 2, 3], float32)).ok
    assert (u == ~expected.astype(np.uint32)).all()
    assert i.tolist() == [1, 99, -54, 47]


# ---- shapes ----------------------------------------------------------------------

SIDE = 2


def own_constants(out, x):
    side = 2 * SIDE
    pad = 1
    tile = cuda.shared.array((side, side + pad), float32)
    i, j = cuda.threadIdx.y, cuda.threadIdx.x
    tile[i, j] = x[i * side + j]
    cuda.syncthreads()
    out[i * side + j] = tile[j, i]


@pytest.mark.parametrize("runner", [sim, cuda_c])
def test_a_shape_may_be_of_the_kernels_own_constants(runner):
    out, x = np.zeros((4, 4), float32), np.arange(16, dtype=float32).reshape(4, 4)
    runner(own_constants)[1, (4, 4)](out.reshape(-1), x.reshape(-1))
    assert (out == x.T).all()


def of_an_argument(x, n):
    side = n
    tile = cuda.shared.array(side, float32)
    tile[0] = x[0]


def of_two_values(x, n):
    side = 4
    if n > 4:
        side = 8
    tile = cuda.shared.array(side, float32)
    tile[0] = x[0]


def of_a_thread(x, n):
    side = cuda.threadIdx.x
    tile = cuda.shared.array(side, float32)
    tile[0] = x[0]


@pytest.mark.parametrize("kernel", [of_an_argument, of_two_values, of_a_thread])
@pytest.mark.parametrize("runner", [sim, cuda_c])
def test_a_shape_is_known_before_the_launch(kernel, runner):
    message = "(?s)must be known before the launch|is not constant.*shape 0"
    with pytest.raises((ArgumentError, TranslationError), match=message):
        runner(kernel)[1, 4](np.ones(4, float32), 4)


# ---- a hang ends a launch anywhere ---------------------------------------------------


@pytest.mark.parametrize("column", ["starts", "entries"])
def test_what_is_half_noted_is_dropped(column):
    log = Log([Site(WRITE, 0, "x[0]", "f.py", 1, 0)], {})
    log.starts.append(0)
    log.threads.append(0)
    log.entries.append(0)
    log.values.append(1.0)
    getattr(log, column).append(0)  # the other column lacks this entry
    log.end_early(0, refused=False)
    (interval,) = log.take()
    assert interval.thread.tolist() == [0] and interval.values == [1.0]


@pytest.mark.parametrize("kernel", [misspelt, singular, fourth, c_like])
def test_numba_says_of_a_misspelt_name_what_sim_says(kernel):
    words = set()
    for runner in (sim, numba_jit):
        with pytest.raises(ArgumentError) as error_info:
            runner(kernel)[1, 1](np.zeros(4, float32), np.zeros(4, float32))
        words.add(str(error_info.value))
    assert len(words) == 1, words


def test_numba_says_where_a_bare_name_belongs():
    with pytest.raises(ArgumentError, match=r"write cuda\.threadIdx"):
        numba_jit(bare)[1, 1](np.zeros(4, float32), np.zeros(4, float32))


def test_a_notebook_shows_a_kernel_with_its_own_parameters(capsys):
    shell = InteractiveShell.instance(colors="nocolor")
    try:
        shell.history_manager.enabled = False
        shell.user_ns.update(sim=sim, cuda=cuda, np=np)
        shell.run_cell("def k(x):\n    x[cuda.threadIdx.x + 9] = 1\n")
        for mode, parameters in ("Context", "(x)"), ("Verbose", "(x=x: array"):
            shell.run_line_magic("xmode", mode)
            shell.run_cell("sim(k)[1, 4](np.zeros(4))")
            assert f"in k{parameters}" in capsys.readouterr().out
    finally:
        InteractiveShell.clear_instance()
