"""The files of the rungs, the differences between two rungs, and drawings of tiles.

Lesson 08a draws the tiles of a block and of a thread, from the constants in a rung's
file. Lesson 08b draws the times at which tiles are loaded, and the order of blocks.
"""

from __future__ import annotations

import difflib
import html
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ...base.errors import ArgumentError, running_shell
from ...base.paths import KERNELS
from ...base.style import (
    FAULT,
    INK,
    PRE,
    READ,
    SHARED,
    THREAD,
    WRITTEN,
    fade_colour,
)
from ...base.text import count_things
from ...report.html import colour_text, highlight_text
from ...see.pictures.svg import FILL, Drawing, box, label, remark

FOLDER = KERNELS / "matmul"
OUTSIDE = '"matmul/matmul.h"'
INKS = {"-": FAULT, "+": SHARED}
MARKS = {"-": "\N{MINUS SIGN}", "+": "+"}


def rung_path(name: str | Path) -> Path:
    """Return the file of a rung: "tiled", "03_tiled", or a path that ends in .cu.

    Raises ArgumentError, which lists the existing rungs, if none has that name.
    """
    if str(name).endswith((".cu", ".cuh")):
        for path in (Path(name), FOLDER / name):
            if path.is_file():
                return path.resolve()
        raise ArgumentError(f"no file {name}, neither here nor in kernels/matmul")
    paths = [p for p in sorted(FOLDER.glob("*.cu")) if _match_table_line(p.read_text())]
    matches = [p for p in paths if str(name) in (p.stem, p.stem[3:])]
    if not matches:
        names = ", ".join(p.stem for p in paths)
        raise ArgumentError(f"no rung '{name}' in kernels/matmul; it has {names}")
    return matches[0]


def rung_name(path: Path) -> str:
    """Return a rung's name from the line MATMUL_RUNG(name, ...) of its file.

    Raises ArgumentError if the file has no such line.
    """
    if match := _match_table_line(path.read_text()):
        return match[1]
    raise ArgumentError(f"{path.name} has no line MATMUL_RUNG(name, ...) at its end")


def read_without_essay(path: Path) -> str:
    """Return a rung's file without the essay at its top."""
    return re.sub(r"\A/\*.*?\*/\s*", "", path.read_text(), flags=re.S)


def kernel_code(path: Path) -> str:
    """Return a rung's file without the essay at its top and without its launcher."""
    text = read_without_essay(path)
    comment, template = r"(?:/\*(?:(?!\*/).)*\*/\n)?", r"(?:template <[^\n]*>\n)?"
    launcher = rf"\n{comment}{template}static int (?:\w+_)?launch\w*\("
    return re.split(launcher, text, maxsplit=1, flags=re.S)[0]


def print_common_lines(old: str | Path, new: str | Path) -> None:
    """Print the number of lines that a rung's kernel shares with an earlier one."""
    marks = [line[0] for line in difference(old, new, context=10**6)]
    print(f"{marks.count(' ')} of {len(marks) - marks.count('-')} lines are from {old}")


def difference(old: str | Path, new: str | Path, context: int = 2) -> list[str]:
    """Return the lines of a diff of two kernels; each begins with " ", "-", "+" or "@".

    The old kernel is renamed to the new one, so that the names do not differ.
    """
    codes = _read_codes(rung_path(old), rung_path(new))
    return _compare_lines(*codes, *codes, context)


def show_diff(old: str | Path, new: str | Path, context: int = 2) -> None:
    """Show the changes of rung `new` to the kernel of rung `old`, in color.

    old, new: "03_tiled", "tiled", or a path. The whole new file is folded below.
    """
    file, lines = rung_path(new), difference(old, new, context)
    marks = [line[:1] for line in lines]
    title = f"{rung_path(old).stem} \N{RIGHTWARDS ARROW} {file.stem}: "
    title += f"{count_things(marks.count('-'), 'line')} less, {marks.count('+')} more"
    if running_shell() is None:
        print("\n".join([title, *lines]))
        return
    from IPython.display import HTML, display

    codes = _read_codes(rung_path(old), file)
    rows = _compare_lines(*codes, *map(_highlight, codes), context)
    display(HTML(
        f"<b>{html.escape(title)}</b>"
        f'<pre style="{PRE}">{_mark_changes(rows)}</pre>'
        f"<details><summary>All of {html.escape(file.name)}</summary>"
        f"{highlight_text(file.read_text())}</details>"
    ))  # fmt: skip


