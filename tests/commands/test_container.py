"""The image in .devcontainer agrees with the lab's files and with its start script."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from weft.base.paths import ROOT
from weft.commands import environment

FOLDER = ROOT / ".devcontainer"
DOCKERFILE = (FOLDER / "Dockerfile").read_text()
LINES = re.sub(r"\\\n\s*", "", DOCKERFILE).splitlines()
DEVCONTAINER = json.loads((FOLDER / "devcontainer.json").read_text())
PAGE = (ROOT / "docs" / "container.md").read_text()
DEBIAN = {"bookworm": (3, 11), "trixie": (3, 13)}  # Python of each release


def find(pattern: str, text: str = DOCKERFILE) -> str:
    """Return the only match of the pattern's group."""
    (match,) = re.findall(pattern, text, re.M)
    return match


def test_debians_python_is_one_that_the_lab_supports():
    low, high = environment.PYTHONS
    assert low <= DEBIAN[find(r"^FROM debian:(\w+)-slim$")] <= high
    listed = find(r"python (>=.*)", (ROOT / "environment.yml").read_text())
    assert listed == f">=3.{low[1]},<3.{high[1] + 1}"


def test_the_image_has_what_make_needs():
    packages = find(r"^RUN apt-get update .*recommends (.*?) *&&", "\n".join(LINES))
    needed = {"make", "g++", "python3", "python3-venv", "git", "ca-certificates"}
    assert needed <= set(packages.split())
    assert "tini" in packages.split()  # ENTRYPOINT runs it


def test_pip_gets_the_readmes_options():
    options = find(r'PIP_ARGS="(.*?)"')
    assert f'make PIP_ARGS="{options}"' in (ROOT / "README.md").read_text()


def test_nvcc_has_the_cuda_release_of_the_other_packages():
    release = find(r"nvidia-cuda-nvcc ==(\S+)\"")
    nvrtc = [r for r in environment.list_requirements() if "nvrtc" in r]
    assert nvrtc[0].startswith(f"nvidia-cuda-nvrtc =={release};")


def test_the_lab_is_installed_in_the_environment_that_is_active():
    assert find(r"^ENV PATH=(\S+):\$PATH") == find(r"^ENV VIRTUAL_ENV=(\S+)") + "/bin"
    assert "&& make " in DOCKERFILE


def test_build_arguments_are_documented():
    arguments = set(re.findall(r"^ARG (\w+)", DOCKERFILE, re.M))
    assert arguments == set(re.findall(r"^# --build-arg (\w+)", DOCKERFILE, re.M))
    assert arguments == set(re.findall(r"`--build-arg (\w+)", PAGE))
    assert find(r"^ENV (WEFT_MARCH=\$MARCH)")


def test_vs_code_uses_the_images_folders_and_user():
    build = DEVCONTAINER["build"]
    assert (FOLDER / build["dockerfile"]).samefile(FOLDER / "Dockerfile")
    assert (FOLDER / build["context"]).samefile(ROOT)
    folder = find(r"^COPY --chown=\w+ \. (\S+)")
    assert DEVCONTAINER["workspaceFolder"] == folder
    assert f"target={folder}," in DEVCONTAINER["workspaceMount"]
    assert DEVCONTAINER["remoteUser"] == find(r"^USER (\w+)")
    python = DEVCONTAINER["customizations"]["vscode"]["settings"]
    venv = find(r"^ENV VIRTUAL_ENV=(\S+)")
    assert python["python.defaultInterpreterPath"] == f"{venv}/bin/python"
    assert DEVCONTAINER["updateContentCommand"] == "make"


def test_the_start_script_is_at_its_place():
    *_, script = json.loads(find(r"^ENTRYPOINT (.*)"))
    folder = find(r"^COPY --chown=\w+ \. (\S+)")
    path = ROOT / Path(script).relative_to(folder)
    assert path.is_file() and os.access(path, os.X_OK)
    assert f"{folder}/notebooks/*.ipynb" in path.read_text()


def test_what_make_creates_stays_out_of_the_image():
    ignored = (ROOT / ".gitignore").read_text().split()
    patterns = {p.strip("/") for p in (ROOT / ".dockerignore").read_text().split()}
    missing = [
        p
        for p in (one.strip("/") for one in ignored)
        if p not in patterns and f"**/{p}" not in patterns
    ]
    assert not missing
    assert ".git" in patterns


# ---- the start of a container -----------------------------------------------------


@pytest.fixture
def start(tmp_path):
    """Return a function that runs start.sh with a home folder and a command."""
    lessons = tmp_path / "weft" / "notebooks"
    lessons.mkdir(parents=True)
    for name in ("00.ipynb", "01.ipynb"):
        (lessons / name).write_text(f"the image's {name}")
    text = (FOLDER / "start.sh").read_text().replace("/opt/weft", f"{tmp_path}/weft")
    script = tmp_path / "start.sh"
    script.write_text(text)

    def run(home: Path, *command: str) -> str:
        process = subprocess.run(
            ["sh", str(script), *command],
            **{"env": os.environ | {"HOME": str(home)}, "text": True},
            **{"capture_output": True, "check": True},
        )
        return process.stdout

    return run


def test_a_container_copies_lessons_but_not_over_the_users(start, tmp_path):
    home = tmp_path / "home"
    (home / "weft").mkdir(parents=True)
    (home / "weft" / "01.ipynb").write_text("mine")
    assert start(home, "echo", "two words", "*") == "two words *\n"
    assert (home / "weft" / "00.ipynb").read_text() == "the image's 00.ipynb"
    assert (home / "weft" / "01.ipynb").read_text() == "mine"


def test_a_container_starts_even_if_the_home_folder_cannot_be_written(start, tmp_path):
    home = tmp_path / "file"  # root may write to any folder, but not into a file
    home.write_text("")
    assert start(home, "echo", "started") == "started\n"


@pytest.mark.skipif(not shutil.which("sh"), reason="needs a shell")
def test_the_scripts_are_valid_shell():
    subprocess.run(["sh", "-n", FOLDER / "start.sh"], check=True)
    for line in LINES:
        if line.startswith("RUN "):
            subprocess.run(["sh", "-n", "-c", line[4:]], check=True)
