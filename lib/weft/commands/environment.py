"""Prepare the lab's Python environment, then run Python in it.

    python3 lib/weft/commands/environment.py -m weft doctor

The script needs only python3. It uses the first available of these: the interpreter in
PYTHON, an active conda or virtual environment, the Python of a hosted notebook (Colab,
Kaggle), or .venv, which the script creates. environment.yml lists the packages. .venv
gets exactly the listed versions. Elsewhere, installed packages (above all torch) keep
their versions, and pip adds only missing ones, built for that torch's CUDA release. pip
also gets the options in PIP_ARGS. The user's Jupyter gets a kernel named Weft that runs
this Python.

A hosted notebook keeps its kernel and gets only the packages that lessons need. It
finds the lab through PYTHONPATH, since installing the lab as a package would take
longer than everything else.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
VENV = ROOT / ".venv"
PYTHONS = ((3, 11), (3, 13))  # oldest and newest supported versions
OLDEST_TORCH = (2, 6)
TO_DEVELOP = "# ---- to develop ----"  # the line that divides environment.yml


class Missing(Exception):
    """Something must be installed first; the message names it."""


def main(arguments: list[str]) -> int:
    try:
        python, is_ours = choose()
        prepare(python, is_ours)
    except Missing as missing:
        print(f"weft: {missing}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("weft: stopped; the same command continues", file=sys.stderr)
        return 130
    if not arguments:
        return 0
    sys.stdout.flush()
    os.execv(python, [python, *arguments])


def choose() -> tuple[str, bool]:
    """Return the interpreter to use, and whether it is the lab's .venv."""
    if name := os.environ.get("PYTHON"):
        path = shutil.which(name)
        if not path:
            raise Missing(f"PYTHON={name}: this machine has no such program.")
        return path, False
    prefix = os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX")
    if prefix and Path(prefix) != VENV and (Path(prefix) / "bin/python").exists():
        return f"{prefix}/bin/python", False
    if is_hosted():
        return sys.executable, False
    return str(VENV / "bin" / "python"), True


def is_hosted() -> bool:
    """Return whether this machine runs a hosted notebook."""
    return "COLAB_RELEASE_TAG" in os.environ or "KAGGLE_KERNEL_RUN_TYPE" in os.environ


def is_colab() -> bool:
    """Return whether this machine is Colab's. Kaggle's image is made from Colab's."""
    return (
        "COLAB_RELEASE_TAG" in os.environ and "KAGGLE_KERNEL_RUN_TYPE" not in os.environ
    )


def prepare(python: str, ours: bool) -> None:
    """Install missing packages, unless nothing has changed since the last run."""
    if not shutil.which(os.environ.get("CXX", "g++")):
        raise Missing("there is no C++ compiler; on Debian or Ubuntu: apt install g++")
    if is_hosted():
        installed = survey(python)
        missing = list_missing(list_requirements(to_develop=False), installed)
        install(python, missing, installed)
        add_to_path(os.environ)
        return
    if ours and not (VENV / "bin" / "python").exists():
        make_venv()
    requirements = list_requirements()
    stamp = Path(prefix_of(python)) / ".weft-ready"
    key = hashlib.sha256(f"{ROOT}{requirements}".encode()).hexdigest()
    if not (stamp.exists() and stamp.read_text() == key):
        if ours:
            install(python, requirements)
        else:
            installed = survey(python)
            install(python, list_missing(requirements, installed), installed)
        install_lab(python)
        # In a read-only environment, the next run compares the packages again.
        with contextlib.suppress(OSError):
            stamp.write_text(key)
    name_kernel(python)


def add_to_path(environment: os._Environ[str]) -> None:
    """Add the lab to PYTHONPATH, for Python processes with this environment."""
    others = environment.get("PYTHONPATH", "").split(os.pathsep)
    paths = dict.fromkeys([str(ROOT / "lib"), str(ROOT), *filter(None, others)])
    environment["PYTHONPATH"] = os.pathsep.join(paths)


# ---- hosted notebooks ----------------------------------------------------------------

KEEP = (
    "Weft: Colab deletes your progress with this machine. To keep it in your Drive: "
    'from google.colab import drive; drive.mount("/content/drive"); import weft; '
    'weft.keep("/content/drive/MyDrive/weft")'
)


