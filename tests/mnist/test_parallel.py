"""Data-parallel training: equal bits, restarts, hangs, and one error for bad input.

Each run has two workers, in other processes, on 384 images. A test that starts workers
is slow, since each worker imports PyTorch.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from test_parts import GENTLE, limit_losses, take_step

from weft.base.errors import ArgumentError
from weft.commands import mnist as command
from weft.mnist import Cnn, Config, data, initial_weights, launcher, parallel
from weft.mnist.data import epoch_order
from weft.mnist.launcher import Job, Launch, launch, limit_shutdown, write_options
from weft.mnist.weights import (
    Checkpoint,
    hash_arrays,
    list_checkpoints,
    read_checkpoints,
    write_checkpoint,
)
from weft.mnist.workers import LOST, PeerLost, Place, WorkerError, find_problem
from weft.mnist.workers_race import DdpTwin, Exchange

# The bits of plain C depend on the number of threads.
CONFIG = Config(limit=384, batch=16, epochs=1, iterations=1, threads=1)
STEPS, MIDDLE = 24, 16  # steps of a run, and of its first checkpoint


# ---- shares, options and agreement ---------------------------------------------------


def test_shares_cover_a_batch_once_and_differ_by_at_most_one():
    for size in range(1, 9):
        for batch in range(size, 30):
            shares = [Place(rank, size).share(batch) for rank in range(size)]
            images = [image for share in shares for image in range(batch)[share]]
            assert images == [*range(batch)]
            lengths = [share.stop - share.start for share in shares]
            assert max(lengths) - min(lengths) <= 1


def test_options_are_written_as_words_that_the_command_reads():
    """A job's workers must train with exactly the options of the Python call."""
    config = replace(
        CONFIG, batchnorm="global", compare=True, lr=0.25, rung="reference"
    )
    config = replace(config, checkpoint="here", resume=True, timeout=2.5, graph="off")
    parser = argparse.ArgumentParser(description="")
    command.add_arguments(parser)
    args = vars(parser.parse_args(write_options(config)))
    read = {name: args[name] for name in vars(config) if name in args}
    assert Config(**read) == config
    assert {*vars(config)} - {*args} == {"twins", "progress"}


@pytest.mark.parametrize(
    ("options", "sizes", "message"),
    [
        ({"batch": 3}, (4, 4), "batch=3: expected at least 4"),
        ({"rung": "reference,naive"}, (2, 2), "workers train one rung"),
        ({"rung": "ladder"}, (2, 2), "workers train one rung"),
    ],
)
def test_options_that_workers_cannot_have(options, sizes, message):
    with pytest.raises(ArgumentError, match=message):
        parallel.check_config(replace(CONFIG, **options), *sizes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batchnorm": "none"}, "batchnorm=none: expected local or global"),
        ({"graph": "on"}, "graph=on: expected auto or off"),
        ({"resume": True}, "resume: expected also a folder"),
        ({"checkpoint_every": 0}, "checkpoint_every=0"),
        ({"timeout": 0}, "timeout=0"),
    ],
)
def test_invalid_options(options, message):
    with pytest.raises(ArgumentError, match=message):
        replace(CONFIG, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "workers=0: expected at least 1"),
        ({"max_restarts": -1}, "max_restarts=-1"),
        ({"machines": 2}, "endpoint=None: 2 machines need HOST:PORT"),
        ({"machines": 2, "endpoint": "here"}, "endpoint=here"),
        ({"machines": 2, "endpoint": "here:99999"}, "endpoint=here:99999"),
        ({"endpoint": "here:29500"}, "there is only one machine"),
    ],
)
def test_invalid_launches(options, message):
    with pytest.raises(ArgumentError, match=message):
        Launch(**options)


def test_more_workers_than_gpus_are_an_error(monkeypatch):
    monkeypatch.setattr(parallel.devices, "count", lambda: 1)
    with pytest.raises(ArgumentError, match="2 workers: this machine has 1 GPUs"):
        parallel.check_config(replace(CONFIG, device="cuda"), 2, 2)
    monkeypatch.setattr(parallel.devices, "count", lambda: 2)
    parallel.check_config(replace(CONFIG, device="cuda"), 4, 2)
    with pytest.raises(ArgumentError, match="device=cuda:0: with workers, expected"):
        parallel.check_config(replace(CONFIG, device="cuda:0"), 4, 2)


