"""Build the libraries of a package, and its wheel; see commands/package.py.

Each library exports only the functions weft_packed_*, which write_wrappers() writes. So
several packages and Weft itself work in one process. The CPU's library contains the
SIMT runtime; the GPU's contains cubins and NVIDIA's runtime, which needs only a driver.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from ..base.errors import ArgumentError, BuildError
from ..base.paths import KERNELS
from ..csource.signature import Signature
from ..toolchain import build, keys, tools
from . import program as programs
from .launchers import HIDDEN, Contents

MARCH = {"x86_64": "x86-64", "aarch64": "armv8-a"}
# Libraries that every machine has; source: PEP 600 and auditwheel's policies.
COMMON = re.compile(r"lib(c|m|dl|rt|pthread|gcc_s)\.so\.\d|ld-linux-[\w-]+\.so\.\d")

# ---- the sources -------------------------------------------------------------------


def write_wrappers(launchers: Iterable[Signature], op: str = "") -> str:
    """Return C++ with an exported function for each launcher, and for error messages.

    weft_packed_NAME() has the parameters of NAME() and returns a status, 0 for success.
    """
    lines = []
    for one in launchers:
        shown = [p for p in one.params if not (op and p.name in HIDDEN)]
        params = ", ".join(
            f"{'const ' * p.const}{p.type} {'*' * p.pointer}{p.name}" for p in shown
        )
        names = [p.name for p in one.params]
        if op:
            names = ["NULL" if name == "options" else name for name in names]
            names[0] = f'choose_rung("{op}")'
        call = f"{'weft_' * bool(op)}{one.name}({', '.join(names)})"
        body = f"return {call};"
        if not op:
            status = f"{call}; int status_ = 0;"
            if one.returns != "void":
                status = f"int status_ = (int){call};"
            body = "cudaGetLastError(); " + status
            body += " return status_ ? status_ : (int)cudaGetLastError();"
        lines.append(f"{_EXPORT} int weft_packed_{one.name}({params}) {{ {body} }}")
    return "\n" + "\n".join(lines) + "\n"


_EXPORT = 'extern "C" __attribute__((visibility("default")))'
_ERRORS = {
    "cpu": _EXPORT
    + """ const char *weft_packed_error(int status) {
    extern const char *simt_last_fault(void);
    const char *fault = simt_last_fault();
    return *fault ? fault : cudaGetErrorString((cudaError_t)status);
}
""",
    "cuda": _EXPORT
    + """ const char *weft_packed_error(int status) {
    return cudaGetErrorString((cudaError_t)status);
}
""",
}


def _write_sources(contents: Contents, folder: Path, target: str) -> list[Path]:
    """Write the files to compile for a target: the sources with the wrappers."""
    folder.mkdir()
    if contents.op:
        path = folder / "wrappers.cu"
        (launchers,) = contents.wrapped.values()
        head = (KERNELS / "packaged" / "rungs.cuh").read_text()
        path.write_text(head + write_wrappers(launchers, contents.op))
        return [path]
    paths, errors = [], _ERRORS[target]
    for source, launchers in contents.wrapped.items():
        path = folder / source.name
        # The wrappers follow the source, whose lines keep their numbers.
        text = f'#line 1 "{source}"\n{source.read_text()}'
        path.write_text(text + write_wrappers(launchers) + errors)
        paths.append(path)
        errors = ""  # one file defines weft_packed_error()
    return paths


# ---- the libraries -----------------------------------------------------------------


def link_cpu(contents: Contents, folder: Path, output: Path) -> None:
    """Build the library that runs the kernels on the CPU.

    It needs no library but glibc's, and runs on every processor of this architecture.
    """
    written = _write_sources(contents, folder / "cpu", "cpu")
    runtime = [p for p in keys.list_sources(*keys.RUNTIME) if p.suffix == ".cpp"]
    runtime = [p for p in runtime if p.parent.name != "program"]
    march = MARCH.get(platform.machine(), "native")
    here = build.Flavour.here("cpu")
    flavour = replace(here, march=march, sanitize="", openmp=False)
    with tools.make_pool() as pool:
        objects = list(pool.map(_compile_runtime, runtime))
        if contents.op:
            sources = [*build.list_sources(contents.op, "cpu"), *written]
            objects += pool.map(lambda p: build._compile_object(p, flavour), sources)
        else:
            own = pool.map(lambda p: _compile_file(contents, p), written)
            objects += [_redirect_heap(path, folder) for path in own]
    command = [tools.find_tool("g++"), "-shared", "-pthread", *map(str, objects)]
    build._run([*command, "-lm", *_link_flags(folder)], output)


def _compile_runtime(source: Path) -> Path:
    """Compile a file of the SIMT runtime; Weft's own libraries share the object."""
    flavour = replace(build.Flavour.here("cpu"), sanitize="")
    return build._compile_object(source, flavour)


