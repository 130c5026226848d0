"""Pages of the site, made from a lesson's notebook and its outputs."""

import re

import docs_pages
import lesson_pages
import lessons
import make_site
import nbformat
import outputs
import pytest
from all_lessons import LESSONS

from weft.base.paths import ROOT

FOLDED = """\
<details><summary>Hint</summary>

Two steps.
</details>
<details><summary>Answer</summary>

```c
f();
```
<details><summary>In CUDA C</summary>

g();
</details>
</details>"""


def code(cell_id, source, *texts):
    cell = nbformat.v4.new_code_cell(source, id=cell_id)
    cell.outputs = [nbformat.v4.new_output("stream", text=text) for text in texts]
    return cell


def test_every_lesson_has_minutes_and_a_start():
    for lesson in LESSONS:
        assert re.match(r"\d+", lesson_pages.describe_minutes(lesson))
        assert lesson_pages.describe_prerequisites(lesson, LESSONS)


def test_a_lesson_needs_only_earlier_ones():
    for at, lesson in enumerate(LESSONS):
        needed = lesson_pages.list_prerequisites(lesson, LESSONS)
        assert all(LESSONS.index(one) < at for one in needed), lesson.number


def test_the_text_of_a_lesson_names_what_it_builds_on():
    by_number = {lesson.number: lesson for lesson in LESSONS}
    needed = lesson_pages.list_prerequisites(by_number["08c"], LESSONS)
    assert [one.number for one in needed] == ["08a", "08b"]


def test_an_answer_becomes_a_link_and_hints_stay():
    text = lesson_pages.cut_answer(FOLDED, "[Answer](x.ipynb#y)")
    assert "Two steps." in text and text.endswith("[Answer](x.ipynb#y)")
    assert "f();" not in text and "g();" not in text
    assert text.count("<details>") == text.count("</details>") == 1


def test_stubs_and_their_checks_have_no_outputs():
    stub = [code("a", "x = 1", "1"), code("b", "raise", "2"), code("c", "check()", "3")]
    solved = [code("a", "x = 1", "1"), code("b", "f()", "2"), code("c", "check()", "3")]
    for cell in stub:
        cell.outputs = []
    lesson_pages.place_outputs(stub, nbformat.v4.new_notebook(cells=solved))
    assert [len(cell.outputs) for cell in stub] == [1, 0, 0]


def test_links_to_cells_lead_to_places_of_pages():
    text = '[a](glossary.ipynb#cell-id=thread "One run.") [b](01b_warps.ipynb)'
    assert lesson_pages.link_terms(text) == (
        '[a](glossary.ipynb#thread "One run.") [b](01b_warps.ipynb)'
    )
    assert "(../01b_warps.ipynb)" in lesson_pages.link_terms(text, "../")
    html = '<a href="01a_x.ipynb#cell-id=puzzle-map-asked">'
    assert outputs.prepare_html(html) == '<a href="01a_x.html#puzzle-map-asked">'


def test_no_page_shows_a_badge_of_another_host():
    text = "# T\n\n> Q?\n\n[![Open in Colab](https://x/badge.svg)](https://y)"
    assert "badge" not in lesson_pages.link_files(text)


def test_a_downloaded_notebook_needs_no_file_beside_it(tmp_path):
    lesson_pages.copy_downloads(tmp_path)
    paths = sorted((tmp_path / "notebooks").iterdir())
    assert [path.stem for path in paths] == lessons.list_names()
    for path in paths:
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "markdown":
                assert not re.search(r"\]\(\w+\.ipynb", cell.source), path


def test_a_drawing_without_a_text_gets_the_words_that_it_shows():
    svg = '<svg width="700pt"><text x="1">time, ms</text><text>10</text></svg>'
    text = outputs.prepare_html(svg)
    assert 'role="img" aria-label="picture: time, ms"' in text
    assert 'class="wide"' in text
    named = '<svg width="10"><title>A grid</title></svg>'
    assert outputs.prepare_html(named) == named


def test_an_image_without_a_text_is_refused():
    output = nbformat.v4.new_output("display_data", data={"image/png": "AA"})
    cell = nbformat.v4.new_code_cell("plot()", outputs=[output])
    with pytest.raises(ValueError, match="an image without a text"):
        outputs.prepare(cell)


@pytest.mark.parametrize("path", sorted((ROOT / "docs").glob("*.md")), ids=str)
def test_pictures_of_a_reference_page_have_its_colours_and_a_text(path):
    text = docs_pages.convert_text(path.read_text(), path.parent)
    assert text.count("<svg") == len(docs_pages.PICTURE.findall(path.read_text()))
    for tag in re.findall(r"<svg[^>]*>", text):
        assert 'role="img" aria-label=' in tag and 'color="#' not in tag


@pytest.mark.parametrize("path", sorted((ROOT / "docs").glob("*.md")), ids=str)
def test_links_of_a_reference_page_resolve(path):
    text = docs_pages.convert_text(path.read_text(), path.parent)
    text = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.S)
    for link in re.findall(r"\]\(([^)#]+)", text):
        target = link.removeprefix(f"{docs_pages.GITHUB}/blob/main/")
        page = target.replace("teaching/index.md", "teaching/README.md")
        places = [ROOT / "docs" / page, ROOT / "notebooks" / target, ROOT / target]
        assert link.startswith("http") or any(place.exists() for place in places), link
        if target != link:
            assert (ROOT / target).exists(), link


def test_the_teaching_kit_is_on_the_site_and_its_links_resolve(tmp_path):
    docs_pages.write(tmp_path)
    docs_pages.write_teaching(tmp_path)
    pages = sorted((tmp_path / "teaching").rglob("*.md"))
    assert len(pages) == len(LESSONS) + 2
    for page in pages:
        text = re.sub(r"`[^`\n]*`", "", page.read_text())
        for link in re.findall(r"\]\(([^)#]+)", text):
            target = (page.parent / link).resolve()
            is_lesson = target.parent == tmp_path and (ROOT / "notebooks" / target.name)
            assert link.startswith("http") or target.exists() or is_lesson.exists(), (
                link
            )
    index = (tmp_path / "teaching" / "index.md").read_text()
    assert all(f"\nnotes/{lesson.path.stem}\n" in index for lesson in LESSONS)


def test_a_site_without_the_outputs_of_a_lesson_is_refused(
    monkeypatch, tmp_path, capsys
):
    """Its page would have code and no picture, and nothing else would report it."""
    monkeypatch.setattr(lessons, "BUILD", tmp_path)
    absent = lessons.list_names()[-1]
    for name in lessons.list_names()[:-1]:
        (tmp_path / f"{name}.ipynb").touch()
    assert lessons.list_absent() == [absent]
    with pytest.raises(SystemExit):
        make_site.main(["--cached"])
    assert f"--cached: no outputs yet of {absent}" in capsys.readouterr().err
