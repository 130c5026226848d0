"""A data set that is not the complete, unchanged MNIST is refused."""

import gzip
import shutil

import numpy as np
import pytest

from weft.base import store
from weft.mnist import data


def test_both_splits_are_mnist():
    train, test = data.load("train"), data.load("test")
    assert train.images.shape == (60000, 28, 28) and train.images.dtype == np.uint8
    assert test.images.shape == (10000, 28, 28) and test.labels.dtype == np.uint8
    assert list(train.labels[:10]) == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert set(test.labels) == set(range(10))


def test_mean_and_std_are_the_training_sets():
    counts = np.bincount(data.load("train").images.ravel(), minlength=256)
    values = np.arange(256) / 255.0
    mean = np.average(values, weights=counts)
    std = np.average((values - mean) ** 2, weights=counts) ** 0.5
    assert abs(mean - data.MEAN) < 5e-5
    assert abs(std - data.STD) < 5e-5


def test_attribution_stands_beside_the_data():
    text = (data.FOLDER / "ATTRIBUTION.txt").read_text()
    for word in ("LeCun", "Cortes", "Burges", "CC BY-SA 3.0"):
        assert word in text


@pytest.fixture
def copy(tmp_path):
    """Copy the test split to a folder, so that a test may damage it."""
    for path in data.FOLDER.glob("t10k-*"):
        shutil.copy(path, tmp_path)
    shutil.copy(data.FOLDER / "SHA256SUMS.raw", tmp_path)
    return tmp_path


def test_one_flipped_bit_is_refused_with_both_hashes(copy):
    path = copy / "t10k-labels-idx1-ubyte.gz"
    content = bytearray(gzip.decompress(path.read_bytes()))
    content[-1] ^= 1
    path.write_bytes(gzip.compress(bytes(content)))
    with pytest.raises(data.DataError, match="damaged") as error:
        data.load("test", copy)
    assert str(path) in str(error.value)
    assert len([w for w in str(error.value).split() if len(w.strip(";")) == 64]) == 2


def test_truncated_file_is_refused(copy):
    path = copy / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:100_000])
    with pytest.raises(data.DataError, match="t10k-images-idx3-ubyte.gz cannot be"):
        data.load("test", copy)


def test_missing_file_is_refused(copy):
    (copy / "t10k-images-idx3-ubyte.gz").unlink()
    with pytest.raises(data.DataError, match="No such file"):
        data.load("test", copy)


def test_unknown_split_and_too_many_images():
    with pytest.raises(data.DataError, match="no split 'valid'"):
        data.load("valid")
    with pytest.raises(data.DataError, match="60001 images"):
        data.load("train").first(60001)
    assert len(data.load("test").first(7)) == 7


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Set the cache to a folder for this test."""
    monkeypatch.setattr(store, "_root", tmp_path)
    monkeypatch.setattr(store, "_temporary", False)
    monkeypatch.setattr(store, "prune_at_exit", lambda: None)
    return tmp_path / "data" / "t10k-images-idx3-ubyte"


def unpacked(monkeypatch) -> list[str]:
    """Return a list that receives the names of all files unpacked later."""
    names = []

    def decompress(packed, real=gzip.decompress):
        names.append(len(packed))
        return real(packed)

    monkeypatch.setattr(gzip, "decompress", decompress)
    return names


def test_a_file_of_the_lab_is_unpacked_once_for_all_processes(kept, monkeypatch):
    packed = data.FOLDER / f"{kept.name}.gz"
    first = data.read_raw(data.FOLDER, kept.name)
    assert first == gzip.decompress(packed.read_bytes())
    times = unpacked(monkeypatch)
    second_copy = data.read_raw(data.FOLDER, kept.name)
    assert times == []
    assert bytes(second_copy) == first and kept.read_bytes() == first
    assert [path.name for path in kept.parent.iterdir()] == [kept.name]


@pytest.mark.parametrize("damage", ["a bit", "its end", "all of it"])
def test_a_damaged_copy_is_made_anew(kept, monkeypatch, damage):
    want = data.read_raw(data.FOLDER, kept.name)
    broken = bytearray(want)
    broken[1000] ^= 1
    kept.write_bytes({"a bit": broken, "its end": want[:-1], "all of it": b""}[damage])
    times = unpacked(monkeypatch)
    assert bytes(data.read_raw(data.FOLDER, kept.name)) == want and len(times) == 1
    assert kept.read_bytes() == want


def test_where_no_copy_can_be_kept_the_data_is_read_all_the_same(kept, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store.tempfile, "mkstemp", full)
    assert len(data.read_raw(data.FOLDER, kept.name)) == 16 + 10_000 * 28 * 28
    assert not kept.exists()


def test_a_cache_that_does_not_last_gets_no_copy(kept, monkeypatch):
    monkeypatch.setattr(store, "_temporary", True)
    data.read_raw(data.FOLDER, kept.name)
    assert not kept.exists()


def test_images_and_labels_are_read_only():
    train = data.load("train")
    assert not train.images.flags.writeable and not train.labels.flags.writeable
