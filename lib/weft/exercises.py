"""What stands below an exercise of a lesson: its check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def exercise(answer: Callable[..., Any], check: Callable[[Any], None]) -> None:
    """Run check(answer) and say how it went.

    An answer that raises NotImplementedError is not solved yet: the notebook
    goes on. A wrong one raises what the check raises.
    """
    try:
        check(answer)
    except NotImplementedError:
        print(f"{answer.__name__}: not solved yet")
    else:
        print(f"{answer.__name__}: solved")
