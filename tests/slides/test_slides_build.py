"""Whole decks in a browser: each slide fits, code is legible, nothing is loaded.

The decks contain the last outputs of the lessons; `make slides` executes them. These
tests need docs/slides/requirements.txt and tests/requirements.txt.
"""

import importlib.util

import lessons
import make_slides
import pytest
from browser import list_violations, needs_axe, open_watched

NAMES = ("02a_shared_memory", "07a_memory")
SMALLEST = 0.5  # at this zoom of a picture, text of 13 px is hardly legible
NEEDED = ("sphinx_revealjs", "latex2mathml")
missing = [name for name in NEEDED if not importlib.util.find_spec(name)]
absent = {*NAMES} & {*lessons.list_absent()}
built = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}"),
    pytest.mark.skipif(bool(absent), reason="lessons are not executed: make slides"),
]
MEASURE = """() => {
  const slide = Reveal.getCurrentSlide(), page = slide.querySelector(".page");
  const edge = page.getBoundingClientRect(), problems = [];
  for (const block of slide.querySelectorAll(".body > *")) {
    const box = block.getBoundingClientRect();
    if (box.bottom > edge.bottom || box.right > edge.right + 1 || box.top < edge.top)
      problems.push(`${block.className} ends at ${box.right} x ${box.bottom}`);
    if (block.scrollWidth > block.clientWidth + 2 || block.matches(".tall"))
      problems.push(`${block.className} scrolls`);
    if (Number(block.style.zoom || 1) < SMALLEST)
      problems.push(`${block.className} has zoom ${block.style.zoom}`);
  }
  for (const part of slide.querySelectorAll(".picture div"))
    if (part.scrollWidth > part.clientWidth + 2) problems.push("a picture is cut off");
  const code = ".code pre, .text pre, .printed pre, .weft-beside td";
  for (const pre of slide.querySelectorAll(code)) {
    const size = parseFloat(getComputedStyle(pre).fontSize);
    if (size < 20) problems.push(`code of ${size} px`);
  }
  return problems;
}""".replace("SMALLEST", str(SMALLEST))


def test_an_unknown_lesson_is_refused_with_those_that_exist():
    with pytest.raises(ValueError, match="no lesson begins with '99'; there are 00, "):
        make_slides.select_lessons(["02", "99"])


def test_a_beginning_selects_all_its_lessons():
    chosen = make_slides.select_lessons(["02"])
    assert [one.number for one in chosen] == ["02a", "02b", "02c"]
    assert len(make_slides.select_lessons([])) > 15


@pytest.fixture(scope="module")
def decks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slides")
    make_slides.write_decks(folder, make_slides.select_lessons(list(NAMES)))
    return folder


@pytest.fixture
def visit(decks, browser):
    """Return a function that opens a deck, and lists its requests and errors."""

    def visit(name, query="", **options):
        options = {"viewport": {"width": 1280, "height": 720}, **options}
        address = (decks / f"{name}.html").as_uri() + query
        page = open_watched(browser, address, **options)
        page.wait_for_selector("html[data-ready]", state="attached", timeout=60_000)
        return page

    yield visit
    for context in browser.contexts:
        context.close()


def list_slides(page):
    """Return the place of each slide: its column, and its row in the column."""
    return page.evaluate(
        "[...document.querySelectorAll('section > .page')].map(page => "
        "Reveal.getIndices(page.parentElement)).map(i => [i.h, i.v ?? 0])"
    )


