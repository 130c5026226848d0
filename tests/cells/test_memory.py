"""No array or memory outlives its launch, however the launch ends."""

import contextlib
import gc
import os
import subprocess
import sys
import weakref

import numpy as np
import pytest

from weft import cuda, cuda_c, load_cuda, numba_jit, sim

SOURCE = """
__global__ void add(float *y, const float *x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += x[i];
}
"""


def add(y, x, n):
    i = cuda.grid(1)
    if i < n:
        y[i] += x[i]


def barrier(y, x, n):
    i = cuda.grid(1)
    if i < n:
        y[i] += x[i]
    cuda.syncthreads()
    y[i % 8] += np.float32(1)


RUNNERS = {
    "cell": lambda: load_cuda(SOURCE, target="cpu").add,
    "inspect": lambda: load_cuda(SOURCE, target="cpu", watched=True).add,
    "in place": lambda: load_cuda(SOURCE, target="cpu", inplace=True).add,
    "sim": lambda: sim(add, quiet=True),
    "sim without checks": lambda: sim(add, quiet=True, checks=False),
    "sim with barriers": lambda: sim(barrier, quiet=True),
    "sim with a trace": lambda: sim(add, quiet=True, trace=True),
    "cuda_c": lambda: cuda_c(add),
    "numba_jit": lambda: numba_jit(add),
}
ENDS = {
    "right": lambda n: (np.zeros(n, np.float32), np.ones(n, np.float32), n),
    "out of bounds": lambda n: (np.zeros(n, np.float32), np.ones(5, np.float32), n),
    "refused": lambda n: (np.zeros(n, np.float32), np.ones(n, "S4"), n),
    "too few": lambda n: (np.zeros(n, np.float32), np.ones(n, np.float32)),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("runner", RUNNERS)
def test_no_array_outlives_its_launch(runner, end):
    """Arrays must be freed promptly: low memory does not start the cycle collector."""
    if runner in ("in place", "numba_jit") and end == "out of bounds":
        pytest.skip("memory beyond the arrays may contain anything")
    launch = RUNNERS[runner]()[1, 32]
    launch(*ENDS["right"](32))  # this launch creates all objects that exist only once
    gc.disable()
    try:
        args = ENDS[end](32)
        references = [weakref.ref(one) for one in args if isinstance(one, np.ndarray)]
        with contextlib.suppress(Exception):
            launch(*args)
        del args
        assert not [one for one in references if one() is not None]
    finally:
        gc.enable()


@pytest.mark.slow
def test_many_launches_use_no_more_memory_than_a_few():
    """20,000 launches have random arguments, and some are watched. Shadows of freed
    arrays and fenced copies once took a megabyte per launch."""
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = [sys.executable, "-m", "fuzz.mixed_launches", "20000", "1"]
    result = subprocess.run(run, text=True, capture_output=True, env=paths)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) < 300