def test_a_difference_between_workers_is_named():
    hellos = [{"problem": "", "facts": {"batch": "64", "seed": "0"}} for _ in range(3)]
    assert find_problem(hellos) == ""
    hellos[2]["facts"] = {"batch": "64", "seed": "1"}
    assert find_problem(hellos) == "seed: rank 0 has 0, but rank 2 has 1"
    hellos[1]["problem"] = "no file"
    assert find_problem(hellos) == "rank 1: no file"
    for hello in hellos:
        hello["problem"] = "no file"
    assert find_problem(hellos) == "no file"


def test_torchrun_gets_only_options_that_it_has():
    parser = argparse.ArgumentParser()
    assert limit_shutdown(parser) == []
    parser.add_argument("--shutdown-timeout")
    words = limit_shutdown(parser)
    assert float(parser.parse_args(words).shutdown_timeout) > 0


def test_the_worker_that_was_killed_is_reported_and_not_its_peers():
    def report(*codes: int) -> int:
        records = (SimpleNamespace(exitcode=code, pid=7) for code in codes)
        return launcher.report(dict(enumerate(records)))

    assert report(1, -signal.SIGTERM) == 1  # rank 0 has printed its error
    assert report(LOST, 1) == 1
    for codes, message in (
        ((LOST, -signal.SIGKILL), r"rank 1 \(process 7\) ended by SIGKILL"),
        ((-signal.SIGTERM, -signal.SIGSEGV), "rank 1 .* ended by SIGSEGV"),
        ((-signal.SIGTERM,), "rank 0 .* ended by SIGTERM"),
        ((LOST, -signal.SIGTERM), "a worker on another machine has ended"),
    ):
        with pytest.raises(WorkerError, match=message):
            report(*codes)


def test_unequal_weights_are_an_error():
    model = SimpleNamespace(weights={"w": np.zeros(2, np.float32)})
    own = hash_arrays(model.weights.values())
    for rank, kind in ((0, ArgumentError), (1, SystemExit)):
        hashes = [own, own]
        workers = SimpleNamespace(gather=lambda *_, hashes=hashes: hashes)
        training = SimpleNamespace(cnn=model, workers=workers, place=Place(rank, 2))
        parallel.Training.check_equal(training)
        hashes[1] = hash_arrays([np.ones(2, np.float32)])
        with pytest.raises(kind):  # rank 0 alone prints the error
            parallel.Training.check_equal(training)


def test_a_timeline_has_each_sum_also_if_its_thread_is_late():
    class Work:
        def wait(self) -> None:
            if threading.current_thread() is not threading.main_thread():
                time.sleep(0.05)

    parts = [np.zeros(3, np.float32), np.zeros(2, np.float32), None]
    methods = dict.fromkeys(("begin", "update", "synchronize"), lambda *_, **__: None)
    model = SimpleNamespace(next=iter(parts).__next__, **methods)
    workers = SimpleNamespace(place=Place(0, 2), pulse=None)
    workers.start_sum, workers.wait = lambda part: Work(), lambda work: work.wait()
    exchange = Exchange(model, workers, CONFIG)
    names = [name for name, _, _ in exchange.trace(np.arange(8), 16)]
    assert {"send 12 bytes", "send 8 bytes"} < {*names}
    assert exchange.sizes == [(3, 4), (2, 4)]


class Peers:
    """A worker and its peer, whose sums are 0, so that a sum changes nothing.

    fails: the number of the sum that raises an error. theirs: the peer's problem.
    """

    place, backend = Place(0, 2), "nccl"

    def __init__(self, fails: int = 0, theirs: str = ""):
        self.fails, self.theirs, self.sums = fails, theirs, 0
        self.pulse = SimpleNamespace(step=0)

    def start_sum(self, part: np.ndarray) -> None:
        self.sums += 1
        if self.sums == self.fails:
            raise PeerLost("NCCL cannot be captured")

    def wait(self, work: None) -> None:
        pass

    def gather(self, name: str, value: str) -> list[str]:
        return [value, self.theirs]


