"""Compile kernels/ to lib/libweft_*.so, one library per op and target.

A library is built when an op is first used. Its sources are compiled to objects, which
are cached under a hash of text, headers, flags and compiler. The library's name
contains a hash of all its objects, so new code always has a new name. Otherwise,
reopening a path would run the old code, and overwriting an open library would kill the
process. tools.py finds and runs the compilers.

    cpu   .cu through rewrite.py and g++ with kernels/simt, .c through g++
    cuda  .cu through nvcc, as machine code for this machine's GPU
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import os
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..base import device, store
from ..base.errors import BuildError
from ..base.paths import KERNELS, ROOT
from ..base.progress import PATIENCE, Progress, remark
from ..csource import rewrite as rewriter
from . import keys, tools
from .tools import find_tool, live_sm, nvcc, vendor_headers, version_of

SIMT = (KERNELS / "simt" / "include", KERNELS / "simt")  # folders with simt's headers
WARNINGS = ["-Wall", "-Wextra"]  # errors in the tests; see compile_check()
FIBERS = ("asm", "ucontext")
SANITIZERS = ("address,undefined", "thread")
# Undefine the macro that Ubuntu's g++ defines. Its inline functions would replace the
# runtime's printf() and the hooked builtins in kernels.
PLAIN_LIBRARY = "-U_FORTIFY_SOURCE"
# These flags make code call the hooks of kernels/simt/watch. Only the compiler receives
# them. They would make the linker add libtsan, which defines the same hooks.
CHECK_FLAGS = (
    *("-O1", "-DSIMT_CHECK", "-fsanitize=thread", "-Wno-tsan"),
    # g++ reads the source from stdin. With DWARF 5, addr2line would attribute a
    # function's first lines to <stdin>.
    *("-g1", "-gdwarf-4"),
    "-fno-tree-sra",  # otherwise, g++ splits a float4 into four loads
    *("--param", "tsan-distinguish-volatile=1"),
    *("--param", "tsan-instrument-func-entry-exit=0"),
    "-fsanitize=bounds,shift-exponent,float-cast-overflow",
    "-fsanitize-coverage=trace-pc",
    *("-fno-builtin-memcpy", "-fno-builtin-memmove", "-fno-builtin-memset"),
)
# With these linker flags, the runtime replaces the heap functions that kernels call. In
# the watch build, it also replaces memcpy(), memmove() and memset(), to add hooks.
_HEAP = (
    *("malloc", "free", "calloc"),
    *("_Znwm", "_Znam", "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm"),
)
HEAP_LINK = tuple(f"-Wl,--wrap={name}" for name in _HEAP)
CHECK_LINK = (*HEAP_LINK, *(f"-Wl,--wrap=mem{name}" for name in ("cpy", "move", "set")))
CHECK_SMS = ("75", "80", "90a", "100")  # targets that nvcc must accept without a GPU


@dataclass(frozen=True)
class Flavour:
    """The kind of library to build.

    march:  (CPU) value of -march for the plain C rungs: native, x86-64-v3, ...
    fibers: (CPU) method by which the SIMT runtime switches threads: asm or ucontext
    check:  whether kernels call the hooks of the watch build
    sanitize: value of -fsanitize, one of SANITIZERS, to find faults in the lab's code;
        the process that loads such a library must preload the sanitizer
    sm: (CUDA) compute capabilities in nvcc's spelling, separated by commas
    openmp: (CPU) whether the plain C rungs use several threads
    """

    target: str  # "cpu" or "cuda"
    march: str = "native"
    fibers: str = "asm"
    check: bool = False
    sanitize: str = ""
    sm: str = ""
    openmp: bool = True

    @staticmethod
    def here(target: str) -> Flavour:
        """Return this machine's flavour; WEFT_MARCH, _FIBERS, _SANITIZE change it."""
        if target == "cuda":
            return Flavour("cuda", sm=live_sm())
        march = os.environ.get("WEFT_MARCH", "native")
        fibers = os.environ.get("WEFT_FIBERS", "asm")
        if fibers not in FIBERS:
            raise BuildError(f"WEFT_FIBERS is {fibers}, expected {' or '.join(FIBERS)}")
        sanitize = os.environ.get("WEFT_SANITIZE", "")
        if sanitize not in ("", *SANITIZERS):
            sanitizers = " or ".join(SANITIZERS)
            raise BuildError(f"WEFT_SANITIZE is {sanitize}, expected {sanitizers}")
        return Flavour("cpu", march, fibers, sanitize=sanitize)


