"""Draw keys as dots over the passes of a sort: position against key.

    play_cloud({"stable": [keys, after_pass_1, after_pass_2, ...]})

If the keys are sorted, the dots form a rising diagonal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...base.errors import ArgumentError
from ...base.style import PALE, READ
from .panels import EDGE
from .svg import Drawing, Slider, label, num, remark

SIDE = 420.0  # side of the square with the dots, in pixels
LEFT, TOP = 58.0, 66.0
DOT = 4.0  # diameter of a dot
MANY = 4096  # largest count of dots


def play_cloud(runs: Mapping[str, Sequence[np.ndarray]]) -> Drawing:
    """Return dots of keys, with a slider over the passes, and one over several runs.

    runs: by name, the keys before the first pass and after each pass: whole numbers (n)
    from 0. All runs have as many passes and keys. Raises ArgumentError otherwise, for a
    negative key, and for more than 4096 keys.
    """
    _check_runs(runs)
    passes = len(next(iter(runs.values()))) - 1
    top = max(int(keys.max()) for run in runs.values() for keys in run) + 1
    stops = ("before", *(f"pass {number}" for number in range(1, passes + 1)))
    sliders = [Slider("pass", stops)]
    if len(runs) > 1:
        sliders.append(Slider("sort", tuple(runs)))
    frames, texts = {}, []
    for place, (name, run) in enumerate(runs.items()):
        for number, keys in enumerate(run):
            at = (number, place) if len(runs) > 1 else (number,)
            frames[at] = _draw_keys(keys, top)
        texts.append(f"{name}: {_describe_keys(run[-1])} after the last pass")
    title = "Keys over passes: the position and the key of each"
    size = LEFT + SIDE + EDGE, TOP + SIDE + 44
    start = (passes, 0) if len(runs) > 1 else (passes,)
    account = f"{title}. {'; '.join(texts)}"
    return Drawing(title, *size, _draw_axes(), sliders, frames, start, account)


def _check_runs(runs: Mapping[str, Sequence[np.ndarray]]) -> None:
    shapes = {(len(run), *(len(keys) for keys in run)) for run in runs.values()}
    if len(shapes) != 1 or len({*next(iter(shapes))[1:]}) != 1:
        raise ArgumentError(
            f"play_cloud: the runs {', '.join(runs) or 'are missing and'} must have as "
            f"many passes and keys, not {sorted(shapes)}"
        )
    count = len(next(iter(runs.values()))[0])
    least = min(int(keys.min(initial=0)) for run in runs.values() for keys in run)
    if not 1 <= count <= MANY or least < 0:
        raise ArgumentError(
            f"play_cloud: {count} keys from {least}; there must be 1 to {MANY}, from 0"
        )


def count_unordered(keys: np.ndarray) -> int:
    """Return how many neighbours are in the wrong order."""
    return int(np.count_nonzero(keys[1:] < keys[:-1]))


def _describe_keys(keys: np.ndarray) -> str:
    wrong = count_unordered(keys)
    if not wrong:
        return f"all {len(keys)} keys in order"
    return f"{wrong} of {len(keys) - 1} neighbours in the wrong order"


def _draw_axes() -> str:
    """Draw the title, the square's frame, and the names of its axes."""
    frame = f'x="{num(LEFT)}" y="{num(TOP)}" width="{num(SIDE)}" height="{num(SIDE)}"'
    out = label(EDGE, 24, "Keys over passes", 16, bold=True)
    out += f'<rect {frame} fill="none" {PALE}/>'
    out += remark(LEFT + SIDE / 2, TOP + SIDE + 24, "position", anchor="middle")
    return out + remark(LEFT - 12, TOP + SIDE / 2, "key", anchor="end")


def _draw_keys(keys: np.ndarray, top: int) -> list[str]:
    """Draw a dot for each key. top: the end of the axis of keys."""
    scale = (SIDE - 2 * DOT) / len(keys), (SIDE - 2 * DOT) / top
    dots = (
        f"M{LEFT + DOT + (place + 0.5) * scale[0]:.0f} "
        f"{TOP + SIDE - DOT - (key + 0.5) * scale[1]:.0f}h0"
        for place, key in enumerate(keys.tolist())
    )
    path = f'<path d="{"".join(dots)}" fill="none" stroke="{READ}" '
    path += f'stroke-width="{num(DOT)}" stroke-linecap="round"/>'
    return [label(EDGE, 50, _describe_keys(keys), 13), path]
