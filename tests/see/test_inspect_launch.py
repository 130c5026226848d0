"""Cells and programs under the watch build: exceptions, output and reports."""

import json
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
from tiers import first_of_each, only

import weft
from weft import cuda, cuda_c, inspect
from weft.base.errors import ArgumentError, KernelFault
from weft.cells import load_cuda

SOURCE = """\
#define LOAD(p, i) ((p)[i])
template <class T> __device__ T twice(const T *x, int i) {
    return 2 * x[i];
}
__global__ void shift(float *out, const float *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + a[i + 1];
}
__global__ void helped(float *out, const float *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = twice(a, i + n);
}
__global__ void by_macro(float *out, const float *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = 1 + LOAD(a, i + n);
}
__global__ void turned(float *x) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = s[63 - threadIdx.x];
}
__global__ void column(float *out, const float *a, int n) {
    out[threadIdx.x] = a[threadIdx.x * n];
}
template <class T> __global__ void filled(T *out, T value) {
    out[threadIdx.x] = value;
}
__global__ void waits(int *x) {
    while (atomicAdd(x, 0) == 0) {}
}
__global__ void on_the_heap(int *out) {
    int *mine = (int *)malloc(16);
    memset(mine, 0, 16);
    out[threadIdx.x] = mine[threadIdx.x];
    free(mine);
}
__device__ int shared_count;
__global__ void counts(int *out) { out[threadIdx.x] = shared_count; }
__global__ void adds(int n) { atomicAdd(&shared_count, n); }
__global__ void own(int *out) {
    extern __shared__ int given[];
    int mine[4];
    for (int i = 0; i <= 4; i++) mine[i] = given[i];
    out[threadIdx.x] = mine[threadIdx.x % 4];
}
__global__ void asserts(int n) { assert(threadIdx.x < n); }
__global__ void climbs(int *x) {
    int i = 0;
    while (x[0] == 0) {
        i++;
        x[1] = i;
    }
}
"""


@pytest.fixture(scope="module")
def cell():
    return load_cuda(SOURCE, target="cpu", watched=True, name="cell [7]")


def floats(n):
    return torch.arange(n, dtype=torch.float32)


# ---- cells -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kernel, line, text",
    [
        ("shift", 7, "a[i + 1];"),
        ("helped", 3, "x[i];"),
        ("by_macro", 15, "LOAD(a"),
    ],
)
def test_an_overrun_raises_with_its_line_and_leaves_the_arrays(
    cell, kernel, line, text
):
    out = torch.full((64,), 7.0)
    with pytest.raises(KernelFault) as raised:
        getattr(cell, kernel)[1, 64](out, floats(64), 64)
    message = str(raised.value)
    assert "Its arrays are as they were" in message
    assert f"cell [7], line {line}" in message
    rows = message.splitlines()
    caret = next(i for i, row in enumerate(rows) if row.strip() == "^")
    assert rows[caret - 1][rows[caret].index("^") :].startswith(text.split(";")[0])
    guard = "i + 1" if kernel == "shift" else "i"
    assert f"if ({guard} < n)" in rows[caret + 1]
    (one,) = [f for f in raised.value.report.findings if f.kind == "bounds"]
    assert (one.array, one.file, one.line) == ("a", "cell [7]", line)
    assert raised.value.thread == one.thread
    assert out.eq(7).all()
    cell.shift[1, 64](out, floats(65), 64)  # the next launch works
    assert out[0] == 1


def test_a_race_lets_the_launch_go_on_and_is_shown_once(capsys):
    cell = load_cuda(SOURCE, target="cpu", watched=True, name="cell [7]")
    x = floats(64)
    cell.turned[1, 64](x)
    first = capsys.readouterr()
    assert "race: thread" in first.err and first.out == ""
    assert "__syncthreads()" in first.err and "cuda." not in first.err
    cell.turned[1, 64](x)
    assert capsys.readouterr().err == ""
    report = cell.turned.report
    assert {one.kind for one in report.findings} <= {"race", "uninitialised"}
    assert {one.line for one in report.findings} <= {19, 20}
    assert report is weft.last_report()


