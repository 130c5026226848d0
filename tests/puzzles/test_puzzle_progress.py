"""Progress survives sessions, a cleared cache, damage and a second notebook."""

import argparse
import base64
import importlib
import itertools
import json
import multiprocessing
import os
import random
import re
import threading
import types
import xml.etree.ElementTree as ET
from dataclasses import replace
from datetime import date

import pytest

from weft import ArgumentError, load_cuda, predict, puzzles
from weft.base import store
from weft.base.paths import COLAB
from weft.base.store import Kept
from weft.lessons.progress import progress as course_progress
from weft.puzzles import table
from weft.puzzles.answer_cost import CountRow, Score
from weft.puzzles.catalogue import GROUPS, LESSONS, number_of
from weft.puzzles.notebooks import (
    describe_puzzle,
    list_core_puzzles,
    list_lessons,
    make_cells,
    puzzle_minutes,
)
from weft.puzzles.progress import (
    COLOURS,
    LINES,
    OPEN,
    SIGNS,
    SOLVED,
    WITHIN,
    cloth,
    note_solved,
    read_progress,
    weave,
    weave_gamp,
)
from weft.puzzles.puzzle import _compile_function

progress_module = importlib.import_module("weft.puzzles.progress")
cloth_module = importlib.import_module("weft.puzzles.progress")

GOOD = Score((CountRow("reads per thread", 1, 1),))
MORE = Score((CountRow("reads per thread", 2, 1),))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Give each test a separate cache folder and session."""
    monkeypatch.delenv("WEFT_SMALL", raising=False)
    monkeypatch.setattr(store, "_root", tmp_path)
    new_session(monkeypatch)
    return tmp_path


def new_session(monkeypatch):
    monkeypatch.setattr(progress_module, "_kept", Kept("puzzles"))
    monkeypatch.setattr(progress_module, "_set_aside", Kept("before"))
    monkeypatch.setattr(progress_module, "_latest", [])
    monkeypatch.setattr(cloth_module, "_shown", Kept("cloth"))


def make_puzzle(name):
    """Return the part of a Puzzle that note_solved() and cloth() use."""
    (group,) = (g for g, names in GROUPS.items() if name in names)
    return types.SimpleNamespace(name=name, group=group)


def solve(*names, score=GOOD):
    for name in names:
        note_solved(make_puzzle(name), "Python", score)


# ---- the records --------------------------------------------------------------------


def test_the_next_session_remembers_a_solved_puzzle(monkeypatch):
    assert note_solved(make_puzzle("guards"), "Python", MORE)
    new_session(monkeypatch)
    assert (
        read_progress().state("guards") == SOLVED
        and read_progress().state("zip") == OPEN
    )
    assert not note_solved(
        make_puzzle("guards"), "CUDA C", GOOD
    )  # the puzzle was solved before
    assert read_progress().state("guards") == WITHIN
    assert "Python on" in read_progress().title("guards")
    assert "CUDA C on" in read_progress().title("guards")


def test_the_first_day_and_the_best_score_count(folder):
    solve("map", score=GOOD)
    solve("map", score=MORE)
    (record,) = json.loads((folder / "kept/puzzles.json").read_text())["map"].values()
    assert record["within"] and record["score"] == {"reads per thread": [1, 1]}


def test_clearing_and_pruning_the_cache_keep_progress_and_guesses(folder):
    solve("map")
    predict("How many?", 3).measured(4)
    (folder / "jit").mkdir()
    (folder / "jit" / "old.so").write_bytes(bytes(1000))
    texts = {path: path.read_text() for path in folder.rglob("*.json")}
    assert len(texts) == 2
    for path in texts:
        os.utime(path, (0, 0))  # pruning deletes the oldest files first
    assert store.measure_cache() == 1000
    store.prune(limit=10)
    assert store.measure_cache() == 0 and not (folder / "jit" / "old.so").exists()
    (folder / "a.so").write_bytes(bytes(500))
    assert store.clear() == 500
    assert {path: path.read_text() for path in folder.rglob("*.json")} == texts


def test_the_help_of_clear_mentions_what_is_kept(capsys):
    parser = argparse.ArgumentParser()
    store.add_arguments(parser)
    assert "progress" in parser.format_help()
    solve("map")
    store.main(parser.parse_args(["--clear"]))
    assert "kept" in capsys.readouterr().out and read_progress().count == 1


def make_change(name):
    return lambda records: records.update({name: {}})


def test_two_notebooks_keep_each_others_marks(folder):
    """Each change applies to the file's current contents, not to those read before."""
    names = [name for group in GROUPS.values() for name in group][:8]
    begin = threading.Barrier(len(names))

    def notebook(name):
        records = Kept("puzzles")
        begin.wait()
        for turn in range(5):
            records.change(make_change(f"{name}{turn}"))

    threads = [threading.Thread(target=notebook, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Kept("puzzles").read()) == 5 * len(names)


def _add(folder, name):
    store._root = folder
    for turn in range(20):
        Kept("other").change(make_change(f"{name}{turn}"))


def test_two_processes_keep_each_others_marks(folder):
    context = multiprocessing.get_context("fork")
    both = [context.Process(target=_add, args=(folder, name)) for name in "ab"]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert len(Kept("other").read()) == 40


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "\0\0"])
def test_a_damaged_file_is_reported_in_one_line_and_set_aside(folder, text, capsys):
    (folder / "kept").mkdir()
    (folder / "kept" / "puzzles.json").write_text(text)
    solve("map", "zip")
    message = capsys.readouterr().err
    assert message.count("\n") == 1 and "damaged1.json" in message
    assert (folder / "kept" / "puzzles.damaged1.json").read_text() == text
    assert read_progress().count == 2