# ---- details ---------------------------------------------------------------------


def _match_table_line(text: str) -> re.Match[str] | None:
    return re.search(r"^MATMUL_RUNG\(\s*(\w+)", text, re.MULTILINE)


def _read_codes(before: Path, after: Path) -> tuple[str, str]:
    """Return both kernels' code, with the old kernel renamed to the new one."""
    old, new = rung_name(before), rung_name(after)
    renamed = re.sub(rf"\bmatmul_{old}\b", f"matmul_{new}", kernel_code(before))
    code = kernel_code(after)
    if OUTSIDE in code:  # the new file is outside kernels/matmul
        renamed = renamed.replace('"matmul.h"', OUTSIDE)
    return renamed, code


def _split_pieces(code: str) -> list[str]:
    """Return the code's lines, with a kernel's head as one piece. The head's line
    breaks depend on the length of the kernel's name."""
    head = r"^.*__global__ [^;{]*?\{$"
    parts = re.split(f"({head})", code, flags=re.MULTILINE)
    pieces: list[str] = []
    for number, part in enumerate(parts):
        if number % 2:
            pieces.append(part)
        else:
            inner = part.removeprefix("\n") if number else part
            pieces += inner.removesuffix("\n").split("\n")
    return pieces


def _compare_lines(
    before: str, after: str, old: str, new: str, context: int
) -> list[str]:
    """Return a diff of `before` and `after` that shows the lines of `old` and `new`.

    `old` and `new` are `before` and `after`, possibly highlighted.
    """
    pieces, other_pieces = _split_pieces(before), _split_pieces(after)
    rows, others_shown = _break_alike(pieces, old), _break_alike(other_pieces, new)
    normalized = [
        [" ".join(p.split()) if "\n" in p else p for p in side]
        for side in (pieces, other_pieces)
    ]
    lines: list[str] = []
    matcher = difflib.SequenceMatcher(None, *normalized, autojunk=False)
    for number, group in enumerate(matcher.get_grouped_opcodes(context)):
        lines += ["@"] * (number > 0)
        for tag, i, i_end, j, j_end in group:
            sides = [(" ", others_shown[j:j_end])]
            if tag != "equal":
                sides = [("-", rows[i:i_end]), ("+", others_shown[j:j_end])]
            for mark, chunk in sides:
                lines += [mark + line for piece in chunk for line in piece.split("\n")]
    return lines


def _break_alike(pieces: list[str], text: str) -> list[str]:
    """Group the lines of `text` into pieces with the same line counts as `pieces`."""
    lines = iter(text.split("\n"))
    counts = (piece.count("\n") + 1 for piece in pieces)
    return ["\n".join(itertools.islice(lines, count)) for count in counts]


def _highlight(code: str) -> str:
    """Return the highlighted code as HTML in which no element spans several lines."""
    return re.sub(
        r"(<span[^>]*>)(.*?)</span>",
        lambda m: "\n".join(f"{m[1]}{part}</span>" for part in m[2].split("\n")),
        colour_text(code),
        flags=re.S,
    )


def _mark_changes(lines: list[str]) -> str:
    """Return the diff's lines as HTML with marks; changes are faint green or red."""
    rows = []
    for line in lines:
        mark, code = line[:1], line[1:]
        if mark == "@":
            rows.append('<span style="opacity:0.72">\N{VERTICAL ELLIPSIS}</span>')
        elif mark in INKS:
            faint = f"background:{INKS[mark]}2b"
            rows.append(f'<span style="{faint}">{MARKS[mark]} {code}</span>')
        else:
            rows.append(f"  {code}")
    return "\n".join(rows)


