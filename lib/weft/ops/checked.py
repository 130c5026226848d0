"""Whether a rung has passed its check: asked before anything is timed.

The check runs once for each build. That it was passed is remembered in the cache under
the library's name, which holds the hash of all sources, and the hash of what checks.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from ..base import cache, whole
from ..base.errors import Mismatch
from ..timing import device_name
from ..toolchain import keys, native
from .check import Verdict, check_rung


class NotChecked(Mismatch):
    """A kernel is not timed, since it is wrong."""


def require(lib: native.Library, rung: native.Rung) -> Verdict:
    """Check the rung, unless this build of it has passed on this device before.

    Raises NotChecked with what is wrong.
    """
    path = _verdict_path(lib, rung)
    if path.exists():
        return Verdict(**json.loads(path.read_text()))
    try:
        verdict = check_rung(lib, rung)
    except Mismatch as error:
        raise NotChecked(f"not timed, since it is wrong: {error}") from None
    whole.write(path, json.dumps(vars(verdict)))
    return verdict


def _verdict_path(lib: native.Library, rung: native.Rung) -> Path:
    device = device_name(lib.target)
    said = f"{lib.path.name} {rung.name} {device} {keys.hash_sources(*keys.CHECKER)}"
    digest = hashlib.sha256(said.encode()).hexdigest()[:24]
    return cache.cache_folder("checked") / f"{rung.op}-{rung.name}-{digest}.json"