def list_ops() -> list[str]:
    """List every op: a file kernels/<op>.cu, or a folder kernels/<op>/ with .cu files.

    norm/ contains the rungs that two ops share, and vendor/ calls NVIDIA's libraries.
    Hidden folders, where Jupyter keeps copies of saved files, are ignored.
    """
    files = {path.stem for path in KERNELS.glob("*.cu")}
    folders = {path.parent.name for path in KERNELS.glob("[!.]*/*.cu")}
    folders -= {"common", "norm", "vendor"}
    return sorted(files | folders)


def list_sources(op: str, target: str) -> list[Path]:
    """List the files of an op's library, including those of the ops that it calls.

    A file that calls weft_<other>() needs that op. A file with the name
    <stem>_reference needs <stem>.c and <stem>_*.c from a folder reference/.
    """
    files: list[Path] = []
    queue = [KERNELS / "common" / "common.cu", *_cuda_sources(op)]
    if len(queue) == 1:
        known = ", ".join(list_ops())
        raise BuildError(f"no op '{op}' in {KERNELS}; there are {known}")
    while queue:
        path = queue.pop()
        if path in files:
            continue
        files.append(path)
        text = path.read_text()
        for name in re.findall(r"\bweft_(\w+?)(?:_backward)?\s*\(", text):
            queue += _cuda_sources(name)
        if target == "cpu":
            for stem in re.findall(r"\b(\w+?)_reference(?:_backward)?\b", text):
                queue += _reference_sources(stem)
    return sorted(files)


def library(op: str, flavour: Flavour) -> Path:
    """Return the path of the op's library; build it if it does not exist yet.

    Raises BuildError without a compiler (the message names the package to install), or
    if the compiler fails (the message contains its diagnostics).
    """
    return library_of(op, list_sources(op, flavour.target), flavour)


def library_of(name: str, files: list[Path], flavour: Flavour) -> Path:
    """Return the path of a library of these files, including common.cu; build it."""
    runtime = [simt_runtime(flavour)] if flavour.target == "cpu" else []
    name = f"{name}_check" if flavour.check else name
    return _link(name, files, flavour, runtime)


def simt_runtime(flavour: Flavour) -> Path:
    """Return the path of the SIMT runtime with which every CPU library is linked.

    Plain and watched code share it.
    """
    sources = keys.list_sources(*keys.RUNTIME)
    flavour = replace(flavour, check=False)
    stamps = tuple((path, path.stat().st_mtime_ns) for path in sources)
    key = flavour, stamps, find_tool("g++")
    if key not in _runtimes or not store.is_complete_elf(_runtimes[key]):
        _runtimes[key] = _link("simt", list_runtime(), flavour, [])
    return _runtimes[key]


def list_runtime() -> list[Path]:
    """List the SIMT runtime's files that CPU libraries and wheels are linked with.

    program/ is only for CUDA programs, and libraries/ replaces NVIDIA's libraries.
    """
    files = [path for path in keys.list_sources(*keys.RUNTIME) if path.suffix == ".cpp"]
    return [f for f in files if f.parent.name not in ("program", "libraries")]


# Cached, since every library needs the runtime, whose hash covers a hundred files.
_runtimes: dict[tuple[Any, ...], Path] = {}