@contextlib.contextmanager
def exchange_with(peers: Peers, **options) -> Iterator[Exchange]:
    images = np.random.default_rng(0).integers(0, 256, (4, 28, 28), np.uint8)
    with Cnn("fused", max_batch=2) as model:
        model.set_weights(initial_weights(0))
        model.data(data.Split(images, np.arange(4, dtype=np.uint8)))
        yield Exchange(model, peers, replace(CONFIG, **options))


FIRST, PARTS = np.array([0, 1]), np.array([[2, 3], [0, 2]])


@pytest.fixture(scope="module")
def launched():
    """Return the weights and losses of steps that are launched one by one."""
    with exchange_with(Peers(), graph="off") as exchange:
        assert exchange.capture(FIRST, 4) == "" and not exchange.workers.sums
        for images in (FIRST, *PARTS):
            exchange.step(images, 4)
        return exchange.model.weights, exchange.model.losses()


def check_steps(exchange: Exchange, launched: tuple) -> None:
    """Run the other steps, and compare the bits of all."""
    weights, losses = launched
    exchange.run(PARTS[:1], 4)
    exchange.run(PARTS[1:], 4)
    assert np.array_equal(exchange.model.losses(), losses)
    for name, array in exchange.model.weights.items():
        assert np.array_equal(array, weights[name]), name
    assert exchange.workers.pulse.step == 1 + len(PARTS)


@pytest.mark.slow
def test_a_captured_step_contains_its_sums_and_takes_the_same_steps(launched):
    with exchange_with(Peers()) as exchange:
        assert exchange.capture(FIRST, 4) == "" and exchange.is_graph
        assert exchange.workers.sums == 4  # two to connect, two in the graph
        check_steps(exchange, launched)
        assert exchange.workers.sums == 4
        exchange.close()
        with pytest.raises(ArgumentError, match="no step has been recorded"):
            exchange.model.replay(FIRST)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("peers", "problem"),
    [
        (Peers(fails=4), "rank 0: NCCL cannot be captured"),
        (Peers(theirs="rank 1: no"), "rank 1: no"),
    ],
    ids=["this worker", "another worker"],
)
def test_without_a_graph_all_workers_launch_their_steps(launched, peers, problem):
    with exchange_with(peers) as exchange:
        assert exchange.capture(FIRST, 4) == problem and not exchange.is_graph
        before = peers.sums
        check_steps(exchange, launched)
        assert peers.sums == before + 2 * len(PARTS)


def test_only_nccls_sums_are_captured():
    for peers, options in (
        (SimpleNamespace(backend="gloo", place=Place(0, 2)), {}),
        (SimpleNamespace(backend="nccl", place=Place(0, 1)), {}),
        (SimpleNamespace(backend="nccl", place=Place(0, 2)), {"graph": "off"}),
    ):
        exchange = Exchange(SimpleNamespace(), peers, replace(CONFIG, **options))
        assert exchange.capture(FIRST, 4) == "" and not exchange.is_graph
        exchange.close()


def test_the_sentence_about_sums_has_only_times_that_the_row_has():
    """A worker with a GPU does not wait itself, so the row has no waiting time."""
    row = {"impl": "weft", "rung": "fused", "precision": "fp32", "layout": "nchw"}
    row |= {"workers": 2, "speedup": 1.5, "efficiency": 0.75, "backend": "nccl"}
    row |= {"sent_bytes": 2e6, "collective_us": 500.0}
    row |= {"hidden_us": None, "waited_us": None}
    sums = "nccl adds 2.00 MB a step in 0.50 ms"
    assert command.describe_workers([row])[-1] == f"{sums}."
    row |= {"hidden_us": 400.0, "waited_us": 100.0}
    more = ", of which 0.40 ms pass during computation; a worker waits 0.10 ms."
    assert command.describe_workers([row])[-1] == sums + more
    row |= {"graph": True}
    assert "one launch of a CUDA graph" in command.describe_workers([row])[-1]


