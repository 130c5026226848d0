"""A lab of one's own, and machines on which something is wrong."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

from weft.toolchain import build

_DROPPED = (1, 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
_PR_CAPBSET_DROP = 24


def copy_lab(folder: Path) -> Path:
    """The lab in `folder`, with the runtime built: the rest takes a second."""
    skipped = shutil.ignore_patterns("data")
    shutil.copytree(build.ROOT / "kernels", folder / "kernels")
    shutil.copytree(build.ROOT / "lib/weft", folder / "lib/weft", ignore=skipped)
    (folder / "lib/weft/data").symlink_to(build.ROOT / "lib/weft/data")
    shutil.copy(build.simt_runtime(build.Flavour.here("cpu")), folder / "lib")
    return folder


def libraries(lab: Path) -> list[str]:
    """What lies in its lib/ but for the package and the runtime."""
    names = sorted(path.name for path in (lab / "lib").iterdir())
    return [name for name in names if name != "weft" and "_simt_" not in name]


def bind_by_modes() -> None:
    """In a child: a file's mode holds for root, too, from its next exec on."""
    libc = ctypes.CDLL(None)
    for capability in _DROPPED:
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)


def surroundings(lab: Path, cache: Path, **env: str | None) -> dict[str, str]:
    """The environment for a child that works with `lab`. None: without the name."""
    # PYTHONPATH cannot name every folder; the lab itself follows the link.
    link = lab.parent / "imported"
    if not link.is_symlink():
        link.symlink_to(lab / "lib", target_is_directory=True)
    changed = {"PYTHONPATH": str(link), "WEFT_CACHE": str(cache), **env}
    kept = {name: text for name, text in os.environ.items() if name not in changed}
    return kept | {name: text for name, text in changed.items() if text is not None}


def start(
    lab: Path, cache: Path, *words: str, env: dict | None = None, **more
) -> subprocess.Popen:
    """Start Python with these words: "-m", "weft", ..., or "-c" and a script."""
    words = tuple(textwrap.dedent(word) for word in words)
    return subprocess.Popen(
        [sys.executable, *words],
        **{"env": surroundings(lab, cache, **(env or {})), "text": True, **more},
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE},
        preexec_fn=bind_by_modes,
    )


def python(lab: Path, cache: Path, *words: str, **more) -> subprocess.CompletedProcess:
    """Run it to its end; see start()."""
    with start(lab, cache, *words, **more) as child:
        out, err = child.communicate(timeout=300)
    return subprocess.CompletedProcess(words, child.returncode, out, err)
