"""`make` reports a missing part in one sentence, and keeps existing environments."""

import importlib.metadata
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

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


def installed(cuda=None, **versions):
    """Return a Python with every listed package in version 2.7.0, except as given."""
    names = map(environment.name_of, environment.list_requirements())
    found = dict.fromkeys(names, "2.7.0")
    found |= {name.replace("_", "-"): version for name, version in versions.items()}
    return environment.Installed({n: v for n, v in found.items() if v}, cuda)


def test_a_torch_that_is_too_old_is_one_sentence():
    with pytest.raises(environment.Missing, match=r"has torch 2\.4\.1.*needs 2\.6"):
        environment.list_missing(
            environment.list_requirements(), installed(torch="2.4.1")
        )


def test_an_active_environment_keeps_its_torch_and_gets_only_what_lacks():
    wanted = environment.list_requirements()
    (only,) = environment.list_missing(wanted, installed(anywidget=""))
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


def test_a_survey_finds_packages_and_the_cuda_release_of_torch(tmp_path, monkeypatch):
    for name in ("torch", "nvidia_cuda_nvrtc_cu12"):
        folder = tmp_path / f"{name}-12.8.1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Name: {name}\nVersion: 12.8.1\n")
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise SystemExit('imported')")
    lines = "cuda_old = '1.1'\ncuda: Optional[str] = '12.8'\nhip = None\n"
    (tmp_path / "torch" / "version.py").write_text(lines)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = environment.survey(sys.executable)
    assert found.cuda == (12, 8)
    assert found.versions["nvidia-cuda-nvrtc-cu12"] == "12.8.1"
    (tmp_path / "torch" / "version.py").write_text("cuda: Optional[str] = None\n")
    assert environment.survey(sys.executable).cuda is None


@pytest.mark.parametrize(
    "line, cuda, wanted",
    [
        ("nvidia-cuda-nvrtc ==13.0.*", (12, 8), "nvidia-cuda-nvrtc-cu12 ==12.8.*"),
        ("nvidia-cuda-crt ==13.0.*", (12, 6), "nvidia-cuda-nvcc-cu12 ==12.6.*"),
        ("nvidia-cuda-nvdisasm >=13.2", (12, 8), ""),
        ("nvidia-cuda-cccl ==13.0.*", (13, 2), "nvidia-cuda-cccl ==13.2.*"),
        ("numba-cuda [cu13] >=0.24", (12, 8), "numba-cuda [cu12] >=0.24"),
        ("numpy >=2.0", (12, 8), "numpy >=2.0"),
    ],
)
def test_packages_are_from_the_cuda_release_of_torch(line, cuda, wanted):
    assert environment.match_cuda(line, cuda) == wanted


def test_every_package_of_nvidia_has_a_name_for_cuda_12():
    names = map(environment.name_of, environment.list_requirements())
    assert {n for n in names if n.startswith("nvidia-")} == set(environment._CUDA_12)


def test_a_torch_without_cuda_gets_the_release_that_is_there():
    wheel = {"nvidia_cuda_nvrtc_cu12": "12.8.93", "nvidia_cuda_cccl": ""}
    wanted = environment.list_requirements()
    assert environment.list_missing(wanted, installed()) == []
    missing = environment.list_missing(wanted, installed(**wheel))
    assert set(map(environment.name_of, missing)) == {
        *("nvidia-cuda-runtime-cu12", "nvidia-cuda-nvcc-cu12", "nvidia-cuda-cccl-cu12")
    }


# ---- hosted notebooks, from recorded lists of their packages -----------------------

IMAGES = sorted((Path(__file__).parent / "images").glob("*.txt"))
NEW_CUDA = {"-cu11": 11, "-cu12": 12, "-cu13": 13}


def read_image(path):
    """Return the packages in a list by `pip freeze`, and the version of Python."""
    facts, versions = {}, {}
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            name, _, value = line[2:].partition(": ")
            facts[name] = value
        else:
            name, _, version = line.partition("==")
            versions[environment.normalize_name(name)] = version
    assert facts["source"] and facts["date"] and len(versions) > 100
    cuda = None if facts["cuda"] == "none" else environment.parse_version(facts["cuda"])
    return environment.Installed(versions, cuda), facts["python"]