@pytest.mark.parametrize("name", NAMES)
class TestDeck:
    pytestmark = built

    def test_each_slide_fits_and_loads_nothing(self, visit, name):
        page = visit(name)
        slides = list_slides(page)
        assert len(slides) > 20
        problems = {}
        for h, v in slides:
            page.evaluate(f"Reveal.slide({h}, {v}, 99)")
            if found := page.evaluate(MEASURE):
                problems[h, v] = found
        assert not problems
        outside = [u for u in page.requested if not u.startswith(("file:", "data:"))]
        assert not outside and not page.errors

    def test_space_visits_every_slide_of_the_core_in_order(self, visit, name):
        page = visit(name)
        core = page.locator("section[data-kind=core] > .page").count()
        seen = []
        for _ in range(400):
            seen.append(page.evaluate("Reveal.getSlidePastCount()"))
            if seen[-1] >= core - 1:
                break
            page.keyboard.press("Space")
        assert sorted({*seen}) == list(range(core)) and seen == sorted(seen)

    def test_the_key_d_changes_the_colours(self, visit, name):
        page = visit(name, color_scheme="dark")
        ground = "getComputedStyle(document.querySelector('.reveal')).backgroundColor"
        dark = page.evaluate(ground)
        page.keyboard.press("d")
        assert page.evaluate(ground) != dark

    def test_a_link_of_the_appendix_leads_to_its_section(self, visit, name):
        page = visit(name)
        page.evaluate(
            "(() => { const i = Reveal.getIndices(document.querySelector('.divider'));"
            "Reveal.slide(i.h, i.v); })()"
        )
        link = page.locator(".divider.present a").first
        target = link.get_attribute("href").removeprefix("#/")
        link.click()
        page.wait_for_timeout(200)
        assert page.evaluate("Reveal.getCurrentSlide().id") == target

    def test_every_slide_is_a_page_for_print(self, visit, name):
        page = visit(name, "?print-pdf")
        page.wait_for_selector(".pdf-page")
        count = page.locator("section > .page").count()
        assert page.locator(".pdf-page").count() == count


class TestRules:
    pytestmark = built

    @needs_axe
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_slides_keep_axe_s_rules(self, visit, scheme):
        """Check every sixth slide, since each takes a good part of a second."""
        page = visit(NAMES[0], color_scheme=scheme, reduced_motion="reduce")
        problems = {}
        for h, v in list_slides(page)[::6]:
            page.evaluate(f"Reveal.slide({h}, {v}, 99)")
            if found := list_violations(page):
                problems[h, v] = found
        assert not problems


class TestPlayer:
    pytestmark = built

    def test_a_player_answers_its_buttons(self, visit):
        page = visit("02a_shared_memory")
        page.evaluate(
            "(() => { const host = [...document.querySelectorAll('[data-weft]')]"
            ".find(h => h.shadowRoot?.querySelector('input'));"
            "host.id = 'player'; const slide = host.closest('section');"
            "const i = Reveal.getIndices(slide); Reveal.slide(i.h, i.v, 99); })()"
        )
        host = page.locator("#player")
        shown = "host => host.shadowRoot.querySelector('g.now').innerHTML"
        before = host.evaluate(shown)
        host.locator("button[aria-label$=forward]").first.click()
        assert host.evaluate(shown) != before
        at = page.evaluate("Reveal.getSlidePastCount()")
        host.locator("input").first.focus()
        page.keyboard.press("ArrowRight")  # the key moves the slider, not the deck
        assert page.evaluate("Reveal.getSlidePastCount()") == at

    def test_steps_light_up_one_paragraph_of_code_at_a_time(self, visit):
        page = visit("02a_shared_memory")
        page.evaluate(
            "(() => { const part = document.querySelector('.walk');"
            "const i = Reveal.getIndices(part.closest('section'));"
            "Reveal.slide(i.h, i.v, -1); })()"
        )
        shown = "all => all.map(part => getComputedStyle(part).opacity > 0.9)"
        parts = page.locator("section.present .walk")
        assert parts.evaluate_all(shown) == [True, True]
        for expected in ([True, False], [False, True]):
            page.keyboard.press("Space")
            page.wait_for_timeout(300)
            assert parts.evaluate_all(shown) == expected

    def test_the_speakers_view_has_the_notes_of_the_slide(self, visit):
        page = visit("02a_shared_memory")
        page.evaluate(
            "(() => { const i = Reveal.getIndices([...document.querySelectorAll("
            "'section > aside.notes')].find(a => a.textContent.includes('Answer'))"
            ".parentElement); Reveal.slide(i.h, i.v); })()"
        )
        assert not page.locator("section.present > aside.notes").first.is_visible()
        with page.expect_popup() as opened:
            page.keyboard.press("s")
        opened.value.wait_for_function(
            "document.querySelector('.speaker-controls-notes .value')"
            "?.textContent.includes('Answer')"
        )
