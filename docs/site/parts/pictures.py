"""Draw a picture for each lesson by running some of its cells when the site is built.

The cell of imports runs, then the cells that contain the phrases below, in the lesson's
order. The result is the largest picture of the last cell. None of these cells measures
a time on the machine that builds the site.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import weft
from weft.puzzles.notebooks import Lesson
from weft.see.pictures.latency import Replayed
from weft.see.pictures.show import Picture
from weft.see.pictures.svg import Drawing

VIEW = re.compile(r'viewBox="([^"]+)"')
DRAWN = re.compile(r"<svg\b.*?</svg>", re.S)
STILL = re.compile(r'src="data:image/svg\+xml;base64,([^"]+)"')
LARGE = 400  # width of a large picture, in SVG units
IMPORTS = "from utils import *\n"


@dataclass(frozen=True)
class Choice:
    """The cells that draw a lesson's picture, and its alternative text.

    code: Python to run after the cells, if the last one draws no picture or needs a
    GPU.
    """

    words: str
    phrases: tuple[str, ...]
    code: str = ""


CHOICES = {
    "01a": Choice(
        "a small landscape in colour, and the same in grey",
        ("np.mgrid", "show_images(rgb=rgb, grey=by_lists)"),
    ),
    "01b": Choice(
        "blocks of three shapes, with a shade for each warp",
        ("rows_of_warp = predict", "show_images(**warps)"),
    ),
    "02a": Choice(
        "the threads of a block load, wait at a barrier, and add",
        (
            "TILE = 4",
            "def matmul_tiled(",
            "shapes=shapes)[(3, 3)",
            'show(matmul_tiled, view="timeline")',
        ),
    ),
    "02b": Choice(
        "which lanes of a warp work in each step of a kernel with a branch",
        (
            "def by_parity",
            "def by_warp",
            "lanes = predict",
            'show(kernel, view="lanes")',
        ),
    ),
    "02c": Choice(
        "half of the lanes add, then a quarter, then an eighth",
        ("def sum_tree", "rounds = predict", 'show(sum_tree, view="lanes")'),
    ),
    "03": Choice(
        "a puzzle's task: each element of the result and what it depends on",
        ("puzzles.example.goal()",),
    ),
    "04": Choice(
        "the time of a launch from Python, for each way of launching",
        ("plot_bodies.plot_launches",),
    ),
    "05": Choice(
        "two orders of the loops of a matrix product, and the elements that they touch",
        ("def draw_order",),
    ),
    "06": Choice(
        "two blocks of six threads, each with its index", ("def draw_launch",)
    ),
    "07a": Choice(
        "the sectors that a warp's request takes at strides 1, 2 and 8",
        ('sectors({"x[i]": lanes',),
    ),
    "07b": Choice(
        "warps that take turns while others wait for memory",
        ("busy_16 = predict", "latency(scale)"),
    ),
    "07c": Choice(
        "the report of a kernel that reads before the start of its array",
        ("def random", "void smooth(", "inspect(smooth)"),
        "weft.last_report()",
    ),
    "08a": Choice(
        "the rungs of the matmul ladder in per cent of cuBLAS",
        (),
        "from weft.benchmarks.matmul.plot import ladder_plot\n"
        "from weft.see.view import show_figure\n"
        'show_figure(ladder_plot([], size="4096"))',
    ),
    "08b": Choice(
        "bank conflicts of a tile with rows of 32 floats, and none with rows of 36",
        ("def eight_rows", 'banks({f"a_s, rows of {pitch}"'),
    ),
    "08c": Choice("the bits of fp32, tf32, fp16 and bf16", ('bits({"fp32"',)),
    "09a": Choice(
        "how a warp's lanes load 512 bytes: four requests of four sectors",
        ("draw_widths()",),
    ),
    "09b": Choice(
        "an online softmax: the old sum shrinks when a larger number comes",
        ("def read_online",),
    ),
    "09c": Choice(
        "a chained scan in reverse order: four blocks wait, and four cannot begin",
        ("play_chain()",),
    ),
    "09d": Choice(
        "512 keys as dots: an unstable last pass leaves four steps of noise",
        (
            *("void count_bytes", "def count_with", "void scatter_in_order"),
            *("def sort_digit", "void scatter_anyhow", "wrong = predict"),
            "unstable_last, unstable_first",
        ),
    ),
    "10a": Choice(
        "a pool passes each gradient to the largest pixel of its window",
        ("def windows", "def maxpool_backward", "x_pool = "),
    ),
    "10b": Choice(
        "a number that is used twice receives the shares of both uses",
        ("class Value", "def relu", "play_graph("),
    ),
    "12": Choice(
        "two matrices, read by columns: the call that looks like a @ b gives b @ a",
        ("play_operands()",),
    ),
    "13a": Choice(
        "a function with a kernel in C, which torch.compile divides into three graphs",
        ("def use_kernel", "broken = draw_graphs"),
    ),
    "13b": Choice(
        "the one of four cubins that a T4 runs, and why it runs no other",
        ("play_cards([",),
    ),
    "14": Choice(
        "the time per kernel in a chain, launched singly and as a graph",
        ("floor = 2 *",),
        "with figure(9, 4.2) as ax:\n"
        "    plot_graphs.plot_chains(ax, [], others, floor)",
    ),
    "15a": Choice(
        "handwritten digits of MNIST, five of each class",
        ("contact_sheet(train.images[grid]",),
    ),
    "15b": Choice(
        "time per image by size of the batch, ours and PyTorch's",
        ("race = RaceRows(", "show_batches()"),
    ),
    "16a": Choice(
        "who owns which of 23 images, in batches of 10 for three workers",
        ("play_owners(images",),
    ),
}


def draw_pictures(lessons: list[Lesson]) -> dict[str, str]:
    """Return an HTML element for each lesson that has a picture, by its number."""
    return {
        lesson.number: draw(lesson, CHOICES[lesson.number])
        for lesson in lessons
        if lesson.number in CHOICES
    }


def draw(lesson: Lesson, choice: Choice) -> str:
    """Run a lesson's cells and return the picture of the last one as HTML."""
    with open_shell() as (shell, published):
        sources = [*select_cells(lesson, choice.phrases), choice.code]
        for source in filter(None, sources):
            published.outputs.clear()
            run = shell.run_cell(source, silent=False)
            if run.error_in_exec or run.error_before_exec:
                raise run.error_in_exec or run.error_before_exec
            outputs = [bundle["data"] for bundle in published.outputs]
            if run.result is not None:
                outputs.append(shell.display_formatter.format(run.result)[0])
    pictures = [p for p in map(find_picture, outputs) if p]
    if not pictures:
        raise ValueError(f"{lesson.path.name}: no picture by {choice.phrases[-1]}")
    return label(max(pictures, key=len), choice.words, f"p{lesson.number}-")


