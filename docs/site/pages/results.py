"""Write the page of results: docs/results.md, with blocks from the committed rows."""

from __future__ import annotations

from pathlib import Path

import docs_pages

from weft.benchmarks import readme


def write(folder: Path) -> None:
    """Write results.md."""
    page = readme.RESULTS_PAGE
    text = readme.renew_blocks(page.read_text(), page)
    (folder / "results.md").write_text(docs_pages.convert_text(text, page.parent))