def test_a_second_damage_does_not_overwrite_the_first(folder, capsys):
    for text in ("first", "second"):
        (folder / "kept").mkdir(exist_ok=True)
        (folder / "kept" / "puzzles.json").write_text(text)
        assert read_progress().count == 0
    aside = sorted((folder / "kept").glob("*damaged*"))
    assert [path.read_text() for path in aside] == ["first", "second"]


@pytest.mark.parametrize("wrong", [3, {}, {"Python": 1}, {"Python": {"when": 2}}])
def test_an_invalid_record_counts_as_not_solved(folder, wrong):
    (folder / "kept").mkdir()
    (folder / "kept" / "puzzles.json").write_text(json.dumps({"map": wrong}))
    assert read_progress().state("map") == OPEN
    solve("map")
    assert read_progress().state("map") == WITHIN


def test_the_session_remembers_if_nothing_can_be_written(folder, capsys):
    (folder / "kept").write_text("a file where the folder should be")
    solve("map", "zip")
    assert read_progress().count == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1 and "this session only" in message


def test_a_cache_folder_without_write_access_is_reported_in_one_line(
    folder, capsys, monkeypatch
):
    monkeypatch.setattr(store, "is_lasting", lambda: False)
    store._warn_not_lasting.cache_clear()
    solve("map", "zip")
    cloth_module.cloth(make_puzzle("map"))
    message = capsys.readouterr().err
    assert message.count("\n") == 1 and "is not writable" in message


def test_the_test_suite_writes_nothing(folder, monkeypatch):
    monkeypatch.setenv("WEFT_SMALL", "1")
    solve("map")
    assert read_progress().count == 1 and not list(folder.rglob("*.json"))


# ---- moving and forgetting -----------------------------------------------------------


def test_an_export_adds_to_the_progress_of_another_machine(
    folder, tmp_path_factory, monkeypatch
):
    solve("map", "zip")
    away = tmp_path_factory.mktemp("away")
    message = repr(read_progress().export(away / "mine.json"))
    assert (
        "2 puzzles" in message and 'load("mine.json")' in message and "Colab" in message
    )
    monkeypatch.setattr(store, "_root", away)
    new_session(monkeypatch)
    solve("zip", "guards", score=MORE)
    remote = read_progress().load(away / "mine.json")
    states = [remote.state(name) for name in ("map", "zip", "guards", "blocks")]
    assert states == [WITHIN, WITHIN, SOLVED, OPEN]