Span = tuple[float, float]  # the start and the end
Tile = tuple[int, int]  # the row and the column, counted in tiles


def tile_order(down: int, across: int, group: int) -> list[Tile]:
    """Return the order in which rung `pipeline` computes down x across tiles.

    The order goes through groups of `group` rows, and column by column through each
    group. If `group` is 1, it goes row by row. place_of() in
    kernels/matmul/10_pipeline.cu computes the same order.
    """
    order = []
    for first in range(0, down, group):
        rows = range(first, min(first + group, down))
        order += [(row, col) for col in range(across) for row in rows]
    return order


def stages_drawn(
    ax: Axes, plans: Mapping[str, tuple[Sequence[Span], Sequence[Span]]]
) -> None:
    """Draw loads above and multiplications below, each with the number of its tile.

    plans: (spans of loading, spans of multiplying) in cycles, by name.
    """
    longest = max(works[-1][1] for _, works in plans.values())
    middle = {"ha": "center", "va": "center", "size": 8.5}
    for number, (name, (loads, works)) in enumerate(plans.items()):
        top = 3.2 * number
        for row, (spans, colour) in enumerate(((loads, READ), (works, THREAD))):
            # Lanes end at these times; overlapping loads need several lanes.
            lanes: list[float] = []
            for tile, (start, end) in enumerate(spans):
                lane = next((i for i, t in enumerate(lanes) if t <= start), len(lanes))
                lanes[lane : lane + 1] = [end]
                height, y = (0.9 if row else 0.5), top + 1.15 * row + 0.5 * lane
                look = {"ec": colour, "fc": fade_colour(colour), "lw": 1.2}
                ax.add_patch(Rectangle((start, y), end - start, height, **look))
                ax.text((start + end) / 2, y + height / 2 + 0.02, str(tile), **middle)
        ax.text(-0.01 * longest, top + 1.1, name, ha="right", va="center")
        end = works[-1][1]
        ax.text(end * 1.005, top + 1.6, f" {end:,.0f}", va="center", size=11)
    ax.set(xlim=(0, 1.08 * longest), ylim=(3.2 * len(plans) - 0.8, -0.6), yticks=[])
    ax.set_xlabel("cycles; blue: a tile is loaded, purple: it is multiplied")
    ax.spines["left"].set_visible(False)
    ax.grid(False)


def order_drawn(ax: Axes, order: Sequence[Tile], blocks: int, title: str) -> None:
    """Draw the tiles of c with their numbers; the first wave of blocks is purple.

    Blue tiles to the left and above are the rows of a and the columns of b that the
    first wave reads.
    """
    row_count, across = (1 + max(tile[i] for tile in order) for i in (0, 1))
    for number, (row, col) in enumerate(order):
        first = number < blocks
        look = {"ec": THREAD if first else INK, "lw": 1.2 if first else 0.5}
        look["fc"] = fade_colour(THREAD) if first else "none"
        ax.add_patch(Rectangle((col + 0.05, row + 0.05), 0.9, 0.9, **look))
        position = {"ha": "center", "va": "center", "size": 7.5}
        ax.text(col + 0.5, row + 0.53, str(number), **position)
    rows, cols = ({tile[i] for tile in order[:blocks]} for i in (0, 1))
    blue = {"ec": READ, "fc": fade_colour(READ), "lw": 1.2}
    for row in rows:
        ax.add_patch(Rectangle((-1.0, row + 0.05), 0.7, 0.9, **blue))
    for col in cols:
        ax.add_patch(Rectangle((col + 0.05, -1.0), 0.9, 0.7, **blue))
    caption = f"{title}: {len(rows)} rows of a, {len(cols)} columns of b"
    ax.text(0, -1.3, caption, size=11)
    ax.set(xlim=(-1.2, across + 0.1), ylim=(row_count + 0.1, -2.1), aspect="equal")
    ax.set_axis_off()


# ---- the tiles of a block and of a thread ------------------------------------------

PANEL, TALL = 292.0, 346.0  # width and height of a panel in pixels: 3 fit across a page
ROOM, GAP = 240.0, 8.0  # pixels for all three matrices; the gap between two
LEFT, TOP = 42.0, 64.0  # the upper left corner of this room
FULL = 256  # rows and columns of the matrices in the first panel


