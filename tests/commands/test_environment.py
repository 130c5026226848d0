"""`make` reports a missing part in one sentence, and keeps existing environments."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from weft.base.paths import ROOT
from weft.commands import environment

SCRIPT = ROOT / "lib/weft/commands/environment.py"


def run(*arguments, **env):
    clean = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHON")}
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments],
        text=True,
        capture_output=True,
        env={**clean, **env},
    )


@pytest.fixture
def fake_python(tmp_path):
    """Make programs that answer `-c script` like a Python that lacks something."""

    def make(body: str) -> str:
        path = tmp_path / "bin" / "python3"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IEXEC)
        return str(path)

    return make


def test_a_missing_compiler_is_one_sentence():
    process = run(CXX="no-such-compiler")
    assert process.returncode == 1
    assert process.stderr.count("\n") == 1
    assert "apt install g++" in process.stderr


def test_a_python_that_is_not_there_is_one_sentence():
    process = run(PYTHON="/no/such/python")
    assert process.returncode == 1
    assert (
        process.stderr
        == "weft: PYTHON=/no/such/python: this machine has no such program.\n"
    )


def test_a_missing_venv_module_is_one_sentence(fake_python, monkeypatch):
    python = fake_python('case "$2" in *ensurepip*) exit 1;; *) echo 3 12;; esac')
    monkeypatch.setattr(environment.sys, "executable", python)
    with pytest.raises(environment.Missing, match="apt install python3-venv"):
        environment.make_venv()


@pytest.mark.parametrize("end", ["exit 1", "kill -INT $PPID; sleep 9"])
def test_half_an_environment_is_not_left_behind(fake_python, tmp_path, end):
    venv = tmp_path / "venv"
    make = f"mkdir -p {venv}/bin; echo 'No space left' >&2; {end}"
    python = fake_python(f'case "$2" in venv) {make};; *) echo 3 12;; esac')
    script = (
        "import signal, sys; from pathlib import Path\n"
        "from weft.commands import environment as e\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"e.VENV, e.sys.executable = Path({str(venv)!r}), {python!r}\n"
        "e.choose = lambda: (str(e.VENV / 'bin/python'), True)\n"
        "sys.exit(e.main([]))"
    )
    process = subprocess.run(
        [sys.executable, "-c", script], text=True, capture_output=True
    )
    lines = process.stderr.splitlines()
    assert process.returncode == (1 if "exit" in end else 130), process.stderr
    assert len(lines) == 2 and lines[0] == f"weft: creating {venv}"
    assert ("No space left" if "exit" in end else "stopped") in lines[1]
    assert not venv.exists()


def test_a_python_that_is_too_old_is_one_sentence(fake_python, monkeypatch):
    monkeypatch.setattr(environment.sys, "executable", fake_python("echo 3 9"))
    monkeypatch.setattr(environment.shutil, "which", lambda name: None)
    with pytest.raises(environment.Missing, match=r"the lab needs 3\.11 to 3\.13"):
        environment.base_python()


def test_a_torch_that_is_too_old_is_one_sentence(fake_python):
    count = len(environment.list_requirements())
    python = fake_python(f"for i in $(seq {count}); do echo 2.4.1; done")
    with pytest.raises(environment.Missing, match=r"has torch 2\.4\.1.*needs 2\.6"):
        environment.list_missing(python, environment.list_requirements())


def test_an_active_environment_keeps_its_torch_and_gets_only_what_lacks(fake_python):
    requirements = environment.list_requirements()
    versions = ["-" if "anywidget" in line else "2.7.0" for line in requirements]
    python = fake_python("; ".join(f"echo {v}" for v in versions))
    (only,) = environment.list_missing(python, requirements)
    assert only.startswith("anywidget")


def test_an_active_environment_is_preferred_to_our_own(monkeypatch, fake_python):
    python = fake_python("true")
    prefix = Path(python).parents[1]
    os.symlink(python, prefix / "bin" / "python")
    for name in ("PYTHON", "CONDA_PREFIX", "COLAB_RELEASE_TAG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("VIRTUAL_ENV", str(prefix))
    assert environment.choose() == (f"{prefix}/bin/python", False)
    monkeypatch.delenv("VIRTUAL_ENV")
    assert environment.choose() == (str(environment.VENV / "bin/python"), True)


def test_the_package_list_is_the_pip_part_of_environment_yml():
    requirements = environment.list_requirements()
    assert "torch ==2.13.0" in requirements
    assert not any("conda-forge" in line for line in requirements)
    assert len(requirements) == len(set(requirements)) > 8


@pytest.mark.slow
@pytest.mark.skipif(
    not (Path(sys.prefix) / ".weft-ready").exists(),
    reason="make did not prepare this environment, and a test must not",
)
def test_arguments_reach_the_python_that_was_prepared(tmp_path):
    words = "-c", "import sys; print(sys.argv[1])", "hello"
    process = run(*words, PYTHON=sys.executable, JUPYTER_DATA_DIR=str(tmp_path))
    assert process.stdout == "hello\n"


def test_nvidias_packages_of_cuda_12_count(fake_python, tmp_path):
    """These packages belong to the installed torch, so none of CUDA 13 is added."""
    requirements = environment.list_requirements()
    for name in ("torch", "nvidia_cuda_nvrtc_cu12"):
        folder = tmp_path / f"{name}-12.8.1.dist-info"
        folder.mkdir()
        name = name.replace("_", "-")
        (folder / "METADATA").write_text(f"Name: {name}\nVersion: 12.8.1\n")
    python = fake_python(f'exec {sys.executable} -S -E "$@"')
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)  # `python -c` searches this folder first.
        lacking = environment.list_missing(python, requirements)
    names = {line.split()[0] for line in lacking}
    assert "nvidia-cuda-nvrtc" not in names and "nvidia-cuda-cccl" in names
    assert any(line.startswith("numba-cuda [cu12]") for line in lacking)


def test_every_requirement_is_one_that_pip_reads():
    requirement = pytest.importorskip("packaging.requirements").Requirement
    for line in environment.list_requirements():
        assert requirement(line.replace(" ", "")).name == line.split()[0]


def test_a_user_without_a_home_gets_no_kernel_and_no_error(monkeypatch):
    def nobody(*_):
        raise RuntimeError("Could not determine home directory.")

    for name in ("JUPYTER_DATA_DIR", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(environment.Path, "home", nobody)
    monkeypatch.setattr(environment, "run", lambda command: pytest.fail("installed"))
    environment.name_kernel("/usr/bin/python3")
