"""Answers in C: checked in a child, so that a wrong one leaves Python alive."""

import gc

import pytest

from weft.notebook import exercises
from weft.notebook.exercises import exercise, from_c


def one(tmp_path, body, check=lambda f: None):
    path = tmp_path / "one.c"
    path.write_text(f"int one(int *p);\nint one(int *p) {{ {body} }}\n")
    exercise(from_c(path, "int one(int *p)"), check)


def check_null(function):
    from cffi import FFI

    got = function(FFI().NULL)
    assert got == 1, f"{got}, not 1"
    print("it is one")


def test_right_answer_is_solved_and_its_output_is_seen(tmp_path, capsys):
    one(tmp_path, "return p == 0;", check_null)
    assert capsys.readouterr().out == "it is one\none: solved\n"


def test_its_library_stays_open(tmp_path):
    def check(function):
        gc.collect()
        check_null(function)

    one(tmp_path, "return p == 0;", check)


def test_stub_is_not_solved_yet(tmp_path, capsys):
    one(tmp_path, "\n#error not solved yet\n", check_null)
    assert capsys.readouterr().out == "one: not solved yet\n"


@pytest.mark.parametrize(
    ["body", "says"],
    [("(void)p; return 2;", "2, not 1"), ("return *p;", "one was ended by SIGSEGV")],
)
def test_wrong_answer_raises_here(tmp_path, body, says):
    with pytest.raises(AssertionError, match=says):
        one(tmp_path, body, check_null)


def test_a_loop_that_never_ends_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(exercises, "SECONDS", 0.5)
    with pytest.raises(AssertionError, match=r"still running after 0.5 s"):
        one(tmp_path, "for (volatile int i = 0; !p; i = 0) {} return 1;", check_null)


def test_the_compiler_is_quoted(tmp_path):
    with pytest.raises(RuntimeError, match="one.c:2:.*error"):
        one(tmp_path, "return q;", check_null)


def test_warnings_are_shown(tmp_path, capsys):
    one(tmp_path, "return 1;", check_null)
    assert "unused parameter" in capsys.readouterr().out
