"""The measured numbers of README.md come from the committed rows."""

import itertools
import json
import re
import xml.etree.ElementTree as ElementTree

import contrast
import pytest
import readme_pictures
import watched_cell

from weft.base.paths import ROOT
from weft.base.style import write_svg
from weft.base.text import round_number
from weft.benchmarks import plot_graphs, readme, sentences, write_cores, write_duration
from weft.benchmarks.plot_bodies import load_elsewhere
from weft.benchmarks.race.command import list_twins
from weft.benchmarks.race.plot_batches import fastest_of
from weft.benchmarks.race.work import find_limits, sum_parts

# A number with a unit of time or speed, a share or a factor.
MEASURED = re.compile(r"\d[\d.]*\s?(?:µs|us|ms|s|seconds|%|[GT]?FLOP/s|times)(?![\w/])")


def outside_blocks(text, page):
    for name in readme.PAGES[page]:
        text = readme.replace_block(text, name, "")
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


@pytest.mark.parametrize("page", readme.PAGES, ids=lambda page: page.name)
def test_a_page_is_what_the_generator_writes(page):
    text = page.read_text(encoding="utf-8")
    assert readme.renew_blocks(text, page) == text, readme.COMMAND


@pytest.mark.parametrize("page", readme.PAGES, ids=lambda page: page.name)
def test_no_measured_number_is_typed_by_hand(page):
    numbers = MEASURED.findall(outside_blocks(page.read_text(encoding="utf-8"), page))
    assert not numbers, (
        f"{numbers}: measured? weft.benchmarks.sentences writes such sentences"
    )


def test_readme_stays_short():
    assert len(readme.README.read_text(encoding="utf-8").splitlines()) <= 200


@pytest.mark.parametrize(
    "text", ["takes 61 ms.", "1.4 µs", "over 99 % of", "143 times"]
)
def test_measured_numbers_are_found(text):
    page = readme.README
    marks = "".join("\n".join([*readme.block_marks(n), ""]) for n in readme.PAGES[page])
    assert MEASURED.search(
        outside_blocks(readme.renew_blocks(marks, page) + text, page)
    )


def test_only_what_is_between_the_marks_is_written():
    begin, end = readme.block_marks("race")
    text = f"a\n{begin}\nold\n{end}\nb\n"
    assert readme.replace_block(text, "race", "new") == text.replace("old", "new")
    with pytest.raises(ValueError, match="no <!-- race: made by"):
        readme.replace_block("a", "race", "new")


def words_and_marks(text):
    """Return the words of a picture and the positions of its marks, without ids and
    versions."""
    words = re.findall(r"<text[^>]*>([^<]*)</text>", text)
    marks = re.findall(r'<use [^>]*?x="([-.\d]+)" y="([-.\d]+)"', text)
    return words, [tuple(map(float, mark)) for mark in marks]


@pytest.mark.parametrize("name", readme.PICTURES)
def test_the_pictures_beside_the_results_are_of_these_results(name):
    path = sentences.RESULTS / f"{name}.svg"
    words, marks = words_and_marks(path.read_text())
    now, committed = words_and_marks(write_svg(readme.PICTURES[name]()))
    assert words == now, readme.COMMAND
    assert len(marks) == len(committed) > 15
    # Another version of matplotlib may space letters differently.
    for old, new in zip(marks, committed):
        assert old == pytest.approx(new, abs=3)


def test_make_test_is_described_as_it_is():
    make = (ROOT / "Makefile").read_text()
    recipe = make.split("\ntest: ")[1].split("\n\n")[0]
    (line,) = re.findall(r"^make test +# .*$", readme.README.read_text(), re.M)
    assert ('"not slow"' in recipe) == ("make test-slow" in line)


# ---- which results ---------------------------------------------------------------


def results_of(*rows, **machine):
    fields = {"device": "A CPU", "cores": 2, "driver": "1", "toolkit": "2"}
    fields |= {"torch": "2.9.1+cpu", "date": "2026-01-02"} | machine
    base = {"target": "cpu", "device": "A CPU"}
    return {"machine": fields, "rows": [base | row for row in rows]}


