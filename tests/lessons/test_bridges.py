"""Lesson 13a: pictures of graphs and sizes, the table of bridges, a small network."""

import pytest
import torch

from weft.base.errors import ArgumentError
from weft.benchmarks.bridges import WORKS, connect
from weft.lessons import bridges as lesson
from weft.timing.results import write_json


def make_row(name, us, **more):
    facts = {"lines": 5, "build_s": 0.1, **dict.fromkeys(WORKS, True)}
    return {"rung": name, "us": us, "count": 16, "device": "a CPU"} | facts | more


KERNEL = make_row("kernel", 10.0, count=1000)


def test_a_call_of_c_divides_a_function_into_three_graphs():
    call = connect("function")[0]
    picture = lesson.draw_graphs(lambda x: call(torch.sin(x)) * 2, torch.ones(3))
    assert picture.title == "3 graphs, 2 breaks"
    assert "cast() is not Python: bridges.py, line" in picture.account
    assert picture.svg().count("break: ") == 2 and 'role="img"' in picture.svg()


def test_an_op_of_the_library_is_a_node_of_one_graph():
    call = connect("library")[0]
    picture = lesson.draw_graphs(lambda x: call(torch.sin(x)) * 2, torch.ones(3))
    assert picture.title == "1 graph, 0 breaks"
    assert picture.account.endswith("graph: sin, polynomial, mul")
    assert "break: " not in picture.svg()


def test_the_call_has_its_share_at_each_size():
    rows = [make_row("cffi", 2.56), make_row("torch", 9.0), KERNEL]
    picture = lesson.play_sizes([*rows, make_row("triton", None)])
    assert "cffi: call and kernel are equal at 256 elements" in picture.account
    assert "Triton" not in picture.account and "PyTorch itself" not in picture.account
    (at,) = (lesson.SIZES.index(256),)
    assert any("call: 50 % of 5.12 µs" in part for part in picture.frames[(at,)])


def test_sizes_need_the_row_of_the_kernel():
    with pytest.raises(ArgumentError, match="no row of the kernel alone"):
        lesson.play_sizes([make_row("cffi", 2.0)])


@pytest.mark.parametrize("on_site", [True, False])
def test_the_site_shows_only_committed_times(monkeypatch, tmp_path, on_site):
    names = ("cffi", "function", "library", "stable_abi", "load_inline", "torch")
    rows = [make_row(name, 1e9) for name in names] + [KERNEL]
    rows += [make_row("triton", None, build_s=None, **dict.fromkeys(WORKS))]
    write_json(tmp_path / "bridges_a_cpu.json", rows)
    monkeypatch.setattr("weft.benchmarks.plot_bodies.RESULTS", tmp_path)
    monkeypatch.setenv("WEFT_SITE", "1" if on_site else "0")
    found = {row["rung"]: row for row in lesson.list_bridges()}
    assert found.keys() == {*names, "kernel", "triton"}
    live = {name for name, row in found.items() if "elsewhere" not in row}
    assert live == (
        set() if on_site else {"cffi", "function", "library", "torch", "kernel"}
    )
    assert all(found[name]["us"] < 1e6 for name in live)
    table = lesson.draw_table(list(found.values()))
    (triton,) = (row for row in table.rows if row[0] == "Triton")
    assert [*triton[2:8]] == ["not measured"] * 6 and len(table.rows) == 7


def test_a_network_learns_from_the_same_seed_in_the_same_way():
    threads = torch.get_num_threads()
    accuracy = lesson.train_digits(torch.relu, count=2000)
    assert (
        30 < accuracy < 90 and lesson.train_digits(torch.relu, count=2000) == accuracy
    )
    assert torch.get_num_threads() == threads
    blind = lesson.train_digits(lambda x: x * 0, count=2000)
    assert blind < 20
