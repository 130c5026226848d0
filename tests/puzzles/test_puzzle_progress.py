"""What is solved outlives sessions, a cleared cache, damage and a second notebook."""

import argparse
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
from weft.base.store import Kept
from weft.puzzles import table
from weft.puzzles.catalogue import GROUPS, LESSONS, number_of
from weft.puzzles.cloth import COLOURS, LINES, cloth, weave, weave_gamp
from weft.puzzles.lessons import (
    describe_puzzle,
    list_core_puzzles,
    list_lessons,
    make_cells,
    puzzle_minutes,
)
from weft.puzzles.progress import (
    OPEN,
    SIGNS,
    SOLVED,
    WITHIN,
    note_solved,
    read_progress,
)
from weft.puzzles.puzzle import _compile_function
from weft.puzzles.score import CountRow, Score

progress_module = importlib.import_module("weft.puzzles.progress")
cloth_module = importlib.import_module("weft.puzzles.cloth")

GOOD = Score((CountRow("reads per thread", 1, 1),))
MORE = Score((CountRow("reads per thread", 2, 1),))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Each test has a cache folder and a session of its own."""
    monkeypatch.delenv("WEFT_SMALL", raising=False)
    monkeypatch.setattr(store, "_root", tmp_path)
    new_session(monkeypatch)
    return tmp_path


def new_session(monkeypatch):
    monkeypatch.setattr(progress_module, "_kept", Kept("puzzles"))
    monkeypatch.setattr(progress_module, "_set_aside", Kept("before"))
    monkeypatch.setattr(progress_module, "_latest", [])
    monkeypatch.setattr(cloth_module, "_shown", Kept("cloth"))


def named(name):
    """What solved() and cloth() need of a Puzzle."""
    (group,) = (g for g, names in GROUPS.items() if name in names)
    return types.SimpleNamespace(name=name, group=group)


def solve(*names, score=GOOD):
    for name in names:
        note_solved(named(name), "Python", score)


# ---- what is kept -------------------------------------------------------------------


def test_a_solved_puzzle_is_remembered_by_the_next_session(monkeypatch):
    assert note_solved(named("guards"), "Python", MORE)
    new_session(monkeypatch)
    assert (
        read_progress().state("guards") == SOLVED
        and read_progress().state("zip") == OPEN
    )
    assert not note_solved(named("guards"), "CUDA C", GOOD)  # no news
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
    mine = {path: path.read_text() for path in folder.rglob("*.json")}
    assert len(mine) == 2
    for path in mine:
        os.utime(path, (0, 0))  # the oldest go first
    assert store.measure_cache() == 1000
    store.prune(limit=10)
    assert store.measure_cache() == 0 and not (folder / "jit" / "old.so").exists()
    (folder / "a.so").write_bytes(bytes(500))
    assert store.clear() == 500
    assert {path: path.read_text() for path in folder.rglob("*.json")} == mine


def test_the_help_of_clear_says_what_stays(capsys):
    parser = argparse.ArgumentParser()
    store.add_arguments(parser)
    assert "progress" in parser.format_help()
    solve("map")
    store.main(parser.parse_args(["--clear"]))
    assert "kept" in capsys.readouterr().out and read_progress().count == 1


def adding(name):
    return lambda records: records.update({name: {}})


def test_two_notebooks_do_not_take_each_others_marks_away(folder):
    """Each change is made to what the file holds then, not to what was read before."""
    names = [name for group in GROUPS.values() for name in group][:8]
    begin = threading.Barrier(len(names))

    def notebook(name):
        kept = Kept("puzzles")
        begin.wait()
        for turn in range(5):
            kept.change(adding(f"{name}{turn}"))

    threads = [threading.Thread(target=notebook, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Kept("puzzles").read()) == 5 * len(names)


def _add(folder, name):
    store._root = folder
    for turn in range(20):
        Kept("other").change(adding(f"{name}{turn}"))


def test_two_processes_do_not_either(folder):
    context = multiprocessing.get_context("fork")
    both = [context.Process(target=_add, args=(folder, name)) for name in "ab"]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert len(Kept("other").read()) == 40


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "\0\0"])
def test_a_damaged_file_is_told_in_one_line_and_set_aside(folder, text, capsys):
    (folder / "kept").mkdir()
    (folder / "kept" / "puzzles.json").write_text(text)
    solve("map", "zip")
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "damaged1.json" in said
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
def test_a_record_that_is_none_counts_as_not_solved(folder, wrong):
    (folder / "kept").mkdir()
    (folder / "kept" / "puzzles.json").write_text(json.dumps({"map": wrong}))
    assert read_progress().state("map") == OPEN
    solve("map")
    assert read_progress().state("map") == WITHIN


def test_where_nothing_can_be_written_the_session_remembers(folder, capsys):
    (folder / "kept").write_text("a file where the folder should be")
    solve("map", "zip")
    assert read_progress().count == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "this session only" in said


def test_a_cache_folder_that_cannot_be_written_is_one_line(folder, capsys, monkeypatch):
    monkeypatch.setattr(store, "is_lasting", lambda: False)
    store._warn_not_lasting.cache_clear()
    solve("map", "zip")
    cloth_module.cloth(named("map"))
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "cannot be written" in said


def test_in_the_suite_nothing_is_written(folder, monkeypatch):
    monkeypatch.setenv("WEFT_SMALL", "1")
    solve("map")
    assert read_progress().count == 1 and not list(folder.rglob("*.json"))


# ---- moving and forgetting -----------------------------------------------------------


def test_progress_goes_to_another_machine_and_loses_nothing_there(
    folder, tmp_path_factory, monkeypatch
):
    solve("map", "zip")
    away = tmp_path_factory.mktemp("away")
    said = repr(read_progress().export(away / "mine.json"))
    assert "2 puzzles" in said and 'load("mine.json")' in said and "Colab" in said
    monkeypatch.setattr(store, "_root", away)
    new_session(monkeypatch)
    solve("zip", "guards", score=MORE)
    there = read_progress().load(away / "mine.json")
    states = [there.state(name) for name in ("map", "zip", "guards", "blocks")]
    assert states == [WITHIN, WITHIN, SOLVED, OPEN]


def test_what_is_no_export_is_refused_in_one_line(folder):
    (folder / "other.json").write_text('{"puzzles": []}')
    (folder / "text.json").write_text("puzzles")
    for name in ("other.json", "text.json"):
        with pytest.raises(ArgumentError, match=r"is no file that export\(\) wrote"):
            read_progress().load(folder / name)
    with pytest.raises(ArgumentError, match="missing.json: No such file"):
        read_progress().load(folder / "missing.json")
    with pytest.raises(ArgumentError, match="export: .*No such file"):
        read_progress().export(folder / "no" / "x.json")


def test_reset_forgets_one_or_all_and_sets_what_was_there_aside(folder):
    solve("map", "zip", "guards")
    assert read_progress().reset("zip").count == 2
    with pytest.raises(ArgumentError, match="no puzzle 'zap'; there are map, zip"):
        read_progress().reset("zap")
    assert read_progress().reset().count == 0
    before = json.loads((folder / "kept" / "before.json").read_text())
    assert set(before) == {"map", "guards"}
    with pytest.raises(ArgumentError, match="language 'Rust'"):
        note_solved(named("map"), "Rust", None)


# ---- shown --------------------------------------------------------------------------


def test_the_table_has_a_mark_with_a_title_for_each_puzzle():
    solve("map")
    solve("zip", score=MORE)
    page = ET.fromstring(read_progress()._repr_html_())
    titles = [e.text for e in page.iter() if e.tag.endswith("title")]
    for names in GROUPS.values():
        for name in names:
            assert sum(t.startswith(f"{name}: ") for t in titles) == 1


def test_the_marks_differ_in_shape_and_none_is_a_minus():
    drawn = {state: table.mark(state, state) for state in (OPEN, SOLVED, WITHIN)}
    paths = [re.findall(r'<path d="([^"]*)"', svg) for svg in drawn.values()]
    assert 'fill="none"' in drawn[OPEN] and [len(found) for found in paths] == [0, 1, 1]
    assert paths[1] != paths[2]
    for (path,) in paths[1:]:  # a minus is one line to the side
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
        said = int(re.fullmatch(r"(\d+) minutes", minutes.text)[1])
        assert said == round(sum(puzzle_minutes(name) for name in names))
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


def test_a_puzzles_link_leads_to_the_cell_that_asks():
    """By its id: JupyterLab finds no heading in a notebook that it has just opened."""
    map2d = "01a_kernels_in_python.ipynb#cell-id=puzzle-map2d-asked"
    assert puzzles.map2d.link == map2d
    for puzzle in puzzles:
        (first, *_) = make_cells([puzzle.name], answered=False)
        assert puzzle.link.partition("#cell-id=")[2] == first.id
        assert first.source == describe_puzzle(puzzle)


def test_a_puzzle_takes_reading_and_a_minute_for_each_line_of_its_answer():
    assert 3 < puzzle_minutes("map") < 5
    assert puzzle_minutes("matmul_budget") > 15


def test_the_text_says_what_is_solved_and_what_is_next():
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


def test_next_is_the_first_that_is_not_solved(capsys):
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
def test_the_stub_of_a_solved_puzzle_says_so(name, capsys):
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


def test_the_stub_in_c_of_a_solved_puzzle_says_so(capsys):
    note_solved(puzzles.map, "CUDA C")
    assert puzzles.map.check(load_cuda(puzzles.map.cuda_c_stub, target="cpu")) is None
    assert "solved already, in CUDA C on " in capsys.readouterr().out


def test_a_new_attempt_at_a_solved_puzzle_is_judged_as_one(capsys):
    def add_ten(out, a):
        out[0] = a[0]
        raise NotImplementedError

    solve("map")
    puzzles.map.check(add_ten)
    assert "still stands in add_ten" in capsys.readouterr().out


def test_what_was_solved_under_an_older_order_of_groups_counts(folder, monkeypatch):
    """Records go by a puzzle's name; groups and lessons may change."""
    record = {"Python": {"when": "2026-11-01", "within": True, "score": {}}}
    old = ("map", "guards", "shared", "dot", "divergence", "scan_add")
    (folder / "kept").mkdir()
    path = folder / "kept" / "puzzles.json"
    path.write_text(json.dumps(dict.fromkeys(old, record)))
    new_session(monkeypatch)
    assert read_progress().count == len(old)
    assert {read_progress().state(name) for name in old} == {WITHIN}
    assert len(list(puzzles)) == 31 and puzzles.next() is puzzles.zip


