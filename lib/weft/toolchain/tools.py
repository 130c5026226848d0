"""Find the installed compilers and disassemblers, and run them.

run() gives each compiler a separate process group, so that it can end all processes.
g++ is only a driver: killing it alone leaves the actual compiler running. run() raises
BuildError if a compiler hangs, is ended by a signal, or fails because the disk is full.
The caller interprets messages about the source.

disassemble() returns machine code as text, with NVIDIA's nvdisasm or cuobjdump.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..base import device
from ..base.device import count_cores
from ..base.errors import BuildError, defer_interrupts
from ..base.paths import ROOT

LIMIT = 600.0  # seconds for a compiler; the lab's slowest source takes 15
_DISK_FULL = "No space left on device", "Disk quota exceeded", "File too large"
_thread = threading.local()  # its attribute crew is the Crew of this thread's pool


class Crew:
    """The running compilers of a pool.

    The lock makes starting and recording a compiler one step, so that end() misses
    no compiler.
    """

    def __init__(self) -> None:
        self.running: set[subprocess.Popen[str]] = set()
        self.lock = threading.Lock()
        self.ended = False

    def start(self, *words: Any) -> subprocess.Popen[str]:
        """Start a compiler; see _start_compiler(). Raises BuildError after end()."""
        with self.lock:
            if self.ended:
                raise BuildError("the build was stopped")
            child = _start_compiler(*words)
            self.running.add(child)
        return child

    def end(self) -> None:
        """Kill the running compilers, and prevent new ones from starting."""
        with self.lock:
            self.ended = True
            for child in list(self.running):
                _kill(child)


def run(
    command: Sequence[str], stdin: str | None = None, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a compiler to its end; return its output and its exit status.

    folder: the compiler's working directory; by default the current one. Raises
    BuildError if the compiler does not start, exceeds WEFT_COMPILE_SECONDS (600), is
    ended by a signal, or fails because the disk is full. Ctrl-C ends the compiler.
    """
    name, seconds = os.path.basename(command[0]), limit()
    crew, child = getattr(_thread, "crew", None) or Crew(), None
    try:
        with defer_interrupts():  # Ctrl-C must not leave an unrecorded compiler running
            child = crew.start(command, stdin is not None, folder)
        output, errors = child.communicate(stdin, timeout=seconds)
    except subprocess.TimeoutExpired:
        text = f"{name} did not finish within {seconds:g} s and was stopped"
        cure = "WEFT_COMPILE_SECONDS sets another limit"
        raise BuildError(f"{text} ({cure}): {command[0]}") from None
    finally:
        if child:
            crew.running.discard(child)
            _end(child)
    errors = errors.encode(errors="surrogateescape").decode(errors="replace")
    process = subprocess.CompletedProcess(command, child.returncode, output, errors)
    if process.returncode:
        _check_machine(process, name)
    return process


def _start_compiler(
    command: Sequence[str], reads: bool, folder: Path | None
) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(
            command,
            **{"stdin": subprocess.PIPE if reads else subprocess.DEVNULL},
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE},
            # A compiler's messages quote file names, which may contain any bytes.
            **{"encoding": "utf-8", "errors": "surrogateescape"},
            **{"process_group": 0, "env": _make_environment(), "cwd": folder},
            close_fds=False,  # otherwise Python could not use vfork()
        )
    except OSError as error:
        raise BuildError(f"cannot start {command[0]}: {error.strerror}") from None


@contextlib.contextmanager
def make_pool() -> Iterator[concurrent.futures.Executor]:
    """Yield a pool of one thread per core; an error ends its running compilers."""
    crew = Crew()

    def join_pool() -> None:
        _thread.crew = crew

    with concurrent.futures.ThreadPoolExecutor(count_cores(), "", join_pool) as pool:
        try:
            yield pool
        except BaseException:  # Ctrl-C must work, since the compilers may need a minute
            pool.shutdown(wait=False, cancel_futures=True)
            crew.end()
            raise


