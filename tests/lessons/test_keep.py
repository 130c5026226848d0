"""keep() moves a user's own files to another folder, and loses none of them."""

import importlib
import json
import os
import subprocess
import sys
import weakref

import pytest

import weft
from weft.base import store
from weft.base.store import CannotWrite, Kept
from weft.commands import magic
from weft.lessons import progress
from weft.tune import session

# Functions hide the modules of the same names.
predict = importlib.import_module("weft.lessons.widgets.predict")
cloth = importlib.import_module("weft.puzzles.progress")
puzzles = importlib.import_module("weft.puzzles.progress")
MODULES = ((progress, "_solved"), (predict, "_kept"), (puzzles, "_kept"))


@pytest.fixture
def drive(tmp_path, monkeypatch):
    """Return a mounted drive's folder; the cache and the checkout are empty folders."""
    monkeypatch.delenv("WEFT_SMALL", raising=False)
    monkeypatch.setenv(store.KEEP, "")  # monkeypatch restores it after the test
    monkeypatch.setattr(store, "_root", tmp_path / "cache")
    monkeypatch.setattr(progress, "ROOT", tmp_path / "checkout")
    monkeypatch.setattr(magic, "ROOT", tmp_path / "checkout")
    (tmp_path / "checkout" / "kernels").mkdir(parents=True)
    (tmp_path / "drive").mkdir()
    for module, name in (*MODULES, (cloth, "_shown")):
        old = getattr(module, name)
        monkeypatch.setattr(module, name, Kept(old.name, old.merge))
    own = [getattr(module, name) for module, name in (*MODULES, (cloth, "_shown"))]
    monkeypatch.setattr(store, "all_kept", weakref.WeakSet(own))
    return tmp_path / "drive"


def new_machine(tmp_path, monkeypatch, name):
    monkeypatch.setenv(store.KEEP, "")
    monkeypatch.setattr(store, "_root", tmp_path / name)
    monkeypatch.setattr(progress, "ROOT", tmp_path / f"checkout {name}")
    (tmp_path / f"checkout {name}" / "kernels").mkdir(parents=True)


def solve(name, language="Python"):
    puzzles._kept.change(
        lambda records: puzzles._merge(
            records, name, language, {"when": "2026-11-27", "within": True, "score": {}}
        )
    )


def test_records_move_and_stay_there(drive, tmp_path, capsys):
    progress.remember_exercise("double")
    predict.predict("How many threads?", 32).measured(64)
    solve("map")
    weft.keep(drive / "weft")
    assert f"are in {drive / 'weft'}.\n" in capsys.readouterr().out
    assert not list((tmp_path / "cache" / "kept").glob("*.json"))
    names = {"exercises.json", "guesses.json", "puzzles.json"}
    assert names <= {path.name for path in (drive / "weft").iterdir()}
    # The folder contains later records, too, and later calls change nothing.
    progress.remember_exercise("triple")
    weft.keep(drive / "weft")
    assert set(json.loads((drive / "weft/exercises.json").read_text())) == {
        *("double", "triple")
    }
    assert puzzles.read_progress().state("map") == puzzles.WITHIN
    assert predict.guessed_questions() == {"How many threads?"}


def test_records_of_two_machines_are_joined(drive, tmp_path, monkeypatch):
    solve("map")
    predict.predict("How many?", 1).measured(4)
    predict.predict("How long?", 1).measured(4)
    progress._solved.change(lambda r: r.update(double={"when": "2026-11-20"}))
    cloth._shown.change(lambda r: r.update(count=5))
    weft.keep(drive)
    new_machine(tmp_path, monkeypatch, "second")
    assert puzzles.read_progress().count == 0
    solve("map", "CUDA C")
    solve("zip")
    predict.predict("How many?", 2).measured(4)
    progress._solved.change(lambda r: r.update(double={"when": "2026-11-27"}))
    cloth._shown.change(lambda r: r.update(count=3))
    weft.keep(str(drive))
    assert set(puzzles._kept.read()) == {"map", "zip"}
    assert set(puzzles._kept.read()["map"]) == {"Python", "CUDA C"}
    guesses = {q: r["guess"] for q, r in predict._kept.read().items()}
    assert guesses == {"How long?": 1, "How many?": 2}  # the newest guess is the last
    assert progress._solved.read() == {"double": {"when": "2026-11-20"}}
    assert cloth._shown.read() == {"count": 5}