def test_a_clean_launch_is_silent_and_reports_the_cost_of_each_line(cell, capsys):
    out = torch.zeros(64)
    cell.column[1, 64](out, floats(64 * 8), 8)
    assert out.tolist() == list(range(0, 512, 8))
    assert capsys.readouterr() == ("", "")
    report = cell.column.report
    assert report.ok and (report.grid, report.block) == ((1, 1, 1), (64, 1, 1))
    line = report.counters.lines[23]
    assert (line.of(kind="read").sectors_per_request, line.reads) == (32.0, 64)
    assert report.counters.sectors_per_request == {"a": 32.0, "out": 4.0}
    assert "slow: line 23: reading a takes 32 sectors" in str(report)
    assert "line by line: cell [7]" in report._repr_html_()


def test_a_cell_uses_the_plain_build_by_default(capsys):
    cell = load_cuda(SOURCE, target="cpu")
    x = floats(64)
    cell.turned[1, 64](x)
    assert capsys.readouterr().err == "" and cell.turned.report is None


def test_templates_are_watched_too(cell):
    out = torch.zeros(8)
    cell.filled["float"][1, 8](out, 3.0)
    assert out.eq(3).all() and cell.filled["float"].report.ok
    with pytest.raises(KernelFault, match=r"out\[8\]"):
        cell.filled["float"][1, 16](out, 4.0)
    assert out.eq(3).all()


def test_a_cells_variables_are_on_the_device(cell):
    cell.adds[1, 8](3)
    report = cell.adds.report
    assert report.ok and report.counters.atomics_per_thread == {"shared_count": 1}


def test_a_threads_own_array_is_named(cell):
    with pytest.raises(KernelFault) as raised:
        cell.own[1, 1, 20](torch.zeros(1, dtype=torch.int32))
    (one,) = [f for f in raised.value.report.findings if f.kind == "bounds"]
    assert one.text == "thread 0 uses mine[4]: mine has 4 elements"
    assert (one.array, one.index, one.line) == ("mine", (4,), 43)


def test_too_little_dynamic_shared_memory_is_cured_by_the_launch(cell):
    with pytest.raises(KernelFault, match="the launch gave 8 bytes") as raised:
        cell.own[1, 1, 8](torch.zeros(1, dtype=torch.int32))
    assert "kernel[grid, block, bytes]" in str(raised.value)


def test_an_empty_array_has_no_elements(cell):
    with pytest.raises(KernelFault, match=r"writes out\[0\]: out has 0 elements"):
        cell.filled["float"][1, 1](torch.zeros(0), 1)


def test_an_assertion_is_reported_once_in_the_readers_words(cell):
    with pytest.raises(KernelFault) as raised:
        cell.asserts[1, 32](20)
    message = str(raised.value)
    assert message.count("assertion `threadIdx.x < n` failed") == 1
    assert "(cell [7], line 46)" in message and "__global__ void asserts" in message
    assert "simt::" not in message


def test_a_cell_with_state_has_its_lines(cell):
    out = torch.zeros(4, dtype=torch.int32)
    with pytest.raises(KernelFault) as raised:
        cell.counts[1, 8](out)
    assert raised.value.report.findings[0].line == 38


def test_a_launch_without_progress_is_stopped_with_what_it_waits_for(cell):
    short = load_cuda(SOURCE, target="cpu", watched=True, timeout=0.3)
    with pytest.raises(KernelFault) as raised:
        short.waits[1, 1](torch.zeros(1, dtype=torch.int32))
    assert "after 0.3 s, thread 0 still waits for x[0]" in str(raised.value)
    (one,) = raised.value.report.findings
    assert (one.kind, one.line) == ("hang", 29)


def test_a_loop_that_never_ends_has_its_line():
    short = load_cuda(SOURCE, target="cpu", watched=True, timeout=0.3)
    with pytest.raises(KernelFault) as raised:
        short.climbs[1, 4](torch.zeros(2, dtype=torch.int32))
    (one,) = [f for f in raised.value.report.findings if f.kind == "hang"]
    assert one.line in (49, 50, 51)


def test_watched_excludes_inplace_and_isolated():
    for other in ("inplace", "isolated"):
        with pytest.raises(ArgumentError, match=f"watched and {other}"):
            load_cuda(SOURCE, target="cpu", watched=True, **{other: True})


