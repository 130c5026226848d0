"""Turn the cells of a lesson into blocks, the parts from which slides are packed.

A block is a paragraph, a list, a piece of code, or an output. theme/slides.js packs
blocks into slides, since only a browser can measure them. Code is split here, at its
paragraphs, so that each piece fits a slide at 20 px.
"""

from __future__ import annotations

import ast
import html
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import lesson_pages
from latex2mathml.converter import convert
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from nbformat import NotebookNode

from weft.base.paths import SITE
from weft.base.progress import GREY, LINE
from weft.lessons.widgets import predict
from weft.report.html import colour_text

# Lines and columns of code at 20 px, on a slide of 1280 x 720 px.
LINES, COLUMNS = 19, 92
TEXT, CODE, PRINTED, NOTE = "text", "code", "printed", "note"
PICTURE, GUESS = "picture", "picture guess"  # kinds of blocks that may grow and shrink
HEADING = re.compile(r"#{2,4} ")
FOLD = re.compile(r"<details>|</details>")
SUMMARY = re.compile(r"<details><summary>(.*?)</summary>(.*)</details>", re.S)
COMMENT = re.compile(r"<!--.*?-->\n?", re.S)
LISTING = re.compile(  # matches a coloured text, its title, and a folded file
    r"\s*(?:<b>(?P<title>[^<]*)</b>)?\s*<pre [^>]*>(?P<lines>(?:(?!</pre>).)*)</pre>"
    r"\s*(?:<details>.*</details>)?\s*",
    re.S,
)
PROGRESS = re.compile(rf'<div style="(?:{LINE};)?{re.escape(GREY)}">[^<]*</div>')
SPAN = re.compile(r"<span [^>]*>|</span>|\n")
UNGUESSED = re.compile(
    rf"<div>(?:<span>)?{re.escape(predict.NO_GUESS)}(?:</span>)?</div>"
    rf"<details><summary>{re.escape(predict.FOLD)}</summary>(.*?)</details>",
    re.S,
)
PAGE = re.compile(r'href="(\w+)\.html')
# Matches the reports of %%cuda and %%writefile.
REPORT = re.compile(r".+ · .+ · compiled in [\d,.]+ \w+|(Over)?[Ww]riting \S+")
ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")  # matches a terminal's colour code
HEAVY = 4  # the penalty of a bad place to cut, as a distance in lines


@dataclass(frozen=True)
class Block:
    """A part of a slide.

    step: whether the block appears at a key press. below: whether it belongs to the
    block above, such as an output to its code. first: whether it begins a slide.
    """

    kind: str
    html: str
    step: bool = False
    below: bool = False
    first: bool = False

    def write(self) -> str:
        """Return the block as HTML."""
        if self.kind == NOTE:
            return f'<aside class="notes">{self.html}</aside>'
        marks = " fragment" * self.step
        data = ' data-below=""' * self.below + ' data-first=""' * self.first
        return f'<div class="block {self.kind}{marks}"{data}>{self.html}</div>'


# ---- text ----------------------------------------------------------------------------


def make_parser() -> MarkdownIt:
    """Return a parser of Markdown with tables, and with formulas as MathML."""

    def write_formula(content: str, options: dict[str, bool]) -> str:
        mode = "block" if options["display_mode"] else "inline"
        return convert(content, display=mode)

    parser = MarkdownIt("commonmark").enable("table")
    return parser.use(dollarmath_plugin, renderer=write_formula)


PARSER = make_parser()


def render(text: str) -> list[str]:
    """Return the HTML of each paragraph, list and table of a Markdown text."""
    tokens, parts, depth, first = PARSER.parse(text), [], 0, 0
    for at, token in enumerate(tokens):
        depth += token.nesting
        if depth == 0:
            part = tokens[first : at + 1]
            parts.append(PARSER.renderer.render(part, PARSER.options, {}))
            first = at + 1
    return parts


def link_site(text: str) -> str:
    """Redirect links to other notebooks to the pages of the site."""
    text = lesson_pages.link_terms(lesson_pages.link_files(text))
    return re.sub(r"\]\((\w+)\.ipynb", rf"]({SITE}/\1.html", text)


