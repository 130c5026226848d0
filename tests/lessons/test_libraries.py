"""Lesson 12: calls to cuBLAS from Python, pictures, Philox, and tables."""

import pytest
import torch

from weft.base.errors import ArgumentError
from weft.lessons import libraries as lesson
from weft.timing.results import write_json


def multiply_rows(blas, a, b, c):
    m, n, k = *c.shape, a.shape[1]
    return blas.sgemm("NN", n, m, k, b, n, a, k, c, n)


def test_the_call_that_looks_right_computes_b_times_a():
    blas, n = lesson.Blas("cpu"), 8
    a, b = torch.randn(2, n, n)
    c = torch.full((n, n), torch.nan)
    assert blas.sgemm("NN", n, n, n, a, n, b, n, c, n) == 0
    assert torch.allclose(c, b @ a, atol=1e-5)
    assert not torch.allclose(c, a @ b, atol=1e-2)


def test_a_right_call_passes_the_check():
    lesson.check_product(multiply_rows, torch.randn(5, 3), torch.randn(3, 4))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            lambda blas, a, b, c: blas.sgemm("NN", 3, 3, 3, a, 3, b, 3, c, 3),
            "9 of 9 numbers of c are wrong: it is b @ a",
        ),
        (
            lambda blas, a, b, c: blas.sgemm("TT", 3, 3, 3, a, 3, b, 3, c, 3),
            "it is a @ b, stored by columns",
        ),
        (lambda blas, a, b, c: 0, "none of them was written"),
        (lambda blas, a, b, c: None, "sgemm returned None"),
        (
            lambda blas, a, b, c: blas.sgemm("NN", 3, 3, 3, a, 2, b, 3, c, 3),
            "sgemm returned 7: status 7",
        ),
    ],
)
def test_a_wrong_call_is_named(wrong, words):
    a, b = torch.arange(9.0).reshape(3, 3), torch.arange(9.0).reshape(3, 3).T * 2
    b = b.contiguous() + torch.eye(3)
    with pytest.raises(AssertionError, match=words):
        lesson.check_product(wrong, a, b)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lda": 9}, "a: 4 columns of 4 numbers, 9 apart, need 31 .* but 16 remain"),
        ({"turns": "NX"}, "'NX', expected NN, NT, TN or TT"),
        ({"c": torch.zeros(4, 4, dtype=torch.float64)}, "c is torch.float64"),
    ],
)
def test_a_call_that_would_leave_the_memory_is_refused(change, words):
    blas, x = lesson.Blas("cpu"), torch.zeros(4, 4)
    call = {"turns": "NN", "m": 4, "n": 4, "k": 4, "a": x, "lda": 4, "b": x, "ldb": 4}
    with pytest.raises(ArgumentError, match=words):
        blas.sgemm(**(call | {"c": x.clone(), "ldc": 4} | change))


def test_philox_in_python_is_curands():
    """The known answer for a counter and a key of zeros is that of Random123."""
    zeros = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert lesson.philox(0, turn=0, thread=0) == zeros
    for place in 0, 5, lesson.TURN - 1, lesson.TURN, 10**9 + 7:
        turn, rest = divmod(place, lesson.TURN)
        (number,) = lesson.draw_numbers("philox", 1, 7, place)
        assert lesson.philox(7, turn, rest // 4)[rest % 4] == number


@pytest.mark.parametrize("kind", ["philox", "xorwow"])
def test_the_drawn_order_is_that_of_the_library(kind):
    """Number n is the one that the picture names, among those of its thread."""
    count = 5_000 if kind == "xorwow" else 262_150
    numbers = lesson.draw_numbers(kind, count, 1)
    order = lesson.ORDERS["XORWOW, host" if kind == "xorwow" else "Philox, host"]
    if kind == "philox":
        for n in 0, 1, 5, 262_143, 262_144, 262_149:
            thread, drawn = order(n)
            assert lesson.philox(1, drawn // 4, thread)[drawn % 4] == numbers[n]
    else:
        assert order(4096 + 3) == (3, 1)
        later = lesson.draw_numbers(kind, 1, 1, offset=4096 + 3)
        assert later == [numbers[4096 + 3]]


def test_an_unknown_generator_is_one_error():
    with pytest.raises(ArgumentError, match="'mt', expected philox or xorwow"):
        lesson.draw_numbers("mt", 1, 0)


def test_the_pictures_show_what_the_arrays_contain():
    operands = lesson.play_operands()
    assert "sgemm(a, b) gives b @ a by rows; sgemm(b, a)" in operands.account
    leading = lesson.play_leading()
    assert "leading dimension 7: 12 of 12 cells are in the block" in leading.account
    assert "leading dimension 6: 9 of 12" in leading.account
    draws = lesson.play_draws()
    assert "Philox, host: 4 threads drew the first 16 numbers" in draws.account
    assert "XORWOW, host: 16 threads" in draws.account
    for picture in (
        operands,
        leading,
        draws,
        lesson.play_layout(),
        lesson.draw_decision(),
    ):
        assert 'role="img"' in picture.svg() and picture.width <= 920


@pytest.mark.parametrize("on_site", [True, False])
def test_rows_from_elsewhere_are_marked_and_the_site_shows_no_others(
    monkeypatch, tmp_path, on_site
):
    row = {"rung": "sgemm", "n": 256, "us": 10.0, "first_us": 5e4, "lines": 13}
    row |= {"error": 1e-5, "device": "a GPU", "target": "cuda"}
    write_json(tmp_path / "libraries_a_gpu.json", [row])
    monkeypatch.setattr("weft.benchmarks.plot_bodies.RESULTS", tmp_path)
    monkeypatch.setenv("WEFT_SITE", "1" if on_site else "0")
    monkeypatch.setattr(lesson, "HERE", ("sgemm",))
    rows = lesson.list_rows([256])
    assert {"elsewhere" in row for row in rows} == {True, on_site}
    table = lesson.draw_products(rows, 256)
    assert [*table.rows[-1][:4]] == ["Sgemm", "13", "50.0", "10"]
    assert len(table.rows) == (1 if on_site else 2)
    assert lesson.draw_products(rows, 4096).rows[0][0] == "not measured yet"


def test_rivals_are_the_fastest_rungs_at_the_largest_size():
    rivals = {row["op"]: row for row in lesson.list_rivals()}
    assert rivals.keys() == {"histogram", "scan", "sort"}
    assert rivals["scan"]["count"] == 2**28 and rivals["scan"]["rung"] == "bulk"
    faster = [op for op, row in rivals.items() if row["cub_us"] > row["us"]]
    assert faster == ["histogram", "scan", "sort"]
