"""Build executables for the CPU from whole CUDA programs, cached, with nvcc's messages.

rewrite_messages() converts g++'s messages about a rewritten program to nvcc's form: one
place, one message, the line and a caret. Errors that g++ finds in kernels/simt or the
standard library are reported at the line of the program that caused them.

Every .cu file is preprocessed, rewritten and compiled by g++ with kernels/simt; .cpp
and .c files are compiled unchanged. The cache identifies a program by its options and
by the time, size and text of every file that was read for it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..base import store
from ..base.errors import BuildError
from ..base.paths import SIMT
from ..csource import preprocess
from ..csource.diagnostics import _clean
from ..csource.preprocess import MARKER, original_column, unquote_name
from ..csource.rewrite import rewrite_program
from ..csource.scanner import RewriteError, ScannedText
from ..csource.unsupported import (
    device_names,
    kind_of_code,
    missing_header,
    missing_name,
    refuse_driver_api,
)
from ..toolchain import build, keys, tools

LIMIT = 8  # number of errors shown; later ones seldom help
_MESSAGE = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<column>\d+):)? "
    r"(?P<severity>fatal error|error|warning|note|sorry, unimplemented): "
    r"(?P<message>.*)$"
)
_WAY = re.compile(
    r"^(?:In file included|\s+(?:inlined )?)\s*from (?P<at>\S.*?:\d+)(?::\d+)?[,:]"
)
_REQUIRED = re.compile(r"^(?P<at>\S.*?:\d+)(?::\d+)?:\s+(?:required|recursively) ")


def rewrite_messages(output: str, simt: str, rewritten: str = "") -> str:
    """Return the errors in g++'s `output`, traced to lines of the program's files.

    simt: path of kernels/simt, whose files do not belong to the program
    rewritten: the text that g++ read, needed to map columns
    """
    errors: list[list] = []  # (file, line, column, message) of each error
    cause = ""  # the line of the program that caused the next message
    foreign_error = None  # an error whose line in the program is still unknown
    for row in output.splitlines():
        if trace := _WAY.match(row) or _REQUIRED.match(row):
            cause = cause if cause or _is_foreign(trace["at"], simt) else trace["at"]
            continue
        match = _MESSAGE.match(row)
        if not match:
            continue
        at = [match["file"], int(match["line"]), int(match["column"] or 0)]
        is_own = not _is_foreign(match["file"], simt)
        if match["severity"] == "note":
            if foreign_error is not None and is_own:
                errors.append([*at, foreign_error])
                foreign_error = None
            continue
        if match["severity"] != "warning":
            if is_own:
                errors.append([*at, match["message"]])
            elif cause:
                file, line = cause.rsplit(":", 1)
                errors.append([file, int(line), 0, match["message"]])
            else:
                foreign_error = match["message"]
        cause = ""
    reasons = {
        missing_name(_clean(error[3]), SIMT / "include"): error
        for error in reversed(errors)  # so that each name's first place wins
    }
    if any(reasons):  # the other errors follow from these
        errors = [[*error[:3], text] for text, error in reasons.items() if text][::-1]
    lines = _map_lines(rewritten)
    messages = list(dict.fromkeys(_show_line(*error, lines) for error in errors))
    if len(messages) > LIMIT:
        messages[LIMIT:] = [f"... and {len(messages) - LIMIT} more"]
    return "\n".join(messages) or output.strip()


def _is_foreign(file: str, simt: str) -> bool:
    return file.startswith((simt, "/usr/", "<")) or "/c++/" in file


def _map_lines(text: str) -> dict[tuple[str, int], str]:
    """Return the lines of g++'s input, keyed by original file and line number."""
    lines: dict[tuple[str, int], str] = {}
    file, number = "", 0
    for row in text.split("\n") if text else ():
        if mark := MARKER.fullmatch(row):
            file, number = unquote_name(mark[2]), int(mark[1])
            continue
        if row.strip():
            lines.setdefault((file, number), row)
        number += 1
    return lines


def _show_line(file: str, line: int, column: int, message: str, lines: dict) -> str:
    try:
        source = Path(file).read_text(errors="replace").split("\n")[line - 1]
    except (OSError, IndexError):
        return f"{file}:{line}: error: {_clean(message)}"
    if column:
        column = original_column(source, lines.get((file, line), source), column)
    text = f"{file}:{line}:{f'{column}:' if column else ''} error: {_clean(message)}"
    text += f"\n    {source.expandtabs(4)}"
    if column:
        prefix = source.encode()[: column - 1].decode(errors="replace")
        text += f"\n    {' ' * len(prefix.expandtabs(4))}^"
    return text


