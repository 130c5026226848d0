"""ncu's counters next to the CPU's; a script replaces ncu."""

import json
import re
import stat
import sys

import numpy as np
import pytest
import torch

from weft import cuda, cuda_c, load_cuda, numba_jit, profile
from weft.base.errors import ArgumentError
from weft.benchmarks import counters as bench_counters
from weft.report.costs import CostPlace, Counters
from weft.see.machine_code import ncu
from weft.see.machine_code.profile import Comparison

GPU = torch.cuda.is_available()

SHIFT = """
template <int BY> __global__ void shift(float *y, const float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i + BY];
}
__global__ void plain(float *y, const float *x) { y[threadIdx.x] = x[threadIdx.x]; }
"""

# The replacement prints a line for each metric of one launch, like ncu. NCU_SAYS makes
# it fail with ncu's own messages.
FAKE_NCU = """
import json, os, sys
answer = json.loads(os.environ.get("NCU_SAYS", "{}"))
words = sys.argv[1:]
metrics = words[words.index("--metrics") + 1].split(",")
unknown = [m for m in metrics if m in answer.get("unknown", [])]
if unknown or "text" in answer:
    error = f"==ERROR== Failed to find metric {unknown[0]}" if unknown else ""
    print(error or answer["text"])
    sys.exit(1)
assert os.path.getsize(words[-1]) and "weft.see.machine_code.ncu" in words
print("==PROF== Connected to process 1")
print('"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"')
for metric in metrics:
    print(f'"0","plain","{metric}","","1,000"')
"""


@pytest.fixture
def fake_ncu(monkeypatch, tmp_path):
    """Install a fake ncu; return a function that sets its messages in NCU_SAYS."""
    script = tmp_path / "ncu"
    script.write_text(f"#!{sys.executable} -S\n{FAKE_NCU}")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(ncu, "require", lambda: str(script))
    monkeypatch.delenv("NCU_SAYS", raising=False)
    return lambda **answer: monkeypatch.setenv("NCU_SAYS", json.dumps(answer))


def _arrays(n: int = 64):
    return torch.zeros(n), torch.arange(n + 8, dtype=torch.float32)


def doubled(y, x):
    i = cuda.grid(1)
    y[i] = 2 * x[i]


def test_both_sides_are_shown_side_by_side(fake_ncu):
    y, x = _arrays()
    result = profile(load_cuda(SHIFT).plain)[1, 64](y, x)
    assert torch.equal(y, x[:64])
    row = result["global load requests"]
    assert (row.ours, row.theirs) == (2, 1000.0)
    assert row.difference == (2 - 1000) / 1000
    assert result.why == "" and "-99.8%" in repr(result)
    assert "global load requests" in result._repr_html_()
    with pytest.raises(KeyError, match="there are global load requests"):
        result["nothing"]


@pytest.mark.skipif(GPU, reason="there is a GPU")
def test_without_a_gpu_the_cpus_counters_come_with_the_reason():
    y, x = np.zeros(64, np.float32), np.arange(64, dtype=np.float32)
    result = profile(doubled)[2, 32](y, x)
    assert (y == 2 * x).all() and "no CUDA GPU whose" in result.why
    assert result["global load sectors"].ours == 8
    assert result["active threads per instruction"].ours == 32
    text = repr(result)
    assert "without ncu: there is no CUDA GPU" in text and "DRAM" not in text


def test_a_metric_that_this_gpu_lacks_is_omitted(fake_ncu):
    missing = ["dram__bytes_read.sum", "launch__registers_per_thread"]
    fake_ncu(unknown=missing)
    result = profile(load_cuda(SHIFT).plain)[1, 64](*_arrays())
    assert result["bytes read from DRAM"].theirs is None
    assert result["global load sectors"].theirs is not None and not result.why


