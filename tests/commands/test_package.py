"""A wheel of `weft package` works in an environment without Weft."""

import ast
import contextlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import types
import zipfile
from pathlib import Path

import numpy as np
import pytest

from weft import ArgumentError
from weft.base.errors import BuildError
from weft.base.paths import KERNELS, ROOT
from weft.commands import package
from weft.programs import wheel
from weft.programs.wheel import read_contents
from weft.toolchain import build, native, tools

SWISH = """#include <cuda_runtime.h>
__global__ void forward(float *y, const float *x, size_t n) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] / (1.0f + expf(-x[i]));
}
__global__ void slope(float *dx, const float *dy, const float *x, size_t n) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = 1.0f / (1.0f + expf(-x[i]));
    dx[i] = dy[i] * (s + x[i] * s * (1.0f - s));
}
__global__ void add(float *y, const float *x, float a, size_t n) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
static unsigned blocks(size_t n) { return (unsigned)((n + 255) / 256); }
void swish(float *y, const float *x, size_t n, cudaStream_t stream) {
    forward<<<blocks(n), 256, 0, stream>>>(y, x, n);
}
int swish_backward(float *dx, const float *dy, const float *x, size_t n,
                   cudaStream_t stream) {
    slope<<<blocks(n), 256, 0, stream>>>(dx, dy, x, n);
    return 0;
}
void saxpy(float *y, const float *x, float a, size_t n, cudaStream_t stream) {
    add<<<blocks(n), 256, 0, stream>>>(y, x, a, n);
}
"""


@pytest.fixture(scope="module")
def packaged():
    """Return kernels/packaged/packaged.py, a module of each wheel."""
    path = KERNELS / "packaged" / "packaged.py"
    spec = importlib.util.spec_from_file_location("packaged", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CUBINS = ("75", "80", "90a", "100")


@pytest.mark.parametrize(
    "capability, expected",
    [
        ((7, 0), None),
        ((7, 5), "75"),
        ((8, 0), "80"),
        ((8, 6), "80"),
        ((8, 9), "80"),
        ((9, 0), "90a"),
        ((9, 1), None),
        ((10, 0), "100"),
        ((10, 3), "100"),
        ((12, 0), None),
    ],
)
def test_a_gpu_gets_a_cubin_of_its_major_version(packaged, capability, expected):
    assert packaged.choose_cubin(capability, CUBINS) == expected


def test_a_gpu_gets_the_newest_cubin_that_fits(packaged):
    assert packaged.choose_cubin((8, 9), ["80", "86", "90"]) == "86"
    assert packaged.choose_cubin((9, 0), ["90", "90a"]) == "90a"


def test_the_error_without_a_cubin_names_the_capability_and_the_cubins(packaged):
    assert packaged.describe_misfit((12, 0), CUBINS) == (
        "this GPU has compute capability 12.0, and the package has cubins for 7.5, "
        "8.0, 9.0a, 10.0"
    )


@pytest.fixture
def on_gpu(packaged, tmp_path, monkeypatch):
    """Return launch(), which calls f(y, x, n) as on a GPU and returns C's arguments.

    with_stream: whether f has a parameter for the stream. capability: of the GPU.
    """
    import torch

    def launch(with_stream: bool, capability: tuple[int, int], stream: int) -> list:
        params = [{"name": name, "role": "input", "dtypes": []} for name in "yx"]
        params.append({"name": "n", "role": "number", "code": "i"})
        params += [{"name": "s", "role": "stream"}] * with_stream
        row = {"name": "f", "returns": False, "params": params}
        facts = {"cubins": dict.fromkeys(CUBINS, 1), "launchers": [row]}
        (tmp_path / "launchers.json").write_text(json.dumps(facts))
        f = packaged.Package(tmp_path).launchers["f"]
        received = []
        monkeypatch.setattr(f, "_locate", lambda _, address: (address, ("cuda", 0)))
        f._functions["cuda"] = lambda *words: received.extend(words)
        current = types.SimpleNamespace(cuda_stream=stream)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda: current)
        monkeypatch.setattr(torch.cuda, "device", lambda _: contextlib.nullcontext())
        monkeypatch.setattr(
            torch.cuda, "get_device_capability", lambda _: capability, raising=False
        )
        f.call(16, 32, 3)
        return received

    return launch


