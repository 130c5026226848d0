"""Start workers with torchrun: from the command line, or from Python.

    rows = launch(Config(epochs=1), workers=2)          train, and return the rows

    with Job(Config(epochs=1), workers=2) as job:       watch, or kill, a worker
        for line in job: print(line)
        rows = job.rows()

run_agent() hands over to torchrun, in this process; `weft mnist --workers N` calls it.
torchrun's agent starts the workers, restarts them, and ends them when it is ended. A
Job is such a command in another process. At the end of its block, or after Ctrl-C, none
of its processes exists any more.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from ..base.errors import ArgumentError
from ..base.paths import LIB
from ..timing import read_json
from ..timing.results import first_line
from ..toolchain import native
from .parallel import check_config, choose_threads
from .rungs import FASTEST, Config
from .workers import LOST, WorkerError

GRACE = 5  # seconds in which a stopped worker must end before it is killed
JOIN = 10  # times the timeout: how long to wait for the other machines
PROBE = 3.0  # seconds in which a store must answer


@dataclasses.dataclass(frozen=True)
class Launch:
    """How many workers to start, and where.

    workers: on this machine. machines: how many run this same command. endpoint:
    "HOST:PORT", where the machines find each other. max_restarts: how often all workers
    are started again after one has ended; they continue from the last checkpoint.
    """

    workers: int = 1
    machines: int = 1
    endpoint: str = ""
    max_restarts: int = 0

    def __post_init__(self) -> None:
        minima = {"workers": 1, "machines": 1, "max_restarts": 0}
        for name, minimum in minima.items():
            if (value := getattr(self, name)) < minimum:
                raise ArgumentError(f"{name}={value}: expected at least {minimum}")
        host, _, port = self.endpoint.rpartition(":")
        is_valid = host and port.isdecimal() and 0 < int(port) < 65536
        if self.machines > 1 and not is_valid:
            raise ArgumentError(
                f"endpoint={self.endpoint or None}: {self.machines} machines need "
                "HOST:PORT, an address of the first machine and a free port there"
            )
        if self.machines == 1 and self.endpoint:
            raise ArgumentError(f"endpoint={self.endpoint}: there is only one machine")

    @property
    def is_needed(self) -> bool:
        """Whether torchrun is needed, since one process alone is not enough."""
        return self != Launch()


def write_options(options: Config) -> list[str]:
    """Return the options of `weft mnist` that differ from their defaults, as words."""
    words = []
    for field in dataclasses.fields(Config):
        value = getattr(options, field.name)
        if value == field.default:
            continue
        if field.name in ("twins", "progress"):
            raise ArgumentError(f"{field.name}={value}: not for several processes")
        words.append("--" + field.name.replace("_", "-"))
        words += [] if value is True else [str(value)]
    return words


# ---- torchrun in this process --------------------------------------------------------


def run_agent(launch: Launch, config: Config, words: list[str]) -> int:
    """Train with torchrun's agent in this process; return the exit status.

    words: the options of `weft mnist` for each worker. What is wrong for every worker
    raises ArgumentError before any is started. Raises WorkerError if a worker is
    killed, if the machines do not find each other, or if the endpoint is in use.
    """
    # PyTorch's C++ code would log a stack for each error that is reported here, too.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
    check_config(config, launch.workers * launch.machines, launch.workers)
    if launch.machines > 1:
        check_endpoint(launch.endpoint)
    device = "cuda" if str(config.device).startswith("cuda") else "cpu"
    library = native.library("mnist", device)  # built here once, not by each worker
    if config.rungs != [FASTEST]:
        library.rung(config.rungs[0])
    agent = ["--nproc-per-node", str(launch.workers)]
    agent += ["--max-restarts", str(launch.max_restarts)]
    if launch.machines == 1:
        agent += ["--standalone"]
        if sys.platform == "linux":  # workers of one machine need no other interface
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    else:
        seconds = config.timeout
        limits = f"join_timeout={JOIN * seconds:.0f},read_timeout={seconds:.0f}"
        agent += ["--nnodes", str(launch.machines), "--rdzv-backend", "c10d"]
        agent += ["--rdzv-endpoint", launch.endpoint, "--rdzv-id", "weft"]
        agent += ["--rdzv-conf", limits]
    threads = str(choose_threads(config, launch.workers))
    os.environ.setdefault("OMP_NUM_THREADS", threads)
    return _run_torchrun([*agent, "-m", "weft", "mnist", *words], launch)


def _run_torchrun(words: list[str], launch: Launch) -> int:
    # Imported lazily: these imports take seconds.
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous import RendezvousError

    if "LOGLEVEL" not in os.environ:  # the agent's log repeats report()'s errors
        logging.disable(logging.CRITICAL)
    try:
        run.main([*limit_shutdown(run.get_args_parser()), *words])
    except ChildFailedError as error:
        return report(error.failures)
    except SignalException as stop:
        raise KeyboardInterrupt(f"({signal.Signals(stop.sigval).name})") from None
    except RendezvousError as error:
        raise WorkerError(
            f"{launch.machines} machines did not meet at {launch.endpoint}: "
            f"{first_line(error)}"
        ) from None
    finally:
        logging.disable(logging.NOTSET)
    return 0


def limit_shutdown(parser: argparse.ArgumentParser) -> list[str]:
    """Return torchrun's option for GRACE; PyTorch 2.11 does not have it yet."""
    known = "--shutdown-timeout" in parser.format_help()
    return ["--shutdown-timeout", str(GRACE)] * known


