"""Read MNIST from the package's files, and verify it before any training."""

from __future__ import annotations

import contextlib
import functools
import gzip
import hashlib
import mmap
import os
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..base import paths, store
from ..base.errors import ArgumentError

FOLDER = paths.MNIST
MEAN, STD = 0.1307, 0.3081  # mean and deviation of the training set's pixels / 255
FILES = {"train": "train", "test": "t10k"}
# The IDX numbers of uint8 in 3 and 1 dimensions.
IMAGES_MAGIC, LABELS_MAGIC = 2051, 2049


class DataError(ValueError):
    """A data file is missing or invalid, or a request does not fit the data."""


@dataclass(frozen=True)
class Split:
    """images (n,28,28) uint8, with background 0; labels (n) uint8, 0 to 9.

    Both are read-only, since all users in a process share them.
    """

    images: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    def first(self, count: int | None) -> Split:
        """Return the first `count` images, or all if it is None.

        Raises DataError if `count` is below 1 or above the number of images.
        """
        if count is None:
            return self
        if not 1 <= count <= len(self):
            raise DataError(f"{count} images requested; there are 1 to {len(self)}")
        return Split(self.images[:count], self.labels[:count])


def check_arrays(
    name: str, split: Split, size: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return images (count,*size) and labels, contiguous, for the set `name`.

    Labels may be None. Raises ArgumentError, with the numbers, for other arrays.
    """
    images, labels = _check_uint8(f"{name} images", split.images), split.labels
    if images.ndim != 3 or images.shape[1:] != size or not len(images):
        raise ArgumentError(
            f"{name} images have shape {images.shape}; "
            f"the model takes (count,{size[0]},{size[1]}), count at least 1"
        )
    if labels is not None:
        labels = _check_uint8(f"{name} labels", labels)
        if labels.shape != (len(images),):
            raise ArgumentError(
                f"{name} labels have shape {labels.shape}; "
                f"{len(images)} images need ({len(images)},)"
            )
    return images, labels


def _check_uint8(name: str, array: np.ndarray) -> np.ndarray:
    array = np.asarray(array)
    if array.dtype != np.uint8:
        raise ArgumentError(f"{name} are {array.dtype}; expected uint8")
    return np.ascontiguousarray(array)


@functools.cache
def load(split: str, folder: Path = FOLDER) -> Split:
    """Load the "train" (60,000) or "test" (10,000) split.

    Raises DataError, whose message contains the file's name, and both hashes if they
    differ.
    """
    if split not in FILES:
        raise DataError(f"no split '{split}'; there are {', '.join(FILES)}")
    images = _parse_idx(folder, f"{FILES[split]}-images-idx3-ubyte", IMAGES_MAGIC)
    labels = _parse_idx(folder, f"{FILES[split]}-labels-idx1-ubyte", LABELS_MAGIC)
    if len(images) != len(labels):
        raise DataError(f"{split}: {len(images)} images but {len(labels)} labels")
    return Split(images, labels)


def epoch_order(seed: int, epoch: int, count: int, batch: int = 1) -> np.ndarray:
    """Return the order (int32) of `count` images in epoch `epoch`.

    The order contains only full batches. It skips the few remaining images; each epoch
    skips different ones. A smaller batch has a noisier gradient: at lr 0.1, one step on
    the last 32 images took a model from 98.2 to 91.8 % accuracy on the test set.
    """
    order = np.random.default_rng([seed, epoch]).permutation(count)
    return order[: count // batch * batch].astype(np.int32)


def read_raw(folder: Path, name: str) -> bytes | mmap.mmap:
    """Return the unpacked bytes of folder/name.gz, verified by their hash.

    Unpacking takes longer than an epoch on a GPU. The cache therefore contains a copy
    of the lab's own files, which is verified in the same way.
    """
    expected = _read_hashes(folder).get(name)
    if expected is None:
        raise DataError(f"{folder / 'SHA256SUMS.raw'} has no line for {name}")
    copy = None
    if folder == FOLDER and store.is_lasting():
        copy = store.cache_folder("data") / name
        # The copy may be missing or empty.
        with contextlib.suppress(OSError, ValueError):
            data = _map_file(copy)
            if hashlib.sha256(data).hexdigest() == expected:
                # This marks the copy as used; store.prune() deletes the oldest.
                os.utime(copy)
                return data
    data = _unpack_file(folder / f"{name}.gz", expected)
    if copy:
        with contextlib.suppress(OSError):  # a full disk must not stop the run
            store.write(copy, data)
            store.prune_at_exit()
    return data


def _map_file(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _unpack_file(path: Path, expected: str) -> bytes:
    try:
        data = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        reason = str(error) or type(error).__name__
        raise DataError(f"{path} cannot be read: {reason}") from None
    digest = hashlib.sha256(data).hexdigest()
    if digest != expected:
        raise DataError(
            f"{path} is damaged: unpacked it has {len(data)} bytes with SHA-256 "
            f"{digest}; expected {expected}"
        )
    return data


def _parse_idx(folder: Path, name: str, magic: int) -> np.ndarray:
    """Return the array in an IDX file: big-endian magic number, lengths, bytes."""
    data = read_raw(folder, name)
    magic_number = int.from_bytes(data[:4], "big")
    if magic_number != magic:
        raise DataError(f"{folder / name} has magic number {magic_number}, not {magic}")
    dims = magic & 0xFF
    if len(data) < 4 + 4 * dims:
        raise DataError(f"{folder / name} ends in its header, after {len(data)} bytes")
    shape = np.frombuffer(data, ">u4", dims, 4).astype(int)
    if len(data) != 4 + 4 * dims + shape.prod():
        raise DataError(
            f"{folder / name} has {len(data)} bytes, which do not fit shape {shape}"
        )
    return np.frombuffer(data, np.uint8, offset=4 + 4 * dims).reshape(shape)


def _read_hashes(folder: Path) -> dict[str, str]:
    path = folder / "SHA256SUMS.raw"
    try:
        pairs = (line.split() for line in path.read_text().splitlines() if line)
        return {name: digest for digest, name in pairs}
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}") from None
