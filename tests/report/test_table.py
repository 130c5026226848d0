"""table() shows rows of a lesson as HTML and as text."""

import re

import numpy as np
import pytest

from utils import table

HEADS = "rung", "threads", "time, µs"
ROWS = [("naive", 256, 12.3456), ("tiled", None, "7.10")]


def test_text_has_aligned_columns_and_a_dash_for_what_is_missing():
    assert repr(table(ROWS, *HEADS)).splitlines() == [
        "rung   threads  time, µs",
        "naive      256      12.3",
        "tiled        –      7.10",
    ]


def test_html_aligns_numbers_to_the_right_and_has_heads_for_a_screen_reader():
    page = table(ROWS, *HEADS)._repr_html_()
    sides = re.findall(r'<td style="[^"]*text-align:(\w+)">([^<]*)<', page)
    assert sides[:3] == [("left", "naive"), ("right", "256"), ("right", "12.3")]
    assert page.count('<th scope="col"') == 3
    assert re.search(r"time, <span[^>]*>µs</span>", page)


def test_html_has_the_colours_of_its_page():
    page = table(ROWS, *HEADS)._repr_html_()
    assert "color:inherit" in page and not re.search(r"#[0-9a-f]{6}", page)


def test_rows_may_be_dicts_or_the_items_of_one():
    assert repr(table([{"a": 1}, {"a": 2, "b": 3}])) == "a  b\n1  –\n2  3"
    assert repr(table({"x": "int64"}, "name", "type")) == "name  type\nx     int64"


def test_whole_numbers_keep_all_digits_and_floats_three():
    values = [(30000, np.int64(1234567), np.float32(2 / 3), np.bool_(True))]
    assert repr(table(values)) == "30000  1234567  0.667  True"


def test_text_of_a_cell_is_escaped():
    assert "<b>" not in table([("<b>", 1)])._repr_html_()


def test_a_row_of_another_length_is_refused_with_its_number():
    with pytest.raises(ValueError, match="row 1 has 1 values; want 2 values"):
        table([(1, 2), (3,)], "a", "b")


def test_no_rows_are_a_table_of_heads():
    assert repr(table([], "a", "b")) == "a  b"
    assert "<td" not in table([], "a", "b")._repr_html_()
