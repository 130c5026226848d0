"""python -m weft bench bridges: lines, builds, calls, and what works with a bridge."""

import importlib.util
import shutil

import pytest
import torch

from weft import __main__ as command
from weft.benchmarks import bridges
from weft.benchmarks.bridges import connect, count_lines, find_support
from weft.timing.results import read_json

FAST = ["cffi", "function", "library"]
GRADIENT = ["function", "library"]


@pytest.mark.parametrize("name", FAST)
def test_a_bridge_computes_the_parabola_of_any_view(name):
    """A view has gaps, which the loops in C do not skip."""
    call, seconds = connect(name)
    wide = torch.linspace(-3, 3, 30).view(5, 6)
    for x in (wide, wide.t(), wide[:, ::2], wide[1:, 2:4], wide[:0]):
        assert torch.equal(call(x), x + 0.5 * x * x), x.shape
    assert seconds > 0


@pytest.mark.parametrize("name", GRADIENT)
def test_a_gradient_is_right_for_an_expanded_dy_and_a_view(name):
    x = torch.linspace(-3, 3, 12).view(3, 4).t().requires_grad_()
    (dx,) = torch.autograd.grad(connect(name)[0](x).sum(), x)
    assert torch.equal(dx, 1 + x)


def test_what_works_is_found_and_not_assumed():
    names = "gradient", "compile", "export", "vmap"
    only = dict.fromkeys(names, False) | {"gradient": True}
    assert find_support(connect("function")[0]) == only
    wrong = dict.fromkeys(names, True) | {"gradient": False, "compile": False}
    assert find_support(lambda x: x + x.detach() * x / 2) == wrong


@pytest.mark.slow
def test_an_op_of_the_library_works_everywhere_and_a_plain_call_nowhere():
    assert all(find_support(connect("library")[0]).values())
    assert not any(find_support(connect("cffi")[0]).values())


def test_lines_are_counted_without_comments_and_docstrings(monkeypatch, tmp_path):
    (tmp_path / "a.cpp").write_text("/* What\n * it is. */\n\nint a; // why\n\n// b\n")
    (tmp_path / "b.py").write_text('"""What\nit is."""\n\nA = """text"""  # why\n# b\n')
    monkeypatch.setattr(bridges, "SOURCES", tmp_path)
    monkeypatch.setitem(bridges.PARTS, "mine", ((), ("a.cpp", "b.py")))
    assert count_lines("mine") == 2


def test_rows_without_a_gpu_have_no_times_of_triton(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bridges, "find_support", lambda call, device: {})
    path = tmp_path / "bridges.json"
    assert command.main(f"bench bridges --rungs cffi,triton --json {path}".split()) == 0
    rows = {row["rung"]: row for row in read_json(path)["rows"]}
    assert rows.keys() == {"cffi", "triton", "torch", "kernel"}
    assert rows["triton"]["us"] is None and rows["triton"]["lines"] > 20
    assert rows["cffi"]["us"] < rows["kernel"]["us"]
    assert "without recording a gradient" in capsys.readouterr().out


def test_an_unknown_bridge_is_one_error(capsys):
    assert command.main(["bench", "bridges", "--rungs", "cffi,ctypes"]) == 1
    want = "no bridge 'ctypes'; there are cffi, function, library, stable_abi, "
    assert want in capsys.readouterr().err


def test_a_wrong_bridge_is_not_timed(monkeypatch):
    monkeypatch.setattr(bridges, "connect", lambda name: (torch.sin, 0.0))
    with pytest.raises(RuntimeError, match="cffi computed a wrong result"):
        bridges.rows(["cffi"])


@pytest.mark.slow
def test_the_stable_abi_builds_and_needs_no_python():
    """The build takes seconds. Its result links neither Python nor torch_python."""
    call, _ = connect("stable_abi")
    assert all(find_support(call).values())
    with pytest.raises(RuntimeError, match="expected float32"):
        call(torch.ones(3, dtype=torch.float64))
    with pytest.raises(RuntimeError, match="expected no gaps"):
        call(torch.ones(6)[::2])


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("ninja"), reason="load_inline needs ninja")
def test_load_inline_builds():
    """The build takes about a minute, since it includes all of PyTorch."""
    call, seconds = connect("load_inline")
    works = find_support(call)
    assert works["gradient"] and not works["compile"] and seconds > 1


@pytest.mark.skipif(
    not (importlib.util.find_spec("triton") and torch.cuda.is_available()),
    reason="Triton needs a GPU",
)
def test_triton_computes_the_same():
    call, _ = connect("triton")
    x = torch.linspace(-3, 3, 5000, device="cuda")
    assert torch.allclose(call(x), x + x * x / 2)
    assert find_support(call, "cuda")["gradient"]
