"""Read what `weft package` packs, and build the libraries of the wheel.

A launcher is a host function that starts kernels. Each launcher becomes a function of
Python, which kernels/packaged/packaged.py calls.

Each library exports only the functions weft_packed_*, which write_wrappers() writes. So
several packages and Weft itself can share a process. The CPU's library contains the
SIMT runtime; the GPU's contains cubins and NVIDIA's runtime, which needs only a driver.
"""

from __future__ import annotations

import keyword
import platform
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..base.errors import ArgumentError, BuildError
from ..base.paths import KERNELS
from ..cells.structs import find_scalar
from ..csource import scanner, signature
from ..csource.signature import Param, Signature
from ..toolchain import build, tools
from . import program as programs

# ---- the contents ------------------------------------------------------------------

MODULES = "packaged", "ops", "test"  # the modules of each package
STREAMS = "cudaStream_t", "CUstream", "weft_stream"
# A parameter with one of these names is the first array's number of elements.
COUNTS = "n", "count", "size", "numel"
HIDDEN = "rung", "options"  # parameters of an op that a package sets


@dataclass
class Contents:
    """The contents of a package.

    sources: the files, or those of the lab's op. launchers: launchers.json's rows.
    wrapped: the launchers in each source, by its path. op: the op's name, or "".
    cubins: the size of the cubins in bytes, by compute capability, such as "80".
    remarks: sentences about the wheel, for the user.
    """

    name: str
    sources: list[Path]
    launchers: list[dict[str, Any]] = field(default_factory=list)
    wrapped: dict[Path, list[Signature]] = field(default_factory=dict)
    op: str = ""
    cubins: dict[str, int] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


def read_contents(source: str) -> Contents:
    """Return the Contents of `source`; raise ArgumentError if it cannot be packed."""
    path = Path(source)
    if path.suffix == ".cu" and path.is_file():
        contents = Contents(path.stem, [path])
    elif path.is_dir() and (files := sorted(path.glob("*.cu"))):
        contents = Contents(path.resolve().name, files)
    elif source in build.list_ops():
        contents = Contents(source, build.list_sources(source, "cuda"), op=source)
    else:
        ops = ", ".join(build.list_ops())
        text = "is no .cu file, no folder with .cu files and no op"
        raise ArgumentError(f"{source} {text}; the ops are {ops}")
    _check_name(contents.name)
    launchers = _read_op(contents) if contents.op else _read_files(contents)
    known = {}
    for one in launchers:
        if one.name in known:
            text = f"two launchers have the name {one.name}"
            raise ArgumentError(f"{source}: {text}, and Python has one function each")
        known[one.name] = describe_launcher(one)
    contents.launchers = list(known.values())
    for row in contents.launchers:
        forward = row["name"].removesuffix("_backward")
        if forward != row["name"] and forward not in known:
            row["returns"] = False
    return contents


def _check_name(name: str) -> None:
    reason = ""
    if not name.isidentifier() or keyword.iskeyword(name):
        reason = "is no Python identifier"
    elif name in sys.stdlib_module_names or name in ("weft", "numpy", "torch"):
        reason = "is the name of another package"
    if reason:
        raise ArgumentError(f"'{name}' {reason}: rename the file or the folder")


def _read_files(contents: Contents) -> list[Signature]:
    """Find the launchers of the files; raise ArgumentError for a kernel without one."""
    texts = {path: path.read_text() for path in contents.sources}
    kernels = [(path, one) for path in texts for one in signature.parse(texts[path])]
    files, bodies = ", ".join(map(str, texts)), ""
    for path, text in texts.items():
        found = signature.list_launchers(text)
        bodies += "".join(one.body for one in found)
        contents.wrapped[path] = [one.signature for one in found if one.is_callable]
    launchers = [one for found in contents.wrapped.values() for one in found]
    if not (kernels or launchers):  # a header may contain the kernels
        raise ArgumentError(f"{files}: there is no __global__ function to pack")
    for path, kernel in kernels:
        if not re.search(rf"\b{kernel.name}\b", bodies):
            call = f"{kernel.name}<<<grid, block, 0, stream>>>(...)"
            text = f"kernel {kernel.name} has no launcher"
            cure = f"write a function that starts it: {call}"
            raise ArgumentError(f"{path}:{kernel.line}: {text}: {cure}")
    if not launchers:
        text = "only main() and static functions start kernels, but Python needs others"
        raise ArgumentError(f"{files}: {text}")
    for one in launchers:
        _check_launcher(one)
    return launchers


