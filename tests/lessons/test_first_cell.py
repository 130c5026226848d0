"""The first cell of a notebook fetches the lab on Colab and Kaggle, not elsewhere."""

import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import nbformat
import pytest
from tiers import only

from weft.base.paths import GITHUB, ROOT
from weft.commands import environment
from weft.lessons import first_cell as hosted
from weft.lessons import maker
from weft.puzzles.catalogue import LessonError

# The program runs its arguments as cells, in order, in a Python without the lab.
SHELL = """
import os, sys
from IPython.core.interactiveshell import InteractiveShell
sys.meta_path = [f for f in sys.meta_path if "editable" not in repr(f)]
sys.path = [p for p in sys.path if not os.path.exists(os.path.join(p, "weft"))]
sys.path[:0] = os.environ.get("ALSO", "").split(":") if "ALSO" in os.environ else []
shell = InteractiveShell()
done = [shell.run_cell(cell).success for cell in sys.argv[1:]]
sys.stdout.flush()
print("done:", *done)
"""
# This program replaces the network: it writes a tarball without its last CUT bytes.
CURL = """#!/bin/sh
echo curl "$@" >> {log}
test -z "$OFFLINE" || {{ echo "curl: (6) Could not resolve host" >&2; exit 6; }}
for out in "$@"; do :; done
head -c -${{CUT:-0}} {tarball} > "$out"
"""
NAME = "weft-1a2b3c4d5e6f"
CELL = hosted.write_cell(NAME[5:] + "7" * 28)
LOOK = "import os, sys, subprocess, weft, utils; print('in', os.getcwd())"
CHILD = (
    "print(subprocess.run([sys.executable, '-c', 'import weft; print(weft.__file__)'],"
    " text=True, capture_output=True).stdout)"
)
HOSTS = ["COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE"]


@pytest.fixture
def tarball(tmp_path):
    """Return a lab that needs only its first cell, packed as GitHub packs a version."""
    lab = tmp_path / "weft-7"
    files = {
        "lib/weft/commands/environment.py": Path(environment.__file__).read_text(),
        "lib/weft/lessons/first_cell.py": Path(hosted.__file__).read_text(),
        "lib/weft/__init__.py": "",
        "lib/weft/base/__init__.py": "",
        "lib/weft/base/device.py": "def describe_card():\n    return 'A card.'\n",
        "notebooks/note.txt": "",
        "utils.py": "",
        "environment.yml": "  - pip:\n      - numpy >=1\n",
    }
    for name, text in files.items():
        (lab / name).parent.mkdir(parents=True, exist_ok=True)
        (lab / name).write_text(text)
    with tarfile.open(tmp_path / "lab.tgz", "w:gz") as tar:
        tar.add(lab, "weft-7")
    return tmp_path / "lab.tgz"


