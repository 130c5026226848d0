"""Copies of the lab for tests, and machines on which something is wrong."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

from weft.toolchain import build

_DROPPED = (1, 2)  # numbers of CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
_PR_CAPBSET_DROP = 24


def copy_lab(folder: Path) -> Path:
    """Copy the lab to `folder`, with the runtime built; building the rest takes a
    second."""
    skipped = shutil.ignore_patterns("data")
    shutil.copytree(build.ROOT / "kernels", folder / "kernels")
    shutil.copytree(build.ROOT / "lib/weft", folder / "lib/weft", ignore=skipped)
    (folder / "lib/weft/data").symlink_to(build.ROOT / "lib/weft/data")
    shutil.copy(build.simt_runtime(build.Flavour.here("cpu")), folder / "lib")
    return folder


def libraries(lab: Path) -> list[str]:
    """List the contents of a lab's lib/ except the package and the runtime."""
    names = sorted(path.name for path in (lab / "lib").iterdir())
    return [name for name in names if name != "weft" and "_simt_" not in name]


def bind_by_modes() -> None:
    """In a child, make file modes bind root as well, starting with its next exec."""
    libc = ctypes.CDLL(None)
    for capability in _DROPPED:
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)


def surroundings(lab: Path, cache: Path, **env: str | None) -> dict[str, str]:
    """Return the environment of a child that uses `lab`; None removes a variable."""
    # PYTHONPATH cannot contain every folder name, so it names a link to the lab.
    link = lab.parent / "imported"
    if not link.is_symlink():
        link.symlink_to(lab / "lib", target_is_directory=True)
    changed = {"PYTHONPATH": str(link), "WEFT_CACHE": str(cache), **env}
    inherited = {name: text for name, text in os.environ.items() if name not in changed}
    return inherited | {
        name: text for name, text in changed.items() if text is not None
    }


def start(
    lab: Path, cache: Path, *words: str, env: dict | None = None, **more
) -> subprocess.Popen:
    """Start Python with these arguments: "-m", "weft", ..., or "-c" and a script."""
    words = tuple(textwrap.dedent(word) for word in words)
    return subprocess.Popen(
        [sys.executable, *words],
        **{"env": surroundings(lab, cache, **(env or {})), "text": True, **more},
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE},
        preexec_fn=bind_by_modes,
    )


def python(lab: Path, cache: Path, *words: str, **more) -> subprocess.CompletedProcess:
    """Run Python to its end; see start()."""
    with start(lab, cache, *words, **more) as child:
        out, err = child.communicate(timeout=300)
    return subprocess.CompletedProcess(words, child.returncode, out, err)