def _check_launcher(one: Signature) -> None:
    reason = ""
    if one.returns not in ("void", "int", "cudaError_t"):
        reason = f"returns {one.returns}, expected void, int or cudaError_t"
    elif one.template:
        reason = "is a template: write a function that calls one of its instances"
    elif one.scope:
        reason = f"is in the namespace {one.scope[:-2]}: move it out"
    elif keyword.iskeyword(one.name) or one.name in MODULES:
        reason = "has a name that Python or the package uses: rename it"
    elif any(not param.name for param in one.params):
        reason = "has a parameter without a name"
    if reason:
        raise ArgumentError(f"the launcher {one.name} {reason}")


def _read_op(contents: Contents) -> list[Signature]:
    """Return the op's launchers in weft.h, with the parameters that a package shows."""
    header = (build.KERNELS / "weft.h").read_text()
    code, found = scanner.blank_comments(header), []
    for name in (contents.op, f"{contents.op}_backward"):
        match = re.search(rf"\bint weft_{name}\((?P<params>[^;]*?)\);", code)
        if not match:
            continue
        parts = scanner.split_commas(code, match.start("params"), match.end("params"))
        params = [
            signature.declare(text, word, {})
            for text, word in (
                re.fullmatch(r"(.*?)(\w+)", " ".join(code[a:b].split())).groups()
                for a, b in parts
            )
        ]
        found.append(Signature(name, tuple(params), (), 0, returns="int"))
    if not found:
        raise ArgumentError(f"weft.h has no launcher weft_{contents.op}")
    contents.wrapped[build.KERNELS / "weft.h"] = found
    shown = [[p for p in one.params if p.name not in HIDDEN] for one in found]
    return [Signature(f.name, (*p,), (), 0) for f, p in zip(found, shown)]


def describe_launcher(one: Signature) -> dict[str, Any]:
    """Return the row of launchers.json that describes a launcher.

    Its Python function returns the outputs ("returns") under three conditions. The
    outputs precede the inputs. There is one output, or the name ends in _backward. The
    integers are sizes of the first input: its number of elements (n, count, size,
    numel), or its rows and cols.
    """
    params = [_describe_param(one, param) for param in one.params]
    roles = [p["role"] for p in params]
    integers = [
        p["name"] for p in params if p["role"] == "number" and p["code"] in "iIqQ"
    ]
    is_counted = len(integers) == 1 and integers[0] in COUNTS
    is_sized = is_counted or sorted(integers) == ["cols", "rows"]
    arrays = [role for role in roles if role in ("output", "input")]
    count = arrays.count("output")
    returns = is_sized and arrays == sorted(arrays, reverse=True) and "input" in arrays
    returns &= count == 1 or (count > 1 and one.name.endswith("_backward"))
    if returns:
        for param in params:
            if param["name"] in integers:
                param["role"] = "count" if is_counted else param["name"]
    for param in params:
        param["name"] += "_" * keyword.iskeyword(param["name"])
    return {"name": one.name, "returns": returns, "params": params, "c": str(one)}


def _describe_param(one: Signature, param: Param) -> dict[str, Any]:
    kind = find_scalar(param.type)
    row: dict[str, Any] = {"name": param.name}
    if param.type in STREAMS and not param.pointer:
        return row | {"role": "stream"}
    is_simple = kind is not None and kind.count == 1
    if param.pointer and (is_simple or param.type == "void"):
        dtypes = [d for d in kind.dtypes if d != "bytes8"] if kind else []
        return row | {"role": "input" if param.const else "output", "dtypes": dtypes}
    if not param.pointer and is_simple and kind.kind in ("int", "float", "bool"):
        return row | {"role": "number", "code": kind.code}
    raise ArgumentError(
        f"the launcher {one.name} has the parameter '{param}', and a package supports "
        f"pointers to numbers, numbers and cudaStream_t"
    )


# ---- the sources -------------------------------------------------------------------

MARCH = {"x86_64": "x86-64", "aarch64": "armv8-a"}
# Libraries that every machine has; source: PEP 600 and auditwheel's policies.
COMMON = re.compile(r"lib(c|m|dl|rt|pthread|gcc_s)\.so\.\d|ld-linux-[\w-]+\.so\.\d")


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
    march = MARCH.get(platform.machine(), "native")
    here = build.Flavour.here("cpu")
    flavour = replace(here, march=march, sanitize="", openmp=False)
    with tools.make_pool() as pool:
        objects = list(pool.map(_compile_runtime, build.list_runtime()))
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
    """Return linker flags: export weft_packed_* alone, link libstdc++, strip names."""
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
    cubins = folder / "cubins"
    cubins.mkdir()
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
        command += ["--threads", "0", "--keep", "--keep-dir", str(cubins)]
        objects.append(str(folder / f"{path.stem}.o"))
        try:
            build._run([*command, str(path)], Path(objects[-1]))
        except BuildError as error:
            raise BuildError(str(error).replace(f"{path.parent}/", "")) from None
    for sm in sms:
        paths = cubins.glob(f"*_{sm}.cubin")
        contents.cubins[sm] = sum(path.stat().st_size for path in paths)
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