_CUDA = {".cu", ".cuh"}
_CXX = {".cpp", ".cc", ".cxx", ".C", ".c++"}
_LINKED = {".o", ".a", ".so"}
SUFFIXES = _CUDA | _CXX | _LINKED | {".c"}


@dataclass
class Program:
    """The command line's options for building a program."""

    sources: list[str] = field(default_factory=list)
    # -I, -D, -U, -isystem, -include.
    preprocess: list[str] = field(default_factory=list)
    compile: list[str] = field(default_factory=list)  # -fopenmp and similar flags
    link: list[str] = field(default_factory=list)  # -L, -l
    std: str = "gnu++17"
    optimise: str = "2"
    arch: int = 900  # the value of __CUDA_ARCH__
    all_cuda: bool = False  # whether -x cu makes every file CUDA C
    check: bool = False  # whether kernels call the hooks of the watch build

    def is_cuda(self, source: str) -> bool:
        """Return whether nvcc would compile this file as CUDA C."""
        suffix = Path(source).suffix
        return suffix in _CUDA or (self.all_cuda and suffix not in _LINKED)


def build_executable(program: Program) -> Path:
    """Return the path of the executable; build it if it does not exist yet.

    Raises BuildError with g++'s diagnostics on the program's lines, or RewriteError
    with the line that uses a feature the CPU lacks.
    """
    manifest = store.cache_folder("programs") / f"{_make_key(program)}.json"
    if executable := _from_manifest(manifest):
        return executable
    path, files = _build(program)
    entries = {name: _file_state(name) for name in files}
    store.write(manifest, json.dumps({"executable": path.name, "files": entries}))
    return path


# ---- the cache ---------------------------------------------------------------


def _make_key(program: Program) -> str:
    """Return the name of a program's manifest, a hash of all but the files' texts."""
    environment = [os.environ.get(name) for name in ("CXX", "WEFT_FIBERS", "CPATH")]
    parts = [os.getcwd(), str(SIMT), repr(program), repr(environment)]
    text = "\0".join(parts).encode(errors="surrogateescape")
    return hashlib.sha256(text).hexdigest()[:16]


def _file_state(name: str) -> list[int | str]:
    stat = os.stat(name)
    digest = hashlib.sha256(Path(name).read_bytes()).hexdigest()
    return [stat.st_mtime_ns, stat.st_size, digest]


def _from_manifest(manifest: Path) -> Path | None:
    """Return the executable, or None if a file that was read for it has changed."""
    try:
        manifest_data = json.loads(manifest.read_text())
        for name, (time, size, digest) in manifest_data["files"].items():
            stat = os.stat(name)
            is_unchanged = stat.st_mtime_ns == time and stat.st_size == size
            if not is_unchanged and _file_state(name)[2] != digest:
                return None
        path = manifest.parent / manifest_data["executable"]
        if not store.has_file(path):
            return None
        os.utime(path)  # mark it as used: store.prune() deletes the oldest
        os.utime(manifest)
        return path
    except (OSError, ValueError, KeyError):
        return None


# ---- building ----------------------------------------------------------------


def _build(program: Program) -> tuple[Path, list[str]]:
    """Build the program; return the executable and every file that was read."""
    # Omit sanitizers: they are meant for the lab's code, and would have to be loaded
    # when the process starts.
    flavour = replace(build.Flavour.here("cpu"), sanitize="")
    runtime = build.simt_runtime(flavour)
    start = SIMT / "program" / "start.cpp"
    with tools.make_pool() as pool:
        jobs = [pool.submit(_compile_object, program, s) for s in program.sources]
        objects = [job.result() for job in jobs]
    objects.append((build._compile_object(start, flavour), [str(start)], set()))
    libraries = [runtime, *_vendor_libraries(objects, flavour)]
    names = [str(path) for path, _, _ in objects]
    link_inputs = [*program.link, repr(program.compile), str(program.check)]
    digest = build._hash(*names, *map(str, libraries), *link_inputs)
    path = store.cache_folder("programs") / f"{Path(program.sources[0]).stem}-{digest}"
    if not store.has_file(path):
        device = set().union(*(names for _, _, names in objects))
        _link(program, names, libraries, device, path)
        store.prune()
    files = {str(Path(f).absolute()) for _, read, _ in objects for f in read}
    files |= {*map(str, libraries), tools.gxx()}
    files |= {str(path) for path in keys.list_sources(*keys.PROGRAM)}
    return path, sorted(files)


def _vendor_libraries(
    objects: list[tuple[Path, list[str], set[str]]], flavour: build.Flavour
) -> list[Path]:
    """Return the NVIDIA libraries whose headers the files have included."""
    read = {file for _, files, _ in objects for file in files}
    headers = build.VENDOR_HEADERS.items()
    names = {name for header, name in headers if f"{SIMT}/include/{header}" in read}
    return [build.vendor_library(name, flavour) for name in sorted(names)]


