"""Live pictures in a notebook.

paint    a kernel gives every pixel its colour
canvas   a digit drawn, and read by the lab's kernels
predict  a guess first, then what was measured
"""