# ---- cloth ---------------------------------------------------------------------------


def drafts():
    made = [weave(random.Random(seed)) for seed in range(80)]
    return made + [weave_gamp(names) for names in GROUPS.values()]


def longest(row):
    """The longest run of equal ones, and whether there are two kinds."""
    run = best = 1
    for left, right in itertools.pairwise(row):
        run = run + 1 if left == right else 1
        best = max(best, run)
    return best, len(set(row)) == 2


def test_every_cloth_holds_together():
    """Each thread goes over and under, and floats over seven at most: a satin's."""
    assert len({made.name for made in drafts()}) > 8
    for made in drafts():
        rows = made.rows
        for line in [*rows, *zip(*rows)]:
            floats, both = longest(line)
            assert both and floats <= 8, made.name


def test_a_cloth_is_small_and_well_formed_and_has_the_labs_colours():
    for made in drafts():
        piece = replace(made, line="a < b")
        page = ET.fromstring(piece._repr_html_())
        svg = next(e for e in page.iter() if e.tag.endswith("svg"))
        assert int(svg.get("width")) <= 660 and int(svg.get("height")) <= 72
        strokes = {e.get("stroke") for e in svg.iter() if e.tag.endswith("path")}
        assert strokes <= {*COLOURS, "#767676"}
        assert len(piece.svg()) < 40_000
        style = next(e.text for e in page.iter() if e.tag.endswith("style"))
        assert style.startswith("@media (prefers-reduced-motion:no-preference)")


