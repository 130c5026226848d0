"""The trained weights that come with the lab."""

import numpy as np
import pytest
import torch

from weft.lessons.widgets.canvas import Reader
from weft.mnist import Cnn, data
from weft.mnist.weights import TRAINED, load_trained


@pytest.mark.slow
def test_the_weights_read_the_test_set_with_at_least_98_9_percent():
    test, reader = data.load("test"), Reader()
    right = 0
    # The batches are those in which training evaluates its model.
    for first in range(0, len(test), 1000):
        images = torch.from_numpy(test.images[first : first + 1000])
        guesses = reader.forward(images.to(reader.device))["fc2"].argmax(1).cpu()
        right += int((guesses.numpy() == test.labels[first : first + 1000]).sum())
    assert right / len(test) >= 0.989


def test_the_file_is_small_and_its_arrays_are_those_of_the_model():
    assert TRAINED.stat().st_size < 900_000
    weights = load_trained()
    model = Cnn(max_batch=8)
    model.set_weights(weights)  # this call refuses other names, shapes and dtypes
    for name, values in model.weights.items():
        assert np.array_equal(values, weights[name])
