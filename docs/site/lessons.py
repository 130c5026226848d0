"""Execute the lessons, with a cache, for the pages of the site.

A lesson is executed once, with its answers, in a fresh kernel. build/lessons/ caches
its outputs (NN_topic.ipynb), and the hashes of its code and of each file of the lab
that its kernel read (NN_topic.json). It is executed again only if a hash changes.
session.py, which runs inside the kernel, replays the clock and records the files.

    python docs/site/lessons.py                    execute the lessons that have changed
    python docs/site/lessons.py 04_numba           only this lesson
    python docs/site/lessons.py --record 04_numba  record its times on this machine
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbformat
import session
from nbclient import NotebookClient
from nbformat import NotebookNode

from weft.base.paths import ROOT
from weft.base.text import count_things
from weft.lessons import first_cell
from weft.puzzles.catalogue import is_withheld
from weft.puzzles.notebooks import NOTEBOOKS, find_source
from weft.timing.results import machine
from weft.toolchain import build

HERE = Path(__file__).parent
BUILD = ROOT / "build" / "lessons"
CLOCK = HERE / "clock"  # the recorded times, one committed file per lesson
SECONDS = 1800  # time limit of a cell in seconds, enough for a busy machine
# A widget needs a kernel, which no page has.
WIDGET = "application/vnd.jupyter.widget-view+json"
CHANGING = {  # folders whose names differ between runs
    r"/tmp/ipykernel_\d+/": "/tmp/ipykernel/",
    r"/tmp/tmp\w{8}\b": "/tmp/lesson",
}
MARK = re.compile(r'data-weft=\\"([0-9a-f]{12})\\"')  # a player's mark


def list_names() -> list[str]:
    """Return the name of every lesson, and the glossary's, in reading order."""
    return [path.stem for path in sorted(NOTEBOOKS.glob("*.ipynb"))]


def read_code(name: str) -> NotebookNode:
    """Return the lesson with its answers, without the cells that only tests run."""
    path = find_source(NOTEBOOKS / f"{name}.ipynb")
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = [
        cell
        for cell in notebook.cells
        if not is_withheld(cell) and not first_cell.is_first(cell)
    ]
    return notebook


# ---- the cache ---------------------------------------------------------------------


@functools.cache
def hash_file(path: Path) -> str:
    """Return the hash of a file's content; "" if there is no such file."""
    return hash_text(path.read_bytes()) if path.is_file() else ""


def hash_text(data: bytes) -> str:
    """Return a short hash."""
    return hashlib.sha256(data).hexdigest()[:16]


def hash_code(notebook: NotebookNode) -> str:
    """Return the hash of the notebook's code, without its text."""
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return hash_text(json.dumps(code).encode())


def hash_folder(folder: Path) -> str:
    """Return the hash of every file below a folder."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return hash_text("".join(map(hash_file, paths)).encode())


def hash_session(name: str) -> dict[str, str]:
    """Return the hashes on which every lesson depends: the kernels, and the clock.

    Compilers run in separate processes, so the files that they read are not recorded.
    """
    clock = {f"clock/{name}.json": hash_file(CLOCK / f"{name}.json")}
    session = {"session.py": hash_file(HERE / "session.py")}
    return {"kernels": hash_folder(ROOT / "kernels"), **clock, **session}


def is_current(name: str) -> bool:
    """Return whether the cached outputs are those of the current lesson."""
    stamp, cached = BUILD / f"{name}.json", BUILD / f"{name}.ipynb"
    if not stamp.is_file() or not cached.is_file():
        return False
    noted = json.loads(stamp.read_text())
    files = {path: hash_file(ROOT / path) for path in noted["files"]}
    now = {**hash_session(name), "code": hash_code(read_code(name))}
    return noted["files"] == files and noted["session"] == now


def list_absent() -> list[str]:
    """Return the lessons without cached outputs, which no run has completed."""
    return [name for name in list_names() if not (BUILD / f"{name}.ipynb").is_file()]


def read_executed(name: str) -> NotebookNode:
    """Return the lesson's current text with the outputs of the cache, if it has any."""
    notebook, path = read_code(name), BUILD / f"{name}.ipynb"
    cached = nbformat.read(path, 4) if path.is_file() else notebook
    code = (cell for cell in notebook.cells if cell.cell_type == "code")
    ran = (cell for cell in cached.cells if cell.cell_type == "code")
    for cell, executed in zip(code, ran, strict=True):
        cell.outputs = executed.outputs
    return notebook


