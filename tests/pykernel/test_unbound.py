"""to_cuda warns about a local that a branch may leave without a value."""

import warnings

import numpy as np
import pytest

from weft import cuda, sim, to_cuda

TYPES = ("float32[:]", "int")


def one_branch(x, n):
    i = cuda.grid(1)
    if i < n:
        v = x[i]
    x[i] = v  # HERE


def other_branch(x, n):
    i = cuda.grid(1)
    if i < n:
        x[i] = 0
    else:
        v = x[i]
    x[i] += v  # HERE


def added(x, n):
    i = cuda.grid(1)
    if n > 3:
        s = 0.0
    s += x[i]  # HERE
    x[i] = s


def half(a, n):
    if n > 3:
        r = a
    return r  # HERE


def called(x, n):
    x[0] = half(x[0], n)


@pytest.mark.parametrize("kernel", [one_branch, other_branch, added, called])
def test_a_local_of_one_branch_is_warned_of_at_its_line(kernel):
    with pytest.warns(UserWarning, match="is read here but has no value") as records:
        to_cuda(kernel, TYPES)
    with open(__file__) as file:
        lines = file.read().splitlines()
    [one] = records
    assert "HERE" in lines[one.lineno - 1] and one.filename == __file__
    assert ("half" if kernel is called else kernel.__name__) in str(one.message)


def test_sim_raises_where_c_warns():
    with pytest.raises(UnboundLocalError):
        sim(one_branch)[1, 4](np.zeros(4, np.float32), 2)


def same_condition(x, n):
    i = cuda.grid(1)
    if i < n:
        v = x[i]
    cuda.syncthreads()
    if i < n and n > 1:
        x[i] = v


def both_branches(x, n):
    if n > 3:
        v = x[0]
    elif n > 2:
        v = x[1]
    else:
        v = x[2]
    x[0] = v


def returns(x, n):
    if n > 3:
        v = x[0]
    else:
        return
    x[0] = v


def loops(x, n):
    for k in range(n):
        if k % 4 == 0:
            v = x[k]
        x[k] += v
    for j in range(n):
        w = x[j]
    x[0] = w


def negated(x, n):
    if n > 3:
        v = x[0]
    if not n > 3:
        x[1] = 0
    else:
        x[0] = v


@pytest.mark.parametrize(
    "kernel", [same_condition, both_branches, returns, loops, negated]
)
def test_what_somebody_can_have_meant_is_no_warning(kernel):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        to_cuda(kernel, TYPES)
