"""What a reader is to write: exercises and puzzles with and without their answers.

The answer stands between two lines, in Python and in C:

    def double(x):                          /* y = 2 x. Two lines. */
        \"\"\"2 x. One line.\"\"\"                __global__ void twice(float *y) {
        ### BEGIN SOLUTION                      // BEGIN SOLUTION
        return 2 * x                            y[threadIdx.x] *= 2;
        ### END SOLUTION                        // END SOLUTION
                                            }
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `import utils` does not wait for nbformat, which takes seconds
    from nbformat import NotebookNode

HIDDEN = re.compile(
    r"^(?P<indent> *)(?:###|//) BEGIN SOLUTION\n(?P<answer>.*?)"
    r"^ *(?:###|//) END SOLUTION(?:\n|\Z)",
    re.MULTILINE | re.DOTALL,
)


# Tags of the answers that are tried on an exercise's check.
WITHHELD = frozenset({"mistakes", "spellings"})


class LessonError(Exception):
    """A source that is not written as it must be; the text says where and how."""


def make_stub(answer: str) -> str:
    """An answer's text before it is solved; LessonError without the two lines."""
    if HIDDEN.search(answer) is None:
        raise LessonError(f"no BEGIN and END SOLUTION in:\n{answer}")
    if answer.startswith("%%cuda"):
        left = r"\g<indent>// not solved yet\n"
    elif answer.startswith("%%"):
        left = "#error not solved yet\n"
    else:
        left = r"\g<indent>raise NotImplementedError\n"
    return HIDDEN.sub(left, answer).rstrip("\n")


def is_withheld(cell: NotebookNode) -> bool:
    """Whether the reader does not get a cell of a lesson's source."""
    return not WITHHELD.isdisjoint(cell.metadata.get("tags", []))


def remove_marks(answer: str) -> str:
    """The same as one who has solved it would have it: without the two lines."""
    return HIDDEN.sub(r"\g<answer>", answer).rstrip("\n")