@dataclass(frozen=True)
class Tiles:
    """A rung's constants: the sides of a block's tiles, and of a thread's part of c."""

    bm: int
    bn: int
    bk: int
    tm: int
    tn: int

    @staticmethod
    def read(rung: str | Path) -> Tiles:
        """Read the constants; raise ArgumentError if the file does not have them."""
        path = rung_path(rung)
        enums = re.findall(r"^enum \{(.*?)\};", path.read_text(), re.S | re.M)
        text = re.sub(r"//.*", "", "\n".join(enums))
        found = {name: int(n) for name, n in re.findall(r"\b([A-Z]+) = (\d+)", text)}
        tile = found.get("TILE")
        sides = [found.get(name, tile) for name in ("BM", "BN", "BK")]
        if None in sides:
            raise ArgumentError(f"{path.name} has no constants BM, BN and BK, or TILE")
        return Tiles(*sides, found.get("TM", 1), found.get("TN", 1))

    @property
    def threads(self) -> int:
        return self.bm * self.bn // (self.tm * self.tn)

    @property
    def place(self) -> tuple[int, int]:
        """Return the first row and column of the drawn thread's part of c's tile."""
        return self.bm // 2 // self.tm * self.tm, self.bn // 4 // self.tn * self.tn


def draw_tiles(rung: str | Path, panels: int = 3) -> None:
    """Draw a block's tile of c, the tiles in shared memory, and a thread's registers.

    panels: the number of panels to draw, 1 to 3. They are side by side, or below each
    other on a narrow page.
    """
    from IPython.display import HTML, display

    tiles = Tiles.read(rung)
    draw = (_draw_block, _draw_shared, _draw_registers)[:panels]
    shrinks = f"flex:1 1 250px;max-width:{PANEL:.0f}px"  # three fit into 800 pixels
    inner = "".join(
        f'<div style="{shrinks}">{draw_panel(tiles).html()}</div>'
        for draw_panel in draw
    )
    flow = "display:flex;flex-wrap:wrap;gap:12px"
    display(HTML(f'<div style="{flow}">{inner}</div>'))


def _draw_block(tiles: Tiles) -> Drawing:
    """Draw a, b and c in global memory, and the parts that a block reads and writes."""
    side = (ROOM - GAP) / 2
    scale, x, y = side / FULL, LEFT + side + GAP, TOP + side + GAP
    row, col = FULL // tiles.bm // 2 * tiles.bm, FULL // tiles.bn // 2 * tiles.bn
    k0 = FULL // 4 // tiles.bk * tiles.bk
    high, wide, deep = (scale * one for one in (tiles.bm, tiles.bn, tiles.bk))
    at_row, at_col = y + scale * row, x + scale * col
    faint = {"strength": 0.45, "radius": 0}
    strip = {"colour": READ, "fill": FILL, "stroke": 0, "radius": 0}
    now = {"colour": READ, "fill": 0.7, "radius": 0}
    parts = [
        *(box(*at, side, side, **faint) for at in ((x, y), (LEFT, y), (x, TOP))),
        box(LEFT, at_row, side, high, **strip),
        box(at_col, TOP, wide, side, **strip),
        box(LEFT + scale * k0, at_row, deep, high, **now),
        box(at_col, TOP + scale * k0, wide, deep, **now),
        box(at_col, at_row, wide, high, colour=WRITTEN, fill=FILL, radius=2, stroke=2),
        *_name_matrices(("a", "b", "c"), LEFT, (x, y), TOP + 12, side),
    ]
    lines = [
        f"A block computes {tiles.bm} x {tiles.bn} of c. In each turn it",
        f"loads {tiles.bm} x {tiles.bk} of a and {tiles.bk} x {tiles.bn} of b.",
    ]
    note = "strong blue: loaded in this turn; orange: written"
    return _make_panel("1. Block tile", lines, note, parts)


