"""Live pictures in a notebook.

paint    a kernel computes the color of every pixel
canvas   the reader draws a digit, and the lab's kernels read it
predict  the reader guesses first, and then sees the measurement
"""
