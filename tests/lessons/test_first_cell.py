"""The first cell of a notebook fetches the lab on Colab and Kaggle, not elsewhere."""

import json
import os
import subprocess
import sys

import nbformat
import pytest
from tiers import only

from weft.commands import environment
from weft.lessons import first_cell as hosted

# Runs its arguments as cells, in order, in a Python without the lab.
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
# Replaces the network by a lab whose environment is soon ready.
GIT = f"""#!/bin/sh
echo git "$@" | tee -a {{log}}
mkdir -p lab/lib/weft/lessons lab/lib/weft/commands lab/notebooks
cd lab/lib/weft
cp {hosted.__file__} lessons/first_cell.py
touch __init__.py ../../utils.py
echo 'print("weft: installing a package")' > commands/environment.py
echo 'print("environment", file=open("{{log}}", "a"))' >> commands/environment.py
"""


@pytest.fixture
def open_notebook(tmp_path):
    """Return a function that runs cells in an empty folder, and returns the output and
    the programs that they call."""
    log, programs, folder = (tmp_path / name for name in ("log", "bin", "here"))
    programs.mkdir()
    folder.mkdir()
    for name in ("git", "make"):
        program = programs / name
        text = (
            GIT.format(log=log) if name == "git" else f"#!/bin/sh\necho make >> {log}"
        )
        program.write_text(text)
        program.chmod(0o755)

    def opened(*cells: str, **env: str) -> tuple[str, list[str]]:
        hosts = ("COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE", "PYTHONPATH")
        clean = {k: v for k, v in os.environ.items() if k not in hosts}
        clean |= {"PATH": f"{programs}:/usr/bin:/bin", "IPYTHONDIR": str(tmp_path)}
        process = subprocess.run(
            [sys.executable, "-c", SHELL, *cells],
            cwd=folder,
            env=clean | env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        calls = log.read_text().splitlines() if log.exists() else []
        return process.stdout, calls

    return opened


def test_a_kernel_without_the_lab_is_told_in_a_line_and_nothing_is_fetched(
    open_notebook,
):
    output, calls = open_notebook(hosted.FIRST)
    assert calls == []
    line, last_line = output.splitlines()
    assert line == "UsageError: choose the kernel Weft, which `make` adds"
    assert last_line == "done: False"  # Run All stops here.


@pytest.mark.parametrize(
    "host", only(["COLAB_RELEASE_TAG"], ["COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE"])
)
def test_where_notebooks_are_hosted_the_lab_is_fetched_once_and_that_is_seen(
    open_notebook, host
):
    cells = hosted.FIRST, "import os, weft, utils; print(os.getcwd())"
    output, calls = open_notebook(*cells, *cells, **{host: "1"})
    clone = "git clone --depth 1 https://github.com/weft-lab/weft lab"
    assert calls == [clone, "environment"]
    for step in (clone, "This takes a few minutes", "weft: installing a package"):
        assert output.count(step) == 1, output
    assert output.count("here/lab/notebooks") == 2 and "done: True True" in output
    # The same holds after a restart of the kernel.
    output, calls = open_notebook(*cells, **{host: "1"})
    assert calls == [clone, "environment", "environment"]
    assert "git clone" not in output and "done: True True" in output


def test_what_the_lab_itself_lacks_is_told_as_it_is(open_notebook, tmp_path):
    (tmp_path / "lib" / "weft").mkdir(parents=True)
    (tmp_path / "lib" / "weft" / "__init__.py").write_text("import no_such_module")
    cells = hosted.FIRST, "import weft"
    output, calls = open_notebook(
        *cells, ALSO=str(tmp_path / "lib"), COLAB_RELEASE_TAG="1"
    )
    assert "No module named 'no_such_module'" in output and "done: True False" in output
    assert calls == []


def test_where_the_lab_is_there_the_cell_does_nothing(open_notebook, tmp_path):
    (tmp_path / "lib" / "weft").mkdir(parents=True)
    (tmp_path / "lib" / "weft" / "__init__.py").write_text("")
    output, calls = open_notebook(hosted.FIRST, ALSO=str(tmp_path / "lib"))
    assert output == "done: True\n" and calls == []


def test_the_kernel_that_the_cell_names_is_the_labs_python(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    environment.name_kernel(sys.executable)
    kernel = json.loads((tmp_path / "kernels/weft/kernel.json").read_text())
    assert kernel["argv"][0] == sys.executable
    assert f"choose the kernel {kernel['display_name']}," in hosted.FIRST
    monkeypatch.setattr(environment, "run", None)  # The kernel exists already.
    environment.name_kernel(sys.executable)


def test_a_home_that_cannot_be_written_is_no_reason_to_stop(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "file" / "none"))
    environment.name_kernel(sys.executable)


def test_the_cell_is_known_also_as_it_was_written_once():
    old = f"try:\n    import weft\nexcept ImportError:\n    !git clone {hosted.GITHUB}"
    text, code = nbformat.v4.new_markdown_cell, nbformat.v4.new_code_cell
    cells = code(old), code(hosted.FIRST), text(hosted.FIRST), code("1 + 1")
    assert [hosted.is_first(cell) for cell in cells] == [True, True, False, False]
