"""All runners refuse unsuitable arguments of a Python kernel in the same words."""

import re

import numpy as np
import pytest
import torch

from weft import TranslationError, cuda, cuda_c, load_cuda, numba_jit, sim
from weft.base.errors import ArgumentError
from weft.pykernel.language import PythonKernel, explain_unfit
from weft.pykernel.trees import LOOP_HINT, list_written

RUNNERS = [sim, numba_jit, cuda_c]


def put(x, n):
    i = cuda.grid(1)
    if i < n:
        x[i] = i


def read_only():
    array = np.zeros(4, np.float32)
    array.flags.writeable = False
    return array


FLOATS = np.zeros(4, np.float32)
REFUSED = {
    "list": (([1.0], 4), r"x is a list, .* pass np\.array\(x\)"),
    "range": ((range(4), 4), "x is a range, which a kernel cannot read"),
    "none": ((None, 4), "x is None: pass an array, a tensor, a number"),
    "string": (("abc", 4), "x is a str: pass an array"),
    "a dict as a size": ((FLOATS, {}), "n is a dict: pass an array"),
    "a class": ((np.float32, 4), "x is a type: pass an array"),
    "strings": ((np.array(["a"]), 4), "x contains <U1, which no kernel can"),
    "objects": ((np.array([None]), 4), "x contains Python objects"),
    "dates": ((np.zeros(4, "M8[s]"), 4), r"x contains datetime64\[s\]"),
    "long double": ((np.zeros(4, np.longdouble), 4), "x contains float128"),
    "a long double": ((FLOATS, np.longdouble(4)), r"n is a longdouble.*float\(n\)"),
    "byte order": ((np.zeros(4, ">f4"), 4), r"x contains >f4.*astype\(np\.float32\)"),
    "bfloat16": ((torch.zeros(4).bfloat16(), 4), r"x contains bfloat16.*x\.float\(\)"),
    "gradient": ((torch.zeros(4, requires_grad=True), 4), "requires a gradient"),
    "sparse": ((torch.zeros(4).to_sparse(), 4), "x is a torch.sparse_coo tensor"),
    "meta": ((torch.zeros(4, device="meta"), 4), "x is on meta: pass a tensor on"),
    "masked": ((np.ma.masked_less(FLOATS, 1), 4), r"x is a masked array.*x\.filled"),
    "masked number": ((FLOATS, np.ma.masked), "n is a masked array"),
    "no dimensions": ((np.array(1.0), 4), r"x has no dimensions: .*reshape\(1\)"),
    "tensor of none": ((torch.tensor(1.0), 4), "x has no dimensions"),
    "arrays in a tuple": (((FLOATS,), 4), "x contains a ndarray: a tuple may"),
    "a long int": ((FLOATS, 2**63), "n = 9223372036854775808: pass a whole number of"),
    "read-only": ((read_only(), 4), r"x is read-only, but put writes .*x\.copy\(\)"),
    "too few": ((FLOATS,), r"put takes 2 arguments \(x, n\), but 1 are given"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_all_runners_refuse_an_argument_in_the_same_words(case):
    args, message = REFUSED[case]
    words = set()
    for runner in RUNNERS:
        with pytest.raises(ArgumentError, match=message) as error:
            runner(put)[1, 4](*args)
        words.add(str(error.value))
    assert len(words) == 1, words
    assert words.pop().startswith("put")


def test_arguments_by_keyword_are_refused_in_the_same_words():
    message = r"put: n= is a keyword: .*put\[grid, block\]\(x, n\)"
    for runner in RUNNERS:
        with pytest.raises(ArgumentError, match=message):
            runner(put)[1, 4](FLOATS, n=4)


def copy(y, x):
    i = cuda.grid(1)
    y[i] = x[i]


@pytest.mark.parametrize("runner", [sim, numba_jit])
def test_a_read_only_array_may_be_read(runner):
    y = np.ones(4, np.float32)
    runner(copy)[1, 4](y, read_only())
    assert not y.any()


@pytest.mark.parametrize(
    "value", [np.zeros(4, np.complex128), 1 + 2j, (1, 2), np.zeros(2, [("re", "f4")])]
)
def test_c_names_the_runners_that_take_what_it_does_not(value):
    assert explain_unfit(value) == ""
    with pytest.raises(ArgumentError, match=r"^put: x.*sim and numba_jit"):
        cuda_c(put)[1, 4](value, 4)


class Speaks:
    __array_interface__ = FLOATS.__array_interface__


def test_c_says_how_to_pass_what_speaks_numpys_protocol():
    sim(put)[1, 4](Speaks(), 0)
    with pytest.raises(ArgumentError, match=r"^put: x .*pass np\.asarray\(x\)"):
        cuda_c(put)[1, 4](Speaks(), 0)


def adds(x, y, z):
    cuda.atomic.add(x, 0, z[0])
    y[0][1] += z[1]


def test_what_a_kernel_writes_is_found_in_its_source():
    assert set(list_written(PythonKernel(adds).source.tree)) == {"x", "y"}


def neighbours(x, n):
    i = cuda.grid(1)
    s = 0
    for v in (-1, 0, 1):
        if 0 <= i + v < n:
            s += v
    for v in (6, 3):
        s += v * 10
    for v in (2,):
        s += v * 100
    x[i] = s


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_loop_over_numbers_in_brackets_runs_on_all(runner):
    x = np.zeros(4, np.float32)
    runner(neighbours)[1, 4](x, 4)
    assert x.tolist() == [291, 290, 290, 289]


def uneven(x, n):
    for v in (1, 2, 4):
        x[v] = n


@pytest.mark.parametrize("runner", [sim, cuda_c])
def test_a_loop_over_other_values_is_told_what_to_write(runner):
    message = "loop"
    with pytest.raises((ArgumentError, TranslationError), match=message) as error:
        runner(uneven)[1, 1](FLOATS, 4)
    assert LOOP_HINT in str(error.value)


COPIES = load_cuda(
    """
__global__ void twice(float *y, const float *x, int n) {
    int i = threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
""",
    target="cpu",
    name="test_kernel_arguments.py copies",
)


@pytest.mark.parametrize(
    "y",
    [
        np.zeros(8, np.float32)[::2],
        torch.zeros(8)[::2],
        np.zeros(4),
        torch.zeros(4, dtype=torch.float64),
    ],
)
def test_the_advice_for_an_output_that_does_not_fit_brings_its_numbers_back(y):
    """If only a copy were passed, the kernel's results would be lost with it."""
    x = np.arange(4, dtype=np.float32)
    with pytest.raises(ArgumentError) as refused:
        COPIES.twice[1, 4](y, x, 4)
    words = "pass a copy (.*), and copy it back after the launch: (.*)"
    advice = re.search(words, str(refused.value))
    names = {"y": y, "np": np, "torch": torch}
    exec(advice[1], names)
    COPIES.twice[1, 4](names["c"], x, 4)
    exec(advice[2], names)
    assert y.tolist() == [0, 2, 4, 6]


def test_the_advice_for_an_input_is_a_copy_alone():
    y = torch.zeros(4)
    for x, message in (
        (torch.zeros(8)[::2], r"pass its \.contiguous\(\)$"),
        (np.zeros(8, np.float32)[::2], r"pass np\.ascontiguousarray\(x\)$"),
        (np.zeros(4), r"pass its \.astype\(np\.float32\)$"),
    ):
        with pytest.raises(ArgumentError, match=message):
            COPIES.twice[1, 4](y, x, 4)
