"""What a refusal suspects is what is wrong: each of these once said something else."""

import numpy as np
import pytest

from weft import Mismatch, check, cuda, inspect, load_cuda, sim
from weft.report.cures import in_python

float32 = np.float32


def refused(*args, **options):
    with pytest.raises(Mismatch) as found:
        check(*args, **options)
    return str(found.value)


# ---- races in place -----------------------------------------------------------------


def mirror_in_place(x, n):
    i = cuda.grid(1)
    if i < n:
        x[i] = x[n - 1 - i]


def mirror_through_a_variable(x, n):
    i = cuda.threadIdx.x
    value = x[n - 1 - i] if i < n else float32(0)
    cuda.syncthreads()
    if i < n:
        x[i] = value


def blur_in_place(x, n):
    i = cuda.grid(1)
    if 0 < i < n - 1:
        x[i] = (
            x[i - 1] + x[i]
            + x[i + 1]
        ) / float32(3)  # fmt: skip


def add_up(out, x, n):
    i = cuda.threadIdx.x
    if i < n:
        out[0] = out[0] + x[i]


def halve_without_a_barrier(x):
    i = cuda.threadIdx.x
    step = 32
    while step > 0:
        if i < step:
            x[i] += x[i + step]
        step //= 2


CELL = load_cuda(
    """
__global__ void mirror(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[n - 1 - i];
}
__global__ void blur(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (0 < i && i < n - 1)
        x[i] = (x[i - 1] + x[i]
                + x[i + 1]) / 3;
}
__global__ void add_up(float *out, const float *x, int n) {
    int i = threadIdx.x;
    if (i < n) out[0] = out[0] + x[i];
}
__global__ void left(float *y, const float *x) {
    __shared__ float s[64];
    int i = threadIdx.x;
    s[i] = x[i]; y[i] = s[(i + 1) % 64];
}
""",
    target="cpu",
    name="test_suspicions.py",
)
BACKWARDS = {"inout": {"x": "n"}, "sizes": [4, 9], "launch": lambda n: (1, n)}


@pytest.mark.parametrize("kernel", [mirror_in_place, CELL.mirror])
def test_a_mirror_in_place_is_told_to_read_before_a_barrier(kernel):
    said = refused(kernel, lambda x: x[::-1], watched=True, **BACKWARDS)
    assert "overwrites what another has still to read: read into a variable" in said
    assert "would not help" not in said
    check(mirror_through_a_variable, lambda x: x[::-1], **BACKWARDS)


@pytest.mark.parametrize("kernel", [mirror_in_place, CELL.mirror])
def test_blocks_in_place_are_told_that_they_need_a_second_array(kernel):
    options = {"inout": {"x": "n"}, "sizes": [4], "launch": (4, 1), "watched": True}
    said = refused(kernel, lambda x: x[::-1], **options)
    assert "no barrier holds for all blocks, so write into a second array" in said


def cures(kernel, grid, block, *args):
    watch = inspect if hasattr(kernel, "module") else sim
    report = watch(kernel, quiet=True)[grid, block](*args)
    return [in_python(one) for one in report.findings if one.kind == "race"]


@pytest.mark.parametrize("kernel", [blur_in_place, CELL.blur])
def test_a_stencil_in_place_needs_a_variable_or_a_second_array_and_no_atomic(kernel):
    x = np.arange(64, dtype=float32)
    within = cures(kernel, 1, 64, x, 64)
    assert within and all("read into a variable" in cure for cure in within)
    apart = cures(kernel, 64, 1, x, 64)
    assert apart and all(cure.startswith("write into a second") for cure in apart)


@pytest.mark.parametrize("kernel", [add_up, CELL.add_up])
def test_an_update_spelled_out_is_one_still(kernel):
    out, x = np.zeros(1, float32), np.ones(64, float32)
    assert all("as one step" in cure for cure in cures(kernel, 1, 64, out, x, 64))


def test_what_a_barrier_between_cures_is_told_so():
    x = np.zeros(64, float32)
    for found in (
        cures(halve_without_a_barrier, 1, 32, x),  # a barrier between its rounds
        cures(CELL.left, 1, 64, x, x.copy()),  # two statements in one line
    ):
        assert found and all("barrier between" in c or "()" in c for c in found)
        assert not any("variable" in c or "as one step" in c for c in found)
