"""Lanes that a warp's call names or reads, but that take no part: `sim` and the watch
build of CUDA C report them in the same words."""

import json
import os
import subprocess

import numpy as np
import pytest

from weft import cuda, sim
from weft.programs import program

ALL = 0xFFFFFFFF


def guarded_scan(y, x, n):
    lane = cuda.threadIdx.x
    v = x[lane]
    if lane >= 1:
        v += cuda.shfl_up_sync(ALL, v, 1)
    y[lane] = v


def guarded_sum(y, x, n):
    i = cuda.grid(1)
    if i < n:
        v = x[i]
        o = 16
        while o > 0:
            v += cuda.shfl_down_sync(ALL, v, o)
            o //= 2
        if cuda.laneid == 0:
            y[i // 32] = v


def second_stage(y, x, n):
    i = cuda.threadIdx.x
    if i < n:
        v = x[i]
        o = 16
        while o > 0:
            v += cuda.shfl_down_sync(ALL, v, o)
            o //= 2
        y[i] = v


def voted_mask(y, x, n):
    i = cuda.threadIdx.x
    mask = cuda.ballot_sync(ALL, i < n)
    if i < n:
        v = x[i]
        o = 16
        while o > 0:
            v += cuda.shfl_down_sync(mask, v, o)
            o //= 2
        y[i] = v


def returned(y, x, n):
    i = cuda.grid(1)
    if i >= n:
        return
    v = x[i]
    v += cuda.shfl_down_sync(ALL, v, 16)
    y[i] = v


def block_too_small(y, x, n):
    i = cuda.grid(1)
    v = x[i]
    v += cuda.shfl_xor_sync(ALL, v, 16)
    y[i] = v


def half_synchronises(y, x, n):
    i = cuda.threadIdx.x
    if i < n:
        y[i] = x[i]
        cuda.syncwarp()


def half_votes(y, x, n):
    i = cuda.threadIdx.x
    if i < n:
        y[i] = cuda.ballot_sync(ALL, x[i] > 3)


def half_matches(y, x, n):
    i = cuda.threadIdx.x
    if i < n:
        y[i] = cuda.match_any_sync(ALL, x[i])


def lane_31_is_read(y, x, n):
    i = cuda.threadIdx.x
    if i < n:
        y[i] = cuda.shfl_sync(0x0000FFFF, x[i], 31)


def sum_of_a_small_block(y, x, n):
    i = cuda.threadIdx.x
    v = x[i]
    v += cuda.shfl_down_sync(ALL, v, 4)
    v += cuda.shfl_down_sync(ALL, v, 2)
    v += cuda.shfl_down_sync(ALL, v, 1)
    if i == 0:
        y[0] = v


def sum_of_eight_lanes(y, x, n):
    i = cuda.threadIdx.x
    if i < 8:
        v = x[i]
        v += cuda.shfl_down_sync(0xFF, v, 4)
        v += cuda.shfl_down_sync(0xFF, v, 2)
        v += cuda.shfl_down_sync(0xFF, v, 1)
        if i == 0:
            y[0] = v


def vote_after_a_return(y, x, n):
    i = cuda.grid(1)
    if i >= n:
        return
    y[i] = cuda.ballot_sync(ALL, x[i] > 3)
    cuda.syncwarp()


def neutral_beyond_the_end(y, x, n):
    i = cuda.grid(1)
    v = np.int32(0)
    if i < n:
        v = x[i]
    o = 16
    while o > 0:
        v += cuda.shfl_down_sync(ALL, v, o)
        o //= 2
    if i < n:
        y[i] = v


SUM = "for (int o = 16; o; o /= 2) v += __shfl_down_sync({mask}, v, o);"
TREE = "for (int o = 4; o; o /= 2) v += __shfl_down_sync({mask}, v, o);"
# A kernel in Python, its body in CUDA C, (block, n), and the finding ("": none).
CASES = [
    (
        guarded_scan,
        "int v = x[i]; if (i >= 1) v += __shfl_up_sync(~0u, v, 1); y[i] = v;",
        (32, 32),
        "thread 1: lane 1 reads lane 0, which takes no part: it came to the kernel's "
        "end another way",
    ),
    (
        guarded_sum,
        f"if (i < n) {{ int v = x[i]; {SUM.format(mask='~0u')}"
        " if (i % 32 == 0) y[i / 32] = v; }",
        (64, 40),
        "thread 32: lane 0 reads lane 16, which takes no part: it came to the "
        "kernel's end another way",
    ),
    (
        second_stage,
        f"if (i < n) {{ int v = x[i]; {SUM.format(mask='~0u')} y[i] = v; }}",
        (64, 2),
        "thread 0: lane 0 reads lane 16, which takes no part: it came to the kernel's "
        "end another way",
    ),
    (
        voted_mask,
        "unsigned mask = __ballot_sync(~0u, i < n); if (i < n) { int v = x[i];"
        f" {SUM.format(mask='mask')} y[i] = v; }}",
        (32, 8),
        "thread 0: lane 0 reads lane 16, which takes no part: the mask 0x000000ff "
        "does not name it",
    ),
    (
        returned,
        "if (i >= n) return; int v = x[i]; v += __shfl_down_sync(~0u, v, 16);"
        " y[i] = v;",
        (64, 40),
        "thread 32: lane 0 reads lane 16, which takes no part: it has returned",
    ),
    (
        block_too_small,
        "int v = x[i]; v += __shfl_xor_sync(~0u, v, 16); y[i] = v;",
        (40, 40),
        "thread 32: lane 0 reads lane 16, which takes no part: the block has 40 "
        "threads",
    ),
    (
        half_synchronises,
        "if (i < n) { y[i] = x[i]; __syncwarp(); }",
        (32, 16),
        "thread 0: the mask 0xffffffff names lanes 16-31, which take no part: they "
        "came to the kernel's end another way",
    ),
    (
        half_votes,
        "if (i < n) y[i] = __ballot_sync(~0u, x[i] > 3);",
        (32, 31),
        "thread 0: the mask 0xffffffff names lane 31, which takes no part: it came to "
        "the kernel's end another way",
    ),
    (
        half_matches,
        "if (i < n) y[i] = __match_any_sync(~0u, x[i]);",
        (32, 16),
        "thread 0: the mask 0xffffffff names lanes 16-31, which take no part: they "
        "came to the kernel's end another way",
    ),
    (
        lane_31_is_read,
        "if (i < n) y[i] = __shfl_sync(0xffff, x[i], 31);",
        (32, 16),
        "thread 0: lane 0 reads lane 31, which takes no part: the mask 0x0000ffff "
        "does not name it",
    ),
    (
        sum_of_a_small_block,
        f"int v = x[i]; {TREE.format(mask='~0u')} if (i == 0) y[0] = v;",
        (8, 8),
        "",
    ),
    (
        sum_of_eight_lanes,
        f"if (i < 8) {{ int v = x[i]; {TREE.format(mask='0xff')}"
        " if (i == 0) y[0] = v; }",
        (32, 8),
        "",
    ),
    (
        vote_after_a_return,
        "if (i >= n) return; y[i] = __ballot_sync(~0u, x[i] > 3); __syncwarp();",
        (64, 40),
        "",
    ),
    (
        neutral_beyond_the_end,
        f"int v = i < n ? x[i] : 0; {SUM.format(mask='~0u')} if (i < n) y[i] = v;",
        (64, 40),
        "",
    ),
]
C_ONLY = {
    "reduction": (
        "if (i < n) y[i] = __reduce_add_sync(~0u, x[i]);",
        "the mask 0xffffffff names lanes 16-31, which take no part",
    ),
    "match_all": (
        "int same; if (i < n) y[i] = __match_all_sync(~0u, x[i], &same);",
        "the mask 0xffffffff names lanes 16-31, which take no part",
    ),
    "own_lane_in_a_reduction": (
        "y[i] = __reduce_max_sync(0xffff, x[i]);",
        "thread 16 calls a vote with the mask 0x0000ffff, in which its own lane 16 is "
        "not named",
    ),
    "own_lane_in_a_match": (
        "y[i] = __match_any_sync(0xffff, x[i]);",
        "thread 16 calls a vote with the mask 0x0000ffff, in which its own lane 16 is "
        "not named",
    ),
}
NAMES = [kernel.__name__ for kernel, *_ in CASES]


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_simulator_names_the_lane(case):
    kernel, _, (block, n), expected = case
    x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int64)
    report = sim(kernel)[1, block](y, x, n)
    assert [f.kind for f in report.findings] == ["absent-lane"] * bool(expected)
    assert [f.text for f in report.findings] == [expected] * bool(expected)
    assert all(f.line > kernel.__code__.co_firstlineno for f in report.findings)


