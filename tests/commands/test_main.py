"""`python -m weft` refuses wrong arguments in one sentence, before any work."""

import os
import subprocess
import sys

import pytest

from weft import ArgumentError
from weft import __main__ as weft_main
from weft.base.paths import SITE
from weft.commands import doctor


@pytest.fixture
def never(monkeypatch):
    def run(*_):
        raise AssertionError("it ran")

    monkeypatch.setattr(doctor, "examine", run)


def one_sentence(capsys, *arguments) -> str:
    assert weft_main.main(list(arguments)) == 1
    message = capsys.readouterr().err
    assert message.count("\n") == 1 and message.startswith(f"weft {arguments[0]}: ")
    return message


def test_a_folder_that_is_not_there_is_told_before_the_work(never, capsys):
    message = one_sentence(capsys, "doctor", "--json", "/no/such/dir/x")
    assert "there is no folder /no/such/dir" in message


def test_a_folder_in_place_of_a_file_is_told(never, capsys, tmp_path):
    assert "is a folder" in one_sentence(capsys, "doctor", "--json", str(tmp_path))


def test_a_folder_that_is_not_ours_is_told(never, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    message = one_sentence(capsys, "doctor", "--json", str(tmp_path / "x"))
    assert f"cannot write in {tmp_path}" in message


@pytest.mark.parametrize("name", ["x", "x.bmp2"])
def test_a_picture_nobody_can_draw_is_told(capsys, tmp_path, name):
    message = one_sentence(capsys, "mnist", "--plot", str(tmp_path / name))
    assert "use .svg, .png or .pdf" in message


def test_a_refusal_ends_with_the_address_of_its_explanation(capsys):
    assert weft_main.main(["puzzles", "no_such_puzzle"]) == 1
    *_, last = capsys.readouterr().err.splitlines()
    assert last == f"explain: {SITE}/errors.html#error-{ArgumentError.entry}"


def test_a_wrong_answer_ends_with_the_address_of_its_explanation(capsys, tmp_path):
    path = tmp_path / "wrong.py"
    path.write_text(
        "def add_ten(out, a):\n    i = cuda.threadIdx.x\n    out[i] = a[i]\n"
    )
    assert weft_main.main(["puzzles", "check", str(path), "map"]) == 1
    *_, last = capsys.readouterr().out.splitlines()
    assert last.startswith(f"explain: {SITE}/errors.html#error-")


def test_without_a_command_it_lists_them_all():
    command = [sys.executable, "-m", "weft"]
    process = subprocess.run(command, text=True, capture_output=True)
    assert process.returncode == 2
    for name in weft_main.COMMANDS:
        assert f"  {name} " in process.stderr
