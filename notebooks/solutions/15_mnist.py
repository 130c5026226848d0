"""Answers to the exercises of 15_mnist.ipynb, and mistakes that must not pass."""

import numpy as np


def parameter_counts(channels, hidden, classes):
    c1, c2 = channels
    return {
        "conv1": c1 * 9 + c1,
        "bn1": 2 * c1,
        "conv2": c2 * c1 * 9 + c2,
        "bn2": 2 * c2,
        "fc1": hidden * c2 * 49 + hidden,
        "fc2": classes * hidden + classes,
    }


def confusion(labels, guesses, classes):
    counts = np.zeros((classes, classes), int)
    np.add.at(counts, (labels, guesses), 1)
    return counts


def multiplications(channels, hidden, classes, batch):
    c1, c2 = channels
    conv1 = 9 * c1 * 784
    conv2 = 9 * c1 * c2 * 196
    linear = 49 * c2 * hidden + hidden * classes
    return batch * (2 * conv1 + 3 * (conv2 + linear))


def _without_repeats(labels, guesses, classes):
    counts = np.zeros((classes, classes), int)
    counts[labels, guesses] += 1  # a pair that comes twice is counted once
    return counts


def _changed(**layers):
    """parameter_counts() with some layers counted otherwise."""
    return lambda channels, hidden, classes: (
        parameter_counts(channels, hidden, classes)
        | {name: count(*channels, hidden) for name, count in layers.items()}
    )


MISTAKES = {
    "parameter_counts": [
        _changed(conv1=lambda c1, c2, hidden: c1 * 9),  # no bias
        _changed(conv2=lambda c1, c2, hidden: c2 * 9 + c2),  # one filter an output
        _changed(fc1=lambda c1, c2, hidden: hidden * c2 * 196 + hidden),  # one pool
    ],
    "confusion": [
        _without_repeats,
        lambda labels, guesses, classes: confusion(guesses, labels, classes),
        lambda labels, guesses, classes: confusion(labels, guesses, 10),
    ],
    "multiplications": [
        lambda channels, hidden, classes, batch: (  # forward only
            multiplications(channels, hidden, classes, batch) // 3
        ),
        lambda channels, hidden, classes, batch: (  # without the batch
            multiplications(channels, hidden, classes, 1)
        ),
        lambda channels, hidden, classes, batch: (  # what conv1 owes its input
            multiplications(channels, hidden, classes, batch)
            + batch * 9 * channels[0] * 784
        ),
    ],
}