@pytest.fixture(scope="module")
def run_case(tmp_path_factory):
    """Return a function that returns a kernel's findings under the watch build."""
    folder = tmp_path_factory.mktemp("lanes")
    bodies = {kernel.__name__: (body, *shape) for kernel, body, shape, _ in CASES}
    bodies |= {name: (body, 32, 16) for name, (body, _) in C_ONLY.items()}
    text, calls = ["#include <string.h>"], []
    for name, (body, block, n) in bodies.items():
        text.append(
            f"__global__ void {name}(int *y, const int *x, int n) {{\n"
            f"    int i = threadIdx.x;\n    {body}\n}}"
        )
        calls.append(f'if (!strcmp(v[1], "{name}")) {name}<<<1, {block}>>>(y, x, {n});')
    lines = "\n".join(calls)
    text.append(
        "int main(int, char **v) {\nint *x, *y; cudaMalloc(&x, 256);"
        " cudaMalloc(&y, 256); cudaMemset(x, 0, 256);\n"
        f"{lines}\ncudaDeviceSynchronize(); }}\n"
    )
    source = folder / "lanes.cu"
    source.write_text("\n".join(text))
    options = program.Program([str(source)], optimise="1", check=True)
    executable = program.build_executable(options)

    def run(name: str, order: int = 0) -> list[dict]:
        report = folder / f"{name}{order}.json"
        variables = {"WEFT_CHECK_REPORT": str(report), "WEFT_RUN_ORDER": str(order)}
        subprocess.run(
            [executable, name], env=os.environ | variables, check=True, stderr=-3
        )
        return json.loads(report.read_text())["findings"]

    return run


@pytest.mark.parametrize("order", [0, 1, 7])
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_watch_build_uses_the_same_words(run_case, case, order):
    kernel, *_, expected = case
    findings = run_case(kernel.__name__, order)
    assert [f["text"] for f in findings] == [expected] * bool(expected)
    assert all(f["site"] is not None for f in findings)


@pytest.mark.parametrize("name", C_ONLY)
def test_matches_and_reductions_are_judged_at_the_kernels_line(run_case, name):
    (finding,) = run_case(name)
    assert C_ONLY[name][1] in finding["text"]
    assert finding["site"] is not None
