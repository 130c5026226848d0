"""The picture of an occupancy: room by resource, resident warps, every block size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...base.style import READ, REFERENCE, SHARED, THREAD, WIDTH
from ...base.text import plural
from ..pictures.svg import FILL, SMALL, box, document, label

if TYPE_CHECKING:
    from .residency import Occupancy

LEFT = 130  # of the bars
BAR = 22
COLOURS = {"threads": THREAD, "blocks": "currentColor"}
COLOURS |= {"registers": READ, "shared memory": SHARED}


def draw(one: Occupancy) -> str:
    """The picture as SVG text; above it the sentence that says what to see."""
    top = [label(0, 16, one.sentence(), 13, bold=True)]
    top.append(label(0, 34, one.resident(), 12))
    y = 62.0
    body, y = _room(one, y)
    strip, y = _warps(one, y + 30)
    chart, y = _sizes(one, y + 24)
    foot = label(0, y + 22, _account(one), SMALL, faint=True)
    return document(WIDTH, y + 32, "".join([*top, body, strip, chart, foot]), repr(one))


def _room(one: Occupancy, y: float) -> tuple[str, float]:
    """A bar for each resource: the blocks that it has room for."""
    out = [label(0, y, "room for blocks", SMALL, faint=True)]
    known = [count for count in one.fits.values() if count is not None]
    # What is far from binding would squeeze the bars that matter.
    most = max(min(max(known), 2 * max(one.blocks, 1) + 2), 4)
    scale = (WIDTH - LEFT - 230) / most
    for name, count in one.fits.items():
        y += 10
        colour, binds = COLOURS[name], name in one.binding
        shown = most if count is None else min(count, most)
        out.append(label(LEFT - 10, y + 15, name, 12, anchor="end", bold=binds))
        look = dict(colour=colour, fill=FILL * (1 if binds else 0.4))
        cut = count is None or count > most
        out.append(
            box(
                *(LEFT, y, max(shown * scale, 1), BAR),
                **look,
                stroke=0 if cut else 2 if binds else 0.8,
            )
        )
        said = "no limit" if count is None else plural(count, "block")
        said += ": binds" * binds + " (longer than drawn)" * (cut and count is not None)
        out.append(label(LEFT + shown * scale + 8, y + 15, said, 12, bold=binds))
        y += BAR
    line = LEFT + one.blocks * scale
    out.append(
        f'<path d="M{line:.1f} 68V{y + 6:.1f}" stroke="currentColor" '
        f'{REFERENCE} stroke-opacity=".6"/>'
    )
    return "".join(out), y


def _warps(one: Occupancy, y: float) -> tuple[str, float]:
    """Every place for a warp: filled by a block, or hollow."""
    out = [label(0, y, "places for warps", SMALL, faint=True)]
    step = (WIDTH - LEFT) / one.limits.warps
    side = min(step - 2, 18)
    for place in range(one.limits.warps):
        x = LEFT + place * step
        if place < one.warps:
            block = place // one.warps_each
            # Neighbouring blocks differ in strength, so that each can be counted.
            look = dict(colour=THREAD, fill=FILL * (1.6 if block % 2 else 0.7))
            out.append(box(x, y - 12, side, side, **look))
        else:
            out.append(box(x, y - 12, side, side, strength=0.35))
    return "".join(out), y - 12 + side


def _sizes(one: Occupancy, y: float) -> tuple[str, float]:
    """Occupancy over the block size; the one asked for is marked."""
    high, sweep = 96.0, one.sweep()
    out = [label(0, y + 12, "occupancy", SMALL, faint=True)]
    out.append(label(0, y + 26, "by block size", SMALL, faint=True))
    step = (WIDTH - LEFT) / len(sweep)
    base = y + high
    for share in (0.5, 1.0):
        at = base - share * (high - 8)
        out.append(
            f'<path d="M{LEFT} {at:.1f}H{WIDTH}" stroke="currentColor" '
            f'stroke-opacity=".25"/>'
        )
        out.append(label(LEFT - 10, at + 4, f"{share:.0%}", SMALL, anchor="end"))
    for number, size in enumerate(sweep):
        x, tall = LEFT + number * step, size.occupancy * (high - 8)
        mine = size.warps_each == one.warps_each
        colour = THREAD if mine else "currentColor"
        look = dict(colour=colour, fill=FILL * (2 if mine else 0.5), radius=1)
        told = f"{size.threads} threads: {size.occupancy:.0%}, {size.binding[0]}"
        bar = box(x + 2, base - tall, step - 4, max(tall, 0.5), **look)
        out.append(f"<g><title>{told}</title>{bar}</g>")
        if mine or size.threads % 128 == 0:
            out.append(
                label(x + step / 2, base + 14, str(size.threads), SMALL, bold=mine,
                      anchor="middle")
            )  # fmt: skip
    return "".join(out), base + 16


def _account(one: Occupancy) -> str:
    more = one.next()
    return f"{one.uses()}{'; ' * bool(more)}{more}"