@pytest.mark.slow  # it imports PyTorch
def test_ddp_has_global_batch_norm_in_training_alone(monkeypatch):
    """SyncBatchNorm exists on GPUs, so here its error shows that it would synchronise.
    In evaluation it must not: the workers have unequal numbers of batches."""
    import torch

    wrap = lambda module, **_: module  # noqa: E731
    monkeypatch.setattr(torch.nn.parallel, "DistributedDataParallel", wrap)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    images = data.load("train").first(16)
    race = SimpleNamespace(
        **{"config": replace(CONFIG, batchnorm="global"), "place": Place(0, 2)},
        **{"device": torch.device("cpu"), "start": initial_weights(0)},
        **{"train": images, "test": images},
        cnn=SimpleNamespace(rung=SimpleNamespace(precision="fp32")),
        evaluate=lambda count_right: count_right(np.arange(16)),
        train_epochs=lambda name, epoch, evaluate: evaluate(),
    )
    twin = DdpTwin(race, "eager+nobias", "nchw")
    twin.block(np.arange(8), False)()
    with pytest.raises(ValueError, match="SyncBatchNorm expected input tensor"):
        twin.block(np.arange(8), True)()
    twin.alone.set_weights(race.start)
    want = (twin.alone.predict(images) == images.labels).sum()
    assert twin.train(race) == want and twin.module.training


# ---- checkpoints ---------------------------------------------------------------------


@pytest.fixture
def checkpoint() -> Checkpoint:
    weights = initial_weights(0, channels=(2, 3), hidden=5)
    losses = np.arange(3, dtype=np.float32)
    return Checkpoint(3, weights, {"batch": 16}, losses, [0.5], [1.25, 0.5])


def test_a_checkpoint_returns_its_bits(checkpoint):
    again = Checkpoint.unpack(checkpoint.pack(), "it")
    assert (again.step, again.facts) == (3, {"batch": 16})
    assert (again.accuracies, again.seconds) == ([0.5], [1.25, 0.5])
    assert again.losses.tobytes() == checkpoint.losses.tobytes()
    assert list(again.weights) == list(checkpoint.weights)
    for name, array in checkpoint.weights.items():
        assert array.tobytes() == again.weights[name].tobytes()


def test_any_changed_byte_of_the_weights_is_damage(checkpoint):
    packed = checkpoint.pack()
    for at in range(200, len(packed) - 2000, 997):
        damaged = bytearray(packed)
        damaged[at] ^= 1
        with contextlib.suppress(ArgumentError):
            again = Checkpoint.unpack(bytes(damaged), "it")
            # Only fields that nobody reads, such as a file's date, may change.
            assert all(
                np.array_equal(again.weights[name], array)
                for name, array in checkpoint.weights.items()
            )
    for end in (0, 10, len(packed) // 2, len(packed) - 1):
        with pytest.raises(ArgumentError, match="it is not a checkpoint"):
            Checkpoint.unpack(packed[:end], "it")


def test_nothing_executes_when_a_checkpoint_is_read(checkpoint, tmp_path):
    """An array of objects would be a pickle, which can run any program."""

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "executed"),)

    file = io.BytesIO()
    about = np.frombuffer(b'{"format": 1}', np.uint8)
    np.savez(file, about=about, losses=np.array([Evil()], object))
    with pytest.raises(ArgumentError, match="is not a checkpoint"):
        Checkpoint.unpack(file.getvalue(), "it")
    assert not (tmp_path / "executed").exists()


def test_a_folder_keeps_the_last_two_checkpoints(checkpoint, tmp_path):
    for step in (5, 10, 15, 100):
        write_checkpoint(tmp_path, replace(checkpoint, step=step))
    names = [path.name for path in list_checkpoints(tmp_path)]
    assert names == ["step_000000100.npz", "step_000000015.npz"]
    assert sorted(os.listdir(tmp_path)) == sorted(names)
    steps = [Checkpoint.unpack(p, "it").step for _, p in read_checkpoints(tmp_path)]
    assert steps == [100, 15]


def test_a_run_does_not_continue_from_another_runs_checkpoint(checkpoint):
    checkpoint.check({"batch": 16}, "it")
    with pytest.raises(ArgumentError, match="with batch 16, but this run has batch 8"):
        checkpoint.check({"batch": 8}, "it")