def test_an_invalid_export_is_refused_in_one_line(folder):
    (folder / "other.json").write_text('{"puzzles": []}')
    (folder / "text.json").write_text("puzzles")
    for name in ("other.json", "text.json"):
        with pytest.raises(ArgumentError, match=r"is not a file that export\(\) wrote"):
            read_progress().load(folder / name)
    with pytest.raises(ArgumentError, match="missing.json: No such file"):
        read_progress().load(folder / "missing.json")
    with pytest.raises(ArgumentError, match="export: .*No such file"):
        read_progress().export(folder / "no" / "x.json")


def test_reset_forgets_one_or_all_and_sets_the_old_records_aside(folder):
    solve("map", "zip", "guards")
    assert read_progress().reset("zip").count == 2
    with pytest.raises(ArgumentError, match="no puzzle 'zap'; there are map, zip"):
        read_progress().reset("zap")
    assert read_progress().reset().count == 0
    records = json.loads((folder / "kept" / "before.json").read_text())
    assert set(records) == {"map", "guards"}
    with pytest.raises(ArgumentError, match="language 'Rust'"):
        note_solved(make_puzzle("map"), "Rust", None)


def decode(image):
    """Return the SVG of an <img>."""
    return base64.b64decode(image.get("src").partition(",")[2]).decode()


# ---- display ------------------------------------------------------------------------


def test_the_table_has_a_mark_with_a_title_for_each_puzzle():
    solve("map")
    solve("zip", score=MORE)
    page = ET.fromstring(read_progress()._repr_html_())
    titles = [image.get("title") for image in page.iter("img")]
    assert titles == [image.get("alt") for image in page.iter("img")]
    for names in GROUPS.values():
        for name in names:
            assert sum(t.startswith(f"{name}: ") for t in titles) == 1


def test_the_marks_differ_in_shape_and_none_is_a_minus():
    images = {s: ET.fromstring(table.mark(s, s)) for s in (OPEN, SOLVED, WITHIN)}
    marks = {state: decode(image) for state, image in images.items()}
    paths = [re.findall(r'<path d="([^"]*)"', svg) for svg in marks.values()]
    assert 'fill="none"' in marks[OPEN] and [len(each) for each in paths] == [0, 1, 1]
    assert paths[1] != paths[2]
    for (path,) in paths[1:]:  # a minus would be one horizontal line
        assert len(re.findall("[a-zA-Z-]", path)) > 2 and not re.search("[hH]", path)
    assert not set(SIGNS.values()) & set("-−–o")


def test_the_table_has_a_row_for_each_lesson_with_links_minutes_and_its_core():
    solve("map", "coalescing")
    page = ET.fromstring(read_progress()._repr_html_())
    rows = [[cell for cell in row] for row in page.iter("tr")]
    assert len(rows) == len(LESSONS)
    for (group, names), row in zip(GROUPS.items(), rows):
        lesson, marked, solved_of, minutes = row
        number = number_of(LESSONS[group])
        assert lesson.find("a").get("href") == LESSONS[group]
        assert lesson.find("a").text.startswith(f"{number} ")
        assert lesson.find("a").text.split()[1:], "its title"
        links = [link.get("href") for link in marked.iter("a")]
        assert links == [puzzles[name].link for name in names]
        assert all(link.startswith(f"{LESSONS[group]}#") for link in links)
        count = sum(name in ("map", "coalescing") for name in names)
        assert solved_of.text == f"{count} of {len(names)}"
        message = int(re.fullmatch(r"(\d+) minutes", minutes.text)[1])
        assert message == round(sum(puzzle_minutes(name) for name in names))
    weights = {
        link.get("href"): "font-weight:bold" in link.get("style")
        for link in page.iter("a")
        if "#" in link.get("href")
    }
    core = {
        puzzles[name].link
        for lesson in list_lessons()
        for name in list_core_puzzles(lesson)
    }
    assert {link for link, bold in weights.items() if bold} == core


