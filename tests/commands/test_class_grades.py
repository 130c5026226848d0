"""weft class: a table, CSV and a picture of many grades."""

import json

import pytest

from weft.base.errors import ArgumentError
from weft.base.style import describe_figure
from weft.commands import class_grades


def write_grade(folder, file, student, lesson, **verdicts):
    marks = [
        {
            "name": name,
            "verdict": verdict,
            "points": float(verdict == "solved"),
            "of": 1,
        }
        for name, verdict in verdicts.items()
    ]
    path = folder / file
    path.write_text(json.dumps({"student": student, "lesson": lesson, "marks": marks}))
    return str(path)


@pytest.fixture
def files(tmp_path):
    return [
        write_grade(tmp_path, "b.json", "ben", "02a", dot="wrong", map="solved"),
        write_grade(tmp_path, "a.json", "ann", "02a", dot="solved", map="solved"),
        write_grade(tmp_path, "a1.json", "ann", "01a", zip="not solved yet"),
    ]


def test_the_table_has_a_line_per_student_and_counts_per_task(files):
    grades, problems = class_grades.read_grades(files)
    assert not problems
    tasks = class_grades.list_tasks(grades)
    lines = class_grades.write_table(grades, tasks).splitlines()
    assert "  1 01a, zip: 0 of 2 solved" in lines
    assert "  2 02a, dot: 1 of 2 solved" in lines
    assert lines[-2:] == ["ann  .xx  2 of 3", "ben   -x  1 of 2"]


def test_broken_and_double_files_are_named_and_the_rest_goes_on(files, tmp_path):
    broken = tmp_path / "broken.json"
    broken.write_text('{"student": 3}')
    again = write_grade(tmp_path, "b2.json", "ben", "02a", dot="solved", map="solved")
    grades, problems = class_grades.read_grades([*files, str(broken), again, "absent"])
    assert len(problems) == 3
    assert "broken.json is not a grade: KeyError" in problems[0]
    assert "b2.json: a second grade for ben and 02a; the better counts" in problems[1]
    assert "absent is not a grade" in problems[2]
    points = {one["student"]: class_grades._count_points(one) for one in grades}
    assert points["ben"] == 2


def test_csv_has_the_points(files):
    grades, _ = class_grades.read_grades(files)
    text = class_grades.write_csv(grades, class_grades.list_tasks(grades))
    assert text.splitlines() == [
        "student,01a.zip,02a.dot,02a.map,points",
        "ann,0.0,1.0,1.0,2.0",
        "ben,,0.0,1.0,1.0",
    ]


def test_the_picture_has_a_mark_per_student_and_task(files):
    grades, _ = class_grades.read_grades(files)
    figure = class_grades.draw_class(grades, class_grades.list_tasks(grades))
    (axes,) = figure.axes
    assert sum(len(marks.get_offsets()) for marks in axes.collections) == 2 * 3
    assert {"solved", "wrong", "missing"} <= {m.get_label() for m in axes.collections}
    assert describe_figure(figure)


def test_no_grade_at_all_is_an_error(tmp_path, capsys):
    import argparse

    parser = argparse.ArgumentParser()
    class_grades.add_arguments(parser)
    with pytest.raises(ArgumentError, match="no grade to show"):
        class_grades.main(parser.parse_args([str(tmp_path / "absent.json")]))
    assert "is not a grade" in capsys.readouterr().err