def prepare_notebook() -> None:
    """Prepare a hosted notebook's Python for the lab, and describe its GPU, if any.

    The notebook's first cell calls this function, which changes to the folder of the
    notebooks. Raises IPython's UsageError if packages cannot be installed.
    """
    _install_in_notebook()
    os.chdir(ROOT / "notebooks")
    add_to_path(os.environ)  # child processes inherit the path
    paths = [str(ROOT / "lib"), str(ROOT)]
    sys.path[:] = paths + [path for path in sys.path if path not in paths]
    # Imported here, since this file runs before the packages are installed.
    from weft.base import device

    print(f"Weft: ready in {ROOT}. {device.describe_card()}")
    if is_colab():
        print(KEEP)


def _install_in_notebook() -> None:
    """Run this file in a child process, and show its output in the notebook."""
    # Imported here, since `make` runs this file with a Python that has no IPython.
    from IPython.core.error import UsageError

    with subprocess.Popen(
        [sys.executable, "-u", __file__],
        env=os.environ | {"PYTHON": sys.executable},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            print(line, end="", flush=True)
    if running.returncode:
        raise UsageError("Weft is not installed; see above. Then run this cell again.")


# ---- packages ------------------------------------------------------------------------


def list_requirements(to_develop: bool = True) -> list[str]:
    """Return the lines under `- pip:` in environment.yml, in pip's format.

    to_develop: whether to include packages that lessons do not need, such as pytest.
    """
    text = (ROOT / "environment.yml").read_text().split("  - pip:\n")[1]
    if not to_develop:
        text = text.partition(TO_DEVELOP)[0]
    return [line.strip()[2:] for line in text.splitlines() if line.strip()[:2] == "- "]


@dataclass(frozen=True)
class Installed:
    """The packages of an interpreter: versions by pip's normalised names.

    cuda: the CUDA release of torch, such as (12, 8); None without torch, or
    for a torch without CUDA.
    """

    versions: Mapping[str, str]
    cuda: tuple[int, int] | None = None


_SURVEY = """
import importlib.metadata, importlib.util, json, pathlib, re
packages = importlib.metadata.distributions()
versions = {p.metadata["Name"]: p.version for p in packages if p.metadata["Name"]}
torch = importlib.util.find_spec("torch")  # importing it would take seconds
text = pathlib.Path(torch.origin).with_name("version.py").read_text() if torch else ""
cuda = re.search(r"^cuda\\b.*= *['\\"]([0-9.]+)", text, re.M)
print(json.dumps([versions, cuda and cuda[1]]))
"""


def survey(python: str) -> Installed:
    """List the packages that an interpreter finds."""
    versions, cuda = json.loads(run([python, "-c", _SURVEY]))
    named = {normalize_name(name): version for name, version in versions.items()}
    return Installed(named, parse_version(cuda) if cuda else None)


def normalize_name(name: str) -> str:
    """Return a package's name in pip's normalised spelling."""
    return re.sub(r"[-_.]+", "-", name).lower()


def name_of(requirement: str) -> str:
    """Return the package's name at the beginning of a requirement."""
    return re.split(r"[ \[=<>!~;]", requirement)[0]


def list_missing(wanted: list[str], installed: Installed) -> list[str]:
    """List the packages in `wanted` that are not installed in any version.

    A user's environment keeps its versions, even if .venv requires others, and gets
    missing packages built for its torch's CUDA release.
    """
    torch = installed.versions.get("torch")
    if torch and parse_version(torch) < OLDEST_TORCH:
        raise Missing(
            f"this Python has torch {torch}, but the lab needs "
            f"{'.'.join(map(str, OLDEST_TORCH))} or later: upgrade it, or deactivate "
            f"the environment, so that make builds .venv."
        )
    cuda = installed.cuda
    if not cuda and (wheel := installed.versions.get(_CUDA_12["nvidia-cuda-nvrtc"])):
        cuda = parse_version(wheel)  # for a torch without CUDA
    if cuda:
        wanted = [match_cuda(line, cuda) for line in wanted]
    return [line for line in wanted if line and name_of(line) not in installed.versions]


# CUDA 12's packages have other names. Its crt headers are in nvcc's package. For CUDA
# 12, torch's own Triton contains the disassembler.
_CUDA_12 = {
    "nvidia-cuda-nvrtc": "nvidia-cuda-nvrtc-cu12",
    "nvidia-cuda-runtime": "nvidia-cuda-runtime-cu12",
    "nvidia-cuda-crt": "nvidia-cuda-nvcc-cu12",
    "nvidia-cuda-cccl": "nvidia-cuda-cccl-cu12",
    "nvidia-cuda-nvdisasm": "",
}


def match_cuda(line: str, cuda: tuple[int, int]) -> str:
    """Return a requirement for a CUDA release; "" if that release needs none.

    line: from environment.yml, and therefore for CUDA 13.0. cuda: such as (12, 8).
    """
    line = line.replace("[cu13]", f"[cu{cuda[0]}]")
    line = line.replace("==13.0.*", f"=={cuda[0]}.{cuda[1]}.*")
    name = name_of(line)
    if cuda[0] > 12 or name not in _CUDA_12:
        return line
    return _CUDA_12[name] and line.replace(name, _CUDA_12[name])


def install(python: str, packages: list[str], keep: Installed | None = None) -> None:
    """Install packages with pip; packages in `keep` keep their versions."""
    if not packages:
        return
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check"]
    pip += shlex.split(os.environ.get("PIP_ARGS", ""))
    names = ", ".join(map(name_of, packages)) if is_hosted() else ", ".join(packages)
    print(f"weft: installing {names}", file=sys.stderr)
    if is_hosted():  # elsewhere pip shows its progress: torch's files are gigabytes
        pip += ["-q", "--root-user-action=ignore"]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        if keep:
            constraints.write(pin_versions(keep))
            constraints.flush()
            pip += ["-c", constraints.name]
        pip_run([*pip, *(line.replace(" ", "") for line in packages)])


def pin_versions(installed: Installed) -> str:
    """Return pip's constraints that forbid another version of any installed package."""
    is_version = re.compile(r"\d+(\.\d+)*((a|b|rc|\.post|\.dev)\d+)*(\+[\w.]+)?")
    return "".join(
        f"{name}=={version}\n"
        for name, version in sorted(installed.versions.items())
        if is_version.fullmatch(version)  # pip refuses a file with any other version
    )


def install_lab(python: str) -> None:
    """Install weft as an editable package."""
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "-q"]
    extra = shlex.split(os.environ.get("PIP_ARGS", ""))
    pip_run([*pip, *extra, "--no-deps", "-e", str(ROOT)])


