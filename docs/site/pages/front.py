"""Write the front page: a kernel to change, the race, three ways in, the lessons.

The page's own script animates the picture next to the kernel, so a visitor needs
neither Python nor a network. The build makes the lab's reports without the guard, the
numbers of the race and the lessons' pictures.
"""

from __future__ import annotations

import base64
import html
import json
import re
from pathlib import Path
from typing import Any

from parts import links, pictures, silk

from weft.base.paths import COLAB, GITHUB
from weft.benchmarks import sentences, write_duration
from weft.lessons.course import WAYS_IN
from weft.puzzles.notebooks import CORE, Lesson, list_lessons
from weft.report.html import colour_text

THEME = Path(__file__).resolve().parents[1] / "theme"
OPTIONS = "---\nhtml_theme.sidebar_secondary.remove: true\n---"
INSTALL = f"git clone {GITHUB}\ncd {GITHUB.rsplit('/', 1)[1]}\nmake lab"


def write(folder: Path) -> None:
    """Write index.md, and the still picture of the kernel."""
    lessons = list_lessons()
    blocks = [
        OPTIONS,
        links.write_raw(f"<style>\n{(THEME / 'front.css').read_text()}</style>"),
        "# Weft",
        links.write_raw(write_hero()),
        "## What it is",
        WHAT,
        "## The race",
        links.write_raw(write_race()),
        RACE,
        "## Three ways in",
        links.write_raw(write_ways(lessons)),
        "## The lessons",
        links.write_raw(write_starts(lessons)),
        links.write_raw(write_cards(lessons)),
        links.write_raw(write_script()),
    ]
    folder.joinpath("index.md").write_text("\n\n".join(blocks) + "\n")


WHAT = """\
Weft is a GPU kernel lab in Jupyter notebooks. You follow one kernel from a plain Python
function, through Numba, to CUDA C. At the end, your kernels train a neural network on
handwritten digits, in a race against PyTorch.

You need no GPU. Weft compiles the same CUDA C for your processor and checks every
memory access there. A fault becomes one sentence with the line, the array, the thread
and the block, and [each kind of fault has an explanation](errors.md). Below the
sentence, you see what each line costs, counted as Nsight Compute counts. The
[cheat sheet](cheat_sheet.md) has the lab's calls on one page."""

RACE = """\
Each kernel is checked before it is timed. [All results](results.md) have devices, dates
and spreads."""


# ---- the kernel ----------------------------------------------------------------------


def write_hero() -> str:
    """Return the kernel, its picture, the choices and a place for the report."""
    poster = base64.b64encode(silk.draw_poster()).decode()
    return f"""\
<div class="weft"><p class="claim">Write a GPU kernel, and see at once what each of its
threads does. Change a marked part of this one.</p>
<div class="hero">
<div class="code">
<pre tabindex="0" aria-label="the kernel in CUDA C">{mark_code()}</pre></div>
<div class="picture"><div class="frame">
<img alt="coloured silk, painted by one thread for each pixel"
 width="{silk.WIDTH}" height="{silk.HEIGHT}" src="data:image/jpeg;base64,{poster}">
<canvas role="img" aria-label="the same silk, in motion"></canvas>
<div class="outside" title="threads outside the picture"></div>
<div class="box" hidden></div></div>
<div class="below"><button type="button" class="play">Pause</button>
<span class="numbers" role="status"></span></div></div>
<div class="choices"><div>
<button type="button" data-change="constant">Constant: <b></b></button>
<button type="button" data-change="colour">Colour: <b></b></button>
<button type="button" data-change="guard">Remove the guard</button>
</div></div>
<div class="report" role="status" hidden><div class="page"></div>
<p>The lab recorded this report when the page was made: it ran the kernel above, without
its guard, on a processor. Without a check, such a store destroys the memory of others.
</p></div>
</div></div>"""


def mark_code() -> str:
    """Return the cell in colour, with a button for each of the three places."""
    green, blue = silk.COLOURS[0]
    spots = {
        "guard": silk.GUARD.strip(),
        "constant": f"a = {silk.CONSTANTS[0]}",
        "colour": f"shade(x), shade(x + {green}), shade(x + {blue})",
    }
    source = "%%cuda\n" + silk.write_cell()
    parts = re.split("|".join(map(re.escape, spots.values())), source)
    marked = []
    for (name, text), before in zip(spots.items(), parts):
        attributes = f'type="button" class="spot {name}" data-change="{name}"'
        button = f"<button {attributes}>{html.escape(text)}</button>"
        marked += [colour_text(before), button]
    return "".join([*marked, colour_text(parts[-1])])


def write_script() -> str:
    """Return the script, with the recorded reports."""
    facts = {
        "width": silk.WIDTH,
        "height": silk.HEIGHT,
        "block": silk.BLOCK,
        "moment": silk.MOMENT,
        "constants": silk.CONSTANTS,
        "colours": silk.COLOURS,
        "faults": [[_export(fault) for fault in row] for row in silk.record_faults()],
    }
    data = json.dumps(facts).replace("</", "<\\/")
    start = f'startSilk(document.querySelector(".weft .hero"), {data});'
    return f"<script>\n{(THEME / 'front.js').read_text()}\n{start}\n</script>"