def vendor_library(name: str, flavour: Flavour) -> Path:
    """Return the path of the CPU version of an NVIDIA library; build it.

    name: a value of VENDOR_HEADERS. The sources are the files of kernels/simt/libraries
    whose names begin with `name`, and X.c if one of them includes "X.h".
    """
    folder = KERNELS / "simt" / "libraries"
    own = sorted(folder.glob(f"{name}*"))
    stems = {stem for file in own for stem in _OWN_HEADER.findall(file.read_text())}
    shared = [f for stem in sorted(stems) if (f := folder / f"{stem}.c").exists()]
    files = [file for file in {*own, *shared} if file.suffix in (".c", ".cpp")]
    flavour = replace(flavour, check=False)
    return _link(name, sorted(files), flavour, [simt_runtime(flavour)])


# The header that declares an NVIDIA library, and the library's name. Programs may
# include the header through another one: cublas_v2.h includes cublas_api.h.
VENDOR_HEADERS = {
    **{"cublas_api.h": "cublas", "cublasLt.h": "cublas", "cublasXt.h": "cublas"},
    **{"curand.h": "curand", "cufft.h": "cufft", "cudnn.h": "cudnn"},
}
_OWN_HEADER = re.compile(r'#include "(\w+)\.h"')


def build_all(target: str) -> list[Path]:
    """Build every op for `target`; return the libraries' paths.

    For "cpu", also build the CPU versions of NVIDIA's libraries, so that lesson 12
    need not wait for them.
    """
    flavour, paths = Flavour.here(target), []
    builds = [(library, op) for op in list_ops()]
    if target == "cpu":
        builds += [(vendor_library, n) for n in sorted({*VENDOR_HEADERS.values()})]
    title = f"building for {target}"
    with Progress(title, len(builds), "libraries", delay=PATIENCE) as job:
        for build, name in builds:
            paths.append(build(name, flavour))
            job.update()
    return paths


def compile_check(source: Path, flavour: Flavour) -> None:
    """Compile one source as for a library; raise BuildError if there are warnings.

    The tests compile every source this way. library() ignores warnings, since a
    compiler newer than the lab must not stop a reader.
    """
    warnings = _warnings_path(_compile_object(source, flavour))
    if warnings.exists():
        raise BuildError(warnings.read_text())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `python -m weft build`."""
    text = "default: all of this machine"
    parser.add_argument("--device", choices=("cpu", "cuda"), help=text)
    text = "build only the library on which cells of CUDA C run on the CPU"
    parser.add_argument("--runtime", action="store_true", help=text)


def main(args: argparse.Namespace) -> int:
    """Build every op for the CPU and, if there is a GPU and nvcc, for the GPU."""
    if args.runtime:
        simt_runtime(Flavour.here("cpu"))
        return 0
    targets = ["cpu"] + ["cuda"] * (device.count() > 0 and nvcc() is not None)
    for target in [args.device] if args.device else targets:
        print(f"weft: {len(build_all(target))} libraries for {target} are ready")
    return 0


# ---- sources ---------------------------------------------------------------


def _cuda_sources(op: str) -> list[Path]:
    path = KERNELS / f"{op}.cu"
    if path.exists():
        return [path]
    folder = KERNELS / op
    return sorted([*folder.glob("*.cu"), *folder.glob("[!.]*/*.cu")])


def _reference_sources(stem: str) -> list[Path]:
    for source in KERNELS.glob(f"**/reference/{stem}.c"):
        return [source, *sorted(source.parent.glob(f"{stem}_*.c"))]
    return []


# ---- compiling -------------------------------------------------------------


def _make_command(source: Path, flavour: Flavour) -> list[str]:
    """Return the compiler command for one source, without input and output files."""
    include = [f"-I{KERNELS}", f"-I{KERNELS / 'common'}"]
    if flavour.target == "cuda":
        sms = flavour.sm.split(",")
        arch = [f"-gencode=arch=compute_{sm},code=sm_{sm}" for sm in sms]
        host = ",".join(["-fPIC", "-fvisibility=hidden", *WARNINGS])
        command = [find_tool("nvcc"), "-c", "-O3", "-std=c++17", *arch, *include]
        command += ["-Xcompiler", host, *vendor_headers(tuple(sys.path))]
        return command + own_flags(source)
    include += [f"-I{folder}" for folder in SIMT]
    common = [*include, "-fPIC", "-fvisibility=hidden", *WARNINGS]
    common += ["-Wno-unknown-pragmas"]  # for #pragma unroll
    if source.suffix == ".c":
        march = [f"-march={flavour.march}", *["-fopenmp"] * flavour.openmp]
        march += ["-Wno-psabi"]
        march += _sanitizer_flags(flavour)
        march += own_flags(source, "g++")
        return [find_tool("g++"), "-x", "c", "-c", "-std=gnu11", "-O3", *march, *common]
    fibers = ["-DSIMT_UCONTEXT"] if flavour.fibers == "ucontext" else []
    # Kernels are compiled for any machine and without fused multiply-adds, so that
    # results do not depend on the machine. Without errno, sqrtf() is one instruction,
    # as on a GPU.
    plain = ["-O3" if source.suffix == ".cu" else "-O2", "-fno-math-errno", *fibers]
    plain += ["-ffp-contract=off", "-fno-gnu-unique", "-fopenmp", PLAIN_LIBRARY]
    # With this flag, a stack that overflows always reaches the guard page.
    plain += ["-fstack-clash-protection"]
    plain += ["-fwrapv"]  # an overflowing int wraps, as on a GPU
    # g++ reads the rewritten text from a pipe, so -iquote names the source's folder.
    plain += ["-iquote", str(source.parent)]
    plain += own_flags(source, "g++")
    common += CHECK_FLAGS if flavour.check else _sanitizer_flags(flavour)
    return [find_tool("g++"), "-x", "c++", "-c", "-std=c++17", *plain, *common]


def _sanitizer_flags(flavour: Flavour) -> list[str]:
    """Return g++'s flags for a sanitizer; the runtime informs it of fiber switches."""
    if not flavour.sanitize:
        return []
    flags = [f"-fsanitize={flavour.sanitize}", "-fno-sanitize-recover=all"]
    return [*flags, "-DSIMT_SANITIZE", "-O1", "-g1", "-fno-omit-frame-pointer"]


