"""A record is written section by section, and a comparison finds the differences."""

import argparse
import json
import sys
import types

import pytest
from baseline import __main__ as command
from baseline import compare, outcomes, record, sections, texts, timings

PLAIN = argparse.Namespace(reworded=False, moved=None, runs=1, pytest="")


def lines(differences):
    """Return the differences that are not allowed."""
    return [d.text for d in differences if not d.allowed]


@pytest.fixture
def section(monkeypatch, tmp_path):
    """Provide a section called puzzles whose entries the test sets."""
    module = types.ModuleType("baseline.invented")
    module.entries = {"map": {"verdict": "solved", "text": "right " * 20}}
    module.record = lambda options: module.entries
    monkeypatch.setitem(sys.modules, "baseline.invented", module)
    monkeypatch.setitem(sections._MODULES, "puzzles", "invented")
    monkeypatch.setattr(record, "DETAILS", tmp_path / "details")
    monkeypatch.setenv("WEFT_SMALL", "1")
    return module


def test_a_second_record_is_as_the_first_until_a_field_differs(
    section, tmp_path, capsys
):
    old, new = str(tmp_path / "old.json"), str(tmp_path / "new.json")
    assert command.main(["puzzles", "--out", old]) == 0
    again = ["puzzles", "--out", new, "--compare", old]
    assert command.main(again) == 0 and "as before" in capsys.readouterr().out
    section.entries["map"]["verdict"] = "Mismatch"
    assert command.main(again) == 1
    output = capsys.readouterr().out
    assert "map: verdict: solved before, Mismatch now" in output


def test_other_words_are_a_difference_that_may_be_allowed(section, tmp_path):
    old, new = str(tmp_path / "old.json"), str(tmp_path / "new.json")
    command.main(["puzzles", "--out", old])
    section.entries["map"]["text"] = "correct " * 20
    again = ["puzzles", "--out", new, "--compare", old]
    assert command.main(again) == 1
    assert command.main([*again, "--reworded"]) == 0


def test_a_record_has_hashes_and_the_details_have_the_texts(section, tmp_path):
    path = tmp_path / "record.json"
    record.add(path, "puzzles", PLAIN)
    entry = record.read(path)["sections"]["puzzles"]["entries"]["map"]
    text = section.entries["map"]["text"]
    assert entry == {"verdict": "solved", "text": texts.digest(text)}
    assert text in (tmp_path / "details/puzzles.json").read_text()


def test_a_section_takes_the_place_of_its_older_self_alone(section, tmp_path):
    path = tmp_path / "record.json"
    content = {"format": 1, "sections": {"sass": {"commit": "1", "entries": {}}}}
    path.write_text(json.dumps(content))
    record.add(path, "puzzles", PLAIN)
    assert record.read(path)["sections"].keys() == {"sass", "puzzles"}


def test_keep_leaves_sections_of_this_commit_and_no_others(
    section, tmp_path, monkeypatch
):
    path = tmp_path / "record.json"
    monkeypatch.setattr(record, "commit", lambda: "abc")
    words = ["puzzles", "--keep", "--out", str(path)]
    command.main(words)
    section.entries = {"zip": {"verdict": "solved"}}
    command.main(words)
    assert "map" in record.read(path)["sections"]["puzzles"]["entries"]
    monkeypatch.setattr(record, "commit", lambda: "abd")
    command.main(words)
    assert "zip" in record.read(path)["sections"]["puzzles"]["entries"]


def test_entries_that_are_missing_or_new_are_differences():
    old, new = {"a": {"x": 1}, "b": {}}, {"a": {"x": 1}, "c": {}}
    changes = compare.differences(old, new, PLAIN)
    assert lines(changes) == ["b: missing now", "c: new"]


def test_what_only_one_record_has_is_noted():
    section = {"machine": "m", "entries": {"a": {}}}
    old, new = {"sections": {"sass": section}}, {"sections": {}}
    report = compare.report(old, new, ["sass"], PLAIN)
    assert "sass: not compared, the new record has none" in report.text()


def test_a_text_has_no_places_of_files_and_no_addresses(tmp_path):
    text = f"{tmp_path}/b.h:3: in tests/a.cu: memory at 0x7f12a4b5c6d8, n / 2, "
    assert texts.normalised(text + "mask 0xffff0000") == (
        "FILE:3: in a.cu: memory at 0x..., n / 2, mask 0xffff0000"
    )


# ---- tests -----------------------------------------------------------------------

TESTS = """
import pytest

@pytest.mark.parametrize("n", [1, 2])
def test_even(n):
    assert n < {limit}

@pytest.mark.slow
def {name}():
    pass
"""


@pytest.fixture
def suite(tmp_path, monkeypatch):
    """Return a function that runs the section over one file of tests."""
    monkeypatch.setattr(outcomes, "ROOT", tmp_path)
    monkeypatch.setenv("WEFT_SMALL", "1")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")

    def run(file, **words):
        for old in tmp_path.glob("test_*.py"):
            old.unlink()
        (tmp_path / file).write_text(TESTS.format(**words))
        return outcomes.record(argparse.Namespace(pytest="-n 0 -p no:cacheprovider"))

    return run


@pytest.mark.slow
def test_tests_may_move_but_neither_fail_nor_vanish(suite, tmp_path):
    old = suite("test_a.py", limit=3, name="test_long")
    assert old == {
        "test_even": {"passed": ["1", "2"]},
        "test_long": {"passed, slow": [""]},
    }
    moved = suite("test_b.py", limit=3, name="test_long")
    assert not outcomes.differences(old, moved, PLAIN)
    new = suite("test_b.py", limit=2, name="test_long_one")
    assert lines(outcomes.differences(old, new, PLAIN)) == [
        "test_even[2]: passed before, failed now",
        "test_long: missing now",
    ]
    table = tmp_path / "moved.json"
    table.write_text('{"test_long": "test_long_one", "test_even[2]": "dropped: odd"}')
    options = argparse.Namespace(moved=table)
    assert not lines(outcomes.differences(old, new, options))


def test_a_test_of_a_name_that_two_files_have_is_missed_if_one_goes():
    old = {"test_a": {"passed": ["", ""]}}
    new = {"test_a": {"passed": [""]}}
    assert lines(outcomes.differences(old, new, PLAIN)) == ["test_a: 2 before, 1 now"]


# ---- timings ---------------------------------------------------------------------


def test_a_timing_may_be_slower_by_three_percent_or_the_spread():
    quiet, noisy = ({"us": 100.0, "low": 99.0, "high": 99.0 + w} for w in (1, 9))
    slower = {"us": 105.0, "low": 104.0, "high": 106.0}
    assert lines(timings.differences({"a": quiet}, {"a": slower}, PLAIN))
    assert not lines(timings.differences({"a": noisy}, {"a": slower}, PLAIN))
    assert not lines(timings.differences({"a": slower}, {"a": quiet}, PLAIN))
    assert lines(timings.differences({"a": quiet}, {}, PLAIN))


@pytest.mark.slow
def test_an_import_that_takes_longer_is_reported(monkeypatch):
    monkeypatch.setattr(timings, "STARTS", 1)
    monkeypatch.setattr(timings, "edits", dict)
    monkeypatch.setattr(timings, "simulators", dict)
    monkeypatch.setattr(timings, "epochs", dict)
    entries = []
    for code in ("pass", "import time; time.sleep(0.5)"):
        monkeypatch.setattr(timings, "IMPORTS", {"import weft": code})
        entries.append(timings.record(argparse.Namespace(runs=1)))
    (line,) = lines(timings.differences(*entries, PLAIN))
    assert line.startswith("import weft: ")
