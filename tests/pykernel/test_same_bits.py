"""A kernel with explicit types gives the same bits on the simulator and as CUDA C."""

import inspect

import numpy as np
import pytest
import random_kernels
from python_kernels import CASES

from weft.cells import load_cuda
from weft.pykernel.sim import sim
from weft.pykernel.to_cuda import translate

SEED, KERNELS, STORES = 11, 8, 25


def together(translations):
    """Join translations into one source, each in its own namespace."""
    lines = [t.text.splitlines() for t in translations]
    headers = sorted({line for text in lines for line in text if line[:1] == "#"})
    parts = list(headers)
    for number, text in enumerate(lines):
        inside = [line for line in text if line[:1] != "#"]
        parts += [f"namespace k{number} {{", *inside, "}"]
    return "\n".join(parts) + "\n"


@pytest.fixture(scope="module")
def corpus():
    """Return the compiled kernels by name, with their translations."""
    kernels = {name: translate(c.kernel, c.arguments()) for name, c in CASES.items()}
    module = load_cuda(together(list(kernels.values())), target="cpu")
    return {name: (getattr(module, t.name), t) for name, t in kernels.items()}


def extents(translation, case, arguments):
    names = inspect.signature(case.kernel).parameters
    by_name = dict(zip(names, arguments))
    return [by_name[s[0].array].shape[s[0].axis] for _, s in translation.extents]


def same(case, expected, actual):
    if case.ulps:
        np.testing.assert_array_max_ulp(expected, actual, case.ulps)
    else:
        assert expected.tobytes() == actual.tobytes()


@pytest.mark.parametrize("name", CASES)
def test_sim_and_c_give_the_same_bits(corpus, name):
    case = CASES[name]
    kernel, translation = corpus[name]
    expected, actual = case.arguments(), case.arguments()
    run = sim(case.kernel, checks=False, quiet=True)
    run[case.grid, case.block, 0, case.shared](*expected)
    sizes = extents(translation, case, actual)
    kernel[case.grid, case.block, case.shared](*actual, *sizes)
    changed = False
    for before, a, b in zip(case.arguments(), expected, actual):
        if isinstance(a, np.ndarray):
            same(case, a, b)
            changed |= before.tobytes() != a.tobytes()
    assert changed, "the kernel wrote nothing"


@pytest.fixture(scope="module")
def random_corpus():
    kernels = random_kernels.kernels(KERNELS, SEED, STORES)
    translations = [translate(k, random_kernels.arguments(STORES)) for k in kernels]
    module = load_cuda(together(translations), target="cpu")
    return [(k, getattr(module, t.name)) for k, t in zip(kernels, translations)]


@pytest.mark.parametrize("number", range(KERNELS))
def test_random_expressions_give_the_same_bits(random_corpus, number):
    kernel, compiled = random_corpus[number]
    expected = random_kernels.arguments(STORES)
    actual = random_kernels.arguments(STORES)
    with np.errstate(all="ignore"):
        sim(kernel, checks=False, quiet=True)[1, random_kernels.THREADS](*expected)
    compiled[1, random_kernels.THREADS](*actual)
    lines = inspect.getsource(kernel).splitlines()
    for name, a, b in zip(random_kernels.OUTPUTS, expected, actual):
        if a.tobytes() != b.tobytes():
            wrong = int(np.flatnonzero(a.view("u1") != b.view("u1"))[0] // a.itemsize)
            store = f"i + {wrong // random_kernels.THREADS * random_kernels.THREADS}]"
            where = [line for line in lines if store in line and name in line]
            raise AssertionError(f"{where}: sim {a[wrong]!r}, C {b[wrong]!r}")
