"""Select the quick tier's cases of a test; each case runs in one of the tiers.

A test costs 5 ms in pytest-xdist. So a test of many faster cases loops over them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest


def first_of_each(
    cases: Iterable[Any], key: Callable[[Any], Any], names: int = 1
) -> list[Any]:
    """Mark as slow each case whose key an earlier case has; for parametrize().

    So the quick tier runs one case of each kind. names: number of parameters of a case.
    """
    keys: set[Any] = set()
    marked = []
    for case in cases:
        marked.append(_make_slow(case, names) if key(case) in keys else case)
        keys.add(key(case))
    return marked


def only(quick: Iterable[Any], cases: Iterable[Any], names: int = 1) -> list[Any]:
    """Mark as slow the cases that are not in `quick`; for parametrize()."""
    selected, cases = list(quick), list(cases)
    values = [
        tuple(getattr(case, "values", case)) if names > 1 else case for case in cases
    ]
    assert all(case in values for case in selected), "the quick tier has lost a case"
    return [
        case if value in selected else _make_slow(case, names)
        for case, value in zip(cases, values)
    ]


def in_two_lists(quick: Iterable[Any], cases: Iterable[Any]) -> list[Any]:
    """Return a list of the quick cases, and one of the others, marked as slow.

    For parametrize() of a test that loops over fast cases.
    """
    selected, cases = list(quick), list(cases)
    assert all(case in cases for case in selected), "the quick tier has lost a case"
    others = [case for case in cases if case not in selected]
    assert selected and others, "a tier has no cases"
    return [
        pytest.param(selected, id="quick"),
        pytest.param(others, id="others", marks=pytest.mark.slow),
    ]


def _make_slow(case: Any, names: int) -> Any:
    """Return the case with the mark; it may be a pytest.param() itself."""
    if hasattr(case, "marks"):
        return pytest.param(
            *case.values, id=case.id, marks=[*case.marks, pytest.mark.slow]
        )
    values = (case,) if names == 1 else case
    return pytest.param(*values, marks=pytest.mark.slow)


@contextmanager
def naming_case(*case: Any) -> Iterator[None]:
    """Add the case of a loop to the report of an error in the `with` block."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"case: {', '.join(map(str, case))}")
        raise


def loop_over(names: str, cases: Iterable[Any]) -> Callable[[Callable], Callable]:
    """Act like parametrize(names, cases), but run all in one test, without skips."""
    parameters, cases = [name.strip() for name in names.split(",")], list(cases)
    assert cases, f"no cases of {names}"

    def decorate(test: Callable) -> Callable:
        @functools.wraps(test)
        def run_cases(**fixtures: Any) -> None:
            for case in cases:
                values = case if len(parameters) > 1 else (case,)
                with naming_case(*values):
                    test(**fixtures, **dict(zip(parameters, values, strict=True)))

        signature = inspect.signature(test)
        others = [p for n, p in signature.parameters.items() if n not in parameters]
        run_cases.__signature__ = signature.replace(parameters=others)
        return run_cases

    return decorate