def test_the_newest_results_are_taken_of_a_gpu_or_of_a_processor(monkeypatch, tmp_path):
    monkeypatch.setattr(sentences, "RESULTS", tmp_path)
    gpu = {"target": "cuda", "device": "GPU"}
    row = {"target": "cuda", "device": None, "us": None}  # as from nvcc, without a GPU
    for stem, rows, date in (
        ("edit_a", [{}, row], "2026-01-02"),
        ("edit_b", [{}], "2026-01-03"),
        ("edit_c", [{}, gpu], "2026-01-01"),
    ):
        text = json.dumps(results_of(*rows, date=date))
        (tmp_path / f"{stem}.json").write_text(text)
    assert sentences.load_newest("edit", "cpu")["stem"] == "edit_b"
    assert sentences.load_newest("edit", "cuda")["stem"] == "edit_c"
    with pytest.raises(ValueError, match=r"no race_\*\.json for cuda"):
        sentences.load_newest("race", "cuda")


# ---- the race --------------------------------------------------------------------


def step(impl, rung, us, precision="fp32", **more):
    row = {"measure": "step", "impl": impl, "rung": rung, "us": us, "batch": 64}
    row |= {"precision": precision, "target": "cuda", "device": "GPU", "host_us": us}
    return row | {"layout": "nchw", "date": "2026-01-02"} | more


RACE = [
    step("weft", "naive", 50.0),
    step("weft", "pdl", 10.0, host_us=0.5),
    step("torch", "compile+graph", 45.0, host_us=20.0),
    step("torch", "compile+graph", 41.0, layout="channels_last", host_us=30.0),
    step("torch", "eager", 900.0, host_us=1500.0),
]


def milestone(measure, impl, us, accuracy):
    row = step(impl, "any", us, measure=measure, test_accuracy=accuracy)
    return row | {"epochs": 2, "samples": 5, "one_cycle": measure == "target"}


MILESTONES = [
    milestone(measure, impl, us, accuracy)
    for measure in ("epoch", "target", "seeds")
    for impl, us, accuracy in (("weft", 1e4, 0.99), ("torch", 3e4, 0.98))
]


def one_line(text):
    return " ".join(text.split())


def test_the_race_is_between_the_fastest_of_both_sides():
    text = one_line(sentences.describe_race(results_of(*RACE, *MILESTONES)))
    assert "| 64 | 10.0 µs | 41.0 µs | 4.10 |" in text
    assert "costs the host 0.500 to 0.500 µs" in text
    assert "of PyTorch costs it 20.0 to 30.0 µs; an eager one costs 1.50 to" in text
    assert "takes 10.0 ms in fp32, and PyTorch's takes 30.0 ms (medians" in text
    assert "accuracy is 99.00 %, and PyTorch's is 98.00 %" in text


STRONGEST = [
    *RACE[:2],
    step("torch", "compile+graph64+nobias", 40.0, host_us=2.0),
    step("torch", "compile-step+graph64+nobias", 39.0, host_us=3.0),
    step("torch", "compile-step+nobias", 400.0, host_us=900.0),
    step("torch", "graph", 80.0, host_us=20.0),
    step("torch", "eager", 900.0, host_us=1500.0),
]


def test_pytorchs_variants_are_described():
    results = results_of(*STRONGEST, *MILESTONES)
    text = one_line(sentences.describe_opponent(results))
    assert "one function of forward and backward or of the whole step." in text
    assert "the uncompiled step in graphs of 1 and the compiled one in graphs" in text
    assert "in graphs of 64; ours are of 64 steps" in text
    assert "our fused rungs skip them, and so do three of PyTorch's." in text
    assert "the fastest of these five variants" in text
    assert "max-autotune" not in text and "races below" not in text
    text = one_line(sentences.describe_race(results))
    assert "| 39.0 µs | 3.90 |" in text
    assert "costs it 2.00 to 3.00 µs in a graph of 64 and 20.0 to 20.0 µs in" in text


def test_a_variant_that_did_not_run_everywhere_is_not_claimed():
    rows = [step("weft", "tf32", 1.0, "tf32"), step("torch", "graph", 2.0, "tf32")]
    tuned = step("torch", "compile+autotune+nobias", 50.0)
    results = results_of(*STRONGEST, tuned, *rows)
    text = one_line(sentences.describe_opponent(results))
    assert "In 1 of the 2 races below, all of its graphs contain one step." in text
    assert "`max-autotune` takes part in 1 of them." in text