def own_flags(source: Path, compiler: str = "nvcc") -> list[str]:
    """Return the flags that a source file adds for `compiler`, "nvcc" or "g++".

    A file adds them in a line such as "/* nvcc: -Xptxas=-O1 */". Kernels use "g++" if
    their CPU version compiles slowly; plain C uses it to align loops.
    """
    line = rf"^/\* {re.escape(compiler)}: (.*) \*/$"
    match = re.search(line, source.read_text(), re.MULTILINE)
    return match[1].split() if match else []


def _compile_object(source: Path, flavour: Flavour) -> Path:
    """Compile one source to an object in the cache, unless the object exists."""
    command = _make_command(source, flavour)
    target = _object_path(source, command)
    if store.has_file(target):
        for path in (target, _warnings_path(target)):
            with contextlib.suppress(FileNotFoundError):
                os.utime(path)  # mark it as used: prune() deletes the oldest
        return target
    if flavour.target == "cpu" and source.suffix == ".cu":
        text = rewriter.rewrite(source.read_text(), str(source))
        messages = _run([*command, "-"], target, text)
    else:
        messages = _run([*command, str(source)], target)
    if messages:
        store.write(_warnings_path(target), messages)
    return target


def _warnings_path(target: Path) -> Path:
    """Return the path of the file with the compiler's warnings about an object."""
    return target.with_suffix(".txt")


def _object_path(
    source: Path, command: list[str], read: keys.Reader = keys.read
) -> Path:
    """Return the object's path, which contains a hash of all inputs.

    read: keys.read(), or a cached version of it
    """
    folders = tuple(word[2:] for word in command if word.startswith("-I"))
    texts = keys.list_texts(source, folders, read)
    if source.suffix == ".cu":
        texts.append(keys.hash_sources(*keys.REWRITER))
    else:  # these objects contain no path, so all checkouts share them
        command = [word.replace(str(ROOT), "") for word in command]
    digest = _hash(version_of(command[0], command), *command, *texts)
    return store.cache_folder("objects") / f"{source.stem}-{digest}.o"


