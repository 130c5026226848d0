"""Import the modules of docs/site, which are scripts, and build the site."""

import os
import sys

import pytest
from browser import open_watched
from filelock import FileLock

from weft.base.paths import ROOT

sys.path.insert(0, str(ROOT / "docs" / "site"))


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """Build the whole site once, in a folder that all workers share."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = shared / "built_site"
    with FileLock(f"{folder}.lock"):
        if not (folder / "site").exists():
            build_site(folder)
    return folder / "site"


def build_site(folder):
    import make_site

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(make_site, "SOURCE", folder / "source")
        patch.setattr(make_site, "MADE", folder / "html" / "site")
        patch.setattr(make_site, "SITE", folder / "site")
        make_site.write_sources()
        make_site.run_sphinx()


@pytest.fixture
def visit(browser, site):  # without a browser, no site is built
    """Return a function that opens a page, and lists its requests and errors."""

    def visit(name, query="", **options):
        page = open_watched(browser, (site / name).as_uri() + query, **options)
        page.wait_for_timeout(300)
        return page

    yield visit
    for context in browser.contexts:
        context.close()