def _compile_object(program: Program, source: str) -> tuple[Path, list[str], set[str]]:
    """Compile one file; return the object, the files read, and the device names."""
    path = Path(source)
    if path.suffix in _LINKED:
        return path.resolve(), [source], set()
    if not program.is_cuda(source):
        return *_compile_plain(program, path), set()
    unit = _preprocess(program, source)
    text = rewrite_program(unit, source)
    command = [*_compile(program, "c++", program.std), *_list_macros(program)]
    command += build.CHECK_FLAGS if program.check else []
    # The report covers lines of files below the folder of compilation.
    folder = [os.getcwd()] if program.check else []
    parts = [build.version_of(command[0], command), *command, *folder, text]
    parts.append(keys.hash_sources(*keys.RUNTIME))
    digest = build._hash(*parts)
    target = store.cache_folder("objects") / f"{path.stem}-{digest}.o"
    if not store.has_file(target):
        _run_gxx([*command, "-"], target, text)
    return (target, [source, *unit.files], device_names(ScannedText(unit.own, source)))


def _run_gxx(command: list[str], target: Path, text: str | None = None) -> None:
    """Run g++ on a file or on a rewritten text."""
    try:
        build._run(command, target, text)
    except BuildError as error:
        message = rewrite_messages(str(error), str(SIMT), text or "")
        raise BuildError(message) from None


def _compile_plain(program: Program, source: Path) -> tuple[Path, list[str]]:
    """Compile a .cpp or .c file, which nvcc also passes to the host compiler."""
    language, std = ("c", "") if source.suffix == ".c" else ("c++", program.std)
    command = [*_compile(program, language, std), *program.preprocess]
    command.append("-DSIMT_HOST_FILE")
    result = tools.run([*command, "-E", str(source)])
    if result.returncode:
        raise _preprocessor_error(result.stderr)
    refuse_driver_api(result.stdout, str(SIMT))
    digest = build._hash(build.version_of(command[0], command), *command, result.stdout)
    target = store.cache_folder("objects") / f"{source.stem}-{digest}.o"
    if not store.has_file(target):
        _run_gxx([*command, str(source)], target)
    files = set(re.findall(r'^# \d+ "([^"<]+)"', result.stdout, re.M))
    return target, [str(source), *sorted(f for f in files if os.path.isfile(f))]


def _compile(program: Program, language: str, std: str) -> list[str]:
    command = [build.find_tool("g++"), "-x", language, "-c", f"-O{program.optimise}"]
    command += [f"-std={std}"] if std else []
    command += ["-isystem", f"{SIMT}/include", "-isystem", str(SIMT)]
    command += ["-ffp-contract=off", "-fno-strict-aliasing"]
    command += ["-fstack-clash-protection", "-fno-math-errno", "-pthread"]
    command.append("-fcheck-new")  # new may return NULL in a kernel
    command.append("-fwrapv")  # an overflowing int wraps, as on a GPU
    if build.Flavour.here("cpu").fibers == "ucontext":
        command.append("-DSIMT_UCONTEXT")
    return [*command, *_QUIET, *program.compile]


# nvcc does not report the disabled warnings either. A missing return is a real fault.
_QUIET = ["-Wreturn-type", "-Wno-unused-result", "-Wno-write-strings"]
_QUIET += ["-Wno-deprecated-declarations", "-Wno-attributes", "-Wno-pragmas"]
_QUIET += ["-Wno-narrowing", "-Wno-conversion-null", "-Wno-psabi"]


def _list_macros(program: Program) -> list[str]:
    """List the -D and -U options of both runs of g++, without __CUDA_ARCH__."""
    defined = ["-D__CUDACC__", "-D__NVCC__", "-D__CUDACC_VER_MAJOR__=13"]
    defined += ["-D__CUDACC_VER_MINOR__=0", "-D__CUDACC_VER_BUILD__=0"]
    own = [word for word in program.preprocess if word.startswith(("-D", "-U"))]
    return [*defined, *own, build.PLAIN_LIBRARY]


# ---- preprocessing -----------------------------------------------------------


def _preprocess(program: Program, source: str):
    """Return the source as nvcc's two passes read it; see preprocess.merge()."""
    host = _run_pass(program, source, [])
    if not _mentions_arch(host.files):
        return host
    device = _run_pass(program, source, [f"-D__CUDA_ARCH__={program.arch}"])
    if host.own == device.own:
        return host

    return preprocess.merge(host, device, kind_of_code(ScannedText(device.own, source)))