def _compile_file(contents: Contents, path: Path) -> Path:
    program = programs.Program([str(path)], compile=["-fPIC", "-fvisibility=hidden"])
    program.preprocess += ["-iquote", str(_folder_of(contents)), _hide_folder(contents)]
    return programs._compile_object(program, str(path))[0]


def _folder_of(contents: Contents) -> Path:
    return contents.sources[0].resolve().parent


def _hide_folder(contents: Contents) -> str:
    """Return g++'s flag that omits the folder in __FILE__, and so in assert()."""
    return f"-fmacro-prefix-map={contents.sources[0].parent}/="


def _redirect_heap(path: Path, folder: Path) -> Path:
    """Return a copy of an object whose kernels use the SIMT runtime's heap.

    The linker's --wrap would also change the runtime's own calls.
    """
    output = folder / path.name
    words = [f"--redefine-sym={name}=__wrap_{name}" for name in build._HEAP]
    process = tools.run(["objcopy", *words, str(path), str(output)])
    if process.returncode:
        raise BuildError(tools.said_by(process))
    return output


def _link_flags(folder: Path) -> list[str]:
    """Return linker flags: export weft_packed_*, include C++'s library, omit names."""
    script = folder / "exports.txt"
    script.write_text("{ global: weft_packed_*; local: *; };\n")
    linker = [f"--version-script={script}", "--gc-sections", "--strip-all"]
    linker += ["--build-id=none", "--no-undefined"]
    words = [word for one in linker for word in ("-Xlinker", one)]
    return [*words, "-static-libstdc++"]


def list_supported(sms: Sequence[str], remarks: list[str]) -> list[str]:
    """Return those of `sms` that nvcc supports, and add a remark on the others."""
    if not sms:
        return []
    if not (nvcc := tools.nvcc()):
        cure = tools.pip_command("nvidia-cuda-nvcc")
        remarks.append(f"no nvcc, so the wheel has only the CPU build: {cure}")
        return []
    known = tools.run([nvcc, "--list-gpu-code"]).stdout.split()
    known = [word.removeprefix("sm_") for word in known]
    known += [f"{word}a" for word in known if word.isdigit() and int(word) >= 90]
    if missing := [sm for sm in sms if sm not in known]:
        text = f"{nvcc} has no cubins for {', '.join(missing)}"
        if len(missing) == len(sms):
            raise ArgumentError(f"--sm: {text}; it has {', '.join(known)}")
        remarks.append(text)
    return [sm for sm in sms if sm in known]


def link_cuda(
    contents: Contents, folder: Path, output: Path, sms: Sequence[str]
) -> None:
    """Build the library with cubins, and record their sizes in `contents`."""
    written = _write_sources(contents, folder / "cuda", "cuda")
    flavour = build.Flavour("cuda", sm=",".join(sms))
    kept = folder / "kept"
    kept.mkdir()
    sources = [*contents.sources, *written] if contents.op else written
    objects = []
    for path in sources:
        command = build._make_command(path, flavour)
        if not contents.op:
            command += [
                f"-I{_folder_of(contents)}",
                "-Xcompiler",
                _hide_folder(contents),
            ]
        command += ["--threads", "0", "--keep", "--keep-dir", str(kept)]
        objects.append(str(folder / f"{path.stem}.o"))
        try:
            build._run([*command, str(path)], Path(objects[-1]))
        except BuildError as error:
            raise BuildError(str(error).replace(f"{path.parent}/", "")) from None
    for sm in sms:
        cubins = kept.glob(f"*_{sm}.cubin")
        contents.cubins[sm] = sum(path.stat().st_size for path in cubins)
    command = [tools.find_tool("nvcc"), "-shared", *objects]
    for flag in _link_flags(folder):
        command += ["-Xcompiler", flag] if flag.startswith("-static") else [flag]
    build._run(command, output)


# ---- the wheel ---------------------------------------------------------------------


def find_tag(libraries: Iterable[Path]) -> str:
    """Return the platform tag for shared libraries, such as manylinux_2_34_x86_64.

    As auditwheel does, it takes the newest version of glibc whose symbols they need.
    Raises BuildError if they need a library that another machine may lack.
    """
    versions = [(2, 17)]
    for path in libraries:
        process = tools.run(["readelf", "--wide", "--dynamic", "--version-info", path])
        if process.returncode:
            raise BuildError(tools.said_by(process))
        for name in re.findall(r"\(NEEDED\).*\[(.*)\]", process.stdout):
            if not COMMON.fullmatch(name):
                raise BuildError(f"{path.name} needs {name}, which is not everywhere")
        versions += read_versions(process.stdout)
    major, minor = max(versions)
    return f"manylinux_{major}_{minor}_{platform.machine()}"


def read_versions(text: str) -> list[tuple[int, int]]:
    """Return the versions of glibc in the output of readelf --version-info."""
    found = re.findall(r"Name: GLIBC_(\d+)\.(\d+)", text)
    return [(int(major), int(minor)) for major, minor in found]
