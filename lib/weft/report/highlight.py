"""A program's text as HTML, legible on light and on dark pages: Pygments' tokens.

What is no word, number, string or comment keeps the colour of its page.
"""

from __future__ import annotations

import html
import re

from ..base import style


def highlight_text(text: str, language: str = "cuda") -> str:
    """The text in colour. language: "cuda", "python", "ptx" or "diff"."""
    inside = colour_text(text.strip("\n") + "\n", language)
    return f'<pre style="{style.PRE}">{inside}</pre>'


def with_code(sentence: str) -> str:
    """A sentence as HTML: what stands between two backticks is code."""
    code = rf'<code style="{style.PRE};padding:0">\1</code>'
    return re.sub(r"`([^`]*)`", code, html.escape(sentence))


def colour_text(text: str, language: str = "cuda") -> str:
    """The same without an element around it: a line stays a line."""
    from pygments.lexers import get_lexer_by_name
    from pygments.token import STANDARD_TYPES

    parts = []
    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    for token, value in lexer.get_tokens(text):
        short = STANDARD_TYPES.get(token, "")  # "k", "kt": the first letter is its kind
        colour = style.CODE.get(short) or style.CODE.get(short[:1])
        shown = html.escape(value)
        parts.append(
            f'<span style="color:{colour}">{shown}</span>' if colour else shown
        )
    return "".join(parts)
