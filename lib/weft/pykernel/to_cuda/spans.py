"""The least and the largest value of an operation, from those of its operands."""

from __future__ import annotations

import ast

from .unit import ANY, Span


def negate_bound(bound: int | None) -> int | None:
    return None if bound is None else -bound


def is_known(span: Span) -> bool:
    return span[0] is not None and span[0] >= 0


def _fit_span(low: int | None, high: int | None) -> Span:
    big = 2**63
    return (
        None if low is None or abs(low) > big else low,
        None if high is None or abs(high) > big else high,
    )


def _add(a: Span, b: Span) -> Span:
    low = None if None in (a[0], b[0]) else a[0] + b[0]
    high = None if None in (a[1], b[1]) else a[1] + b[1]
    return _fit_span(low, high)


def _multiply_spans(a: Span, b: Span) -> Span:
    if is_known(a) and is_known(b):
        high = None if None in (a[1], b[1]) else a[1] * b[1]
        return _fit_span(a[0] * b[0], high)
    if None in (*a, *b):
        return ANY
    ends = [x * y for x in a for y in b]
    return _fit_span(min(ends), max(ends))


def _divide_spans(a: Span, b: Span) -> Span:
    if is_known(a) and is_known(b):
        low = 0 if b[1] is None else a[0] // max(b[1], 1)
        return low, None if a[1] is None else a[1] // max(b[0], 1)
    return ANY


def _modulo_spans(a: Span, b: Span) -> Span:
    return (0, None if b[1] is None else b[1] - 1) if is_known(b) else ANY


def _and_spans(a: Span, b: Span) -> Span:
    if not (is_known(a) or is_known(b)):
        return ANY
    highs = [s[1] for s in (a, b) if is_known(s) and s[1] is not None]
    return 0, min(highs, default=None)


def _or_spans(a: Span, b: Span) -> Span:
    return (0, None) if is_known(a) and is_known(b) else ANY


def _shift_left_spans(a: Span, b: Span) -> Span:
    if not is_known(a):
        return ANY
    if None in (a[1], b[1]) or not 0 <= b[1] <= 62:
        return a[0], None
    return _fit_span(a[0], a[1] << b[1])


def _shift_right_spans(a: Span, b: Span) -> Span:
    return (0, a[1]) if is_known(a) else ANY


SPANS = {
    ast.Add: _add,
    ast.Sub: lambda a, b: _add(a, (negate_bound(b[1]), negate_bound(b[0]))),
    ast.Mult: _multiply_spans,
    ast.Div: lambda a, b: ANY,
    ast.FloorDiv: _divide_spans,
    ast.Mod: _modulo_spans,
    ast.Pow: lambda a, b: (0, None) if is_known(a) else ANY,
    **{ast.BitAnd: _and_spans, ast.BitOr: _or_spans, ast.BitXor: _or_spans},
    **{ast.LShift: _shift_left_spans, ast.RShift: _shift_right_spans},
}
