"""Lesson 13b: a wheel's parts, an environment without Weft, cubins, counts, stubs."""

import json
import runpy
import zipfile

import pytest
import torch

from weft.base.errors import ArgumentError, KernelError
from weft.base.paths import KERNELS
from weft.lessons import bridges, shipping
from weft.lessons.shipping import (
    CARDS,
    Room,
    check_choice,
    check_stub,
    explain_cubin,
    list_parts,
)
from weft.ops.in_triton import twin
from weft.see.pictures.rows import draw_program, play_programs

CUBINS = ["75", "80", "90a", "100"]


def write_wheel(folder, cubins):
    """Write a small wheel with the files of `weft package`; return its path."""
    path = folder / "curve-1.0-py3-none-manylinux_2_17_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("curve/cpu.so", b"c" * 6000)
        if cubins:
            archive.writestr("curve/cuda.so", b"g" * 4000)
        archive.writestr("curve/launchers.json", json.dumps({"cubins": cubins}))
        archive.writestr("curve/__init__.pyi", "def curve(x): ...\n")
    return path


def test_the_parts_of_a_wheel_are_its_files_and_cubins_a_share_of_one(tmp_path):
    wheel = write_wheel(tmp_path, {"75": 600, "80": 400})
    parts, cubins = list_parts(wheel)
    sizes = {part.name: part.size for part in parts}
    assert sizes["cpu.so"] == 6000 and sizes["cubins"] == pytest.approx(1000)
    assert sizes["cuda.so: NVIDIA's runtime"] == pytest.approx(3000)
    assert cubins == {"75": 600, "80": 400} and all(part.here for part in parts)
    picture = shipping.draw_wheel(wheel)
    assert "cubins: 1.0 kB" in picture.account and "dashed" not in picture.svg()
    assert "sm_75" in picture.svg() and "sm_100" not in picture.svg()


def test_a_wheel_without_cubins_shows_those_of_another_machine_dashed(tmp_path):
    parts, cubins = list_parts(write_wheel(tmp_path, {}))
    assert [*cubins] == CUBINS
    assert [part.here for part in parts] == [True, False, False, True]
    picture = shipping.draw_wheel(write_wheel(tmp_path, {}))
    assert "dashed: not packed here" in picture.svg()


def test_needs_are_counted_by_their_owner():
    names = "U memcpy@GLIBC_2.14 U dlopen@GLIBC_2.9 w __gmon_start__ U PyErr_Print"
    names += " U _ZN3c106detail U aoti_torch_x U _PyObject_New"
    assert shipping._describe_needs(names.split()) == (
        "2 names from the C library, the newest of version 2.14; 2 from Python, "
        "2 from PyTorch"
    )


def test_a_room_has_numpy_and_torch_and_no_weft(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(shipping.LIB))
    room = Room()
    room.run("python -c 'import weft'", fails="No module named 'weft'")
    where = 'import importlib.util as u; print(u.find_spec("torch") is not None)'
    room.run(f"python -c 'import numpy; {where}'")
    text = capsys.readouterr().out.splitlines()
    assert text[1] == "ModuleNotFoundError: No module named 'weft'"
    assert text[-1] == "True"


@pytest.mark.parametrize("fails", ["", "No module named 'weft'"])
def test_a_command_with_another_result_is_an_error(fails):
    """A command that works although it must fail is an error, too."""
    code = "import weft" if not fails else "pass"
    with pytest.raises(KernelError, match="exit status"):
        Room().run(f"python -c '{code}'", fails=fails)


@pytest.mark.parametrize(
    "card, cubin, runs",
    [
        *[((8, 0), "80", True), ((8, 6), "80", True), ((8, 0), "86", False)],
        *[((9, 0), "80", False), ((7, 5), "80", False), ((9, 0), "90a", True)],
        *[((9, 1), "90a", False), ((10, 3), "100", True), ((10, 3), "100a", False)],
        ((12, 0), "100", False),
    ],
)
def test_a_cubin_runs_on_its_major_version_and_later_minor_ones(card, cubin, runs):
    assert explain_cubin(card, cubin)[0] is runs


def test_the_package_and_the_lesson_choose_alike():
    path = KERNELS / "packaged" / "packaged.py"
    packaged = runpy.run_path(str(path))
    wheels = CUBINS, ["86", "80", "89"], ["90a"], []
    for card in *CARDS.values(), (9, 1), (10, 3):
        for cubins in wheels:
            check_choice(card, cubins, packaged["choose_cubin"](card, cubins))