def _run_pass(program: Program, source: str, more: list[str]):
    command = _compile(program, "c++", program.std) + _list_macros(program) + more
    command += [*program.preprocess, "-DSIMT_PREPROCESS", "-E"]
    command += ["-DSIMT_CHECK"] if program.check else []
    result = tools.run([*command, "-include", f"{SIMT}/program.h", source])
    if result.returncode:
        raise _preprocessor_error(result.stderr)
    refuse_driver_api(result.stdout, str(SIMT))
    return preprocess.split(result.stdout, str(SIMT))


def _mentions_arch(files: tuple[str, ...]) -> bool:
    own = (f for f in files if not f.startswith(("/usr/include", str(SIMT))))
    own = (f for f in own if "/lib/gcc/" not in f)
    return any(b"__CUDA_ARCH__" in Path(f).read_bytes() for f in own)


def _preprocessor_error(stderr: str) -> Exception:
    lack = r"^(\S.*?):(\d+):\d+: fatal error: (.*?): No such file"
    if missing := re.search(lack, stderr, re.M):
        file, line, header = missing.groups()
        return RewriteError(f"{file}:{line}: {missing_header(header)}")
    # Headers of kernels/simt use #error for features that the CPU lacks.
    reason = re.search(rf'^{re.escape(str(SIMT))}/.*#error "?(.*?)"?$', stderr, re.M)
    place = re.search(r"\bfrom (\S.*?):(\d+)[:,]", stderr)
    if reason and place:
        return RewriteError(f"{place[1]}:{place[2]}: {reason[1]}")
    return BuildError(rewrite_messages(stderr, str(SIMT)))


# ---- linking -----------------------------------------------------------------


def _link(
    program: Program,
    objects: list[str],
    libraries: list[Path],
    device: set[str],
    path: Path,
) -> None:
    command = [build.find_tool("g++"), "-pthread", *program.compile]
    link_words = [str(library) for library in libraries]
    for folder in sorted({str(library.parent) for library in libraries}):
        if ":" in folder:  # the loader would split the path at a colon
            raise BuildError(
                f"the lab's runtime is in {folder}, and a program cannot load "
                f"from a folder with ':' in its name: rename it"
            )
        # -Wl would split a folder's name that contains a comma.
        link_words += ["-Xlinker", "-rpath", "-Xlinker", folder]
    link_words += [*program.link, "-lm"]
    link_words += build.CHECK_LINK if program.check else build.HEAP_LINK
    try:
        build._run([*command, *objects, *link_words], path)
    except BuildError as error:
        doubled = set(re.findall(r"multiple definition of `(.*?)'", str(error)))
        # Without -rdc, device functions and variables are local to each file.
        if not doubled or not all(re.findall(r"\w+", t)[0] in device for t in doubled):
            message = _explain_main(program, str(error)) or _link_message(str(error))
            raise BuildError(message) from None
        local_objects = _localize_symbols(objects, doubled, path)
        build._run([*command, *local_objects, *link_words], path)
        for file in set(local_objects) - set(objects):
            os.unlink(file)


def _localize_symbols(objects: list[str], names: set[str], path: Path) -> list[str]:
    """Return the objects, or copies of them in which the symbols `names` are local."""
    localized = list(objects)
    for i, file in enumerate(objects):
        words = [f"--localize-symbol={name}" for name in _list_symbols(file, names)]
        if words:
            localized[i] = f"{path}.{os.getpid()}.{i}.o"
            objcopy = ["objcopy", *words, file, localized[i]]
            result = subprocess.run(objcopy, text=True, capture_output=True)
            if result.returncode:
                raise BuildError(result.stderr.strip())
    return localized


def _list_symbols(file: str, names: set[str]) -> list[str]:
    """List the symbols that the object defines with these demangled names."""
    columns = []
    for options in ([], ["--demangle"]):
        command = ["nm", "--defined-only", "--no-sort", *options, file]
        result = subprocess.run(command, text=True, capture_output=True)
        columns.append([row.split(" ", 2)[2] for row in result.stdout.splitlines()])
    return [symbol for symbol, name in zip(*columns, strict=True) if name in names]


def _explain_main(program: Program, message: str) -> str:
    """Return a one-line message if no file has a main(), otherwise ""."""
    if "undefined reference to `main'" not in message:
        return ""
    files = ", ".join(program.sources)
    message = f"no main() in {files}: a whole program is needed"
    for file in program.sources:
        if "MATMUL_RUNG(" in Path(file).read_text(errors="replace"):
            call = f"weft.lessons.ladder.one_rung('{file}').inspect(m, n, k)"
            return f"{message}; for a rung alone: {call}"
    return message


def _link_message(text: str) -> str:
    """Return the linker's message without the names of temporary files."""
    rows = [re.sub(r"^\S*/ld: ", "", row) for row in text.split("\n")]
    return "\n".join(row for row in rows if "ld returned" not in row)