def test_pytorch_is_at_its_best_in_each_committed_race():
    """The fastest twin trains without the biases that batch norm cancels, in a
    graph."""
    races = sentences._group_races(sentences.load_newest("race", "cuda")["rows"])
    assert len(races) == 15
    for (_, batch), rows in races.items():
        kinds = [kind for kind in list_twins(rows) if not kind.biases]
        # With 4096 images or more, a step takes too long for launches to matter.
        graph = 64 if batch < 4096 else 1
        for compiled in ("compile", "compile-step"):
            assert any(k.compiled == compiled and k.graph >= graph for k in kinds)


def test_a_long_load_is_compared_with_the_fastest_peer_of_each_column():
    def product(impl, race, burst, load, **more):
        speeds = {"tflops": burst, "sustained_tflops": load, "sustained_s": 1.5}
        head = {"impl": impl, "race": race, "m": 64, "sustained_clock": 1500.0}
        return head | speeds | {"device": "GPU", "date": "2026-01-02"} | more

    results = results_of(
        product("weft", "fp32", 50.0, 40.0),
        product("cublas", "fp32", 40.0, 20.0, layout="nn"),
        product("torch", "fp32", 25.0, 32.0),
    )
    text = one_line(sentences.describe_sustained(results))
    assert "| fp32 | 50 | 40 | 40 | 32 | 1.25 | 1.25 | 1500 MHz |" in text
    assert "without pauses, and its next 1.5 s are timed" in text
    text = sentences.summarize_sustained(results)
    assert "On one GPU, products of size 64 reach 50 TFLOP/s in bursts (fp32)." in text
    assert text.endswith("a load of 3 s without pauses, they reach 40.")


def test_what_limits_a_step_is_what_the_committed_rows_say():
    """Check README's sentence for our fastest rung in each precision and batch."""
    rows = sentences.load_newest("race", "cuda")["rows"]
    launch_us = plot_graphs.find_value(
        "chain", "a graph", [], load_elsewhere("graphs"), count=100
    )
    steps = sentences.select(rows, measure="step")
    batches = sorted({row["batch"] for row in steps})
    direct = sentences.select(steps, rung="pdl")
    fastest, without = [], []
    for roof in sentences.select(rows, measure="roof"):

        def find_largest(row, roof=roof):
            return sum_parts(find_limits(row, roof, launch_us)).binds

        best = [fastest_of(rows, roof["precision"], batch) for batch in batches]
        fastest += [find_largest(row) for row in best]
        if roof["precision"] == "fp32":
            assert {row["rung"] for row in best} == {"winograd"}
            without = [(row["batch"], find_largest(row)) for row in direct]
    assert batches[:2] == [64, 256] and set(fastest) == {"waiting"}
    expected = {batch: "products" if batch >= 256 else "waiting" for batch in batches}
    assert dict(without) == expected
    page = one_line(readme.RESULTS_PAGE.read_text(encoding="utf-8"))
    assert "The largest part of our fastest steps is waiting" in page
    assert "the fastest rung is `winograd`" in page
    assert "the products are the largest part from 256 images on" in page


def test_a_processors_race_gives_step_epoch_and_how_they_were_sampled():
    band = {"us_low": 9e3, "us_high": 1.2e4, "batch": 64}
    ours = {"impl": "weft", "us": 1e4, "epoch_s": 5.0, **band}
    ours |= {"samples": 20, "steps": 5, "epochs": 2, "epochs_s": [4.75, 5.25]}
    theirs = {"impl": "torch", "us": 3e4, "epoch_s": None, **band}
    eager = theirs | {"us": 2e4, "epoch_s": 7.5}
    text = one_line(sentences.describe_processor_race(results_of(ours, theirs, eager)))
    assert "64 images takes 10.0 ms (9.00 to 12.0)" in text
    assert "PyTorch 2.9's two variants" in text and "2.0 times as long. An" in text
    assert "takes 5.00 s (4.75 to 5.25), and PyTorch's takes 7.50 s, 1.5 times" in text
    assert "epochs as means with the fastest and slowest of two" in text
    assert "percentiles of 20 samples of 5 steps" in text