@pytest.mark.parametrize(
    "text, says",
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not", "SYS_ADMIN"),
        ("==ERROR== The profiler is already in use", "another profiler"),
        (
            "weft.base.errors.KernelError: no driver\n==ERROR== returned 1",
            "no driver",
        ),
        ("==WARNING== No kernels were profiled.", "0 of 1 launches.*No kernels"),
        ("", "no output"),
    ],
)
def test_a_refusal_of_ncu_is_reported_with_its_cure(fake_ncu, text, says):
    fake_ncu(text=text)
    result = profile(load_cuda(SHIFT).plain)[1, 64](*_arrays())
    assert result["global load requests"].theirs is None
    assert re.search(says, result.why)


def test_the_launch_is_recorded_as_it_was_before_it_ran():
    y, x = _arrays()
    kernel = load_cuda(SHIFT).shift[3]
    name, launch = ncu.record(kernel, (2, 32, 16), (y, x, 64))
    y.fill_(7)
    assert name == "shift" and launch["expression"] == "shift<3>"
    assert (launch["grid"][0], launch["block"][0], launch["shared"]) == (2, 32, 16)
    assert launch["args"][0].eq(0).all() and launch["args"][2] == 64
    both = ncu.record(load_cuda(SHIFT).plain, (1, 64), (y, y))[1]["args"]
    assert both[0] is both[1] and both[0] is not y


def test_the_other_process_repeats_the_recorded_launch(monkeypatch):
    """The CPU takes the place of the GPU and of the file."""
    from weft.cells.cpu import compiler as cpu
    from weft.cells.gpu import loader as gpu

    y, x = _arrays()
    _, launch = ncu.record(load_cuda(SHIFT).shift[3], (2, 32), (y, x, 64))
    monkeypatch.setattr(gpu, "compile", cpu.compile)
    monkeypatch.setattr(torch.Tensor, "cuda", lambda tensor: tensor)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch, "load", lambda path, weights_only: [launch])
    ncu.main("launches.pt")
    assert torch.equal(launch["args"][0], x[3 : 64 + 3]) and y.eq(0).all()


def test_a_python_kernel_is_recorded_as_c_with_its_added_parameters():
    def column(y, x):
        i = cuda.grid(1)
        if i < x.shape[0]:
            y[i] = x[i, 1]

    y, x = np.zeros(4, np.float32), np.ones((4, 2), np.float32)
    for kernel in (column, cuda_c(column)):
        name, launch = ncu.record(kernel, (1, 4), (y, x))
        assert name == "column" and len(launch["args"]) == len(launch["params"]) > 2
        assert "__global__" in launch["source"]


def test_an_invalid_kernel_is_refused():
    module = load_cuda(SHIFT)
    with pytest.raises(ArgumentError, match="2 kernels .shift, plain.: choose one"):
        profile(module)
    with pytest.raises(ArgumentError, match="shift is a template"):
        profile(module.shift)[1, 64](*_arrays(), 64)
    with pytest.raises(ArgumentError, match=r"profile\(\) takes a kernel"):
        profile(3)
    with pytest.raises(ArgumentError, match="as CUDA C: profile.doubled."):
        profile(numba_jit(doubled))[1, 64](*_arrays())


def test_atomics_are_ncus_reductions_and_atomics_together():
    (requests,) = [m for m in ncu.COUNTS if m.name == "global atomic requests"]
    red, atom = requests.ncu
    assert requests.theirs({red: 3, atom: 4}) == 7 and requests.theirs({red: 3}) == 3
    assert requests.theirs({}) is None
    place = CostPlace(kind="atomic", space="global", accesses=64, requests=2)
    assert requests.ours(Counters(places=[place])) == 2


def test_instructions_that_a_predicate_disables_are_not_requests():
    """ncu counts disabled instructions as executed, although they take no wavefront."""
    needed = {m.name: m for m in ncu.COUNTS}["shared load wavefronts needed"]
    (turns,), (conflicts,) = needed.ncu, needed.less
    assert ncu.ncu_names([needed]) == [turns, conflicts]
    assert needed.theirs({turns: 3040, conflicts: 8}) == 3032
    assert needed.theirs({turns: 3040}) is None
    assert needed.formula == f"{turns} - {conflicts}"
    place = CostPlace(
        space="shared", kind="read", requests=2, wavefronts=9, conflicts=5
    )
    assert needed.ours(Counters(places=[place])) == 4