def test_kernels_run_on_the_current_stream_of_pytorch(on_gpu, packaged):
    assert on_gpu(True, (9, 0), stream=7) == [16, 32, 3, 7]
    assert on_gpu(False, (8, 9), stream=0) == [16, 32, 3]
    with pytest.raises(packaged.KernelError, match="no parameter of type cudaStream_t"):
        on_gpu(False, (8, 9), stream=7)
    with pytest.raises(
        packaged.KernelError, match=r"capability 12\.0, and the package"
    ):
        on_gpu(True, (12, 0), stream=0)


def test_the_tag_follows_the_newest_symbol_of_glibc(monkeypatch):
    text = """  0x0010: Name: GLIBC_2.4  Flags: none
  0x0020: Name: GLIBC_2.34  Flags: none
  0x0030: Name: GLIBC_2.9  Flags: none
  0x0040: Name: GCC_4.2.0  Flags: none
"""
    assert sorted(wheel.read_versions(text)) == [(2, 4), (2, 9), (2, 34)]
    done = subprocess.CompletedProcess([], 0, text, "")
    monkeypatch.setattr(tools, "run", lambda *_: done)
    monkeypatch.setattr(wheel.platform, "machine", lambda: "x86_64")
    assert wheel.find_tag([Path("cpu.so")]) == "manylinux_2_34_x86_64"
    old = subprocess.CompletedProcess([], 0, "Name: GLIBC_2.2.5", "")
    monkeypatch.setattr(tools, "run", lambda *_: old)
    assert wheel.find_tag([Path("cpu.so")]) == "manylinux_2_17_x86_64"


def test_a_library_that_other_machines_lack_is_refused():
    path = native.library("relu", "cpu").path  # it needs OpenMP and the SIMT runtime
    with pytest.raises(BuildError, match=rf"{path.name} needs lib\S+, which is not"):
        wheel.find_tag([path])


def test_stubs_show_one_type_of_array_for_a_call():
    names = [("y", "output"), ("x", "input"), ("n", "count")]
    params = [{"name": name, "role": role, "code": "Q"} for name, role in names]
    for param in params[:2]:
        del param["code"]
    params.insert(2, {"name": "a", "role": "number", "code": "f"})
    rows = [{"name": "f", "returns": True, "params": params}]
    rows.append({"name": "g", "returns": False, "params": params})
    text = package.write_stubs(rows)
    ast.parse(text)
    assert "def f(x: _Array, a: float) -> _Array: ..." in text
    arrays = "y: _Array | None, x: _Array | None"
    assert f"def g({arrays}, a: float, n: int) -> None: ..." in text


def test_without_nvcc_a_remark_names_the_cure(monkeypatch):
    monkeypatch.setattr(tools, "nvcc", lambda: None)
    remarks = []
    assert wheel.list_supported(["75"], remarks) == []
    assert len(remarks) == 1 and "pip install nvidia-cuda-nvcc" in remarks[0]


def test_nvcc_compiles_only_for_the_capabilities_that_it_lists(monkeypatch):
    listed = subprocess.CompletedProcess([], 0, "sm_75\nsm_80\nsm_90\n", "")
    monkeypatch.setattr(tools, "nvcc", lambda: "nvcc")
    monkeypatch.setattr(tools, "run", lambda *_: listed)
    remarks = []
    assert wheel.list_supported(CUBINS, remarks) == ["75", "80", "90a"]
    assert remarks == ["nvcc has no cubins for 100"]
    with pytest.raises(ArgumentError, match="no cubins for 35; it has 75, 80, 90, 90a"):
        wheel.list_supported(["35"], [])


def test_without_a_compiler_the_error_names_what_to_install(tmp_path, monkeypatch):
    path = tmp_path / "swish.cu"
    path.write_text(SWISH)
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(BuildError, match=r"no C\+\+ compiler.*apt install g\+\+"):
        package.write_package(str(path), tmp_path, [])
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "op, returns", [("relu", True), ("softmax", True), ("transpose", False)]
)
def test_an_op_returns_only_outputs_of_its_inputs_shape(op, returns):
    contents = read_contents(op)
    package._compare_shapes(contents)
    assert {row["returns"] for row in contents.launchers} == {returns}


def test_a_wheel_compiles_the_runtime_without_nvidias_libraries(monkeypatch, tmp_path):
    sources = []
    monkeypatch.setattr(build, "_compile_object", lambda p, _: sources.append(p) or p)
    monkeypatch.setattr(build, "_run", lambda *_: "")
    wheel.link_cpu(read_contents("relu"), tmp_path, tmp_path / "cpu.so")
    folders = {path.parent.name for path in sources}
    assert {"runtime", "api", "device"} <= folders
    assert not folders & {"libraries", "program"}


