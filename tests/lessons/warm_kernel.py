"""Jupyter kernels that start quickly: forks of a process that has imported the lab.

A kernel takes seconds to import PyTorch and the lab. One process of each session does
this once; each kernel is a fork of it, in which no cell has run.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from jupyter_client.provisioning import local_provisioner

PRELOADED = ["torch", "matplotlib.pyplot", "ipykernel.kernelapp", "utils"]
TESTS = str(Path(__file__).resolve().parents[1])


class Kernel:
    """A fork with the part of subprocess.Popen's interface that Jupyter uses."""

    stdin = stdout = stderr = None

    def __init__(self, words: list[str], env: dict[str, str], folder: str) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        receiver, sender = context.Pipe(duplex=False)
        arguments = (words, env, folder, sender)
        self.process = context.Process(target=_become_kernel, args=arguments)
        self.process.start()
        sender.close()
        receiver.recv()  # now the fork has the process group that Jupyter signals
        self.pid = self.process.pid

    def poll(self) -> int | None:
        return self.process.exitcode

    def wait(self, timeout: float | None = None) -> int | None:
        self.process.join(timeout)
        return self.poll()

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self.process.terminate()

    def kill(self) -> None:
        self.process.kill()


def start_warm_kernels(monkeypatch: Any) -> None:
    """Let Jupyter start its kernels as forks, until the end of the test.

    With a GPU this does nothing: a fork cannot use a GPU that its parent has opened.
    """
    if torch.cuda.is_available():
        return

    def launch(words: list[str], env: dict[str, str], cwd: str, **_: Any) -> Kernel:
        return Kernel(words, env, cwd)

    monkeypatch.setattr(local_provisioner, "launch_kernel", launch)


def _become_kernel(
    words: list[str], env: dict[str, str], folder: str, begun: Connection
) -> None:
    """Run a kernel in this process, with the environment and the path of a new one."""
    os.setsid()
    begun.send(None)
    begun.close()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    sys.path[:] = [path for path in sys.path if not path.startswith(TESTS)]
    sys.modules["debugpy"] = None  # ipykernel starts sooner without the debugger
    sys.argv = words[words.index("ipykernel_launcher") :]
    sys.argv.append(f"--IPKernelApp.parent_handle={os.getppid()}")
    # `import weft` could not register %%cuda, as no session existed when it ran.
    sys.argv.append("--IPKernelApp.extra_extensions=weft")
    from ipykernel import kernelapp

    kernelapp.launch_new_instance()
