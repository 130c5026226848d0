"""A new op, unitrms, takes only the steps that CONTRIBUTING lists (in a copy)."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from weft.base.errors import ArgumentError
from weft.ops.op import Op
from weft.toolchain import build

FILES = Path(__file__).with_name("new_op")  # the files that the steps create
TEXT = (build.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTION = TEXT.split("## How to add an op\n")[1].split("\n## ")[0]
STEPS = re.findall(r"^\d\. (.*?)(?=^\d\. |\n\n)", SECTION, re.M | re.S)
COMMANDS = re.findall(r"`python -m (weft [^`]+)`", SECTION)

USE = """
import inspect, torch, weft
from weft import ops

twin = torch.nn.functional.rms_norm
x, weight = torch.randn(33, 40), torch.randn(40)
got = [t.clone().requires_grad_() for t in (x, weight)]
want = [t.double().requires_grad_() for t in (x, weight)]
for rung in (None, "naive"):
    for t in (*got, *want):
        t.grad = None
    y = ops.unitrms(*got, rung=rung)
    exact = twin(want[0], (40,), want[1], 1e-6)
    dy = torch.randn_like(y)
    y.backward(dy)
    exact.backward(dy.double())
    assert torch.allclose(y.double(), exact, rtol=1e-5, atol=1e-5)
    for g, w in zip(got, want):
        assert torch.allclose(g.grad.double(), w.grad, rtol=1e-4, atol=1e-4)
assert ops.unitrms is weft.unitrms and "unitrms" in dir(weft)
assert [*inspect.signature(weft.unitrms).parameters] == ["x", "weight", "eps", "rung"]
assert "mean square" in weft.unitrms.__doc__
try:
    weft.unitrms(x, weight[:3])
except weft.ArgumentError as error:
    print(error)
"""


def declare(text: str, header: Path) -> None:
    """Insert declarations into weft.h, before those of the CNN."""
    before, mark, after = header.read_text().partition("/* ---- the CNN")
    header.write_text(f"{before}{text}\n{mark}{after}")


def take_steps(root: Path) -> None:
    """Write only the file that each step names first."""
    for step in STEPS:
        name = re.search(r"`([\w/]+\.\w+)`", step)[1]
        text, target = (FILES / name).read_text(), root / name
        if target.exists():
            declare(text, target)
        else:
            target.write_text(text)


def run(root: Path, *words: str) -> str:
    env = os.environ | {"PYTHONPATH": f"{root / 'lib'}:{root}"}
    process = subprocess.run(
        [sys.executable, *words], cwd=root, env=env, text=True, capture_output=True
    )
    assert process.returncode == 0, process.stdout[-3000:] + process.stderr[-3000:]
    return process.stdout


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Return a copy of the files that build and test the op, after the steps."""
    root = tmp_path_factory.mktemp("copy")
    for name in ("kernels", "lib/weft", "tests"):
        unwanted = shutil.ignore_patterns("__pycache__", "data", "new_op")
        shutil.copytree(build.ROOT / name, root / name, ignore=unwanted)
    shutil.copy(build.ROOT / "pyproject.toml", root)
    take_steps(root)
    return root


def test_the_steps_are_a_kernel_a_declaration_and_a_cases_file():
    files = {str(p.relative_to(FILES)) for p in FILES.rglob("*.*") if p.is_file()}
    files = {name for name in files if "__pycache__" not in name}
    named = {re.search(r"`([\w/]+\.\w+)`", step)[1] for step in STEPS}
    assert files == named and len(STEPS) == 3


GOOD = "int weft_scale(int rung, float *y, const float *x, size_t count, float by,"
GOOD += " weft_stream stream);\n"
WRONG = {  # the error's words for declarations and a shape that do not match
    "weft.h declares no weft_scale()": ("", "..."),
    "does not take rung, outputs, inputs": (GOOD.replace("int rung, ", ""), "..."),
    "does not take rung, outputs": (GOOD.replace("float *y", "int y"), "..."),
    "takes 'double by': expected an array": (
        GOOD.replace("float by", "double by"),
        "...",
    ),
    "its Op has no shape of {'z'}": (GOOD.replace("*y", "*z"), "..."),
    "weft_scale() takes count, which neither a shape": (GOOD, "n"),
    "weft_scale() takes times, which neither a shape": (
        GOOD.replace("by", "times"),
        "...",
    ),
    "weft_scale_backward() takes {'z'}, neither an array": (
        GOOD + GOOD.replace("scale", "scale_backward").replace("float *x", "float *z"),
        "...",
    ),
}


@pytest.mark.parametrize("words", WRONG)
def test_a_declaration_that_does_not_fit_is_one_line(words, monkeypatch, tmp_path):
    text, shape = WRONG[words]
    (tmp_path / "weft.h").write_text(text)
    monkeypatch.setattr(build, "KERNELS", tmp_path)

    def scale(x, by=2.0):
        return x * by

    with pytest.raises(ArgumentError, match=re.escape(words)) as raised:
        _ = Op(scale, {"x": shape, "y": shape}).plan
    assert "\n" not in str(raised.value)


def test_a_number_among_the_arrays_of_a_case_is_one_line():
    def relu(x):
        return x.relu()

    with pytest.raises(ArgumentError, match=r"relu: eps of a case .*number as eps="):
        Op(relu, {"x": "...", "y": "..."}).case("", {"x": None, "eps": 1e-6}, {})


@pytest.mark.slow
def test_the_commands_of_the_steps_know_the_op(root):
    check, bench = (run(root, "-m", *words.split()) for words in COMMANDS)
    assert check.count("ok     unitrms") == 2 and "WRONG" not in check
    assert re.search(r"^weft +reference +64 +1024 ", bench, re.M), bench
    assert re.search(r"^torch +eager +64 +1024 ", bench, re.M), bench


@pytest.mark.slow
def test_the_op_is_a_python_function_with_gradients(root):
    output = run(root, "-c", USE)
    assert "unitrms: weight is (3,), expected (40,), since x is (33, 40)" in output


# A pytest plugin. The new header changes every object, and all libraries would take
# five minutes of a core to build.
ONLY_THE_NEW_OP = """
import weft.benchmarks.ops  # it times every op
from weft.ops import cases
from weft.toolchain import build

assert {*cases.OPS} == {*build.list_ops()} - {"micrograd", "mnist"}
cases.OPS = ("unitrms",)
"""


@pytest.mark.slow
def test_the_suite_takes_the_op_along(root):
    (root / "only_the_new_op.py").write_text(ONLY_THE_NEW_OP)
    files = (
        "ops/test_check_ops.py",
        "benchmarks/test_bench.py",
        "see/test_inspect_kernels.py",
    )
    paths = [f"tests/{name}" for name in files]
    options = ("-p", "only_the_new_op", "-k", "unitrms or beyond_its_arrays")
    output = run(root, "-m", "pytest", "-q", "-n", "0", *options, *paths)
    assert int(re.search(r"(\d+) passed", output)[1]) >= 6
    assert "failed" not in output


@pytest.mark.slow
@pytest.mark.skipif(build.nvcc() is None, reason="needs nvcc")
def test_nvcc_compiles_the_op(root):
    script = "from weft.toolchain import build; from pathlib import Path; import sys; "
    script += "build.compile_check(Path(sys.argv[1]), build.Flavour('cuda', sm='80'))"
    run(root, "-c", script, str(root / "kernels/unitrms.cu"))