def version_of(compiler: str, flags: Sequence[str] = ()) -> str:
    """Return a compiler's version message and a description of this machine.

    flags: with -march=native or a similar flag, the description includes the
    processor's features. Without such a flag, similar machines can share objects.
    """
    is_native = any(flag.endswith("=native") for flag in flags)
    return _read_version(compiler) + (cpu_flags() if is_native else "")


@functools.cache
def _read_version(compiler: str) -> str:
    process = run([compiler, "--version"])
    if process.returncode:
        raise BuildError(f"{compiler} is not a compiler: {said_by(process)}")
    return process.stdout + os.uname().machine


def said_by(done: subprocess.CompletedProcess[str]) -> str:
    """Return a failed compiler's output, or a message that it printed nothing."""
    name = os.path.basename(done.args[0])
    summary = f"{name} failed with exit status {done.returncode} and printed nothing"
    return (done.stderr or done.stdout).strip() or f"{summary}: {done.args[0]}"


def limit() -> float:
    """Return the time limit for a compiler, in seconds."""
    text = os.environ.get("WEFT_COMPILE_SECONDS") or str(LIMIT)
    with contextlib.suppress(ValueError):
        if float(text) > 0:
            return float(text)
    raise BuildError(f"WEFT_COMPILE_SECONDS is {text}, expected seconds above 0")


def _make_environment() -> dict[str, str]:
    """Return an environment for UTF-8 and for English messages, which Weft parses."""
    return {**os.environ, "LC_ALL": "C.UTF-8", "LANGUAGE": ""}


def _check_machine(done: subprocess.CompletedProcess[str], name: str) -> None:
    """Raise BuildError if the compiler failed for a reason other than the source."""
    if message := next((words for words in _DISK_FULL if words in done.stderr), ""):
        temporary = os.environ.get("TMPDIR") or tempfile.gettempdir()
        raise BuildError(
            f"{name} cannot write its output: {message}. Free some space in the cache "
            f"folder (weft cache prints its path) and in {temporary}, or set "
            f"WEFT_CACHE and TMPDIR to folders with free space"
        )
    if done.returncode < 0:
        signal_name = signal.Signals(-done.returncode).name
        raise BuildError(f"{name} was ended by {signal_name}: {done.args[0]}")


def _end(child: subprocess.Popen) -> None:
    """End the compiler and close its pipes."""
    if child.returncode is None:
        _kill(child)
        child.wait()
    for pipe in (child.stdin, child.stdout, child.stderr):
        # A compiler may end without reading all its input.
        with contextlib.suppress(OSError):
            if pipe:
                pipe.close()