@pytest.mark.slow
@pytest.mark.parametrize("option", ["license", "version"])
def test_setuptools_refusal_names_the_option(monkeypatch, tmp_path, option):
    (tmp_path / "pyproject.toml").write_text(
        f'[project]\nname = "a"\nversion = "1"\n{option} = "no such"\n'.replace(
            'version = "1"\nversion', "version"
        )
    )
    with pytest.raises(ArgumentError, match=f"--{option}: expected a {option}"):
        package._build_wheel(tmp_path, tmp_path)


# ---- real wheels -------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """Return the wheels of swish.cu and of relu, and the remarks on swish.cu."""
    folder = tmp_path_factory.mktemp("wheels")
    (folder / "swish.cu").write_text(SWISH)
    sms = CUBINS if tools.nvcc() else []
    mine, remarks = package.write_package(str(folder / "swish.cu"), folder, sms)
    op, _ = package.write_package("relu", folder, [])
    return mine, op, remarks


@pytest.fixture(scope="module")
def bare(tmp_path_factory, wheels):
    """Return the Python of an environment with NumPy and the wheels alone."""
    folder = tmp_path_factory.mktemp("bare") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    site = next(folder.glob("lib/python*/site-packages"))
    for source in (
        Path(np.__file__).parent,
        Path(np.__file__).parents[1] / "numpy.libs",
    ):
        if source.exists():
            (site / source.name).symlink_to(source)
    flags = ["--no-index", "--no-deps", "--quiet", "--target", site]
    command = [sys.executable, "-m", "pip", "install", *flags, *wheels[:2]]
    subprocess.run(command, check=True)
    return python


def run_bare(python: Path, *words: str, folder: Path | None = None) -> str:
    """Run the bare Python outside the checkout; return what it prints."""
    environment = {"PATH": "", "HOME": "/nonexistent"}
    if folder:
        environment["PYTHONPATH"] = str(folder)
    process = subprocess.run(
        [python, *words], cwd="/", env=environment, text=True, capture_output=True
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


@pytest.mark.slow
def test_the_wheel_works_without_weft_compiler_and_torch(bare):
    """The first call asserts that Weft and PyTorch are absent."""
    code = """
import importlib.util, numpy
assert not importlib.util.find_spec("weft") and not importlib.util.find_spec("torch")
import relu, swish
x = numpy.linspace(-3, 3, 1000).reshape(10, 100)
y = swish.swish(x.astype("float32"))
worst = numpy.abs(y - x / (1 + numpy.exp(-x))).max()
assert worst < 1e-6, worst
assert (relu.relu(x.astype("float32")) == numpy.maximum(x.astype("float32"), 0)).all()
y = numpy.ones(4, "float32")
swish.saxpy(y, numpy.arange(4, dtype="float32"), 2.0, 4)
assert y.tolist() == [1, 3, 5, 7], y
for error, call in [
    (TypeError, lambda: swish.swish(x)),
    (ValueError, lambda: swish.swish(x.astype("float32").T)),
    (ValueError, lambda: swish.swish_backward(y, y[:2])),
    (ValueError, lambda: swish.saxpy(y, y, 1.0, -1)),
]:
    try:
        call()
    except error as caught:
        print(caught)
    else:
        raise AssertionError(error)
"""
    lines = run_bare(bare, "-c", code).splitlines()
    assert lines[0] == "swish: x is float64, expected float32"
    assert lines[1].startswith("swish: x is not contiguous")
    assert lines[2] == "swish_backward: x has the shape (2,), but dy has (4,)"
    assert lines[3].startswith("saxpy: n = -1")


@pytest.mark.slow
def test_the_wheel_passes_its_own_test(bare):
    lines = run_bare(bare, "-m", "swish.test").splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["ok", "swish:"],
        ["ok", "swish_backward:"],
        ["loaded", "saxpy,"],
    ]
    assert all("no PyTorch here" in line for line in lines[:2])


