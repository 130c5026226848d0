"""`make slides`: build a deck of slides for each lesson in build/slides/.

It executes the lessons that have changed (docs/site/lessons.py), writes one HTML file
per lesson, and copies reveal.js next to them. A browser opens a deck from a folder,
without a network. There, theme/slides.js packs the lesson's blocks into slides.

    python docs/slides/make_slides.py            every lesson
    python docs/slides/make_slides.py 02         the lessons whose names begin with "02"
    python docs/slides/make_slides.py --cached   with the last outputs of the lessons
"""

from __future__ import annotations

import argparse
import html
import shutil
import sys
from importlib.resources import files
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "site")]

from weft.base.paths import ROOT  # noqa: E402
from weft.puzzles.notebooks import CORE, Lesson, list_lessons  # noqa: E402

SLIDES = ROOT / "build" / "slides"
THEME = HERE / "theme"
REVEAL = ("dist/reveal.js", "dist/reveal.css", "plugin/notes/notes.js", "LICENSE")


def select_lessons(beginnings: list[str]) -> list[Lesson]:
    """Return the lessons whose names begin with a text of the list; all if it is empty.

    Raises ValueError if no lesson's name begins with one of the texts.
    """
    everything = list_lessons()
    for text in beginnings:
        if not any(one.path.name.startswith(text) for one in everything):
            names = ", ".join(one.number for one in everything)
            raise ValueError(f"no lesson begins with {text!r}; there are {names}")
    wanted = tuple(beginnings) or ("",)
    return [one for one in everything if one.path.name.startswith(wanted)]


def copy_assets(folder: Path) -> None:
    """Copy reveal.js, its licence, and the lab's own style and script."""
    source = Path(str(files("sphinx_revealjs"))) / "_static" / "revealjs"
    target = folder / "reveal"
    target.mkdir(parents=True, exist_ok=True)
    for name in REVEAL:
        shutil.copy(source / name, target / Path(name).name)
    for path in THEME.iterdir():
        shutil.copy(path, target / path.name)


def write_page(title: str, body: str) -> str:
    """Return a deck's HTML file."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="reveal/reveal.css">
<link rel="stylesheet" href="reveal/slides.css">
</head>
<body>
<div class="reveal"><div class="slides">
{body}
</div></div>
<script src="reveal/reveal.js"></script>
<script src="reveal/notes.js"></script>
<script src="reveal/slides.js"></script>
</body>
</html>
"""


def write_decks(folder: Path, chosen: list[Lesson]) -> list[Path]:
    """Write the decks of lessons, and the list of all decks; return their paths."""
    import deck

    copy_assets(folder)
    paths = []
    for lesson in chosen:
        path = folder / f"{lesson.path.stem}.html"
        title = f"{lesson.number} {lesson.title}"
        path.write_text(write_page(title, deck.write_deck(lesson)), encoding="utf-8")
        paths.append(path)
    write_index(folder)
    return paths


def write_index(folder: Path) -> None:
    """Write the page that lists the decks in a folder."""
    rows = "".join(
        f'<tr><td><a href="{one.path.stem}.html">{one.number} '
        f"{html.escape(one.title)}</a></td><td>{html.escape(one.question)}</td>"
        f"<td>{one.minutes[CORE]:.0f}</td></tr>\n"
        for one in list_lessons()
        if (folder / f"{one.path.stem}.html").is_file()
    )
    (folder / "index.html").write_text(
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<title>Weft: slides</title><link rel="icon" href="data:,">'
        '<link rel="stylesheet" href="reveal/slides.css"></head>\n'
        '<body class="index"><main><h1>Slides</h1>\n<table><thead><tr><th>lesson</th>'
        "<th>the question</th><th>minutes</th></tr></thead>\n<tbody>\n"
        f"{rows}</tbody></table>\n<p>Keys: Space for the next slide, S for the "
        "speaker's view, O for the overview, D for dark or light, F for full "
        "screen, ? for all other keys.</p></main></body></html>\n",
        encoding="utf-8",
    )


def main(arguments: list[str]) -> None:
    """Build decks of slides."""
    parser = argparse.ArgumentParser(prog="make slides", description=main.__doc__)
    parser.add_argument("lessons", nargs="*", metavar="LESSON", help="e.g. 02 or 07a")
    parser.add_argument("--cached", action="store_true", help="execute no lesson")
    parser.add_argument("--jobs", type=int, default=1, help="lessons at a time")
    options = parser.parse_args(arguments)
    try:
        chosen = select_lessons(options.lessons)
    except ValueError as error:
        parser.error(str(error))
    import lessons

    names = [one.path.stem for one in chosen]
    if not options.cached:
        lessons.bring_up_to_date(names, False, options.jobs)
    elif absent := sorted({*names} & {*lessons.list_absent()}):
        parser.error(f"--cached: no outputs yet of {', '.join(absent)}; omit --cached")
    paths = write_decks(SLIDES, chosen)
    print(f"{SLIDES / 'index.html'}: {len(paths)} decks")


if __name__ == "__main__":
    main(sys.argv[1:])
