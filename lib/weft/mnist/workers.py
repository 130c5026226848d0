"""Connect the processes that train one model together, and find one that hangs.

torchrun starts the processes and sets RANK, WORLD_SIZE and other variables, from which
read_place() makes a Place. join() connects the processes, and compares what must be
equal in all of them. Afterwards Workers adds arrays over all processes, with gloo on
processors and NCCL on GPUs.

A worker that dies closes its connections, so the others get an error at once. One that
hangs closes nothing. Each worker therefore writes a heartbeat into the rendezvous
store, and reads those of the others; see Pulse.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, NoReturn

import numpy as np

from ..base.errors import ArgumentError
from ..timing.results import first_line

LOST = 75  # exit status of a worker whose peer has ended; the launcher names the peer
POLL = 0.02  # seconds between two looks at the store while workers arrive
BEATS = 20  # heartbeats in the timeout
PATIENCE = 0.8  # share of the timeout after which a silent worker counts as hung


class WorkerError(OSError):
    """A worker hangs, has not arrived, or cannot be reached."""


class PeerLost(WorkerError):
    """Another worker has closed its connection, because it ended."""


@dataclass(frozen=True)
class Place:
    """A process's number among all workers, and among those of its machine."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    restarts: int = 0  # how often torchrun has restarted the workers

    def share(self, count: int, rank: int | None = None) -> slice:
        """Return this worker's (or another rank's) part of `count` items.

        The parts are contiguous, and their lengths differ by at most one.
        """
        rank = self.rank if rank is None else rank
        return slice(rank * count // self.size, (rank + 1) * count // self.size)


_VARIABLES = {
    **{"rank": "RANK", "size": "WORLD_SIZE", "local_rank": "LOCAL_RANK"},
    **{"local_size": "LOCAL_WORLD_SIZE", "restarts": "TORCHELASTIC_RESTART_COUNT"},
}


def is_worker() -> bool:
    """Return whether torchrun, or a program like it, has started this process."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR"))


def read_place() -> Place:
    """Return this process's place; without torchrun, it is the only worker."""
    if not is_worker():
        return Place()
    values = {}
    for name, variable in _VARIABLES.items():
        text = os.environ.get(variable, str(getattr(Place, name)))
        if not text.isdecimal():
            raise ArgumentError(f"{variable}={text}: expected a number from torchrun")
        values[name] = int(text)
    return Place(**values)


class Workers:
    """One worker's connection to all others. A single worker needs no PyTorch."""

    def __init__(self, place: Place, backend: str | None, restarts: int = 0):
        self.place, self.backend, self.restarts = place, backend, restarts
        self.pulse: Pulse | None = None
        self.store: Any = None

    @property
    def leads(self) -> bool:
        """Whether this worker prints the results, and writes files."""
        return self.place.rank == 0

    def start_sum(self, data: Any) -> Any:
        """Start to add arrays over all workers, in place; return the work to wait for.

        data: a NumPy array or a tensor. Each worker gets the same bits: a part of the
        array is added in one place, in an order that depends only on the sizes.
        """
        import torch
        import torch.distributed as dist

        tensor = torch.from_numpy(data) if isinstance(data, np.ndarray) else data
        try:
            return dist.all_reduce(tensor, async_op=True)
        except RuntimeError as error:
            raise self._explain(error) from None

    def wait(self, work: Any) -> None:
        """Wait for a sum; on a GPU, only the current stream waits."""
        try:
            work.wait()
        except RuntimeError as error:
            raise self._explain(error) from None

    def sum(self, array: Any) -> Any:
        """Add an array over all workers, in place, and return it."""
        if self.backend:
            self.wait(self.start_sum(array))
        return array

    def mean(self, *values: float) -> list[float]:
        """Return the means of numbers over the workers."""
        return (self.sum(np.array(values, np.float64)) / self.place.size).tolist()

    def barrier(self) -> None:
        """Wait until all workers are here."""
        self.sum(np.zeros(1, np.float32))

    def share_bytes(self, name: str, data: bytes) -> bytes:
        """Return the leader's `data` in all workers."""
        if self.store is None:
            return data
        if self.leads:
            self.store.set(name, data)
        with self._explained():
            return self.store.get(name)

    def gather(self, name: str, value: Any) -> list[Any]:
        """Return a JSON value of each worker, by rank."""
        if self.store is None:
            return [value]
        self.store.set(f"{name}/{self.place.rank}", json.dumps(value))
        names = [f"{name}/{rank}" for rank in range(self.place.size)]
        with self._explained():
            return [json.loads(self.store.get(key)) for key in names]

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            raise self._explain(error) from None

    def _explain(self, error: RuntimeError) -> WorkerError:
        """Return the error to raise for one of PyTorch's."""
        if "imed out" in str(error) and self.pulse:
            return WorkerError(self.pulse.name_late())
        return PeerLost(f"another worker has ended: {first_line(error)}")


# ---- arrival -------------------------------------------------------------------------


@contextlib.contextmanager
def join(
    place: Place, facts: dict[str, Any], problem: str, timeout: float, backend: str
) -> Iterator[Workers]:
    """Connect the workers for the duration of a `with` block.

    facts: what must be equal in all workers, by name. problem: why this worker cannot
    train, or "". Before anything is connected, each worker learns the facts and
    problems of all; then the leader raises ArgumentError for the first difference, and
    the others exit. timeout: seconds. Raises WorkerError if a worker does not arrive.
    """
    if not is_worker():
        if problem:
            raise ArgumentError(problem)
        yield Workers(place, None)
        return
    # Imported lazily: a single worker needs no PyTorch.
    import torch.distributed as dist

    limit = timedelta(seconds=timeout)
    try:
        store, _, _ = next(dist.rendezvous("env://", timeout=limit))
    except (RuntimeError, ValueError) as error:
        address = f"{os.environ['MASTER_ADDR']}:{os.environ.get('MASTER_PORT')}"
        raise WorkerError(
            f"rank {place.rank} cannot reach the store at {address}: "
            f"{first_line(error)}"
        ) from None
    hello = {**asdict(place), "facts": facts, "problem": problem}
    verdict = _arrive(store, place, hello, timeout)
    if verdict["problem"]:
        refuse(place, verdict["problem"])
    prefix = verdict["round"]
    workers = Workers(place, backend, verdict["restarts"])
    workers.store = dist.PrefixStore(prefix, store)
    workers.pulse = Pulse(prefix, place, timeout)
    workers.pulse.start()
    try:
        try:
            group = dist.PrefixStore("group", workers.store)
            # NCCL adds what is on a GPU, and gloo adds what is not.
            both = "cpu:gloo,cuda:nccl" if backend == "nccl" else backend
            world = {"rank": place.rank, "world_size": place.size, "timeout": limit}
            dist.init_process_group(both, store=group, **world)
        except RuntimeError as error:
            raise workers._explain(error) from None
        yield workers
        workers.barrier()
    finally:
        workers.pulse.stop()
        if dist.is_initialized() and sys.exc_info()[0] is None:
            dist.destroy_process_group()


def _arrive(store: Any, place: Place, hello: dict, timeout: float) -> dict[str, Any]:
    """Post this worker's hello, and return the leader's verdict on all of them.

    The agents keep one store for all restarts, so a key may be from a dead worker. Each
    hello therefore has a random number. The verdict lists those of the workers that it
    is for, and it holds once all of them have confirmed it.
    """
    hello["nonce"] = uuid.uuid4().hex
    store.set(f"hello/{place.rank}", json.dumps(hello))
    end = time.monotonic() + timeout
    if place.rank == 0:
        return _judge(store, place.size, end, timeout)
    while time.monotonic() < end:
        if store.check(["verdict"]):
            verdict = json.loads(store.get("verdict"))
            nonces = verdict["nonces"]
            if len(nonces) == place.size and nonces[place.rank] == hello["nonce"]:
                store.set(f"{verdict['round']}/ack/{place.rank}", "")
                return verdict
        time.sleep(POLL)
    raise WorkerError(f"rank {place.rank}: rank 0 did not arrive within {timeout:g} s")


def _judge(store: Any, size: int, end: float, timeout: float) -> dict[str, Any]:
    """Wait for all hellos; publish the verdict until all workers have confirmed it."""
    verdict: dict[str, Any] = {"nonces": []}
    missing = [*range(size)]
    while time.monotonic() < end:
        missing = [n for n in range(size) if not store.check([f"hello/{n}"])]
        if not missing:
            hellos = [json.loads(store.get(f"hello/{n}")) for n in range(size)]
            nonces = [hello["nonce"] for hello in hellos]
            if nonces != verdict["nonces"]:
                verdict = {"nonces": nonces, "problem": find_problem(hellos)}
                verdict["restarts"] = max(hello["restarts"] for hello in hellos)
                verdict["round"] = uuid.uuid4().hex
                store.set("verdict", json.dumps(verdict))
            acks = [f"{verdict['round']}/ack/{n}" for n in range(1, size)]
            missing = [n for n, ack in enumerate(acks, 1) if not store.check([ack])]
            if not missing:
                return verdict
        time.sleep(POLL)
    raise WorkerError(f"{_name_ranks(missing)} did not arrive within {timeout:g} s")


def refuse(place: Place, problem: str) -> NoReturn:
    """End all workers for the same problem: rank 0 raises ArgumentError."""
    if place.rank:
        raise SystemExit(1)
    raise ArgumentError(problem)


def find_problem(hellos: list[dict[str, Any]]) -> str:
    """Return why these workers cannot train together, or ""."""
    problems: dict[str, list[int]] = {}
    for rank, hello in enumerate(hellos):
        if hello["problem"]:
            problems.setdefault(hello["problem"], []).append(rank)
    if problems:
        everywhere = [*problems.values()] == [[*range(len(hellos))]]
        texts = [
            text if everywhere else f"{_name_ranks(ranks)}: {text}"
            for text, ranks in problems.items()
        ]
        return "; ".join(texts)
    first = hellos[0]["facts"]
    for rank, hello in enumerate(hellos):
        for name in {**first, **hello["facts"]}:
            ours, theirs = first.get(name), hello["facts"].get(name)
            if ours != theirs:
                return f"{name}: rank 0 has {ours}, but rank {rank} has {theirs}"
    return ""


def _name_ranks(ranks: list[int]) -> str:
    names = ", ".join(map(str, ranks))
    return f"rank {names}" if len(ranks) == 1 else f"ranks {names}"


# ---- heartbeats ----------------------------------------------------------------------


class Pulse(threading.Thread):
    """A thread that writes this worker's heartbeat and reads those of the others.

    If another worker's heartbeat stops for PATIENCE of the timeout, the main thread may
    wait in a collective that it cannot leave. So this thread prints the error and ends
    the process. The same happens if the store is gone: then the launcher has ended, and
    nobody else would end this process.
    """

    def __init__(self, prefix: str, place: Place, timeout: float):
        super().__init__(name="weft-pulse", daemon=True)
        self.place, self.timeout, self.step = place, timeout, 0
        self._prefix, self._ending = prefix, threading.Event()
        self._ranks = [rank for rank in range(place.size) if rank != place.rank]
        self._steps: dict[int, int] = {}  # the last known step of each other worker

    def stop(self) -> None:
        """End the thread; no error is reported afterwards."""
        self._ending.set()

    def name_late(self) -> str:
        """Return a sentence about a collective that timed out."""
        behind = [rank for rank, step in self._steps.items() if step < self.step]
        who = _name_ranks(behind) if behind else "another worker"
        return f"{who} did not reach step {self.step + 1} within {self.timeout:g} s"

    def run(self) -> None:
        """Write and read heartbeats until stop()."""
        import torch.distributed as dist

        interval, patience = self.timeout / BEATS, PATIENCE * self.timeout
        try:
            client = dist.TCPStore(
                os.environ["MASTER_ADDR"],
                int(os.environ["MASTER_PORT"]),
                is_master=False,
                timeout=timedelta(seconds=patience),
            )
            store, count = dist.PrefixStore(f"{self._prefix}/pulse", client), 0
            seen = {rank: ("", time.monotonic()) for rank in self._ranks}
            before = time.monotonic()
            while not self._ending.wait(interval):
                count += 1
                store.set(str(self.place.rank), f"{count} {self.step}")
                now = time.monotonic()
                # After a pause of this process itself, all others get a new term.
                is_paused, before = now - before > patience / 2, now
                for rank, (text, _) in seen.items():
                    beat = self._read(store, rank)
                    if is_paused or beat != text:
                        seen[rank] = (beat, now)
                    self._steps[rank] = int(beat.partition(" ")[2] or 0)
                hung = [r for r, (_, t) in seen.items() if now - t > patience]
                if hung:
                    return self._end_process(
                        f"{_name_ranks(hung)} gave no sign of life for "
                        f"{patience:.3g} s (--timeout {self.timeout:g})",
                        reporter=min({*range(self.place.size)} - {*hung}),
                    )
        except (RuntimeError, OSError):
            self._end_process("the rendezvous store is gone: its agent has ended", 0)

    def _read(self, store: Any, rank: int) -> str:
        return store.get(str(rank)).decode() if store.check([str(rank)]) else ""

    def _end_process(self, text: str, reporter: int) -> None:
        """End the process; the rank `reporter` first prints the error."""
        if self._ending.is_set():
            return
        if self.place.rank == reporter:
            with contextlib.suppress(OSError, ValueError):
                print(f"weft mnist: {text}", file=sys.stderr, flush=True)
        # Other threads may be in a collective for ever, so nothing is cleaned up.
        os._exit(1 if self.place.rank == reporter else LOST)
