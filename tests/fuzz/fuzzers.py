"""The fuzzers' targets. Each try must end without an error, or with one of the lab's
own errors in a few lines.
"""

import contextlib
import functools
import gzip
import hashlib
import io
import linecache
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import hypothesis
import numpy as np
from fuzz import kernel_grammar, launch_arguments, mixed_launches, mutations
from hypothesis import HealthCheck, strategies
from hypothesis.configuration import set_hypothesis_home_dir

from weft import cuda_c, load_cuda, numba_jit, sim, to_cuda
from weft.base import store
from weft.base.errors import BuildError, Short
from weft.cells import checks
from weft.csource import signature
from weft.csource.rewrite import rewrite
from weft.csource.scanner import RewriteError
from weft.mnist import data, weights
from weft.mnist.data import DataError

# This keeps hypothesis's files out of the checkout.
set_hypothesis_home_dir(store.cache_folder("hypothesis"))
OURS = Short, BuildError, RewriteError, DataError
LONGEST = 3000  # maximum characters of an error message


@dataclass(frozen=True)
class Fuzzer:
    """try_one: runs one try with a random source and a folder to write to; raises any
    forbidden error. short: tries in `make test-slow`; goal: tries in `make fuzz`."""

    try_one: Callable[[Random, Path], None]
    short: int
    goal: int

    def run(self, count: int, seed: int, folder: Path) -> None:
        """Run `count` tries; shrink the first failure, and raise it."""

        @hypothesis.settings(
            max_examples=count,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @hypothesis.seed(seed)
        @hypothesis.given(strategies.randoms(use_true_random=False))
        def each(random):
            with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
                warnings.simplefilter("ignore")
                self.try_one(random, folder)

        each()


def refused(call: Callable[[], object], readers: Sequence[str] = ()) -> None:
    """Call a function; accept one of the lab's own errors, or an error at a line of a
    file in `readers`, the files with kernels in Python."""
    try:
        call()
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        if isinstance(error, OURS):
            assert str(error).strip() and len(str(error)) <= LONGEST, str(error)
        elif frames[-1].filename not in readers:
            raise


# ---- launches ----------------------------------------------------------------------


launched = functools.cache(mixed_launches.kernels)


def try_arguments(random, folder):
    """Launch with arguments of every kind."""
    kernel, params = random.choice(launched())
    args = launch_arguments.arguments(random, params, 600)
    shape = random.randint(1, 4), random.choice([1, 32])
    refused(lambda: kernel[shape](*args), [mixed_launches.__file__])


TEMPLATE = signature.parse("template <class T, int N> __global__ void k(T *y) {}")[0]


def try_shapes(random, folder):
    """Try the contents of the brackets of a kernel and of a template."""
    kernel = random.choice([*shaped(), None])
    if kernel is None:
        args = [launch_arguments.anything(random, 9) for _ in range(2)]
        refused(lambda: TEMPLATE.instantiate(args))
    else:
        key = launch_arguments.brackets(random)
        refused(lambda: kernel[key])


@functools.cache
def shaped():
    add = mixed_launches.add
    cell = load_cuda(mixed_launches.SOURCE, target="cpu").add
    return [cell, sim(add), cuda_c(add), numba_jit(add)]


# ---- kernels -----------------------------------------------------------------------


def try_kernel(random, folder):
    """Simulate and translate a kernel from a grammar."""
    try:
        kernel = kernel_grammar.kernel(random)
    except SyntaxError:
        return
    name = kernel.__code__.co_filename
    args = kernel_grammar.arguments()
    # A kernel may contain a helper of the grammar.
    readers = [name, kernel_grammar.__file__]
    hypothesis.note("".join(linecache.getlines(name)))
    refused(lambda: sim(kernel, quiet=True, timeout=1)[1, 4](*args), readers)
    refused(lambda: to_cuda(kernel, args))
    kernel_grammar.forget(kernel)


# ---- sources -----------------------------------------------------------------------


def try_source(random, folder):
    """Rewrite and check CUDA C of this tree with typing errors, without g++."""
    source = mutations.source(random)
    hypothesis.note(source)
    refused(lambda: line_by_line(source))
    refused(lambda: checks.check(source, signature.parse(source)))
    refused(lambda: checks.find_doubles(source))


def line_by_line(source: str) -> None:
    """Rewrite a source; its number of lines must not change."""
    assert rewrite(source, "cell.cu").count("\n") == source.count("\n") + 2


# ---- files -------------------------------------------------------------------------


def try_data(random, folder):
    """Load MNIST files that were damaged after or before their hash was computed."""
    images = b"\0\0\x08\x03\0\0\0\x05\0\0\0\x1c\0\0\0\x1c" + bytes(5 * 28 * 28)
    labels = b"\0\0\x08\x01\0\0\0\x05" + bytes(5)
    sums = ""
    for name, content in (("images-idx3", images), ("labels-idx1", labels)):
        name = f"t10k-{name}-ubyte"
        content = random.choice([lambda r, c: c, mutations.damaged])(random, content)
        sums += f"{hashlib.sha256(content).hexdigest()}  {name}\n"
        _write(random, folder / f"{name}.gz", gzip.compress(content, 1, mtime=0))
    _write(random, folder / "SHA256SUMS.raw", sums.encode())
    refused(lambda: data.load.__wrapped__("test", folder))


def try_weights(random, folder):
    """Load a damaged weights file, or one with other contents."""
    file, shape = io.BytesIO(), random.choice([(2, 3), (3, 2), (6,), ()])
    dtype = random.choice(["f4", "f4", "f8", "S4", "O"])
    save = random.choice([np.savez, np.savez, np.savez_compressed])
    save(file, w=np.zeros(shape, dtype), b=np.zeros(2, "f4"))
    path = folder / "weights.npz"
    path.write_bytes(mutations.damaged(random, file.getvalue()))
    refused(lambda: weights.load(path, {"w": (2, 3), "b": (2,)}))


def _write(random, path, content):
    if random.randint(0, 3) == 0:
        content = mutations.damaged(random, content)
    path.write_bytes(content)


FUZZERS = {
    "arguments": Fuzzer(try_arguments, 500, 100_000),
    "shapes": Fuzzer(try_shapes, 400, 100_000),
    "kernels": Fuzzer(try_kernel, 150, 10_000),
    "sources": Fuzzer(try_source, 150, 100_000),
    "data": Fuzzer(try_data, 150, 10_000),
    "weights": Fuzzer(try_weights, 150, 10_000),
}