# ---- execution ---------------------------------------------------------------------


def execute(name: str) -> None:
    """Run a lesson with its recorded times, and put its outputs into the cache."""
    kept = read_clock(name).get("outputs", {})
    notebook, outcome = run_lesson(name, recording=False)
    for key, cell in list_cells(notebook).items():
        if key in kept:
            cell.outputs = nbformat.from_dict(kept[key])
    if outcome["unknown"]:
        cells = count_things(len(outcome["unknown"]), "cell")
        print(f"  {name}: no record of {cells}, so the page shows this machine's times")
    store(name, notebook, outcome)


def store(name: str, notebook: NotebookNode, outcome: dict[str, Any]) -> None:
    """Put a lesson's outputs into the cache, with the hashes of their sources."""
    BUILD.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, BUILD / f"{name}.ipynb")
    hash_file.cache_clear()
    files = {path: hash_file(ROOT / path) for path in outcome["files"]}
    now = {**hash_session(name), "code": hash_code(read_code(name))}
    stamp = {"files": files, "session": now}
    (BUILD / f"{name}.json").write_text(json.dumps(stamp, indent=1))


def record(name: str) -> None:
    """Record a lesson's times on this machine, and the outputs that vary between runs.

    A profiler, or a program that a cell starts, reads the real clock. Addresses and
    process numbers also vary. Therefore, the lesson runs twice. The record contains the
    first run's version of each output that differs now, or differed in the last record.
    """
    known = read_clock(name).get("outputs", {})
    first, outcome = run_lesson(name, recording=True)
    write_clock(name, outcome["cells"], {})
    second, _ = run_lesson(name, recording=False)
    again = list_cells(second)
    changed = {
        key: cell.outputs
        for key, cell in list_cells(first).items()
        if key in known or cell.outputs != again[key].outputs
    }
    write_clock(name, outcome["cells"], changed)
    store(name, first, outcome)


def list_cells(notebook: NotebookNode) -> dict[str, NotebookNode]:
    """Return the code cells by their keys in a record."""
    count = Counter[str]()
    return {
        session.name_cell(cell.source, count): cell
        for cell in notebook.cells
        if cell.cell_type == "code"
    }


def run_lesson(name: str, recording: bool) -> tuple[NotebookNode, dict[str, Any]]:
    """Run a lesson; return it with clean outputs, and the outcome of its session."""
    notebook, own = read_code(name), BUILD / "caches" / name
    # Like a reader's first session, this one begins without compiled cells, guesses or
    # solved exercises.
    shutil.rmtree(own, ignore_errors=True)
    copy_runtime(own)
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "session.json"
        run_cells(notebook, own, CLOCK / f"{name}.json", result, recording)
        outcome = json.loads(result.read_text())
    for cell in notebook.cells:
        if cell.cell_type == "code":
            shown = [clean_output(one) for one in cell.outputs if is_shown(one)]
            cell.outputs = join_streams(shown)
    make_reproducible(notebook)
    return notebook, outcome


def copy_runtime(cache: Path) -> None:
    """Copy the runtime's objects, which `make` leaves in a reader's cache."""
    folder, flavour = cache / "objects", build.Flavour.here("cpu")
    folder.mkdir(parents=True, exist_ok=True)
    for source in build.list_runtime():
        path = build._object_path(source, build._make_command(source, flavour))
        if path.exists():
            shutil.copy(path, folder)


