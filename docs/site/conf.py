"""Configure Sphinx. make_site.py writes the source folder and runs Sphinx on it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from pygments.lexer import Lexer
from pygments.lexers import BashLexer, CudaLexer, PythonLexer, get_lexer_for_filename
from pygments.token import Comment, Token
from pygments.util import ClassNotFound

from weft.base.paths import GITHUB
from weft.lessons.course import place_of

HERE = Path(__file__).parent

project, author = "Weft", "the authors of Weft"
html_title = "Weft"
extensions = ["myst_nb"]
exclude_patterns = ["notebooks/**"]  # readers download these; they are not pages
templates_path = [str(HERE / "theme" / "templates")]

# ---- text: MyST, with the anchors of the notebooks ---------------------------------

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4
myst_links_external_new_tab = False


def slug(title: str) -> str:
    """Return the anchor of a heading, as links to the glossary spell it."""
    return place_of(title).lower()


myst_heading_slug_func = "conf.slug"

# ---- lessons: lessons.py has executed them -----------------------------------------

nb_execution_mode = "off"
nb_output_stderr = "remove"
nb_merge_streams = True
nb_code_prompt_show, nb_code_prompt_hide = "Show the code", "Hide the code"
# Widgets would need a kernel and a network.
nb_ipywidgets_js: dict[str, dict[str, str]] = {}
nb_mime_priority_overrides = [
    ("html", "application/vnd.jupyter.widget-view+json", None),
    ("html", "text/html", 0),
]

# ---- look --------------------------------------------------------------------------

MARK = str(HERE / "theme" / "static" / "weft.svg")
LOGO = dict.fromkeys(("image_light", "image_dark"), MARK)
html_favicon = MARK
html_theme = "pydata_sphinx_theme"
html_static_path = [str(HERE / "theme" / "static")]
html_css_files = ["weft.css"]
html_js_files = [("weft.js", {"defer": "defer"})]
html_copy_source = html_show_sourcelink = html_show_sphinx = False
html_context = {"default_mode": "auto"}
html_math_renderer = "mathml"
# A page without subpages needs no list of them.
html_sidebars = {
    **{"index": [], "lessons": [], "glossary": [], "cheat_sheet": [], "errors": []},
    "**": ["sidebar-nav-bs"],
}
html_theme_options = {
    "logo": {
        "text": "Weft",
        "image_light": MARK,
        "image_dark": MARK,
        "alt_text": "a weave",
    },
    "icon_links": [{"name": "GitHub", "url": GITHUB, "icon": "fa-brands fa-github"}],
    "navbar_align": "left",
    "header_links_before_dropdown": 4,
    "search_bar_text": "Search",
    "footer_start": [],
    "footer_end": [],
    "show_toc_level": 1,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


class CellLexer(Lexer):
    """A lesson's cell: Python, or C below a cell magic such as %%cuda."""

    name, aliases = "Weft", ["weft"]

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, Any, str]]:
        """Yield (place, kind, text) of each token."""
        magic, line, body = text.partition("\n")
        if not magic.startswith("%%"):
            magic, line, body, lexer = "", "", text, PythonLexer()
        else:
            lexer = _find_lexer(magic)
            yield 0, Comment.Preproc, magic + line
        for place, kind, word in lexer.get_tokens_unprocessed(body):
            # Magics and shell lines are not mistakes, so do not mark them.
            kind = Token.Operator if kind is Token.Error else kind
            yield place + len(magic + line), kind, word


def _find_lexer(magic: str) -> Lexer:
    """Return the lexer for the text below a cell magic."""
    if magic.startswith("%%writefile"):
        with contextlib.suppress(ClassNotFound):
            return get_lexer_for_filename(magic.split()[-1])
    return BashLexer() if magic.startswith(("%%sh", "%%bash")) else CudaLexer()


def visit_math(self: Any, node: nodes.math) -> None:
    """Write an inline formula as MathML."""
    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def visit_displaymath(self: Any, node: nodes.math_block) -> None:
    """Write a formula on a separate line as MathML, in a separate scroll box."""
    formula = convert(node.astext(), display="block")
    self.body.append(f'<div class="formula">{formula}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> None:
    """Register the lexer and the math renderer with Sphinx."""
    app.add_lexer("weft", CellLexer)
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displaymath, None))
