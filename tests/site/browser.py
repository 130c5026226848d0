"""A browser for tests of pages, if this machine has one."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from typing import Any

import pytest


@contextlib.contextmanager
def open_page(content: str, **options: Any) -> Iterator[Any]:
    """Open a page with this content in Chromium; skip the test if there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright not installed")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if not program:
        pytest.skip("no Chromium here")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox"]
        )
        page = browser.new_page(**options)
        page.set_content(content)
        yield page
        browser.close()
