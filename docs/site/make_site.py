"""`make site`: build the static site of the lab in site/.

It executes the lessons that have changed (lessons.py). It writes every page as MyST
Markdown or as a notebook into build/site/ (lesson_pages.py, and each module in pages/
with a function write(folder)). Then it runs Sphinx and checks the site (check_site.py).

    python docs/site/make_site.py
    python docs/site/make_site.py --cached  use the last outputs of the lessons
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

SOURCE = ROOT / "build" / "site"
SITE = ROOT / "site"
MADE = ROOT / "build" / "html" / "site"  # myst-nb writes a folder next to it
# The main menu lists these pages in this order. A page of `pages/` may be absent.
MENU = (
    *("lessons", "glossary", "cheat_sheet", "errors"),
    *("teaching/index", "results", "api/index"),
)
REFERENCE = (
    *(
        "architecture",
        "cells",
        "class",
        "commands",
        "container",
        "package",
        "lecturing",
    ),
    "python_kernels",
)


def write_sources() -> None:
    """Delete the source folder, and write all of it again."""
    import docs_pages
    import lesson_pages

    shutil.rmtree(SOURCE, ignore_errors=True)
    SOURCE.mkdir(parents=True)
    docs_pages.write(SOURCE)
    docs_pages.write_teaching(SOURCE)
    lesson_pages.write_lessons(SOURCE)
    lesson_pages.copy_downloads(SOURCE)
    for page in sorted((HERE / "pages").glob("[a-z]*.py")):
        module = importlib.import_module(f"pages.{page.stem}")
        if hasattr(module, "write"):
            module.write(SOURCE)
    write_menu()


def write_menu() -> None:
    """Append the tree of all pages to the front page; write a front page if needed."""
    index = SOURCE / "index.md"
    text = index.read_text() if index.exists() else write_front_page()
    menu = [name for name in MENU if has_page(name)]
    names = "\n".join([*menu, "reference", "solutions/index"])
    index.write_text(f"{text.rstrip()}\n\n```{{toctree}}\n:hidden:\n\n{names}\n```\n")
    others = "\n".join(name for name in REFERENCE if has_page(name))
    (SOURCE / "reference.md").write_text(
        f"# Reference\n\n```{{toctree}}\n:maxdepth: 2\n\n{others}\n```\n"
    )


def has_page(name: str) -> bool:
    """Return whether the source folder has a page."""
    return any((SOURCE / f"{name}{suffix}").exists() for suffix in (".md", ".ipynb"))


def write_front_page() -> str:
    """Return a plain front page, for a checkout without pages/front.py."""
    readme = (ROOT / "README.md").read_text()
    words = readme.partition("\n\n")[2].partition("\n\n")[0]
    return f"# Weft\n\n{words}\n\nBegin with the [lessons](lessons.md)."


def run_sphinx() -> None:
    """Build the pages; any warning is an error."""
    # Sphinx takes unchanged pages from its cache of parsed pages.
    trees = ROOT / "build" / "doctrees"
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-n", "-W", "-q"]
    command += ["--keep-going", "-c", str(HERE), "-d", str(trees)]
    paths = [str(HERE), os.environ.get("PYTHONPATH", "")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    shutil.rmtree(MADE.parent, ignore_errors=True)
    subprocess.run([*command, str(SOURCE), str(MADE)], check=True, env=env)
    cut_fonts(MADE)
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.move(MADE, SITE)
    (SITE / ".nojekyll").touch()  # GitHub Pages must serve folders that begin with "_"


def cut_fonts(made: Path) -> None:
    """Reduce the theme's icon fonts to the icons that the pages use.

    The complete fonts would be half of the data that a phone loads for a page.
    """
    from fontTools import subset

    sheet = made / "_static" / "styles" / "pydata-sphinx-theme.css"
    style = sheet.read_text()
    pages = "".join(path.read_text() for path in made.glob("*.html"))
    names = set(re.findall(r"\bfa-([a-z0-9-]+)", pages))
    used = set(map(read_letter, re.findall(r"--pst-icon[a-z-]*:(\S+?)[;}]", style)))
    for selectors, code in re.findall(r"([^{}]+)\{--fa:([^;}]+)", style):
        if names & set(re.findall(r"\.fa-([a-z0-9-]+)", selectors)):
            used.add(read_letter(code))
    for font in (made / "_static" / "vendor").rglob("*.woff2"):
        options = [str(font), f"--text={''.join(sorted(used))}", "--flavor=woff2"]
        subset.main([*options, f"--output-file={font}"])
    for unused in (made / "_static").rglob("*.map"):
        unused.unlink()


def read_letter(code: str) -> str:
    """Return the character of a CSS string, which may be an escape; "" for a name."""
    text = code.strip('"')
    if text.startswith("\\"):
        return chr(int(text[1:], 16))
    return text if len(text) == 1 else ""


def main(arguments: list[str]) -> int:
    """Build the site."""
    parser = argparse.ArgumentParser(prog="make site", description=main.__doc__)
    parser.add_argument("--cached", action="store_true", help="execute no lesson")
    parser.add_argument("--jobs", type=int, default=1, help="lessons at a time")
    options = parser.parse_args(arguments)
    import check_site
    import lessons

    if not options.cached:
        lessons.bring_up_to_date(lessons.list_names(), False, options.jobs)
    elif absent := lessons.list_absent():
        parser.error(f"--cached: no outputs yet of {', '.join(absent)}; omit --cached")
    write_sources()
    run_sphinx()
    problems = check_site.list_problems(SITE)
    print(*problems, sep="\n", file=sys.stderr)
    print(f"{SITE / 'index.html'}: {check_site.describe(SITE)}")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
