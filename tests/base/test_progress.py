"""Progress is one line that updates in place; a notebook's stderr is left to errors."""

import os
import re
import threading
import types

import nbformat
import pytest
from kernel_sockets import make_sockets
from nbclient import NotebookClient

from weft.base import progress
from weft.base.paths import ROOT
from weft.base.progress import Progress, remark, step


class Terminal:
    """A stream, either a terminal or a log, that records the text written to it."""

    def __init__(self, is_terminal: bool) -> None:
        self.text, self.isatty = "", lambda: is_terminal

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass

    def lines(self) -> list[str]:
        """Return the lines that remain on the screen."""
        rows = self.text.split("\n")
        return [row.rpartition("\x1b[2K")[2] for row in rows if row]


@pytest.fixture
def screen(monkeypatch):
    monkeypatch.setattr(progress, "PAUSE", 0)
    return use(monkeypatch, True)


def use(monkeypatch, is_terminal: bool) -> Terminal:
    made = Terminal(is_terminal)
    streams = types.SimpleNamespace(stderr=made, stdout=made)
    monkeypatch.setattr(progress, "sys", streams)  # pytest replaces sys.stderr
    return made


def test_a_terminal_shows_one_line_that_ends_grey(screen):
    with Progress("building relu", 2, "files") as job:
        job.update()
        assert screen.lines() == ["weft: building relu: 1 of 2 files"]
        job.update(1, "nearly")
    (line,) = screen.lines()
    assert re.fullmatch(r"\x1b\[2mweft: building relu: 0\.\d s, nearly\x1b\[0m", line)


def test_a_job_within_a_job_uses_its_line(screen):
    with Progress("training", 2, "epochs") as outer:
        with Progress("building mnist"):
            assert screen.lines() == ["weft: building mnist ..."]
        outer.update()
        assert screen.lines() == ["weft: training: 1 of 2 epochs"]
        remark("one candidate is wrong")
    first, last = screen.lines()
    assert "one candidate is wrong" in first and "weft: training: 0." in last


def test_a_long_title_does_not_wrap(screen, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    with Progress("building " + "x" * 80):
        assert len(screen.lines()[0]) == 29 and screen.lines()[0].endswith("…")


def test_brief_work_and_quiet_work_are_not_shown(screen):
    with Progress("compiling fade", delay=60) as job:
        job.update()
    with Progress("training", quiet=True) as job:
        job.update()
    assert screen.text == "" and not progress._jobs


def test_work_that_reports_nothing_appears_after_its_delay(screen):
    shown = threading.Event()
    screen.flush = shown.set
    with Progress("compiling fade", delay=0.01):
        assert shown.wait(10)
    assert "compiling fade" in screen.text


def test_a_job_of_another_thread_leaves_the_line_to_the_outer_job(screen):
    def compile_one() -> None:
        with Progress("compiling") as job:
            job.update()

    with Progress("tuning", 2, "candidates") as outer:
        thread = threading.Thread(target=compile_one)
        thread.start()
        thread.join()
        outer.update()
    assert "compiling" not in screen.text and "1 of 2 candidates" in screen.text


def test_an_error_ends_the_line_and_leaves_no_job(screen):
    with pytest.raises(ZeroDivisionError), Progress("building relu"):
        1 / 0  # noqa: B018
    assert screen.text.endswith("\x1b[0m\n") and not progress._jobs


def test_a_log_has_a_line_per_job_and_no_control_characters(monkeypatch):
    log = use(monkeypatch, False)
    with Progress("building relu", 3, "files") as job, Progress("brief", delay=1e-9):
        job.update()
    with Progress("epoch 1", 9, "images") as job:
        step("a step")
        job.update(9, "98 % are right")
    first, second, third, fourth = log.text.splitlines()
    assert first == "weft: building relu (3 files)"
    assert (second, third) == ("weft: epoch 1 (9 images)", "weft: a step")
    assert re.fullmatch(r"weft: epoch 1: 0\.\d s, 98 % are right", fourth)


def test_a_fork_starts_without_its_parents_jobs(screen):
    with Progress("outer"):
        child = os.fork()
        if not child:
            os._exit(len(progress._jobs))
        assert os.waitpid(child, 0)[1] == 0
        assert len(progress._jobs) == 1


# The cell builds two small libraries, as an op's first call does.
CELL = """
from pathlib import Path
from weft.toolchain import build
build._library_folders = lambda: [Path(r"FOLDER")]
for name in "first", "second":
    source = Path(r"FOLDER") / f"{name}.c"
    source.write_text(f"int {name}(void) {{ return 1; }}")
    path = build._link(name, [source], build.Flavour.here("cpu"), [])
print(path.exists())
"""


@pytest.mark.slow
def test_a_cell_that_builds_shows_one_grey_line_and_no_errors(tmp_path):
    fault = "import sys; print(1, file=sys.stderr)"
    cells = [CELL.replace("FOLDER", str(tmp_path)), fault]
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(text) for text in cells]
    paths = [str(ROOT / "lib"), os.environ.get("PYTHONPATH", "")]
    ours = {"PYTHONPATH": os.pathsep.join(paths), "WEFT_CACHE": str(tmp_path / "c")}
    with make_sockets() as config:
        client = NotebookClient(notebook, timeout=120, config=config)
        client.execute(env=os.environ | ours)
    line, printed = notebook.cells[0].outputs
    assert line.output_type == "display_data" and printed.text == "True\n"
    end = r"2 jobs, [\d.]+ s; the last: building second for cpu: [\d.]+ s"
    assert re.fullmatch(end, line.data["text/plain"])
    assert progress.GREY in line.data["text/html"]
    assert [o.name for o in notebook.cells[1].outputs] == ["stderr"]