@pytest.mark.slow
def test_one_process_continues_with_the_same_bits(checkpoint, tmp_path, monkeypatch):
    """A run that stops and continues has the bits of one that does not stop."""
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    sets = {name: data.load(name).first(200) for name in ("train", "test")}
    monkeypatch.setattr(data, "load", sets.get)
    config = replace(CONFIG, progress=False, checkpoint_every=3, limit=64)
    whole = parallel.run(replace(config, checkpoint=tmp_path / "a", epochs=2))
    half = replace(config, checkpoint=tmp_path / "b")
    parallel.run(half)
    with pytest.raises(ArgumentError, match="add --resume"):
        parallel.run(half)
    newest = list_checkpoints(tmp_path / "b")[0]
    newest.write_bytes(newest.read_bytes()[:1000])  # damaged: the older one counts
    again = parallel.run(replace(half, epochs=2, resume=True))
    assert again.rows[0]["losses"] == whole.rows[0]["losses"]
    assert again.rows[0]["test_accuracies"] == whole.rows[0]["test_accuracies"]
    for name, array in whole.cnn.weights.items():
        assert np.array_equal(array, again.cnn.weights[name]), name
    for change, message in (
        ({"lr": 0.5}, "with lr 0.1, but this run has lr 0.5"),
        ({"limit": 48}, "with training images 64"),
        ({"epochs": 1}, "1 epochs have 4 steps"),
    ):
        with pytest.raises(ArgumentError, match=message):
            parallel.run(replace(half, **{"epochs": 2, "resume": True} | change))
    write_checkpoint(tmp_path / "b", replace(checkpoint, step=99))
    with pytest.raises(ArgumentError, match=r"step_000000099.npz: conv1.weight is"):
        parallel.run(replace(half, epochs=2, resume=True))


def test_launch_shows_each_line_and_returns_the_rows(monkeypatch):
    class Printed(list):
        def __init__(self, config: Config, workers: int, **options):
            super().__init__(["first", "last", (config, workers, options)])

        def __enter__(self) -> Printed:
            return self

        def __exit__(self, *_: object) -> None:
            shown.append("end")

        def rows(self) -> list[dict]:
            return [{"us": 1}]

    shown = []
    monkeypatch.setattr(launcher, "Job", Printed)
    rows = launch(CONFIG, 3, show=shown.append, max_restarts=1)
    assert rows == [{"us": 1}]
    assert shown == ["first", "last", (CONFIG, 3, {"max_restarts": 1}), "end"]


# ---- two workers ---------------------------------------------------------------------


def read_bits(path: Path) -> dict[str, bytes]:
    with np.load(path) as file:
        return {name: array.tobytes() for name, array in file.items()}


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Run two agents with a worker each to the end.

    Return rows, the weights' bits, the checkpoints, and what each agent has printed.
    """
    folder = tmp_path_factory.mktemp("undisturbed")
    config = replace(CONFIG, save=folder / "w.npz", compare=True)
    config = replace(config, checkpoint=folder / "steps", checkpoint_every=MIDDLE)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = {"machines": 2, "endpoint": f"127.0.0.1:{port}"}
    with Job(config, 1, **options) as first, Job(config, 1, **options) as second:
        printed = [list(first), list(second)]
        (rows,) = [job.rows() for job in (first, second) if job.path.exists()]
    return SimpleNamespace(
        rows=rows,
        bits=read_bits(config.save),
        folder=config.checkpoint,
        printed=printed,
    )


@pytest.mark.slow
def test_two_machines_meet_on_loopback(undisturbed):
    """Rank 0 alone prints the result; its agent may be the second one."""
    printed = [" ".join(lines) for lines in undisturbed.printed]
    assert sum("times as fast" in text for text in printed) == 1
    assert undisturbed.rows[0]["machines"] == 2


@pytest.mark.slow
def test_two_workers_train_as_ddp_does(undisturbed):
    """The row has its columns, and the first losses are those of PyTorch's DDP."""
    rows = undisturbed.rows
    ours, ddp = rows[0], rows[1]
    assert (ours["workers"], ours["backend"], ours["batchnorm"]) == (2, "gloo", "local")
    assert ours["graph"] is False  # gloo's sums cannot be captured
    assert len(ours["losses"]) == STEPS
    for row in (r for r in rows if r["impl"] == "torch"):
        assert row["speedup"] > 0
        assert row["efficiency"] == pytest.approx(row["speedup"] / 2, rel=1e-3)
    assert ours["sent_bytes"] >= 4 * sum(w.size for w in initial_weights(0).values())
    assert ours["collective_us"] > 0 and ours["waited_us"] > 0
    assert {event["rank"] for event in ours["timeline"]} == {0, 1}
    trained = next(row for row in rows if row["impl"] == "torch" and row["losses"])
    # Both train on the same images. Later, differences in rounding grow.
    assert trained["losses"][:3] == pytest.approx(ours["losses"][:3], rel=1e-3)
    assert ddp["rung"].endswith("DDP")


