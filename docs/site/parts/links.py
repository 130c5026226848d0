"""Write links and raw HTML for the pages of the site.

The site works from any host and from a folder, so its own pages link to one another
without the host. Only reports in notebooks use the address weft.base.paths.SITE.
"""

from __future__ import annotations

import re

from weft.base.paths import SITE


def make_local(page: str) -> str:
    """Return HTML in which links to the site's address are relative."""
    return re.sub(
        rf'href="{re.escape(SITE)}/([^"]*)" target="_blank"', r'href="\1"', page
    )


def write_raw(text: str) -> str:
    """Return HTML as a block of Markdown; Sphinx puts it into the page unchanged."""
    return f"````{{raw}} html\n{text}\n````"