def _link(name: str, files: list[Path], flavour: Flavour, needs: list[Path]) -> Path:
    """Compile `files` in parallel, one per core, and link the objects to a library."""
    read = functools.cache(keys.read)  # many files include the same headers
    names = [_object_path(f, _make_command(f, flavour), read).name for f in files]
    digest = _hash(*names, *map(str, needs), keys.hash_sources(*keys.BUILDER))
    file = f"libweft_{flavour.target}_{name}_{digest}.so"
    if path := _find_library(file):
        return path
    lock = store.cache_folder("locks") / f"{flavour.target}_{name}"
    building = Progress(f"building {name} for {flavour.target}", len(files), "files")
    with contextlib.ExitStack() as stack:
        waiting = Progress(f"waiting for another process to build {name}")
        wait = functools.partial(stack.enter_context, waiting)
        stack.enter_context(store.lock_file(lock, tools.limit(), wait))
        if path := _find_library(file):  # another process has built it
            return path
        directory = next(d for d in _library_folders() if os.access(d, os.W_OK))
        objects = []
        with building, tools.make_pool() as pool:
            for path in pool.map(lambda f: _compile_object(f, flavour), files):
                objects.append(str(path))
                building.update()
            _run(_linker_command(file, objects, flavour, needs), directory / file)
    _prune(directory, f"libweft_{flavour.target}_{name}_*.so")
    store.prune()
    return directory / file


def _find_library(file: str) -> Path | None:
    """Return the path of the library `file`, or None; delete a damaged library."""
    for path in (folder / file for folder in _library_folders()):
        if store.is_complete_elf(path):
            return path
        if path.exists() and os.access(path.parent, os.W_OK):
            remark(f"{path} is damaged: building it again")
            path.unlink(missing_ok=True)
    return None


def _linker_command(
    file: str, objects: list[str], flavour: Flavour, needs: list[Path]
) -> list[str]:
    """Return the command that links the library `file`, without its output option."""
    if flavour.target == "cuda":
        return [find_tool("nvcc"), "-shared", *objects]
    command = [find_tool("g++"), "-shared", "-fopenmp", "-pthread", *objects]
    command += [f"-fsanitize={flavour.sanitize}"] * bool(flavour.sanitize)
    # With $ORIGIN, the loader searches the library's own folder, even if the checkout
    # has moved. Unlike -Xlinker, -Wl would split a folder's name at a comma.
    options = [("-soname", file), ("-rpath", "$ORIGIN")]
    options += [("-rpath", folder) for folder in {str(need.parent) for need in needs}]
    command += [word for pair in options for one in pair for word in ("-Xlinker", one)]
    return [*command, *map(str, needs), "-lm", *(CHECK_LINK if flavour.check else ())]


def _run(command: list[str], output: Path, stdin: str | None = None) -> str:
    """Run a compiler that writes `output`, completely or not at all.

    Returns the compiler's messages.
    """
    with store.replace_file(output) as part:
        process = tools.run([*command, "-o", str(part)], stdin)
        if process.returncode or not part.stat().st_size:
            raise BuildError(tools.said_by(process))
        os.chmod(part, 0o755)
    return (process.stderr + process.stdout).strip()


def _library_folders() -> list[Path]:
    """Return the checkout's lib/ and, if lib/ is not writable, the cache as well."""
    lib = ROOT / "lib"
    return [lib] if os.access(lib, os.W_OK) else [lib, store.cache_folder("lib")]


def _prune(directory: Path, pattern: str, keep: int = 4) -> None:
    """Delete all but the `keep` newest libraries; open libraries remain usable."""

    def age(path: Path) -> float:
        with contextlib.suppress(FileNotFoundError):  # another process has deleted it
            return -path.stat().st_mtime
        return 0.0

    for path in sorted(directory.glob(pattern), key=age)[keep:]:
        path.unlink(missing_ok=True)
    store.sweep(directory)


def _hash(*parts: str) -> str:
    # The parts include names of files, which may contain any bytes.
    text = "\0".join(parts).encode(errors="surrogateescape")
    return hashlib.sha256(text).hexdigest()[:16]
