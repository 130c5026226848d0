"""The blocks of a deck: pieces of code, folds, outputs and tags."""

import html
import math
import re

import nbformat
import pytest
from all_lessons import LESSONS

pytest.importorskip(
    "latex2mathml", reason="not installed: docs/slides/requirements.txt"
)

import blocks
import deck

from weft.base.paths import ROOT
from weft.lessons.widgets import predict
from weft.puzzles.notebooks import CORE, DEEPER, PRACTICE

KERNEL = (ROOT / "kernels" / "matmul" / "06_vectorised.cu").read_text()


def code(source, *tags, outputs=(), id="cell"):
    cell = nbformat.v4.new_code_cell(source, id=id, outputs=list(outputs))
    cell.metadata["tags"] = list(tags)
    return cell


def text(source, *tags, id="cell"):
    cell = nbformat.v4.new_markdown_cell(source, id=id)
    cell.metadata["tags"] = list(tags)
    return cell


def printed(words):
    return nbformat.v4.new_output("stream", text=words)


def read(block):
    """Return the text of a block as a browser shows it."""
    return html.unescape(re.sub(r"<[^>]+>", "", block.html))


def make(cell):
    return deck.make_blocks(cell, cell.source)


# ---- code ----------------------------------------------------------------------------


def test_the_pieces_of_a_long_kernel_are_the_kernel():
    cell = code("%%cuda\n" + KERNEL)
    pieces = blocks.make_code(cell)
    assert len(pieces) > 2
    lines = [line for piece in pieces for line in read(piece).split("\n")]
    full = [line for line in cell.source.split("\n") if line.strip()]
    assert [line for line in lines if line.strip()] == full


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.number)
def test_each_piece_of_a_lessons_code_fits_a_slide(lesson):
    for cell in lesson.source.cells:
        if cell.cell_type == "code":
            lines = cell.source.split("\n")
            sizes, start = blocks.split_lines(lines), 0
            assert sum(sizes) == len(lines)
            for size in sizes:
                part = lines[start : start + size]
                rows = [max(1, math.ceil(len(x) / blocks.COLUMNS)) for x in part]
                assert sum(rows) <= blocks.LINES
                start += size


def test_a_cut_is_at_an_empty_line_if_there_is_one():
    lines = ["def f():", *["    a = 1"] * 11, "", "def g():", *["    b = 2"] * 9]
    assert blocks.split_lines(lines) == [13, 10]


def test_a_colour_ends_with_its_line_and_begins_again_on_the_next():
    lines = blocks.split_html('<span a>x <span b>"""one\ntwo"""</span></span> y')
    assert lines == [
        '<span a>x <span b>"""one</span></span>',
        '<span a><span b>two"""</span></span> y',
    ]


def test_a_cell_that_only_asks_becomes_its_questions():
    asked = make(code('a = predict("How many?", None)\nb = predict("How <fast>?", 3)'))
    assert [read(block) for block in asked] == ["How many?", "How <fast>?"]
    mixed = make(code('a = predict("How many?", None)\nlaunch()'))
    assert read(mixed[0]).endswith("launch()")


def test_a_cell_that_only_lists_becomes_the_name_of_its_file():
    (block,) = make(code('listing("kernels/relu.cu", "relu_naive")'))
    assert read(block) == "kernels/relu.cu: relu_naive"


# ---- outputs -------------------------------------------------------------------------


def test_an_answer_without_a_guess_appears_at_a_key_press():
    answer = predict.Measured("How many?", None, 3, "", None)
    output = nbformat.v4.new_output(
        "execute_result", {"text/html": answer._repr_html_()}
    )
    (block,) = blocks.make_outputs(code("x", outputs=[output]))
    assert predict.NO_GUESS not in block.html and predict.FOLD not in block.html
    assert re.search(r'class="fragment">.*It is 3', block.html)


def test_a_difference_is_code_below_its_title():
    rows = "\n".join(f'<span style="x">+ line {i}</span>' for i in range(30))
    page = f"<b>a → b</b><pre style='y'>{rows}</pre><details>all of b</details>"
    output = nbformat.v4.new_output("display_data", {"text/html": page})
    title, *pieces = blocks.make_outputs(code("x", outputs=[output]))
    assert read(title) == "a → b" and [b.kind for b in pieces] == ["code", "code"]
    assert sum(read(b).count("line") for b in pieces) == 30