def _export(fault: silk.Fault) -> dict[str, Any]:
    page = links.make_local(fault.page)
    return {"page": page, "block": fault.block, "thread": fault.thread}


# ---- the race ------------------------------------------------------------------------


def write_race() -> str:
    """Return bars of a training step's time, ours and PyTorch's, in each precision."""
    results = sentences.load_newest("race", "cuda")
    batch = sentences.BATCH
    steps = sentences.select(results["rows"], measure="step", batch=batch)
    pairs = {
        kind: [
            sentences.fastest_row(steps, impl, precision=kind)["us"]
            for impl in ("weft", "torch")
        ]
        for kind in dict.fromkeys(row["precision"] for row in steps)
    }
    longest = max(map(max, pairs.values()))
    lines = [_write_pair(kind, *times, longest) for kind, times in pairs.items()]
    device = html.escape(results["machine"]["device"])
    return (
        f'<div class="weft"><p>The time of one training step of {batch} images on an '
        f"{device}, by our kernels and by the fastest PyTorch of the same run, and how "
        f'many times as long PyTorch takes.</p><div class="race">{"".join(lines)}</div>'
        "</div>"
    )


def _write_pair(kind: str, ours: float, theirs: float, longest: float) -> str:
    """Return two bars. longest: the time whose bar takes the largest width."""

    def bar(name: str, us: float, text: str) -> str:
        look = f"width:{55 * us / longest:.1f}%"  # the text takes the rest of the width
        return f'<span class="bar {name}"><i style="{look}"></i>{text}</span>'

    factor = f"<small>{theirs / ours:.2f} times</small>"
    return (
        f'<span class="name">{kind} {factor}</span>'
        + bar("ours", ours, f"{write_duration(ours)}, ours")
        + bar("theirs", theirs, f"{write_duration(theirs)}, PyTorch")
    )


# ---- ways in -------------------------------------------------------------------------


def write_ways(lessons: list[Lesson]) -> str:
    """Return the three ways to begin: read, Colab, and the reader's own machine."""
    first = lessons[0]
    ways = (
        (
            "Read",
            "Every lesson is a page of this site, with its pictures.",
            _go(f"{first.path.stem}.html", f"Open {first.title}"),
        ),
        (
            "Colab",
            "Change and run the lessons in a browser, with a Google account.",
            _go(
                f"{COLAB}/{first.path.name}",
                "Open the first notebook",
            ),
        ),
        (
            "Your own machine",
            "Linux, macOS or WSL2, with <code>python3</code>, <code>g++</code> and "
            "<code>make</code>:",
            f"<pre>{html.escape(INSTALL)}</pre>",
        ),
    )
    cards = [
        f'<div class="way"><h3>{title}</h3><div>{text}</div>{more}</div>'
        for title, text, more in ways
    ]
    return f'<div class="weft"><div class="ways">{"".join(cards)}</div></div>'


def _go(address: str, text: str) -> str:
    return f'<a class="go" href="{address}">{html.escape(text)}</a>'


def write_starts(lessons: list[Lesson]) -> str:
    """Return the first lessons for each kind of reader, as links."""
    files = {lesson.number: f"{lesson.path.stem}.html" for lesson in lessons}
    starts = [
        f"<b>{html.escape(known)}</b> "
        + " ".join(f'<a href="{files[number]}">{number}</a>' for number in numbers)
        for known, numbers in WAYS_IN
    ]
    return (
        f'<div class="weft starts">Begin with what you know: {" ".join(starts)}</div>'
    )


# ---- the lessons ---------------------------------------------------------------------


def write_cards(lessons: list[Lesson]) -> str:
    """Return a card for each lesson: picture, title, question and minutes."""
    drawn = pictures.draw_pictures(lessons)
    poster = base64.b64encode(silk.draw_poster()).decode()
    drawn[lessons[0].number] = (
        f'<img alt="coloured silk" src="data:image/jpeg;base64,{poster}">'
    )
    cards = [_write_card(lesson, drawn.get(lesson.number, "")) for lesson in lessons]
    return f'<div class="weft"><div class="lessons">{"".join(cards)}</div></div>'


def _write_card(lesson: Lesson, picture: str) -> str:
    thumb = f'<div class="thumb">{picture}</div>' if picture else ""
    return (
        f'<a class="lesson" href="{lesson.path.stem}.html">{thumb}'
        f'<div class="text"><div class="title">{lesson.number} '
        f"{html.escape(lesson.title)}</div><div>{html.escape(lesson.question)}</div>"
        f'<div class="minutes">{lesson.minutes[CORE]:.0f} minutes</div></div></a>'
    )