def test_overlapping_arrays_still_overlap(cell):
    x = floats(9)
    cell.filled["float"][1, 8](x[1:], 5.0)
    assert x.tolist() == [0.0] + 8 * [5.0]
    cell.shift[1, 4](x[:4], x, 4)
    assert x[:4].tolist() == [5.0, 10.0, 10.0, 10.0]


def test_empty_and_missing_arrays_have_no_memory(cell):
    with pytest.raises(KernelFault):
        cell.filled["float"][1, 1](torch.zeros(0), 1.0)
    with pytest.raises(KernelFault, match="null pointer(?s:.*)pass an array"):
        cell.filled["float"][1, 1](None, 1.0)


def test_a_kernels_own_allocations_are_watched(cell):
    out = torch.ones(4, dtype=torch.int32)
    cell.on_the_heap[1, 4](out)
    assert not out.any() and cell.on_the_heap.report.ok
    out = torch.ones(8, dtype=torch.int32)
    with pytest.raises(KernelFault, match=r"thread 4 reads .*\(cell \[7\], line 34\)"):
        cell.on_the_heap[1, 5](out)


def test_a_kernels_allocations_leave_arrays_aligned_to_sectors(cell):
    cell.on_the_heap[1, 1](torch.ones(1, dtype=torch.int32))
    cell.column[1, 64](torch.zeros(64), floats(64), 1)
    counters = cell.column.report.counters
    assert counters.sectors_per_request == {"a": 4.0, "out": 4.0}


# ---- inspect() ---------------------------------------------------------------------


def test_inspect_gives_the_report_of_a_plain_cell(capsys):
    cell = load_cuda(SOURCE, target="cpu", name="cell")
    x = floats(64)
    report = inspect(cell.turned, order="reverse")[1, 64](x)
    assert not report.ok and "race" in capsys.readouterr().err
    assert not inspect(cell.turned, quiet=True)[1, 64](x).ok
    assert capsys.readouterr().err == ""
    with pytest.raises(KernelFault) as raised:
        inspect(cell.shift)[1, 64](x, floats(64), 64)
    assert raised.value.report.findings[0].kind == "bounds"
    cell.turned[1, 64](x)  # the plain build has not changed
    assert capsys.readouterr().err == ""


def test_inspect_runs_in_any_order(cell):
    for order in ("forward", "reverse", "shuffled", 0, 12345):
        x = floats(64)
        findings = inspect(cell.turned, order=order, quiet=True)[1, 64](x).findings
        assert "race" in {one.kind for one in findings}
    for wrong in ("sideways", -1, True, 1.5):
        with pytest.raises(
            ArgumentError, match="order must be forward, reverse, shuffled"
        ):
            inspect(cell.turned, order=wrong)


def double(out, a):
    i = cuda.grid(1)
    out[i] = 2 * a[i]


def test_inspect_takes_a_python_kernel_on_either_runner():
    out = torch.zeros(8)
    assert inspect(double)[1, 8](out, floats(8)).counters.reads == {"a": 8}
    assert inspect(cuda_c(double))[1, 8](out, floats(8)).counters.reads == {"a": 8}
    assert out.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    with pytest.raises(KernelFault):
        inspect(cuda_c(double))[1, 9](out, floats(9))


def test_inspect_requires_a_kernel_and_brackets(cell):
    with pytest.raises(ArgumentError, match=r"inspect\(shift\)\[grid, block\]"):
        inspect(cell.shift)(1)
    with pytest.raises(ArgumentError, match="kernels .*: choose one"):
        inspect(cell)
    with pytest.raises(ArgumentError, match="0 \\(none\\) to 86400"):
        inspect(cell.shift, timeout=-1)
    with pytest.raises(ArgumentError, match="a kernel of %%cuda.* 3 is of type int"):
        inspect(3)


# ---- programs ----------------------------------------------------------------------

