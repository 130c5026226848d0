"""Pack kernels into a wheel that works without Weft, a compiler and a GPU.

    python -m weft package NAME.cu

The wheel is for every version of Python and PyTorch, since its libraries contain no
code of either: kernels/packaged/packaged.py, a part of the wheel, calls them through
ctypes. programs/wheel.py reads the source and builds.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..base.errors import ArgumentError, BuildError
from ..base.paths import KERNELS, ROOT
from ..base.progress import Progress
from ..ops.cases import find_op
from ..programs import wheel
from ..programs.wheel import Contents, read_contents
from ..timing import table
from ..toolchain import build

LIMIT = 10**6  # bytes of a wheel; larger ones get a remark


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `python -m weft package`."""
    add = parser.add_argument
    add("source", help="a .cu file with kernels and launchers, a folder, or an op")
    add("--output", metavar="FOLDER", default=".", help="for the wheel (default: .)")
    add("--version", default="0.1.0", help="of the package (default: 0.1.0)")
    text = "SPDX expression for your code (default: MIT, as for the lab's runtime)"
    add("--license", default="MIT", help=text)
    every = ",".join(build.CHECK_SMS)
    text = f"compute capabilities of the cubins (default: {every})"
    add("--sm", default=every, help=text)
    add("--cpu", action="store_true", help="omit the cubins")


def main(args: argparse.Namespace) -> int:
    """Build the wheel, and print its path and its contents."""
    options = args.version, args.license
    sms = [] if args.cpu else [word.strip() for word in args.sm.split(",")]
    path, remarks = write_package(args.source, Path(args.output), sms, *options)
    rows = list_parts(path)
    print(table(rows, ["part", "bytes", "packed"]))
    size = path.stat().st_size
    for line in remarks:
        print(f"note: {line}")
    if size > LIMIT:
        print(f"note: the wheel has {size:,} bytes, more than {LIMIT:,}")
    print(f"{path}: {size / 1e3:.0f} kB")
    return 0


def write_package(
    source: str,
    output: Path,
    sms: Sequence[str] = build.CHECK_SMS,
    version: str = "0.1.0",
    licence: str = "MIT",
) -> tuple[Path, list[str]]:
    """Write a wheel; return its path, and remarks on what it lacks.

    source: a .cu file, a folder of them, or the name of an op of the lab. output: an
    existing folder. sms: compute capabilities in nvcc's spelling; [] for no cubins.

    Raises ArgumentError for an unusable source, name or launcher, and BuildError if a
    compiler is missing or fails. The same source gives the same bytes.
    """
    if not output.is_dir():
        raise ArgumentError(f"--output {output}: there is no such folder")
    contents = read_contents(source)
    if contents.op:
        _compare_shapes(contents)
    sms = wheel.list_supported(sms, contents.remarks)
    with (
        tempfile.TemporaryDirectory() as name,
        Progress(f"packing {contents.name}", 3 + bool(sms), "steps") as job,
    ):
        folder = Path(name)
        package = folder / contents.name
        package.mkdir()
        wheel.link_cpu(contents, folder, package / "cpu.so")
        job.update()
        if sms:
            wheel.link_cuda(contents, folder, package / "cuda.so", sms)
            job.update()
        write_modules(contents, package, version)
        expected = _probe(package)
        for row in contents.launchers:
            if isinstance(expected.get(row["name"]), str):
                row["returns"] = False
                reason = expected.pop(row["name"])
                contents.remarks.append(f"{reason}, so its caller passes all arrays")
        write_modules(contents, package, version)
        (package / "expected.json").write_text(json.dumps(expected))
        job.update()
        write_project(contents, folder, version, licence)
        return _build_wheel(folder, output), contents.remarks


def _compare_shapes(contents: Contents) -> None:
    """Require outputs from the caller if they differ from their input in shape.

    An output has the shape of the first input; a gradient dx that of x, if it is given.
    """
    op = find_op(contents.op)
    for row in contents.launchers:
        inputs = [p["name"] for p in row["params"] if p["role"] == "input"]
        for param in row["params"]:
            if param["role"] == "output" and row["returns"]:
                name = param["name"]
                like = name[1:] if name[1:] in inputs else inputs[0]
                shapes = [op.shapes.get(op.array(word)) for word in (name, like)]
                row["returns"] = shapes[0] == shapes[1]