@pytest.fixture
def open_notebook(tmp_path, tarball):
    """Return a function that runs cells in an empty folder, and returns the output and
    the addresses that they download."""
    log, programs, home = (tmp_path / name for name in ("log", "bin", "home"))
    programs.mkdir()
    home.mkdir()
    (programs / "curl").write_text(CURL.format(log=log, tarball=tarball))
    (programs / "curl").chmod(0o755)

    def opened(*cells: str, **env: str) -> tuple[str, list[str]]:
        clean = {k: v for k, v in os.environ.items() if k not in [*HOSTS, "PYTHONPATH"]}
        clean |= {"PATH": f"{programs}:/usr/bin:/bin", "IPYTHONDIR": str(tmp_path)}
        process = subprocess.run(
            [sys.executable, "-c", SHELL, *cells],
            cwd=tmp_path,
            env=clean | {"HOME": str(home)} | env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        calls = log.read_text() if log.exists() else ""
        return process.stdout, re.findall(r"https://\S+", calls)

    return opened


def test_the_cell_is_short():
    assert len(hosted.FIRST.splitlines()) <= 5


def test_a_kernel_without_the_lab_is_told_in_a_line_and_nothing_is_fetched(
    open_notebook,
):
    output, calls = open_notebook(hosted.FIRST)
    assert calls == []
    line, last_line = output.splitlines()
    assert line == f"UsageError: {hosted.NO_LAB}"
    assert "choose the kernel Weft." in line and f"git clone {GITHUB}" in line
    assert last_line == "done: False"  # Run All stops here


@pytest.mark.parametrize("host", only(HOSTS[:1], HOSTS))
def test_where_notebooks_are_hosted_the_lab_is_fetched_once(open_notebook, host):
    output, calls = open_notebook(CELL, LOOK, CHILD, CELL, LOOK, **{host: "1"})
    assert calls == [f"{GITHUB}/archive/1a2b3c4d5e6f{'7' * 28}.tar.gz"]
    assert output.count(f"{NAME}. A card.") == 2, output
    assert output.count(f"{NAME}/notebooks\n") == 2
    assert f"{NAME}/lib/weft/__init__.py" in output  # a child process finds the lab
    assert "done: True True True True True" in output
    # The cell works the same way after a restart of the kernel.
    output, calls = open_notebook(CELL, LOOK, **{host: "1"})
    assert len(calls) == 1 and "done: True True" in output
    assert len(output.splitlines()) <= 5


@pytest.mark.slow
def test_a_copy_of_an_earlier_notebook_gets_the_lab_too(open_notebook, tmp_path):
    open_notebook(CELL, COLAB_RELEASE_TAG="1")
    old = f"%run {tmp_path}/home/{NAME}/lib/weft/lessons/first_cell.py"
    output, _ = open_notebook(old, LOOK, COLAB_RELEASE_TAG="1")
    assert "A card." in output and output.endswith("done: True True\n"), output


@pytest.mark.slow
@pytest.mark.parametrize("left", ["download", "unpacked"])
def test_after_an_interruption_the_cell_fetches_the_lab_again(
    open_notebook, tmp_path, left
):
    if left == "download":
        output, _ = open_notebook(CELL, COLAB_RELEASE_TAG="1", CUT="100")
        assert hosted.NO_DOWNLOAD in output and "done: False" in output
    else:
        (tmp_path / "home/weft-part/lib/weft").mkdir(parents=True)
        (tmp_path / "home/weft-part/stale.py").touch()
    assert not (tmp_path / "home" / NAME).exists()
    output, _ = open_notebook(CELL, LOOK, COLAB_RELEASE_TAG="1")
    assert "done: True True" in output, output
    assert sorted(p.name for p in (tmp_path / "home").glob("weft-*")) == [NAME]
    assert not (tmp_path / "home" / NAME / "stale.py").exists()


def test_a_machine_without_a_network_is_told_what_to_change(open_notebook):
    output, _ = open_notebook(CELL, KAGGLE_KERNEL_RUN_TYPE="1", OFFLINE="1")
    assert "Settings > Internet" in output and "done: False" in output


@pytest.mark.slow
def test_a_failed_installation_is_one_line_and_stops_the_notebook(
    open_notebook, tmp_path
):
    open_notebook(CELL, COLAB_RELEASE_TAG="1")
    (tmp_path / "home" / NAME / "environment.yml").write_text(
        "  - pip:\n      - no_such_package_of_weft ==1\n"
    )
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}
    output, _ = open_notebook(CELL, COLAB_RELEASE_TAG="1", **offline)
    assert "weft: installing no_such_package_of_weft\n" in output
    assert "UsageError: Weft is not installed; see above." in output
    assert "done: False" in output


def test_where_the_lab_is_there_the_cell_does_nothing(open_notebook, tmp_path):
    (tmp_path / "lib" / "weft").mkdir(parents=True)
    (tmp_path / "lib" / "weft" / "__init__.py").write_text("import no_such_module")
    cells = hosted.FIRST, "import weft"
    output, calls = open_notebook(*cells, ALSO=str(tmp_path / "lib"))
    assert "-----" in output.splitlines()[0]  # the first cell prints no line
    assert "No module named 'no_such_module'" in output  # Python's own error
    assert output.endswith("done: True False\n") and calls == []