def _draw_shared(tiles: Tiles) -> Drawing:
    """Draw both tiles in shared memory, and the part of one thread."""
    scale = (ROOM - GAP) / (max(tiles.bm, tiles.bn) + tiles.bk)  # pixels per element
    tall, broad, deep = (scale * one for one in (tiles.bm, tiles.bn, tiles.bk))
    x, y = LEFT + deep + GAP, TOP + deep + GAP
    row, col = tiles.place
    at_row, at_col = y + scale * row, x + scale * col
    high, wide = scale * tiles.tm, scale * tiles.tn
    tile = {"colour": SHARED, "fill": FILL, "radius": 0}
    used = {"colour": SHARED, "fill": 0.8, "stroke": 0, "radius": 0}
    parts = [
        box(x, y, broad, tall, colour=WRITTEN, radius=2, stroke=2),
        box(LEFT, y, deep, tall, **tile),
        box(x, TOP, broad, deep, **tile),
        box(LEFT, at_row, deep, high, **used),
        box(at_col, TOP, wide, deep, **used),
        box(at_col, at_row, wide, high, colour=THREAD, fill=0.8, radius=0),
        *_name_matrices(("a_s", "b_s", "c"), LEFT, (x, y), TOP + deep / 2 + 4, tall),
    ]
    lines = [
        f"{tiles.threads} threads share a_s ({tiles.bm}, {tiles.bk}) and b_s",
        f"({tiles.bk}, {tiles.bn}). Each computes {tiles.tm} x {tiles.tn} of c.",
    ]
    note = "strong green: read by the purple thread"
    return _make_panel("2. Tiles in shared memory", lines, note, parts)


def _draw_registers(tiles: Tiles) -> Drawing:
    """Draw the numbers that one thread reads in a step, and its sums."""
    side = min((ROOM - GAP) / (max(tiles.tm, tiles.tn) + 1), 30.0)
    cell = {"width": 0.88 * side, "height": 0.88 * side, "radius": 2, "fill": FILL}
    x, y = LEFT + side + GAP, TOP + side + GAP
    rows, cols = ([i * side for i in range(count)] for count in (tiles.tm, tiles.tn))
    parts = [
        *(box(LEFT, y + down, colour=SHARED, **cell) for down in rows),
        *(box(x + right, TOP, colour=SHARED, **cell) for right in cols),
        *(box(x + right, y + down, colour=THREAD, **cell)
          for down, right in itertools.product(rows, cols)),
        *_name_matrices(
            ("a_s", "b_s", "acc"), LEFT, (x, y), TOP + side / 2 + 4, tiles.tm * side
        ),
    ]  # fmt: skip
    read, sums = tiles.tm + tiles.tn, tiles.tm * tiles.tn
    lines = [
        f"In each step it reads {tiles.tm} + {tiles.tn} numbers for",
        f"{count_things(sums, 'multiply-add')}: {read / sums:.4g} numbers for each.",
    ]
    note = "purple: sums in registers"
    return _make_panel("3. Register tile of one thread", lines, note, parts)


def _make_panel(
    title: str, lines: Sequence[str], note: str, parts: Sequence[str]
) -> Drawing:
    """Return a panel: the title, two lines of text, the picture, and a note."""
    texts = [label(0, 14, title, 14, bold=True), remark(0, TALL - 6, note)]
    texts += [label(0, 33 + 16 * i, line, 12) for i, line in enumerate(lines)]
    account = f"{title}. {' '.join(lines)}"
    body = "".join([*texts, *parts])
    return Drawing(title, PANEL, TALL, body, [], {(): []}, (), account)


def _name_matrices(
    names: Sequence[str],
    left: float,
    corner: tuple[float, float],
    y: float,
    tall: float,
) -> list[str]:
    """Write the names of the left matrix, of the upper one at y, and of the third."""
    look = {"mono": True, "bold": True}
    return [
        label(left - 6, corner[1] + 12, names[0], 13, anchor="end", **look),
        label(corner[0] - GAP - 6, y, names[1], 13, anchor="end", **look),
        label(corner[0], corner[1] + tall + 16, names[2], 13, **look),
    ]
