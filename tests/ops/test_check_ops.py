"""Every rung is right, and the checker refuses every wrong kernel of the zoo."""

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import TARGETS, ZOO, first_kernel, zoo_library
from small_cases import list_small_cases
from tiers import first_of_each

from weft import __main__ as command
from weft import bench
from weft.base.arrays import ORDERS
from weft.base.errors import Mismatch
from weft.ops import cases
from weft.ops.check import check_rung, compare, run_case
from weft.toolchain import build, native

RUNGS = [
    (op, rung.name, target)
    for target in TARGETS
    for op in cases.OPS
    for rung in native.library(op, target).rungs
    if target in rung.targets
]


def family(case: tuple[str, str, str]) -> tuple[str, ...]:
    """Return the key of a rung's family: wmma_bf16, wmma_fp16 and wmma_tf32 are one.

    The ladder of matmul has families. rmsnorm runs layernorm's kernels, so only its
    choice among them is new.
    """
    op, rung, target = case
    if op == "matmul":
        rung = rung.split("_")[0]
    if op == "rmsnorm" and rung != "tuned":
        op = "layernorm"
    return op, rung, target


@pytest.mark.parametrize(
    ("op", "rung", "target"), first_of_each(RUNGS, family, names=3)
)
def test_every_rung_is_right_in_small_cases(op, rung, target):
    lib = native.library(op, target)
    small = list_small_cases(lib.rung(rung))
    verdict = check_rung(lib, lib.rung(rung), some=small)
    assert verdict.runs == len(small) > 2 and 0 <= verdict.worst <= 1


# Simulated, these products take longer than all others together. So on the CPU, one
# rung of a family runs them, and only `tuned` the largest.
SIZES = [(1021, 67, 1031), (509, 521, 523), (1, 1009, 2003), (2003, 1, 1009)]
LARGEST = (1023, 1025, 1024)
FIRST = {family(rung): rung for rung in reversed(RUNGS)}


def is_too_slow(case: cases.Case, op: str, rung: str) -> bool:
    """Return whether a simulated rung of matmul leaves this case to other rungs."""
    repeats = FIRST[family((op, rung, "cpu"))] != (op, rung, "cpu")
    slow = SIZES if repeats else []
    slow = [*slow, LARGEST] if repeats or rung != "tuned" else slow
    return case.title in [f"m={m} n={n} k={k} trans=nn" for m, n, k in slow]


@pytest.mark.slow
@pytest.mark.parametrize(("op", "rung", "target"), RUNGS)
def test_every_rung_is_within_its_bound_of_float64(op, rung, target):
    """For matmul, also draw sizes (1 to 70), layouts, epilogues, batches, addresses."""
    lib, wide = native.library(op, target), 0
    if op == "matmul":
        wide = 150 if target == "cuda" else 6  # simulated threads are slow
    one = lib.rung(rung)
    chosen = list(cases.cases(op, 0, one.precision, wide, rung))
    if target == "cpu":
        chosen = [case for case in chosen if not is_too_slow(case, op, rung)]
    verdict = check_rung(lib, one, some=chosen)
    assert verdict.runs >= len(chosen) and 0 <= verdict.worst <= 1
    assert op != "matmul" or len(chosen) >= 40 + wide


# With AVX-512, a load whose lanes are masked out does not fault; with SSE, it does.
MARCHES = ["native"] + ["x86-64"] * (platform.machine() == "x86_64")


@pytest.mark.slow  # every rung runs in a process for each instruction set
@pytest.mark.parametrize("march", MARCHES)
def test_no_rung_reads_or_writes_beyond_its_arrays(march):
    program = [sys.executable, Path(__file__).with_name("fenced.py"), *cases.OPS]
    env = os.environ | {"WEFT_MARCH": march}
    process = subprocess.run(program, env=env, capture_output=True, text=True)
    for op in cases.OPS:
        assert f"{op} stays within" in process.stdout, f"{op}: {process.stderr}"