def test_every_thread_of_the_warp_and_of_the_weft_is_seen():
    made = weave(random.Random(1))
    crossings = sum(map(len, made.rows))
    paths = [e.get("d") for e in ET.fromstring(made.svg()).iter() if e.get("d")]
    pieces = [piece for path in paths for piece in path.split("M")[1:]]
    lengths = [float(p.replace("v", "h").split("h")[1]) for p in pieces]
    gaps = 2 * cloth_module.GAP * len(pieces)
    assert sum(lengths) + gaps == pytest.approx(cloth_module.PITCH * crossings)


def test_no_line_comes_again_before_all_have_been_shown(monkeypatch):
    lines = [str(cloth(named("map"))) for _ in LINES]
    assert sorted(lines) == sorted(LINES) and len(set(LINES)) >= 30
    new_session(monkeypatch)
    assert str(cloth(named("map"))) != lines[-1]


def test_the_puzzle_that_completes_a_group_gets_the_groups_cloth():
    first, *rest, last = GROUPS["memory"]
    solve(*rest, last)
    assert "gamp" not in cloth(named(last)).name
    solve(first)
    wide = cloth(named(first))
    assert wide.name == f"gamp of {len(rest) + 2} bands" and "memory" in str(wide)
    solve("map")
    assert "gamp" not in cloth(named(first)).name  # it was shown
    assert "gamp" in cloth(named(last)).name  # there it is found again