def test_in_colab_links_of_outputs_are_absolute(monkeypatch):
    monkeypatch.setenv("COLAB_RELEASE_TAG", "1")
    links = re.findall(r'href="([^"]+)"', puzzles.progress()._repr_html_())
    links += re.findall(r'href="([^"]+)"', course_progress()._repr_html_())
    assert len(links) > 50 and all(link.startswith(f"{COLAB}/") for link in links)
    assert f"{COLAB}/01a_kernels_in_python.ipynb#scrollTo=puzzle-map-asked" in links


def test_a_puzzles_link_leads_to_the_cell_with_its_task():
    """Links use ids, since JupyterLab finds no heading in a newly opened notebook."""
    map2d = "01a_kernels_in_python.ipynb#cell-id=puzzle-map2d-asked"
    assert puzzles.map2d.link == map2d
    for puzzle in puzzles:
        (first, *_) = make_cells([puzzle.name], answered=False)
        assert puzzle.link.partition("#cell-id=")[2] == first.id
        assert first.source == describe_puzzle(puzzle)


def test_a_puzzle_takes_reading_and_a_minute_for_each_line_of_its_answer():
    assert 3 < puzzle_minutes("map") < 5
    assert puzzle_minutes("matmul_budget") > 15


def test_the_text_lists_solved_puzzles_and_the_next_one():
    solve("map")
    solve("zip", score=MORE)
    first, *_, last = str(read_progress()).splitlines()
    assert first.startswith("01a ") and first.endswith("next: guards")
    assert "★ ✓ ·" in first and "2 of 5 solved, " in first
    assert last.startswith(f"2 of {len(puzzles)} puzzles solved, 1 of them within")
    solve(*GROUPS["memory"])
    (memory,) = (
        one for one in str(read_progress()).splitlines() if one.startswith("07a")
    )
    assert "4 of 4 solved" in memory and "next" not in memory
    assert read_progress().complete("memory")


def test_a_missing_notebook_leaves_a_row_without_a_title(monkeypatch):
    monkeypatch.setattr(table, "_load_lessons", dict)
    assert str(read_progress()).startswith("01a  ·") or str(read_progress()).startswith(
        "01a"
    )
    assert ">01a</a>" in read_progress()._repr_html_()


def test_next_is_the_first_unsolved_puzzle(capsys):
    assert puzzles.next() is puzzles.map
    solve("map", "guards")
    assert puzzles.next() is puzzles.zip
    page = ET.fromstring(f"<div>{puzzles.next()._repr_html_()}</div>")
    link = next(page.iter("a"))
    assert link.get("href") == puzzles.zip.link and link.text == "lesson 01a"
    for text in (repr(puzzles.zip), "".join(page.itertext())):
        assert "lesson 01a" in text and "NotImplementedError" in text
    solve(*(puzzle.name for puzzle in puzzles))
    assert puzzles.next() is None
    assert capsys.readouterr().out == f"all {len(puzzles)} puzzles are solved\n"


@pytest.mark.parametrize("name", ["map", "coalescing", "matmul_nt"])
def test_the_stub_of_a_solved_puzzle_is_recognised(name, capsys):
    puzzle = puzzles[name]
    stub = _compile_function(puzzle.stub, puzzle.answer)
    assert puzzle.check(stub) is None
    assert capsys.readouterr().out.startswith(f"{name}: not solved yet")
    note_solved(puzzle, "Python")
    assert puzzle.check(stub) is None
    number = number_of(LESSONS[puzzle.group])
    today = date.today().isoformat()
    assert capsys.readouterr().out == (
        f"{name}: solved already, in Python on {today}; lesson {number}\n"
    )


def test_the_stub_in_c_of_a_solved_puzzle_is_recognised(capsys):
    note_solved(puzzles.map, "CUDA C")
    assert puzzles.map.check(load_cuda(puzzles.map.cuda_c_stub, target="cpu")) is None
    assert "solved already, in CUDA C on " in capsys.readouterr().out


