"""A shift by the width or more: which way it goes.

What g++ passes to the watch build's runtime (kernels/simt/watch/undefined.cpp) is the
same for << and for >>, so the runtime says both, and the source decides.
"""

from __future__ import annotations

import re

from . import carets

_BOTH = re.compile(r"(.*): <<: (.*); >>: (.*)")


def one_way(text: str, line: str, compiled: int) -> str:
    """The sentence for the shift in the reader's line; any other as it is.

    compiled: the compiler's column (from 1, in bytes; 0: unknown).
    """
    both = _BOTH.fullmatch(text)
    if not both:
        return text
    signs = set(re.findall(r"<<|>>", line))
    at = carets.original_offset(line, compiled)
    if at is not None and line[at : at + 2] in signs:
        signs = {line[at : at + 2]}
    if len(signs) != 1:
        return text
    head, left, right = both.groups()
    return f"{head}: {left if signs == {'<<'} else right}"
