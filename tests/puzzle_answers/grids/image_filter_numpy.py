"""Answers to the puzzle image_filter_numpy."""

import numpy as np

from .. import right, wrong


@right("image_filter_numpy")
def rows_then_columns(x):
    around = np.pad(x, 1, mode="edge")
    rows = around[:-2] + around[1:-1] + around[2:]
    return (rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]) / 9


@right("image_filter_numpy")
def row_by_row(x):
    height = len(x)
    columns = np.pad(x, ((0, 0), (1, 1)), mode="edge")
    sums = columns[:, :-2] + columns[:, 1:-1] + columns[:, 2:]
    rows = [
        sums[max(r - 1, 0)] + sums[r] + sums[min(r + 1, height - 1)]
        for r in range(height)
    ]
    return np.stack(rows) / 9


@right("image_filter_numpy")
def windows(x):
    around = np.pad(x, 1, mode="edge")
    return np.lib.stride_tricks.sliding_window_view(around, (3, 3)).mean(axis=(2, 3))


@right("image_filter_numpy")
def by_picked_rows_and_columns(x):
    height, width = x.shape
    total = np.zeros_like(x)
    for up in (-1, 0, 1):
        for left in (-1, 0, 1):
            rows = np.clip(np.arange(height) + up, 0, height - 1)
            columns = np.clip(np.arange(width) + left, 0, width - 1)
            total += x[rows][:, columns]
    return total / 9


@wrong("image_filter_numpy", says="loops over the pixels", where=False)
def copied_from_the_reference(x):
    height, width = x.shape
    around = np.pad(x, 1, mode="edge")
    means = [around[r : r + 3, c : c + 3].mean() for r, c in np.ndindex(x.shape)]
    return np.reshape(means, (height, width))


@wrong("image_filter_numpy", says="loops over the pixels", where=False)
def pixel_by_pixel(x):
    height, width = x.shape
    y = np.zeros_like(x)
    for row in range(height):
        for col in range(width):
            for up in -1, 0, 1:
                for left in -1, 0, 1:
                    r = min(max(row + up, 0), height - 1)
                    c = min(max(col + left, 0), width - 1)
                    y[row, col] += x[r, c] / 9
    return y


@wrong("image_filter_numpy", says="border is wrong, the rest right")
def zeros_around(x):
    around = np.pad(x, 1)
    height, width = x.shape
    shifted = [around[r : r + height, c : c + width] for r, c in np.ndindex(3, 3)]
    return sum(shifted) / 9


@wrong("image_filter_numpy", says=r"result\[0, 0\]")
def rolled_round(x):
    return sum(np.roll(x, shift, (0, 1)) for shift in np.ndindex(3, 3)) / 9


@wrong("image_filter_numpy", says=r"result\[0, 0\]")
def only_a_cross(x):
    around = np.pad(x, 1, mode="edge")
    up, down = around[:-2, 1:-1], around[2:, 1:-1]
    return (x + up + down + around[1:-1, :-2] + around[1:-1, 2:]) / 5


@wrong("image_filter_numpy", says="9 times what it should be")
def not_divided(x):
    around = np.pad(x, 1, mode="edge")
    rows = around[:-2] + around[1:-1] + around[2:]
    return rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]


@wrong("image_filter_numpy", says="shape", where=False)
def smaller_than_it_was(x):
    rows = x[:-2] + x[1:-1] + x[2:]
    return (rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]) / 9


@wrong("image_filter_numpy", says="inputs must stay")
def over_the_input(x):
    around = np.pad(x, 1, mode="edge")
    rows = around[:-2] + around[1:-1] + around[2:]
    x[:] = (rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]) / 9
    return x