# ---- python -m weft bench counters ------------------------------------------------


def test_counts_must_be_the_same_and_ratios_near():
    count = ncu.Metric("n", ("n",), exact=True)
    ratio = ncu.Metric("r", ("r",), tight=True)
    free = ncu.Metric("t", ("t",))
    judged = bench_counters.judge_counts
    assert judged(count, 8, 8, None) == (True, "same")
    assert judged(count, 800, 801, None) == (False, "DIFFERS")
    assert judged(ratio, 10.19, 10, None)[0] and not judged(ratio, 10.3, 10, None)[0]
    loose = ncu.Metric("m", ("m",), exact=True, more=True)
    assert judged(loose, 99, 100, None)[0]
    assert judged(loose, 100, 100, None) == (True, "same")
    assert not judged(loose, 101, 100, None)[0] and not judged(loose, 97, 100, None)[0]
    assert judged(free, 1, 2, None) == judged(count, 8, None, None) == (None, "")
    assert bench_counters.status([{"agrees": True}, {"agrees": None}]) == 0
    assert bench_counters.status([{"agrees": True}, {"agrees": False}]) == 1


def test_known_kernels_have_the_counters_known_for_them(monkeypatch):
    """The counts are those of a GPU with sectors of 32 bytes and 32 banks."""
    monkeypatch.setattr(bench_counters, "_read_instructions", lambda *_: [])
    names = ("stride 4", "copy of float4", "transpose_tile", "transpose_padded")
    rows = [
        row
        for case in bench_counters.list_cases()
        if case.name in names
        for row in bench_counters._compare_case(case, None)
    ]
    counts = {(row["rung"], row["metric"]): row["cpu"] for row in rows}
    warps, tiles = 8192 // 32, 128 * 128 // 32
    assert counts["stride 4", "global load sectors"] == 16 * warps
    assert counts["stride 4", "global store sectors"] == 4 * warps
    assert counts["copy of float4", "global load requests"] == warps
    assert counts["copy of float4", "global load sectors"] == 16 * warps
    assert counts["transpose_tile", "shared load wavefronts"] == 32 * tiles
    assert counts["transpose_padded", "shared load wavefronts"] == tiles
    assert all(row["agrees"] is None and row["ncu"] is None for row in rows)
    assert bench_counters.status(rows) == 0


def test_the_table_of_a_comparison_shows_only_compared_rows():
    def row(rung: str, ours: float, theirs: float, agrees: bool, verdict: str):
        return {
            **{"rung": rung, "metric": "global load sectors", "cpu": ours},
            **{"ncu": theirs, "agrees": agrees, "verdict": verdict},
            "difference": ncu.difference(ours, theirs),
        }

    rows = [row("a", 8, 8, True, "same"), row("b", 8, 9, False, "DIFFERS")]
    rows.append({**row("c", 1, 1, True, ""), "agrees": None})
    machine = {"device": "a GPU", "date": "2026-01-31"}
    table = Comparison({"machine": machine, "rows": rows})
    want = "2 counters of 2 kernels, on the CPU and by ncu: 1 equal, 1 different"
    assert table.sentence().startswith(want) and "a GPU, 2026-01-31" in repr(table)
    page = table._repr_html_()
    assert "DIFFERS" in page and ">a</td>" in page and ">c</td>" not in page


@pytest.mark.skipif(not GPU or not ncu.find(), reason="no GPU with ncu")
@pytest.mark.slow
def test_ncu_and_the_watch_build_count_the_same():
    y, x = _arrays(4096)
    result = profile(load_cuda(SHIFT).shift[1])[16, 256](y.cuda(), x.cuda(), 4096)
    if result.why:
        pytest.skip(result.why)
    for metric in ("load requests", "load sectors", "store requests", "store sectors"):
        row = result[f"global {metric}"]
        assert row.ours == row.theirs, metric
    assert result["time"].theirs > 0
