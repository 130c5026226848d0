"""The cache contains code, so files that other users could write are not loaded."""

import errno
import fcntl
import os
import signal
import stat

import filelock
import numpy as np
import pytest

from weft.base import store
from weft.base.errors import ArgumentError, defer_interrupts
from weft.cells import load_cuda
from weft.mnist import weights

ONE = "__global__ void k(int *x) { x[0] = 1; }"


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """Choose a cache folder that no other test has used."""
    monkeypatch.setattr(store, "_root", None)
    monkeypatch.setattr(store, "_temporary", False)
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "weft"))
    return tmp_path / "weft"


def test_a_new_cache_folder_is_for_its_user_alone(fresh):
    old = os.umask(0)
    try:
        assert store.cache_folder() == fresh
    finally:
        os.umask(old)
    assert stat.S_IMODE(fresh.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o707, 0o777, 0o1777])
def test_a_folder_that_every_user_may_write_is_refused(fresh, mode, capsys):
    fresh.mkdir()
    fresh.chmod(mode)
    folder = store.cache_folder("cells")
    assert fresh not in folder.parents and not store.is_lasting()
    assert "can be written by every user (chmod o-w" in capsys.readouterr().err


def test_a_folder_that_a_group_may_write_is_refused(fresh, monkeypatch, capsys):
    fresh.mkdir()
    fresh.chmod(0o770)
    monkeypatch.setattr(store, "_is_private", lambda group: False)
    assert fresh not in store.cache_folder("cells").parents
    assert "can be written by its group" in capsys.readouterr().err


def test_a_group_with_its_user_alone_may_write(fresh, monkeypatch):
    fresh.mkdir()
    fresh.chmod(0o770)
    monkeypatch.setattr(store, "_is_private", lambda group: True)
    assert store.cache_folder() == fresh


def test_a_folder_of_another_user_is_refused(fresh, monkeypatch, capsys):
    fresh.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: fresh.stat().st_uid + 1)
    assert store.cache_folder() != fresh and not store.is_lasting()
    owner = fresh.stat().st_uid
    assert f"belongs to user {owner} and not to {owner + 1}" in capsys.readouterr().err


def test_a_folder_inside_the_cache_that_is_a_link_is_made_anew(fresh, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine.so").write_text("another's")
    fresh.mkdir(0o700)
    (fresh / "cells").symlink_to(elsewhere)
    assert not list(store.cache_folder("cells").iterdir())
    assert (elsewhere / "mine.so").exists()


def test_a_library_that_is_a_link_is_compiled_anew(fresh, tmp_path):
    load_cuda(ONE, target="cpu")
    (library,) = store.cache_folder("cells").glob("*.so")
    planted = tmp_path / "planted.so"
    planted.write_bytes(library.read_bytes())
    library.unlink()
    library.symlink_to(planted)
    assert "compiled in" in load_cuda(ONE, target="cpu").report
    assert library.is_file() and not library.is_symlink()


def test_pruning_deletes_a_link_and_not_what_it_points_at(fresh, tmp_path):
    target = tmp_path / "outside"
    target.write_bytes(bytes(1000))
    (store.cache_folder("cells") / "link").symlink_to(target)
    assert store.measure_cache() < 1000
    store.prune(limit=0)
    assert target.exists() and not (fresh / "cells" / "link").is_symlink()


def test_pruning_survives_a_folder_that_another_process_deletes(fresh, monkeypatch):
    unfinished = store.cache_folder("cells") / "unfinished"
    unfinished.mkdir()
    (store.cache_folder("cells") / "old.so").write_bytes(bytes(1000))
    scandir = os.scandir

    def delete_then_scan(folder="."):
        """Delete the folder just before it is read, as its owner may do."""
        if os.fspath(folder) == os.fspath(unfinished):
            unfinished.rmdir()
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", delete_then_scan)
    store.prune(limit=0)
    assert not unfinished.exists() and store.measure_cache() == 0


class Payload:
    """An object that creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (open, (self.path, "w"))


def test_weights_never_execute_what_is_in_their_file(tmp_path):
    mark, path = tmp_path / "executed", tmp_path / "weights.npz"
    np.savez(path, w=np.array([Payload(mark)], dtype=object))
    with pytest.raises(ArgumentError, match=r"weights\.npz is not an \.npz file"):
        weights.load(path, {"w": (1,)})
    assert not mark.exists()


def test_progress_never_executes_what_is_in_its_file(fresh, monkeypatch, capsys):
    import pickle

    monkeypatch.delenv("WEFT_SMALL", raising=False)
    records = store.Kept("puzzles")
    mark = fresh / "executed"
    records.path.write_bytes(pickle.dumps(Payload(mark), protocol=0))
    assert records.read() == {} and not mark.exists()
    assert "is damaged" in capsys.readouterr().err


def test_ctrl_c_waits_for_what_must_not_be_torn():
    handler = signal.getsignal(signal.SIGINT)
    events = []
    with pytest.raises(KeyboardInterrupt), defer_interrupts():
        os.kill(os.getpid(), signal.SIGINT)
        events.append("to its end")
    assert events and signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize("name", ["ENOLCK", "ENOSYS", "EOPNOTSUPP"])
def test_a_file_system_without_locks_has_none(name, tmp_path, monkeypatch):
    def refuse(*given):
        raise OSError(getattr(errno, name), name)

    monkeypatch.setattr(fcntl, "flock", refuse)
    for _ in range(2):
        with store.lock_file(tmp_path / "lock", 60):
            pass


def test_an_old_filelock_locks_too(tmp_path, monkeypatch):
    """Hosted notebooks keep their own filelock; 3.25 has no `fallback_to_soft`."""
    new = filelock.FileLock
    monkeypatch.setattr(filelock, "FileLock", lambda lock: new(lock))
    file = (tmp_path / "lock").open("a")
    with file, store.lock_file(tmp_path / "lock", 0.1), pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.slow
def test_a_lock_is_waited_for_and_then_done_without(tmp_path):
    messages = []
    path = tmp_path / "lock"
    second_lock = store.lock_file(path, 1.1, lambda: messages.append("waiting"))
    with store.lock_file(path, 60), second_lock:
        assert messages == ["waiting"]


def test_a_lock_that_cannot_be_made_is_an_error(tmp_path):
    with pytest.raises(IsADirectoryError), store.lock_file(tmp_path, 1):
        pass
