"""A program's text as HTML, legible on light and on dark pages: Pygments' tokens.

What is no word, number, string or comment keeps the colour of its page.
"""

from __future__ import annotations

import html

from . import style


def highlighted(text: str, language: str = "cuda") -> str:
    """The text in colour. language: "cuda", "python" or "diff"."""
    from pygments.lexers import get_lexer_by_name
    from pygments.token import STANDARD_TYPES

    parts = []
    for token, value in get_lexer_by_name(language).get_tokens(text):
        short = STANDARD_TYPES.get(token, "")  # "k", "kt": the first letter is its kind
        colour = style.CODE.get(short) or style.CODE.get(short[:1])
        shown = html.escape(value)
        parts.append(
            f'<span style="color:{colour}">{shown}</span>' if colour else shown
        )
    return f'<pre style="background:none;color:inherit">{"".join(parts)}</pre>'
