"""The cost of an answer is the same in every language, and limits hold."""

import re
import types
import xml.etree.ElementTree as ET
from unittest.mock import Mock

import numpy as np
import pytest
from puzzle_answers import RIGHT
from tiers import first_of_each, only

from weft import (
    ArgumentError,
    CompileError,
    cuda,
    cuda_c,
    load_cuda,
    numba_jit,
    puzzles,
    sim,
)
from weft.base.errors import Mismatch
from weft.puzzles import counts
from weft.puzzles.answer_cost import EXPLAINED, CountRow, Score, ScoredCase, score
from weft.puzzles.counts import names_known

ADVICE = "it reads each number once"


def add(out, a, n):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < n:
        out[i] = a[i] + 10


def add_twice(out, a, n):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < n:
        out[i] = a[i] + a[n - 1 - i] - a[n - 1 - i] + 10


def add_alone(out, a, n):
    if cuda.blockIdx.x == 0 and cuda.threadIdx.x == 0:
        for i in range(n):
            out[i] = a[i] + 10


def add_strided(out, a, n):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    j = i % 8 * 8 + i // 8
    out[j] = a[j] + 10


def add_shared(out, a, n):
    s = cuda.shared.array(64, np.float32)
    i = cuda.threadIdx.x
    s[i] = a[i]
    cuda.syncthreads()
    out[i] = s[i] + 10


def add_conflicting(out, a, n):
    s = cuda.shared.array(2048, np.float32)
    i = cuda.threadIdx.x
    s[32 * i] = a[i]
    cuda.syncthreads()
    out[i] = s[32 * i] + 10


IN_C = """__global__ void add(float *out, const float *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + 10;
}"""
STRAYS_IN_C = """__global__ void add(float *out, const float *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = a[i];
    if (i < n || x == 12345) out[i] = x + 10;
}"""


def puzzle(answer=add, n=4, launch=(1, 8), limits=None, **fields):
    """Return the part of a Puzzle that score() uses."""
    names_known(limits or {}, ("out", "a", "n"))
    facts = dict(
        **dict(spec=lambda a: a + 10, answer=answer, better=ADVICE, scored=None),
        **dict(checks={"outputs": {"out": "n"}, "inputs": {"a": "n"}}),
        **dict(drawn={"n": n}, launch=launch, limits=limits or {}, budget={}),
        why={},
    )
    return types.SimpleNamespace(**(facts | fields))


def numbers(result):
    return {row.what: (row.yours, row.best) for row in result.rows}


@pytest.mark.parametrize(
    "form", [lambda k: k, sim, numba_jit, cuda_c, lambda k: load_cuda(IN_C).add]
)
def test_every_language_gives_the_same_counts(form):
    result = score(puzzle(), form(add))
    half = (0.5, 0.5)  # 4 numbers for 8 threads
    assert numbers(result) == {"reads per thread": half, "writes per thread": half}
    assert result.within and not result.beats
    assert [row.mark for row in result.rows] == ["as good"] * 2
    assert ADVICE not in result.sentence


def test_a_higher_cost_is_reported_with_the_better_method():
    result = score(puzzle(), add_twice)
    assert numbers(result)["reads per thread"] == (1.5, 0.5)
    assert [row.mark for row in result.rows] == ["more", "as good"]
    assert not result.within and ADVICE in result.sentence


def test_a_lower_cost_is_a_delight_only_if_nothing_costs_more():
    result = score(puzzle(answer=add_twice), add)
    assert result.beats and "Better than ours" in str(result)
    mixed = Score((CountRow("reads", 1, 2), CountRow("writes", 3, 2)), ADVICE)
    assert not mixed.beats and not mixed.within
    assert "better than ours in one count" in mixed.sentence
    assert ADVICE in mixed.sentence
    lanes = CountRow("active lanes", 32, 16, least=True)
    assert (lanes.mark, CountRow("lanes", 8, 16, True).mark) == ("more!", "fewer")


def alone(case):
    """Return whether a case is a Python kernel, which is quick to count."""
    return not case.in_c and puzzles[case.puzzle].is_kernel


@pytest.mark.parametrize(
    "case",
    first_of_each(
        [c for c in RIGHT if c.taught and alone(c)],
        lambda _: "any",
    ),
    ids=str,
)
def test_what_a_lesson_teaches_is_within_the_budget(case):
    result = score(puzzles[case.puzzle], case.answer)
    assert result.within, result
    assert "Within" in result.sentence or "As good" in result.sentence