@pytest.mark.slow
def test_other_numbers_of_workers_continue_within_the_bound(tmp_path, monkeypatch):
    """With global batch norm, 2 workers, then 1, then 2 have one model's losses."""
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    sets = {name: data.load(name).first(640) for name in ("train", "test")}
    config = Config(limit=640, batch=64, lr=GENTLE, iterations=1, epochs=1)
    config = replace(config, batchnorm="global", rung="reference", checkpoint=tmp_path)
    launch(config, 2)
    with monkeypatch.context() as patch:
        patch.setattr(data, "load", sets.get)
        parallel.run(replace(config, epochs=2, resume=True, progress=False))
    launch(replace(config, epochs=3, resume=True), 2)
    newest, before = (p for _, p in read_checkpoints(tmp_path))
    losses = Checkpoint.unpack(newest, "it").losses
    assert len(losses) == 30  # the third run has continued the second one's losses
    assert np.array_equal(losses[:20], Checkpoint.unpack(before, "it").losses)
    orders = [data.epoch_order(config.seed, epoch, 640, 64) for epoch in range(3)]
    whole, limit = limit_losses(sets["train"], np.concatenate(orders).reshape(-1, 64))
    assert (np.abs(losses - whole) <= limit).all() and limit.max() < 0.02


@pytest.mark.slow
def test_killed_workers_lead_to_the_bits_of_an_undisturbed_run(undisturbed, tmp_path):
    """SIGKILL ends a worker three times, each time at another step. One agent with two
    workers has the bits of two agents with a worker each."""
    chance = random.Random(4)
    kills = [(step + chance.randrange(5), chance.randrange(2)) for step in (2, 9, 16)]
    config = replace(CONFIG, checkpoint=tmp_path / "steps", checkpoint_every=1)
    config = replace(config, save=tmp_path / "w.npz")
    is_new, killed = True, 0
    with Job(config, 2, max_restarts=len(kills)) as job:
        for line in job:
            is_new |= "a worker ended: training continues after step" in line
            if "epoch 1/1 (" in line and is_new and killed < len(kills):
                step, rank = kills[killed]
                _wait_for_step(config.checkpoint, step)
                os.kill(job.pids[rank], signal.SIGKILL)
                is_new, killed = False, killed + 1
        again = job.rows()
    assert killed == len(kills) and is_new
    for key in ("losses", "test_accuracies"):
        assert again[0][key] == undisturbed.rows[0][key]
    assert read_bits(config.save) == undisturbed.bits


def _wait_for_step(folder: Path, step: int) -> None:
    end = time.monotonic() + 20
    while not any(int(path.stem[5:]) >= step for path in list_checkpoints(folder)):
        assert time.monotonic() < end, f"no checkpoint of step {step} or later"
        time.sleep(0.001)


