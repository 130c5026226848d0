"""Mutants of the published answers are refused; `make mutants` tries all of them."""

import os
import time
from random import Random

import pytest
from mutants import run, workers
from mutants.slips import mutants

from weft import puzzles

KERNEL = """
def halve(out, a, n):
    i = cuda.threadIdx.x
    if i < n and out[0, i]:
        out[i * n + 1] = max(a[i], n + i)
        cuda.syncthreads()
"""


@pytest.mark.slow
def test_a_sample_of_mutants_is_refused():
    names = [puzzle.name for puzzle in puzzles]
    assert run.run(names, 40, Random(1), jobs=1) == []


def test_slips_of_every_kind():
    slips = {mutant.slip for mutant in mutants(KERNEL)}
    condition, store = "if i < n and out[0, i]:", "out[i * n + 1] = max(a[i], n + i)"
    for before, after in (
        ("cuda.syncthreads()", "pass"),
        ("i = cuda.threadIdx.x", "i = cuda.threadIdx.y"),
        (condition, "if i <= n and out[0, i]:"),
        (condition, "if i < n or out[0, i]:"),
        (condition, "if i < n:"),
        (condition, "if True:"),
        (condition, "if i < n and out[i, 0]:"),
        (condition, "if i < n and out[1, i]:"),
        (store, "out[i * n + 2] = max(a[i], n + i)"),
        (store, "out[i + n + 1] = max(a[i], n + i)"),
        (store, "out[i * n + 1] = min(a[i], n + i)"),
        (store, "out[i * n + 1] = max(a[i - 1], n + i)"),
    ):
        assert f"{before} -> {after}" in slips
    # The line names the same mutant again.
    assert f"{store} -> out[n * i + 1] = max(a[i], n + i)" not in slips


def test_mutants_are_compiled_and_none_is_the_answer_or_comes_twice():
    (answer,) = {puzzle.solved_text for puzzle in puzzles if puzzle.name == "dot"}
    sources = [mutant.source for mutant in mutants(answer)]
    assert len(set(sources)) == len(sources) > 40 and answer not in sources
    for source in sources:
        compile(source, "mutant", "exec")


def test_a_statement_that_stands_there_twice_is_numbered():
    twice = "def f():\n    g()\n    g()\n"
    assert [m.slip for m in mutants(twice)] == ["g() -> pass", "g() #2 -> pass"]


@pytest.mark.slow
def test_what_is_listed_as_equivalent_exists_and_has_a_reason():
    listed = run.equivalents()
    assert run.unknown(run.tasks(run.NAMES), listed, run.NAMES) == []
    assert all(why.endswith(".") for why in listed.values())


def test_a_run_fails_on_what_is_listed_or_passes_wrongly():
    listed = {"dot: a -> b": "Why."}
    assert run.wrong("dot: a -> b", workers.SURVIVES, listed) == ""
    assert "listed, but refused" in run.wrong("dot: a -> b", workers.REFUSED, listed)
    assert run.wrong("dot: a -> c", workers.REFUSED, listed) == ""
    assert run.wrong("dot: a -> c", workers.SURVIVES, listed) == "passes: dot: a -> c"
    assert "hangs" in run.wrong("dot: a -> c", workers.HANGS, listed)
    assert run.unknown({}, listed, ["dot"]) and not run.unknown({}, listed, ["map"])


def behave(how):
    """Behave like a judge that refuses, accepts, hangs, dies or raises an error."""
    if how == "hang":
        time.sleep(1000)
    if how == "die":
        os._exit(3)
    return {"refuse": True, "accept": False}[how]


@pytest.mark.slow
def test_a_mutant_that_hangs_dies_or_raises_does_not_end_the_run(monkeypatch):
    monkeypatch.setattr(workers, "SECONDS", 10)
    tasks = {how: (how,) for how in ("refuse", "hang", "accept", "die", "raise")}
    results = dict(workers.judged(tasks, behave, jobs=1))
    assert (
        results["refuse"] == workers.REFUSED and results["accept"] == workers.SURVIVES
    )
    assert results["hang"] == workers.HANGS and "status 3" in results["die"]
    assert "KeyError: 'raise'" in results["raise"]
