"""kernels/simt and kernels/reference under g++'s sanitizers.

A process must load the sanitizer at its start to load sanitized code, so each of these
tests runs others in a separate process. Deliberate faults are left out, since a
sanitizer stops them.
"""

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from weft.toolchain import build, tools

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
OPTIONS = {
    # Leaks do not count, since a process keeps its memory to the end. The runtime has
    # its own signal handlers, so the sanitizer's must not replace them.
    "ASAN_OPTIONS": "detect_leaks=0:use_sigaltstack=0:allow_user_segv_handler=1:"
    "handle_segv=0:handle_sigfpe=0:handle_abort=0",
    "TSAN_OPTIONS": f"suppressions={HERE}/sanitized/thread.supp:report_signal_unsafe=0",
}
LIBRARIES = {"address,undefined": ("asan", "ubsan"), "thread": ("tsan",)}
SIMT = [f"test_simt{end}.py" for end in ("", "_api", "_device", "_half", "_math")]
SIMT += ["test_simt_curand.py", "test_simt_wmma.py", "test_cnn_reference.py"]
VENDORS = [f"test_simt_{name}.py" for name in ("curand_host", "cufft", "cudnn")]
FAULTS = {  # checks of tests/kernels/simt/api_*.cu with deliberate faults
    *("a_fault_in_a_graph_ends_it", "freed_memory_faults"),
    *("a_store_past_the_end_faults", "a_store_before_the_start_faults"),
    "errors_of_kernels_come_when_somebody_waits",
}


def environment(sanitizer: str) -> dict[str, str]:
    """Return the environment of a process with the sanitizer; skip if it is missing."""
    paths = []
    for name in LIBRARIES[sanitizer]:
        command = [tools.gxx(), f"-print-file-name=lib{name}.so"]
        path = subprocess.run(command, capture_output=True, text=True).stdout.strip()
        if not os.path.isabs(path):
            pytest.skip(f"g++ has no lib{name}.so")
        paths.append(path)
    settings = {"WEFT_SANITIZE": sanitizer, "LD_PRELOAD": " ".join(paths)}
    return os.environ | OPTIONS | settings


def run(sanitizer: str, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *words],
        env=environment(sanitizer),
        capture_output=True,
        text=True,
        timeout=900,
    )


def sanitized(name: str, files: list[Path], sanitizer: str) -> Path:
    flavour = dataclasses.replace(build.Flavour.here("cpu"), sanitize=sanitizer)
    return build.library_of(name, files, flavour)


def call(path: Path, sanitizer: str, *functions: str) -> subprocess.CompletedProcess:
    """Call functions of a library in a separate process, on two threads."""
    body = "import ctypes, sys\nlib = ctypes.CDLL(sys.argv[1])\nlib.simt_set_threads(2)"
    body += "\nfor name in sys.argv[2:]: print(name, getattr(lib, name)(), flush=True)"
    return run(sanitizer, "-c", body, str(path), *functions)


@pytest.mark.parametrize(
    "sanitizer, function, message",
    [
        ("address,undefined", "run_overrun", "heap-buffer-overflow"),
        ("address,undefined", "run_shift", "shift exponent 40 is too large"),
        ("thread", "run_race", "data race"),
    ],
)
def test_a_fault_of_a_fiber_is_seen(sanitizer, function, message):
    files = [HERE / "sanitized" / "faults.cu"]
    result = call(sanitized("sanitized_faults", files, sanitizer), sanitizer, function)
    assert message in result.stderr and "faults.cu" in result.stderr
    assert result.returncode


@pytest.mark.long
@pytest.mark.parametrize("names, passed", [(SIMT, 300), (VENDORS, 130)])
def test_the_runtime_the_cnn_in_c_and_libraries_pass_their_tests_under_asan_and_ubsan(
    names, passed
):
    options = ("-q", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist")
    files = [str(HERE / name) for name in names]
    result = run("address,undefined", "-m", "pytest", *options, *files)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    assert int(re.search(r"(\d+) passed", result.stdout)[1]) > passed


# Only plain C is instrumented: the rungs in CUDA C take minutes to compile, and do not
# run here.
CHECK_PLAIN_C = """
from dataclasses import replace
from weft.__main__ import main
from weft.toolchain import build

make_command = build._make_command

def sanitize_plain_c(source, flavour):
    sanitize = flavour.sanitize if source.suffix == ".c" else ""
    return make_command(source, replace(flavour, sanitize=sanitize))

build._make_command = sanitize_plain_c
main(["check", "--rung", "reference", "--device", "cpu"])

from weft.lessons.micrograd import compare_gradients

compare_gradients(rung="reference")
"""


@pytest.mark.long
def test_the_plain_c_of_every_op_is_right_under_asan_and_ubsan():
    result = run("address,undefined", "-c", CHECK_PLAIN_C)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    # Mnist and micrograd are libraries, but not ops.
    assert result.stdout.count("ok ") == len(build.list_ops()) - 2


def test_streams_graphs_and_launches_have_no_race_under_tsan():
    files = sorted((HERE / "simt").glob("api_*.cu"))
    texts = "".join(path.read_text() for path in files)
    names = set(re.findall(r"^CHECK\((\w+)\)", texts, re.M)) - FAULTS
    path = sanitized("test_simt_api", files, "thread")
    result = call(path, "thread", *(f"check_{name}" for name in sorted(names)))
    assert result.returncode == 0, result.stderr[:6000]
    assert sorted(result.stdout.split()[::2]) == sorted(f"check_{n}" for n in names)
    assert set(result.stdout.split()[1::2]) == {"0"}, result.stdout