# ---- Jupyter, .venv ------------------------------------------------------------------


def name_kernel(python: str) -> None:
    """Register the interpreter with the user's Jupyter as the kernel Weft."""
    try:
        kernel = jupyter_data() / "kernels" / "weft" / "kernel.json"
    except RuntimeError:  # this user has no home folder
        return
    # A kernel may be missing or broken.
    with contextlib.suppress(OSError, ValueError, LookupError):
        if json.loads(kernel.read_text())["argv"][0] == python:
            return
    options = ["--user", "--name", "weft", "--display-name", "Weft"]
    # A read-only home must not stop the run, since `make lab` needs no such kernel.
    with contextlib.suppress(subprocess.CalledProcessError):
        run([python, "-m", "ipykernel", "install", *options])


def jupyter_data() -> Path:
    """Return the folder of this user's Jupyter data."""
    if folder := os.environ.get("JUPYTER_DATA_DIR"):
        return Path(folder)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Jupyter"
    share = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(share) / "jupyter"


def make_venv() -> None:
    python = base_python()
    try:
        run([python, "-c", "import ensurepip, venv"])
    except subprocess.CalledProcessError:
        raise Missing(
            "python3 has no venv module; on Debian or Ubuntu: apt install python3-venv"
        ) from None
    print(f"weft: creating {VENV}", file=sys.stderr)
    try:
        run([python, "-m", "venv", str(VENV)])
    except BaseException as error:
        # With an incomplete .venv, which lacks pip, the next run would fail.
        shutil.rmtree(VENV, ignore_errors=True)
        if not isinstance(error, subprocess.CalledProcessError):
            raise
        message = (error.stderr + error.stdout).strip() or f"exit {error.returncode}"
        raise Missing(f"cannot create {VENV}: {message.splitlines()[-1]}") from None


def base_python() -> str:
    """Return an interpreter whose version the lab supports."""
    low, high = PYTHONS
    names = [f"python3.{minor}" for minor in range(high[1], low[1] - 1, -1)]
    for name in [sys.executable, *filter(None, map(shutil.which, names))]:
        parts = run([name, "-c", "import sys; print(*sys.version_info[:2])"]).split()
        if low <= tuple(map(int, parts)) <= high:
            return name
    version = ".".join(map(str, sys.version_info[:2]))
    raise Missing(
        f"python3 is {version}, but the lab needs 3.{low[1]} to 3.{high[1]}: install "
        f"it, or select one with make PYTHON=/path/to/python"
    )


def prefix_of(python: str) -> str:
    return run([python, "-c", "import sys; print(sys.prefix)"]).strip()


def parse_version(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", text)[:2])


def run(command: list[str]) -> str:
    return subprocess.run(command, check=True, text=True, capture_output=True).stdout


def pip_run(command: list[str]) -> None:
    if subprocess.run(command).returncode:
        raise Missing("pip could not install the packages; its messages are above.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
