"""A JupyterLab for tests, with one scratch notebook and a separate home folder."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from browser import open_watched

from weft.base.paths import ROOT

PATIENCE = 90  # seconds until the server, or a cell, must have answered
OPTIONS = (
    *("--no-browser", "--allow-root", "--ServerApp.port_retries=0"),
    *("--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True"),
    *("--LabApp.news_url=None", "--LabApp.extension_manager=readonly"),
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
)


@contextlib.contextmanager
def open_server(folder: Path) -> Iterator[str]:
    """Start JupyterLab with notebooks in `folder`; return its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home, notebooks = folder / "home", folder / "notebooks"
    settings = home / ".jupyter/lab/user-settings/@jupyterlab/apputils-extension"
    settings.mkdir(parents=True)
    notebooks.mkdir()
    # Otherwise a prompt about news covers a part of the notebook.
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')
    paths = [str(ROOT / "lib"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    ours = {"HOME": str(home), "PYTHONPATH": os.pathsep.join(paths)}
    kept = {
        k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "XDG_"))
    }
    kept |= ours | {"WEFT_CACHE": str(home / "weft"), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "jupyterlab", *OPTIONS]
    command += [f"--ServerApp.port={port}", f"--ServerApp.root_dir={notebooks}"]
    with open(folder / "server.log", "w") as log:
        server = subprocess.Popen(
            command, cwd=notebooks, env=kept, stdout=log, stderr=log
        )
        try:
            address = f"http://127.0.0.1:{port}"
            wait_for(server, address, folder / "server.log")
            yield address
        finally:
            server.terminate()
            server.wait(30)


def wait_for(server: subprocess.Popen, address: str, log: Path) -> None:
    """Wait until the server answers; raise RuntimeError with its log if it ends."""
    until = time.monotonic() + PATIENCE
    while server.poll() is None and time.monotonic() < until:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{address}/api", timeout=5).close()
            return
        time.sleep(0.2)
    raise RuntimeError(f"JupyterLab does not answer:\n{log.read_text()[-2000:]}")


class Notebook:
    """A notebook that is open in JupyterLab; its cells have numbers from 0."""

    def __init__(self, page: Any):
        self.page = page

    def cell(self, number: int) -> Any:
        """Return a cell of code."""
        return self.page.locator(".jp-Notebook .jp-CodeCell").nth(number)

    def output(self, number: int) -> Any:
        """Return the outputs of a cell."""
        return self.cell(number).locator(".jp-OutputArea")

    def run(self, number: int) -> None:
        """Run a cell by the keyboard, and wait until it has finished."""
        cell = self.cell(number)
        cell.locator(".cm-content").click()
        # The prompt has a star instead of a number while the cell waits or runs.
        prompt = cell.locator(".jp-InputPrompt")
        before = prompt.inner_text()
        self.page.keyboard.press("Control+Enter")
        self.page.wait_for_function(
            "([e, before]) => /\\d/.test(e.innerText) && e.innerText !== before",
            arg=[prompt.element_handle(), before],
            timeout=1000 * PATIENCE,
        )

    def edit(self, number: int, source: str) -> None:
        """Replace the text of a cell by the keyboard, as a reader does."""
        self.cell(number).locator(".cm-content").click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(source)

    def choose_theme(self, name: str) -> None:
        """Choose a theme in the menu, such as "JupyterLab Dark"."""
        menu = self.page.locator(".lm-MenuBar-item, .lm-Menu-item")
        for entry in "Settings", "Theme", name:
            menu.get_by_text(entry, exact=True).click()
        self.page.locator(f'body[data-jp-theme-name="{name}"]').wait_for(
            state="attached"
        )


def open_notebook(browser: Any, address: str, folder: Path, *cells: str) -> Notebook:
    """Write a notebook with these cells, and open it."""
    notebook = nbformat.v4.new_notebook(cells=[*map(nbformat.v4.new_code_cell, cells)])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, folder / "notebooks" / "scratch.ipynb")
    size = {"width": 1400, "height": 1000}
    page = open_watched(browser, f"{address}/doc/tree/scratch.ipynb", viewport=size)
    page.set_default_timeout(1000 * PATIENCE)
    page.locator(".jp-Notebook .jp-CodeCell").nth(len(cells) - 1).wait_for()
    return Notebook(page)