@pytest.mark.parametrize(
    "name", only(["shared"], ["shared", "conv1d", "prefix_sum", "softmax"])
)
def test_what_a_lesson_teaches_is_within_the_budget_in_c_too(name):
    """A compiler may omit reads, in the answer and in the best known one."""
    for case in RIGHT:
        if case.puzzle == name and case.taught and alone(case):
            assert score(puzzles[name], cuda_c(case.given)).within, case
        elif case.puzzle == name and case.in_c:
            assert score(puzzles[name], case.answer).within, case


def test_taught_methods_are_listed():
    taught = {case.puzzle for case in RIGHT if case.taught}
    expected = {"prefix_sum", "axis_sum", "shared", "conv1d", "softmax", "dot"}
    assert expected <= taught and len(taught) > 20


@pytest.mark.parametrize(
    "puzzle",
    first_of_each(
        [p.name for p in puzzles if p.is_kernel],
        lambda _: "any",
    ),
)
def test_the_published_answer_differs_in_nothing_from_the_best_known(puzzle):
    result = score(puzzles[puzzle], puzzles[puzzle].answer)
    assert result.within and not result.differing
    assert str(result) == "As good as the best we know." == result.sentence


@pytest.mark.slow
def test_no_answer_is_better_than_ours_by_accident():
    """These other methods shrink both sums, go over each row once, or use shuffles."""
    better = [c for c in RIGHT if alone(c) and score(puzzles[c.puzzle], c.given).beats]
    names = ["merge_softmax-both_shrink", "softmax-softmax_in_one_walk"]
    names.append("stable_compaction-by_shuffles")
    assert sorted(str(case) for case in better) == names


def test_only_shared_memory_and_barriers_may_cost_twice_as_much():
    best = puzzle(add_shared, n=64, launch=(1, 64))

    def waits(times, again):
        def add(out, a, n):
            s = cuda.shared.array(64, np.float32)
            i = cuda.threadIdx.x
            s[i] = a[i]
            for _ in range(times):
                cuda.syncthreads()
            out[i] = s[i] + 10
            if again:
                out[i] = s[i] + 10

        return score(best, add)

    assert waits(3, False).within and not waits(4, False).within
    assert not waits(1, True).within
    assert "barriers" in EXPLAINED.lower() and "twice" in EXPLAINED


def test_a_puzzle_may_allow_more_than_twice_as_much():
    task = puzzle(add_shared, n=64, launch=(1, 64))
    task.budget = {"barriers": 0}
    # The best answer's counts are always within the budget.
    assert score(task, add_shared).within
    with pytest.raises(ArgumentError, match="no count 'bariers'"):
        names_known({"bariers": 4})


def test_the_size_and_launch_of_a_score_may_differ_from_the_picture():
    result = score(puzzle(scored={"n": 6, "launch": (2, 4)}), add)
    assert numbers(result)["reads per thread"] == (0.75, 0.75)


def test_shared_memory_and_barriers_are_counted_separately():
    result = numbers(score(puzzle(n=64, launch=(1, 64)), add_shared))
    assert result["shared reads per thread"] == result["reads per thread"] == (
        1,
        1,
    ) or (result["shared reads per thread"] == (1, 0))
    assert result["barriers per block"] == (1, 0)
    assert result["shared turns"] == (4, 0)
    assert "bank conflicts" not in result


