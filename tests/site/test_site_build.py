"""The built site in a browser: no network, no wide page, terms, players, colours.

The site is built from the last outputs of the lessons; `make site` executes them. These
tests need docs/site/requirements.txt, and some also tests/requirements.txt.
"""

import check_site
import pytest
from browser import PHONE, WIDTHS
from built_site import needs_builder, needs_lessons

pytestmark = [pytest.mark.slow, needs_builder]
LESSON = "01a_kernels_in_python.html"
# The theme lets an article that is too wide scroll.
WIDTH = """Math.max(...["html", ".bd-article-container"].map(
  (one) => document.querySelector(one)?.scrollWidth ?? 0))"""
INK = "getComputedStyle(document.querySelector('article p')).color"


def each_look(test):
    """Run a test in light and dark, on a phone, a tablet and a desktop."""
    schemes = pytest.mark.parametrize("scheme", ["light", "dark"])
    return schemes(pytest.mark.parametrize("width", WIDTHS)(test))


def choose_look(scheme, width):
    return {"color_scheme": scheme, "viewport": {"width": width, "height": 900}}


def assert_inside(page, part):
    """Expect that a part of the page needs no scrolling to the right."""
    box = part.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= page.viewport_size["width"]


def test_links_pictures_requests_and_sizes(site):
    assert check_site.list_problems(site) == []


def test_a_lesson_has_solutions_a_download_and_its_neighbours(site):
    text = (site / LESSON).read_text()
    for part in ("solutions/" + LESSON, "_downloads/", "colab.research.google.com"):
        assert part in text
    assert 'title="previous page"' in text and 'title="next page"' in text
    assert (site / "solutions" / LESSON).exists()


def test_no_page_needs_a_network_raises_an_error_or_is_wider_than_a_phone(site, visit):
    page = visit("index.html", **PHONE)
    for path in check_site.list_pages(site):
        page.goto(path.as_uri())
        outside = [u for u in page.requested if not u.startswith(("file:", "data:"))]
        assert not outside and not page.errors, path.name
        width = page.evaluate(WIDTH)
        assert width <= 390, f"{path.name}: {width} pixels"


def test_a_tap_on_a_term_shows_its_definition_and_the_next_opens_the_glossary(visit):
    page = visit(LESSON, **PHONE)
    term = page.locator("a.term").first
    term.tap()
    card = page.locator(".definition")
    assert card.is_visible() and len(card.inner_text()) > 40
    assert page.url.endswith(LESSON)
    card.locator("a").tap()
    page.wait_for_url("**/glossary.html#*")


def test_a_mouse_over_a_term_shows_its_definition(visit):
    page = visit(LESSON)
    page.locator("a.term").first.hover()
    assert page.locator(".definition").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator(".definition").is_visible()


def test_touch_targets_are_large_enough(visit):
    page = visit(LESSON, **PHONE)
    boxes = page.eval_on_selector_all(
        ".lesson-actions a, .bd-header button, summary, .prev-next-area a",
        "all => all.map(e => [e.innerText.trim(), e.getBoundingClientRect()])"
        ".filter(([, box]) => box.width).map(([t, box]) => [t, box.height])",
    )
    assert boxes and all(height >= 44 for _, height in boxes), boxes
    page.locator(".primary-toggle").tap()
    measure = "all => all.map(link => link.getBoundingClientRect().height)"
    heights = page.locator("dialog[open] a:visible").evaluate_all(measure)
    assert len(heights) > 10 and min(heights) >= 44


def test_the_search_finds_a_word_without_a_server(visit):
    page = visit("search.html", "?q=warp")
    page.wait_for_selector("#search-results li a")


@needs_lessons
@each_look
def test_a_player_answers_its_slider_in_the_page_s_colours(visit, scheme, width):
    page = visit(LESSON, **choose_look(scheme, width))
    host = page.locator("[data-weft]", has=page.locator("input")).first
    shown = "host => host.shadowRoot.querySelector('g.now').innerHTML"
    before = host.evaluate(shown)
    host.locator("button[aria-label$=forward]").first.click()
    assert host.evaluate(shown) != before
    colour = "host => getComputedStyle(host.shadowRoot.querySelector('svg')).color"
    assert host.evaluate(colour) == page.evaluate(INK)
    assert_inside(page, host.locator("input").first)


@needs_lessons
@each_look
def test_a_recorded_painting_moves(visit, scheme, width):
    page = visit("00_start_here.html", **choose_look(scheme, width))
    painting = page.locator(".weft-paint")
    drawn = "root => root.querySelector('canvas').toDataURL()"
    before = painting.evaluate(drawn)
    painting.locator("button", has_text="Play").click()
    page.wait_for_timeout(700)
    painting.locator("button", has_text="Pause").click()
    moved = painting.evaluate(drawn)
    assert moved != before
    page.wait_for_timeout(200)
    assert painting.evaluate(drawn) == moved
    assert "48 recorded pictures" in painting.inner_text()
    assert painting.evaluate("root => getComputedStyle(root).color") == page.evaluate(
        INK
    )
    assert_inside(page, painting)
