"""A guess is shown next to its answer, and reruns do not change the score."""

import base64
import importlib
import json
import math
import re
import xml.etree.ElementTree as ET

import pytest

from weft import ArgumentError, compare_guesses, predict
from weft.base import store
from weft.lessons.widgets.predict import GuessScore

predict_module = importlib.import_module("weft.lessons.widgets.predict")


@pytest.fixture(autouse=True)
def own_memory(tmp_path, monkeypatch):
    """Give each test a separate cache folder and session."""
    monkeypatch.delenv("WEFT_SMALL", raising=False)
    monkeypatch.setattr(store, "_root", tmp_path)
    monkeypatch.setattr(predict_module, "_asked", set())
    return tmp_path


def rectangles(svg):
    return [e for e in ET.fromstring(svg).iter() if e.tag.endswith("rect")]


IMAGE = r'<img alt="([^"]*)"[^>]* src="data:image/svg\+xml;base64,([^"]*)"/>'


def images(page):
    """Return (alternative text, SVG) of each image of a page."""
    return [(alt, base64.b64decode(data)) for alt, data in re.findall(IMAGE, page)]


def without_scripts(page):
    """Return the page of a notebook that is not trusted."""
    return re.sub(r"<script>.*?</script>", "", page, flags=re.S)


def test_pictures_remain_where_scripts_and_inline_svg_are_dropped():
    predict("Fewer?", 20).measured(10)
    page = predict("How many?", 25, "GB/s").measured(100)._repr_html_()
    assert "<svg" not in without_scripts(page)
    (bars, bars_svg), (dots, dots_svg) = images(page)
    assert "axis from 0" in bars and "your guess 25 GB/s, measured 100 GB/s" in bars
    assert "logarithmic axis" in dots and dots.endswith(": 2, 0.25")
    for text, svg in ((bars, bars_svg), (dots, dots_svg)):
        root = ET.fromstring(svg)
        assert root.get("role") == "img" and root.get("aria-label") == text


def test_the_guess_is_a_hollow_dashed_bar_in_proportion_to_the_measured_one():
    svg = predict("How many?", 25, "GB/s").measured(100).svg()
    ghost, bar = rectangles(svg)
    assert ghost.get("fill") == "none" and ghost.get("stroke-dasharray")
    assert bar.get("fill") != "none" and not bar.get("stroke-dasharray")
    assert float(bar.get("width")) == pytest.approx(4 * float(ghost.get("width")))


@pytest.mark.parametrize(
    ("guess", "truth", "words"),
    [
        (25, 100, "25 ms, it is 100 ms: 4 times your guess"),
        (100, 25, "4 times less"),
        (100, 103, "2.9 % off"),
        (7, 7, "which is exact"),
        (0, 5, "You guessed 0 ms, it is 5 ms."),
        (12345678, 4000, "1.23e+07 ms, it is 4,000 ms"),
    ],
)
def test_a_sentence_says_the_ratio(guess, truth, words):
    assert words in predict("How long?", guess, "ms").measured(truth).sentence


def test_without_a_guess_the_answer_is_folded_away_and_nothing_is_scored(own_memory):
    answer = predict("How many?", None, "blocks").measured(1234)
    assert repr(answer) == f"How many?\n{predict_module.NO_GUESS}"
    page = ET.fromstring(answer._repr_html_())
    (fold,) = page.iter("details")
    assert fold.get("open") is None
    assert answer.svg() == "" and not images(answer._repr_html_())
    assert "It is 1,234 blocks." in "".join(fold.itertext())
    page.remove(fold)
    text = ET.tostring(page, encoding="unicode")
    assert predict_module.NO_GUESS in text and "1,234" not in text
    assert not answer.score.factors and not predict_module.guessed_questions()
    assert not list(own_memory.rglob("*.json"))


