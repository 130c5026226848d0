"""The built site under a finger, on a phone of 390 pixels."""

import pytest
from browser import PHONE
from built_site import needs_builder, needs_lessons

pytestmark = [pytest.mark.slow, needs_builder]
LESSON, START = "01a_kernels_in_python.html", "00_start_here.html"
LARGE = 44  # minimum size in pixels of a target for a finger
SLACK = 0.5  # tolerance in pixels, since the page may be zoomed by a fraction
PAGES = (
    *("index.html", "lessons.html", "glossary.html", "errors.html", "search.html"),
    *("cheat_sheet.html", "results.html", "api/weft.html"),
    *(LESSON, START, "15a_mnist.html"),
)
# The front page's code has three places to tap in its lines; the buttons below are the
# same. Inert elements belong to a picture.
FIND_TARGETS = """() => {
  const found = [];
  const walk = (root) => {
    for (const one of root.querySelectorAll("*")) {
      if (one.shadowRoot) walk(one.shadowRoot);
      const box = one.getBoundingClientRect();
      if (one.matches("button:not(.spot), summary, select, input, .lesson-actions a")
          && box.width && one.checkVisibility({ visibilityProperty: true })
          && !one.closest("[inert]"))
        found.push([one.ariaLabel || one.innerText || one.className,
          box.width, box.height]);
    }
  };
  walk(document);
  return found;
}"""


@pytest.fixture
def tap_on(visit):
    """Return a function that opens a page on a phone."""
    return lambda name: visit(name, **PHONE)


def swipe(page, start, end):
    """Drag a finger from one place of the window to another."""
    session = page.context.new_cdp_session(page)
    steps = [[a + (b - a) * i / 8 for a, b in zip(start, end)] for i in range(9)]
    for number, (x, y) in enumerate(steps):
        kind = "touchMove" if number else "touchStart"
        touch = {"type": kind, "touchPoints": [{"x": x, "y": y}]}
        session.send("Input.dispatchTouchEvent", touch)
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def swipe_to_end(page, slider, back=False):
    """Drag the slider's knob from its left end to its right one, or back."""
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    y = box["y"] + box["height"] / 2
    ends = [(box["x"] + 9, y), (box["x"] + box["width"] - 9, y)]
    swipe(page, *(reversed(ends) if back else ends))


@pytest.mark.parametrize("name", PAGES)
def test_each_target_is_as_large_as_a_finger(tap_on, name):
    page = tap_on(name)
    assert page.evaluate("matchMedia('(pointer: coarse)').matches")
    targets = page.evaluate(FIND_TARGETS)
    assert targets
    least = LARGE - SLACK
    assert [one for one in targets if one[1] < least or one[2] < least] == []


@needs_lessons
def test_taps_and_a_swipe_move_a_player(tap_on):
    page = tap_on(LESSON)
    player = page.locator("[data-weft]", has=page.locator("input")).first
    shown = "host => host.shadowRoot.querySelector('g.now').innerHTML"
    start = player.evaluate(shown)
    player.locator("button[aria-label$=forward]").first.tap()
    first = player.evaluate(shown)
    player.locator("button[aria-label$=back]").first.tap()
    assert player.evaluate(shown) == start != first
    slider = player.locator("input").first
    swipe_to_end(page, slider)
    assert slider.input_value() == slider.get_attribute("max") != "0"
    swipe_to_end(page, slider, back=True)
    assert slider.input_value() == "0"


@needs_lessons
def test_taps_and_a_swipe_move_a_painting(tap_on):
    page = tap_on(START)
    painting = page.locator(".weft-paint")
    painting.locator("canvas").tap(position={"x": 3, "y": 3})
    assert "col 2, row 2: blockIdx (0, 0)" in painting.inner_text()
    drawn = "root => root.querySelector('canvas').toDataURL()"
    before = painting.evaluate(drawn)
    swipe_to_end(page, painting.locator("input"))
    page.wait_for_timeout(300)
    assert float(painting.locator("input").input_value()) > 6
    assert painting.evaluate(drawn) != before


@needs_lessons
def test_a_tap_on_a_digit_shows_its_reading(tap_on):
    page = tap_on("15a_mnist.html")
    readings = page.locator(".playback", has=page.locator(".digits")).first
    told = readings.locator(".told")
    heard = []
    for button in readings.locator(".digits button").all()[:3]:
        button.tap()
        heard.append(told.inner_text())
    assert all(text.startswith("read as ") for text in heard) and len({*heard}) > 1


def test_a_tap_elsewhere_closes_the_definition_of_a_term(tap_on):
    page = tap_on(LESSON)
    page.locator("a.term").first.tap()
    card = page.locator(".definition")
    box = card.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= PHONE["viewport"]["width"]
    page.locator("h1").tap()
    assert card.is_hidden()


def test_a_heading_of_the_glossary_is_no_term(tap_on):
    page = tap_on("glossary.html")
    assert page.locator("a.headerlink").count() > 100
    assert page.locator("a.term").count() == 0