def test_the_kernel_that_the_cell_names_is_the_labs_python(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    environment.name_kernel(sys.executable)
    kernel = json.loads((tmp_path / "kernels/weft/kernel.json").read_text())
    assert kernel["argv"][0] == sys.executable
    assert f"choose the kernel {kernel['display_name']}." in hosted.FIRST
    monkeypatch.setattr(environment, "run", None)  # the kernel exists already
    environment.name_kernel(sys.executable)


def test_a_home_that_cannot_be_written_is_no_reason_to_stop(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "file" / "none"))
    environment.name_kernel(sys.executable)


def test_the_cell_is_known_also_as_it_was_written_once():
    old = f"try:\n    import weft\nexcept ImportError:\n    !git clone {GITHUB}"
    text, code = nbformat.v4.new_markdown_cell, nbformat.v4.new_code_cell
    cells = code(old), code(hosted.FIRST), text(hosted.FIRST), code("1 + 1")
    assert [hosted.is_first(cell) for cell in cells] == [True, True, False, False]


# ---- the version that the cell fetches ---------------------------------------------


def git(*words: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    author = "-c", "user.name=a", "-c", "user.email=a@b.c"
    command = ["git", "-C", str(folder), *author, *words]
    return subprocess.run(command, text=True, capture_output=True)


def has_commit(name: str) -> bool:
    return not git("cat-file", "-e", f"{name}^{{commit}}").returncode


def test_every_notebook_fetches_the_recorded_version():
    release = hosted.read_release()
    assert re.fullmatch(r"[0-9a-f]{40}|v\d[\w.-]*", release)
    folders = (maker.NOTEBOOKS, maker.SOLUTIONS, maker.FOR_COLAB)
    paths = [path for folder in folders for path in folder.glob("*.ipynb")]
    assert len(paths) > 40
    for path in paths:
        cells = nbformat.read(path, as_version=4).cells
        (first,) = filter(hosted.is_first, cells)
        assert f"{GITHUB}/archive/{release}.tar.gz" in first.source, path


def test_the_recorded_version_is_in_the_history():
    release = hosted.read_release()
    if not has_commit(release):
        pytest.skip("this checkout has no history")
    assert not git("merge-base", "--is-ancestor", release, "HEAD").returncode


@pytest.mark.slow
def test_the_recorded_version_has_what_the_notebooks_import(tmp_path):
    """A copy in Colab runs today's notebook with the lab of the recorded version."""
    release = hosted.read_release()
    if not has_commit(release):
        pytest.skip("this checkout has no history")
    lines: dict[str, None] = {}
    for path in maker.FOR_COLAB.glob("*.ipynb"):
        for cell in nbformat.read(path, as_version=4).cells:
            found = re.findall(r"\bfrom (?:weft|utils)\b[^;\n]*", cell.source)
            lines |= dict.fromkeys(found if cell.cell_type == "code" else [])
    assert len(lines) > 20
    archive = f"git -C {ROOT} archive {release} lib kernels/weft.h utils.py notebooks"
    subprocess.run(f"{archive} | tar x -C {tmp_path}", shell=True, check=True)
    process = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}/lib:{tmp_path}"},
        text=True,
        capture_output=True,
    )
    cure = "python -m weft.lessons.maker --release"
    assert not process.returncode, f"{process.stderr}\nCommit, then: {cure}"


@pytest.fixture
def history(tmp_path, monkeypatch):
    """Return a checkout with two commits, the first of which has the tag v1.0."""
    monkeypatch.setattr(hosted, "ROOT", tmp_path)
    git("init", "-q", folder=tmp_path)
    for name in "one", "two":
        (tmp_path / name).touch()
        git("add", ".", folder=tmp_path)
        git("commit", "-q", "-m", name, folder=tmp_path)
    git("tag", "v1.0", "HEAD^", folder=tmp_path)
    return tmp_path


def test_a_release_is_a_tag_or_the_full_name_of_a_commit(history):
    newest = git("rev-parse", "HEAD", folder=history).stdout.strip()
    assert hosted.name_release("HEAD") == newest
    assert hosted.name_release(newest[:8]) == newest
    assert hosted.name_release("v1.0") == "v1.0"
    with pytest.raises(LessonError, match="git finds no tag or commit 'v9'"):
        hosted.name_release("v9")
    git("checkout", "-q", "v1.0", folder=history)
    with pytest.raises(LessonError, match="not in the history of the current commit"):
        hosted.name_release(newest)