def test_a_wrong_choice_is_drawn_and_refused(capsys):
    with pytest.raises(AssertionError, match=r"card 8\.6.* is '90a', not '80'"):
        check_choice((8, 6), CUBINS, "90a")
    assert "the chosen cubin: 90a" in capsys.readouterr().out
    with pytest.raises(AssertionError, match="is '100', not None"):
        check_choice((12, 0), CUBINS, "100")
    check_choice((8, 6), CUBINS, "80")


def test_each_card_of_the_picture_has_its_cubins():
    picture = shipping.play_cards(CUBINS)
    assert "T4 (7.5): 75;" in picture.account
    assert "RTX 5090 (12.0): none" in picture.account
    assert len(picture.frames) == len(CARDS)
    (last,) = (frame for at, frame in picture.frames.items() if at == (len(CARDS) - 1,))
    assert "error: this card is 12.0; the wheel has sm_75" in "".join(last)


def test_wheels_are_counted_for_each_version():
    account = shipping.play_counts().account
    assert "4: 32, 2, 1;" in account and account.endswith("10: 80, 2, 1")


def test_programs_cover_the_array_and_the_mask_excludes_the_rest():
    picture = play_programs(10)
    assert "3 programs of 4 lanes; the mask excludes 2 lanes" in picture.account
    assert picture.svg((1,)).count("<circle") == 12
    assert picture.svg((1,)).count("<circle stroke-dasharray") == 2
    with pytest.raises(ArgumentError, match="room for 1 to 24"):
        play_programs(25)


def read_all(y, x, n):
    tl = twin.language
    i = tl.program_id(0) * 4 + tl.arange(0, 4)
    tl.store(y + i, tl.load(x + i), mask=i < n)


def test_lanes_past_the_end_are_drawn_with_their_elements(capsys):
    with shipping.show_lanes():
        twin.jit(read_all)[(3,)](torch.empty(10), torch.ones(10), 10)
    text = capsys.readouterr().out
    assert "load of x, program 2: 2 of 4 lanes use an element past the end" in text
    assert "2 of 4 lanes use an element outside x" in text
    quiet = pytest.raises(AssertionError, match="no program has used an element")
    with quiet, shipping.show_lanes():
        pass


def test_a_program_far_into_an_array_is_drawn_at_its_end():
    with pytest.raises(Exception) as caught:
        twin.jit(read_all)[(300,)](torch.empty(1198), torch.ones(1198), 1198)
    assert ">1197<" in draw_program(caught.value).svg()


@pytest.mark.parametrize(
    "text, error",
    [
        ("def f(x: Tensor, n: int = 2) -> Tensor: ...", ""),
        ("def f(x: Tensor, n: int=2) -> Tensor:\n    pass", ""),
        ("def g(x: Tensor, n: int = 2) -> Tensor: ...", "the name is g, not f"),
        ("def f(x: Tensor, n: int) -> Tensor: ...", "the parameters are"),
        ("def f(x: Tensor, n: float = 2) -> Tensor: ...", "the parameters are"),
        ("def f(x: Tensor, n: int = 2): ...", "the result is None, not Tensor"),
        ("def f(x: Tensor", "was never closed"),
        ("f = 1", "is no function"),
        (None, "not a text"),
    ],
)
def test_a_stub_declares_what_the_schema_does(text, error):
    if not error:
        check_stub("a::f(Tensor x, int n=2) -> Tensor", text)
        return
    with pytest.raises(AssertionError, match=error):
        check_stub("a::f(Tensor x, int n=2) -> Tensor", text)


def test_a_kernel_that_was_not_measured_has_an_empty_row(monkeypatch):
    rows = [
        {"impl": "weft", "rung": "one", "count": 2**26, "us": 5.0, "of_copy": 0.9},
        {"impl": "weft", "rung": "two", "count": 2**26, "us": 4.0, "of_copy": 1.0},
        {"impl": "weft", "rung": "two", "count": 2**20, "us": 1.0, "of_copy": 1.0},
        {"impl": "torch", "rung": "compile", "count": 2**26, "us": 6.0, "of_copy": 0.8},
    ]
    result = {"machine": {"device": "a card", "date": "2026-11-30"}, "rows": rows}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(bridges, "load_elsewhere", lambda op: [result])
    cells = bridges.write_times(bridges.list_triton_times())
    assert cells[0] == ("polynomial", "ours", "4", "1.00", "a card, 2026-11-30")
    assert cells[1][2:] == ("not measured",) * 3
    assert cells[2][2] == "6" and cells[3][2] == "not measured"