def test_predictions_of_a_loop_share_one_axis_and_one_score():
    rates = {"tiled": (20, 80), "naive": (5, 10), "simd": (None, 40)}
    answers = compare_guesses(
        predict(f"How fast is {name}?", guess, "GB/s").measured(rate)
        for name, (guess, rate) in rates.items()
    )
    page = ET.fromstring(without_scripts(answers._repr_html_()))
    drawn = [rectangles(svg) for _, svg in images(answers._repr_html_())]
    bars = [e for part in drawn for e in part if e.get("stroke-width")]
    widths = [float(bar.get("width")) for bar in bars]
    assert widths == pytest.approx([70, 280, 17.5, 35])  # 80 GB/s are 280 wide
    (fold,) = page.iter("details")
    assert "How fast is simd? It is 40 GB/s." in "".join(fold.itertext())
    assert answers._repr_html_().count("guesses (") == 1
    with pytest.raises(ArgumentError, match="one axis cannot have the units"):
        compare_guesses([*answers, predict("How long?", 3, "ms").measured(3)])


def test_a_loop_without_guesses_draws_nothing():
    answers = compare_guesses(predict(f"Step {i}?", None).measured(i) for i in (1, 2))
    page = answers._repr_html_()
    assert not images(page)
    assert page.count(predict_module.NO_GUESS) == 1
    assert not images(compare_guesses([])._repr_html_())


def test_the_answer_can_be_had_without_a_guess():
    answer = predict("How many?", None, "blocks").measured(12)
    assert (answer.value, answer.sentence) == (12, "It is 12 blocks.")


def test_the_same_question_again_replaces_its_guess():
    predict("One?", 1).measured(10)
    predict("Two?", 5).measured(5)
    score = predict("One?", 5).measured(10).score
    assert score.factors == [1.0, 0.5]  # the newest guess is the last
    assert score.session == 2


def test_the_score_says_how_far_off_and_which_way():
    score = GuessScore([0.1, 0.5, 1.0, 2.0, 0.25], 3)
    assert score.median == 2
    assert score.within_2 == pytest.approx(3 / 5)
    assert score.lean == pytest.approx(math.prod(score.factors) ** 0.2)
    assert "3 of 5 within a factor of 2; on the whole 2.1 times too low" in str(score)
    assert "neither high nor low" in str(GuessScore([0.5, 2.0]))
    assert str(GuessScore()) == "No guesses yet."


def test_the_score_outlives_the_session_in_the_cache_folder(own_memory, monkeypatch):
    predict("One?", 3).measured(10)
    monkeypatch.setattr(predict_module, "_asked", set())
    score = predict("Two?", 4).measured(4).score
    assert len(score.factors) == 2 and score.session == 1
    (file,) = own_memory.rglob("*.json")
    assert set(json.loads(file.read_text())) == {"One?", "Two?"}


@pytest.mark.parametrize(
    "text", ["", "[1, 2]", '{"One?": 3}', '{"One?": {"guess": "x"}}']
)
def test_a_damaged_memory_is_started_anew(own_memory, text):
    (own_memory / "kept").mkdir()
    (own_memory / "kept" / "guesses.json").write_text(text)
    assert predict("Two?", 4).measured(8).score.factors == [0.5]


@pytest.mark.parametrize("wrong", [-1, math.nan, math.inf, "many", [1, 2]])
def test_what_is_no_number_from_0_on_is_refused_in_one_line(wrong):
    with pytest.raises(
        ArgumentError, match=r"guess must be a number of at least 0, not"
    ):
        predict("How many?", wrong)
    with pytest.raises(
        ArgumentError, match=r"measured must be a number of at least 0, not"
    ):
        predict("How many?", 1).measured(wrong)
    with pytest.raises(ArgumentError, match="question must be a text"):
        predict("", 1)


def test_the_page_is_well_formed_and_leaves_ink_and_ground_to_the_page():
    predict("Fewer?", 900).measured(3)
    answer = predict('More <threads> & "blocks"?', 3, "<ms>").measured(1e-9)
    page = answer._repr_html_()
    ET.fromstring(without_scripts(page))  # parsing fails unless the page is well formed
    roots = [ET.fromstring(svg) for _, svg in images(page)]
    elements = [e for root in roots for e in root.iter()]
    texts = [e for e in elements if e.tag.endswith("text")]
    assert {e.get("fill") for e in texts} == {"currentColor"}
    assert all(float(e.get("font-size")) >= 11 for e in texts)
    assert all(b"weft-ground" in svg for _, svg in images(page))
    circles = [e for e in elements if e.tag.endswith("circle")]
    assert len(circles) == 2 and all(0 <= float(c.get("cx")) <= 480 for c in circles)
    assert circles[-1].get("fill-opacity") is None  # the last guess is opaque