def test_records_in_memory_are_written(drive, tmp_path, monkeypatch, capsys):
    """On a disk that cannot be written, records wait for keep()."""
    monkeypatch.setenv(store.KEEP, str(tmp_path / "none" / "weft"))
    progress.remember_exercise("double")
    assert "kept for this session only" in capsys.readouterr().err
    weft.keep(drive)
    assert json.loads((drive / "exercises.json").read_text()).keys() == {"double"}


def test_records_of_modules_that_are_not_imported_move(drive, tmp_path):
    Kept("of another module").change(lambda records: records.update(a=1))
    weft.keep(drive)
    assert json.loads((drive / "of another module.json").read_text()) == {"a": 1}


def test_a_drive_that_is_not_mounted_is_one_sentence(drive, tmp_path, monkeypatch):
    progress.remember_exercise("double")
    monkeypatch.setattr(progress, "DRIVE", tmp_path / "content" / "drive")
    with pytest.raises(CannotWrite) as caught:
        weft.keep(tmp_path / "content/drive/MyDrive/weft")
    assert "your Drive is not mounted. Run: from google.colab" in str(caught.value)
    assert "drive.mount(" in str(caught.value)
    assert not os.environ[store.KEEP]
    assert not (tmp_path / "content").exists()  # no new folder hides a later mount
    assert progress._solved.read().keys() == {"double"}
    with pytest.raises(CannotWrite, match="there is no folder"):
        weft.keep(tmp_path / "absent" / "weft")


def test_a_folder_that_cannot_be_written_keeps_the_old_one(drive, tmp_path):
    progress.remember_exercise("double")
    (tmp_path / "file").touch()
    with pytest.raises(CannotWrite, match="cannot be written"):
        weft.keep(tmp_path / "file")
    assert progress._solved.read().keys() == {"double"}


def test_a_drive_that_vanishes_ends_neither_the_session_nor_the_records(
    drive, tmp_path, capsys
):
    (drive / "My").mkdir()
    weft.keep(drive / "My" / "weft")
    progress.remember_exercise("double")
    (drive / "My").rename(drive / "away")
    progress.remember_exercise("triple")
    assert "kept for this session only" in capsys.readouterr().err
    assert not (drive / "My").exists()
    assert session._choose_folder() == tmp_path / "cache" / "tuned"
    (drive / "away").rename(drive / "My")
    weft.keep(drive / "My" / "weft")
    assert progress._solved.read().keys() == {"double", "triple"}


def test_tuned_constants_live_there_and_compiled_code_does_not(drive, tmp_path):
    folder = store.cache_folder("tuned")
    (folder / "a.json").write_text("{}")
    (folder / "a.so").write_text("code")
    weft.keep(drive)
    assert [path.name for path in (drive / "tuned").iterdir()] == ["a.json"]
    assert session._choose_folder() == drive / "tuned"


def test_saved_kernels_return_to_a_new_machine(drive, tmp_path, monkeypatch):
    weft.keep(drive)
    path = magic.save("kernels/mine/x.cu", "one")
    assert (drive / "kernels/kernels/mine/x.cu").read_text() == path.read_text()
    new_machine(tmp_path, monkeypatch, "second")
    checkout = progress.ROOT
    (checkout / "kernels/relu.cu").write_text("the lab's")
    weft.keep(drive)
    assert (checkout / "kernels/mine/x.cu").read_text() == path.read_text()
    assert not (drive / "kernels/kernels/relu.cu").exists()


def test_of_two_versions_of_a_kernel_the_newer_one_wins(drive, tmp_path):
    weft.keep(drive)
    here = magic.save("kernels/x.cu", "old")
    there = drive / "kernels/kernels/x.cu"
    there.write_text(f"{store.SAVED}new")
    os.utime(here, (1, 1))
    weft.keep(drive)
    assert here.read_text() == there.read_text() == f"{store.SAVED}new"
    assert (drive / "kernels/kernels/x.old.cu").read_text().endswith("old")
    here.write_text("by hand")  # without the mark, the file is the reader's own
    weft.keep(drive)
    assert here.read_text() == "by hand"
    assert there.read_text() == f"{store.SAVED}new"


def test_a_child_process_finds_the_folder(drive):
    weft.keep(drive)
    progress.remember_exercise("double")
    code = "from weft.base.store import Kept; print([*Kept('exercises').read()])"
    process = subprocess.run(
        [sys.executable, "-c", code], text=True, capture_output=True, check=True
    )
    assert process.stdout == "['double']\n"
