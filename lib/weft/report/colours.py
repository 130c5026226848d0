"""A report's text in a terminal's colours: red where it is wrong, yellow where slow."""

from __future__ import annotations

import os
import re

from .kinds import KINDS

_RED, _YELLOW, _BOLD, _FAINT, _END = (
    f"\x1b[{code}m" for code in ("1;31", "33", "1", "2", "0")
)
_KINDS = "|".join(re.escape(kind) for kind in KINDS)
_MARKS = [
    (
        re.compile(rf"^((?:\S[^\n]*?:\d+: )?)({_KINDS})(?=: )", re.M),
        rf"\1{_RED}\2{_END}",
    ),
    (re.compile(r"^(\s+)\^$", re.M), rf"\1{_RED}^{_END}"),
    (re.compile(r"^slow(?=: )", re.M), f"{_YELLOW}slow{_END}"),
    (re.compile(r"(\S+) !(?=\s|$)", re.M), rf"{_YELLOW}\1 !{_END}"),
    (re.compile(r"\b(\d+ findings?)(?=$|;)", re.M), rf"{_BOLD}\1{_END}"),
    (re.compile(r"^(\s+usually cured by: .*)$", re.M), rf"{_FAINT}\1{_END}"),
]


def colour_report(text: str) -> str:
    """The text with ANSI colours; NO_COLOR leaves it as it is (no-color.org)."""
    if os.environ.get("NO_COLOR"):
        return text
    for pattern, made in _MARKS:
        text = pattern.sub(made, text)
    return text