@pytest.fixture
def with_torch(tmp_path):
    """Return a folder with PyTorch and its requirements, but without Weft."""
    import torch

    site = Path(torch.__file__).parents[1]
    for path in site.iterdir():
        if "weft" not in path.name and path.suffix not in (".pth", ".egg-link"):
            (tmp_path / path.name).symlink_to(path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.long
def test_the_ops_of_the_wheel_pass_opcheck_and_have_right_gradients(bare, with_torch):
    """Both wheels and Weft itself then work in one process, too."""
    assert "gradient" in run_bare(bare, "-m", "swish.test", folder=with_torch)
    assert "gradient" in run_bare(bare, "-m", "relu.test", folder=with_torch)
    code = f"""
import torch, relu, swish
x = torch.linspace(-3, 3, 1001, requires_grad=True)
both = lambda t: swish.swish(relu.relu(t))
torch.compile(both, fullgraph=True, backend="aot_eager")(x).sum().backward()
reference = x.detach().double().requires_grad_()
torch.nn.functional.silu(reference.relu()).sum().backward()
assert (x.grad - reference.grad).abs().max() < 1e-6
import sys; sys.path.insert(0, {str(ROOT / "lib")!r})
import weft
assert torch.equal(weft.relu(x.detach()), relu.relu(x.detach()))
"""
    site = next(bare.parents[1].glob("lib/python*/site-packages"))
    run_checkout("-c", code, folder=site)


def run_checkout(*words: str, folder: Path) -> str:
    """Run this Python, which has PyTorch, with `folder` in its path; see run_bare()."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    process = subprocess.run(
        [sys.executable, *words], env=environment, text=True, capture_output=True
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


@pytest.mark.slow
def test_a_wrong_gradient_fails_the_test_of_the_wheel(tmp_path):
    path = tmp_path / "wrong" / "wrong.cu"
    path.parent.mkdir()
    path.write_text(SWISH.replace("swish", "wrong").replace("x[i] * s * (1", "s * (1"))
    wheel_path, _ = package.write_package(str(path), path.parent, [])
    with zipfile.ZipFile(wheel_path) as archive:
        archive.extractall(path.parent)
    with pytest.raises(AssertionError, match="FAILED wrong: .* the gradient along"):
        run_checkout("-m", "wrong.test", folder=path.parent)


@pytest.mark.slow
def test_the_same_source_gives_the_same_bytes(wheels, tmp_path):
    """The folder has another name, and the kernels contain no path."""
    (tmp_path / "swish.cu").write_text(SWISH)
    sms = CUBINS if tools.nvcc() else []
    again, _ = package.write_package(str(tmp_path / "swish.cu"), tmp_path, sms)
    assert again.name == wheels[0].name
    assert again.read_bytes() == wheels[0].read_bytes()


@pytest.mark.slow
def test_the_wheel_contains_what_it_needs_and_exports_nothing_else(wheels, tmp_path):
    mine, _, remarks = wheels
    assert "swish-0.1.0-py3-none-manylinux_2_" in mine.name
    assert mine.stat().st_size < 1e6
    if tools.nvcc():
        assert remarks == [
            "saxpy reads y or leaves a part of it, so its caller passes all arrays"
        ]
    with zipfile.ZipFile(mine) as archive:
        archive.extractall(tmp_path)
    metadata = (tmp_path / "swish-0.1.0.dist-info" / "METADATA").read_text()
    for line in ("Name: swish", "Version: 0.1.0", "License-Expression: MIT"):
        assert line in metadata.splitlines()
    assert re.findall("^Requires-Dist: (.*)", metadata, re.MULTILINE) == [
        "numpy",
        'torch>=2.4; extra == "torch"',
    ]
    files = {path.name for path in (tmp_path / "swish").iterdir()}
    assert {"__init__.pyi", "py.typed", "test.py", "cpu.so"} <= files
    facts = json.loads((tmp_path / "swish" / "launchers.json").read_text())
    assert [*facts["cubins"]] == [*CUBINS] * bool(tools.nvcc())
    exported = {f"weft_packed_{name}" for name in ("swish", "swish_backward", "saxpy")}
    for library in (tmp_path / "swish").glob("*.so"):
        command = ["nm", "-D", "--defined-only", library]
        process = subprocess.run(command, text=True, capture_output=True, check=True)
        names = {line.split()[-1] for line in process.stdout.splitlines()}
        assert names == exported | {"weft_packed_error"}, library.name
    parts = {row["part"]: row["bytes"] for row in package.list_parts(mine)}
    assert parts["swish/cpu.so"] == (tmp_path / "swish" / "cpu.so").stat().st_size