def resolve(wanted, image, python):
    """Return the packages that `wanted` adds to an image, by requirement.

    The function follows the requirements of packages that are installed here. It fails
    if one of them requires another version of a package in the image.
    """
    added, seen = {}, set()
    pending = [Requirement(line.replace(" ", "")) for line in wanted]
    while pending:
        one = pending.pop()
        name = environment.normalize_name(one.name)
        if present := image.versions.get(name):
            assert one.specifier.contains(present, prereleases=True), (
                str(one),
                present,
            )
            continue
        added.setdefault(name, str(one.specifier))
        if str(one) not in seen:
            seen.add(str(one))
            pending += list_needs(one, python)
    return added


def list_needs(one, python):
    """Return the requirements of a package installed here, for one Python."""
    try:
        package = importlib.metadata.distribution(one.name)
    except importlib.metadata.PackageNotFoundError:
        return []  # NVIDIA's packages for CUDA 12 require nothing
    if not one.specifier.contains(package.version, prereleases=True):
        return []  # this is cuda-toolkit 12, which only lists such packages
    needs = map(Requirement, package.requires or [])
    extras = one.extras or {""}
    machines = [{"python_version": python, "extra": extra} for extra in extras]
    return [
        need
        for need in needs
        if need.marker is None or any(map(need.marker.evaluate, machines))
    ]


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.stem)
def test_a_hosted_notebook_keeps_every_version(path):
    image, python = read_image(path)
    wanted = environment.list_requirements(to_develop=False)
    missing = environment.list_missing(wanted, image)
    added = resolve(missing, image, python)
    assert not {*added} & {*image.versions}
    # Packages whose upgrade crashes Colab, and packages that only developers need.
    assert not {*added} & {"ipython", "ipykernel", "tornado", "jupyterlab", "pytest"}
    assert all(f"{name}==" in environment.pin_versions(image) for name in ("torch",))
    # Every package for CUDA is from the release of the image's torch.
    major = (image.cuda or (13, 0))[0]
    for name, specifier in added.items():
        if name.startswith(("nvidia-", "cuda-toolkit")):
            ending = NEW_CUDA.get(name[-5:], 13)
            assert ending == major, name
            if "nvdisasm" not in name and "==" in specifier:
                assert specifier.startswith(f"=={major}."), (name, specifier)


def test_an_image_without_nvidias_packages_gets_those_of_its_torch():
    image, python = read_image(Path(__file__).parent / "images" / "colab_gpu.txt")
    bare = {n: v for n, v in image.versions.items() if "cuda" not in n}
    bare = environment.Installed(bare, image.cuda)
    wanted = environment.list_requirements(to_develop=False)
    added = resolve(environment.list_missing(wanted, bare), bare, python)
    nvidia = {name for name in added if name.startswith("nvidia-")}
    assert len(nvidia) >= 4 and all(name.endswith("-cu12") for name in nvidia)
    assert added["nvidia-cuda-cccl-cu12"] == "==12.8.*"
    assert added["cuda-toolkit"] == "==12.*"


def test_a_gpu_in_colab_needs_no_package():
    image, _ = read_image(Path(__file__).parent / "images" / "colab_gpu.txt")
    wanted = environment.list_requirements(to_develop=False)
    assert environment.list_missing(wanted, image) == []


def test_pip_gets_every_version_as_a_constraint(monkeypatch):
    commands = []

    def record(command):
        commands.append([*command, Path(command[command.index("-c") + 1]).read_text()])

    monkeypatch.setattr(environment, "pip_run", record)
    monkeypatch.setenv("PIP_ARGS", "--no-index")
    image = environment.Installed({"tornado": "6.5.7", "odd": "git", "a": "1.0rc1+x"})
    environment.install("python", ["numpy >=2.0"], image)
    (command,) = commands
    assert command[:4] == ["python", "-m", "pip", "install"]
    assert "--no-index" in command and "numpy>=2.0" in command
    assert command[-1] == "a==1.0rc1+x\ntornado==6.5.7\n"
    environment.install("python", [], image)
    assert len(commands) == 1  # pip had nothing to install


def test_every_requirement_is_one_that_pip_reads():
    for line in environment.list_requirements():
        name = Requirement(line.replace(" ", "")).name
        assert name == line.split()[0] == environment.name_of(line)


def test_a_user_without_a_home_gets_no_kernel_and_no_error(monkeypatch):
    def nobody(*_):
        raise RuntimeError("Could not determine home directory.")

    for name in ("JUPYTER_DATA_DIR", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(environment.Path, "home", nobody)
    monkeypatch.setattr(environment, "run", lambda command: pytest.fail("installed"))
    environment.name_kernel("/usr/bin/python3")