def test_a_new_attempt_at_a_solved_puzzle_is_judged(capsys):
    def add_ten(out, a):
        out[0] = a[0]
        raise NotImplementedError

    solve("map")
    puzzles.map.check(add_ten)
    assert "add_ten still contains" in capsys.readouterr().out


def test_puzzles_solved_under_an_older_order_of_groups_count(folder, monkeypatch):
    """Records use a puzzle's name, since groups and lessons may change."""
    record = {"Python": {"when": "2026-11-01", "within": True, "score": {}}}
    old = ("map", "guards", "shared", "dot", "divergence", "scan_add")
    (folder / "kept").mkdir()
    path = folder / "kept" / "puzzles.json"
    path.write_text(json.dumps(dict.fromkeys(old, record)))
    new_session(monkeypatch)
    assert read_progress().count == len(old)
    assert {read_progress().state(name) for name in old} == {WITHIN}
    assert puzzles.next() is puzzles.zip


# ---- cloth ---------------------------------------------------------------------------


def drafts():
    pieces = [weave(random.Random(seed)) for seed in range(80)]
    return pieces + [weave_gamp(names) for names in GROUPS.values()]


def longest(row):
    """Return the length of the longest run, and whether both kinds occur."""
    run = best = 1
    for left, right in itertools.pairwise(row):
        run = run + 1 if left == right else 1
        best = max(best, run)
    return best, len(set(row)) == 2


def test_every_thread_of_a_cloth_is_woven_in():
    """Each thread goes over and under, and floats over at most seven, as in a satin."""
    assert len({draft.name for draft in drafts()}) > 8
    for draft in drafts():
        rows = draft.rows
        for line in [*rows, *zip(*rows)]:
            floats, both = longest(line)
            assert both and floats <= 8, draft.name


def test_a_cloth_is_small_and_well_formed_and_has_the_labs_colours():
    for draft in drafts():
        piece = replace(draft, line="a < b")
        image = ET.fromstring(piece._repr_html_()).find("img")
        assert image.get("alt") == f"a cloth: {piece.name}"
        page = decode(image)
        assert page == piece.svg()
        svg = ET.fromstring(page)
        assert int(svg.get("width")) <= 660 and int(svg.get("height")) <= 72
        strokes = {e.get("stroke") for e in svg.iter() if e.tag.endswith("path")}
        assert strokes <= {*COLOURS, "#767676"}
        assert len(piece.svg()) < 40_000
        style = next(e.text for e in svg.iter() if e.tag.endswith("style"))
        assert style.startswith("@media (prefers-reduced-motion:no-preference)")


def test_every_thread_of_the_warp_and_of_the_weft_is_seen():
    draft = weave(random.Random(1))
    crossings = sum(map(len, draft.rows))
    paths = [e.get("d") for e in ET.fromstring(draft.svg()).iter() if e.get("d")]
    pieces = [piece for path in paths for piece in path.split("M")[1:]]
    lengths = [float(p.replace("v", "h").split("h")[1]) for p in pieces]
    gaps = 2 * cloth_module.GAP * len(pieces)
    assert sum(lengths) + gaps == pytest.approx(cloth_module.PITCH * crossings)


def test_no_line_repeats_before_all_were_shown(monkeypatch):
    lines = [str(cloth(make_puzzle("map"))) for _ in LINES]
    assert sorted(lines) == sorted(LINES) and len(set(LINES)) >= 30
    new_session(monkeypatch)
    assert str(cloth(make_puzzle("map"))) != lines[-1]


def test_the_puzzle_that_completes_a_group_gets_the_groups_cloth():
    first, *middle, last = GROUPS["memory"]
    solve(*middle, last)
    assert "gamp" not in cloth(make_puzzle(last)).name
    solve(first)
    wide = cloth(make_puzzle(first))
    assert wide.name == f"gamp of {len(middle) + 2} bands" and "memory" in str(wide)
    solve("map")
    assert "gamp" not in cloth(make_puzzle(first)).name  # the gamp was shown before
    assert "gamp" in cloth(make_puzzle(last)).name  # the last puzzle shows it again