def test_progress_and_the_time_of_a_compilation_are_on_no_slide():
    line = f'<div style="{blocks.LINE};{blocks.GREY}">building relu: 3 s</div>'
    progress = nbformat.v4.new_output("display_data", {"text/html": line})
    compiled = printed("scale · CPU, 2 cores · compiled in 369 ms\n")
    cell = code("x", outputs=[progress, compiled, printed("4\n")])
    assert [read(block) for block in blocks.make_outputs(cell)] == ["4"]


# ---- text ----------------------------------------------------------------------------


def test_a_folded_text_is_a_note_even_with_another_fold_inside():
    fold = "<details><summary>Hint</summary>\n\nA.\n\n{}</details>"
    inner = fold.format("").replace("Hint", "More")
    made = make(text(f"Why?\n\n{fold.format(inner)}\n\nAnd then?"))
    assert [block.kind for block in made] == ["text", "note", "text"]
    assert "Hint" in read(made[1]) and "A." in read(made[1])


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.number)
def test_no_answer_is_on_a_slide(lesson):
    cells = nbformat.read(lesson.path, as_version=4).cells
    for section in deck.list_sections(cells):
        for block in section.blocks:
            if block.kind != blocks.NOTE:
                assert "<summary>Answer" not in block.html
                assert "<details>" not in block.html


def test_formulas_need_no_script():
    (block,) = make(text("The step is $h^2$."))
    assert "<math" in block.html and "$" not in block.html


# ---- tags ----------------------------------------------------------------------------


def test_notes_are_for_the_lecturer_and_plumbing_shows_its_output():
    (note,) = make(text("Ask the room.", "notes"))
    assert note.kind == blocks.NOTE and 'class="notes"' in note.write()
    plumbing = make(code("draw()", "plumbing", outputs=[printed("drawn")]))
    assert [read(block) for block in plumbing] == ["drawn"]
    assert not plumbing[0].below


def test_a_step_walks_through_code_and_hides_text():
    (walked,) = make(code("a = 1\n\nb = 2", "step"))
    assert walked.html.count("fragment walk") == 2 and not walked.step
    (shown,) = make(text("Then?", "step"))
    assert "fragment" in shown.write()


def test_a_cell_with_the_tag_slide_begins_one():
    first, second = make(text("One.\n\nTwo.", "slide"))
    assert first.first and not second.first


def test_skipped_cells_and_the_checks_of_exercises_are_omitted():
    cells = [
        text("# Title\n> Question", id="t"),
        text("## Part", id="p"),
        text("Words.", "skip", id="s"),
        code("def f():\n    raise NotImplementedError", "exercise", id="e"),
        code("exercise(f, check_f)", id="c"),
        code("later()", id="l"),
    ]
    sections = deck.list_sections(cells)
    shown = " ".join(read(b) for section in sections for b in section.blocks)
    assert "later()" in shown and "NotImplementedError" in shown
    assert "Words" not in shown and "check_f" not in shown


def test_the_appendix_follows_the_core():
    cells = [
        text("# Title\n> Question"),
        text("## Practice\n\na", "practice", id="p"),
        text("## Deep\n\nb", "deeper", id="d"),
        text("## Part\n\nc\n\n### Inside\n\nd", id="q"),
    ]
    sections = deck.list_sections(cells)[1:]
    assert [one.title for one in sections] == ["Part", "Inside", "Deep", "Practice"]
    assert [one.kind for one in sections] == [CORE, CORE, DEEPER, PRACTICE]
    assert sections[1].column == "Part"


def test_notes_for_a_lesson_are_on_its_first_slide(tmp_path, monkeypatch):
    monkeypatch.setattr(deck, "NOTES", tmp_path)
    lesson = LESSONS[1]
    cells = nbformat.read(lesson.path, as_version=4).cells
    assert "<aside" not in deck.write_title(lesson, cells, [])
    (tmp_path / f"{lesson.path.stem}.md").write_text(
        "# Notes\n\n## Show\n\nThe blocks."
    )
    assert "The blocks." in deck.write_title(lesson, cells, [])
