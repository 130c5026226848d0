"""The least and the largest value of an operation, from those of its operands."""

from __future__ import annotations

import ast

from .unit import ANY, Span


def negated(bound: int | None) -> int | None:
    return None if bound is None else -bound


def sure(span: Span) -> bool:
    return span[0] is not None and span[0] >= 0


def _fits(low: int | None, high: int | None) -> Span:
    big = 2**63
    return (
        None if low is None or abs(low) > big else low,
        None if high is None or abs(high) > big else high,
    )


def _add(a: Span, b: Span) -> Span:
    low = None if None in (a[0], b[0]) else a[0] + b[0]
    high = None if None in (a[1], b[1]) else a[1] + b[1]
    return _fits(low, high)


def _mult(a: Span, b: Span) -> Span:
    if sure(a) and sure(b):
        high = None if None in (a[1], b[1]) else a[1] * b[1]
        return _fits(a[0] * b[0], high)
    if None in (*a, *b):
        return ANY
    ends = [x * y for x in a for y in b]
    return _fits(min(ends), max(ends))


def _floordiv(a: Span, b: Span) -> Span:
    if sure(a) and sure(b):
        low = 0 if b[1] is None else a[0] // max(b[1], 1)
        return low, None if a[1] is None else a[1] // max(b[0], 1)
    return ANY


def _mod(a: Span, b: Span) -> Span:
    return (0, None if b[1] is None else b[1] - 1) if sure(b) else ANY


def _and(a: Span, b: Span) -> Span:
    if not (sure(a) or sure(b)):
        return ANY
    highs = [s[1] for s in (a, b) if sure(s) and s[1] is not None]
    return 0, min(highs, default=None)


def _or(a: Span, b: Span) -> Span:
    return (0, None) if sure(a) and sure(b) else ANY


def _lshift(a: Span, b: Span) -> Span:
    if not sure(a):
        return ANY
    if None in (a[1], b[1]) or not 0 <= b[1] <= 62:
        return a[0], None
    return _fits(a[0], a[1] << b[1])


def _rshift(a: Span, b: Span) -> Span:
    return (0, a[1]) if sure(a) else ANY


SPANS = {
    ast.Add: _add,
    ast.Sub: lambda a, b: _add(a, (negated(b[1]), negated(b[0]))),
    ast.Mult: _mult,
    ast.Div: lambda a, b: ANY,
    ast.FloorDiv: _floordiv,
    ast.Mod: _mod,
    ast.Pow: lambda a, b: (0, None) if sure(a) else ANY,
    **{ast.BitAnd: _and, ast.BitOr: _or, ast.BitXor: _or},
    **{ast.LShift: _lshift, ast.RShift: _rshift},
}
