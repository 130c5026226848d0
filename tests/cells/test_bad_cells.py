"""The cells of bad_cells.py in a real Jupyter kernel: none of them ends the session.

After each cell, one sentence has named its fault, and the next cell works: its kernel,
NumPy's arithmetic and its output.
"""

from __future__ import annotations

import queue
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from bad_cells import CELLS, LONG, LOST, MODES, Cell
from jupyter_client.manager import KernelManager
from kernel_sockets import make_sockets

MEMORY = 8 << 30  # the session's limit in bytes, since other programs need memory, too
MODES_OF_LAUNCH = ["", "--fast"]  # cells run watched, then unwatched
START = f"""
%load_ext weft
import os, resource, numpy as np
resource.setrlimit(resource.RLIMIT_DATA, ({MEMORY}, {MEMORY}))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
x = np.zeros(64, np.int32)
"""
GOOD = """%%cuda --cpu --fast
__global__ void good(int *x, float *y, int n) {
    __shared__ int s[32];
    s[threadIdx.x] = n + threadIdx.x;
    __syncthreads();
    x[threadIdx.x] = s[31 - threadIdx.x];
    y[threadIdx.x] = 1.0f / (n + 2);
}
"""
NEXT = """
good_x, good_y = np.zeros(32, np.int32), np.zeros(32, np.float32)
good[1, 32](good_x, good_y, 1)
assert (good_x == 32 - np.arange(32)).all() and (good_y == np.float32(1) / 3).all()
least = np.full(64, np.finfo(np.float32).smallest_normal)
assert (least / 2 > 0).all(), "numbers flush to zero"
thirds = np.array([1 / 3, -1 / 3, 2 / 3]).astype(np.float32).view(np.uint32)
assert (thirds == [0x3EAAAAAB, 0xBEAAAAAB, 0x3F2AAAAB]).all(), "another rounding"
with np.errstate(all="ignore"):
    assert np.isinf(np.ones(9) / np.zeros(9)).all()
os.fstat(0), os.fstat(1), os.fstat(2)
print("the next cell is right")
"""


@dataclass
class Outcome:
    """The outcome of a cell. ended: whether the session ended with it."""

    error: str = ""
    out: str = ""
    ended: bool = False


class Session:
    """A Jupyter kernel, which can be started again after its end."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        self.sockets = ExitStack()
        config = self.sockets.enter_context(make_sockets())
        self.manager = KernelManager(kernel_name="python3", config=config)
        self.manager.start_kernel(start_new_session=True)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=120)
        for cell in (START, GOOD, NEXT):
            outcome = self.run(cell)
            assert not outcome.error and not outcome.ended, outcome

    def end(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.sockets.close()

    def run(self, cell: str, seconds: float = 120) -> Outcome:
        """Run a cell until it or the session ends."""
        outcome, number = Outcome(), self.client.execute(cell, stop_on_error=False)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                message = self.client.get_iopub_msg(timeout=0.5)
            except queue.Empty:
                if not self.manager.is_alive():
                    break
                continue
            content, kind = message["content"], message["msg_type"]
            if message["parent_header"].get("msg_id") != number:
                continue
            if kind == "stream":
                outcome.out += content["text"]
            elif kind == "error":
                outcome.error = f"{content['ename']}: {content['evalue']}"
            elif kind == "status" and content["execution_state"] == "idle":
                return outcome
        outcome.ended = True
        return outcome


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    session = Session()
    yield session
    session.end()


def run_bad_cell(session: Session, cell: Cell, options: str) -> str:
    """Run a bad cell and return its error; the session must run the next cell."""
    limit = "--timeout 1" if cell.says == LONG else ""
    outcome = session.run(f"%%cuda --cpu {limit} {options}\n{cell.source}")
    if not outcome.error and not outcome.ended:
        outcome = session.run("k[2, 32](x, 64)")
    next_outcome = Outcome(ended=True) if outcome.ended else session.run(NEXT)
    if next_outcome.ended or next_outcome.error:
        session.end()  # the next cell needs a working session
        session.start()
    assert not outcome.ended, "the cell ended the session"
    assert not next_outcome.ended, (
        f"the cell after it ended the session: {outcome.error}"
    )
    assert (next_outcome.error, next_outcome.out) == ("", "the next cell is right\n")
    return outcome.error


def tiers(cells: list[Cell]) -> list:
    """Return each cell, watched and unwatched; all but the quick ones are slow."""
    return [
        pytest.param(
            cell,
            options,
            id=f"{cell.name}{options}",
            marks=[] if cell.quick and options else [pytest.mark.slow],
        )
        for cell in cells
        for options in MODES_OF_LAUNCH
    ]


@pytest.mark.parametrize("cell, options", tiers(CELLS))
def test_one_sentence_names_the_kernel_and_the_session_goes_on(session, cell, options):
    message = run_bad_cell(session, cell, options)
    if not message:
        assert cell.may_pass and options
        return
    assert re.match(r"KernelFault: k: |CompileError: ", message)
    assert re.search(cell.says, message.splitlines()[0]), message


@pytest.mark.parametrize("cell, options", tiers(MODES))
def test_modes_of_the_processor_do_not_outlive_the_launch(session, cell, options):
    assert run_bad_cell(session, cell, options) == ""


@pytest.mark.slow
@pytest.mark.parametrize("cell", LOST, ids=lambda cell: cell.name)
def test_an_isolated_cell_loses_only_its_process(session, cell):
    message = run_bad_cell(session, cell, "--isolated")
    assert message.startswith("KernelFault: k: its process ended (exit status -")


def test_there_are_a_hundred_cells():
    cells = [*CELLS, *MODES, *LOST]
    assert len(cells) >= 100 and len({cell.name for cell in cells}) == len(cells)