def report(failures: dict[int, Any]) -> int:
    """Raise an error for a killed worker; the others have reported theirs.

    failures: the agent's records, by rank. Returns the exit status.
    """
    codes = {failure.exitcode for failure in failures.values()}
    ended = codes - {LOST, -signal.SIGTERM}  # the agent itself ends workers by SIGTERM
    for rank, failure in failures.items():
        code = failure.exitcode
        if code < 0 and (code in ended or (not ended and LOST not in codes)):
            name = signal.Signals(-code).name
            raise WorkerError(f"rank {rank} (process {failure.pid}) ended by {name}")
    if not ended:
        raise WorkerError("a worker on another machine has ended")
    return max(ended)


def check_endpoint(endpoint: str, seconds: float = PROBE) -> None:
    """Raise WorkerError if something other than a store of PyTorch uses the port.

    seconds: the time in which a store must answer. A port on which nobody listens is no
    error, since the agent of that machine may start later.
    """
    import torch.distributed as dist

    host, _, port = endpoint.rpartition(":")
    address = (host.strip("[]"), int(port))
    try:
        socket.create_connection(address, seconds).close()
    except (ConnectionRefusedError, TimeoutError):
        return
    except OSError as error:
        reason = error.strerror or error
        raise WorkerError(f"endpoint {endpoint} is unreachable: {reason}") from None
    answers = threading.Event()

    def connect() -> None:
        options = {"is_master": False, "timeout": timedelta(seconds=seconds)}
        with contextlib.suppress(RuntimeError):
            dist.TCPStore(*address, **options, wait_for_workers=False)
            answers.set()

    # A program that accepts the connection and is silent would block it for ever.
    threading.Thread(target=connect, daemon=True).start()
    if not answers.wait(seconds):
        raise WorkerError(
            f"endpoint {endpoint}: another program uses this port; name a free one"
        )


# ---- torchrun in another process -----------------------------------------------------


class Job:
    """`weft mnist` with several workers, in other processes.

    Iteration yields the lines that it prints. The job ends with the `with` block.
    Options are those of Launch.
    """

    def __init__(self, config: Config, workers: int = 2, **options: Any):
        launch = Launch(workers, **options)
        check_config(config, workers * launch.machines, workers)
        words = [f"--workers={workers}", f"--nnodes={launch.machines}"]
        words += [f"--max-restarts={launch.max_restarts}", *write_options(config)]
        words += ["--rdzv-endpoint", launch.endpoint] if launch.endpoint else []
        self.folder = tempfile.TemporaryDirectory(prefix="weft")
        self.path = Path(self.folder.name) / "rows.json"
        command = [sys.executable, "-u", "-m", "weft", "mnist", *words]
        paths = [str(LIB), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.process = subprocess.Popen(
            [*command, "--json", str(self.path)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            **{"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True},
            start_new_session=True,  # so that Ctrl-C only reaches stop()
        )
        self.lines: list[str] = []  # what it has printed

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __iter__(self) -> Iterator[str]:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            yield self.lines[-1]

    @property
    def pids(self) -> dict[int, int]:
        """The process numbers of the running workers, by rank (on Linux)."""
        ranks = {}
        for child in _list_children(self.process.pid):
            with contextlib.suppress(OSError, ValueError):
                text = Path(f"/proc/{child}/environ").read_bytes().decode()
                values = dict(v.partition("=")[::2] for v in text.split("\0"))
                ranks[int(values.get("RANK", ""))] = child
        return dict(sorted(ranks.items()))

    def rows(self) -> list[dict[str, Any]]:
        """Wait for the end and return the rows; raise WorkerError if it has failed."""
        for _ in self:
            pass
        if self.process.wait():
            errors = [line for line in self.lines if line.startswith("weft mnist:")]
            raise WorkerError("\n".join(errors or self.lines[-20:]))
        return read_json(self.path)["rows"]

    def stop(self) -> None:
        """End all processes of the job."""
        pids = list(self.pids.values())
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.communicate(timeout=2 * GRACE)
        # Workers have their own sessions. If the agent is still there, it is hung.
        for pid in [*pids, self.process.pid]:
            if self.process.poll() is None or pid in self.pids.values():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()
        self.folder.cleanup()


def _list_children(pid: int) -> list[int]:
    children = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            children += map(int, task.read_text().split())
    return children


def launch(
    config: Config, workers: int = 2, *, show: Any = None, **options: Any
) -> list[dict[str, Any]]:
    """Train with several workers; return the rows, as in a file of results.

    show: called with each line that the job prints. options: those of Launch. Raises
    ArgumentError for invalid options, and WorkerError if a worker fails.
    """
    with Job(config, workers, **options) as job:
        for line in job:
            if show:
                show(line)
        return job.rows()
