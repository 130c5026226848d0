"""The rows of training steps that lesson 15b reads."""

import math

import numpy as np
import pytest

from weft.lessons.race_rows import RaceRows, start_model
from weft.mnist import initial_weights, load


@pytest.fixture(scope="module")
def rows():
    return RaceRows("cpu", ())


def test_without_a_gpu_the_rows_are_those_that_came_with_the_lab(rows):
    assert not rows.here and rows.every
    assert rows.us_of("graph") < rows.us_of("graph", batch=1024) < rows.us_of("naive")
    fastest = rows.fastest_torch()["us"]
    kinds = [rows.fastest_torch(kind)["us"] for kind in ("eager", "graph")]
    assert rows.us_of("graph") < fastest <= min(kinds)


def test_what_nobody_has_measured_is_empty_and_said(rows, capsys):
    assert rows.row_of("no rung") == {} and rows.fastest_torch("no kind") == {}
    assert math.isnan(rows.us_of("no rung")) and rows.roof_of("fp8") is None
    assert rows.conv2_back_of("no rung") is None
    rows.print_limits("no rung")
    rows.print_choice(64, None)
    output = capsys.readouterr().out
    assert output == "no rung, batch 64: not measured yet\nbatch 64: choose a rung\n"


def test_conv2s_backward_pass_is_that_of_the_named_rung(rows):
    graph, winograd = map(rows.conv2_back_of, ("graph", "winograd"))
    assert winograd.us < graph.us < rows.us_of("graph")
    assert winograd.products < graph.products


def test_the_parts_of_a_step_add_up_to_it(rows):
    row = rows.row_of("naive")
    parts = rows.parts_of(row)
    assert rows.step_of(row).us == pytest.approx(row["us"])
    assert sum(part.us for part in parts) == pytest.approx(row["us"])


def test_a_model_starts_on_the_first_device_that_has_its_rung(capsys):
    weights = initial_weights(seed=0)
    cnn = start_model("reference", ("cpu", "cpu"), load("test"), weights, max_batch=4)
    assert np.array_equal(cnn.weights["fc2.bias"], weights["fc2.bias"])
    assert start_model("no rung", ("cpu",), load("test"), weights, 4) is None
    assert "no rung" in capsys.readouterr().out
