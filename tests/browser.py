"""Chromium for tests of pages, if this machine has one.

The tests need the packages of tests/requirements.txt, and a Chromium. CHROMIUM names
its program. By default, the tests use one on the path, or playwright's.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
WIDTHS = (390, 1024, 1400)  # of a phone, a tablet and a desktop, in pixels
needs_axe = pytest.mark.skipif(
    not importlib.util.find_spec("axe_playwright_python"),
    reason="axe-playwright-python not installed",
)
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


@contextlib.contextmanager
def open_chromium() -> Iterator[Any]:
    """Start Chromium; skip the test if playwright or Chromium is missing."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright not installed")
    found = (shutil.which(name) for name in PROGRAMS)
    program = os.environ.get("CHROMIUM") or next(filter(None, found), None)
    with api.sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(
                executable_path=program, args=["--no-sandbox"]
            )
        except api.Error as error:
            pytest.skip(f"no Chromium: {str(error).splitlines()[0]}")
        yield browser
        browser.close()


@contextlib.contextmanager
def open_page(content: str, **options: Any) -> Iterator[Any]:
    """Open a page with this content in a separate Chromium."""
    with open_chromium() as browser:
        page = browser.new_page(**options)
        page.set_content(content)
        yield page


def open_watched(browser: Any, address: str, **options: Any) -> Any:
    """Open an address in a separate context.

    The page's attribute `requested` lists its requests, and `errors` the errors of its
    scripts.
    """
    page = browser.new_context(**options).new_page()
    page.requested, page.errors = [], []
    page.on("request", lambda request: page.requested.append(request.url))
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("console", lambda line: _note_error(page, line))
    page.goto(address)
    return page


def _note_error(page: Any, line: Any) -> None:
    if line.type == "error":
        page.errors.append(line.text)


def list_violations(page: Any, part: str | None = None, **options: Any) -> list[str]:
    """Return the page's violations of axe-core's rules: rule, impact, place, reason.

    part: a selector of the parts to check; None: the whole page.
    """
    from axe_playwright_python.sync_playwright import Axe

    # axe would load style sheets again, which the browser forbids for a page in a file.
    options = {"resultTypes": ["violations"], "preload": False, **options}
    found = Axe().run(page, part, options).response["violations"]
    return [
        f"{rule['id']} ({rule['impact']}): {node['target']} {node['html'][:120]} "
        f"{node['failureSummary']}"
        for rule in found
        for node in rule["nodes"]
    ]
