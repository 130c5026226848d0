"""What stands below a picture: faults, counts, and what its marks mean."""

from __future__ import annotations

import numpy as np

from ...base.style import WIDTH
from . import svg
from .counts import counts
from .faults import findings_of, sentences
from .panels import EDGE
from .scene import Scene
from .svg import label


def foot(scene: Scene, top: float) -> tuple[str, float]:
    """Findings, counts and legend; and the height of the whole picture."""
    y = top + 14
    out, y = sentences(findings_of(scene), EDGE, y)
    for line in counts(scene):
        out += label(EDGE, y, line, 12, faint=True)
        y += 18
    kinds = _list_kinds(scene)
    out += svg.legend(EDGE, y + 8, kinds)
    return out, y + 22


def width(scene: Scene) -> float:
    """How far to the right that goes."""
    if findings_of(scene):
        return WIDTH
    lines = [svg.width_of(line, 12) for line in counts(scene)]
    marks = [svg.width_of(svg.MARKS[k][2], svg.SMALL) + 38 for k in _list_kinds(scene)]
    return EDGE + max([*lines, sum(marks)])


def _list_kinds(scene: Scene) -> list[str]:
    """The marks that this picture has, for its legend."""
    found, trace = scene.found, scene.trace
    shared = np.isin(
        found.array, [i for i, a in enumerate(trace.arrays) if a.space == "shared"]
    )
    written = set(np.unique(found.element[found.writes & ~shared]).tolist())
    kinds = []
    if (found.reads & ~shared).any():
        kinds.append("read")
    if written:
        kinds.append("written")
    if (found.reads & shared).any():
        kinds.append("shared")
    if (found.writes & shared).any():
        kinds.append("shared-written")
    kinds.append("thread")
    of = found.where(np.isin(found.block, scene.blocks))
    pairs = len(np.unique(of.block * scene.threads + of.thread))
    if pairs < scene.threads * len(scene.blocks):
        kinds.append("idle")
    if findings_of(scene):
        kinds.append("fault")
    return kinds
