"""How many elements of an input an element of the answer depends on.

The sizes tell it of a product, but not of a softmax or of a sum that all outputs
share. So it is asked of the reference: an element of an input is changed, and the
elements of the answer that change with it are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..base.arrays import widen_floats

Arrays = dict[str, np.ndarray]
STEP = 1 / 16  # how far an element is moved: enough to tell, in float64
SAME = 1e-12  # of the answer: less than that is the rounding of the reference


def fan_in(
    answer: Callable[[Arrays], Arrays], inputs: Arrays, want: Mapping[str, np.ndarray]
) -> dict[str, int]:
    """For each output the number of elements of one input that one of its elements
    depends on: the mean over the output, of the element that most depends on.

    answer: of other inputs, the outputs. inputs: floats as float64; the first, the
    middle and the last element of each are changed. 0: none that could be found.
    """
    most = dict.fromkeys(want, 0)
    for name, array in inputs.items():
        if array.dtype.kind not in "fc":
            continue  # whole numbers select
        for place in sorted({0, array.size // 2, array.size - 1} - {-1}):
            moved = array.copy()
            moved.flat[place] += STEP * (1 + abs(moved.flat[place]))
            for output, changed in _count_changed(answer, {name: moved}, want).items():
                each = -(-array.size * changed // max(1, want[output].size))
                most[output] = max(most[output], each)
    return most


def _count_changed(
    answer: Callable[[Arrays], Arrays], inputs: Arrays, want: Mapping[str, np.ndarray]
) -> dict[str, int]:
    """How many elements of each output are others with these inputs; nothing where
    the reference does not take them, or gives other shapes."""
    try:
        with np.errstate(all="ignore"):
            found = answer(inputs)
            off = {
                n: np.abs(widen_floats(found[n]) - widen_floats(due))
                for n, due in want.items()
            }
            return {
                n: int((each > SAME * np.abs(widen_floats(want[n]))).sum())
                for n, each in off.items()
            }
    except Exception:
        return {}
