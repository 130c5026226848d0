"""Fixtures and settings of several tests: the targets of this machine, and the zoo."""

import contextlib
import fcntl
import functools
import gc
import os
import re
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

STARTED = time.monotonic()
# Collection allocates objects that live to the end. pytest_collection_finish() enables
# the garbage collector again.
gc.disable()

# This must precede the import of torch. Several workers share the cores. Threads that
# spin while they wait would slow down the threads for which they wait.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# Pictures of times must not depend on how busy the machine is.
os.environ["WEFT_SHARED"] = "draw"
os.environ.pop("WEFT_KEEP", None)  # the tests' records must not join the user's

# jsonschema, which nbformat imports, would build 38 parsers for formats of addresses.
sys.modules.setdefault("rfc3987_syntax", None)

import pytest
from _pytest.assertion import rewrite
from browser import open_chromium
from filelock import FileLock

from weft.base import device as devices
from weft.base.device import count_cores
from weft.timing.results import device_name, stamp_row, write_json
from weft.toolchain import build, native

# A background process ignores Ctrl-C, and its children would inherit that. The tests
# start such children and interrupt them.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def can_use_gpu() -> bool:
    """Return whether PyTorch has a GPU."""
    if not devices.count():
        return False
    import torch  # the import takes seconds; pytest-xdist's controller does not need it

    return torch.cuda.is_available()


TARGETS = ["cpu", *["cuda"] * can_use_gpu()]
ZOO = Path(__file__).parent / "zoo"


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "write the counts of passed, failed and skipped tests and the machine"
    parser.addoption("--outcome", metavar="JSON", help=text)


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    """Write the run's outcome to the file that --outcome names."""
    path = config.getoption("--outcome")
    if not path:
        return
    stats = terminalreporter.stats
    counts = {name: len(stats.get(name, [])) for name in ("passed", "skipped")}
    failed = [report.nodeid for n in ("failed", "error") for report in stats.get(n, [])]
    row = {"op": "suite", "target": TARGETS[-1], "marks": config.getoption("-m")}
    row |= {"device": device_name(TARGETS[-1]), **counts, "failed": failed}
    row |= {
        "seconds": round(time.monotonic() - STARTED, 1),
        "workers": config.getoption("-n", None),
    }
    write_json(path, [row | stamp_row()], TARGETS[-1])


@pytest.hookimpl(optionalhook=True)  # without pytest-xdist, this hook does not exist
def pytest_xdist_auto_num_workers() -> int:
    """Return 1.5 workers per core, because many tests wait for other processes."""
    cores = count_cores()
    return cores + (cores + 1) // 2


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile this worker's share of the test files, in a fresh checkout.

    Every worker collects all files. Without shares, each worker would also rewrite the
    assertions of all files, which takes more than half of the collection's time.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None or sys.dont_write_bytecode:
        return
    files = sorted(Path(__file__).parent.rglob("test_*.py"))
    count = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    # These functions of pytest are private. If a version lacks them, nothing is shared.
    with contextlib.suppress(AttributeError, KeyError, OSError, TypeError):
        state = session.config.stash[rewrite.assertstate_key]
        for file in files[int(worker.removeprefix("gw")) :: count]:
            folder = rewrite.get_cache_dir(file)
            compiled = folder / f"{file.stem}{rewrite.PYC_TAIL}"
            if rewrite._read_pyc(file, compiled) is None:
                source, code = rewrite._rewrite_test(file, session.config)
                folder.mkdir(parents=True, exist_ok=True)
                rewrite._write_pyc(state, code, source, compiled)


def pytest_pycollect_makeitem(collector: pytest.Collector, obj: Any) -> list | None:
    """Create no items of slow functions for the quick tier, which would deselect them.

    An item takes 0.5 ms in each worker.
    """
    if collector.config.getoption("-m") != "not slow":
        return None
    marks = getattr(obj, "pytestmark", [])
    is_slow = "slow" in [getattr(mark, "name", "") for mark in marks]
    # pytest_deselected() refuses the item if the slow tier would not collect its file.
    return [] if is_slow and may_have_slow_tests(collector.path) else None


@functools.cache
def may_have_slow_tests(path: Path) -> bool:
    """Return whether the file marks tests as slow, itself or with tests/tiers.py."""
    return bool(re.search(r"\bslow\b|\btiers\b", path.read_text(encoding="utf-8")))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the files without slow tests in the slow tier: half of all files."""
    is_test = collection_path.name.startswith("test_") and collection_path.is_file()
    if config.option.markexpr == "slow" and is_test:
        return None if may_have_slow_tests(collection_path) else True
    return None


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Refuse, in the quick tier, a slow test that the slow tier would not collect."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    for path in slow:
        if not may_have_slow_tests(path):
            raise pytest.UsageError(f"{path} has slow tests, but not the word slow")


@pytest.hookimpl(trylast=True)  # after the selection by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let each worker begin with long tests; a long test at the end would run alone.

    pytest-xdist gives each worker a run of successive tests, all of about equal length.
    """
    long = [item for item in items if item.get_closest_marker("long")]
    others = [item for item in items if not item.get_closest_marker("long")]
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    ordered: list[pytest.Item] = []
    for worker in range(workers):
        share = (len(items) - len(ordered)) // (workers - worker)
        first = long[worker::workers]
        ordered += first + others[: max(share - len(first), 0)]
        del others[: max(share - len(first), 0)]
    items[:] = ordered + others


def pytest_collection_finish() -> None:
    """Keep the tests out of garbage collection, since they live to the end."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def turn(request, tmp_path_factory):
    """Give a test marked `alone` the GPU to itself while no other test runs."""
    if "cuda" not in TARGETS or "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    alone = request.node.get_closest_marker("alone")
    with open(tmp_path_factory.getbasetemp().parent / "gpu.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


@pytest.fixture(params=TARGETS)
def target(request) -> str:
    """Return each target of this machine: "cpu", and "cuda" with a GPU."""
    return request.param


@pytest.fixture
def device(target):
    import torch  # imported lazily, as in can_use_gpu()

    return torch.device(target)


@pytest.fixture(
    scope="module"
)  # other modules run event loops, which exclude each other
def browser():
    """Start a Chromium for the tests of a module."""
    with open_chromium() as browser:
        yield browser


@functools.cache  # each lookup hashes all sources of the library
def zoo_library(op: str, target: str) -> native.Library:
    """Build tests/zoo/<op>.cu: a library of wrong kernels with one fault per rung."""
    files = [build.KERNELS / "common/common.cu", ZOO / f"{op}.cu"]
    path = build.library_of(f"zoo_{op}", files, build.Flavour.here(target))
    return native.Library(op, target, path)


def first_kernel(op: str) -> str:
    """Return the name of an op's first rung in CUDA C."""
    return next(rung.name for rung in native.rungs(op) if "cuda" in rung.targets)


_large_test = FileLock(Path(tempfile.gettempdir()) / f"weft_memory_{os.getuid()}.lock")


def want_memory(gigabytes: int) -> None:
    """Skip the test unless the machine has this much free memory.

    Only one such test runs at a time: two together could exceed the memory.
    """
    _large_test.acquire()
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if free < gigabytes << 30:
        pytest.skip(f"needs {gigabytes} GB of memory")


def pytest_runtest_teardown() -> None:
    """Let the next test that calls want_memory() begin."""
    _large_test.release()  # without effect if this test does not hold it