def split_headings(text: str) -> list[str]:
    """Return the pieces of a text; each but the first begins with a heading."""
    pieces, fenced = [""], False
    for line in text.splitlines(keepends=True):
        fenced ^= line.startswith("```")
        if HEADING.match(line) and not fenced and pieces[-1].strip():
            pieces.append("")
        pieces[-1] += line
    return pieces


def split_folds(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the pieces of a text: whether each is folded, and its Markdown."""
    depth = begin = 0
    for mark in FOLD.finditer(text):
        opens = mark[0] == "<details>"
        if depth == (0 if opens else 1):
            end = mark.start() if opens else mark.end()
            yield not opens, text[begin:end]
            begin = end
        depth += 1 if opens else -1
    yield False, text[begin:]


def make_text(text: str, step: bool = False) -> Iterator[Block]:
    """Yield the blocks of a Markdown text; folded text becomes notes."""
    for folded, piece in split_folds(COMMENT.sub("", link_site(text))):
        if folded:
            yield make_fold(piece)
        else:
            yield from (Block(TEXT, part, step) for part in render(piece))


def make_fold(text: str) -> Block:
    """Return a folded hint or answer as a note, which only the lecturer sees."""
    match = SUMMARY.fullmatch(text)
    title, inside = match.groups() if match else ("", text)
    head = f"<p><b>{title}</b></p>" if title else ""
    return make_note(inside.replace("<details>", "").replace("</details>", ""), head)


def make_note(text: str, head: str = "") -> Block:
    """Return a Markdown text as a note for the lecturer."""
    return Block(NOTE, head + "".join(render(link_site(text))))


# ---- code ----------------------------------------------------------------------------


def make_code(cell: NotebookNode, step: bool = False) -> list[Block]:
    """Return the code of a cell, in pieces that fit a slide.

    step: whether key presses walk through the code, paragraph by paragraph.
    """
    source = cell.source.strip("\n")
    if asked := list_questions(source):
        return [Block(TEXT, f'<p class="ask">{html.escape(q)}</p>') for q in asked]
    if {name for name, _ in list_calls(source)} == {"show_diff"}:
        return []  # its output has a title
    if shown := list_listings(source):
        names = ", ".join(f"<code>{html.escape(one)}</code>" for one in shown)
        return [Block(TEXT, f'<p class="file">{names}</p>')]
    language = "cuda" if source.startswith("%%") else "python"
    return list_pieces(source, colour_text(source, language), CODE, step)


def list_questions(source: str) -> list[str]:
    """Return the questions of a cell that only asks for guesses."""
    calls = list_calls(source)
    return [words[0] for name, words in calls if name == "predict" and words]


def list_listings(source: str) -> list[str]:
    """Return the files and functions that a cell lists, if it does nothing else."""
    calls = list_calls(source)
    return [": ".join(words) for name, words in calls if name == "listing"]


def list_calls(source: str) -> list[tuple[str, list[str]]]:
    """Return the functions that a cell calls, with the texts among their arguments.

    Return [] if the cell does more than call one function, once or several times.
    """
    if source.startswith(("%", "!")):
        return []
    try:
        body = ast.parse(source).body
    except SyntaxError:  # a line for the shell
        return []
    values = [getattr(one, "value", None) for one in body]
    calls = [one for one in values if isinstance(one, ast.Call)]
    names = {ast.unparse(one.func) for one in calls}
    if len(calls) < len(body) or len(names) != 1:
        return []
    return [
        (ast.unparse(one.func), [a.value for a in one.args if is_words(a)])
        for one in calls
    ]


def is_words(node: ast.expr) -> bool:
    """Return whether an expression is a string literal."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def list_pieces(text: str, coloured: str, kind: str, step: bool = False) -> list[Block]:
    """Return a text with colours, in pieces that fit a slide."""
    rows, lines, start, pieces = split_html(coloured), text.split("\n"), 0, []
    sizes = split_lines(lines)
    for number, size in enumerate(sizes, 1):
        part = rows[start : start + size]
        content = write_walk(part) if step else "\n".join(part)
        count = f' data-part="{number} of {len(sizes)}"' if len(sizes) > 1 else ""
        pieces.append(Block(kind, f"<pre{count}>{content.strip(chr(10))}</pre>"))
        start += size
    return pieces


def split_html(coloured: str) -> list[str]:
    """Return the lines of a coloured text; each colour ends with its line."""
    lines, line, last = [], "", 0
    opened: list[str] = []
    for mark in SPAN.finditer(coloured):
        line += coloured[last : mark.start()]
        last = mark.end()
        if mark[0] == "\n":
            lines.append(line + "</span>" * len(opened))
            line = "".join(opened)
            continue
        line += mark[0]
        if mark[0] == "</span>":
            opened.pop()
        else:
            opened.append(mark[0])
    return [*lines, line + coloured[last:]]


def split_lines(lines: list[str], limit: int = LINES) -> list[int]:
    """Return the numbers of lines of the pieces, of at most `limit` rows each.

    A cut is best at an empty line, then where the code is indented least.
    """
    rows = [max(1, math.ceil(len(line) / COLUMNS)) for line in lines]
    sizes: list[int] = []
    start = 0
    while sum(rows[start:]) > limit:
        left = math.ceil(sum(rows[start:]) / limit)
        ideal = sum(rows[start:]) / left
        ends = range(start + 1, len(lines))
        fitting = [end for end in ends if sum(rows[start:end]) <= limit]

        def rate(end: int, start=start, ideal=ideal, left=left) -> float:
            rest = sum(rows[end:])
            late = HEAVY * max(0, math.ceil(rest / limit) - left + 1)
            return abs(sum(rows[start:end]) - ideal) + rate_cut(lines, end) + late

        end = min(fitting or [start + 1], key=rate)
        sizes.append(end - start)
        start = end
    return [*sizes, len(lines) - start]


def rate_cut(lines: list[str], end: int) -> float:
    """Return the penalty of a cut above a line, as a distance in lines."""
    if not lines[end - 1].strip():
        return 0.0
    indent = len(lines[end]) - len(lines[end].lstrip())
    return HEAVY * (1 + indent / 4)


def write_walk(rows: list[str]) -> str:
    """Return lines of code whose paragraphs light up one after another."""
    text = "\n".join(rows)
    parts = [part for part in re.split(r"\n[ \t]*\n", text) if part.strip()]
    if len(parts) < 2:
        return text
    return "\n\n".join(f'<span class="fragment walk">{part}</span>' for part in parts)


# ---- outputs -------------------------------------------------------------------------


def make_outputs(cell: NotebookNode, step: bool = False) -> Iterator[Block]:
    """Yield the outputs that a cell shows; docs/site/outputs.py has prepared them."""
    for output in cell.get("outputs", []):
        for block in make_output(output):
            yield replace(block, step=step, below=True)


def make_output(output: NotebookNode) -> list[Block]:
    """Return an output as blocks: a picture, or a text in pieces that fit."""
    data = output.get("data", {})
    if "text/html" in data:
        content = PAGE.sub(rf'href="{SITE}/\1.html', data["text/html"])
        if PROGRESS.fullmatch(content.strip()):
            return []
        if listing := LISTING.fullmatch(content):
            return make_listing(listing["title"], listing["lines"].strip("\n"))
        content, guesses = UNGUESSED.subn(r'<div class="fragment">\1</div>', content)
        return [Block(GUESS if guesses else PICTURE, content)]
    if "image/png" in data:
        alt = html.escape(data.get("text/plain", ""))
        source = f"data:image/png;base64,{data['image/png'].strip()}"
        return [Block(PICTURE, f'<img alt="{alt}" src="{source}">')]
    text = ANSI.sub("", output.get("text") or data.get("text/plain", "")).strip("\n")
    if not text.strip() or REPORT.fullmatch(text):
        return []
    return list_pieces(text, html.escape(text), PRINTED)


def make_listing(title: str | None, coloured: str) -> list[Block]:
    """Return a listing with colours, below its title."""
    text = html.unescape(re.sub(r"<[^>]+>", "", coloured))
    head = [Block(TEXT, f'<p class="file">{title}</p>')] if title else []
    return head + list_pieces(text, coloured, CODE)
