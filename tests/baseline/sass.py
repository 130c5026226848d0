"""Every kernel's machine code: what nvcc makes of kernels/**/*.cu for sm_90a.

A kernel is known by its mangled name, an entry has the hashes of all kernels of that
name. What depends on the file's place is taken out: internal names hold a hash of its
path, and labels are numbered through a file. Beside the instructions the record has
registers, shared memory, stack and spills, and constants that kernels read.
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
# _ZN38_GLOBAL__N__f3b6351e_6_one_cu_c9585e276insideEPf: the 38 counts from the first
# underscore to the second hash's end, and 6 the letters of the file's name.
_HASHED = re.compile(
    r"\d+_(?:INTERNAL|GLOBAL__N_)_[0-9a-f]{8}_\d+_\w+?_cu_[0-9a-f]{8}(?:_\d+)?"
)
_SECTION = re.compile(r"^//-+ (\S+)\s+-+$", re.M)
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;?$")
_DATA = re.compile(r"\.nv\.(constant[1-9]|global\.init)")
_PROPERTIES = re.compile(r"Function properties for (\S+)\n\s*(.*)\n.*?: Used (.*)")
_NONE = re.compile(r", 0 bytes [a-z ]+|, used 0 barriers|, \d+ bytes cmem\[0\]")


def record(options: argparse.Namespace) -> dict[str, Any]:
    """An entry for each kernel's name: hashes and resources, one of each per file."""
    sources = [p for p in KERNELS.rglob("*.cu") if not _is_hidden(p)]
    return kernels_of(sorted(sources, key=lambda path: -path.stat().st_size))


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(KERNELS).parts)


def kernels_of(sources: list[Path], kernels: Path = KERNELS) -> dict[str, Any]:
    """The entries of these files; kernels: the folder that their headers are in."""
    found: dict[str, Any] = defaultdict(lambda: defaultdict(list))
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        done = pool.map(lambda source: compiled(source, kernels), sources)
        bar = tqdm(done, "machine code", len(sources), disable=None)
        for text, resources in bar:
            for name, body in parts(text):
                lines = body.count("\n") + 1
                found[name]["code"].append(f"{digest(body)}, {lines} lines")
                if name in resources:
                    found[name]["resources"].append(resources[name])
    return {
        name: {field: sorted(values) for field, values in fields.items()}
        for name, fields in found.items()
    }


def compiled(source: Path, kernels: Path = KERNELS) -> tuple[str, dict[str, str]]:
    """A file's machine code as text, and the resources of its kernels by name."""
    command = [
        word.replace(str(KERNELS), str(kernels)) for word in nvcc_command(source)
    ]
    command = ["-cubin" if word == "-c" else word for word in command]
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "kernels.cubin"
        words = [*command, "-Xptxas", "-v", "-o", str(cubin), str(source)]
        said = subprocess.run(words, text=True, capture_output=True)
        if said.returncode:
            raise RuntimeError(f"{source}: {said.stderr}")
        text = subprocess.run(
            [disassembler(), str(cubin)], text=True, capture_output=True, check=True
        ).stdout
    return text, resources_of(said.stderr)


def resources_of(said: str) -> dict[str, str]:
    """What ptxas says that each kernel uses, without what is none."""
    return {
        normal_name(name): _NONE.sub("", f"{used}, {stack}")
        for name, stack, used in _PROPERTIES.findall(said)
    }


def parts(text: str) -> Iterator[tuple[str, str]]:
    """The kernels of a disassembly, and its constants: name and normal text of each."""
    _, *pieces = _SECTION.split(text)
    for name, body in zip(pieces[::2], pieces[1::2]):
        if name.startswith(".text."):
            yield normal_name(name.removeprefix(".text.")), normal_code(body)
        elif _DATA.match(name):
            yield normal_name(name), normal_name(body.strip())


def normal_name(text: str) -> str:
    """Names without the hashes of paths and texts, and the file's name."""
    return _HASHED.sub("INTERNAL", text)


def normal_code(body: str) -> str:
    """Instructions and labels of a kernel, the labels numbered from 0."""
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
    """Kernels whose code or resources differ; a new name for the same is allowed."""
    found = []
    gone = {key: old[key] for key in sorted(old.keys() - new.keys())}
    added = {key: new[key] for key in sorted(new.keys() - old.keys())}
    for key, before in gone.items():
        twin = next((name for name, after in added.items() if after == before), "")
        if twin:
            added.pop(twin)
            found.append(Difference(f"{key}: called {twin} now", allowed=True))
        else:
            found.append(Difference(f"{key}: missing now"))
    found += [Difference(f"{key}: new") for key in added]
    for key in sorted(old.keys() & new.keys()):
        for name in sorted(old[key].keys() | new[key].keys()):
            before, after = old[key].get(name), new[key].get(name)
            if before != after:
                found.append(Difference(f"{key}: {name}: {before} before, {after} now"))
    return found
