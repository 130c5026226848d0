"""Prepare the lab's Python environment, then run Python in it.

    python3 lib/weft/commands/environment.py -m weft doctor

The script needs only python3. It uses the first of these: the interpreter named by
PYTHON, an active conda or virtual environment, the Python of a hosted notebook (Colab,
Kaggle), or .venv, which the script creates. environment.yml lists the packages. .venv
gets exactly the listed versions. Elsewhere, installed packages (above all torch)
remain, and pip adds only missing ones. pip also gets the options in PIP_ARGS. The
user's Jupyter gets a kernel named Weft that runs this Python; a hosted notebook keeps
its existing kernel.
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
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
VENV = ROOT / ".venv"
PYTHONS = ((3, 11), (3, 13))  # oldest and newest supported versions


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


def prepare(python: str, ours: bool) -> None:
    """Install missing packages, unless nothing has changed since the last run."""
    if not shutil.which(os.environ.get("CXX", "g++")):
        raise Missing("there is no C++ compiler; on Debian or Ubuntu: apt install g++")
    if ours and not (VENV / "bin" / "python").exists():
        make_venv()
    requirements = list_requirements()
    stamp = Path(prefix_of(python)) / ".weft-ready"
    key = hashlib.sha256(f"{ROOT}{requirements}".encode()).hexdigest()
    if not (stamp.exists() and stamp.read_text() == key):
        install(python, requirements if ours else list_missing(python, requirements))
        # In a read-only environment, the next run compares the packages again.
        with contextlib.suppress(OSError):
            stamp.write_text(key)
    if not is_hosted():
        name_kernel(python)


def list_requirements() -> list[str]:
    """Return the lines under `- pip:` in environment.yml, in pip's format."""
    text = (ROOT / "environment.yml").read_text().split("  - pip:\n")[1]
    return [line.strip()[2:] for line in text.splitlines() if line.strip()[:2] == "- "]


def list_missing(python: str, wanted: list[str]) -> list[str]:
    """List the packages in `wanted` of which no version is installed.

    A user's environment keeps its versions, even if .venv requires others, and gets
    missing packages as listed. NVIDIA's packages for CUDA 12 have different names; they
    belong to a torch built with CUDA 12.
    """
    names = [re.split(r"[ =<>!~]", line)[0] for line in wanted]
    script = (
        "import sys, importlib.metadata as m\n"
        "for name in sys.argv[1:]:\n"
        "    found = '-'\n"
        "    for known in name, name + '-cu12':\n"
        "        try: found = m.version(known)\n"
        "        except m.PackageNotFoundError: pass\n"
        "    print(found)\n"
    )
    cuda12 = "nvidia-cuda-nvrtc-cu12"
    versions = run([python, "-c", script, *names, cuda12]).split()
    versions_of = dict(zip([*names, cuda12], versions))
    if versions_of["torch"] != "-" and parse_version(versions_of["torch"]) < (2, 6):
        raise Missing(
            f"{python} has torch {versions_of['torch']}, but the lab needs 2.6 or "
            f"later: upgrade it, or deactivate the environment, so that make builds "
            f".venv."
        )
    if versions_of.get(cuda12, "-") != "-":
        wanted = [line.replace("[cu13]", "[cu12]") for line in wanted]
    return [line for name, line in zip(names, wanted) if versions_of[name] == "-"]


def install(python: str, packages: list[str]) -> None:
    """Install the packages with pip, and weft as an editable package."""
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check"]
    extra = shlex.split(os.environ.get("PIP_ARGS", ""))
    if packages:  # without -q, since torch is a download of gigabytes
        print(f"weft: installing {', '.join(packages)}", file=sys.stderr)
        pip_run([*pip, *extra, *(p.replace(" ", "") for p in packages)])
    pip_run([*pip, "-q", *extra, "--no-deps", "-e", str(ROOT)])


def name_kernel(python: str) -> None:
    """Register the interpreter with the user's Jupyter as the kernel Weft."""
    try:
        kernel = jupyter_data() / "kernels" / "weft" / "kernel.json"
    except RuntimeError:  # this user has no home folder
        return
    with contextlib.suppress(OSError, ValueError, LookupError):  # missing or broken
        if json.loads(kernel.read_text())["argv"][0] == python:
            return
    options = ["--user", "--name", "weft", "--display-name", "Weft"]
    # A read-only home must not stop the run: `make lab` works without this kernel.
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
        # The next run would fail with an incomplete .venv that lacks pip.
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
