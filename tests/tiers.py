"""Which cases of a test run in the quick tier; all of them run in one of the two."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def first_of_each(cases: Iterable[Any], key: Callable[[Any], Any]) -> list[Any]:
    """Mark each case as slow whose key an earlier case has; for parametrize().

    So the quick tier runs one case of each kind.
    """
    seen: set[Any] = set()
    marked = []
    for case in cases:
        marked.append(_make_slow(case) if key(case) in seen else case)
        seen.add(key(case))
    return marked


def only(quick: Iterable[Any], cases: Iterable[Any]) -> list[Any]:
    """Mark as slow the cases that are not in `quick`; for parametrize()."""
    chosen = list(quick)
    cases = list(cases)
    assert all(case in cases for case in chosen), "the quick tier has lost a case"
    return [case if case in chosen else _make_slow(case) for case in cases]


def _make_slow(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.slow)
