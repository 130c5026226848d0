"""The front page: its kernel, the recorded fault, the race and the lessons."""

import html
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from all_lessons import LESSONS
from browser import open_page
from pages import front
from parts import links, pictures, silk

from weft.base.paths import SITE
from weft.benchmarks import sentences, write_duration
from weft.see.pictures import svg

# The script computes in float64. Each of the 14 sines stretches a difference at most by
# 1 + 1.5 * a. Float32 rounds each of them by a few parts of 2^-24.
STRETCH = (1 + 1.5 * 0.7) ** 14
LEVELS = 1 + 255 / 2 * STRETCH * 8 * 2**-24  # the 1 is for the last rounding


def strip_tags(text):
    return html.unescape(re.sub(r"<[^>]*>", "", text))


def test_the_kernel_has_eight_lines_and_three_places_to_click():
    code = front.mark_code()
    assert len(silk.KERNEL.splitlines()) == 8
    assert strip_tags(code) == "%%cuda\n" + silk.write_cell()
    changes = re.findall(r'<button [^>]*data-change="(\w+)"', code)
    assert sorted(changes) == ["colour", "constant", "guard"]


def test_without_the_guard_the_lab_reports_a_thread_below_the_picture():
    fault = silk.record_faults()[0][0]
    row = fault.block[1] * silk.BLOCK + fault.thread[1]
    assert row == silk.HEIGHT
    assert "bounds" in fault.page and f"image[{silk.WIDTH * row}]" in fault.page


def test_each_choice_has_a_report_of_its_own_line():
    faults = silk.record_faults()
    assert len(faults) == len(silk.CONSTANTS)
    for row in faults:
        for (green, blue), fault in zip(silk.COLOURS, row, strict=True):
            assert f"shade(x + {green}), shade(x + {blue})" in strip_tags(fault.page)


def test_the_report_links_to_the_page_beside_it():
    script = front.write_script()
    assert SITE not in script and "errors.html#error-bounds" in script


def test_the_script_ends_where_it_should():
    assert front.write_script().count("</script") == 1


def test_the_race_shows_the_fastest_committed_rows():
    results = sentences.load_newest("race", "cuda")
    steps = sentences.select(
        results["rows"], measure="step", batch=64, precision="fp32"
    )
    text = strip_tags(front.write_race())
    assert results["machine"]["device"] in text
    for impl in ("weft", "torch"):
        row = min(sentences.select(steps, impl=impl), key=lambda row: row["us"])
        assert write_duration(row["us"]) in text


def test_there_are_three_ways_in():
    text = front.write_ways(LESSONS)
    assert text.count('class="way"') == 3
    assert LESSONS[0].path.name in text and "make lab" in text


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.number)
def test_the_cells_of_a_lessons_picture_exist(lesson):
    if lesson.number == "00":
        return  # the page shows the kernel's still picture
    choice = pictures.CHOICES[lesson.number]
    assert pictures.select_cells(lesson, choice.phrases)
    assert choice.words


def test_a_picture_has_a_text_and_names_of_its_own():
    drawn = '<svg viewBox="0 0 4 2"><g id="a"/><use href="#a"/></svg>'
    labelled = pictures.label(drawn, "two dots", "p1-")
    assert 'aria-label="two dots"' in labelled
    assert 'id="p1-a"' in labelled and 'href="#p1-a"' in labelled


def test_the_picture_of_a_player_is_its_still_and_no_icon():
    text = '<svg role="img" aria-label="a" viewBox="0 0 9 9"><path d="M0 1"/></svg>'
    output = {"text/html": svg.write_html(text, "a line")}
    labelled = pictures.label(pictures.find_picture(output), "one line", "p1-")
    assert dict(ElementTree.fromstring(labelled).attrib) == {
        **{"role": "img", "aria-label": "one line", "viewBox": "0 0 9 9"}
    }
    assert "M0 1" in labelled and "<style>" not in labelled


def test_a_report_in_a_card_has_nothing_to_click():
    report = {"text/html": '<p style="border-left:1px"><summary>a</summary></p>'}
    assert '"two words"><div inert>' in pictures.label(
        pictures.find_picture(report), "two words", "p1-"
    )


def test_a_card_has_title_question_and_minutes():
    lesson = LESSONS[1]
    card = strip_tags(front._write_card(lesson, ""))
    minutes = f"{lesson.minutes['core']:.0f} minutes"
    for part in (lesson.number, lesson.title, lesson.question, minutes):
        assert part in card


def test_an_address_becomes_local_only_on_this_site():
    link = f'<a href="{SITE}/errors.html#error-race" target="_blank">explain</a>'
    assert links.make_local(link) == '<a href="errors.html#error-race">explain</a>'
    other = '<a href="https://example.org/" target="_blank">there</a>'
    assert links.make_local(other) == other


@pytest.mark.slow
def test_every_lesson_has_a_picture(tmp_path):
    drawn = pictures.draw_pictures(LESSONS)
    assert {*drawn, "00"} == {lesson.number for lesson in LESSONS}
    for number, picture in drawn.items():
        assert re.search(r'(aria-label|alt)="\w', picture), number
        assert "<script" not in picture
        if picture.startswith("<svg"):
            assert len(list(ElementTree.fromstring(picture).iter())) > 5, number


@pytest.mark.slow
def test_the_script_paints_the_kernels_picture():
    green, blue = (float(c.rstrip("f")) for c in silk.COLOURS[0])
    a = float(silk.CONSTANTS[0].rstrip("f"))
    choice = {"width": silk.WIDTH, "height": silk.HEIGHT, "step": 1, "t": silk.MOMENT}
    choice |= {"a": a, "green": green, "blue": blue}
    script = f"<script>{(front.THEME / 'front.js').read_text()}</script>"
    with open_page(script) as page:
        painted = page.evaluate("(c) => [...weftSilk.frame(c).bytes]", choice)
    painted = np.reshape(painted, (silk.HEIGHT, silk.WIDTH, 4))
    difference = np.abs(painted - silk.paint_frame(silk.MOMENT).astype(int))
    assert difference.max() <= LEVELS


@pytest.mark.slow
def test_a_click_changes_the_kernel_and_shows_the_fault():
    page_of_kernel = f"{front.write_hero()}{front.write_script()}"
    style = f"<style>{(front.THEME / 'front.css').read_text()}</style>"
    with open_page(style + page_of_kernel) as page:
        errors = []
        page.on("pageerror", lambda error: errors.append(error))
        page.click(".choices [data-change=constant]")
        assert page.text_content(".spot.constant") == f"a = {silk.CONSTANTS[1]}"
        assert page.is_hidden(".report")
        page.click(".spot.guard")
        assert "has 64000 elements" in page.text_content(".report")
        page.click(".choices [data-change=guard]")
        assert page.is_hidden(".report") and not errors


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1024, 1400])
def test_the_page_fits_its_width_and_fingers(width):
    page_of_kernel = f"{front.write_hero()}{front.write_race()}{front.write_script()}"
    style = f"<style>{(front.THEME / 'front.css').read_text()}</style>"
    size = {"width": width, "height": 900}
    with open_page(style + page_of_kernel, viewport=size) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for text in page.query_selector_all(".race .bar"):
            assert text.evaluate("e => e.scrollWidth <= e.clientWidth")
        for button in page.query_selector_all(".choices button, .play"):
            assert button.bounding_box()["height"] >= 44