def test_every_op_has_cases_and_every_case_an_op():
    assert set(cases.OPS) == set(build.list_ops()) - {"micrograd", "mnist"}


@pytest.mark.parametrize("op", cases.OPS)
def test_every_op_has_plain_c_and_a_first_kernel_for_every_gpu(op):
    rungs = native.rungs(op)
    assert {rung.name: rung.targets for rung in rungs}["reference"] == ("cpu",)
    first = next(rung for rung in rungs if rung.name == first_kernel(op))
    assert first.targets == ("cpu", "cuda") and not first.sm


ANIMALS = [
    (path.stem, name)
    for path in sorted(ZOO.glob("*.cu"))
    for name in re.findall(
        rf'(?:\{{"{path.stem}", "|\bANIMAL\(\w+, )(\w+)', path.read_text()
    )
]


@pytest.mark.parametrize(("op", "animal"), ANIMALS)
def test_the_zoo_of_wrong_kernels_is_refused(op, animal, target):
    if target == "cuda" and animal == "missing_second_barrier":
        pytest.skip("a GPU may win this race every time; the CPU's orders lose it")
    lib = zoo_library(op, target)
    rung = lib.rung(animal)
    if animal.startswith("right"):  # the check refuses the others for their faults
        assert check_rung(lib, rung).worst <= 1
    else:
        with pytest.raises(Mismatch, match=rf"{op} '{animal}' on {target}"):
            check_rung(lib, rung)


def test_the_message_names_the_element_and_the_numbers(target):
    lib = zoo_library("matmul", target)
    with pytest.raises(Mismatch, match=r"c\[0, 0\] is 0, expected -?\d.*within"):
        check_rung(lib, lib.rung("all_zeros"))


def test_a_write_past_the_end_is_reported_with_its_distance(target):
    lib = zoo_library("matmul", target)
    with pytest.raises(Mismatch, match=r"c\[\d+\] was written: .*past its end"):
        check_rung(lib, lib.rung("missing_guard"))


def test_an_overwritten_input_is_reported(target):
    lib = zoo_library("matmul", target)
    with pytest.raises(Mismatch, match=r"input a was overwritten at element"):
        check_rung(lib, lib.rung("input_overwritten"))


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 1.001])
def test_compare_refuses_nan_infinity_and_a_thousandth(wrong):
    answer = cases.Answer(torch.ones(3, dtype=torch.float64), 1e-6)
    with pytest.raises(Mismatch, match="1 of 3 elements"):
        compare("y", torch.tensor([1.0, wrong, 1.0]), answer)


def test_a_fused_thread_order_that_hides_a_missing_barrier_is_not_enough():
    """At least one of the three orders reveals the missing second barrier."""
    lib = zoo_library("matmul", "cpu")
    rung = lib.rung("missing_second_barrier")
    refused = []
    for number in range(len(ORDERS)):
        lib.call("weft_set_order", number)
        try:
            for case in cases.cases("matmul"):
                run_case(lib, rung.index, case, torch.device("cpu"))
            refused.append(False)
        except Mismatch:
            refused.append(True)
        finally:
            lib.call("weft_set_order", 0)
    assert any(refused)


def test_the_command_checks_a_rung_where_it_runs(monkeypatch, tmp_path, capsys):
    """Even with a GPU, `check --rung reference` checks only the CPU."""
    cpu = native.library("relu", "cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(native, "library", lambda op, target: cpu)
    path = tmp_path / "verdicts.json"
    arguments = ["check", "relu", "--rung", "reference", "--json", str(path)]
    assert command.main(arguments) == 0
    assert capsys.readouterr().out.count("ok ") == 1
    monkeypatch.undo()
    (row,) = bench.read_json(path)["rows"]
    assert (row["rung"], row["target"], row["precision"]) == (
        "reference",
        "cpu",
        "fp32",
    )
    assert command.main(["check", "relu", "--rung", "quick"]) == 1
    assert "no rung 'quick' on cpu; it has reference" in capsys.readouterr().err
