"""Each section of a record reveals a change, but no difference if a file only moves."""

import argparse
import shutil

import numpy as np
import pytest
from baseline import corpora, counters, findings, losses, sass, verdicts, watched
from baseline.compare import differences

import weft
from weft import cuda, puzzles, sim

PLAIN = argparse.Namespace(reworded=False)
REWORDED = argparse.Namespace(reworded=True)


# ---- machine code ----------------------------------------------------------------

needs_nvcc = pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc here")
KERNELS = """
namespace {
__device__ int calls;
__constant__ float table[4] = {1, 2, 3, %s};
__global__ void hidden(float *x) {
    atomicAdd(&calls, 1);
    x[threadIdx.x] += table[threadIdx.x %% 4];
}
} // namespace
template <int N> static __global__ void scale(double *x, int n) {
    for (int i = threadIdx.x; i < n; i += N) x[i] /= n * %s;
}
void launch(float *x, double *y) {
    hidden<<<1, 32>>>(x);
    scale<32><<<1, 32>>>(y, 3);
}
"""


def machine_code(path, table="4", factor="5.0"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(KERNELS % (table, factor))
    return sass.kernels_of([path], path.parent)


@needs_nvcc
@pytest.mark.slow
def test_a_constant_changes_its_kernel_and_a_file_that_moves_none(tmp_path):
    old = machine_code(tmp_path / "a/one.cu")
    assert {name for name in old if "hidden" in name or "scale" in name} == {
        "_ZNINTERNAL6hiddenEPf",
        "_Z5scaleILi32EEvPdi",
    }
    moved = machine_code(tmp_path / "other/folder/renamed_file.cu")
    assert moved == old
    factor = machine_code(tmp_path / "a/one.cu", factor="7.0")
    (only,) = sass.differences(old, factor, PLAIN)
    assert only.text.startswith("_Z5scaleILi32EEvPdi: code: ") and not only.allowed
    table = machine_code(tmp_path / "a/one.cu", table="6")
    (only,) = sass.differences(old, table, PLAIN)
    assert only.text.startswith(".nv.constant3: code: ") and not only.allowed


@needs_nvcc
@pytest.mark.slow
def test_a_checkouts_kernels_are_the_same_in_another_folder(tmp_path):
    copy = tmp_path / "kernels"
    shutil.copytree(sass.KERNELS, copy, ignore=shutil.ignore_patterns(".*"))
    original = sass.kernels_of([sass.KERNELS / "relu.cu", sass.KERNELS / "linear.cu"])
    (copy / "relu.cu").rename(copy / "rectify.cu")
    moved = sass.kernels_of([copy / "linear.cu", copy / "rectify.cu"], copy)
    assert original == moved and len(original) >= 8


def test_labels_are_numbered_in_their_kernel():
    lines = ".L_x_{0}:\n  /*0000*/  BRA `(.L_x_{0}) ;\n  /*0010*/  {1} ;\n"
    first = sass.normal_code(lines.format(7, "EXIT"))
    assert first == sass.normal_code(lines.format(19, "EXIT"))
    assert first != sass.normal_code(lines.format(7, "NOP"))


def test_a_kernel_with_another_name_and_the_same_code_is_only_mentioned():
    code = {"code": ["0123, 4 lines"]}
    (only,) = sass.differences({"f": code}, {"g": code}, PLAIN)
    assert only.allowed and "called g now" in only.text
    changes = sass.differences({"f": code}, {"g": {"code": ["4567, 4 lines"]}}, PLAIN)
    assert not any(change.allowed for change in changes) and len(changes) == 2


# ---- puzzles ---------------------------------------------------------------------


def test_a_puzzle_that_wants_something_else_changes_its_verdict(monkeypatch):
    monkeypatch.setenv("WEFT_SMALL", "1")
    puzzle = puzzles.map
    old = {"map": verdicts.verdict(puzzle, lambda: puzzle.answer)}
    assert old["map"]["verdict"] == "solved"
    monkeypatch.setattr(puzzle, "spec", lambda a: a + 11)
    new = {"map": verdicts.verdict(puzzle, lambda: puzzle.answer)}
    changes = differences(old, new, REWORDED)
    assert "map: verdict: solved before, Mismatch now" in [d.text for d in changes]


# ---- findings and counters -------------------------------------------------------


def reports(last):
    def kernel(out, x):
        i = cuda.grid(1)
        out[i] = x[i + last]

    launch = sim(kernel, quiet=True)
    try:
        return [launch[1, 32](np.zeros(32, "f4"), np.ones(40, "f4"))]
    except weft.KernelFault as fault:
        return [fault.report]


def test_a_finding_at_another_thread_is_more_than_other_words():
    old, same, other = ({"a": findings.summarise(reports(n))} for n in (10, 10, 12))
    assert old["a"]["kinds"] == "bounds" and not differences(old, same, PLAIN)
    changes = differences(old, other, REWORDED)
    assert [change.allowed for change in changes] == [False, True]
    clean = {"a": findings.summarise(reports(8))}
    assert "a: kinds: bounds before,  now" in [
        d.text for d in differences(old, clean, PLAIN)
    ]


@pytest.mark.slow
def test_a_watched_program_that_moves_has_its_findings_still(tmp_path):
    path = corpora.INSPECT / "faulty/bounds.cu"
    case = corpora.marked_cases(path)[0]
    moved = tmp_path / "elsewhere/renamed.cu"
    moved.parent.mkdir()
    shutil.copy(path.parent.parent / "cases.h", tmp_path)
    shutil.copy(path, moved)
    old, new = (
        {"a": findings.summarise([watched._run(p, case, "forward").report])}
        for p in (path, moved)
    )
    assert old["a"]["kinds"] == "bounds" and old == new


def test_a_stride_changes_the_counters():
    def strided(out, x, stride):
        i = cuda.grid(1)
        out[i] = x[i * stride]

    def counted(stride):
        launch = sim(strided, quiet=True)[1, 32]
        report = launch(np.zeros(32, "f4"), np.zeros(64, "f4"), stride)
        return {"a": {"kernel": counters.costs(report.counters)}}

    assert not differences(counted(1), counted(1), PLAIN)
    assert differences(counted(1), counted(2), PLAIN)


def test_counters_that_two_runs_do_not_share_are_only_mentioned():
    old, chance = {"a": {"kernels": "0123"}}, {"a": {"kernels": counters.CHANCE}}
    (only,) = counters.differences(old, chance, PLAIN)
    assert only.allowed
    (only,) = counters.differences(old, {"a": {"kernels": "4567"}}, PLAIN)
    assert not only.allowed
    (only,) = counters.differences(chance, {}, PLAIN)
    assert only.text == "a: missing now" and not only.allowed


# ---- losses ----------------------------------------------------------------------


def test_a_rate_that_differs_by_one_bit_changes_the_weights():
    rates = 0.1, 0.1, float(np.nextafter(np.float32(0.1), np.float32(1)))
    old, same, other = (
        {"reference": losses.trained("reference", "cpu", 2, rate)} for rate in rates
    )
    assert old["reference"]["steps"] == 2 and not differences(old, same, PLAIN)
    names = [d.text.split(": ")[1] for d in differences(old, other, PLAIN)]
    assert "weights" in names and "loss 1" not in names