@pytest.mark.parametrize(
    ("limit", "answer", "words"),
    [
        ({"reads.a": lambda n: n}, add_twice, r"reads 192 elements of a .*allows 64"),
        ({"reads": 64}, add_twice, "192 elements of global memory"),
        ({"rounds.out": 1}, add_alone, r"needs 32 rounds over out .*allows 1"),
        ({"lanes.out": 32}, add_alone, "has 1 thread in each .*out.* at least 32"),
        ({"requests.a": lambda threads: threads // 32}, add_alone, "64 requests to a"),
        (
            {"sectors_per_request.a": 4},
            add_strided,
            r"touches 8 sectors of a .*allows 4; see line 4",
        ),
        ({"store_sectors_per_request.out": 4}, add_strided, "writes 8 sectors of out"),
        ({"load_sectors_per_request.a": 4}, add_strided, "reads 8 sectors of a"),
        ({"sectors.a": 8}, add_strided, "moves 16 sectors of a"),
        ({"bank_conflicts": 0}, add_conflicting, "has 124 bank conflicts.*allows none"),
        ({"shared_turns": 4}, add_conflicting, "takes 128 turns in shared memory"),
        ({"barriers": 0}, add_shared, "waits at 1 barrier in each block.*allows none"),
        ({"active_lanes": 32}, add_alone, r"keeps [\d.]+ lanes of .*at least 32"),
        (
            {"shared_writes": (lambda n: n, None)},
            add,
            "writes no elements of shared memory.*at least 64",
        ),
        ({"writes.out": (None, 10)}, add, r"writes 64 elements of out.*allows 10"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_a_missed_limit_is_reported_with_both_numbers(limit, answer, words):
    task = puzzle(n=64, launch=(1, 64), limits=limit)
    with pytest.raises(Mismatch, match=words) as caught:
        score(task, answer)
    text = str(caught.value)
    assert "n = 64, grid 1, block 64" in text and answer.__name__ in text
    assert "a[i] + 10" not in text  # this is a line of the best known answer


def test_met_limits_are_shown_with_the_other_counts():
    limits = {"reads.a": 64, "bank_conflicts": 0, "shared_writes": (64, None)}
    task = puzzle(add_shared, n=64, launch=(1, 64), limits=limits)
    result = score(task, add_shared)
    assert {"reads of a per thread", "bank conflicts"} <= set(numbers(result))
    assert "reads per thread" not in numbers(result)  # the sum equals the reads of a
    assert result.within


def test_limits_hold_for_cuda_c():
    task = puzzle(limits={"reads.a": lambda n: n - 1})
    with pytest.raises(Mismatch, match="add: .*reads 4 elements of a .*allows 3"):
        score(task, load_cuda(IN_C).add)


def test_an_atomic_counts_for_a_limit_on_reads():
    def sly(out, a, n):
        i = cuda.threadIdx.x
        if i < n:
            out[i] = cuda.atomic.add(a, i, 0) + 10

    with pytest.raises(Mismatch, match=r"reads 4 elements of a"):
        score(puzzle(limits={"reads.a": 0}), sly)


def test_c_that_reads_past_an_array_is_refused():
    with pytest.raises(Mismatch, match=r"a.*n = 4, grid 1, block 8") as caught:
        score(puzzle(), load_cuda(STRAYS_IN_C).add)
    assert caught.value.thread is not None


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"raeds": 1}, "no count 'raeds'; reads, "),
        ({"reads.b": 1}, "no array 'b', only out, a, n"),
        ({"bank_conflicts.s": 0}, "bank_conflicts is not counted by array"),
        ({"reads": -1}, "expected a non-negative number, .* but got -1"),
        ({"reads": "n"}, "but got 'n'"),
        ({"reads": (None, None)}, "or a pair .* of these"),
        ({"reads": (1, 2, 3)}, "or a pair .* of these"),
    ],
)
def test_an_invalid_limit_is_refused_when_the_puzzle_is_created(limits, words):
    with pytest.raises(ArgumentError, match=words):
        names_known(limits, ("out", "a", "n"))


def test_the_docstring_lists_all_counts():
    missing = {name for name in counts.COUNTS if name not in counts.__doc__}
    assert not missing


def test_an_answer_without_a_launch_has_no_score():
    empty = score(puzzle(launch=None), lambda a: a + 10)
    assert not empty.rows and empty.within and str(empty) == ""
    assert empty._repr_html_() == ""


def test_c_that_compiles_only_for_a_gpu_is_not_counted(monkeypatch):
    with pytest.raises(CompileError) as caught:
        load_cuda("__global__ void f() { nothing; }")
    launched = Mock(side_effect=caught.value)
    monkeypatch.setattr(ScoredCase, "launched", launched)
    assert str(score(puzzle(), add)).startswith("Not counted")
    with pytest.raises(CompileError, match="nothing"):
        score(puzzle(limits={"reads.a": 4}), add)


def test_the_page_is_well_formed_and_every_mark_is_a_word_too():
    better = "a < b & c"
    result = Score(
        (CountRow("x < y", 2, 1), CountRow("same", 1, 1), CountRow("w", 1, 2)), better
    )
    page = result._repr_html_()
    text = "".join(ET.fromstring(f"<div>{page}</div>").itertext())
    for word in ("more", "fewer!", "best known", better):
        assert word in text
    assert "x < y" in text and "same" not in text  # the score shows no equal counts


def test_code_in_advice_is_code_on_a_page_and_words_in_a_text():
    result = Score((CountRow("reads", 2, 1),), "each number of `a < b` is read once")
    assert "`" not in str(result) and "number of a < b is" in str(result)
    page = result._repr_html_()
    assert "`" not in page
    assert re.search(r"<code[^>]*>a &lt; b</code> is read once", page)


def stores_twice(out, a, n):
    i = cuda.threadIdx.x
    if i < n:
        out[i] = a[i]
        out[i] = a[i] / 2


def test_the_counted_sizes_are_shown_if_they_differ_from_the_picture():
    counted = score(puzzles.guards, stores_twice)
    assert counted.case == "n = 4, grid 1, block 16"
    for page in (str(counted), counted._repr_html_()):
        assert f"Counted with {counted.case}." in page
    plain = score(puzzles.histogram, puzzles.histogram.answer)
    assert "Counted" not in str(plain) + plain._repr_html_()
