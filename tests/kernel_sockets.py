"""Jupyter kernels whose sockets are files, so that tests do not compete for ports.

Jupyter selects free ports before the kernel opens them. Meanwhile, another process may
open one, and the kernel ends with "Address already in use".
"""

import contextlib
import tempfile
from collections.abc import Iterator

from traitlets.config import Config


@contextlib.contextmanager
def make_sockets() -> Iterator[Config]:
    """Yield the configuration of a kernel manager with a folder for its sockets."""
    with tempfile.TemporaryDirectory(prefix="weft") as folder:
        sockets = {"transport": "ipc", "connection_file": f"{folder}/kernel.json"}
        yield Config(KernelManager=sockets)