def run_cells(
    notebook: NotebookNode, cache: Path, record: Path, result: Path, recording: bool
) -> None:
    """Execute the cells in a fresh kernel, which begins with session.start()."""
    call = f"['start']({str(record)!r}, {str(result)!r}, {recording})"
    start = f"__import__('runpy').run_path({str(HERE / 'session.py')!r}){call}"
    notebook.cells.insert(0, nbformat.v4.new_code_cell(start))
    paths = [str(ROOT / "lib"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    ours = {
        **{"PYTHONPATH": os.pathsep.join(paths), "WEFT_SITE": "1"},
        **{"WEFT_CACHE": str(cache), "WEFT_KEEP": "", "OMP_WAIT_POLICY": "passive"},
        # The times come from the record, even if this machine is busy.
        **{"WEFT_SHARED": "draw"},
        # If the lab cannot be imported, fail here instead of fetching another copy.
        **{"GIT_ALLOW_PROTOCOL": "file", "CUDA_VISIBLE_DEVICES": ""},
    }
    known = json.loads(record.read_text()) if record.is_file() else {}
    if known and not recording:  # sums depend on the number of threads
        ours["OMP_NUM_THREADS"] = str(known["machine"]["cores"])
    resources = {"metadata": {"path": str(NOTEBOOKS)}}
    client = NotebookClient(
        notebook, timeout=SECONDS, resources=resources, store_widget_state=False
    )
    client.execute(env=os.environ | ours)
    del notebook.cells[0]


def write_clock(
    name: str, cells: dict[str, list[int]], outputs: dict[str, list[Any]]
) -> None:
    """Write the recorded times, a line per cell, and the machine that measured them."""
    CLOCK.mkdir(exist_ok=True)
    parts = {"machine": json.dumps(machine())}
    for part, lines in (("cells", cells), ("outputs", outputs)):
        rows = (f"{json.dumps(key)}: {json.dumps(v)}" for key, v in lines.items())
        parts[part] = "{\n" + ",\n".join(rows) + "\n}"
    text = ",\n".join(f'"{part}": {value}' for part, value in parts.items())
    (CLOCK / f"{name}.json").write_text(f"{{{text}}}\n")


def read_clock(name: str) -> dict[str, Any]:
    """Return the recorded times of a lesson, and their machine; {} if none exist."""
    path = CLOCK / f"{name}.json"
    return json.loads(path.read_text()) if path.is_file() else {}


def is_shown(output: NotebookNode) -> bool:
    """Return whether a page shows an output; no page shows stderr."""
    return output.get("name") != "stderr"


def clean_output(output: NotebookNode) -> NotebookNode:
    """Return the output without the form that only a running kernel can show."""
    if "data" in output:
        output.data.pop(WIDGET, None)
    return output


def join_streams(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Join the pieces of a printed text, which a kernel sends one by one."""
    joined: list[NotebookNode] = []
    for output in outputs:
        is_text = output.output_type == "stream"
        if is_text and joined and joined[-1].output_type == "stream":
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def make_reproducible(notebook: NotebookNode) -> None:
    """Replace marks, paths and numbers that differ in each run or on each machine."""
    prefixes = {sys.prefix, str(Path(sys.prefix).resolve())}
    places = {**dict.fromkeys(prefixes, "~/weft/.venv"), str(ROOT): "~/weft"}
    for cell in notebook.cells:
        for number, output in enumerate(cell.get("outputs", [])):
            text = json.dumps(output)
            for at, mark in enumerate(dict.fromkeys(MARK.findall(text))):
                name = hash_text(f"{cell.id} {number} {at}".encode())
                text = text.replace(mark, name[:12])
            for place, name in places.items():
                text = text.replace(place, name)
            for pattern, name in CHANGING.items():
                text = re.sub(pattern, name, text)
            cell.outputs[number] = nbformat.from_dict(json.loads(text))


def bring_up_to_date(names: list[str], recording: bool, jobs: int) -> None:
    """Execute every named lesson whose outputs are out of date."""
    stale = [name for name in names if recording or not is_current(name)]

    def run_one(name: str) -> None:
        print(f"  {name}: executing", flush=True)
        (record if recording else execute)(name)
        print(f"  {name}: done", flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(run_one, stale))


def main(arguments: list[str]) -> None:
    """Execute lessons."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="LESSON")
    parser.add_argument("--record", action="store_true", help="record the times")
    parser.add_argument("--jobs", type=int, default=1, help="lessons at a time")
    options = parser.parse_args(arguments)
    bring_up_to_date(options.names or list_names(), options.record, options.jobs)


if __name__ == "__main__":
    main(sys.argv[1:])