def list_parts(wheel: Path) -> list[dict[str, Any]]:
    """List the parts of a wheel: name, bytes, and bytes after compression.

    The cubins are parts of cuda.so, and have no separate size after compression.
    """
    rows: list[dict[str, Any]] = []
    with zipfile.ZipFile(wheel) as archive:
        for one in archive.infolist():
            size = {"bytes": one.file_size, "packed": one.compress_size}
            rows.append({"part": one.filename, **size})
            if one.filename.endswith("/cuda.so"):
                facts = one.filename.replace("cuda.so", "launchers.json")
                cubins = json.loads(archive.read(facts))["cubins"]
                rows += [
                    {"part": f"  cubin for {sm}", "bytes": size, "packed": None}
                    for sm, size in cubins.items()
                ]
    return rows


# ---- the package -------------------------------------------------------------------


def _probe(package: Path) -> dict[str, Any]:
    """Run the launchers on the CPU in another process; see probe() in its test.py."""
    command = [sys.executable, "-m", f"{package.name}.test", "--probe"]
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    try:
        process = subprocess.run(
            command, env=environment, text=True, capture_output=True, timeout=60
        )
    except subprocess.TimeoutExpired:
        text = "a launcher did not finish on the CPU within 60 s"
        raise BuildError(f"{package.name}: {text}") from None
    if process.returncode:
        lines = process.stderr.strip().splitlines()[-1:]
        status = f"exit status {process.returncode}"
        text = f"a launcher failed on the CPU with {status}"
        raise BuildError(": ".join([package.name, text, *lines]))
    return json.loads(process.stdout)


def write_modules(contents: Contents, package: Path, version: str) -> None:
    """Write the package's Python files, its stubs and launchers.json."""
    for source in sorted((KERNELS / "packaged").glob("*.py")):
        (package / source.name).write_text(source.read_text())
    facts = {"cubins": contents.cubins, "launchers": contents.launchers}
    (package / "launchers.json").write_text(json.dumps(facts, indent=1) + "\n")
    (package / "py.typed").write_text("")
    rows = contents.launchers
    names = ", ".join(f'"{row["name"]}"' for row in rows)
    head = [
        f'"""{_describe(contents)}"""\n',
        "from pathlib import Path as _Path\n",
        "from .packaged import KernelError as KernelError",
        "from .packaged import Package as _Package\n",
        f"__version__ = {json.dumps(version)}",
        f'__all__ = ["KernelError", {names}]',
        "_package = _Package(_Path(__file__).parent)",
    ]
    lines = [*head, *(_write_function(row) for row in rows)]
    (package / "__init__.py").write_text("\n".join(lines) + "\n")
    (package / "__init__.pyi").write_text(write_stubs(rows))
    text = '"""Importing this module registers the ops of torch.ops."""\n\n'
    text += "from . import _package\n\n_package.register_ops()\n"
    (package / "ops.py").write_text(text)


def _describe(contents: Contents) -> str:
    return (
        f"CUDA kernels as functions of NumPy arrays and torch tensors: {contents.name}."
    )


