"""Every kernel's machine code, as nvcc compiles kernels/**/*.cu for sm_90a.

An entry is named by the mangled name, and has the hashes of all kernels of that name.
Parts that depend on the file's path are normalised: internal names contain a hash of
it, and labels are numbered throughout a file. Apart from the instructions, the record
has registers, shared memory, stack and spills, and the constants that kernels read.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from baseline.compare import Difference, Entries
from baseline.product import KERNELS, disassembler, nvcc_command
from baseline.texts import digest
from tqdm import tqdm

WHOLE = True
# In _ZN38_GLOBAL__N__f3b6351e_6_one_cu_c9585e276insideEPf, 38 is the length from the
# first underscore to the second hash's end, and 6 is that of the file's name.
_HASHED = re.compile(
    r"\d+_(?:INTERNAL|GLOBAL__N_)_[0-9a-f]{8}_\d+_\w+?_cu_[0-9a-f]{8}(?:_\d+)?"
)
_SECTION = re.compile(r"^//-+ (\S+)\s+-+$", re.M)
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;?$")
_DATA = re.compile(r"\.nv\.(constant[1-9]|global\.init)")
_PROPERTIES = re.compile(r"Function properties for (\S+)\n\s*(.*)\n.*?: Used (.*)")
_NONE = re.compile(r", 0 bytes [a-z ]+|, used 0 barriers|, \d+ bytes cmem\[0\]")


def record(options: argparse.Namespace) -> dict[str, Any]:
    """Return an entry for each kernel's name, with a hash and the resources per
    file."""
    # cutlass.cu needs headers that the lab does not require.
    cutlass = KERNELS / "vendor" / "cutlass.cu"
    sources = [p for p in KERNELS.rglob("*.cu") if p != cutlass and not _is_hidden(p)]
    return kernels_of(sorted(sources, key=lambda path: -path.stat().st_size))


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(KERNELS).parts)


def kernels_of(sources: list[Path], kernels: Path = KERNELS) -> dict[str, Any]:
    """Return the entries of these files; kernels: the folder of their headers."""
    entries: dict[str, Any] = defaultdict(lambda: defaultdict(list))
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        compilations = pool.map(lambda source: compiled(source, kernels), sources)
        bar = tqdm(compilations, "machine code", len(sources), disable=None)
        for text, resources in bar:
            for name, body in parts(text):
                lines = body.count("\n") + 1
                entries[name]["code"].append(f"{digest(body)}, {lines} lines")
                if name in resources:
                    entries[name]["resources"].append(resources[name])
    return {
        name: {field: sorted(values) for field, values in fields.items()}
        for name, fields in entries.items()
    }


def compiled(source: Path, kernels: Path = KERNELS) -> tuple[str, dict[str, str]]:
    """Return a file's machine code, and the resources of its kernels by name."""
    command = [
        word.replace(str(KERNELS), str(kernels)) for word in nvcc_command(source)
    ]
    command = ["-cubin" if word == "-c" else word for word in command]
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "kernels.cubin"
        arguments = [*command, "-Xptxas", "-v", "-o", str(cubin), str(source)]
        process = subprocess.run(arguments, text=True, capture_output=True)
        if process.returncode:
            raise RuntimeError(f"{source}: {process.stderr}")
        text = subprocess.run(
            [disassembler(), str(cubin)], text=True, capture_output=True, check=True
        ).stdout
    return text, resources_of(process.stderr)


def resources_of(text: str) -> dict[str, str]:
    """Return the nonzero resources that ptxas reports for each kernel."""
    return {
        normal_name(name): _NONE.sub("", f"{registers}, {stack}")
        for name, stack, registers in _PROPERTIES.findall(text)
    }


def parts(text: str) -> Iterator[tuple[str, str]]:
    """Yield the kernels and constants of a disassembly: name and normalised text."""
    _, *pieces = _SECTION.split(text)
    for name, body in zip(pieces[::2], pieces[1::2]):
        if name.startswith(".text."):
            yield normal_name(name.removeprefix(".text.")), normal_code(body)
        elif _DATA.match(name):
            yield normal_name(name), normal_name(body.strip())


def normal_name(text: str) -> str:
    """Remove the hashes of paths and texts, and the file's name, from names."""
    return _HASHED.sub("INTERNAL", text)


def normal_code(body: str) -> str:
    """Return a kernel's instructions and labels, the labels numbered from 0."""
    lines, labels = [], {}
    for line in body.splitlines():
        if instruction := _INSTRUCTION.match(line):
            lines.append(instruction[1])
        elif label := re.match(r"(\.L_x_\d+|\$\S+):$", line):
            lines.append(label[0])
    for line in lines:
        for label in re.findall(r"\.L_x_\d+|\$__internal_\d+_", line):
            labels.setdefault(label, f"L{len(labels)}_")
    renamed = re.sub(
        *(r"\.L_x_\d+|\$__internal_\d+_", lambda match: labels[match[0]]),
        "\n".join(lines),
    )
    return normal_name(renamed)


def differences(
    old: Entries, new: Entries, options: argparse.Namespace
) -> list[Difference]:
    """List kernels whose code or resources differ; a new name alone is allowed."""
    changes = []
    removed = {key: old[key] for key in sorted(old.keys() - new.keys())}
    added = {key: new[key] for key in sorted(new.keys() - old.keys())}
    for key, before in removed.items():
        twin = next((name for name, after in added.items() if after == before), "")
        if twin:
            added.pop(twin)
            changes.append(Difference(f"{key}: called {twin} now", allowed=True))
        else:
            changes.append(Difference(f"{key}: missing now"))
    changes += [Difference(f"{key}: new") for key in added]
    for key in sorted(old.keys() & new.keys()):
        for name in sorted(old[key].keys() | new[key].keys()):
            before, after = old[key].get(name), new[key].get(name)
            if before != after:
                changes.append(
                    Difference(f"{key}: {name}: {before} before, {after} now")
                )
    return changes
