"""The page of results has the blocks of docs/results.md, and only working links."""

import pytest

pytest.importorskip("docs_pages", reason="the skeleton of the site is missing")

from pages import results


def test_the_page_of_results_is_written_from_the_committed_rows(tmp_path):
    results.write(tmp_path)
    text = (tmp_path / "results.md").read_text()
    assert text.startswith("# Results") and "](../" not in text
