"""axe-core's rules on each kind of page: light and dark, on desktop and phone."""

import pytest
from browser import list_violations, needs_axe
from built_site import needs_builder

pytestmark = [pytest.mark.slow, needs_builder, needs_axe]
PAGES = {
    "front": "index.html",
    "lesson": "01a_kernels_in_python.html",
    "solution": "solutions/01a_kernels_in_python.html",
    "glossary": "glossary.html",
    "errors": "errors.html",
    "cheat sheet": "cheat_sheet.html",
    "results": "results.html",
    "API": "api/weft.html",
    "teaching": "teaching/index.html",
    "search": "search.html?q=warp",
}
# The other rules find the same in both schemes, which differ only in colours.
COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}
SIZES = {390: 844, 1400: 900}


@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize("kind", PAGES)
def test_a_page_keeps_the_rules(visit, kind, width):
    name, _, query = PAGES[kind].partition("?")
    size = {"width": width, "height": SIZES[width]}
    # Without motion, no colour is in transition.
    look = {"viewport": size, "color_scheme": "light", "reduced_motion": "reduce"}
    page = visit(name, f"?{query}", **look)
    if kind == "search":
        page.wait_for_selector("#search-results li a")
    assert list_violations(page) == []
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("document.documentElement.dataset.theme === 'dark'")
    assert list_violations(page, **COLOURS) == []