# ---- the others ------------------------------------------------------------------


def test_reasons_of_counts_that_differ_are_grouped():
    base = {"rung": "k", "metric": "sectors", "agrees": True, "verdict": "same"}
    wide = {"difference": 0.5, "verdict": "the compiler merged accesses: 4 LDS.128"}
    lanes = {"metric": "active threads per instruction", "difference": -0.25}
    rows = [
        base | {"difference": 0.0},
        base | wide,
        base | wide,
        base | {"difference": -0.01, "verdict": "within 2%: scattered"},
        base | {"difference": 0.3, "verdict": "something new"},
        base | lanes | {"verdict": "ncu weighs each instruction"},
        base | {"difference": None, "agrees": None, "verdict": ""},
    ]
    text = one_line(sentences.describe_counters(results_of(*rows)))
    assert "of 5 that Nsight Compute measured in 1 launches, 1 are exactly" in text
    assert "Two differ because the compiler merged" in text
    assert "One differs because the GPU takes scattered" in text
    assert "(1.0 % more sectors)" in text and "One differs (something new)" in text
    assert "in 0 of 1 launches. In the other one they differ by up to 25 %" in text


def test_watching_costs_from_the_cheapest_to_the_dearest():
    rows = [
        {"op": "check", "mode": "check", "rung": rung, "cost": cost}
        for rung, cost in (("add", 9.0), ("matmul_tiled", 7.0), ("sum", 2.0))
    ]
    text = one_line(sentences.describe_watching(results_of(*rows, device="AMD EPYC")))
    assert "On two cores of an AMD EPYC a watched launch takes 2.0 (`sum`) to" in text
    assert (
        "to 9.0 times (`add`) as long as a plain one. A product with tiles takes 7.0"
        in text
    )


@pytest.mark.parametrize(
    "us, text",
    [(0.696, "0.696 µs"), (999.4, "999 µs"), (999.6, "1.00 ms"), (8.1e5, "810 ms")],
)
def test_times_have_three_digits(us, text):
    assert write_duration(us) == text


def test_a_number_has_three_digits_or_is_whole():
    texts = [round_number(number) for number in (0.125, 999.4, 999.6, 2565)]
    assert texts == ["0.125", "999", "1\u202f000", "2\u202f565"]


def test_processors_have_short_names():
    machine = {"cores": 1, "device": "Intel(R) Xeon(R) Processor"}
    assert write_cores(machine) == "one core of an Intel Xeon"


def test_the_picture_of_a_watched_cell_is_what_the_cell_shows():
    assert watched_cell.PICTURE.read_text() == watched_cell.draw(), watched_cell.COMMAND


def test_the_watched_cell_is_legible_on_light_and_dark_pages():
    light, _, dark = watched_cell.STYLE.partition("@media")
    for text, papers in (light, ("#ffffff", "#f6f6f6")), (dark, ("#0d1117", "#1c1c1c")):
        assert papers[1] in text
        colours = re.findall(r"(?:\.\w+|text) {[^}]*fill: (#\w+)", text)
        for colour, paper in itertools.product(colours, papers):
            pair = (contrast.read_colour(one, (0, 0, 0)) for one in (colour, paper))
            assert contrast.measure_contrast(*pair) >= contrast.TEXT, (colour, paper)


@pytest.mark.parametrize("name", readme_pictures.PICTURES)
def test_the_other_pictures_are_what_the_lab_draws(name):
    drawn = readme_pictures.draw(name)
    assert readme_pictures.find(name).read_text() == drawn, readme_pictures.COMMAND
    root = ElementTree.fromstring(drawn)
    assert root.get("role") == "img"
    assert f"(docs/{name}.svg)" in readme.README.read_text(encoding="utf-8")


def test_readmes_first_screen_has_one_picture():
    beginning = readme.README.read_text(encoding="utf-8").splitlines()[:30]
    assert sum(line.startswith("![") for line in beginning) == 1


@pytest.mark.parametrize(
    "page",
    [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")],
    ids=lambda page: page.name,
)
def test_links_of_a_page_lead_to_files(page):
    text = page.read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.M | re.S)
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", prose)
    files = [link for link in links if not link.startswith("http")]
    assert not [link for link in files if not (page.parent / link).exists()]