PROGRAM = """\
#include <cstdio>
#include <cstdlib>
#include <csignal>
#include "helper.cuh"
__global__ void fill(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) x[i] = 1;
}
int main(int argc, char **argv) {
    int n = atoi(argv[1]);
    float *x;
    cudaMalloc(&x, n * sizeof(float));
    fill<<<4, 64>>>(x, 255);
    printf("%s\\n", cudaGetErrorString(cudaDeviceSynchronize()));
    double_all<<<4, 64>>>(x);
    cudaDeviceSynchronize();
    if (argc > 2) raise(atoi(argv[2]));
    return 3;
}
"""
HELPER = """\
__global__ void double_all(float *x) {
    x[blockIdx.x * blockDim.x + threadIdx.x] *= 2;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    (folder / "prog.cu").write_text(PROGRAM)
    (folder / "helper.cuh").write_text(HELPER)
    return folder


def command(folder, *words, **options):
    return subprocess.run(
        [sys.executable, "-m", "weft", "inspect", "prog.cu", *words],
        cwd=folder,
        text=True,
        capture_output=True,
        timeout=120,
        **options,
    )


@pytest.mark.slow
def test_a_clean_programs_output_and_status_are_its_own(program):
    result = command(program, "--json", "report.json", "--", "256")
    assert (result.stdout, result.returncode) == ("no error\n", 3)
    rows = [r for r in result.stderr.splitlines() if not r.startswith("weft: building")]
    assert rows[0] == "prog.cu: nothing wrong"
    assert [row.partition("[")[0] for row in rows[1:3]] == ["fill", "double_all"]
    report = json.loads((program / "report.json").read_text())
    assert report["findings"] == [] and report["machine"]["cpu"]
    assert [(k["name"], k["launches"]) for k in report["kernels"]] == [
        ("fill", 1),
        ("double_all", 1),
    ]
    assert report["kernels"][0]["counters"]["bytes"] == {"x": 1024}


@pytest.mark.slow
def test_a_faulty_program_is_reported_at_its_lines_with_status_1(program):
    result = command(program, "--listing", "all", "--json", "-", "--", "128")
    assert result.returncode == 1
    output, _, text = result.stdout.partition("\n")
    assert output == "an illegal memory access was encountered"
    (one,) = json.loads(text)["findings"]
    assert (one["kind"], one["file"], one["line"]) == ("bounds", "prog.cu", 7)
    assert (one["block"], one["index"], one["array"]) == ([2, 0, 0], [128], "x")
    assert "prog.cu:7: bounds: thread 0 of block 2 writes x[128]" in result.stderr
    rows = result.stderr.splitlines()
    at = next(i for i, row in enumerate(rows) if row.strip() == "^")
    assert rows[at - 1][rows[at].index("^") :] == "x[i] = 1;"


@pytest.mark.slow
def test_a_killed_program_keeps_its_report_and_its_signal(program):
    result = command(program, "--", "256", str(int(signal.SIGTERM)))
    assert result.returncode == -signal.SIGTERM
    result = command(program, "--", "128", str(int(signal.SIGSEGV)))
    assert result.returncode == 1 and "prog.cu:7: bounds" in result.stderr
    assert "the program itself was ended by SIGSEGV" in result.stderr


@pytest.mark.slow
def test_a_program_that_does_not_end_is_told_where_it_was(tmp_path):
    (tmp_path / "prog.cu").write_text(
        """#include <cstdio>
__global__ void spin(volatile int *x) {
    while (*x == 0) {}
}
int main() {
    int *x;
    cudaMalloc(&x, 4);
    cudaMemset(x, 0, 4);
    spin<<<1, 1>>>((volatile int *)x);
    puts(cudaGetErrorString(cudaDeviceSynchronize()));
}
"""
    )
    result = command(tmp_path, "--timeout", "2")
    assert result.returncode == 1
    assert "prog.cu:3: hang: " in result.stderr and "timed out" in result.stdout


@pytest.mark.parametrize(
    "words, said",
    first_of_each(
        [
            (["--listing", "some"], "--listing some: expected all, hot, none"),
            (["--build", "x"], "use weft run"),
            (["--json"], "--json needs a value"),
            (["--json", "nowhere/x.json"], "there is no folder"),
            (["--order", "sideways"], "--order sideways"),
        ],
        key=lambda _: "any",
        names=2,
    ),
)
def test_a_command_line_that_makes_no_sense_is_one_sentence(program, words, said):
    result = command(program, *words)
    assert result.returncode == 1 and said in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.slow
def test_a_program_without_kernels_says_so(tmp_path):
    (tmp_path / "prog.cu").write_text("int main() { return 0; }\n")
    result = command(tmp_path)
    assert result.returncode == 0 and "no kernel was seen" in result.stderr


def test_arrays_from_numpy_and_scalars_of_all_kinds_are_taken(cell):
    out = np.zeros(4, np.float32)
    cell.shift[1, 4](out, np.arange(5, dtype=np.float32), 4)
    assert out.tolist() == [1, 3, 5, 7]


LIMITED = """
import resource
import numpy as np
from weft import load_cuda