@pytest.mark.slow
def test_one_and_then_three_workers_continue_until_ctrl_c(
    undisturbed, tmp_path, monkeypatch
):
    """Losses before a checkpoint are kept. The next ones are those of the checkpoint's
    weights, with batch norm over each worker's part: 16, and 5, 5 and 6 images. Ctrl-C
    leaves no worker and no port."""
    (path,) = undisturbed.folder.glob(f"*{MIDDLE}.npz")
    shutil.copy(path, tmp_path)
    config = replace(CONFIG, checkpoint=tmp_path, resume=True, save=tmp_path / "w.npz")
    two = read_newest(tmp_path)
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with monkeypatch.context() as patch:
        sets = {"train": data.load("train"), "test": data.load("test").first(200)}
        patch.setattr(data, "load", sets.get)
        parallel.run(replace(config, progress=False))
    one = read_newest(tmp_path)
    assert one.step == STEPS
    check_continued(one, two, 1)

    config = replace(config, epochs=1000, checkpoint_every=3)
    with Job(config, 3) as job:
        _read_until(job, "epoch 2/")
        _wait_for_step(tmp_path, STEPS + 3)
        pids = [*job.pids.values(), job.process.pid]
        ports = _listening(pids)
        assert len(pids) == 4 and ports
        os.kill(job.process.pid, signal.SIGINT)
        assert job.process.wait(30) == 130
        assert sum("stopped" in line for line in job) == 1  # the agent alone
    assert not any(is_alive(pid) for pid in pids)
    for port in ports:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("localhost", port), 1)
    check_continued(read_newest(tmp_path), one, 3)


def read_newest(folder: Path) -> Checkpoint:
    return Checkpoint.unpack(list_checkpoints(folder)[0].read_bytes(), "it")


def check_continued(end: Checkpoint, start: Checkpoint, size: int) -> None:
    """Check that `size` workers have continued from `start`.

    The first loss is a sum of equal floats, rounded once. The sums of gradients are
    rounded differently, so the next two losses agree less; later ones would differ."""
    assert end.step == len(end.losses) >= start.step + 3
    assert np.array_equal(end.losses[: start.step], start.losses)
    epoch, first = divmod(start.step, STEPS)
    order = epoch_order(CONFIG.seed, epoch, CONFIG.limit, CONFIG.batch)
    batches = order.reshape(STEPS, CONFIG.batch)[first : first + 3]
    expected = {}
    for workers in (size, 2):
        models = [Cnn("reference", max_batch=CONFIG.batch) for _ in range(workers)]
        for model in models:
            model.data(data.load("train").first(CONFIG.limit))
            model.set_weights(start.weights)
        shares = [Place(rank, workers).share(CONFIG.batch) for rank in range(workers)]
        expected[workers] = [
            take_step(models, [batch[share] for share in shares], sync=False)
            for batch in batches
        ]
    got = end.losses[start.step : start.step + 3].tolist()
    assert got[0] == pytest.approx(expected[size][0], rel=2.0**-23)
    assert got == pytest.approx(expected[size], rel=1e-5)
    assert got != pytest.approx(expected[2], rel=1e-4)


@pytest.mark.slow
def test_a_hung_worker_is_named_and_replaced():
    """SIGSTOP is an error within the timeout, after which torchrun starts again."""
    config = replace(CONFIG, epochs=1000, timeout=5.0)
    with Job(config, 2, max_restarts=1) as job:
        _read_until(job, "epoch 1/")
        hung = job.pids[1]
        os.kill(hung, signal.SIGSTOP)
        start = time.monotonic()
        _read_until(job, "rank 1 gave no sign of life for 4 s (--timeout 5)")
        assert time.monotonic() - start < config.timeout
        _read_until(job, "epoch 1/")  # torchrun waits for 30 s, then it kills
        assert not is_alive(hung)


def _read_until(job: Job, text: str) -> None:
    assert any(text in line for line in job), job.lines


def _listening(pids: list[int]) -> set[int]:
    """Return the TCP ports on which the processes listen."""
    inodes = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                inodes.add(os.readlink(link))
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports


@pytest.mark.slow  # it imports PyTorch's collectives, and looks for a host
def test_a_port_of_another_program_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as server:
        endpoint = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(WorkerError, match="another program uses this port"):
            launcher.check_endpoint(endpoint, 0.2)
    launcher.check_endpoint(endpoint, 0.2)  # free: the agent will listen there
    with pytest.raises(WorkerError, match="endpoint nowhere.invalid:1 is unreachable"):
        launcher.check_endpoint("nowhere.invalid:1", 0.2)