def select_cells(lesson: Lesson, phrases: tuple[str, ...]) -> list[str]:
    """Return the first cell of code with each phrase, and the cell of imports."""
    cells = [c.source for c in lesson.source.cells if c.cell_type == "code"]
    numbers = set()
    for phrase in (IMPORTS, *phrases):
        found = [number for number, text in enumerate(cells) if phrase in f"{text}\n"]
        if not found:
            raise ValueError(f"{lesson.path.name} has no cell with {phrase}")
        numbers.add(found[0])
    return [cells[number] for number in sorted(numbers)]


@contextlib.contextmanager
def open_shell() -> Iterator[tuple[InteractiveShell, CapturingDisplayPublisher]]:
    """Open IPython in this process, with the outputs of its cells in a list."""
    config = Config({"HistoryManager": {"enabled": False}})
    shell = InteractiveShell.instance(config=config)
    published = CapturingDisplayPublisher()
    shell.display_pub = published
    weft.load_ipython_extension(shell)
    stills = shell.display_formatter.formatters["image/svg+xml"]
    for kind in (Drawing, Picture, Replayed):
        stills.for_type(kind, lambda picture: picture.svg())
    try:
        # A lesson may change to a temporary folder, which it removes.
        with contextlib.redirect_stdout(io.StringIO()), contextlib.chdir("."):
            yield shell, published
    finally:
        atexit.unregister(shell.atexit_operations)
        InteractiveShell.clear_instance()


def find_picture(data: Mapping[str, Any]) -> str:
    """Return the picture of an output as SVG, or as an image with its bytes; or ""."""
    drawn = DRAWN.findall(data.get("image/svg+xml", ""))
    drawn = drawn or find_drawings(data.get("text/html", ""))
    if drawn:
        return max(drawn, key=len)
    if "border-left" in data.get("text/html", ""):  # the output is a report
        return f"<div>{data['text/html']}</div>"
    if "image/png" in data:
        text = data["image/png"]
        text = base64.b64encode(text).decode() if isinstance(text, bytes) else text
        return f'<img src="data:image/png;base64,{text.strip()}">'
    return ""


def find_drawings(text: str) -> list[str]:
    """Return the SVGs of an output's HTML, in the page's own colours.

    A player's still is an image with a background; its script contains an icon.
    """
    stills = (base64.b64decode(data).decode() for data in STILL.findall(text))
    grounds = (re.sub(r"<style>.*?</style>", "", still, count=1) for still in stills)
    plain = re.sub(r"<script\b.*?</script>", "", text, flags=re.S)
    return [*grounds, *DRAWN.findall(plain)]


def label(picture: str, words: str, prefix: str) -> str:
    """Give a picture its alternative text, and names that no other picture has."""
    if picture.startswith("<img"):
        return picture.replace("<img", f'<img alt="{words}"', 1)
    if picture.startswith("<div"):
        # The picture may be in a link, which must not contain other links or buttons.
        picture = re.sub(r"<a\b.*?</a>", "", picture)
        return f'<div role="img" aria-label="{words}"><div inert>{picture}</div></div>'
    for name in set(re.findall(r'\bid="([^"]+)"', picture)):
        escaped = re.escape(name)
        picture = re.sub(rf'\bid="{escaped}"', f'id="{prefix}{name}"', picture)
        picture = re.sub(rf"#{escaped}(?=[\")])", f"#{prefix}{name}", picture)
    picture = re.sub(r"<metadata>.*?</metadata>", "", picture, flags=re.S)
    root, body = picture.split(">", 1)
    picture = re.sub(r' (role|aria-label|class)="[^"]*"', "", root) + ">" + body
    wide, high = map(float, re.findall(r"[\d.]+", VIEW.search(picture)[1])[-2:])
    # A card shows only the top of a tall drawing: as a whole, its text would be too
    # small.
    shape = ' class="tall"' if high > wide > LARGE else ""
    return picture.replace("<svg", f'<svg{shape} role="img" aria-label="{words}"', 1)