def list_shown(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parameters of a launcher's Python function; see packaged.Launcher."""
    hidden = {"stream"} | (
        {"output", "count", "rows", "cols"} if row["returns"] else set()
    )
    return [p for p in row["params"] if p["role"] not in hidden]


def _describe_function(row: dict[str, Any]) -> str:
    outputs = [p["name"] for p in row["params"] if p["role"] == "output"]
    text = f"Call the launcher {row['c']}."
    if row["returns"]:
        text = f"Return {', '.join(outputs)} of the launcher {row['c']}."
    elif outputs:
        text += f" It writes to {', '.join(outputs)}."
    return text


def _write_function(row: dict[str, Any]) -> str:
    names = ", ".join(p["name"] for p in list_shown(row))
    call = ", ".join([f'"{row["name"]}"', *filter(None, [names])])
    return (
        f"\n\ndef {row['name']}({names}):\n"
        f'    """{_describe_function(row)}"""\n'
        f"    return _package.run({call})"
    )


def write_stubs(rows: Sequence[dict[str, Any]]) -> str:
    """Return the text of __init__.pyi.

    An array has the type NDArray or Tensor, and all arrays of a call have the same.
    """
    lines = [
        "from typing import Any, TypeVar\n",
        "from numpy.typing import NDArray",
        "from torch import Tensor\n",
        '_Array = TypeVar("_Array", NDArray[Any], Tensor)',
        "__version__: str\n",
        "class KernelError(RuntimeError): ...\n",
    ]
    kinds = {"f": "float", "d": "float", "?": "bool"}
    for row in rows:
        params = []
        for param in list_shown(row):
            kind = kinds.get(param.get("code", ""), "int")
            if "code" not in param:
                kind = "_Array" if row["returns"] else "_Array | None"
            params.append(f"{param['name']}: {kind}")
        count = [p["role"] for p in row["params"]].count("output")
        result = "_Array" if count == 1 else f"tuple[{', '.join(['_Array'] * count)}]"
        result = result if row["returns"] else "None"
        lines.append(f"def {row['name']}({', '.join(params)}) -> {result}: ...")
    return "\n".join(lines) + "\n"


# ---- the project, from which setuptools builds the wheel -----------------------------


def write_project(contents: Contents, folder: Path, version: str, licence: str) -> None:
    """Write pyproject.toml, setup.py, README.md and the licence."""
    tag = wheel.find_tag(sorted((folder / contents.name).glob("*.so")))
    text = json.dumps  # a string of JSON is a string of TOML
    (folder / "pyproject.toml").write_text(f"""[build-system]
requires = ["setuptools >=77"]
build-backend = "setuptools.build_meta"

[project]
name = {text(contents.name)}
version = {text(version)}
description = {text(_describe(contents))}
readme = "README.md"
license = {text(licence)}
license-files = ["LICENSE*"]
requires-python = ">=3.9"
dependencies = ["numpy"]

[project.optional-dependencies]
torch = ["torch >=2.4"]

[tool.setuptools]
packages = [{text(contents.name)}]

[tool.setuptools.package-data]
"*" = ["*.so", "*.json", "*.pyi", "py.typed"]
""")
    # The tag has no version of Python, since the libraries contain no code of Python.
    (folder / "setup.py").write_text(f"""from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel


class Libraries(Distribution):
    def has_ext_modules(self):
        return True


class Wheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", "{tag}"


setup(cmdclass={{"bdist_wheel": Wheel}}, distclass=Libraries)
""")
    (folder / "README.md").write_text(write_readme(contents))
    (folder / "LICENSE-weft").write_text((ROOT / "LICENSE").read_text())


def write_readme(contents: Contents) -> str:
    """Return the README: usage, devices, the test and licences."""
    name = contents.name
    calls = []
    for row in contents.launchers:
        names = ", ".join(p["name"] for p in list_shown(row))
        calls.append(f"- `{name}.{row['name']}({names})`: {_describe_function(row)}")
    # "90a" becomes "9.0a".
    cubins = ", ".join(re.sub(r"(\da?)$", r".\1", sm) for sm in contents.cubins)
    gpus = "It has no kernels for GPUs."
    licences = "The CPU's library contains Weft's SIMT runtime (LICENSE-weft)."
    if cubins:
        gpus = (
            f"Tensors on a GPU need NVIDIA's driver and a compute capability that one "
            f"of these cubins fits: {cubins}. A cubin runs on GPUs of the same major "
            f"version and at least its minor version; 9.0a runs only on 9.0."
        )
        licences += (
            " The GPU's library contains NVIDIA's CUDA runtime, which NVIDIA's CUDA "
            "Toolkit licence permits to distribute with an application."
        )
    return f"""# {name}

{_describe(contents)}

    import numpy, {name}

{chr(10).join(calls)}

Arrays are NumPy arrays, or tensors of PyTorch on the CPU or a GPU. They must be
contiguous, and all of one call must be on one device. Functions that return arrays are
also `torch.ops.{name}`, after `import {name}.ops`.

{gpus} On a CPU, kernels run without a GPU and without CUDA.

`python -m {name}.test` tests the package on this machine.

{licences}
"""


def _build_wheel(folder: Path, output: Path) -> Path:
    """Run setuptools in the project's folder; return the wheel's path."""
    for path in folder.glob("*/*"):
        path.chmod(0o755 if path.suffix == ".so" else 0o644)
    script = "import sys; from setuptools.build_meta import build_wheel as build; "
    script += "print(build(sys.argv[1]))"
    # The default is the earliest date that a zip file can contain.
    environment = {"SOURCE_DATE_EPOCH": "315532800", **os.environ}
    process = subprocess.run(
        [sys.executable, "-c", script, str(output.resolve())],
        **{"cwd": folder, "env": environment, "text": True, "capture_output": True},
    )
    if process.returncode:
        refused = re.search(r"toml config: `project\.(\w+)`", process.stderr)
        if refused:
            expected = {"version": "such as 1.0", "license": "in SPDX, such as MIT"}
            text = f"expected a {refused[1]} {expected.get(refused[1], '')}"
            raise ArgumentError(f"--{refused[1]}: {text}")
        lines = process.stderr.strip().splitlines() or ["no message"]
        raise BuildError(f"setuptools failed: {lines[-1]}")
    return output / process.stdout.split()[-1]