def _kill(child: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


def nvcc() -> str | None:
    """Return the path of nvcc: on PATH, in CUDA_HOME, or in pip's wheels; or None."""
    if path := shutil.which("nvcc"):
        return path
    try:
        from cuda.pathfinder import find_nvidia_binary_utility

        return find_nvidia_binary_utility("nvcc")
    except ImportError:
        return None


def gxx() -> str | None:
    """Return the path of the CPU target's C++ compiler (CXX overrides it), or None."""
    return shutil.which(os.environ.get("CXX", "g++"))


@functools.cache
def vendor_headers(path: tuple[str, ...]) -> tuple[str, ...]:
    """Return nvcc's flags for the cuDNN and cuBLAS headers in pip's wheels.

    They must follow the toolkit's own flags, since these folders may contain headers of
    other versions.
    path: sys.path, an argument so that the result can be cached
    """
    spec = importlib.util.find_spec("nvidia")  # a namespace package without code
    folders: dict[Path, None] = {}
    for place in (spec and spec.submodule_search_locations) or ():
        for name in ("cudnn.h", "cublas_v2.h"):
            headers = sorted(Path(place).glob(f"*/include/{name}"))
            folders |= dict.fromkeys(header.parent for header in headers)
    return tuple(word for folder in folders for word in ("-isystem", str(folder)))


def pip_command(package: str) -> str:
    """Return the command that installs an NVIDIA package for torch's CUDA release.

    package: its name for CUDA 13.
    """
    torch = sys.modules.get("torch")
    is_12 = torch is not None and str(torch.version.cuda).startswith("12.")
    return f"pip install {package}{'-cu12' if is_12 else ''}"


_NO_GXX = "no C++ compiler{}: install one (Debian, Ubuntu: apt install g++)"


# Characters that g++ does not support in a folder's name, because it passes the name
# unquoted to the assembler and the preprocessor.
_UNREADABLE = re.compile(r'["\\\x00-\x1f\x7f\udc80-\udcff]')


def find_tool(name: str) -> str:
    """Return the path of "g++" or "nvcc"; raise BuildError with a cure if missing."""
    if match := _UNREADABLE.search(str(ROOT)):
        raise BuildError(
            f"the lab is in {str(ROOT)!r}, and {name} cannot read a folder with "
            f"{match[0]!r} in its name: rename the folder or move the lab"
        )
    path = gxx() if name == "g++" else nvcc()
    if not path:
        if name == "nvcc":
            cure = pip_command("nvidia-cuda-nvcc")
            raise BuildError(f"no nvcc: install the CUDA Toolkit, or {cure}")
        cxx = os.environ.get("CXX")
        raise BuildError(_NO_GXX.format(f" '{cxx}' (from CXX)" if cxx else ""))
    return path


@functools.cache
def cpu_flags() -> str:
    """Return the processor's features, since -march=native depends on them."""
    try:
        text = Path("/proc/cpuinfo").read_text()
        return re.search(r"(flags|Features)\s*:.*", text).group()
    except (OSError, AttributeError):
        return ""


def live_sm() -> str:
    """Return the current GPU's architecture in nvcc's spelling, or raise BuildError."""
    if not device.count():
        raise BuildError("no CUDA GPU here, and the CUDA build needs one")
    major, minor = device.compute_capability(device.current_gpu())
    # Only the architecture-specific target has wgmma; -arch=native does not select it.
    return f"{major}{minor}" + ("a" if major >= 9 else "")


def toolkit_version() -> str:
    """Return the release of nvcc, e.g. "13.0", or "none"."""
    compiler = nvcc()
    if not compiler:
        return "none"
    process = subprocess.run([compiler, "--version"], text=True, capture_output=True)
    release = [part for part in process.stdout.split(",") if "release" in part]
    return release[0].split()[-1] if release else "unknown"


TOOLS = ("nvdisasm", "cuobjdump")
_CURE = "pip install nvidia-cuda-nvdisasm"


def disassemble(cubin: bytes, lines: bool = False) -> str:
    """Return the instructions of a cubin; raise BuildError if no tool can read it.

    lines: whether to add labels, and comments with the source lines of all inlined
    functions; only nvdisasm writes them.
    """
    tool = find_disassembler()
    if lines and "cuobjdump" in Path(tool).name:
        raise BuildError(f"{tool} prints no source lines, but nvdisasm does: {_CURE}")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        option = "-sass" if "cuobjdump" in Path(tool).name else "-c"
        command = [tool, option, *["-gi"] * lines, file.name]
        process = subprocess.run(command, text=True, capture_output=True)
    if process.returncode:
        raise BuildError(f"{tool}: {(process.stderr or process.stdout).strip()}")
    return process.stdout


@functools.cache
def find_disassembler() -> str:
    """Return the path of a disassembler; raise BuildError if there is none.

    The search covers PATH, the toolkit, pip's packages and Triton.
    """
    from cuda import pathfinder

    finders: list[Callable[[str], Any]] = [shutil.which]
    if hasattr(pathfinder, "find_nvidia_binary_utility"):
        finders.append(pathfinder.find_nvidia_binary_utility)
    triton = importlib.util.find_spec("triton")
    if triton and triton.origin:
        folder = Path(triton.origin).parent / "backends" / "nvidia" / "bin"
        finders.append(lambda name: shutil.which(name, path=str(folder)))
    for find in finders:
        for name in TOOLS:
            try:
                path = find(name)
            except Exception:  # for an unknown name, pathfinder raises an error
                continue
            if path and os.access(path, os.X_OK):
                return path
    raise BuildError(f"no nvdisasm and no cuobjdump, which print machine code: {_CURE}")
