"""The puzzles of lesson 01: which thread does what.

map, zip, guards    one block, one direction
map2d, broadcast    one block, rows and columns
blocks, blocks2d    many blocks
grid_stride         fewer threads than numbers
image_filter_numpy, image_filter
                    a picture: first a function of NumPy, then the kernel
"""