fill = load_cuda(
    "__global__ void fill(float *x) { x[threadIdx.x] = 1; }", target="cpu", watched=True
).fill
fill[1, 32](np.zeros(32, np.float32))
large = np.zeros(1 << 26, np.float32)
pages = int(open("/proc/self/statm").read().split()[0])
most = pages * resource.getpagesize() + (64 << 20)
hard = resource.getrlimit(resource.RLIMIT_AS)[1]
resource.setrlimit(resource.RLIMIT_AS, (most, hard))
try:
    fill[1, 32](large)
except MemoryError as error:
    print("refused:", error)
fill[1, 32](large[:1024])
print(large[:32].sum())
"""


@pytest.mark.slow
def test_a_limit_on_memory_holds_for_the_check_builds_arrays():
    """The runtime reserves addresses at its start, so the system would not object."""
    result = subprocess.run(
        [sys.executable, "-c", LIMITED], capture_output=True, text=True, timeout=120
    )
    assert re.search(r"refused: .*268435456 bytes", result.stdout), result
    assert result.stdout.endswith("32.0\n"), result


@pytest.mark.slow
def test_a_program_has_its_lines_in_whatever_folder_it_is_built(tmp_path):
    text = "__global__ void one(int *x) { x[threadIdx.x] = 1; }\n"
    text += "int main() {\n    int *x;\n    cudaMalloc(&x, 16);\n"
    text += "    one<<<1, 5>>>(x);\n    cudaDeviceSynchronize();\n}\n"
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "five.cu").write_text(text)
        command = [sys.executable, "-m", "weft", "inspect", "five.cu"]
        result = subprocess.run(
            command, cwd=tmp_path / folder, capture_output=True, text=True, timeout=120
        )
        assert "five.cu:1: bounds: thread 4 writes x[4]" in result.stderr, folder


# ---- what a thread waits for ---------------------------------------------------------

CHAIN = """
__global__ void chain(unsigned *flag, int n) {
    int i = blockIdx.x;
    if (i > 0)
        while (atomicAdd(&flag[i - 1], 0u) == %s) {}
    atomicExch(&flag[i], 1u);
}
__global__ void climb(volatile int *x) {
    while (true) x[0] = x[0] + 1;
}
"""


def hang(kernel, *args, grid, order):
    # On a busy machine, blocks that began late need a second to read a flag often.
    with pytest.raises(KernelFault) as raised:
        inspect(kernel, order=order, quiet=True, timeout=1.2)[grid, 1](*args)
    return raised.value


EMPTY = [("0u", "0"), ("1000000u", "0xf4240")]  # a small value, and a large one


@pytest.mark.parametrize("empty, value", only(EMPTY[:1], EMPTY, names=2))
def test_a_wait_names_its_block_its_element_and_the_value(empty, value):
    kernel = load_cuda(CHAIN % empty, target="cpu").chain
    flag = np.full(200, int(empty[:-1]), np.uint32)
    fault = hang(kernel, flag, 200, grid=200, order="reverse")
    said = re.match(
        r"chain: after 1\.2 s, thread 0 of block (\d+) still waits for flag\[(\d+)\], "
        r"whose value was (\w+) at each of \d+ reads \(cell, line 5\)",
        str(fault),
    )
    assert said, str(fault)
    block, flag_index = int(said[1]), int(said[2])
    assert flag_index == block - 1 and said[3] == value
    assert fault.block == (block, 0, 0)
    (one,) = fault.report.findings
    assert f"it waits for flag[{flag_index}]" in one.text


def test_a_loop_whose_reads_change_is_no_wait():
    kernel = load_cuda(CHAIN % "0u", target="cpu").climb
    fault = hang(kernel, np.zeros(1, np.int32), grid=1, order="forward")
    assert "waits for" not in str(fault) and "--fast" in str(fault)
    assert "1.2 s under the watch build" in str(fault)
